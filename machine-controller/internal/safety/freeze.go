// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package safety

import (
	"context"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	droverpolicyv1 "drover.io/api/policy/v1alpha1"
	"drover.io/machine-controller/internal/safety/budget"
	"drover.io/machine-controller/internal/safety/freeze"
)

// Freeze decides whether a MachineDeployment, or a MachineSet without one, is frozen, adds the label to the object or
// removes it, and reports whether the label changed. The caller writes the object.
func (g *Guard) Freeze(ctx context.Context, object client.Object, owner budget.Owner, machines []*clusterv1.Machine) (decision freeze.Decision, changed bool, err error) {
	settings, err := g.PolicyFor(ctx, object)
	if err != nil {
		return freeze.Decision{}, false, err
	}
	n := 0
	for _, m := range machines {
		if m.DeletionTimestamp.IsZero() {
			n++
		}
	}
	_, labelled := object.GetLabels()[droverpolicyv1.FrozenLabel]
	decision = freeze.Decide(settings, freeze.Input{
		Owner: owner, Machines: n, Labelled: labelled,
		Setting: droverpolicyv1.FreezeSettingOf(object.GetAnnotations()), Value: object.GetAnnotations()[droverpolicyv1.FreezeAnnotation],
		OvershootSince: g.reserved().overshootSince(object.GetUID()), Now: g.Clock.Now(), Period: g.Period,
	})
	g.reserved().recordOvershoot(object.GetUID(), decision.OvershootSince)
	if decision.Label == labelled {
		return decision, false, nil
	}
	labels := object.GetLabels()
	if labels == nil {
		labels = map[string]string{}
	}
	delete(labels, droverpolicyv1.FrozenLabel)
	if decision.Label {
		labels[droverpolicyv1.FrozenLabel] = "true"
	}
	object.SetLabels(labels)
	return decision, true, nil
}
