// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"

	"drover.io/machine-controller/internal/paging"
	"drover.io/machine-controller/internal/workload/nodecache"
	"drover.io/runtime/requesterror"
	"drover.io/runtime/workload"
)

// nodesPage is how many Nodes a page of a list has.
const nodesPage = 100

// nodeWatch lists and watches the Nodes of one workload cluster for a
// Reflector, and stores the result of the last attempt.
type nodeWatch struct {
	toolscache.ListWatch
	nodes       rest.Interface
	cache       *nodecache.Cache
	listTimeout time.Duration
	plainList   bool
	pacer       *nodePacer

	// refused has the error of the first list or watch that failed.
	refused chan error

	mu      sync.Mutex
	last    error
	stopped bool
	full    bool
}

func newNodeWatch(nodes rest.Interface, cache *nodecache.Cache, listTimeout time.Duration, plainList bool) *nodeWatch {
	w := &nodeWatch{nodes: nodes, cache: cache, listTimeout: listTimeout, plainList: plainList, refused: make(chan error, 1)}
	w.ListWithContextFunc = w.list
	w.WatchFuncWithContext = w.watch
	return w
}

// IsWatchListSemanticsUnSupported makes the Reflector list in one piece where
// the server began to stream the list but did not end it.
func (w *nodeWatch) IsWatchListSemanticsUnSupported() bool { return w.plainList }

func (w *nodeWatch) list(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
	ctx, cancel := context.WithTimeout(ctx, w.listTimeout)
	defer cancel()
	all := &corev1.NodeList{}
	w.cache.Begin()
	// API servers ignore the size of a page where any version will do.
	options.ResourceVersion, options.ResourceVersionMatch = "", ""
	err := paging.Read(nodesPage, func(size int64, token string) (string, error) {
		options.Limit, options.Continue = size, token
		page := &corev1.NodeList{}
		if err := w.nodes.Get().Resource("nodes").VersionedParams(&options, scheme.ParameterCodec).Do(ctx).Into(page); err != nil {
			return "", err
		}
		for i := range page.Items {
			node, err := w.cache.Arrive(&page.Items[i])
			if err != nil {
				return "", err
			}
			all.Items = append(all.Items, *node)
		}
		all.ResourceVersion = page.ResourceVersion
		return page.Continue, nil
	})
	w.ended(err)
	return all, err
}

func (w *nodeWatch) watch(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
	options.Watch = true
	stream, err := w.nodes.Get().Resource("nodes").VersionedParams(&options, scheme.ParameterCodec).Watch(ctx)
	switch {
	case err == nil:
		w.ended(nil)
	case options.SendInitialEvents == nil:
		w.ended(err)
	case utilnet.IsConnectionRefused(err), apierrors.IsTooManyRequests(err):
		// The Reflector would sleep on these, and could not be stopped. On any
		// other error it lists instead, and list records the result.
		err = workload.Opaque(err)
	}
	return stream, err
}

// ended records what a list or watch ended with.
func (w *nodeWatch) ended(err error) {
	err = shortened(err)
	w.mu.Lock()
	w.last = err
	w.mu.Unlock()
	if err == nil {
		return
	}
	select {
	case w.refused <- err:
	default:
	}
}

// maxReason is how many bytes the reason of an error may have. Those of API servers have some ten.
const maxReason = 64

// shortened returns an error that may be kept. What an API server answers is as long as it likes: the limit of error answers
// does not count for one with the status of a success.
func shortened(err error) error {
	status, is := errors.AsType[*apierrors.StatusError](err)
	switch {
	case err == nil, !is && len(err.Error()) <= requesterror.MaxMessage:
		return err
	case !is: // as for a kind that no client knows, or the token of a page in the URL
		return errors.New(strings.Clone(requesterror.Describe(err)))
	}
	short := metav1.Status{Status: metav1.StatusFailure, Code: status.ErrStatus.Code, Message: strings.Clone(requesterror.Truncate(status.ErrStatus.Message))}
	if reason := apierrors.ReasonForError(status); len(reason) <= maxReason {
		short.Reason = reason
	}
	return &apierrors.StatusError{ErrStatus: short}
}

// lastError returns the error that the last list or watch ended with.
func (w *nodeWatch) lastError() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.stopped:
		return workload.ErrClosed
	case w.full:
		return nodecache.ErrFull
	case w.last != nil:
		return w.last
	default:
		return w.pacer.err()
	}
}

// overflow notes that the cache lacks Nodes, because the memory limit is reached.
func (w *nodeWatch) overflow() {
	w.mu.Lock()
	w.full = true
	w.mu.Unlock()
	w.ended(nodecache.ErrFull)
}

// stop notes that the watch has ended.
func (w *nodeWatch) stop() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.stopped = true
}
