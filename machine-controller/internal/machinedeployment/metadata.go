// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package machinedeployment

import (
	"fmt"
	"time"

	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"drover.io/machine-controller/internal/inplace"
	"drover.io/machine-controller/internal/machineowner"
	"drover.io/machine-controller/internal/rollout/revision"
)

// setMetadata sets the MachineDeployment's finalizer, its label of the Cluster, the owner reference to its Cluster, its
// selector, and the annotations for clients.
func setMetadata(s *state, now time.Time) {
	md := s.deployment
	machineowner.SetMetadata(md, clusterv1.MachineDeploymentFinalizer, md.Spec.ClusterName)
	machineowner.SetClusterOwner(md, s.cluster)
	if md.Annotations == nil {
		md.Annotations = map[string]string{}
	}
	// A client that reads only the selector, as the cluster autoscaler does, would take an empty one for every Machine of
	// the Cluster.
	md.Spec.Selector.MatchLabels = inplace.SelectorLabels(md)
	setCapacityLabels(md)
	current, olds := revision.FindNewMachineSet(md, s.sets, now)
	if current == nil && (s.rolloutBlocked != "" || ptr.Deref(md.Spec.Paused, false)) {
		return // a new revision begins with its MachineSet: until then no Node is of an outdated one
	}
	md.Annotations[clusterv1.RevisionAnnotation] = fmt.Sprint(revision.Next(current, olds))
}
