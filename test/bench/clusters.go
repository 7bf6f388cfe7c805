// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/pem"
	"errors"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"drover.io/test/bench/fakeinfra"
	"drover.io/test/framework"
)

// reach returns how the core reaches each cluster of a scenario. One cluster is the workload cluster
// itself. Many share it: a proxy in front of it returns only the Nodes of one cluster.
func reach(stack *framework.Stack, of scenario) (kubeconfig func(cluster string) ([]byte, error), closed func(), err error) {
	direct := func(string) ([]byte, error) { return stack.Workload.Kubeconfig(coreUser, "system:masters") }
	if of.clusters == 1 {
		return direct, func() {}, nil
	}
	file, err := direct("")
	if err != nil {
		return nil, nil, err
	}
	config, err := clientcmd.RESTConfigFromKubeConfig(file)
	if err != nil {
		return nil, nil, err
	}
	proxy, err := share(config)
	if err != nil {
		return nil, nil, err
	}
	return func(cluster string) ([]byte, error) { return through(proxy, cluster) }, proxy.Close, nil
}

// share serves /<cluster>/… from the API server of the config.
func share(config *rest.Config) (*httptest.Server, error) {
	transport, err := rest.TransportFor(config)
	if err != nil {
		return nil, err
	}
	target, err := url.Parse(config.Host)
	if err != nil {
		return nil, err
	}
	proxy := httptest.NewUnstartedServer(&httputil.ReverseProxy{
		Transport: transport,
		Rewrite: func(r *httputil.ProxyRequest) {
			cluster, path, _ := strings.Cut(strings.TrimPrefix(r.In.URL.Path, "/"), "/")
			r.Out.URL.Path, r.Out.URL.RawPath = "/"+path, ""
			if path == "api/v1/nodes" {
				query := r.Out.URL.Query()
				query.Set("labelSelector", fakeinfra.ClusterLabel+"="+cluster)
				r.Out.URL.RawQuery = query.Encode()
			}
			r.SetURL(target)
		},
		FlushInterval: -1,
	})
	proxy.EnableHTTP2 = true
	proxy.StartTLS()
	return proxy, nil
}

// through is a kubeconfig for one cluster behind the proxy, which identifies the cluster by it.
func through(proxy *httptest.Server, cluster string) ([]byte, error) {
	certificate := proxy.Certificate()
	if certificate == nil {
		return nil, errors.New("the proxy has no certificate")
	}
	kubeconfig := clientcmdapi.NewConfig()
	kubeconfig.Clusters[cluster] = &clientcmdapi.Cluster{
		Server:                   proxy.URL + "/" + cluster,
		CertificateAuthorityData: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate.Raw}),
	}
	kubeconfig.AuthInfos[cluster] = &clientcmdapi.AuthInfo{Token: "anyone"}
	kubeconfig.Contexts[cluster] = &clientcmdapi.Context{Cluster: cluster, AuthInfo: cluster}
	kubeconfig.CurrentContext = cluster
	return clientcmd.Write(*kubeconfig)
}
