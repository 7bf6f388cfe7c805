// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package machinedeployment

import (
	"context"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"drover.io/machine-controller/internal/coalesce"
	"drover.io/machine-controller/internal/inplace"
	"drover.io/machine-controller/internal/rollout/revision"
	"drover.io/machine-controller/internal/safety"
	"drover.io/runtime/results"
)

// propagateToSets writes what changes in place from the deployment into its MachineSets, also into superseded ones: their
// Machines exist for as long as a rollout takes, and under OnDelete for longer. A set whose selector does not match the
// labels that it would get, as can be stored on an API server without Drover's rules, gets only how its Machines are deleted,
// and so does one that the API server refuses, as for annotations that are too long: the rollout continues with both.
// One that may not be changed at all stops it, unless it is superseded and has no Machines. After an error, also one that the cache
// is outdated, no MachineSet may be lowered: it might not have how its Machines are to be deleted.
func (r *Reconciler) propagateToSets(ctx context.Context, s *state) error {
	md := s.deployment
	slices.SortFunc(s.sets, byName) // so that one refusal of several is named
	current, _ := revision.FindNewMachineSet(md, s.sets, r.Clock.Now())
	for i, set := range s.sets {
		wanted := set.DeepCopy()
		inplace.PropagateToMachineSet(wanted, md)
		blocked := checkSelector(wanted)
		if blocked == nil {
			written, err := r.propagate(ctx, s, set, wanted, set == current)
			if err == nil {
				s.sets[i] = written
				continue
			}
			if !results.IsRefused(err) {
				return err
			}
			blocked = err
		}
		if set == current {
			s.notPropagated = blocked
		}
		wanted = set.DeepCopy()
		inplace.MachineSetDeletion(wanted, md)
		written, err := r.propagate(ctx, s, set, wanted, set == current)
		switch {
		case err == nil:
			s.sets[i] = written
		case !results.IsRefused(err):
			return err
		case set == current || !isEmpty(set): // its Machines would be deleted in another way than wanted
			s.blocked = err
			return err
		}
	}
	return nil
}

// retryPropagation is when propagateToSets is tried again after an error. After a conflict, the cache has to show the change first.
func retryPropagation(ctx context.Context, err error) (reconcile.Result, error) {
	if results.IgnoreNotFoundOrConflict(err) == nil {
		return reconcile.Result{RequeueAfter: coalesce.Window}, nil
	}
	return safety.RetryRefused(ctx, err)
}

// isEmpty reports whether a MachineSet has no Machines, and is to have none.
func isEmpty(set *clusterv1.MachineSet) bool {
	return ptr.Deref(set.Spec.Replicas, 0) == 0 && ptr.Deref(set.Status.Replicas, 0) == 0
}

// propagate writes a MachineSet as it is wanted, with its revision if it is the current one, and returns what is stored.
func (r *Reconciler) propagate(ctx context.Context, s *state, set, wanted *clusterv1.MachineSet, isCurrent bool) (*clusterv1.MachineSet, error) {
	if isCurrent {
		revision.Set(wanted, s.deployment.Annotations[clusterv1.RevisionAnnotation])
	}
	if equality.Semantic.DeepEqual(set, wanted) {
		return set, nil
	}
	if err := r.updateSet(ctx, set, wanted); err != nil {
		return nil, fmt.Errorf("updating MachineSet %q: %w", set.Name, err)
	}
	logMachineSetUpdate(ctx, set, wanted)
	return wanted, nil
}

// checkSelector returns an error for a MachineSet that would not select the Machines of its template.
func checkSelector(set *clusterv1.MachineSet) error {
	matches, err := metav1.LabelSelectorAsSelector(&set.Spec.Selector)
	if err != nil {
		return fmt.Errorf("spec.selector of MachineSet %q: %w", set.Name, err)
	}
	if !matches.Matches(labels.Set(set.Spec.Template.Labels)) {
		return fmt.Errorf("spec.selector or the labels of spec.template have changed, and MachineSet %q still selects its Machines by %s: "+
			"set them back, or create a new MachineDeployment", set.Name, matches)
	}
	return nil
}

// logMachineSetUpdate logs that a MachineSet was updated in place, or that it became the current one again.
func logMachineSetUpdate(ctx context.Context, before, after *clusterv1.MachineSet) {
	log := ctrl.LoggerFrom(ctx).WithValues("MachineSet", klog.KObj(after))
	if was, is := revision.Of(before), revision.Of(after); was != is {
		log.Info("changed revision of MachineSet", "previousRevision", was, "revision", is)
		return
	}
	log.Info("updated MachineSet in place")
}
