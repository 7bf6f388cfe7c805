// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package inframachine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	kerrors "k8s.io/apimachinery/pkg/util/errors"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "drover.io/api/infrastructure/v1alpha1"
	"drover.io/infra-providers/internal/errorreason"
	"drover.io/infra-providers/internal/machinestatus"
)

// save writes what changed: at most one patch of the object and one of its status, then the logs and events that follow
// from the difference. It returns the result and the error of the phases.
func (r *Reconciler[M, C]) save(ctx context.Context, before M, s *state[M, C], result ctrl.Result, failure error) (ctrl.Result, error) {
	err := r.write(ctx, before, s.machine)
	switch {
	case apierrors.IsConflict(err):
		// The cache was behind; the next reconcile continues from the newer object.
		return ctrl.Result{RequeueAfter: time.Second}, failure
	case err != nil:
		return ctrl.Result{}, kerrors.NewAggregate([]error{failure, err})
	}
	if s.newlyClaimed {
		r.outcomeKnown.Set(s.machine.GetUID(), struct{}{})
	}
	r.record(ctx, before, s)
	r.measure(before, s.machine)
	r.emitPhases(before, s)
	return result, failure
}

func (r *Reconciler[M, C]) write(ctx context.Context, before, after M) error {
	if err := r.writeProviderID(ctx, before, after); err != nil {
		return err
	}
	if err := r.writeMetadata(ctx, before, after); err != nil {
		return err
	}
	if machinestatus.IsRemoved(after) {
		return nil
	}
	return r.writeStatus(ctx, before, after)
}

// writeProviderID names the UID of the object and no version: whatever else changed meanwhile, the instance exists and
// is this machine's. A write that the API server refuses for good is shown in Ready; until it succeeds, the providerID is
// in createdIDs, and another process finds the instance by its identity.
func (r *Reconciler[M, C]) writeProviderID(ctx context.Context, before, after M) error {
	if before.GetProviderID() == after.GetProviderID() {
		return nil
	}
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": after.GetUID()},
		"spec":     map[string]any{"providerID": after.GetProviderID()},
	})
	if err != nil {
		return err
	}
	patched := before.DeepCopyObject().(M)
	err = r.Client.Patch(ctx, patched, client.RawPatch(types.MergePatchType, patch))
	if replaced(err) {
		return apierrors.NewConflict(schema.GroupResource{}, after.GetName(), errReplaced)
	}
	if apierrors.IsInvalid(err) || apierrors.IsForbidden(err) {
		machinestatus.SetWaiting(after, infrav1.ProviderIDNotStoredReason, fmt.Sprintf("storing providerID %q: %v", after.GetProviderID(), err))
		err = errors.Join(err, r.writeStatus(ctx, before, after))
	}
	return client.IgnoreNotFound(err)
}

var errReplaced = errors.New("the object was replaced by another of the same name")

// replaced reports whether a patch was refused because the object has another UID than the patch names.
func replaced(err error) bool {
	status, ok := errors.AsType[*apierrors.StatusError](err)
	if !ok || status.ErrStatus.Details == nil {
		return false
	}
	return slices.ContainsFunc(status.ErrStatus.Details.Causes, func(c metav1.StatusCause) bool { return c.Field == "metadata.uid" })
}

// writeMetadata writes finalizers and annotations, unless the object was changed since it was read.
func (r *Reconciler[M, C]) writeMetadata(ctx context.Context, before, after M) error {
	if equality.Semantic.DeepEqual(before.GetFinalizers(), after.GetFinalizers()) &&
		equality.Semantic.DeepEqual(before.GetAnnotations(), after.GetAnnotations()) {
		return nil
	}
	base := before.DeepCopyObject().(M)
	patched := before.DeepCopyObject().(M)
	patched.SetFinalizers(after.GetFinalizers())
	patched.SetAnnotations(after.GetAnnotations())
	lock := client.MergeFromWithOptions(base, client.MergeFromWithOptimisticLock{})
	return client.IgnoreNotFound(r.Client.Patch(ctx, patched, lock))
}

func (r *Reconciler[M, C]) writeStatus(ctx context.Context, before, after M) error {
	if equality.Semantic.DeepEqual(before.GetStatus(), after.GetStatus()) {
		return nil
	}
	base := before.DeepCopyObject().(M)
	patched := before.DeepCopyObject().(M)
	*patched.GetStatus() = *after.GetStatus().DeepCopy()
	return client.IgnoreNotFound(r.Client.Status().Patch(ctx, patched, client.MergeFrom(base)))
}

// record logs what happened and creates its events, once it is stored.
func (r *Reconciler[M, C]) record(ctx context.Context, before M, s *state[M, C]) {
	log := ctrl.LoggerFrom(ctx)
	for _, e := range machinestatus.EventsOf(before, s.machine, s.removal) {
		if e.Log != "" {
			log.Info(e.Log, e.Values...)
		}
		if e.Type != "" {
			r.Events.Eventf(s.machine, nil, e.Type, e.Reason, e.Action, "%s", errorreason.TruncateNote(e.Note))
		}
	}
}
