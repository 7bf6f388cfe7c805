// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package csrapproval

import (
	"context"
	"errors"
	"time"

	"golang.org/x/time/rate"
	certificatesv1 "k8s.io/api/certificates/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"

	"drover.io/bootstrap/internal/workload"
	"drover.io/runtime/fairshare"
)

// resyncPeriod is how often requests that are still open are reviewed again, from memory.
const resyncPeriod = 15 * time.Second

// minRetry and maxRetry bound the time until a request that could not be decided on is reviewed again.
const minRetry, maxRetry = time.Second, resyncPeriod

// watch is the watch of one workload cluster. A worker of its own reviews one request after the other: a cluster that
// answers slowly, or has many requests, delays no other.
type watch struct {
	connection *workload.Connection
	stop       context.CancelFunc
	requests   *openRequests
	queue      workqueue.TypedRateLimitingInterface[string]
	// listed are the seats of requests in unfinished lists.
	listed *fairshare.Seats[string]
	// pace bounds the reviews of a namespace. Each may read from the management cluster.
	pace *rate.Limiter
}

// reviewsPerSecond and reviewBurst bound the reviews of all workload clusters of a namespace.
const reviewsPerSecond, reviewBurst = 50, 100

func newPace() *rate.Limiter { return rate.NewLimiter(reviewsPerSecond, reviewBurst) }

// requeueAll queues the requests that are still open: a Machine's addresses or its Node may have been set.
func (w *watch) requeueAll() {
	w.requests.reopen()
}

// add queues a request. One for which there is no capacity, because an API server returns new names faster than they are
// reviewed, is queued by the next resync.
func (w *watch) add(name string) {
	if w.queue.Len() < 2*maxPerCluster {
		w.queue.Add(name)
	}
}

// work reviews requests until the watch is stopped.
func (w *watch) work(ctx context.Context, review func(ctx context.Context, csr *certificatesv1.CertificateSigningRequest) error) {
	for {
		name, stopped := w.queue.Get()
		if stopped {
			return
		}
		var err error
		if request := w.requests.get(name); request != nil && w.pace.Wait(ctx) == nil {
			err = review(ctx, request)
		}
		if err != nil {
			w.queue.AddRateLimited(name)
		} else {
			w.queue.Forget(name)
		}
		w.queue.Done(name)
	}
}

func startWatch(a *approver, seats, listed *fairshare.Seats[string], pace *rate.Limiter) *watch {
	ctx, stop := context.WithCancel(context.Background())
	queue := workqueue.NewTypedRateLimitingQueue(workqueue.NewTypedItemExponentialFailureRateLimiter[string](minRetry, maxRetry))
	requests := newOpenRequests(a.cluster.Namespace, seats)
	w := &watch{connection: a.connection, requests: requests, queue: queue, listed: listed, pace: pace}
	requests.opened, requests.full = w.add, func() { a.events.tooManyRequests(a.cluster) }
	requests.late = func(name string) { a.events.tooLate(a.cluster, name) }
	w.stop = func() {
		stop()
		queue.ShutDown()
	}
	go w.follow(ctx, a)
	go w.work(ctx, a.review)
	return w
}

// follow lists and watches requests until ctx is done, and lists them again when the store calls relist.
func (w *watch) follow(ctx context.Context, a *approver) {
	defer w.requests.clear()
	for ctx.Err() == nil {
		once, end := context.WithCancel(ctx)
		w.requests.setRelistFunc(end)
		source := newListerWatcher(a.connection.Certificates, a.watchFailed, w.requests.incomplete)
		source.namespace, source.seats = a.cluster.Namespace, w.listed
		reflector := cache.NewReflectorWithOptions(source, &certificatesv1.CertificateSigningRequest{}, w.requests, cache.ReflectorOptions{ResyncPeriod: resyncPeriod})
		reflector.RunWithContext(once)
		end()
	}
}

// watchFailed notes why requests could not be listed or watched.
func (a *approver) watchFailed(err error) {
	a.log.V(1).Info("could not watch certificate requests", "message", err.Error())
	switch {
	case apierrors.IsForbidden(err):
		a.events.watchForbidden(a.cluster)
	case errors.Is(err, workload.ErrTooManyRequests):
		a.events.tooManyUnread(a.cluster)
	}
}
