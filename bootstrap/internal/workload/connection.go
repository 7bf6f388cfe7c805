// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Package workload connects to the workload cluster of a Cluster, with the kubeconfig in its Secret. A
// connection is small: no cache, no discovery, short timeouts, and while the API server does not answer, calls
// fail at once instead of each waiting for a timeout. What is read and written by it is decided by the controllers of this
// module.
package workload

import (
	"context"
	"errors"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	authorizationv1client "k8s.io/client-go/kubernetes/typed/authorization/v1"
	certificatesv1client "k8s.io/client-go/kubernetes/typed/certificates/v1"
	coordinationv1client "k8s.io/client-go/kubernetes/typed/coordination/v1"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	discoveryv1client "k8s.io/client-go/kubernetes/typed/discovery/v1"
	rbacv1client "k8s.io/client-go/kubernetes/typed/rbac/v1"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"drover.io/runtime/expiring"
	"drover.io/runtime/kubeconfig"
	"drover.io/runtime/workload"
)

// maxElements is how many objects, arrays and values in them an answer may have, or an event of a watch. A usual request
// for a certificate has less than a hundred, a Node of a control plane some hundreds.
const maxElements = 50_000

// timeout is the longest that a worker waits for a workload cluster.
const timeout = 10 * time.Second

// maxChecks bounds the keys of what is checked periodically on a connection.
const maxChecks = 100

// Server is the API server of a kubeconfig.
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
	// Coordination reads who acts on the workload cluster.
	Coordination coordinationv1client.CoordinationV1Interface
	// Authorization reviews what another user may do.
	Authorization authorizationv1client.AuthorizationV1Interface

	// Certificates has no timeout of its own, so that it can watch: bound other calls by their context. What it lists
	// and watches is bounded.
	Certificates certificatesv1client.CertificatesV1Interface

	transport *workload.Transport
	breaker   *breaker
	secret    string // UID and resourceVersion of the Secret it was made from
	checks    expiring.Limiter[string]
}

// RetryAfter returns how long every call fails at once.
func (c *Connection) RetryAfter() time.Duration { return c.breaker.remaining() }

// CheckDue reports whether the last call of MarkChecked with this key on this connection is longer ago than its period:
// what is checked periodically need not be checked by each reconcile.
func (c *Connection) CheckDue(key string) bool { return c.checks.Remaining(key) == 0 }

// MarkChecked notes that something was checked now, and is to be checked again after the period.
func (c *Connection) MarkChecked(key string, period time.Duration) { c.checks.MarkFor(key, period) }

// Connections holds one Connection per Cluster, as long as its Secret does not change.
type Connections struct {
	reader client.Reader
	clock  clock.PassiveClock

	dialer *workload.Dialer
	pace   *requestPace

	mu          sync.Mutex
	connections map[types.NamespacedName]*Connection
	// refused are why the Secrets of Clusters cannot be used, so that each version of one is parsed once.
	refused map[types.NamespacedName]refusal

	// AllowProxy accepts kubeconfigs with a proxy-url: by such a URL the author of a kubeconfig makes this process connect
	// to any host. Set it before the first Get.
	AllowProxy bool
}

// refusal is why one version of a Secret cannot be used.
type refusal struct {
	secret string
	err    error
}

// NewConnections returns Connections that read Secrets with reader, which should not cache them.
func NewConnections(reader client.Reader, clock clock.PassiveClock) *Connections {
	return &Connections{
		reader: reader, clock: clock, pace: newRequestPace(clock), connections: map[types.NamespacedName]*Connection{}, refused: map[types.NamespacedName]refusal{},
		dialer: workload.NewDialer(workload.Options{UserAgent: "drover-bootstrap", DialTimeout: timeout / 2, MaxElements: maxElements}),
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
		c.Remove(cluster)
		return nil, err
	}
	version := string(found.UID) + "/" + found.ResourceVersion
	if connection, err := c.known(cluster, version); connection != nil || err != nil {
		return connection, err
	}
	// The kubeconfig is parsed without the lock: the workers of other Clusters do not wait for it.
	connection, err := c.open(found.Content, cluster)
	c.mu.Lock()
	defer c.mu.Unlock()
	if err != nil {
		c.refused[cluster] = refusal{version, err}
		return nil, err
	}
	if known := c.connections[cluster]; known != nil && known.secret == version {
		return known, nil // another worker was faster
	}
	connection.secret = version
	c.drop(cluster)
	c.connections[cluster] = connection
	return connection, nil
}

// known returns the connection by a version of the Secret, or why there is none; neither where that is not known.
func (c *Connections) known(cluster types.NamespacedName, version string) (*Connection, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if known := c.connections[cluster]; known != nil && known.secret == version {
		return known, nil
	}
	if known := c.refused[cluster]; known.err != nil && known.secret == version {
		return nil, known.err
	}
	return nil, nil
}

// open makes a connection, without sending anything. Its error is a [*kubeconfig.Error].
func (c *Connections) open(content string, cluster types.NamespacedName) (*Connection, error) {
	config, err := kubeconfig.Rules{AllowProxy: c.AllowProxy, RequireCA: true}.RESTConfig(content)
	if err != nil {
		return nil, err
	}
	connection, err := c.connect(config, cluster)
	if err != nil {
		return nil, &kubeconfig.Error{Problem: kubeconfig.Invalid, Message: "kubeconfig: its CA, certificate or key is not valid"}
	}
	return connection, nil
}

// Remove drops the connection to a Cluster that is gone.
func (c *Connections) Remove(cluster types.NamespacedName) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.drop(cluster)
}

// drop removes a connection. Requests that are under way on it still end as they would.
func (c *Connections) drop(cluster types.NamespacedName) {
	delete(c.refused, cluster)
	if known := c.connections[cluster]; known != nil {
		known.transport.CloseIdle()
		delete(c.connections, cluster)
	}
}

func (c *Connections) connect(config *rest.Config, cluster types.NamespacedName) (*Connection, error) {
	transport, err := c.dialer.Open(config, cluster.Namespace)
	if err != nil {
		return nil, err
	}
	b := &breaker{clock: c.clock, log: ctrl.Log.WithName("workload").WithValues("Cluster", klog.KRef(cluster.Namespace, cluster.Name))}
	guarded := b.wrap(transport.WithSeats())
	limited := transport.Config()
	limited.QPS, limited.Burst = 50, 100
	bounded := workload.HTTPClient(guarded, timeout)
	core, err := corev1client.NewForConfigAndClient(limited, bounded)
	if err != nil {
		return nil, err
	}
	rbac, err := rbacv1client.NewForConfigAndClient(limited, bounded)
	if err != nil {
		return nil, err
	}
	authorization, err := authorizationv1client.NewForConfigAndClient(limited, bounded)
	if err != nil {
		return nil, err
	}
	discovery, err := discoveryv1client.NewForConfigAndClient(limited, bounded)
	if err != nil {
		return nil, err
	}
	coordination, err := coordinationv1client.NewForConfigAndClient(limited, bounded)
	if err != nil {
		return nil, err
	}
	certificates, err := certificatesv1client.NewForConfigAndClient(limited, workload.HTTPClient(c.pace.wrap(guarded, cluster.Namespace), 0))
	if err != nil {
		return nil, err
	}
	return &Connection{
		Server: Server{URL: transport.Host(), TLSServerName: config.ServerName, CA: config.CAData},
		Core:   core, RBAC: rbac, Discovery: discovery, Authorization: authorization, Coordination: coordination, Certificates: certificates,
		transport: transport, breaker: b, checks: expiring.Limiter[string]{Clock: c.clock, Max: maxChecks},
	}, nil
}
