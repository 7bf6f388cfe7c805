// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package why

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

// maxCauses is how many different causes of Machines are looked into for one that needs action.
const maxCauses = 5

// worst collects what Machines wait for, and keeps of each cause one Machine.
type worst struct {
	groups map[string]*sample
	order  []string
	all    int
	// overdue means that there was no progress for too long. Machines of the newest template without a Node come first then, as these
	// are awaited whether their own conditions have what keeps them or not, and then those of that template that need action.
	overdue bool
}

type sample struct {
	// machine is that with the most facts, and of these the one that has waited longest: a host that has just been created boots.
	machine *clusterv1.Machine
	facts   int
	since   metav1.Time
	count   int
	// needsAction means that there is something to do but to wait for Drover, as far as the conditions of the Machine have it.
	needsAction bool
	deletion    bool
	outdated    bool
	// awaited means that the Machine has the newest template and is to get a Node.
	awaited bool
}

func (w *worst) add(m *clusterv1.Machine) {
	found := Problem(m)
	if found == nil {
		return
	}
	w.all++
	// An unhealthy Machine that a MachineHealthCheck has found differs from one that it has not, and one that is not replaced from
	// one that is replaced. A drain that may take any time says nothing about others, and a Machine with an older template nothing about
	// the newest.
	anyTime := found.Condition.Reason == clusterv1.MachineDeletingDrainingNodeReason && takesAnyTime(causesIn(found.Condition.Message))
	outdated := outdated(m)
	awaited := !outdated && m.DeletionTimestamp.IsZero() && !m.Status.NodeRef.IsDefined()
	key := fmt.Sprintf("%s %s %t %t %t %t %t %t", found.Condition.Type, found.Condition.Reason, found.unreconciled, len(found.Facts) > 0, found.needsAction(),
		anyTime, outdated, awaited)
	one := sample{
		facts: len(strings.Join(found.Facts, "")), since: found.Condition.LastTransitionTime, count: 1,
		needsAction: found.needsAction(), deletion: found.Condition.Type == clusterv1.MachineDeletingCondition, outdated: outdated, awaited: awaited,
	}
	if known := w.groups[key]; known == nil || known.isBehind(one) {
		one.machine = m.DeepCopy()
	}
	w.count(key, one)
}

// isBehind reports whether the Machine of another sample is the better one.
func (s *sample) isBehind(other sample) bool {
	return other.facts > s.facts || other.facts == s.facts && other.since.Before(&s.since)
}

// count adds a sample to the group of its cause.
func (w *worst) count(key string, s sample) {
	switch known := w.groups[key]; {
	case known == nil:
		if w.groups == nil {
			w.groups = map[string]*sample{}
		}
		w.groups[key], w.order = &s, append(w.order, key)
	case known.isBehind(s):
		s.count += known.count
		*known = s
	default:
		known.count += s.count
	}
}

// merge adds what another has collected.
func (w *worst) merge(other *worst) {
	w.all += other.all
	for _, key := range other.order {
		w.count(key, *other.groups[key])
	}
}

// causes are the samples, those first that need action, and of these the greatest group, unless w is overdue. Of groups of one
// size, that of a deletion comes last.
func (w *worst) causes() []*sample {
	var samples []*sample
	for _, key := range w.order {
		samples = append(samples, w.groups[key])
	}
	slices.SortStableFunc(samples, func(a, b *sample) int {
		awaited, newest := 0, 0
		if w.overdue {
			awaited, newest = boolCompare(a.awaited, b.awaited), boolCompare(!a.outdated, !b.outdated)
		}
		return cmp.Or(awaited, boolCompare(a.needsAction, b.needsAction), newest, cmp.Compare(b.count, a.count), boolCompare(!a.deletion, !b.deletion))
	})
	return samples
}

// boolCompare has true first.
func boolCompare(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return -1
	}
	return 1
}

// needsAction reports whether one of the Machines needs action, as far as their own conditions have it.
func (w *worst) needsAction() bool {
	return slices.ContainsFunc(w.order, func(key string) bool { return w.groups[key].needsAction })
}

// deletions reports whether the Machines wait for nothing but deletions that Drover continues, as far as their own conditions have it.
func (w *worst) deletions() bool {
	other := func(key string) bool { return w.groups[key].needsAction || !w.groups[key].deletion }
	return len(w.order) > 0 && !slices.ContainsFunc(w.order, other)
}

// worstMachine is what most of the Machines wait for and what needs action, or if there is none, most that are not well; nil
// if all are well.
func (f *Finder) worstMachine(ctx context.Context, w *worst) (*Finding, error) {
	var first *Finding
	causes := w.causes()
	for _, cause := range causes[:min(len(causes), maxCauses)] {
		found, err := f.machine(ctx, cause.machine)
		if err != nil {
			return nil, err
		}
		if found == nil {
			continue
		}
		found.Others, found.machine = w.all-1, cause.machine
		if ref := ReferenceOf(cause.machine); found.Object != ref {
			found.Facts = append(found.Facts, fmt.Sprintf("It is about %s", ref))
		}
		if found.needsAction() {
			return found, nil
		}
		if first == nil {
			first = found
		}
	}
	return first, nil
}
