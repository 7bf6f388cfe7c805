// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package machinedeployment

import (
	"context"
	"fmt"
	"math"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"drover.io/machine-controller/internal/annotation"
	"drover.io/machine-controller/internal/index"
	"drover.io/machine-controller/internal/ownerref"
	"drover.io/machine-controller/internal/patch"
	"drover.io/machine-controller/internal/rollout/revision"
)

// historyLimit reads the annotation. A value that is not a number keeps everything: what is deleted cannot be
// gone back to.
func historyLimit(md *clusterv1.MachineDeployment) int32 {
	value, present := md.Annotations[revision.HistoryAnnotation]
	if !present {
		return 0
	}
	limit, ok := annotation.Count(value)
	if !ok {
		return math.MaxInt32
	}
	return limit
}

// annotationRules are those for the annotations that are read from a MachineDeployment.
var annotationRules = append([]annotation.Rule{annotation.Freeze, {
	Key:        revision.HistoryAnnotation,
	Understood: func(value string, _ map[string]string) bool { _, ok := annotation.Count(value); return ok },
	Allowed:    "a number from 0", Otherwise: "no superseded MachineSet is deleted",
}}, annotation.NodeGroupSizes...)

// selectorLabels are the labels that select the Machines of the deployment. A selector that
// says nothing stands for the deployment's own labels, as upstream's webhook would have
// filled in.
func selectorLabels(md *clusterv1.MachineDeployment) map[string]string {
	if len(md.Spec.Selector.MatchLabels) > 0 || len(md.Spec.Selector.MatchExpressions) > 0 {
		return md.Spec.Selector.MatchLabels
	}
	return map[string]string{
		clusterv1.ClusterNameLabel:           md.Spec.ClusterName,
		clusterv1.MachineDeploymentNameLabel: md.Name,
	}
}

// fillSelector writes down what an empty selector stands for: whoever reads only the selector,
// as the cluster autoscaler does, would take it for every Machine of the Cluster.
func fillSelector(md *clusterv1.MachineDeployment) { md.Spec.Selector.MatchLabels = selectorLabels(md) }

// selector selects the deployment's MachineSets and Machines.
func selector(md *clusterv1.MachineDeployment) (labels.Selector, error) {
	full := metav1.LabelSelector{MatchLabels: selectorLabels(md), MatchExpressions: md.Spec.Selector.MatchExpressions}
	selector, err := metav1.LabelSelectorAsSelector(&full)
	if err != nil {
		return nil, fmt.Errorf("spec.selector: %w", err)
	}
	return selector, nil
}

// gather reads the MachineSets and Machines of the deployment, adopting MachineSets without
// a controller that match its selector.
func (r *Reconciler) observe(ctx context.Context, s *state) error {
	var err error
	md := s.deployment
	if s.sets, err = index.MachineSetsOf(ctx, r.Client, md.Namespace, md.UID); err != nil {
		return err
	}
	if md.DeletionTimestamp.IsZero() {
		if err := r.adopt(ctx, s); err != nil {
			return err
		}
	}
	for _, set := range s.sets {
		machines, err := index.MachinesOf(ctx, r.Client, md.Namespace, set.UID)
		if err != nil {
			return err
		}
		s.machines = append(s.machines, machines...)
	}
	return nil
}

func (r *Reconciler) adopt(ctx context.Context, s *state) error {
	md := s.deployment
	matches, err := selector(md)
	if err != nil {
		return err
	}
	uncontrolled, err := index.MachineSetsWithoutController(ctx, r.Client, md.Namespace)
	if err != nil {
		return err
	}
	canAdopt := false
	for _, set := range uncontrolled {
		if !r.watch.Matches(set) || !set.DeletionTimestamp.IsZero() || set.Spec.ClusterName != md.Spec.ClusterName || !matches.Matches(labels.Set(set.Labels)) {
			continue
		}
		if !canAdopt {
			if able, err := ownerref.CanAdopt(ctx, r.Live, md); err != nil || !able {
				return err
			}
			canAdopt = true
		}
		adopted := set.DeepCopy()
		adopted.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(md, clusterv1.GroupVersion.WithKind("MachineDeployment"))}
		if err := patch.Main(ctx, r.Client, set, adopted); err != nil {
			return fmt.Errorf("adopting MachineSet %q: %w", set.Name, err)
		}
		s.sets = append(s.sets, adopted)
	}
	return nil
}

// unseenSets are the MachineSets that the cache shows older than our last write.
func (r *Reconciler) unseenSets(sets []*clusterv1.MachineSet) []string {
	var unseen []string
	for _, set := range sets {
		if r.writes.Behind(set) {
			unseen = append(unseen, set.Name)
		}
	}
	return unseen
}

// resolveUnseen asks the API server about MachineSets that were created but never seen.
func (r *Reconciler) resolveUnseen(ctx context.Context, md types.UID, doubtful map[types.UID]client.ObjectKey) {
	for uid, key := range doubtful {
		found := &metav1.PartialObjectMetadata{}
		found.SetGroupVersionKind(clusterv1.GroupVersion.WithKind("MachineSet"))
		err := r.Live.Get(ctx, key, found)
		// One that was taken out before it was seen is awaited no more either.
		if apierrors.IsNotFound(err) || (err == nil && (found.UID != uid || !controlled(found, md))) {
			r.tracker.Forget(md, uid)
		}
	}
}

// controlled reports whether the object's controller has the UID.
func controlled(object client.Object, by types.UID) bool {
	controller := metav1.GetControllerOfNoCopy(object)
	return controller != nil && controller.UID == by
}

func (r *Reconciler) deploymentsOfCluster(ctx context.Context, cluster client.Object) []reconcile.Request {
	deployments, err := index.MachineDeploymentsOfCluster(ctx, r.Client, client.ObjectKeyFromObject(cluster))
	if err != nil {
		return nil
	}
	found := make([]reconcile.Request, 0, len(deployments))
	for _, md := range deployments {
		found = append(found, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(md)})
	}
	return found
}

// deploymentOfMachine names the MachineDeployment of a Machine: what it may do next depends on which
// Machines are available, and MachineSets tell that late.
func deploymentOfMachine(_ context.Context, m client.Object) []reconcile.Request {
	name := m.GetLabels()[clusterv1.MachineDeploymentNameLabel]
	if name == "" {
		return nil
	}
	return []reconcile.Request{{NamespacedName: client.ObjectKey{Namespace: m.GetNamespace(), Name: name}}}
}

func hasOwner(references []metav1.OwnerReference, uid types.UID) bool {
	for _, reference := range references {
		if reference.UID == uid {
			return true
		}
	}
	return false
}
