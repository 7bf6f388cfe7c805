// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Package policy resolves MachinePolicies: which of them selects an object, and the settings that result, with the defaults
// for everything that it leaves out. It is pure; package safety and the machinepolicy controller use it.
package policy

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"

	droverpolicyv1 "drover.io/api/policy/v1alpha1"
	"drover.io/machine-controller/internal/selectorcache"
)

// Settings are the fields of a MachinePolicy with defaults for all that it leaves out.
type Settings struct {
	// Name of the MachinePolicy; empty where none selects.
	Name string

	PerOwner, PerCluster, PerDomain IntOrPercent
	StopAbove                       IntOrPercent

	// Up and Down bound an overshoot.
	Up, Down int

	// PendingPerOwner and PendingPerCluster limit creations; 0 is no limit.
	PendingPerOwner, PendingPerCluster int

	// ProgressDeadline is how long a rollout may make no progress; 0 is no limit.
	ProgressDeadline time.Duration

	// ForceDrainAfter is when a drain becomes forced; 0 is never.
	ForceDrainAfter time.Duration
	SerialVolumes   bool
}

// Default returns the settings for what no MachinePolicy selects.
func Default() Settings {
	return Settings{PerOwner: Percent(10), PerCluster: Percent(10), PerDomain: Percent(10), StopAbove: Percent(40), Up: 2, Down: 1, ProgressDeadline: 10 * time.Minute}
}

// Candidate is a policy that may select an object.
type Candidate struct {
	*droverpolicyv1.MachinePolicy
	selector labels.Selector
}

// Selects reports whether the policy selects an object with the labels.
func (c Candidate) Selects(of map[string]string) bool { return c.selector.Matches(labels.Set(of)) }

// Candidates returns the policies in the order in which they are in force: the oldest and, of those that are equally old,
// the first by name. One that is being deleted, or whose selector cannot be used, selects nothing.
func (s *Selectors) Candidates(policies []droverpolicyv1.MachinePolicy) []Candidate {
	var candidates []Candidate
	for i := range policies {
		p := &policies[i]
		if !p.DeletionTimestamp.IsZero() || p.Spec.Selector == nil {
			continue
		}
		if selector, err := s.compiled.Get(p, p.Spec.Selector.AsSelector); err == nil {
			candidates = append(candidates, Candidate{p, selector})
		}
	}
	slices.SortFunc(candidates, func(a, b Candidate) int {
		if order := a.CreationTimestamp.Compare(b.CreationTimestamp.Time); order != 0 {
			return order
		}
		return strings.Compare(a.Name, b.Name)
	})
	return candidates
}

// Selectors caches the compiled selectors of MachinePolicies. The zero value is ready to use.
type Selectors struct{ compiled selectorcache.Cache }

// Over returns the settings with the fields of the MachinePolicy in place of their own. An error names a field that cannot
// be parsed; such a field is left out.
func (p Settings) Over(object *droverpolicyv1.MachinePolicy) (Settings, error) {
	p.Name = object.Name
	var err error
	for _, each := range []struct {
		field string
		from  *intstr.IntOrString
		to    *IntOrPercent
	}{
		{"maxPerDeployment", object.Spec.Replacement.MaxPerDeployment, &p.PerOwner},
		{"maxPerCluster", object.Spec.Replacement.MaxPerCluster, &p.PerCluster},
		{"maxPerFailureDomain", object.Spec.Replacement.MaxPerFailureDomain, &p.PerDomain},
		{"stopAboveUnhealthy", object.Spec.Replacement.StopAboveUnhealthy, &p.StopAbove},
	} {
		if each.from == nil {
			continue
		}
		share, bad := ParseIntOrPercent(*each.from)
		if bad != nil {
			err = fmt.Errorf("MachinePolicy %q, spec.replacement.%s: %w", object.Name, each.field, bad)
			continue
		}
		*each.to = share
	}
	override(&p.Up, object.Spec.Overshoot.Up)
	override(&p.Down, object.Spec.Overshoot.Down)
	override(&p.PendingPerOwner, object.Spec.Creation.MaxPendingPerDeployment)
	override(&p.PendingPerCluster, object.Spec.Creation.MaxPendingPerCluster)
	if deadline := object.Spec.Rollout.ProgressDeadlineSeconds; deadline != nil {
		p.ProgressDeadline = time.Duration(*deadline) * time.Second
	}
	if after := object.Spec.Drain.ForceAfterSeconds; after != nil {
		p.ForceDrainAfter = time.Duration(*after) * time.Second
	}
	if serial := object.Spec.Drain.SerialVolumes; serial != nil {
		p.SerialVolumes = *serial
	}
	return p, err
}

func override(to *int, from *int32) {
	if from != nil {
		*to = int(*from)
	}
}
