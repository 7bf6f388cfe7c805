// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package safety

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	policyv1 "drover.io/api/policy/v1alpha1"
)

// Freeze decides whether a MachineDeployment, or a MachineSet that stands alone, is frozen,
// puts the label on the object or takes it off, and reports whether it did. Writing the
// object is left to the caller.
func (g *Guard) Freeze(ctx context.Context, object client.Object, owner Owner, machines []*clusterv1.Machine) (decision FreezeDecision, changed bool, err error) {
	policy, err := g.PolicyFor(ctx, object)
	if err != nil {
		return FreezeDecision{}, false, err
	}
	alive := 0
	for _, m := range machines {
		if m.DeletionTimestamp.IsZero() {
			alive++
		}
	}
	_, labelled := object.GetLabels()[policyv1.FrozenLabel]
	decision = Gate{policy}.Freeze(FreezeInput{
		Owner: owner, Machines: alive, Labelled: labelled,
		Order: policyv1.FreezeOrderOf(object.GetAnnotations()), Value: object.GetAnnotations()[policyv1.FreezeAnnotation],
		OvershootSince: g.reservations.overshootSince(object.GetUID()), Now: g.Clock.Now(), Period: g.Period,
	})
	g.reservations.recordOvershoot(object.GetUID(), decision.OvershootSince, g.Clock.Now())
	if decision.Label == labelled {
		return decision, false, nil
	}
	labels := object.GetLabels()
	if labels == nil {
		labels = map[string]string{}
	}
	delete(labels, policyv1.FrozenLabel)
	if decision.Label {
		labels[policyv1.FrozenLabel] = "true"
	}
	object.SetLabels(labels)
	return decision, true, nil
}

// SetCondition puts the condition Frozen on the object while it is frozen, and takes it off after.
func (f FreezeDecision) SetCondition(on conditions.Setter) {
	if !f.Frozen() {
		conditions.Delete(on, policyv1.FrozenCondition)
		return
	}
	conditions.Set(on, metav1.Condition{
		Type: policyv1.FrozenCondition, Status: metav1.ConditionTrue, Reason: f.Reason, Message: f.Message,
	})
}
