// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package inframachine

import (
	"errors"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"drover.io/infra-providers/driver"
	"drover.io/infra-providers/internal/throttle"
	"drover.io/infra-providers/internal/verdict"
)

// HostJoinedCondition tells whether the host inside the instance joined its cluster. It exists only where
// the cloud can see inside the instance, and does not count for Ready: the instance may be fine.
const HostJoinedCondition = "HostJoined"

// Reasons of the Ready condition.
const (
	// WaitingForMachineReason: no Machine owns this object yet.
	WaitingForMachineReason = "WaitingForMachine"
	// WaitingForClusterReason: the Cluster does not exist or its infrastructure is not provisioned.
	WaitingForClusterReason = "WaitingForClusterInfrastructure"
	// WaitingForBootstrapReason: the Machine does not name its bootstrap data yet.
	WaitingForBootstrapReason = "WaitingForBootstrapData"
	// BootstrapDataInvalidReason: the bootstrap data cannot be read.
	BootstrapDataInvalidReason = "BootstrapDataInvalid"
	// InstancePendingReason: the instance, or what it needs beside it, was created and is not ready yet.
	InstancePendingReason = verdict.InstancePending
	// InstanceRunningReason: the instance runs.
	InstanceRunningReason = "InstanceRunning"
	// InstanceStoppedReason: the instance exists and does not run.
	InstanceStoppedReason = "InstanceStopped"
	// InstanceMissingReason: somebody else deleted the instance. Terminal: delete the Machine.
	InstanceMissingReason = "InstanceMissing"
	// InstanceNotOwnedReason: the instance belongs to something else. Terminal: delete the Machine.
	InstanceNotOwnedReason = verdict.InstanceNotOwned
	// InvalidConfigurationReason: the spec cannot work. Terminal: delete the Machine.
	InvalidConfigurationReason = verdict.InvalidConfiguration
	// UnauthorizedReason: the cloud refused the credentials.
	UnauthorizedReason = verdict.Unauthorized
	// QuotaExceededReason: the account's quota is used up.
	QuotaExceededReason = verdict.QuotaExceeded
	// InsufficientCapacityReason: the cloud has no room for the instance type in the zone.
	InsufficientCapacityReason = verdict.InsufficientCapacity
	// RateLimitedReason: the account asks the cloud too often.
	RateLimitedReason = verdict.RateLimited
	// CloudErrorReason: the cloud failed in a way that may pass.
	CloudErrorReason = verdict.CloudError
	// DeletingReason: the instance is being deleted.
	DeletingReason = clusterv1.DeletingReason
)

// Reasons of the HostJoined condition.
const (
	// JoinedReason: the host registered its Node.
	JoinedReason = "Joined"
	// HostFailedReason: the host gave up or died.
	HostFailedReason = "HostFailed"
)

// judge says what an error means for a machine.
func judge(err error) verdict.Verdict {
	says := verdict.Of(err)
	switch says.Reason {
	case InvalidConfigurationReason:
		says.Advice = "; delete the Machine and fix its template"
	case InstanceNotOwnedReason:
		says.Advice = "; it is left alone, delete the Machine"
	}
	return says
}

func setReady[M driver.Machine](machine M, status metav1.ConditionStatus, reason, message string) {
	setCondition(machine, clusterv1.ReadyCondition, status, reason, message)
}

func setWaiting[M driver.Machine](machine M, reason, message string) {
	setReady(machine, metav1.ConditionFalse, reason, message)
}

// setShortage tells where there is no room, and what comes next.
func setShortage[M driver.Machine](machine M, shortages []throttle.Shortage, next string) {
	says := verdict.Verdict{}
	var words []string
	told := map[throttle.Place]bool{}
	for _, place := range shortages {
		if place.Left == 0 || told[place.Place] {
			continue
		}
		told[place.Place] = true
		if says.Reason != InsufficientCapacityReason {
			says = judge(place.Cause)
		}
		words = append(words, shortOf(place))
	}
	setWaiting(machine, says.Reason, strings.Join(words, "; ")+says.Advice+"; "+next)
}

// shortOf says what is short where, with the cloud's own words.
func shortOf(place throttle.Shortage) string {
	if full, ok := errors.AsType[*driver.InsufficientCapacityError](place.Cause); ok {
		return fmt.Sprintf("no capacity for %q in %q: %v", place.Place.InstanceType, place.Place.Zone, full.Err)
	}
	return fmt.Sprintf("no quota for %q in %q: %v", place.Place.InstanceType, place.Place.Zone, place.Cause)
}

func setPaused[M driver.Machine](machine M, cluster *clusterv1.Cluster) (paused bool) {
	switch _, annotated := machine.GetAnnotations()[clusterv1.PausedAnnotation]; {
	case cluster != nil && ptr.Deref(cluster.Spec.Paused, false):
		setCondition(machine, clusterv1.PausedCondition, metav1.ConditionTrue, clusterv1.PausedReason, "Cluster spec.paused is set to true")
		return true
	case annotated:
		message := fmt.Sprintf("the annotation %s is set", clusterv1.PausedAnnotation)
		setCondition(machine, clusterv1.PausedCondition, metav1.ConditionTrue, clusterv1.PausedReason, message)
		return true
	default:
		setCondition(machine, clusterv1.PausedCondition, metav1.ConditionFalse, clusterv1.NotPausedReason, "")
		return false
	}
}

func setInstance[M driver.Machine](machine M, instance driver.Instance) {
	switch instance.State {
	case driver.Running:
		setReady(machine, metav1.ConditionTrue, InstanceRunningReason, "")
	case driver.Pending:
		setWaiting(machine, InstancePendingReason, describe("waiting for the cloud to start the instance", instance.Message))
	case driver.Terminated:
		setMissing(machine, instance.Message)
	default:
		setWaiting(machine, InstanceStoppedReason, describe("the instance does not run; start it or delete the Machine", instance.Message))
	}
}

func setMissing[M driver.Machine](machine M, message string) {
	setWaiting(machine, InstanceMissingReason, describe("somebody deleted the instance; it is not created again, delete the Machine to replace it", message))
}

func setGuest[M driver.Machine](machine M, guest *driver.Guest) {
	switch {
	case guest == nil:
	case guest.Failed:
		setCondition(machine, HostJoinedCondition, metav1.ConditionFalse, HostFailedReason, guest.Message)
	case guest.Joined:
		setCondition(machine, HostJoinedCondition, metav1.ConditionTrue, JoinedReason, "")
	}
}

func setCondition[M driver.Machine](machine M, kind string, status metav1.ConditionStatus, reason, message string) {
	meta.SetStatusCondition(&machine.GetStatus().Conditions, metav1.Condition{
		Type:               kind,
		Status:             status,
		Reason:             reason,
		Message:            verdict.Truncate(message),
		ObservedGeneration: observedGeneration(machine, kind),
	})
}

// observedGeneration leaves the generation out of Paused, as upstream does, and keeps it from being the
// only thing that changes: setting providerID raises it and says nothing about the condition.
func observedGeneration[M driver.Machine](machine M, kind string) int64 {
	if known := meta.FindStatusCondition(machine.GetStatus().Conditions, kind); known != nil {
		return known.ObservedGeneration
	}
	return machine.GetGeneration()
}

// describe adds the cloud's own words, where there are any.
func describe(message, words string) string {
	if words == "" {
		return message
	}
	return message + ": " + words
}

var errNoBootstrapValue = errors.New(`it has no data under "value"`)
