// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package machinedeployment

import (
	"context"
	"fmt"
	"math"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/klog/v2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"drover.io/machine-controller/internal/annotation"
	"drover.io/machine-controller/internal/expectation"
	"drover.io/machine-controller/internal/index"
	"drover.io/machine-controller/internal/inplace"
	"drover.io/machine-controller/internal/ownership"
	"drover.io/machine-controller/internal/patch"
	"drover.io/machine-controller/internal/rollout/revision"
)

// historyLimit reads the annotation. A value that is not a number keeps all MachineSets: one that is deleted cannot be
// restored.
func historyLimit(md *clusterv1.MachineDeployment) int32 {
	value, present := md.Annotations[revision.HistoryLimitAnnotation]
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
var annotationRules = append([]annotation.Rule{annotation.Freeze, annotation.SkipPreflightChecks, {
	Key:        revision.HistoryLimitAnnotation,
	Understood: func(value string, _ map[string]string) bool { _, ok := annotation.Count(value); return ok },
	Allowed:    "a number from 0", Otherwise: "no superseded MachineSet is deleted",
}}, annotation.NodeGroupSizes...)

// selector selects the deployment's MachineSets and Machines.
func selector(md *clusterv1.MachineDeployment) (labels.Selector, error) {
	full := metav1.LabelSelector{MatchLabels: inplace.SelectorLabels(md), MatchExpressions: md.Spec.Selector.MatchExpressions}
	selector, err := metav1.LabelSelectorAsSelector(&full)
	if err != nil {
		return nil, fmt.Errorf("spec.selector: %w", err)
	}
	return selector, nil
}

// observe reads the MachineSets and Machines of the deployment, adopting MachineSets without
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

// adopt makes the deployment the controller of the MachineSets that match its selector and have none.
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
			if able, err := ownership.CanAdopt(ctx, r.Live, md); err != nil || !able {
				return err
			}
			canAdopt = true
		}
		adopted := set.DeepCopy()
		adopted.OwnerReferences = ownership.Controlled(adopted.OwnerReferences, *metav1.NewControllerRef(md, clusterv1.GroupVersion.WithKind("MachineDeployment")))
		if err := patch.Main(ctx, r.Client, set, adopted); err != nil {
			return fmt.Errorf("adopting MachineSet %q: %w", set.Name, err)
		}
		ctrl.LoggerFrom(ctx).Info("adopted MachineSet", "MachineSet", klog.KObj(adopted))
		s.sets = append(s.sets, adopted)
	}
	return nil
}

// unseenSets names the MachineSets that the cache shows older than the last write of this manager.
func (r *Reconciler) unseenSets(sets []*clusterv1.MachineSet) []string {
	var unseen []string
	for _, set := range sets {
		if r.writes.Behind(set) {
			unseen = append(unseen, set.Name)
		}
	}
	return unseen
}

// countUnseen counts the created and deleted MachineSets that the cache does not show yet.
func (r *Reconciler) countUnseen(ctx context.Context, s *state) int {
	unseen, unverified := expectation.Unseen(r.tracker, s.deployment.UID, s.sets)
	r.tracker.Resolve(ctx, r.Live, clusterv1.GroupVersion.WithKind("MachineSet"), s.deployment.UID, unverified)
	return unseen
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

// deploymentOfMachine returns the MachineDeployment of a Machine: the next step of a rollout depends on which Machines are
// available, and the status of a MachineSet shows that later.
func deploymentOfMachine(_ context.Context, m client.Object) []reconcile.Request {
	name := m.GetLabels()[clusterv1.MachineDeploymentNameLabel]
	if name == "" {
		return nil
	}
	return []reconcile.Request{{NamespacedName: client.ObjectKey{Namespace: m.GetNamespace(), Name: name}}}
}
