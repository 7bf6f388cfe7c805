// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package machinehealthcheck

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"drover.io/machine-controller/internal/health"
)

// state is one MachineHealthCheck with its Machines and what a reconcile has observed about them.
type state struct {
	check   *clusterv1.MachineHealthCheck
	cluster *clusterv1.Cluster
	// all are the Machines of the Cluster; targets are those of the check, by name.
	all, targets []*clusterv1.Machine
	// exempt are the selected Machines that an annotation excludes from health checks.
	exempt []*clusterv1.Machine
	// overlapping are the selected Machines that an older check selects too, by its name.
	overlapping map[string][]string
	groups      map[string]*group
	// sets are the MachineSets of the Cluster, by UID.
	sets map[types.UID]*clusterv1.MachineSet
	// groupOf names the group of each Machine that can be replaced.
	groupOf map[types.UID]string

	// specError is why no decision can be made with this spec.
	specError error
	// stale means that the cache is older than the last write of this process.
	stale bool
	// disconnected is why the Nodes cannot be observed; empty if they can.
	disconnected string
	since        time.Time
	nodes        map[types.UID][]*corev1.Node

	findings map[string]health.Finding
	decision health.Decision
	decided  bool
}

// group are the Machines that share a replacement budget, with its limit. The owner is the
// MachineDeployment or MachineSet whose budget it is; nil where something else owns them.
type group struct {
	owner    client.Object
	replicas *int32
	machines []*clusterv1.Machine
	inFlight []health.InFlightReplacement
	limit    int
}

// setOwner sets the check's cluster label and the owner reference to its Cluster.
func setOwner(s *state) {
	if s.check.Labels == nil {
		s.check.Labels = map[string]string{}
	}
	s.check.Labels[clusterv1.ClusterNameLabel] = s.cluster.Name
	for _, reference := range s.check.OwnerReferences {
		if reference.UID == s.cluster.UID {
			return
		}
	}
	s.check.OwnerReferences = append(s.check.OwnerReferences, metav1.OwnerReference{
		APIVersion: clusterv1.GroupVersion.String(), Kind: "Cluster", Name: s.cluster.Name, UID: s.cluster.UID,
	})
}
