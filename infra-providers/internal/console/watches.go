// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package console

import (
	"k8s.io/apimachinery/pkg/api/meta"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"drover.io/infra-providers/driver"
	"drover.io/infra-providers/internal/inframachine"
	"drover.io/runtime/predicates"
)

// forPredicates accepts machines whose instances begin or cease to run, or that another manager handed over.
func forPredicates(watch predicates.WatchFilter) builder.Predicates {
	changed := predicates.Changed(func(object client.Object) inputs {
		return inputs{
			runs:  meta.IsStatusConditionTrue(object.(driver.Machine).GetStatus().Conditions, clusterv1.ReadyCondition),
			owned: inframachine.OwnerReference(object) != nil,
			watch: object.GetLabels()[clusterv1.WatchLabel],
		}
	})
	changed.DeleteFunc = func(event.DeleteEvent) bool { return false }
	return builder.WithPredicates(watch.MatchingPredicate(), changed)
}

type inputs struct {
	runs, owned bool
	watch       string
}

// onMachineChange accepts Machines that got their Node.
func onMachineChange() builder.Predicates {
	changed := predicates.Changed(func(object client.Object) bool { return object.(*clusterv1.Machine).Status.NodeRef.IsDefined() })
	changed.CreateFunc = func(event.CreateEvent) bool { return false }
	changed.DeleteFunc = func(event.DeleteEvent) bool { return false }
	return builder.WithPredicates(changed)
}
