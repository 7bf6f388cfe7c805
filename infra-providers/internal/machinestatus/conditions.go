// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Package machinestatus is the status of an infrastructure machine: its conditions with their reasons and messages, what an
// error of a driver means for it, and the events that follow from the difference of two versions. It is pure: package
// inframachine reads, decides and writes.
package machinestatus

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "drover.io/api/infrastructure/v1alpha1"
	"drover.io/infra-providers/driver"
	"drover.io/infra-providers/internal/errorreason"
	"drover.io/infra-providers/internal/throttle"
	"drover.io/runtime/predicates"
)

// refusedInterval is the pause after a creation that the cloud refused because of the spec. Clouds refuse so for some minutes what was
// made a moment ago, such as an image or an instance profile, and a spec that is wrong costs one creation in each interval. It is up to
// a fifth longer, so that the machines of one template are not created at once.
const refusedInterval = 10 * time.Minute

// CallError means that a call to the cloud failed: creating, reading or provisioning an instance. A cloud may refuse a creation in the
// answer to its request, or later, while what it accepted is read or provisioned.
type CallError struct {
	// Doing is creating, reading or provisioning.
	Doing string
	Err   error
}

func (e *CallError) Error() string { return e.Doing + " instance: " + e.Err.Error() }

// Unwrap returns the cause.
func (e *CallError) Unwrap() error { return e.Err }

// ProblemOf is what an error means for a machine.
func ProblemOf[M driver.Machine](machine M, err error) errorreason.Problem {
	problem := errorreason.Classify(err)
	deleting := !machine.GetDeletionTimestamp().IsZero()
	if errors.Is(err, ErrIdentityUnknown) {
		problem.Reason, problem.Transient = infrav1.IdentityUnknownReason, false
		problem.Advice = fmt.Sprintf("; set the annotation %s to the value of the tag %s of its instance, which is the machine's own UID %s unless it came from another management cluster",
			infrav1.IdentityAnnotation, driver.TagMachineUID, machine.GetUID())
	}
	switch problem.Reason {
	case infrav1.InstanceTagsMissingReason:
		problem.Advice = tagsMissingAdvice(machine)
	case infrav1.AccountMismatchReason:
		problem.Advice = fmt.Sprintf("; bring back the credentials of the machine's account, or if both names are of one account, correct the annotation %s", infrav1.AccountAnnotation)
	}
	if deleting && isReleasable(err) {
		problem.Advice += "; " + releaseAdvice(machine)
		problem.Terminal = false
		problem.Retry = max(problem.Retry, time.Minute)
		return problem
	}
	switch problem.Reason {
	case infrav1.CloudErrorReason:
		if deleting {
			problem.Advice += "; if the cloud never answers again, " + releaseAdvice(machine)
		}
	case infrav1.InvalidConfigurationReason:
		return invalidConfiguration(machine, problem, err)
	case infrav1.InstanceNotOwnedReason:
		problem.Advice = "; it is not deleted, delete the Machine"
	}
	return problem
}

// invalidConfiguration adds when an invalid configuration is tried again. What no cloud was asked for stays as it is.
func invalidConfiguration[M driver.Machine](machine M, problem errorreason.Problem, err error) errorreason.Problem {
	_, asked := errors.AsType[*CallError](err)
	switch {
	case ptr.Deref(machine.GetStatus().Initialization.Provisioned, false):
		// It was valid. What the credentials lead to has changed, and may be corrected there, which causes no event here.
		problem.Advice = "; it was valid before: correct the credentials or what they lead to"
		problem.Terminal, problem.Retry = false, time.Minute
	case asked && !driver.IsNeverValid(err):
		problem.Advice = "; tried again every 10 minutes, in case the cloud has it by then; if the spec is wrong, delete the Machine and fix its template"
		problem.Terminal, problem.Retry, problem.Spread = false, refusedInterval, refusedInterval/5
	default:
		problem.Advice = "; delete the Machine and fix its template"
	}
	return problem
}

// tagsMissingAdvice is the last known state of an instance without tags, and how to identify it again.
func tagsMissingAdvice[M driver.Machine](machine M) string {
	state := ""
	if last := machine.GetStatus().InstanceState; last != "" {
		state = "; its last known state is " + last
	}
	return fmt.Sprintf("%s; put back its tags (%s=%s and those of its name and Cluster) or delete it in the cloud",
		state, driver.TagMachineUID, machine.GetAnnotations()[infrav1.IdentityAnnotation])
}

// isReleasable reports whether an error prevents the deletion of the instance, or the proof of it, for longer than a
// failure of the cloud would.
func isReleasable(err error) bool {
	return errors.Is(err, ErrIdentityUnknown) || driver.IsUntagged(err) || driver.IsAccountMismatch(err) || driver.IsUnauthorized(err) || driver.IsInvalidConfiguration(err)
}

// MayRelease reports whether the annotation that releases an instance counts after an error. It does so too while a cloud
// fails, because one that does not exist any more fails in the same way.
func MayRelease(err error) bool {
	problem := errorreason.Classify(err)
	return isReleasable(err) || problem.Reason == infrav1.CloudErrorReason && !problem.Unreported
}

func releaseAdvice[M driver.Machine](machine M) string {
	return fmt.Sprintf("to remove the object and keep the instance, set the annotation %s=%s", infrav1.ReleaseAnnotation, ReleaseAnnotationValue(machine))
}

// ReleaseAnnotationValue is the value of the annotation that releases an instance: its providerID, or where none is known the
// identity under which one may have been created, or the machine's own UID.
func ReleaseAnnotationValue[M driver.Machine](machine M) string {
	return cmp.Or(machine.GetProviderID(), machine.GetAnnotations()[infrav1.IdentityAnnotation], string(machine.GetUID()))
}

func setReady[M driver.Machine](machine M, status metav1.ConditionStatus, reason, message string) {
	setCondition(machine, clusterv1.ReadyCondition, status, reason, message)
}

// SetWaiting sets Ready to False.
func SetWaiting[M driver.Machine](machine M, reason, message string) {
	setReady(machine, metav1.ConditionFalse, reason, message)
}

// SetShortage writes which places have no capacity, and what is next.
func SetShortage[M driver.Machine](machine M, shortages []throttle.UnavailableOffering, next string) {
	problem := errorreason.Problem{}
	var messages []string
	listed := map[throttle.Offering]bool{}
	for _, place := range shortages {
		if place.Left == 0 || listed[place.Offering] {
			continue
		}
		listed[place.Offering] = true
		if problem.Reason != infrav1.InsufficientCapacityReason {
			problem = ProblemOf(machine, place.Cause)
		}
		messages = append(messages, describeShortage(place))
	}
	SetWaiting(machine, problem.Reason, strings.Join(messages, "; ")+problem.Advice+"; "+next)
}

// describeShortage is what has no capacity where, with the message of the cloud.
func describeShortage(place throttle.UnavailableOffering) string {
	if full, ok := errors.AsType[*driver.InsufficientCapacityError](place.Cause); ok {
		return fmt.Sprintf("no capacity for %q in %q: %v", place.Offering.InstanceType, place.Offering.Zone, full.Err)
	}
	return fmt.Sprintf("no quota for %q in %q: %v", place.Offering.InstanceType, place.Offering.Zone, place.Cause)
}

// ClusterUnknown is the message of ClusterUnknownReason.
const ClusterUnknown = "the name of the Cluster is not known, and without it no instance can be proven to be this machine's; set the label " +
	clusterv1.ClusterNameLabel + " to the name that it had"

// SetPaused sets Paused, and reports whether the machine is paused.
func SetPaused[M driver.Machine](machine M, cluster *clusterv1.Cluster) (paused bool) {
	condition := predicates.PausedCondition(cluster, machine, "infrastructure machine")
	setCondition(machine, condition.Type, condition.Status, condition.Reason, condition.Message)
	return condition.Status == metav1.ConditionTrue
}

// SetInstance sets Ready from the state of the instance.
func SetInstance[M driver.Machine](machine M, instance driver.Instance) {
	switch instance.State {
	case driver.Running:
		if instance.Eviction != "" {
			SetWaiting(machine, infrav1.EvictionRequestedReason, Describe("the cloud waits for the deletion of the instance; delete the Machine to replace it", instance.Eviction))
			return
		}
		setReady(machine, metav1.ConditionTrue, infrav1.InstanceRunningReason, "")
	case driver.Pending:
		SetWaiting(machine, infrav1.InstancePendingReason, Describe("waiting for the cloud to start the instance", instance.Message))
	case driver.Terminated:
		setMissing(machine, instance.Message)
	default:
		SetWaiting(machine, infrav1.InstanceStoppedReason, Describe("the instance does not run; start it or delete the Machine", instance.Message))
	}
}

func setMissing[M driver.Machine](machine M, message string) {
	SetWaiting(machine, infrav1.InstanceMissingReason, Describe("the instance was deleted by others; it is not created again, delete the Machine to replace it", message))
}

// SetGuest sets HostJoined from what the cloud reports about the host; nothing without such a report.
func SetGuest[M driver.Machine](machine M, guest *driver.Guest) {
	switch {
	case guest == nil:
	case guest.Failed:
		setCondition(machine, infrav1.HostJoinedCondition, metav1.ConditionFalse, infrav1.HostFailedReason, guest.Message)
	case guest.Joined:
		setCondition(machine, infrav1.HostJoinedCondition, metav1.ConditionTrue, infrav1.JoinedReason, "")
	}
}

// SetHostJoined sets HostJoined.
func SetHostJoined[M driver.Machine](machine M, status metav1.ConditionStatus, reason, message string) {
	setCondition(machine, infrav1.HostJoinedCondition, status, reason, message)
}

func setCondition[M driver.Machine](machine M, kind string, status metav1.ConditionStatus, reason, message string) {
	meta.SetStatusCondition(&machine.GetStatus().Conditions, metav1.Condition{
		Type:               kind,
		Status:             status,
		Reason:             reason,
		Message:            errorreason.Truncate(message),
		ObservedGeneration: observedGeneration(machine, kind),
	})
}

// observedGeneration is not set in Paused, as upstream does it, and never changes alone: setting providerID raises the
// generation without any change of the condition.
func observedGeneration[M driver.Machine](machine M, kind string) int64 {
	if known := meta.FindStatusCondition(machine.GetStatus().Conditions, kind); known != nil {
		return known.ObservedGeneration
	}
	return machine.GetGeneration()
}

// Describe adds the message of the cloud, if there is one.
func Describe(message, ofCloud string) string {
	if ofCloud == "" {
		return message
	}
	return message + ": " + ofCloud
}

// ErrIdentityUnknown means that a machine may have an instance and that its identity is lost.
var ErrIdentityUnknown = errors.New("neither the machine's annotation nor its providerID identifies the instance that was made for it")
