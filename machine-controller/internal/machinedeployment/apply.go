// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package machinedeployment

import (
	"context"
	"fmt"
	"maps"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"drover.io/machine-controller/internal/inplace"
	"drover.io/machine-controller/internal/kubeversion"
	"drover.io/machine-controller/internal/machinename"
	"drover.io/machine-controller/internal/rollout"
	"drover.io/machine-controller/internal/rollout/revision"
	"drover.io/runtime/results"
)

// attempts bounds the search for a free name; each name that another object has is tried once.
const attempts = 5

// apply does one action. After a conflict, or if the object is gone, the decision was based on an old state; the event of the
// change triggers another reconcile.
func (r *Reconciler) apply(ctx context.Context, s *state, action rollout.Action) error {
	if action.Kind == rollout.CreateCurrent {
		return r.createSet(ctx, s, action)
	}
	set := findSet(s.sets, action.Set)
	if set == nil {
		return fmt.Errorf("no MachineSet %q to %s", action.Set, action.Kind)
	}
	wanted := set.DeepCopy()
	if wanted.Annotations == nil {
		wanted.Annotations = map[string]string{}
	}
	switch action.Kind {
	case rollout.Scale:
		wanted.Spec.Replicas = &action.To
		maps.Copy(wanted.Annotations, s.decision.SizeAnnotations.Annotations())
	case rollout.Record:
		maps.Copy(wanted.Annotations, s.decision.SizeAnnotations.Annotations())
	case rollout.DisableCreate:
		wanted.Annotations[clusterv1.DisableMachineCreateAnnotation] = "true"
	case rollout.EnableCreate:
		delete(wanted.Annotations, clusterv1.DisableMachineCreateAnnotation)
	case rollout.Delete:
		return r.deleteIfUnchanged(ctx, s.deployment.UID, set, action.Reason)
	}
	if err := r.updateSet(ctx, set, wanted); err != nil {
		return results.IgnoreNotFoundOrConflict(fmt.Errorf("updating MachineSet %q: %w", set.Name, err))
	}
	log := ctrl.LoggerFrom(ctx).WithValues("MachineSet", klog.KObj(set), "reason", action.Reason)
	switch action.Kind {
	case rollout.Scale:
		log.Info("scaled MachineSet", "previousReplicas", action.From, "replicas", action.To)
		scaled(r.Events, s.deployment, set, action)
	case rollout.DisableCreate:
		log.Info("disabled creation of Machines by MachineSet")
	case rollout.EnableCreate:
		log.Info("enabled creation of Machines by MachineSet")
	case rollout.Record:
		log.V(1).Info("recorded the size of the MachineDeployment on MachineSet")
	case rollout.CreateCurrent, rollout.Delete:
	}
	return nil
}

// deleteIfUnchanged deletes a MachineSet, if it has not changed since it was read.
func (r *Reconciler) deleteIfUnchanged(ctx context.Context, md types.UID, set *clusterv1.MachineSet, reason string) error {
	err := r.Client.Delete(ctx, set, client.Preconditions{UID: &set.UID, ResourceVersion: &set.ResourceVersion})
	if err != nil {
		return results.IgnoreNotFoundOrConflict(fmt.Errorf("deleting MachineSet %q: %w", set.Name, err))
	}
	r.tracker.Deleted(md, set)
	ctrl.LoggerFrom(ctx).Info("deleted MachineSet", "MachineSet", klog.KObj(set), "reason", reason)
	return nil
}

// updateSet writes a MachineSet if it has not changed since it was read.
func (r *Reconciler) updateSet(ctx context.Context, set, wanted *clusterv1.MachineSet) error {
	if err := r.Client.Patch(ctx, wanted, client.MergeFromWithOptions(set, client.MergeFromWithOptimisticLock{})); err != nil {
		return err
	}
	r.writes.Note(wanted)
	return nil
}

// createSet creates the MachineSet of the wanted template. Its name is a function of the template, so that an old cache
// leads to AlreadyExists and not to a second MachineSet.
func (r *Reconciler) createSet(ctx context.Context, s *state, action rollout.Action) error {
	md, now := s.deployment, r.Clock.Now()
	if err := machinename.Check(md.Spec.MachineNaming.Template); err != nil {
		s.setNotApplied(action.Kind, err)
		return nil // it is in a condition; only a new spec can help
	}
	for attempt := range attempts {
		name := revision.NewMachineSetName(md, now, attempt)
		set := newSet(s, name, action.To)
		err := r.Client.Create(ctx, set)
		if err == nil {
			r.tracker.Created(md.UID, set)
			ctrl.LoggerFrom(ctx).Info("created MachineSet", "MachineSet", klog.KObj(set), "replicas", action.To, "revision", revision.Of(set), "reason", action.Reason)
			created(r.Events, md, set)
			return nil
		}
		if !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("creating MachineSet: %w", err)
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
	taken := fmt.Errorf("creating MachineSet: the names derived from the template of MachineDeployment %q are taken by other MachineSets", md.Name)
	s.setNotApplied(action.Kind, taken)
	return taken
}

// newSet returns the MachineSet for the present template.
func newSet(s *state, name revision.MachineSetName, replicas int32) *clusterv1.MachineSet {
	md := s.deployment
	set := &clusterv1.MachineSet{
		ObjectMeta: metav1.ObjectMeta{
			Namespace:       md.Namespace,
			Name:            name.Name,
			Labels:          map[string]string{clusterv1.MachineDeploymentUniqueLabel: name.Hash},
			Annotations:     s.decision.SizeAnnotations.Annotations(),
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
	set.Spec.Selector.MatchLabels = maps.Clone(inplace.SelectorLabels(md))
	if set.Spec.Selector.MatchLabels == nil {
		set.Spec.Selector.MatchLabels = map[string]string{}
	}
	set.Spec.Selector.MatchLabels[clusterv1.MachineDeploymentUniqueLabel] = name.Hash
	inplace.PropagateToMachineSet(set, md)
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
