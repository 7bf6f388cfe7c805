// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package kubelet

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	certificatesv1 "k8s.io/client-go/kubernetes/typed/certificates/v1"
	coordinationv1 "k8s.io/client-go/kubernetes/typed/coordination/v1"
	corev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
)

// connection is a connection to the API server with one identity: one HTTP/2 connection and only the clients that a
// kubelet needs, because a process has thousands of them. The transport cache of client-go never drops a certificate, so
// each connection has a transport of its own.
type connection struct {
	core      corev1.CoreV1Interface
	leases    coordinationv1.LeasesGetter
	requests  certificatesv1.CertificateSigningRequestInterface
	raw       rest.Interface
	transport *http.Transport
}

// dial connects with a token or with a certificate.
func dial(config *Config, token string, certificate *tls.Certificate) (*connection, error) {
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(config.CA) {
		return nil, errors.New("the certificate authority of the bootstrap kubeconfig is not PEM")
	}
	secure := &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}
	if certificate != nil {
		secure.Certificates = []tls.Certificate{*certificate}
	}
	transport := utilnet.SetTransportDefaults(&http.Transport{
		TLSClientConfig:     secure,
		TLSHandshakeTimeout: 20 * time.Second,
		DialContext:         (&net.Dialer{Timeout: 20 * time.Second, KeepAlive: 30 * time.Second}).DialContext,
		MaxIdleConnsPerHost: 2,
	})
	settings := &rest.Config{
		Host:          config.Server,
		BearerToken:   token,
		Transport:     transport,
		QPS:           -1,
		UserAgent:     "drover-sim-kubelet",
		ContentConfig: rest.ContentConfig{AcceptContentTypes: "application/vnd.kubernetes.protobuf,application/json", ContentType: "application/vnd.kubernetes.protobuf"},
	}
	return clients(settings, transport)
}

func clients(settings *rest.Config, transport *http.Transport) (*connection, error) {
	client, err := rest.HTTPClientFor(settings)
	if err != nil {
		return nil, err
	}
	core, err := corev1.NewForConfigAndClient(settings, client)
	if err != nil {
		return nil, err
	}
	leases, err := coordinationv1.NewForConfigAndClient(settings, client)
	if err != nil {
		return nil, err
	}
	requests, err := certificatesv1.NewForConfigAndClient(settings, client)
	if err != nil {
		return nil, err
	}
	return &connection{
		core:      core,
		leases:    leases,
		requests:  requests.CertificateSigningRequests(),
		raw:       core.RESTClient(),
		transport: transport,
	}, nil
}

func (c *connection) close() { c.transport.CloseIdleConnections() }

// permanentReason returns the reason of an error that a retry cannot resolve; ok is false for any other.
func permanentReason(err error) (reason string, ok bool) {
	if unknown, is := errors.AsType[x509.UnknownAuthorityError](err); is {
		return fmt.Sprintf("the API server's certificate is not signed by the CA of the bootstrap kubeconfig: %v", unknown), true
	}
	if wrong, is := errors.AsType[x509.HostnameError](err); is {
		return fmt.Sprintf("the API server's certificate is for another name: %v", wrong), true
	}
	if apierrors.IsUnauthorized(err) {
		return "the API server does not accept the credentials: the bootstrap token is wrong or expired", true
	}
	if apierrors.IsForbidden(err) {
		return err.Error(), true
	}
	return "", false
}

// pause waits unless the context ends first.
func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}
