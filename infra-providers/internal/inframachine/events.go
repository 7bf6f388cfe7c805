// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package inframachine

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"

	infrav1 "drover.io/api/infrastructure/v1alpha1"
	"drover.io/infra-providers/driver"
)

// notice is one event to tell.
type notice struct {
	kind, reason, action, note string
}

// announce tells what happened, once it is stored.
func (r *Reconciler[M, C]) announce(ctx context.Context, before M, s *state[M, C]) {
	log := ctrl.LoggerFrom(ctx)
	for _, e := range happened(before, s.machine, s.end) {
		log.Info(e.note, "reason", e.reason)
		r.Events.Eventf(s.machine, nil, e.kind, e.reason, e.action, "%s", e.note)
	}
}

// happened derives the events from the difference between two versions of a machine, so that each is
// told once and only after it was stored. The end is what became of the instance of a machine that goes.
func happened[M driver.Machine](before, after M, end notice) []notice {
	var told []notice
	if before.GetProviderID() == "" && after.GetProviderID() != "" {
		told = append(told, created(after.GetProviderID()))
	}
	if gone(after) && !gone(before) {
		return append(told, end)
	}
	for _, watched := range []struct {
		condition string
		tell      func(reason, message string) (notice, bool)
	}{
		{clusterv1.ReadyCondition, readyChanged},
		{HostJoinedCondition, joinedChanged},
	} {
		was := meta.FindStatusCondition(before.GetStatus().Conditions, watched.condition)
		is := meta.FindStatusCondition(after.GetStatus().Conditions, watched.condition)
		if is == nil || was != nil && was.Reason == is.Reason {
			continue
		}
		if e, ok := watched.tell(is.Reason, is.Message); ok {
			told = append(told, e)
		}
	}
	return told
}

func readyChanged(reason, message string) (notice, bool) {
	switch reason {
	case InstanceRunningReason:
		return notice{corev1.EventTypeNormal, reason, "Start", "instance runs"}, true
	case BootstrapDataInvalidReason, InstanceStoppedReason, InstanceMissingReason, InstanceNotOwnedReason, InstanceTagsMissingReason,
		AccountMismatchReason, ClusterUnknownReason, IdentityUnknownReason, ProviderIDNotStoredReason, InvalidConfigurationReason,
		UnauthorizedReason, QuotaExceededReason, InsufficientCapacityReason, RateLimitedReason, CloudErrorReason:
		return notice{corev1.EventTypeWarning, reason, "Reconcile", message}, true
	default:
		return notice{}, false
	}
}

func joinedChanged(reason, message string) (notice, bool) {
	if reason == HostFailedReason {
		return notice{corev1.EventTypeWarning, reason, "Join", message}, true
	}
	return notice{corev1.EventTypeNormal, reason, "Join", "host joined its cluster"}, true
}

func created(providerID string) notice {
	return notice{corev1.EventTypeNormal, "InstanceCreated", "Create", fmt.Sprintf("created instance %q", providerID)}
}

// deleted is the end of a machine whose instance was read to be gone, or of which there never was one.
func deleted(providerID string) notice {
	if providerID == "" {
		return notice{corev1.EventTypeNormal, "InstanceDeleted", "Delete", "nothing is left in the cloud"}
	}
	return notice{corev1.EventTypeNormal, "InstanceDeleted", "Delete", fmt.Sprintf("deleted instance %q", providerID)}
}

// unclaimed is the end of a machine that never asked for an instance, whatever its spec names.
func unclaimed(providerID string) notice {
	if providerID == "" {
		return notice{corev1.EventTypeNormal, "InstanceNeverCreated", "Delete", "no instance was ever asked for"}
	}
	return notice{corev1.EventTypeWarning, InstanceNotOwnedReason, "Delete",
		fmt.Sprintf("no instance was ever asked for: what spec.providerID names, %q, is left alone", providerID)}
}

// foreign is the end of a machine whose recorded instance is somebody else's.
func foreign(cause *driver.NotOwnedError) notice {
	return notice{corev1.EventTypeWarning, InstanceNotOwnedReason, "Delete", cause.Error() + ": it is left alone, and this machine has no other"}
}

// released is the end of a machine whose instance the user takes over.
func released(word string, cause error) notice {
	return notice{corev1.EventTypeWarning, "InstanceReleased", "Delete",
		fmt.Sprintf("%q is left in the cloud as the annotation %s asks, and may cost money: %v", word, infrav1.ReleaseAnnotation, cause)}
}
