// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package inframachine

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"

	infrav1 "drover.io/api/infrastructure/v1alpha1"
	"drover.io/infra-providers/driver"
)

// machineEvent is something that happened to a machine: one line of the log, one event, or both.
type machineEvent struct {
	// log is the line of the log, with values; empty for none.
	log    string
	values []any
	// kind is the type of the event; empty for none.
	kind, reason, action, note string
}

// record logs what happened and creates its events, once it is stored.
func (r *Reconciler[M, C]) record(ctx context.Context, before M, s *state[M, C]) {
	log := ctrl.LoggerFrom(ctx)
	for _, e := range eventsOf(before, s.machine, s.removal) {
		if e.log != "" {
			log.Info(e.log, e.values...)
		}
		if e.kind != "" {
			r.Events.Eventf(s.machine, nil, e.kind, e.reason, e.action, "%s", e.note)
		}
	}
}

// eventsOf derives what happened from the difference between two versions of a machine, so that each is recorded once,
// and only after it was stored. The removal is for a machine whose finalizer was removed.
func eventsOf[M driver.Machine](before, after M, removal machineEvent) []machineEvent {
	var all []machineEvent
	created := before.GetProviderID() == "" && after.GetProviderID() != ""
	if created {
		all = append(all, instanceCreated(after))
	}
	if isRemoved(after) && !isRemoved(before) {
		return append(all, removal)
	}
	if was, is := before.GetStatus().InstanceState, after.GetStatus().InstanceState; was != is && !created {
		all = append(all, instanceStateChanged(after, was))
	}
	if ready, changed := reasonChanged(before, after, clusterv1.ReadyCondition); changed {
		all = append(all, readyEvents(ready)...)
	}
	if joined, changed := reasonChanged(before, after, HostJoinedCondition); changed {
		all = append(all, hostEvent(joined))
	}
	return all
}

// reasonChanged returns a condition whose reason is another than before.
func reasonChanged[M driver.Machine](before, after M, conditionType string) (metav1.Condition, bool) {
	was := meta.FindStatusCondition(before.GetStatus().Conditions, conditionType)
	is := meta.FindStatusCondition(after.GetStatus().Conditions, conditionType)
	if is == nil || was != nil && was.Reason == is.Reason {
		return metav1.Condition{}, false
	}
	return *is, true
}

// readyEvents are for a Ready condition whose reason changed. A change of the instance's state has a line of its own, and
// what a machine waits for is no event.
func readyEvents(ready metav1.Condition) []machineEvent {
	values := []any{"reason", ready.Reason, "message", ready.Message}
	switch ready.Reason {
	case InstanceRunningReason:
		return []machineEvent{{kind: corev1.EventTypeNormal, reason: ready.Reason, action: "Start", note: "instance runs"}}
	case InstanceStoppedReason, InstanceMissingReason:
		return []machineEvent{warning("", ready, nil)}
	case InsufficientCapacityReason, QuotaExceededReason:
		return []machineEvent{warning("creation refused for capacity", ready, values)}
	case BootstrapDataInvalidReason, InstanceNotOwnedReason, InstanceTagsMissingReason, AccountMismatchReason, ClusterUnknownReason,
		IdentityUnknownReason, ProviderIDNotStoredReason, InvalidConfigurationReason, UnauthorizedReason, RateLimitedReason, CloudErrorReason:
		return []machineEvent{warning("machine became not ready", ready, values)}
	default:
		return nil
	}
}

func warning(log string, ready metav1.Condition, values []any) machineEvent {
	return machineEvent{log: log, values: values, kind: corev1.EventTypeWarning, reason: ready.Reason, action: "Reconcile", note: ready.Message}
}

func hostEvent(joined metav1.Condition) machineEvent {
	if joined.Reason == HostFailedReason {
		return machineEvent{
			log: "host failed", values: []any{"reason", joined.Reason, "message", joined.Message},
			kind: corev1.EventTypeWarning, reason: joined.Reason, action: "Join", note: joined.Message,
		}
	}
	return machineEvent{log: "host joined the Cluster", kind: corev1.EventTypeNormal, reason: joined.Reason, action: "Join", note: "host joined its cluster"}
}

func instanceCreated[M driver.Machine](machine M) machineEvent {
	return machineEvent{
		log: "created instance", values: []any{"providerID", machine.GetProviderID(), "phase", machine.GetStatus().InstanceState},
		kind: corev1.EventTypeNormal, reason: "InstanceCreated", action: "Create", note: fmt.Sprintf("created instance %q", machine.GetProviderID()),
	}
}

// instanceStateChanged is a line of the log alone: the Ready condition has the events.
func instanceStateChanged[M driver.Machine](machine M, previous string) machineEvent {
	values := []any{"providerID", machine.GetProviderID(), "phase", machine.GetStatus().InstanceState, "previousPhase", previous}
	if ready := meta.FindStatusCondition(machine.GetStatus().Conditions, clusterv1.ReadyCondition); ready != nil && ready.Status != metav1.ConditionTrue {
		values = append(values, "reason", ready.Reason, "message", ready.Message)
	}
	return machineEvent{log: "instance state changed", values: values}
}

// instanceDeleted is for a machine whose instance was read not to exist any more, or that never had one.
func instanceDeleted(providerID string) machineEvent {
	e := machineEvent{kind: corev1.EventTypeNormal, reason: "InstanceDeleted", action: "Delete"}
	if providerID == "" {
		e.log, e.note = "removed finalizer without an instance", "nothing is left in the cloud"
		return e
	}
	e.log, e.values, e.note = "deleted instance", []any{"providerID", providerID}, fmt.Sprintf("deleted instance %q", providerID)
	return e
}

// instanceNeverCreated is for a machine that never had an instance, whatever its spec names.
func instanceNeverCreated(providerID string) machineEvent {
	if providerID == "" {
		return machineEvent{
			log:  "removed finalizer without an instance",
			kind: corev1.EventTypeNormal, reason: "InstanceNeverCreated", action: "Delete", note: "no instance was ever asked for",
		}
	}
	return keptInstance(InstanceNotOwnedReason, providerID, fmt.Sprintf("no instance was ever asked for: what spec.providerID names, %q, is left alone", providerID))
}

// instanceNotOwned is for a machine whose recorded instance belongs to another owner.
func instanceNotOwned(cause *driver.NotOwnedError) machineEvent {
	return keptInstance(InstanceNotOwnedReason, cause.ProviderID, cause.Error()+": it is left alone, and this machine has no other")
}

// instanceReleased is for a machine whose instance the user keeps.
func instanceReleased(name string, cause error) machineEvent {
	return keptInstance("InstanceReleased", name,
		fmt.Sprintf("%q is left in the cloud as the annotation %s asks, and may cost money: %v", name, infrav1.ReleaseAnnotation, cause))
}

func keptInstance(reason, providerID, note string) machineEvent {
	return machineEvent{
		log: "removed finalizer and kept the instance", values: []any{"providerID", providerID, "reason", reason, "message", note},
		kind: corev1.EventTypeWarning, reason: reason, action: "Delete", note: note,
	}
}
