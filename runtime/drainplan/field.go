// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package drainplan

import (
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

// DeletionField names a field of spec.deletion of a Machine where it is set: a MachineSet writes the fields of its template
// into its Machines, and takes them from its MachineDeployment, so that a value on the Machine does not stay.
func DeletionField(m *clusterv1.Machine, field string) string {
	owner := metav1.GetControllerOfNoCopy(m)
	if owner == nil || owner.Kind != "MachineSet" || !strings.HasPrefix(owner.APIVersion, clusterv1.GroupVersion.Group+"/") {
		return "spec.deletion." + field + " of the Machine"
	}
	name := "MachineSet " + owner.Name
	if pool := m.Labels[clusterv1.MachineDeploymentNameLabel]; pool != "" {
		name = "MachineDeployment " + pool
	}
	return "spec.template.spec.deletion." + field + " of " + name
}
