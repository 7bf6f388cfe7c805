// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package drainplan

import (
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"drover.io/runtime/predicates"
)

// Owners are the objects that a Machine belongs to. Each is nil if it does not exist. What cannot be read is for the caller to decide.
type Owners struct {
	// Cluster counts as one that does not exist if it has no UID.
	Cluster           *clusterv1.Cluster
	MachineDeployment *clusterv1.MachineDeployment
	MachineSet        *clusterv1.MachineSet
}

// DeletionField names a field of spec.deletion of a Machine where it has an effect. A MachineSet writes these fields of its
// template into its Machines, and takes them from its MachineDeployment, so that a value on the Machine does not stay; one that is
// paused or being deleted, or whose Cluster is paused or does not exist, writes nothing. The provider of a control plane writes
// the fields of its template likewise.
func (o Owners) DeletionField(m *clusterv1.Machine, field string) string {
	owner := metav1.GetControllerOfNoCopy(m)
	exists := o.Cluster != nil && o.Cluster.UID != ""
	switch {
	case exists && owner != nil && !isMachineSet(owner):
		return fmt.Sprintf("deletion.%s in the Machine template of %s %s", field, owner.Kind, owner.Name)
	case !exists || owner == nil || o.MachineSet == nil || !writes(o.Cluster, o.MachineSet):
		return "spec.deletion." + field + " of the Machine"
	case o.MachineDeployment == nil || !writes(o.Cluster, o.MachineDeployment):
		return fmt.Sprintf("spec.template.spec.deletion.%s of MachineSet %s", field, o.MachineSet.Name)
	}
	return fmt.Sprintf("spec.template.spec.deletion.%s of MachineDeployment %s", field, o.MachineDeployment.Name)
}

func isMachineSet(owner *metav1.OwnerReference) bool {
	return owner.Kind == "MachineSet" && strings.HasPrefix(owner.APIVersion, clusterv1.GroupVersion.Group+"/")
}

// writes reports whether a MachineSet or MachineDeployment writes what is in its template.
func writes(cluster *clusterv1.Cluster, object client.Object) bool {
	return object.GetDeletionTimestamp().IsZero() && !predicates.Paused(cluster, object)
}
