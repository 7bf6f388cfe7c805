// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/flowcontrol"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"drover.io/machine-controller/internal/workload/nodecache"
)

// dialer makes Connections. It is shared by all clusters.
type dialer struct {
	options *Options
	scheme  *runtime.Scheme
	mapper  meta.RESTMapper
	syncs   chan struct{}
}

func newDialer(options *Options) *dialer {
	return &dialer{
		options: options,
		scheme:  newScheme(),
		mapper:  newMapper(),
		syncs:   make(chan struct{}, options.ConcurrentSyncs),
	}
}

// call is one attempt to connect.
type call struct {
	cluster client.ObjectKey
	// present is the content of the kubeconfig that is in use and works; there
	// is nothing to do if the Secret still holds it.
	present string
	// plainList asks for the Nodes in one piece rather than streamed.
	plainList bool
	observer  nodecache.Observer
}

// answer is how a call ended: with a Connection, with nothing to do, or with a failure.
type answer struct {
	connection *Connection
	failure    *failure
	// secretVersion is the resourceVersion of the Secret that was read, if it was.
	secretVersion string
}

// dial reads the kubeconfig and connects. It returns a Connection only after
// all Nodes are in its cache.
func (d *dialer) dial(ctx context.Context, c call) answer {
	readCtx, cancel := context.WithTimeout(ctx, d.options.ProbeTimeout)
	defer cancel()
	found, failure := readKubeconfig(readCtx, d.options.Reader, c.cluster)
	if failure != nil {
		return answer{failure: failure, secretVersion: found.resourceVersion}
	}
	if found.content == c.present {
		return answer{secretVersion: found.resourceVersion}
	}
	config, failure := d.options.restConfig(found.content)
	if failure != nil {
		return answer{failure: failure, secretVersion: found.resourceVersion}
	}
	connection, failure := d.open(config, c)
	if failure != nil {
		return answer{failure: failure, secretVersion: found.resourceVersion}
	}
	connection.content = found.content
	if failure = d.probe(ctx, connection); failure == nil {
		failure = d.sync(ctx, connection)
	}
	if failure != nil {
		connection.close()
		return answer{failure: failure, secretVersion: found.resourceVersion}
	}
	return answer{connection: connection, secretVersion: found.resourceVersion}
}

// open prepares a Connection without sending anything.
func (d *dialer) open(config *rest.Config, c call) (*Connection, *failure) {
	transport, err := newTransport(config, d.options.ProbeTimeout)
	if err != nil {
		return nil, failed(ReasonKubeconfigInvalid, "kubeconfig: %v", err)
	}
	bounded := &http.Client{Transport: transport, Timeout: d.options.RequestTimeout}
	limited := rest.CopyConfig(config)
	limited.RateLimiter = limiter{
		RateLimiter: flowcontrol.NewTokenBucketRateLimiter(d.options.QPS, d.options.Burst),
		patience:    d.options.RequestTimeout,
	}
	live, err := client.New(limited, client.Options{HTTPClient: bounded, Scheme: d.scheme, Mapper: d.mapper})
	if err != nil {
		return nil, failed(ReasonKubeconfigInvalid, "kubeconfig: %v", err)
	}
	unlimited, err := coreClient(config, &http.Client{Transport: transport})
	if err != nil {
		return nil, failed(ReasonKubeconfigInvalid, "kubeconfig: %v", err)
	}
	connection := &Connection{
		client:    live,
		clientset: sync.OnceValue(func() kubernetes.Interface { return newClientset(limited, bounded) }),
		prober:    unlimited,
		nodes:     nodecache.New(c.observer),
		watch:     newNodeWatch(unlimited, d.options.SyncTimeout, c.plainList),
		transport: transport,
		host:      config.Host,
		stopWatch: func() {},
	}
	return connection, nil
}

// probe asks the API server for its version, which every user may do, and looks
// at how the Node watch is doing. An answer that says no is an answer: only
// credentials that are refused, and errors of the server, make a probe fail.
func (d *dialer) probe(ctx context.Context, c *Connection) *failure {
	ctx, cancel := context.WithTimeout(ctx, d.options.ProbeTimeout)
	defer cancel()
	err := c.prober.Get().AbsPath("/version").MaxRetries(0).Do(ctx).Error()
	if status := (*apierrors.StatusError)(nil); errors.As(err, &status) {
		if code := status.Status().Code; code != http.StatusUnauthorized && code < http.StatusInternalServerError {
			err = nil
		}
	}
	if err == nil {
		err = c.watch.trouble()
	}
	if err != nil {
		return classify(c.host, err)
	}
	return nil
}

// sync starts to watch Nodes and waits until all that exist are in the cache.
// Only so many clusters do this at once; those that do not even answer a probe
// never get here.
func (d *dialer) sync(ctx context.Context, c *Connection) *failure {
	select {
	case d.syncs <- struct{}{}:
		defer func() { <-d.syncs }()
	case <-ctx.Done():
		return classify(c.host, ctx.Err())
	}
	c.follow(ctx)
	timer := d.options.Clock.NewTimer(d.options.SyncTimeout)
	defer timer.Stop()
	select {
	case <-c.nodes.Synced():
		return nil
	case err := <-c.watch.refused:
		return classify(c.host, err)
	case <-timer.C():
		late := failed(ReasonUnreachable, "API server %s: its Nodes could not be listed within %s", c.host, d.options.SyncTimeout)
		late.late = true
		return late
	case <-ctx.Done():
		return classify(c.host, ctx.Err())
	}
}

// follow keeps the Node cache up to date until close.
func (c *Connection) follow(ctx context.Context) {
	// The Reflector's own log lines say less than nodeWatch and the State do.
	ctx, c.stopWatch = context.WithCancel(klog.NewContext(ctx, logr.Discard()))
	silent := logr.Discard()
	reflector := toolscache.NewReflectorWithOptions(c.watch, &corev1.Node{}, c.nodes, toolscache.ReflectorOptions{
		Name: c.host, Logger: &silent,
	})
	c.watching.Go(func() { reflector.RunWithContext(ctx) })
}

// coreClient is for probes and the Node watch: not limited in rate or time.
func coreClient(config *rest.Config, httpClient *http.Client) (*rest.RESTClient, error) {
	config = rest.CopyConfig(config)
	config.APIPath = "/api"
	config.GroupVersion = &corev1.SchemeGroupVersion
	config.NegotiatedSerializer = scheme.Codecs.WithoutConversion()
	config.ContentType = runtime.ContentTypeProtobuf
	config.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	config.QPS = -1
	return rest.RESTClientForConfigAndClient(config, httpClient)
}

func newClientset(config *rest.Config, httpClient *http.Client) kubernetes.Interface {
	set, err := kubernetes.NewForConfigAndClient(config, httpClient)
	if err != nil {
		// open has already made clients from the same configuration.
		panic(fmt.Sprintf("making a clientset: %v", err))
	}
	return set
}
