// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package machinestatus

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "drover.io/api/infrastructure/v1alpha1"
	"drover.io/infra-providers/driver"
)

// Event is something that happened to a machine: one line of the log, one event, or both.
type Event struct {
	// Log is the line of the log, with values; empty for none.
	Log    string
	Values []any
	// Type is the type of the Kubernetes event; empty for none.
	Type, Reason, Action, Note string
}

// EventsOf derives what happened from the difference between two versions of a machine, so that each is recorded once,
// and only after it was stored. The removal is for a machine whose finalizer was removed.
func EventsOf[M driver.Machine](before, after M, removal Event) []Event {
	var all []Event
	created := before.GetProviderID() == "" && after.GetProviderID() != ""
	if created {
		all = append(all, instanceCreated(after))
	}
	if IsRemoved(after) && !IsRemoved(before) {
		return append(all, removal)
	}
	if was, is := before.GetStatus().InstanceState, after.GetStatus().InstanceState; was != is && !created {
		all = append(all, instanceStateChanged(after, was))
	}
	if ready, changed := reasonChanged(before, after, clusterv1.ReadyCondition); changed {
		all = append(all, readyEvents(ready)...)
	}
	if joined, changed := reasonChanged(before, after, infrav1.HostJoinedCondition); changed {
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
func readyEvents(ready metav1.Condition) []Event {
	values := []any{"reason", ready.Reason, "message", ready.Message}
	switch ready.Reason {
	case infrav1.InstanceRunningReason:
		return []Event{{Type: corev1.EventTypeNormal, Reason: ready.Reason, Action: "Start", Note: "instance runs"}}
	case infrav1.InstanceStoppedReason, infrav1.InstanceMissingReason:
		return []Event{warning("", ready, nil)}
	case infrav1.InsufficientCapacityReason, infrav1.QuotaExceededReason:
		return []Event{warning("creation refused for capacity", ready, values)}
	case infrav1.BootstrapDataInvalidReason, infrav1.InstanceNotOwnedReason, infrav1.InstanceTagsMissingReason, infrav1.AccountMismatchReason, infrav1.ClusterUnknownReason,
		infrav1.IdentityUnknownReason, infrav1.ProviderIDNotStoredReason, infrav1.InvalidConfigurationReason, infrav1.UnauthorizedReason, infrav1.RateLimitedReason, infrav1.CloudErrorReason:
		return []Event{warning("machine became not ready", ready, values)}
	default:
		return nil
	}
}

func warning(log string, ready metav1.Condition, values []any) Event {
	return Event{Log: log, Values: values, Type: corev1.EventTypeWarning, Reason: ready.Reason, Action: "Reconcile", Note: ready.Message}
}

func hostEvent(joined metav1.Condition) Event {
	if joined.Reason == infrav1.HostFailedReason {
		return Event{
			Log: "host failed", Values: []any{"reason", joined.Reason, "message", joined.Message},
			Type: corev1.EventTypeWarning, Reason: joined.Reason, Action: "Join", Note: joined.Message,
		}
	}
	return Event{Log: "host joined the Cluster", Type: corev1.EventTypeNormal, Reason: joined.Reason, Action: "Join", Note: "host joined its cluster"}
}

func instanceCreated[M driver.Machine](machine M) Event {
	return Event{
		Log: "created instance", Values: []any{"providerID", machine.GetProviderID(), "phase", machine.GetStatus().InstanceState},
		Type: corev1.EventTypeNormal, Reason: "InstanceCreated", Action: "Create", Note: fmt.Sprintf("created instance %q", machine.GetProviderID()),
	}
}

// instanceStateChanged is a line of the log alone: the Ready condition has the events.
func instanceStateChanged[M driver.Machine](machine M, previous string) Event {
	values := []any{"providerID", machine.GetProviderID(), "phase", machine.GetStatus().InstanceState, "previousPhase", previous}
	if ready := meta.FindStatusCondition(machine.GetStatus().Conditions, clusterv1.ReadyCondition); ready != nil && ready.Status != metav1.ConditionTrue {
		values = append(values, "reason", ready.Reason, "message", ready.Message)
	}
	return Event{Log: "instance state changed", Values: values}
}

// InstanceDeleted is for a machine whose instance was read not to exist any more, or that never had one.
func InstanceDeleted(providerID string) Event {
	e := Event{Type: corev1.EventTypeNormal, Reason: "InstanceDeleted", Action: "Delete"}
	if providerID == "" {
		e.Log, e.Note = "removed finalizer without an instance", "nothing is left in the cloud"
		return e
	}
	e.Log, e.Values, e.Note = "deleted instance", []any{"providerID", providerID}, fmt.Sprintf("deleted instance %q", providerID)
	return e
}

// InstanceNeverCreated is for a machine that never had an instance, whatever its spec names.
func InstanceNeverCreated(providerID string) Event {
	if providerID == "" {
		return Event{
			Log:  "removed finalizer without an instance",
			Type: corev1.EventTypeNormal, Reason: "InstanceNeverCreated", Action: "Delete", Note: "no instance was requested",
		}
	}
	return keptInstance(infrav1.InstanceNotOwnedReason, providerID, fmt.Sprintf("no instance was requested: what spec.providerID names, %q, is not deleted", providerID))
}

// InstanceNotOwned is for a machine whose recorded instance belongs to another owner.
func InstanceNotOwned(cause *driver.NotOwnedError) Event {
	return keptInstance(infrav1.InstanceNotOwnedReason, cause.ProviderID, cause.Error()+": it is not deleted, and this machine has no other")
}

// InstanceReleased is for a machine whose instance the user keeps.
func InstanceReleased(name string, cause error) Event {
	return keptInstance("InstanceReleased", name,
		fmt.Sprintf("%q is left in the cloud, as requested by the annotation %s, and may cost money: %v", name, infrav1.ReleaseAnnotation, cause))
}

func keptInstance(reason, providerID, note string) Event {
	return Event{
		Log: "removed finalizer and kept the instance", Values: []any{"providerID", providerID, "reason", reason, "message", note},
		Type: corev1.EventTypeWarning, Reason: reason, Action: "Delete", Note: note,
	}
}

// IsRemoved reports whether the API server removes the object once its finalizers are written.
func IsRemoved[M driver.Machine](machine M) bool {
	return !machine.GetDeletionTimestamp().IsZero() && len(machine.GetFinalizers()) == 0
}
