// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"net/http"
	"net/url"

	"k8s.io/client-go/rest"
)

// metricsHost is the host in the URLs of clients, instead of that of the API server. client-go counts requests by host,
// and what it has counted stays for ever: with their own hosts, kubeconfigs that change would fill the memory.
const metricsHost = "workload-cluster"

// toServer sends requests for metricsHost to the API server.
type toServer struct {
	http.RoundTripper
	host string
}

// RoundTrip implements http.RoundTripper.
func (t toServer) RoundTrip(request *http.Request) (*http.Response, error) {
	if request.URL.Host != metricsHost {
		return t.RoundTripper.RoundTrip(request)
	}
	sent, target := request.WithContext(request.Context()), *request.URL
	target.Host = t.host
	sent.URL, sent.Host = &target, t.host
	return t.RoundTripper.RoundTrip(sent)
}

// anonymous returns the URL of an API server with metricsHost as its host, and the host.
func anonymous(config *rest.Config) (server, host string, err error) {
	base, _, err := rest.DefaultServerUrlFor(config)
	if err != nil {
		return "", "", err
	}
	replaced := url.URL{Scheme: base.Scheme, Host: metricsHost, Path: base.Path, RawPath: base.RawPath}
	return replaced.String(), base.Host, nil
}
