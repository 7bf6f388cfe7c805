// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package csrapproval

import (
	"context"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	apiwatch "k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"

	"drover.io/bootstrap/internal/workload"
)

// again is how often requests that are still open are looked at anew, from memory, whatever happens.
const again = 15 * time.Second

// watch is the watch of one workload cluster.
type watch struct {
	connection *workload.Connection
	stop       context.CancelFunc
	approver   *approver
	requests   cache.Store
}

// lookAgain looks at the requests that are still open: a Machine's addresses or its Node have become known.
func (w *watch) lookAgain(ctx context.Context) {
	for _, request := range w.requests.List() {
		w.approver.look(ctx, request)
	}
}

func startWatch(a *approver) (*watch, error) {
	ctx, stop := context.WithCancel(context.Background())
	requests := a.connection.Certificates.CertificateSigningRequests()
	source := &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			return requests.List(ctx, o)
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (apiwatch.Interface, error) {
			return requests.Watch(ctx, o)
		},
	}
	informer := cache.NewSharedInformer(source, &certificatesv1.CertificateSigningRequest{}, again)
	err := informer.SetTransform(forgetDecided)
	if err == nil {
		err = informer.SetWatchErrorHandlerWithContext(func(_ context.Context, _ *cache.Reflector, err error) {
			a.log.V(1).Info("cannot watch certificate requests", "cause", err.Error())
			if apierrors.IsForbidden(err) {
				a.forbidden()
			}
		})
	}
	if err == nil {
		_, err = informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc:    func(o any) { a.look(ctx, o) },
			UpdateFunc: func(_, o any) { a.look(ctx, o) },
		})
	}
	if err != nil {
		stop()
		return nil, err
	}
	go informer.RunWithContext(ctx)
	return &watch{connection: a.connection, stop: stop, approver: a, requests: informer.GetStore()}, nil
}

// forgetDecided keeps only the names of requests that are decided: their certificates need no memory.
func forgetDecided(o any) (any, error) {
	csr, ok := o.(*certificatesv1.CertificateSigningRequest)
	if !ok {
		return o, nil
	}
	csr.ManagedFields = nil
	if len(csr.Status.Conditions) > 0 {
		csr.Spec, csr.Status.Certificate = certificatesv1.CertificateSigningRequestSpec{}, nil
	}
	return csr, nil
}
