// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package machineset

import (
	"context"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/klog/v2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"

	"drover.io/machine-controller/internal/index"
	"drover.io/machine-controller/internal/ownership"
	"drover.io/machine-controller/internal/patch"
)

// observe returns the Machines of the set. Machines without a controller that match the
// selector are adopted; Machines of the set that no longer match are released.
func (r *Reconciler) observe(ctx context.Context, s *state) ([]*clusterv1.Machine, error) {
	matches, err := r.selectors.Get(s.set, func() (labels.Selector, error) { return selector(s.set) })
	if err != nil {
		return nil, err
	}
	owned, err := index.MachinesOf(ctx, r.Client, s.set.Namespace, s.set.UID)
	if err != nil {
		return nil, err
	}
	var members []*clusterv1.Machine
	for _, m := range owned {
		if m.DeletionTimestamp.IsZero() && !matches.Matches(labels.Set(m.Labels)) && !r.watch.Foreign(m) {
			if err := r.release(ctx, s.set, m); err != nil {
				return nil, err
			}
			continue
		}
		members = append(members, m)
	}
	uncontrolled, err := index.MachinesWithoutController(ctx, r.Client, s.set.Namespace)
	if err != nil {
		return nil, err
	}
	canAdopt := false
	for _, m := range uncontrolled {
		if !r.watch.Matches(m) || !adoptable(s.set, m, matches) {
			continue
		}
		if !canAdopt {
			if able, err := ownership.CanAdopt(ctx, r.Live, s.set); err != nil || !able {
				return members, err
			}
			canAdopt = true
		}
		adopted, err := r.adopt(ctx, s.set, m)
		if err != nil {
			return nil, err
		}
		members = append(members, adopted)
	}
	return members, nil
}

// mutable replaces a Machine of the state, which belongs to the cache, by a copy that may be changed, and returns that.
func (s *state) mutable(m *clusterv1.Machine) *clusterv1.Machine {
	copied := m.DeepCopy()
	if i := slices.Index(s.machines, m); i >= 0 {
		s.machines[i] = copied
	}
	return copied
}

func adoptable(set *clusterv1.MachineSet, m *clusterv1.Machine, matches labels.Selector) bool {
	return m.DeletionTimestamp.IsZero() && m.Spec.ClusterName == set.Spec.ClusterName && matches.Matches(labels.Set(m.Labels))
}

// adopt makes the set the controller of a Machine, and returns the Machine as it is then.
func (r *Reconciler) adopt(ctx context.Context, set *clusterv1.MachineSet, before *clusterv1.Machine) (*clusterv1.Machine, error) {
	m := before.DeepCopy()
	m.OwnerReferences = ownership.Controlled(m.OwnerReferences, *metav1.NewControllerRef(set, clusterv1.GroupVersion.WithKind("MachineSet")))
	if err := patch.Main(ctx, r.Client, before, m); err != nil {
		return nil, fmt.Errorf("adopting Machine %q: %w", m.Name, err)
	}
	ctrl.LoggerFrom(ctx).Info("adopted Machine", "Machine", klog.KObj(m))
	adopted(r.Events, set, m)
	return m, nil
}

// release removes the set from the owners of a Machine.
func (r *Reconciler) release(ctx context.Context, set *clusterv1.MachineSet, before *clusterv1.Machine) error {
	m := before.DeepCopy()
	var others []metav1.OwnerReference
	for _, reference := range m.OwnerReferences {
		if reference.UID != set.UID {
			others = append(others, reference)
		}
	}
	m.OwnerReferences = others
	if err := patch.Main(ctx, r.Client, before, m); err != nil {
		return fmt.Errorf("releasing Machine %q: %w", m.Name, err)
	}
	ctrl.LoggerFrom(ctx).Info("released Machine", "Machine", klog.KObj(m))
	released(r.Events, set, m)
	return nil
}
