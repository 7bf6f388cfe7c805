// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Package workload connects to the workload cluster of a Cluster, with the kubeconfig in its Secret. A
// connection is small: no cache, no discovery, short timeouts, and while the API server does not answer, calls
// fail at once instead of each waiting for a timeout. It knows nothing of tokens and Nodes; the controllers of
// this module use it.
package workload

import (
	"context"
	"errors"
	"net"
	"net/http"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	authorizationv1client "k8s.io/client-go/kubernetes/typed/authorization/v1"
	certificatesv1client "k8s.io/client-go/kubernetes/typed/certificates/v1"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	discoveryv1client "k8s.io/client-go/kubernetes/typed/discovery/v1"
	rbacv1client "k8s.io/client-go/kubernetes/typed/rbac/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"drover.io/runtime/egress"
	"drover.io/runtime/httplimit"
	"drover.io/runtime/kubeconfig"
)

// maxAnswer is how many bytes one answer of a workload cluster may have: the largest is a page of certificate requests.
const maxAnswer = 64 << 20

// maxElements is how many objects, arrays and values in them an answer may have, or an event of a watch. A usual request
// for a certificate has less than a hundred, a Node of a control plane some hundreds.
const maxElements = 50_000

// longAnswers is how many answers of more than shortAnswer bytes are read at the same time, from all workload clusters
// together.
const longAnswers, shortAnswer = 6, 256 << 10

// timeout is the longest that a worker waits for a workload cluster.
const timeout = 10 * time.Second

// Server is what a kubeconfig says of the API server.
type Server struct {
	// URL is where this process reaches the API server.
	URL string

	// TLSServerName is what its certificate is checked against; empty is the host of the URL.
	TLSServerName string

	// CA is the PEM bundle that its certificate is verified with.
	CA []byte
}

// Connection reaches one workload cluster.
type Connection struct {
	Server Server
	Core   corev1client.CoreV1Interface
	RBAC   rbacv1client.RbacV1Interface
	// Discovery reads EndpointSlices.
	Discovery discoveryv1client.DiscoveryV1Interface
	// Authorization asks what somebody else may do.
	Authorization authorizationv1client.AuthorizationV1Interface

	// Certificates has no timeout of its own, so that it can watch: bound other calls by their context.
	Certificates certificatesv1client.CertificatesV1Interface

	breaker *breaker
	secret  string   // UID and resourceVersion of the Secret it was made from
	done    sync.Map // time.Time by key
}

// RetryAfter is how long it makes no sense to call again.
func (c *Connection) RetryAfter() time.Duration { return c.breaker.remaining() }

// DoneWithin reports whether MarkDone was called with this key on this connection, not longer than age ago: what needs
// doing now and then need not be done by each reconcile.
func (c *Connection) DoneWithin(key string, age time.Duration) bool {
	found, _ := c.done.Load(key)
	at, done := found.(time.Time)
	return done && c.breaker.clock.Since(at) < age
}

// MarkDone remembers that something was done now.
func (c *Connection) MarkDone(key string) { c.done.Store(key, c.breaker.clock.Now()) }

// Connections holds one Connection per Cluster, as long as its Secret does not change.
type Connections struct {
	reader client.Reader
	clock  clock.PassiveClock

	long *httplimit.Places

	mu          sync.Mutex
	connections map[types.NamespacedName]*Connection

	// AllowProxy accepts kubeconfigs with a proxy-url: whoever may write one can then have this
	// process connect to any host. Set it before the first Get.
	AllowProxy bool
}

// NewConnections returns Connections that read Secrets with reader, which should not cache them.
func NewConnections(reader client.Reader, clock clock.PassiveClock) *Connections {
	return &Connections{
		reader: reader, clock: clock, long: httplimit.NewPlaces(longAnswers, shortAnswer), connections: map[types.NamespacedName]*Connection{},
	}
}

// Get returns the connection to the workload cluster of a Cluster. An error that waiting does not mend is a
// [*kubeconfig.Error].
func (c *Connections) Get(ctx context.Context, cluster types.NamespacedName) (*Connection, error) {
	found, err := kubeconfig.Read(ctx, c.reader, cluster)
	if bad, is := errors.AsType[*kubeconfig.Error](err); is && bad.Problem == kubeconfig.Unreadable {
		return nil, errors.New(bad.Message)
	}
	if err != nil {
		c.Forget(cluster)
		return nil, err
	}
	version := string(found.UID) + "/" + found.ResourceVersion
	c.mu.Lock()
	defer c.mu.Unlock()
	if known := c.connections[cluster]; known != nil && known.secret == version {
		return known, nil
	}
	config, err := kubeconfig.Rules{AllowProxy: c.AllowProxy, RequireCA: true}.RESTConfig(found.Content)
	if err != nil {
		return nil, err
	}
	connection, err := c.connect(config, cluster.Namespace)
	if err != nil {
		return nil, &kubeconfig.Error{Problem: kubeconfig.Invalid, Message: "kubeconfig: its CA, certificate or key is not valid"}
	}
	connection.secret = version
	c.connections[cluster] = connection
	return connection, nil
}

// Forget drops the connection to a Cluster that is gone.
func (c *Connections) Forget(cluster types.NamespacedName) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.connections, cluster)
}

func (c *Connections) connect(config *rest.Config, namespace string) (*Connection, error) {
	b := &breaker{clock: c.clock}
	config.Timeout, config.QPS, config.Burst, config.UserAgent = timeout, 50, 100, "drover-bootstrap"
	config.Dial = egress.Dial(net.Dialer{Timeout: timeout / 2, KeepAlive: 30 * time.Second})
	// JSON is what can be bounded before it is decoded.
	config.ContentType, config.AcceptContentTypes = runtime.ContentTypeJSON, runtime.ContentTypeJSON
	if config.Proxy == nil {
		config.Proxy = http.ProxyFromEnvironment
	}
	config.Proxy = egress.Proxy(config.Proxy)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return b.wrap(c.long.Wrap(httplimit.WrapJSON(next, maxAnswer, maxElements), namespace))
	})
	httpClient, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, err
	}
	httpClient.CheckRedirect = egress.NoRedirects
	core, err := corev1client.NewForConfigAndClient(config, httpClient)
	if err != nil {
		return nil, err
	}
	rbac, err := rbacv1client.NewForConfigAndClient(config, httpClient)
	if err != nil {
		return nil, err
	}
	authorization, err := authorizationv1client.NewForConfigAndClient(config, httpClient)
	if err != nil {
		return nil, err
	}
	discovery, err := discoveryv1client.NewForConfigAndClient(config, httpClient)
	if err != nil {
		return nil, err
	}
	watching := rest.CopyConfig(config)
	watching.Timeout = 0
	watchClient, err := rest.HTTPClientFor(watching)
	if err != nil {
		return nil, err
	}
	watchClient.CheckRedirect = egress.NoRedirects
	certificates, err := certificatesv1client.NewForConfigAndClient(watching, watchClient)
	if err != nil {
		return nil, err
	}
	return &Connection{
		Server: Server{URL: config.Host, TLSServerName: config.ServerName, CA: config.CAData},
		Core:   core, RBAC: rbac, Discovery: discovery, Authorization: authorization, Certificates: certificates, breaker: b,
	}, nil
}
