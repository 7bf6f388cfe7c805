// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

func version(v string) func(*clusterv1.MachineTemplateSpec) {
	return func(t *clusterv1.MachineTemplateSpec) { t.Spec.Version = v }
}

// deployment has 3 replicas of version v1.35.0.
func deployment() *clusterv1.MachineDeployment {
	md := &clusterv1.MachineDeployment{}
	md.Name, md.UID = "workers", "md-uid"
	md.Spec.Replicas, md.Spec.Template.Spec.Version = new(int32(3)), "v1.35.0"
	return md
}

// machineSet is a MachineSet that is age hours old at noon.
func machineSet(name string, age int, replicas int32, change ...func(*clusterv1.MachineTemplateSpec)) *clusterv1.MachineSet {
	ms := &clusterv1.MachineSet{}
	ms.Name, ms.UID = name, types.UID("uid-"+name)
	ms.CreationTimestamp = metav1.NewTime(noon.Add(-time.Duration(age) * time.Hour))
	ms.Spec.Replicas, ms.Spec.Template = &replicas, deployment().Spec.Template
	for _, f := range change {
		f(&ms.Spec.Template)
	}
	return ms
}
