// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package machine

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/clock"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"drover.io/machine-controller/internal/coalesce"
	"drover.io/machine-controller/internal/contract"
)

// A step is one stage of deleting a machine. It returns done when the next stage may begin;
// otherwise it has said in subject.deletion what is awaited, and from whom.
type step interface {
	run(ctx context.Context, s *state) (done bool, result reconcile.Result, err error)
}

// hooks waits until every annotation with the prefix has been removed by whoever put it there.
type hooks struct {
	prefix, reason string
	// needsNode says that the hook guards the Node, and has no meaning when there is none to guard.
	needsNode bool
	// started tells where the status remembers since when the hooks are awaited.
	started func(*clusterv1.MachineDeletionStatus) *metav1.Time
	clock   clock.PassiveClock
}

func preDrain(c clock.PassiveClock) hooks {
	return hooks{clusterv1.PreDrainDeleteHookAnnotationPrefix, clusterv1.MachineDeletingWaitingForPreDrainHookReason, true,
		func(d *clusterv1.MachineDeletionStatus) *metav1.Time { return &d.WaitForPreDrainHookStartTime }, c}
}

func preTerminate(c clock.PassiveClock) hooks {
	return hooks{clusterv1.PreTerminateDeleteHookAnnotationPrefix, clusterv1.MachineDeletingWaitingForPreTerminateHookReason, false,
		func(d *clusterv1.MachineDeletionStatus) *metav1.Time { return &d.WaitForPreTerminateHookStartTime }, c}
}

func (h hooks) run(_ context.Context, s *state) (bool, reconcile.Result, error) {
	if h.needsNode && !guardsNode(s) {
		return true, reconcile.Result{}, nil
	}
	var waiting []string
	for key := range s.machine.Annotations {
		if strings.HasPrefix(key, h.prefix) {
			waiting = append(waiting, key)
		}
	}
	if len(waiting) == 0 {
		return true, reconcile.Result{}, nil
	}
	slices.Sort(waiting)
	startClock(h.started(deletionStatus(s.machine)), h.clock.Now())
	s.deletion = progress{h.reason, fmt.Sprintf("Waiting for hooks to be removed: %s", strings.Join(waiting, ", "))}
	return false, reconcile.Result{}, nil
}

// eraser deletes a child once.
type eraser struct {
	client client.Client
	asked  *coalesce.Pace
}

// infrastructureGone deletes the InfraMachine and waits until its virtual machine is gone with it.
type infrastructureGone struct {
	client client.Client
	asked  *coalesce.Pace
}

func (d infrastructureGone) run(ctx context.Context, s *state) (bool, reconcile.Result, error) {
	var object *unstructured.Unstructured
	if s.infra.object != nil {
		object = s.infra.object.Unstructured
	}
	s.deletion = progress{clusterv1.MachineDeletingWaitingForInfrastructureDeletionReason, awaited(s.machine.Spec.InfrastructureRef, s.infra.err)}
	return gone(ctx, eraser(d), s.machine, object, s.infra.err)
}

// bootstrapGone deletes the BootstrapConfig, after the machine that was booted with it.
type bootstrapGone struct {
	client client.Client
	asked  *coalesce.Pace
}

func (d bootstrapGone) run(ctx context.Context, s *state) (bool, reconcile.Result, error) {
	ref := s.machine.Spec.Bootstrap.ConfigRef
	if !ref.IsDefined() {
		return true, reconcile.Result{}, nil
	}
	var object *unstructured.Unstructured
	if s.bootstrap.object != nil {
		object = s.bootstrap.object.Unstructured
	}
	s.deletion = progress{clusterv1.MachineDeletingWaitingForBootstrapDeletionReason, awaited(ref, s.bootstrap.err)}
	return gone(ctx, eraser(d), s.machine, object, s.bootstrap.err)
}

// awaited says what is waited for, and why it cannot be seen, if somebody has to mend that.
func awaited(ref clusterv1.ContractVersionedObjectReference, readErr error) string {
	text := fmt.Sprintf("Waiting for %s %q to be deleted", ref.Kind, ref.Name)
	if contract.IsMisconfigured(readErr) {
		return fmt.Sprintf("%s, which cannot be read: %v", text, readErr)
	}
	return text
}

// gone deletes the object if it is there, the machine's, and not yet deleting; the API server
// refuses if it is not as it was read, as its owner may be another by then. An object whose
// state is unknown is waited for: assuming it away could leak what it stands for. One that
// belongs to something else is none of the machine's, and stays.
func gone(ctx context.Context, e eraser, machine *clusterv1.Machine, object *unstructured.Unstructured, readErr error) (bool, reconcile.Result, error) {
	switch {
	case apierrors.IsNotFound(readErr), isRefused(readErr):
		return true, reconcile.Result{}, nil
	case object == nil:
		return false, reconcile.Result{RequeueAfter: absentRetry}, nil
	case object.GetDeletionTimestamp() != nil:
		return false, reconcile.Result{RequeueAfter: absentRetry}, nil // its going wakes us, unless somebody took its owner away
	}
	if !ownedBy(machine, object) {
		return false, reconcile.Result{RequeueAfter: time.Second}, nil // its adoption failed, and is tried again
	}
	err := e.client.Delete(ctx, object, client.Preconditions{UID: new(object.GetUID()), ResourceVersion: new(object.GetResourceVersion())})
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return false, reconcile.Result{RequeueAfter: time.Second}, nil
	}
	if err != nil {
		return false, reconcile.Result{}, fmt.Errorf("deleting %s %q: %w", object.GetKind(), object.GetName(), err)
	}
	e.asked.Took(object.GetUID())
	return false, reconcile.Result{}, nil
}

// guardsNode reports whether a Node is left that is worth draining. It is not when the
// whole Cluster or its control plane goes away, when there is no Node, or it is another
// Machine's, or when the virtual machine is already being deleted: pods on it are lost then
// whatever we do.
func guardsNode(s *state) bool {
	if !s.cluster.DeletionTimestamp.IsZero() || s.planeGoes || terminating(s) || isRivalled(s.node.err) {
		return false
	}
	return s.node.object != nil || (s.machine.Status.NodeRef.IsDefined() && !apierrors.IsNotFound(s.node.err))
}

// preTerminateBegan reports whether the drain and the wait for volumes are over: pods that come
// to the Node while the pre-terminate hooks are awaited are theirs to deal with.
func preTerminateBegan(m *clusterv1.Machine) bool {
	return m.Status.Deletion != nil && !m.Status.Deletion.WaitForPreTerminateHookStartTime.IsZero()
}

// terminating reports whether the virtual machine is gone or going.
func terminating(s *state) bool {
	return apierrors.IsNotFound(s.infra.err) || (s.infra.object != nil && s.infra.object.GetDeletionTimestamp() != nil)
}

func deletionStatus(m *clusterv1.Machine) *clusterv1.MachineDeletionStatus {
	if m.Status.Deletion == nil {
		m.Status.Deletion = &clusterv1.MachineDeletionStatus{}
	}
	return m.Status.Deletion
}

// startClock notes when a stage began, once.
func startClock(started *metav1.Time, now time.Time) {
	if started.IsZero() {
		*started = metav1.NewTime(now)
	}
}

// expired reports whether a stage that began at started has used up its timeout. No timeout, or zero, is forever.
func expired(started metav1.Time, seconds *int32, now time.Time) bool {
	if seconds == nil || *seconds == 0 || started.IsZero() {
		return false
	}
	return now.Sub(started.Time) >= time.Duration(*seconds)*time.Second
}
