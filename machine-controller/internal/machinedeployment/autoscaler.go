// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package machinedeployment

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"drover.io/machine-controller/internal/annotation"
	"drover.io/machine-controller/internal/inplace"
	"drover.io/machine-controller/internal/rollout"
)

// capacityLabels is the annotation from which the cluster autoscaler reads the labels of the Nodes of a group that has none.
// Releases up to 1.36 have no other source.
const capacityLabels = "capacity.cluster-autoscaler.kubernetes.io/labels"

// setCapacityLabels writes the labels of the template that Nodes will have into the annotation that the autoscaler reads. A
// value that a user has written is kept.
func setCapacityLabels(md *clusterv1.MachineDeployment) {
	if md.Annotations[capacityLabels] != md.Annotations[inplace.ManagedCapacityLabels] {
		delete(md.Annotations, inplace.ManagedCapacityLabels)
		return
	}
	var pairs []string
	if _, scaled := md.Annotations[clusterv1.AutoscalerMaxSizeAnnotation]; scaled {
		for _, key := range slices.Sorted(maps.Keys(md.Spec.Template.Labels)) {
			if reachesNodes(key) {
				pairs = append(pairs, key+"="+md.Spec.Template.Labels[key])
			}
		}
	}
	if len(pairs) == 0 {
		delete(md.Annotations, capacityLabels)
		delete(md.Annotations, inplace.ManagedCapacityLabels)
		return
	}
	md.Annotations[capacityLabels] = strings.Join(pairs, ",")
	md.Annotations[inplace.ManagedCapacityLabels] = md.Annotations[capacityLabels]
}

// defaultReplicas sets spec.replicas where it is left out. It is written alone, and only if the deployment has not changed
// since it was read: spec.replicas may be set now. Without a default the condition Available has the reason.
func (r *Reconciler) defaultReplicas(ctx context.Context, s *state) error {
	md := s.deployment
	if md.Spec.Replicas != nil {
		return nil
	}
	replicas, err := annotation.DefaultReplicas(md, rollout.LastDesiredReplicas(s.sets))
	if err != nil {
		return nil //nolint:nilerr // package rollout returns the same error
	}
	before := md.DeepCopy()
	md.Spec.Replicas = &replicas
	if err := r.Client.Patch(ctx, md, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
		return fmt.Errorf("setting the default of spec.replicas: %w", err)
	}
	ctrl.LoggerFrom(ctx).Info("set default replicas of MachineDeployment", "replicas", replicas)
	return nil
}

// reachesNodes reports whether a Machine's label goes to its Node under any configuration.
func reachesNodes(key string) bool {
	domain, _, _ := strings.Cut(key, "/")
	for _, managed := range []string{clusterv1.NodeRestrictionLabelDomain, clusterv1.ManagedNodeLabelDomain} {
		if domain == managed || strings.HasSuffix(domain, "."+managed) {
			return true
		}
	}
	return strings.HasPrefix(key, clusterv1.NodeRoleLabelPrefix+"/")
}
