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
	// Pods returns those that are still on the Node. It is called only if something is attached.
	Pods func(context.Context) (Pods, error)
}

// Pods are those on a Node that is no longer drained.
type Pods struct {
	// Skipped were left there on purpose; their volumes are not awaited.
	Skipped []*corev1.Pod
	// Others were not evicted, or are being deleted: their volumes stay attached until they have ended.
	Others []*corev1.Pod
}

// Result is what is still attached.
type Result struct {
	// Done means that there is nothing to wait for.
	Done bool
	// RequeueAfter is when to call again, if not Done.
	RequeueAfter time.Duration
	// Awaited are the volumes to be detached, sorted.
	Awaited []Volume
	// Users are the Pods on the Node that use awaited volumes, sorted, each with one of its claims.
	Users []User
	// Lost are attached volumes that no attacher can detach; they are not awaited.
	Lost []Volume
}

// User is a Pod that uses a volume.
type User struct {
	Pod, Claim types.NamespacedName
	// Deleting means that the Pod is being deleted, and has not ended.
	Deleting bool
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
	pods, err := req.Pods(ctx)
	if err != nil {
		return Result{}, fmt.Errorf("finding the Pods that stay on Node %q: %w", req.Node, err)
	}
	return await(attached, pods), nil
}

// await is the decision: everything attached, without what the skipped Pods use and what is lost.
func await(attached []Volume, pods Pods) Result {
	used := map[types.NamespacedName]bool{}
	for _, pod := range pods.Skipped {
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
	r.Users = users(r.Awaited, pods.Others)
	r.Done = len(r.Awaited) == 0
	if !r.Done {
		r.RequeueAfter = requeueAfter
	}
	return r
}

// users are the Pods that use one of the volumes, without those that have finished: the volumes of these are detached.
func users(volumes []Volume, pods []*corev1.Pod) []User {
	var found []User
	for _, pod := range pods {
		for _, claim := range Claims(pod) {
			if !drainplan.Finished(pod) && slices.ContainsFunc(volumes, func(v Volume) bool { return v.Claim == claim }) {
				found = append(found, User{types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}, claim, pod.DeletionTimestamp != nil})
				break
			}
		}
	}
	slices.SortFunc(found, func(a, b User) int { return cmp.Compare(a.Pod.String(), b.Pod.String()) })
	return found
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
	if len(r.Users) > 0 { // nothing is detached before they have ended
		return "Waiting for " + awaitedUsers(r.Users)
	}
	names := make([]string, 0, len(r.Awaited))
	for _, v := range r.Awaited {
		names = append(names, v.String())
	}
	return "Waiting for the attach-detach controller and the CSI driver to detach volumes from the Node: " + joined(slices.Compact(names))
}

// awaitedUsers has those first that need an operator: another deletion of a Pod that is being deleted changes nothing.
func awaitedUsers(users []User) string {
	var kept, deleting, text []string
	for _, u := range users {
		name := fmt.Sprintf("%s (PersistentVolumeClaim %s)", u.Pod, u.Claim.Name)
		if u.Deleting {
			deleting = append(deleting, name)
			continue
		}
		kept = append(kept, name)
	}
	if len(kept) > 0 {
		text = append(text, "Pods that were not evicted and still use volumes on the Node: "+joined(kept))
	}
	if len(deleting) > 0 {
		text = append(text, "the kubelet to end Pods that are being deleted and still use volumes on the Node: "+joined(deleting))
	}
	return strings.Join(text, ", and for ")
}

func joined(names []string) string {
	text := strings.Join(names[:min(len(names), maxNames)], ", ")
	if more := len(names) - maxNames; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
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
