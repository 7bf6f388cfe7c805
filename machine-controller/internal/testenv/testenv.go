// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Package testenv has the objects that the tests of this module create in the API servers of package envtest of runtime.
// It is never part of a binary.
package testenv

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

// Cluster returns the Cluster "c" as an API server accepts it.
func Cluster(namespace string) *clusterv1.Cluster {
	return &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "c"}, Spec: clusterv1.ClusterSpec{Paused: new(false)}}
}

// Machine returns a Machine of the Cluster "c" that an API server accepts.
func Machine(namespace, name string) *clusterv1.Machine {
	return &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Spec: MachineSpec()}
}

// TemplateSpec is what a template of Machines cannot do without.
func TemplateSpec() clusterv1.MachineSpec {
	spec := MachineSpec()
	spec.InfrastructureRef.Kind += "Template"
	return spec
}

// MachineSpec is what a Machine cannot do without.
func MachineSpec() clusterv1.MachineSpec {
	return clusterv1.MachineSpec{
		ClusterName: "c", Bootstrap: clusterv1.Bootstrap{DataSecretName: new("data")},
		InfrastructureRef: clusterv1.ContractVersionedObjectReference{APIGroup: "things.test", Kind: "Thing", Name: "t"},
	}
}
