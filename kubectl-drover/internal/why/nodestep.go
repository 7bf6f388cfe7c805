// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package why

import (
	"slices"
	"strings"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"drover.io/api/reason"
)

// nodeStep is a step of the deletion of a Machine that needs its Node.
type nodeStep struct {
	// name completes "to go on without …", and skip "set …".
	name, skip string
	// timeout is the field of spec.deletion that skips a step without an annotation for it.
	timeout string
}

// nodeSteps are these steps, by their reason. They read MachineDrainRules: the volumes of Pods that a drain skips are not awaited.
var nodeSteps = map[string]nodeStep{
	clusterv1.MachineDeletingDrainingNodeReason:           {name: "a drain", skip: reason.OnMachine(clusterv1.ExcludeNodeDrainingAnnotation)},
	clusterv1.MachineDeletingWaitingForVolumeDetachReason: {name: "waiting for the volumes, " + reason.DiskCaution, skip: reason.OnMachine(clusterv1.ExcludeWaitForNodeVolumeDetachAnnotation)},
}

// What such a step waits for before it can begin.
const (
	awaitsAnswer = "the workload cluster has not answered yet"
	nodeRefused  = "its Node cannot be found or cordoned; the message has why"
	permitNode   = "correct what the message has: where a permission is missing, grant it to the user of the kubeconfig of the Cluster; " +
		"it is tried again by itself"
)

// What the step waits for that follows a drain which was given up, or left out. Another deletion does not end the Pods of the second.
const (
	podsUseVolumes = "Pods that were not evicted still use volumes on the Node"
	podsEnd        = "Pods that are being deleted still use volumes on the Node"
)

// messagesOf are how the messages of the steps begin that wait for that: packages deletion and volume of machine-controller
// write them.
var messagesOf = map[string][]string{
	awaitsAnswer: {"Waiting for the workload cluster to answer", "Waiting for the Nodes of the workload cluster to be read"},
	nodeRefused:  {"Waiting to find Node ", "cordoning Node "},

	podsUseVolumes: {"Waiting for Pods that were not evicted"},
	podsEnd:        {"Waiting for the kubelet to end Pods that are being deleted"},
}

// waitsFor reports whether the message of a step has one of the things that it waits for.
func (f *Finding) waitsFor(meaning string) bool {
	return slices.ContainsFunc(messagesOf[meaning], func(begin string) bool { return strings.HasPrefix(f.Condition.Message, begin) })
}

// reviewStep changes the finding of a step that has not begun because of the workload cluster, and reports whether it is one.
func (f *Finding) reviewStep(step nodeStep) bool {
	switch {
	case f.waitsFor(awaitsAnswer):
		f.Meaning, f.Actor, f.Help = awaitsAnswer, reason.Drover, ""
	case f.waitsFor(nodeRefused):
		f.Meaning, f.Actor, f.Help = nodeRefused, reason.WorkloadAdmin, permitNode+"; "+step.goOn()
	default:
		return false
	}
	f.Command = ""
	return true
}

// waitsForAnswer reports whether a step waits for an answer of the workload cluster, which needs action once it is overdue.
func (f *Finding) waitsForAnswer(step nodeStep, overdue bool) bool {
	waits := f.waitsFor(awaitsAnswer)
	if waits && overdue {
		f.unanswered(step)
	}
	return waits
}

// unanswered makes a step one that the administrator of the workload cluster must see to, as it does not answer.
func (f *Finding) unanswered(step nodeStep) {
	f.Actor, f.Help = reason.WorkloadAdmin, "make the workload cluster answer; "+step.goOn()
	f.Command = command("kubectl drover why cluster/{cluster} --namespace {namespace}", f.Object)
}

func (s nodeStep) goOn() string { return "to go on without " + s.name + ", set " + s.skip }
