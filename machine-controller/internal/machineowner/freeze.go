// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package machineowner

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/events"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"drover.io/machine-controller/internal/patch"
	"drover.io/machine-controller/internal/safety"
	"drover.io/machine-controller/internal/safety/budget"
	"drover.io/machine-controller/internal/safety/freeze"
)

// Freezer keeps the label of a freeze on an owner.
type Freezer struct {
	Client client.Client
	Guard  *safety.Guard
	Events events.EventRecorder
}

// Run decides whether the owner is frozen, and writes all that has changed outside its status since before.
func (f Freezer) Run(ctx context.Context, before, object Object, owner budget.Owner, machines []*clusterv1.Machine) (freeze.Decision, error) {
	decision, changed, err := f.Guard.Freeze(ctx, object, owner, machines)
	if err != nil {
		return decision, err
	}
	if err := patch.Main(ctx, f.Client, before, object); err != nil {
		return decision, fmt.Errorf("patching %s: %w", kindOf(object), err)
	}
	switch {
	case changed && decision.Label:
		f.Events.Eventf(object, nil, corev1.EventTypeWarning, "Frozen", "Freeze", "%s", decision.Message)
	case changed:
		f.Events.Eventf(object, nil, corev1.EventTypeNormal, "Unfrozen", "Unfreeze", "Machines are created and replaced again")
	}
	return decision, nil
}

func kindOf(object Object) string {
	if _, is := object.(*clusterv1.MachineDeployment); is {
		return "MachineDeployment"
	}
	return "MachineSet"
}
