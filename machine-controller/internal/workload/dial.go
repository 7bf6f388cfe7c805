// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/go-logr/logr"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/flowcontrol"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"drover.io/machine-controller/internal/workload/nodecache"
	"drover.io/runtime/expiring"
	"drover.io/runtime/fairshare"
	"drover.io/runtime/httplimit"
	"drover.io/runtime/kubeconfig"
	"drover.io/runtime/requesterror"
	"drover.io/runtime/workload"
)

// maxElements is how many objects, arrays and values in them an answer may have, or an event of a watch.
const maxElements = 100_000

// dialer makes Connections. It is shared by all clusters.
type dialer struct {
	options *Options
	scheme  *runtime.Scheme
	mapper  meta.RESTMapper
	// syncs are the seats of clusters that list their Nodes, lateSyncs of those that have
	// failed to do so in time before: they wait only for each other.
	syncs, lateSyncs *syncSeats
	// late are the clusters that were late, also where the Cluster was deleted and made again since.
	late expiring.Map[clusterHost, struct{}]
	// slowRequests are the seats of requests to API servers that are slow.
	slowRequests *fairshare.Seats[string]
	// nodePace bounds what the Node watches of each namespace send.
	nodePace *nodePace
	// transports opens the way to each API server.
	transports *workload.Dialer
	// memory limits that of the Nodes of each namespace.
	memory *nodecache.MemoryLimit
}

func newDialer(options *Options) *dialer {
	return &dialer{
		options:      options,
		scheme:       newScheme(),
		mapper:       newMapper(),
		syncs:        newSyncSeats(options.ConcurrentSyncs),
		lateSyncs:    newSyncSeats(options.ConcurrentSyncs),
		late:         expiring.Map[clusterHost, struct{}]{Clock: options.Clock, TTL: latenessPeriod},
		slowRequests: fairshare.New[string](slowRequests),
		nodePace:     newNodePace(),
		transports: workload.NewDialer(workload.Options{
			UserAgent: options.UserAgent, DialTimeout: options.ProbeTimeout, AnswerTimeout: options.SyncTimeout, MaxElements: maxElements,
		}),
		memory: nodecache.NewMemoryLimit(options.NodeMemory),
	}
}

// dialRequest is one attempt to connect.
type dialRequest struct {
	cluster client.ObjectKey
	// present is the content of the kubeconfig that is in use and works; there
	// is nothing to do if the Secret still holds it.
	present string
	// plainList lists the Nodes in one piece rather than streamed.
	plainList bool
	// late is true where the Nodes did not arrive in time when they were last listed.
	late     bool
	observer nodecache.Observer
}

// dialResult is how an attempt ended: with a Connection, with nothing to do, or with a failure.
type dialResult struct {
	connection *Connection
	failure    *failure
	// secretVersion is the resourceVersion of the Secret that was read, if it was.
	secretVersion string
	// claim is what came of an attempt to claim the cluster; nil without one.
	claim *Claim
}

// dial reads the kubeconfig and connects. It returns a Connection only after
// all Nodes are in its cache.
func (d *dialer) dial(ctx context.Context, c dialRequest) dialResult {
	readCtx, cancel := context.WithTimeout(ctx, d.options.ProbeTimeout)
	defer cancel()
	found, err := kubeconfig.Read(readCtx, d.options.Reader, c.cluster)
	if err != nil {
		return dialResult{failure: badKubeconfig(err), secretVersion: found.ResourceVersion}
	}
	if found.Content == c.present {
		return dialResult{secretVersion: found.ResourceVersion}
	}
	config, err := kubeconfig.Rules{AllowProxy: d.options.AllowProxy, AllowInsecureTLS: d.options.AllowInsecureTLS}.RESTConfig(found.Content)
	if err != nil {
		return dialResult{failure: badKubeconfig(err), secretVersion: found.ResourceVersion}
	}
	connection, failure := d.open(config, c)
	if failure != nil {
		return dialResult{failure: failure, secretVersion: found.ResourceVersion}
	}
	connection.content = found.Content
	if failure = d.probe(ctx, connection); failure == nil {
		failure = d.sync(ctx, connection, c.cluster, c.late)
	}
	if failure != nil {
		connection.close()
		connection.nodes.Release()
		return dialResult{failure: failure, secretVersion: found.ResourceVersion}
	}
	return dialResult{connection: connection, secretVersion: found.ResourceVersion, claim: d.claim(ctx, c.cluster, connection)}
}

// claim claims the workload cluster, or renews the claim. After an attempt that failed the status is ClaimUnknown, with the
// error as its message.
func (d *dialer) claim(ctx context.Context, cluster client.ObjectKey, c *Connection) *Claim {
	ctx, cancel := context.WithTimeout(ctx, d.options.ProbeTimeout)
	defer cancel()
	claim, err := d.options.Claimer.Claim(ctx, c.claiming, cluster)
	if err != nil && !c.servesLeases(context.WithoutCancel(ctx)) {
		return &Claim{Status: ClaimHeld, Message: "the API server of the workload cluster serves no Leases, so that nothing keeps two management clusters from acting on it"}
	}
	if err != nil {
		ctrl.Log.WithName("workload").V(1).Info("could not claim workload cluster", "Cluster", klog.KRef(cluster.Namespace, cluster.Name), "message", err.Error())
		return &Claim{Message: "the workload cluster could not be claimed: " + requesterror.Describe(err)}
	}
	claim.Message = requesterror.Truncate(claim.Message)
	return &claim
}

// servesLeases reports whether the API server has Leases, as far as it answers. Every API server of Kubernetes has;
// a simulator that serves only a part of its API can never be claimed. The list of groups is requested as plain JSON: the
// transport hides the Content-Type by which the discovery client recognizes another form, and it would find no group.
func (c *Connection) servesLeases(ctx context.Context) bool {
	answer, err := c.Clientset().Discovery().RESTClient().Get().AbsPath("/apis").SetHeader("Accept", "application/json").Do(ctx).Raw()
	groups := metav1.APIGroupList{}
	if err != nil || json.Unmarshal(answer, &groups) != nil || len(groups.Groups) == 0 {
		return true
	}
	return slices.ContainsFunc(groups.Groups, func(group metav1.APIGroup) bool { return group.Name == coordinationv1.GroupName })
}

// open prepares a Connection without sending anything.
func (d *dialer) open(config *rest.Config, c dialRequest) (*Connection, *failure) {
	namespace := c.cluster.Namespace
	transport, err := d.transports.Open(config, namespace)
	if err != nil {
		return nil, failed(ReasonKubeconfigInvalid, "kubeconfig: %v", err)
	}
	bounded := workload.HTTPClient(newShare(transport.WithSeats(), d.options.Clock, namespace, d.slowRequests), d.options.RequestTimeout)
	limited := transport.Config()
	limited.RateLimiter = limiter{
		RateLimiter: flowcontrol.NewTokenBucketRateLimiter(d.options.QPS, d.options.Burst),
		maxWait:     d.options.RequestTimeout,
	}
	live, err := client.New(limited, client.Options{HTTPClient: bounded, Scheme: d.scheme, Mapper: d.mapper})
	if err != nil {
		return nil, failed(ReasonKubeconfigInvalid, "kubeconfig: %v", err)
	}
	claiming, err := client.New(limited, client.Options{
		HTTPClient: workload.HTTPClient(transport.WithSeats(), d.options.RequestTimeout), Scheme: d.scheme, Mapper: d.mapper,
	})
	if err != nil {
		return nil, failed(ReasonKubeconfigInvalid, "kubeconfig: %v", err)
	}
	pacer := &nodePacer{pace: d.nodePace, namespace: namespace}
	unlimited, err := coreClient(transport.Config(), workload.HTTPClient(pacer.wrap(transport), 0))
	if err != nil {
		return nil, failed(ReasonKubeconfigInvalid, "kubeconfig: %v", err)
	}
	probing, err := coreClient(transport.Config(), workload.HTTPClient(httplimit.Wrap(transport, probeBytes), 0))
	if err != nil {
		return nil, failed(ReasonKubeconfigInvalid, "kubeconfig: %v", err)
	}
	connection := &Connection{
		client:    live,
		claiming:  claiming,
		clientset: sync.OnceValue(func() kubernetes.Interface { return newClientset(limited, bounded) }),
		prober:    probing,
		transport: transport,
		host:      transport.Host(),
		stopWatch: func() {},
	}
	observer := c.observer
	observer.Full = connection.full
	connection.nodes = nodecache.New(observer, d.memory, namespace)
	connection.watch = newNodeWatch(unlimited, connection.nodes, d.options.SyncTimeout, c.plainList)
	connection.watch.pacer = pacer
	return connection, nil
}

// probe requests the API server's version, which every user may do, and checks
// the state of the Node watch. A refusal is an answer: only
// credentials that are refused, and errors of the server, make a probe fail.
func (d *dialer) probe(ctx context.Context, c *Connection) *failure {
	ctx, cancel := context.WithTimeout(ctx, d.options.ProbeTimeout)
	defer cancel()
	err := c.prober.Get().AbsPath("/version").MaxRetries(0).Do(ctx).Error()
	if status, is := errors.AsType[*apierrors.StatusError](err); is {
		if code := status.Status().Code; code != http.StatusUnauthorized && code < http.StatusInternalServerError {
			err = nil
		}
	}
	if err == nil {
		err = c.watch.lastError()
	}
	if err != nil {
		return classify(c.host, err)
	}
	return nil
}

// sync starts to watch Nodes and waits until all that exist are in the cache.
// Only so many clusters do this at once, half of them of one namespace; those
// that do not even answer a probe never get here, and those that were late
// before are no hindrance to others.
func (d *dialer) sync(ctx context.Context, c *Connection, cluster client.ObjectKey, late bool) *failure {
	seats, timeout, key := d.syncs, d.options.FirstSyncTimeout, clusterHost{cluster, c.host}
	if late || d.late.Has(key) {
		seats, timeout = d.lateSyncs, d.options.SyncTimeout
	}
	release, err := seats.acquire(ctx, cluster.Namespace)
	if err != nil {
		return classify(c.host, err)
	}
	defer release()
	c.follow(ctx)
	timer := d.options.Clock.NewTimer(timeout)
	defer timer.Stop()
	select {
	case <-c.nodes.Synced():
		return nil
	case err := <-c.watch.refused:
		return classify(c.host, err)
	case <-timer.C():
		failure := failed(ReasonUnreachable, "API server %s: its Nodes could not be listed within %s", c.host, timeout)
		failure.late = true
		d.late.Set(key, struct{}{})
		return failure
	case <-ctx.Done():
		return classify(c.host, ctx.Err())
	}
}

// latenessPeriod is how long a cluster counts as late after a list of its Nodes was.
const latenessPeriod = 10 * time.Minute

// clusterHost is a Cluster and the host of its API server. One host may serve many clusters.
type clusterHost struct {
	cluster client.ObjectKey
	host    string
}

// follow keeps the Node cache up to date until close.
func (c *Connection) follow(ctx context.Context) {
	// The Reflector's own log lines have less than nodeWatch and the State.
	ctx, c.stopWatch = context.WithCancel(klog.NewContext(ctx, logr.Discard()))
	discard := logr.Discard()
	reflector := toolscache.NewReflectorWithOptions(c.watch, &corev1.Node{}, c.nodes, toolscache.ReflectorOptions{
		Name: c.host, Logger: &discard,
	})
	c.watching.Go(func() { reflector.RunWithContext(ctx) })
}

// full ends a Node watch whose Nodes exceed the memory limit: a probe reports it.
func (c *Connection) full() {
	c.watch.overflow()
	c.stopWatch()
}

// coreClient is for probes and the Node watch: not limited in rate or time.
func coreClient(config *rest.Config, httpClient *http.Client) (*rest.RESTClient, error) {
	config.APIPath = "/api"
	config.GroupVersion = &corev1.SchemeGroupVersion
	config.NegotiatedSerializer = scheme.Codecs.WithoutConversion()
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
