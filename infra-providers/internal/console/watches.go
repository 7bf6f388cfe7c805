// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package console

import (
	"k8s.io/apimachinery/pkg/api/meta"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"

	infrav1 "drover.io/api/infrastructure/v1alpha1"
	"drover.io/infra-providers/driver"
	"drover.io/infra-providers/internal/inframachine"
	"drover.io/runtime/predicates"
)

// forPredicates accepts machines whose instances begin or cease to run, that another manager handed over, or whose
// HostJoined ceases to be true.
func forPredicates(watch predicates.WatchFilter) builder.Predicates {
	changed := predicates.Changed(inputsOf)
	changed.DeleteFunc = func(event.DeleteEvent) bool { return false }
	return builder.WithPredicates(watch.MatchingPredicate(), changed)
}

// inputsOf is all of a machine that this controller acts upon.
func inputsOf(object client.Object) inputs {
	conditions := object.(driver.Machine).GetStatus().Conditions
	return inputs{
		runs:   meta.IsStatusConditionTrue(conditions, clusterv1.ReadyCondition),
		joined: meta.IsStatusConditionTrue(conditions, infrav1.HostJoinedCondition),
		owned:  inframachine.OwnerReference(object) != nil,
		watch:  object.GetLabels()[clusterv1.WatchLabel],
	}
}

type inputs struct {
	// joined may be written by this controller alone, and the machine's own reconciler may replace it by what its cache had.
	runs, joined, owned bool
	watch               string
}

// onMachineChange accepts Machines that got their Node.
func onMachineChange() builder.Predicates {
	changed := predicates.Changed(func(object client.Object) bool { return object.(*clusterv1.Machine).Status.NodeRef.IsDefined() })
	changed.CreateFunc = func(event.CreateEvent) bool { return false }
	changed.DeleteFunc = func(event.DeleteEvent) bool { return false }
	return builder.WithPredicates(changed)
}
