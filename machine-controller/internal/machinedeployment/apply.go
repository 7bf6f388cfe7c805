// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package machinedeployment

import (
	"context"
	"fmt"
	"maps"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"drover.io/machine-controller/internal/kubeversion"
	"drover.io/machine-controller/internal/machinename"
	"drover.io/machine-controller/internal/rollout"
	"drover.io/machine-controller/internal/rollout/revision"
	"drover.io/runtime/results"
)

// attempts bounds the search for a free name; every name taken by something else is tried
// once, and anything beyond is left to the next reconcile.
const attempts = 5

// apply does one intent. A conflict, or an object that is gone, means that the decision
// rests on the past; the event that shows the present brings the next one.
func (r *Reconciler) apply(ctx context.Context, s *state, intent rollout.Intent) error {
	if intent.Kind == rollout.CreateCurrent {
		return r.createSet(ctx, s, intent)
	}
	set := findSet(s.sets, intent.Set)
	if set == nil {
		return fmt.Errorf("no MachineSet %q to %s", intent.Set, intent.Kind)
	}
	wanted := set.DeepCopy()
	if wanted.Annotations == nil {
		wanted.Annotations = map[string]string{}
	}
	switch intent.Kind {
	case rollout.Scale:
		wanted.Spec.Replicas = &intent.To
		maps.Copy(wanted.Annotations, s.decision.Stamp.Annotations())
	case rollout.Record:
		maps.Copy(wanted.Annotations, s.decision.Stamp.Annotations())
	case rollout.DisableCreate:
		wanted.Annotations[clusterv1.DisableMachineCreateAnnotation] = "true"
	case rollout.EnableCreate:
		delete(wanted.Annotations, clusterv1.DisableMachineCreateAnnotation)
	case rollout.Delete:
		return r.deleteSet(ctx, s, set)
	}
	if err := r.updateSet(ctx, set, wanted); err != nil {
		return results.IgnoreNotFoundOrConflict(fmt.Errorf("updating MachineSet %q: %w", set.Name, err))
	}
	if intent.Kind == rollout.Scale {
		scaled(r.Events, s.deployment, set, intent)
	}
	return nil
}

// deleteSet deletes a MachineSet, if nobody has changed it since it was found empty.
func (r *Reconciler) deleteSet(ctx context.Context, s *state, set *clusterv1.MachineSet) error {
	err := r.Client.Delete(ctx, set, client.Preconditions{UID: &set.UID, ResourceVersion: &set.ResourceVersion})
	if err != nil {
		return results.IgnoreNotFoundOrConflict(fmt.Errorf("deleting MachineSet %q: %w", set.Name, err))
	}
	r.tracker.Deleted(s.deployment.UID, set)
	return nil
}

// updateSet writes a MachineSet only if nobody else has since it was read.
func (r *Reconciler) updateSet(ctx context.Context, set, wanted *clusterv1.MachineSet) error {
	if err := r.Client.Patch(ctx, wanted, client.MergeFromWithOptions(set, client.MergeFromWithOptimisticLock{})); err != nil {
		return err
	}
	r.writes.Note(wanted)
	return nil
}

// createSet makes the MachineSet of the wanted template under a name that is a function of the
// template, so that a stale cache leads to AlreadyExists and not to a second MachineSet.
func (r *Reconciler) createSet(ctx context.Context, s *state, intent rollout.Intent) error {
	md, now := s.deployment, r.Clock.Now()
	if s.blocked = machinename.Check(md.Spec.MachineNaming.Template); s.blocked != nil {
		return nil //nolint:nilerr // it is told in a condition; only a new spec can help
	}
	for attempt := range attempts {
		identity := revision.Identify(md, now, attempt)
		set := newSet(s, identity, intent.To)
		err := r.Client.Create(ctx, set)
		if err == nil {
			r.tracker.Created(md.UID, set)
			created(r.Events, md, set)
			return nil
		}
		if !apierrors.IsAlreadyExists(err) {
			err = fmt.Errorf("creating MachineSet: %w", err)
			if permanentlyRefused(err) {
				s.blocked = err
			}
			return err
		}
		found := &clusterv1.MachineSet{}
		if err := r.Live.Get(ctx, client.ObjectKeyFromObject(set), found); err != nil {
			return fmt.Errorf("reading MachineSet %q: %w", set.Name, err)
		}
		same, _ := revision.EqualTemplate(&found.Spec.Template, &set.Spec.Template)
		if metav1.IsControlledBy(found, md) && found.DeletionTimestamp.IsZero() && same {
			r.tracker.Created(md.UID, found)
			return nil
		}
	}
	s.blocked = fmt.Errorf("creating MachineSet: the names derived from the template of MachineDeployment %q are taken by other MachineSets", md.Name)
	return s.blocked
}

// newSet is the MachineSet for the present template.
func newSet(s *state, identity revision.Identity, replicas int32) *clusterv1.MachineSet {
	md := s.deployment
	set := &clusterv1.MachineSet{
		ObjectMeta: metav1.ObjectMeta{
			Namespace:       md.Namespace,
			Name:            identity.Name,
			Labels:          map[string]string{clusterv1.MachineDeploymentUniqueLabel: identity.Label},
			Annotations:     s.decision.Stamp.Annotations(),
			Finalizers:      []string{clusterv1.MachineSetFinalizer},
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(md, clusterv1.GroupVersion.WithKind("MachineDeployment"))},
		},
		Spec: clusterv1.MachineSetSpec{
			ClusterName: md.Spec.ClusterName,
			Replicas:    &replicas,
			Template:    *md.Spec.Template.DeepCopy(),
			Selector:    *md.Spec.Selector.DeepCopy(),
		},
	}
	set.Spec.Template.Spec.Version = kubeversion.Normalize(set.Spec.Template.Spec.Version)
	set.Spec.Selector.MatchLabels = maps.Clone(selectorLabels(md))
	if set.Spec.Selector.MatchLabels == nil {
		set.Spec.Selector.MatchLabels = map[string]string{}
	}
	set.Spec.Selector.MatchLabels[clusterv1.MachineDeploymentUniqueLabel] = identity.Label
	propagate(set, md)
	set.Annotations[clusterv1.RevisionAnnotation] = md.Annotations[clusterv1.RevisionAnnotation]
	return set
}

func findSet(sets []*clusterv1.MachineSet, name string) *clusterv1.MachineSet {
	for _, set := range sets {
		if set.Name == name {
			return set
		}
	}
	return nil
}
