// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package safety

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"

	policyv1 "drover.io/api/policy/v1alpha1"
)

// Policy is a MachinePolicy with everything filled in that it leaves out.
type Policy struct {
	// Name of the MachinePolicy; empty where none selects.
	Name string

	PerFleet, PerCluster, PerDomain Share
	StopAbove                       Share

	// Up and Down bound an overshoot.
	Up, Down int

	// PendingPerFleet and PendingPerCluster limit creations; 0 is no limit.
	PendingPerFleet, PendingPerCluster int

	// ProgressDeadline is how long a rollout may stand still; 0 is for ever.
	ProgressDeadline time.Duration

	// ForceDrainAfter is when a drain becomes forced; 0 is never.
	ForceDrainAfter time.Duration
	SerialVolumes   bool
}

// Default returns the policy for what no MachinePolicy selects.
func Default() Policy {
	return Policy{PerFleet: Percent(10), PerCluster: Percent(10), PerDomain: Percent(10), StopAbove: Percent(40), Up: 2, Down: 1, ProgressDeadline: 10 * time.Minute}
}

// Selecting returns the policies that select an object with the labels, the one in force
// first: the oldest and, of those that are equally old, the first by name. One that is
// being deleted, or whose selector cannot be used, selects nothing.
func Selecting(policies []policyv1.MachinePolicy, of map[string]string) []*policyv1.MachinePolicy {
	var selecting []*policyv1.MachinePolicy
	for i := range policies {
		p := &policies[i]
		if !p.DeletionTimestamp.IsZero() || p.Spec.Selector == nil {
			continue
		}
		if selector, err := p.Spec.Selector.AsSelector(); err == nil && selector.Matches(labels.Set(of)) {
			selecting = append(selecting, p)
		}
	}
	slices.SortFunc(selecting, func(a, b *policyv1.MachinePolicy) int {
		if order := a.CreationTimestamp.Compare(b.CreationTimestamp.Time); order != 0 {
			return order
		}
		return strings.Compare(a.Name, b.Name)
	})
	return selecting
}

// Over returns the policy with what the MachinePolicy says in place of its own. An error
// names the field that cannot be read; it stands as if it were not there.
func (p Policy) Over(from *policyv1.MachinePolicy) (Policy, error) {
	p.Name = from.Name
	var err error
	for _, each := range []struct {
		field string
		from  *intstr.IntOrString
		to    *Share
	}{
		{"maxPerDeployment", from.Spec.Replacement.MaxPerDeployment, &p.PerFleet},
		{"maxPerCluster", from.Spec.Replacement.MaxPerCluster, &p.PerCluster},
		{"maxPerFailureDomain", from.Spec.Replacement.MaxPerFailureDomain, &p.PerDomain},
		{"stopAboveUnhealthy", from.Spec.Replacement.StopAboveUnhealthy, &p.StopAbove},
	} {
		if each.from == nil {
			continue
		}
		share, bad := ParseShare(*each.from)
		if bad != nil {
			err = fmt.Errorf("MachinePolicy %q, spec.replacement.%s: %w", from.Name, each.field, bad)
			continue
		}
		*each.to = share
	}
	set(&p.Up, from.Spec.Overshoot.Up)
	set(&p.Down, from.Spec.Overshoot.Down)
	set(&p.PendingPerFleet, from.Spec.Creation.MaxPendingPerDeployment)
	set(&p.PendingPerCluster, from.Spec.Creation.MaxPendingPerCluster)
	if deadline := from.Spec.Rollout.ProgressDeadlineSeconds; deadline != nil {
		p.ProgressDeadline = time.Duration(*deadline) * time.Second
	}
	if after := from.Spec.Drain.ForceAfterSeconds; after != nil {
		p.ForceDrainAfter = time.Duration(*after) * time.Second
	}
	if serial := from.Spec.Drain.SerialVolumes; serial != nil {
		p.SerialVolumes = *serial
	}
	return p, err
}

func set(to *int, from *int32) {
	if from != nil {
		*to = int(*from)
	}
}
