// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Package volume finds the volumes that must still be detached from a drained Node before its instance may be deleted:
// some clouds delete an attached disk together with the instance, and everywhere a Pod that moved waits minutes for a
// disk whose instance vanished. It only reads; it detaches nothing, blocks nothing and keeps nothing between calls.
// Timeouts and the skip annotation belong to package deletion, which calls it after the drain; package drain calls it
// when Pods with volumes are evicted one after another.
package volume

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"drover.io/runtime/drainplan"
)

const (
	requeueAfter = 10 * time.Second
	maxNames     = 5 // in the message
)

// Waiter finds attached volumes. The zero value is ready to use, by any number of workers.
type Waiter struct {
	// PageSize of lists; 0 means 500.
	PageSize int64

	listBatches listBatches
}

// Request names a Node.
type Request struct {
	// Cluster names the workload cluster. Requests for the same one share what they read.
	Cluster types.NamespacedName
	// Client reads the workload cluster, not through a cache.
	Client client.Reader
	// Node is the name of the Node.
	Node string
	// Skipped returns the Pods that the drain left on the Node on purpose; their volumes are not awaited. It is
	// called only if something is attached.
	Skipped func(context.Context) ([]*corev1.Pod, error)
}

// Result is what is still attached.
type Result struct {
	// Done means that there is nothing to wait for.
	Done bool
	// RequeueAfter is when to call again, if not Done.
	RequeueAfter time.Duration
	// Awaited are the volumes to be detached, sorted.
	Awaited []Volume
	// Lost are attached volumes that no attacher can detach; they are not awaited.
	Lost []Volume
}

// Detached reports whether all volumes that can be detached from the Node are. A Node that does not exist, or whose
// kubelet does not report, has nothing to wait for: the unmount would never be confirmed.
func (w *Waiter) Detached(ctx context.Context, req Request) (Result, error) {
	var node corev1.Node
	if err := req.Client.Get(ctx, client.ObjectKey{Name: req.Node}, &node); err != nil {
		if apierrors.IsNotFound(err) {
			return Result{Done: true}, nil
		}
		return Result{}, fmt.Errorf("getting Node %q: %w", req.Node, err)
	}
	if drainplan.Unreachable(&node) {
		return Result{Done: true}, nil
	}
	attached, err := w.Attached(ctx, req, node.Status.VolumesAttached)
	if err != nil {
		return Result{}, err
	}
	if len(attached) == 0 {
		return Result{Done: true}, nil
	}
	skipped, err := req.Skipped(ctx)
	if err != nil {
		return Result{}, fmt.Errorf("finding the Pods that stay on Node %q: %w", req.Node, err)
	}
	return await(attached, skipped), nil
}

// await is the decision: everything attached, without what the staying Pods use and what is lost.
func await(attached []Volume, staying []*corev1.Pod) Result {
	used := map[types.NamespacedName]bool{}
	for _, pod := range staying {
		for _, claim := range Claims(pod) {
			used[claim] = true
		}
	}
	var r Result
	for _, v := range attached {
		switch {
		case used[v.Claim]:
		case v.Lost:
			r.Lost = append(r.Lost, v)
		default:
			r.Awaited = append(r.Awaited, v)
		}
	}
	for _, volumes := range [][]Volume{r.Awaited, r.Lost} {
		slices.SortFunc(volumes, func(a, b Volume) int { return cmp.Compare(a.String(), b.String()) })
	}
	r.Done = len(r.Awaited) == 0
	if !r.Done {
		r.RequeueAfter = requeueAfter
	}
	return r
}

// Claims are the PersistentVolumeClaims of the Pod, those of generic ephemeral volumes too.
func Claims(pod *corev1.Pod) []types.NamespacedName {
	var claims []types.NamespacedName
	for _, v := range pod.Spec.Volumes {
		switch {
		case v.PersistentVolumeClaim != nil:
			claims = append(claims, types.NamespacedName{Namespace: pod.Namespace, Name: v.PersistentVolumeClaim.ClaimName})
		case v.Ephemeral != nil:
			claims = append(claims, types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name + "-" + v.Name})
		}
	}
	return claims
}

// Message is for the condition: the same volumes give the same message. It is empty if Done.
func (r Result) Message() string {
	if r.Done {
		return ""
	}
	names := make([]string, 0, len(r.Awaited))
	for _, v := range r.Awaited {
		names = append(names, v.String())
	}
	names = slices.Compact(names)
	text := strings.Join(names[:min(len(names), maxNames)], ", ")
	if more := len(names) - maxNames; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return "Waiting for the attach-detach controller and the CSI driver to detach volumes from the Node: " + text
}

// String names the volume by the object that its owner created, if there is one.
func (v Volume) String() string {
	switch {
	case v.Claim.Name != "":
		return "PersistentVolumeClaim " + v.Claim.String()
	case v.PersistentVolume != "":
		return "PersistentVolume " + v.PersistentVolume
	case v.Attachment != "":
		return "VolumeAttachment " + v.Attachment
	}
	return "volume " + v.Reported
}

func (w *Waiter) pageSize() int64 {
	if w.PageSize > 0 {
		return w.PageSize
	}
	return 500
}
