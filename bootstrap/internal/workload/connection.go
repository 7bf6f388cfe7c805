// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	certificatesv1client "k8s.io/client-go/kubernetes/typed/certificates/v1"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	rbacv1client "k8s.io/client-go/kubernetes/typed/rbac/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Connection reaches one workload cluster.
type Connection struct {
	Server Server
	Core   corev1client.CoreV1Interface
	RBAC   rbacv1client.RbacV1Interface

	// Certificates has no timeout of its own, so that it can watch: bound other calls by their context.
	Certificates certificatesv1client.CertificatesV1Interface

	breaker *breaker
	secret  string // UID and resourceVersion of the Secret it was made from
	done    sync.Map
}

// RetryAfter is how long it makes no sense to call again.
func (c *Connection) RetryAfter() time.Duration { return c.breaker.remaining() }

// Done tells whether MarkDone was called with this key on this connection: what needs doing once per
// connection need not be done by each reconcile.
func (c *Connection) Done(key string) bool { _, done := c.done.Load(key); return done }

// MarkDone remembers that something was done.
func (c *Connection) MarkDone(key string) { c.done.Store(key, nil) }

// Connections holds one Connection per Cluster, as long as its Secret does not change.
type Connections struct {
	reader client.Reader
	clock  clock.PassiveClock

	mu          sync.Mutex
	connections map[types.NamespacedName]*Connection
}

// NewConnections returns Connections that read Secrets with reader, which should not cache them.
func NewConnections(reader client.Reader, clock clock.PassiveClock) *Connections {
	return &Connections{reader: reader, clock: clock, connections: map[types.NamespacedName]*Connection{}}
}

// SecretName is the name of the Secret that holds the kubeconfig of a Cluster.
func SecretName(cluster string) string { return cluster + "-kubeconfig" }

// Get returns the connection to the workload cluster of a Cluster. An error that waiting does not mend is a
// *KubeconfigError.
func (c *Connections) Get(ctx context.Context, cluster types.NamespacedName) (*Connection, error) {
	name := SecretName(cluster.Name)
	secret := &corev1.Secret{}
	if err := c.reader.Get(ctx, types.NamespacedName{Namespace: cluster.Namespace, Name: name}, secret); err != nil {
		if apierrors.IsNotFound(err) {
			c.Forget(cluster)
			return nil, &KubeconfigError{Secret: name, Missing: true, Detail: "does not exist: create it with the kubeconfig of the workload cluster under the key \"value\""}
		}
		return nil, fmt.Errorf("reading kubeconfig Secret: %w", err)
	}
	data, found := secret.Data["value"]
	if !found {
		return nil, &KubeconfigError{Secret: name, Missing: true, Detail: "has no key \"value\": put the kubeconfig of the workload cluster there"}
	}
	version := string(secret.UID) + "/" + secret.ResourceVersion
	c.mu.Lock()
	defer c.mu.Unlock()
	if known := c.connections[cluster]; known != nil && known.secret == version {
		return known, nil
	}
	config, server, err := parse(data)
	if err != nil {
		return nil, &KubeconfigError{Secret: name, Detail: err.Error()}
	}
	connection, err := c.connect(config)
	if err != nil {
		return nil, &KubeconfigError{Secret: name, Detail: "its CA, certificate or key is not valid"}
	}
	connection.Server, connection.secret = server, version
	c.connections[cluster] = connection
	return connection, nil
}

// Forget drops the connection to a Cluster that is gone.
func (c *Connections) Forget(cluster types.NamespacedName) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.connections, cluster)
}

func (c *Connections) connect(config *rest.Config) (*Connection, error) {
	b := &breaker{clock: c.clock}
	config.Wrap(b.wrap)
	httpClient, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, err
	}
	core, err := corev1client.NewForConfigAndClient(config, httpClient)
	if err != nil {
		return nil, err
	}
	rbac, err := rbacv1client.NewForConfigAndClient(config, httpClient)
	if err != nil {
		return nil, err
	}
	watching := rest.CopyConfig(config)
	watching.Timeout = 0
	certificates, err := certificatesv1client.NewForConfig(watching)
	if err != nil {
		return nil, err
	}
	return &Connection{Core: core, RBAC: rbac, Certificates: certificates, breaker: b}, nil
}
