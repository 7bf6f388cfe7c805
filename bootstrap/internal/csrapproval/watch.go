// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package csrapproval

import (
	"context"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"

	"drover.io/bootstrap/internal/workload"
	"drover.io/runtime/fairshare"
)

// again is how often requests that are still open are looked at anew, from memory, whatever happens.
const again = 15 * time.Second

// retries are the pauses before a request that could not be decided on is looked at anew.
const firstRetry, lastRetry = time.Second, again

// watch is the watch of one workload cluster. One request after the other is looked at, by a worker of its own: a
// cluster that answers slowly, or has many requests, holds up no other.
type watch struct {
	connection *workload.Connection
	stop       context.CancelFunc
	requests   *openRequests
	queue      workqueue.TypedRateLimitingInterface[string]
}

// lookAgain has the requests looked at that are still open: a Machine's addresses or its Node have become known.
func (w *watch) lookAgain() {
	w.requests.reopen()
}

// add queues a request. What finds no place, because an API server makes up names faster than they are looked at, is
// queued by the next look at everything that is open.
func (w *watch) add(name string) {
	if w.queue.Len() < 2*ofOneCluster {
		w.queue.Add(name)
	}
}

// work looks at requests until the watch is stopped.
func (w *watch) work(ctx context.Context, look func(ctx context.Context, csr *certificatesv1.CertificateSigningRequest) error) {
	for {
		name, stopped := w.queue.Get()
		if stopped {
			return
		}
		var err error
		if request := w.requests.get(name); request != nil {
			err = look(ctx, request)
		}
		if err != nil {
			w.queue.AddRateLimited(name)
		} else {
			w.queue.Forget(name)
		}
		w.queue.Done(name)
	}
}

func startWatch(a *approver, places *fairshare.Places[string]) *watch {
	ctx, stop := context.WithCancel(context.Background())
	queue := workqueue.NewTypedRateLimitingQueue(workqueue.NewTypedItemExponentialFailureRateLimiter[string](firstRetry, lastRetry))
	requests := newOpenRequests(a.cluster.Namespace, places)
	w := &watch{connection: a.connection, requests: requests, queue: queue}
	requests.opened, requests.crowded = w.add, a.tooMany
	w.stop = func() {
		stop()
		queue.ShutDown()
	}
	go w.follow(ctx, a)
	go w.work(ctx, a.look)
	return w
}

// follow lists and watches requests until ctx is done, and lists them anew when the store asks for it.
func (w *watch) follow(ctx context.Context, a *approver) {
	defer w.requests.clear()
	for ctx.Err() == nil {
		once, end := context.WithCancel(ctx)
		w.requests.onRelist(end)
		listed := newSource(a.connection.Certificates.CertificateSigningRequests(), a.cannotWatch, w.requests.incomplete)
		reflector := cache.NewReflectorWithOptions(listed, &certificatesv1.CertificateSigningRequest{}, w.requests, cache.ReflectorOptions{ResyncPeriod: again})
		reflector.RunWithContext(once)
		end()
	}
}
