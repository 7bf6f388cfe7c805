// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package deletion

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"drover.io/machine-controller/internal/contract"
	"drover.io/runtime/requesterror"
	"drover.io/runtime/results"
)

// instanceStep deletes the InfraMachine and waits until its instance is gone with it.
type instanceStep struct {
	client    client.Client
	requested *Requested
}

func (d instanceStep) run(ctx context.Context, s *State) (Progress, error) {
	waiting := Progress{
		Reason:  clusterv1.MachineDeletingWaitingForInfrastructureDeletionReason,
		Message: waitingFor(s.Machine.Spec.InfrastructureRef, s.Infrastructure.Err),
	}
	return objectDeleter(d).run(ctx, s.Machine, s.Infrastructure, waiting)
}

// waitingFor names the object that is awaited, and why it cannot be read, if that needs a correction.
func waitingFor(ref clusterv1.ContractVersionedObjectReference, readErr error) string {
	text := fmt.Sprintf("Waiting for %s %q to be deleted", ref.Kind, ref.Name)
	if contract.IsMisconfigured(readErr) {
		return fmt.Sprintf("%s, which cannot be read: %v", text, readErr)
	}
	return text
}

// objectDeleter deletes an object of a provider once, and waits until it is gone.
type objectDeleter struct {
	client    client.Client
	requested *Requested
}

// run deletes the object if it exists, the Machine controls it, and its deletion has not begun. The preconditions
// refuse an object that has changed since it was read, as its owner may be another by then. An object whose existence
// is unknown is waited for: to assume that it is gone could leak an instance. A foreign object stays.
func (d objectDeleter) run(ctx context.Context, m *clusterv1.Machine, object Object, waiting Progress) (Progress, error) {
	switch {
	case apierrors.IsNotFound(object.Err), object.Foreign:
		return done, nil
	case object.Unstructured == nil, object.Deleting():
		waiting.RequeueAfter = objectRetry // its events trigger a reconcile, unless its owner reference was removed
		return waiting, nil
	case !metav1.IsControlledBy(object, m):
		waiting.RequeueAfter = time.Second // its adoption failed, and is tried again
		return waiting, nil
	}
	err := d.client.Delete(ctx, object.Unstructured, client.Preconditions{UID: new(object.GetUID()), ResourceVersion: new(object.GetResourceVersion())})
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		waiting.RequeueAfter = time.Second
		return waiting, nil
	}
	if results.IsRefused(err) {
		waiting.Message = requesterror.Truncate(fmt.Sprintf("%s, which the API server refuses: %v", waiting.Message, err))
	}
	if err != nil {
		return waiting, fmt.Errorf("deleting %s %q: %w", object.GetKind(), object.GetName(), err)
	}
	ctrl.LoggerFrom(ctx).Info("deleted provider object", object.GetKind(), klog.KObj(object))
	d.requested.add(object.GetUID())
	return waiting, nil
}
