// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Package reason is the one table of every reason of every condition that Drover sets: what it means, who must act, and what
// helps. The reference page of conditions is generated from it, and `kubectl drover` answers from it, so that neither can
// differ from the other. It has no client and no state.
package reason

import (
	"slices"
	"strings"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Kinds that stand for several: the machines, and the machine templates, of all clouds.
const (
	InfraMachine         = "InfraMachine"
	InfraMachineTemplate = "InfraMachineTemplate"
)

// Actor is who must act.
type Actor string

// The actors.
const (
	// Nobody has to act: this is how it should be.
	Nobody Actor = "nobody"
	// Drover continues by itself, when what is awaited has happened.
	Drover Actor = "Drover"
	// Operator is who writes the objects in the management cluster.
	Operator Actor = "the operator"
	// CloudOwner is who may change the account at the cloud.
	CloudOwner Actor = "the owner of the cloud account"
	// WorkloadAdmin is who administers the workload cluster.
	WorkloadAdmin Actor = "the administrator of the workload cluster"
	// HookOwner is whose annotation is on the Machine.
	HookOwner Actor = "the owner of the hook"
	// FinalizerOwner is whose finalizer is on an object that is being deleted.
	FinalizerOwner Actor = "the owner of the finalizer"
	// Installer is who installs Drover and grants its permissions.
	Installer Actor = "the administrator of the management cluster"
)

// DeleteMachine is how the help of an entry has it that a Machine be deleted. It ends the help for a Machine of a control plane, which
// its provider must replace.
const DeleteMachine = "delete the Machine"

// OnMachine names an annotation that is set on a Machine.
func OnMachine(annotation string) string { return "the annotation " + annotation + " on the Machine" }

// DiskCaution is what to consider before the wait for the volumes of a Node is left out.
const DiskCaution = "though some clouds delete an attached disk with the instance"

// HealthCheckReplaces is what is done about an unhealthy Machine in a Cluster whose Machines are evaluated.
const HealthCheckReplaces = "a MachineHealthCheck replaces the Machine where one selects it"

// Entry is one reason of one condition of one kind.
type Entry struct {
	Kind, Condition, Reason string
	// Statuses are those that the condition has with this reason.
	Statuses []metav1.ConditionStatus
	// Meaning completes the sentence "It means that …".
	Meaning string
	Actor   Actor
	// Help is what the actor does; empty if there is nothing to do.
	Help string
	// Command is one that helps, with {namespace}, {name} and {cluster} for those of the object; empty without one.
	Command string
}

// Fine reports whether the reason is about something that is as it should be.
func (e Entry) Fine() bool { return e.Actor == Nobody }

// All are the entries of all kinds, in the order of the page.
func All() []Entry { return slices.Clone(all()) }

// all is made once: whoever asks about thousands of Machines asks for each.
var all = sync.OnceValue(func() []Entry {
	return slices.Concat(
		cluster(), machineDeployment(), machineSet(), machine(),
		machineHealthCheck(), machinePolicy(),
		bootstrapConfig(), infraMachine(), infraMachineTemplate(), restartRemediation(),
	)
})

// byReason has the entries of all kinds.
var byReason = sync.OnceValue(func() map[[3]string]Entry {
	entries := map[[3]string]Entry{}
	for _, e := range all() {
		if _, twice := entries[[3]string{e.Kind, e.Condition, e.Reason}]; !twice {
			entries[[3]string{e.Kind, e.Condition, e.Reason}] = e
		}
	}
	return entries
})

// Find returns the entry of a reason. A condition of a Machine or Cluster that mirrors another object has the reasons of
// that object.
func Find(kind, condition, reason string) (Entry, bool) {
	for _, lookup := range append([]mirror{{from: kind, of: condition}}, mirrors[mirrorKey{kind, condition}]...) {
		if entry, found := find(Group(lookup.from), lookup.of, reason); found {
			return entry, true
		}
	}
	return Entry{}, false
}

func find(kind, condition, reason string) (Entry, bool) {
	entry, found := byReason()[[3]string{kind, condition, reason}]
	return entry, found
}

// Reports reports whether the table has conditions of a kind. Others, as a BootstrapConfigTemplate, have none.
func Reports(kind string) bool {
	return slices.ContainsFunc(all(), func(e Entry) bool { return e.Kind == Group(kind) })
}

// Group is the kind under which the table has a kind: the machines and machine templates of all clouds are one each.
func Group(kind string) string {
	switch {
	case kind == "Machine":
		return kind
	case strings.HasSuffix(kind, "MachineTemplate"):
		return InfraMachineTemplate
	case strings.HasSuffix(kind, "Machine"):
		return InfraMachine
	}
	return kind
}

type mirrorKey struct{ kind, condition string }

type mirror struct{ from, of string }

// mirrors are the conditions that repeat one of another object.
var mirrors = map[mirrorKey][]mirror{
	{"Machine", "BootstrapConfigReady"}: {{"BootstrapConfig", "Ready"}},
	{"Machine", "InfrastructureReady"}:  {{InfraMachine, "Ready"}},
}

// reason is an entry before its kind and condition are known.
type reason struct {
	name     string
	statuses string
	meaning  string
	actor    Actor
	help     string
	command  string
}

// condition returns the entries of one condition.
func condition(kind, name string, reasons ...reason) []Entry {
	entries := make([]Entry, 0, len(reasons))
	for _, r := range reasons {
		var statuses []metav1.ConditionStatus
		for status := range strings.FieldsSeq(r.statuses) {
			statuses = append(statuses, metav1.ConditionStatus(status))
		}
		entries = append(entries, Entry{kind, name, r.name, statuses, r.meaning, r.actor, r.help, r.command})
	}
	return entries
}
