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
	"sigs.k8s.io/controller-runtime/pkg/client"

	"drover.io/machine-controller/internal/annotation"
	"drover.io/machine-controller/internal/rollout"
)

const (
	// capacityLabels is where the cluster autoscaler looks for the labels of the Nodes of a
	// group that has none. Releases up to 1.36 find them nowhere else.
	capacityLabels = "capacity.cluster-autoscaler.kubernetes.io/labels"
	// managedCapacityLabels remembers what we wrote there, to tell it from what a user wrote.
	managedCapacityLabels = "drover.io/shown-labels"
)

// setCapacityLabels shows the autoscaler which labels of the template its Nodes will have. What a
// user has written there stands.
func setCapacityLabels(md *clusterv1.MachineDeployment) {
	if md.Annotations[capacityLabels] != md.Annotations[managedCapacityLabels] {
		delete(md.Annotations, managedCapacityLabels)
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
		delete(md.Annotations, managedCapacityLabels)
		return
	}
	md.Annotations[capacityLabels] = strings.Join(pairs, ",")
	md.Annotations[managedCapacityLabels] = md.Annotations[capacityLabels]
}

// defaultReplicas fills in spec.replicas where the user leaves it to the cluster autoscaler, or to nobody. It is
// written alone, and only if nobody else has written the deployment since it was read: somebody may have set it.
// Without a default the condition Available says why.
func (r *Reconciler) defaultReplicas(ctx context.Context, s *state) error {
	md := s.deployment
	if md.Spec.Replicas != nil {
		return nil
	}
	replicas, err := annotation.DefaultReplicas(md, rollout.LastReplicas(s.sets))
	if err != nil {
		return nil //nolint:nilerr // package rollout comes to the same
	}
	before := md.DeepCopy()
	md.Spec.Replicas = &replicas
	if err := r.Client.Patch(ctx, md, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
		return fmt.Errorf("setting the default of spec.replicas: %w", err)
	}
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
