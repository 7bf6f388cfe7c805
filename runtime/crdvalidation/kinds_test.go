// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package crdvalidation_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"drover.io/runtime/crdvalidation"
)

func TestKindsThatThereAreNot(t *testing.T) {
	t.Parallel()
	kinds, err := crdvalidation.Load()
	if err != nil {
		t.Fatal(err)
	}
	for of, want := range map[[2]string]string{
		{"bootstrap.drover.io/v1alpha1", "NodeProfile"}: "true <nil>",
		{"v1", "Secret"}:                                            "false <nil>",
		{"postgresql.cnpg.io/v1", "Cluster"}:                        "false <nil>",
		{"cluster.x-k8s.io/v1beta2", "ClusterClass"}:                "false <nil>",
		{"bootstrap.cluster.x-k8s.io/v1beta2", "KubeadmConfig"}:     "false <nil>",
		{"bootstrap.drover.io/v1alpha1", "NodeProfil"}:              `false the group bootstrap.drover.io has no kind "NodeProfil", did you mean NodeProfile?`,
		{"bootstrap.drover.io/v1alpha1", "Kubelet"}:                 `false the group bootstrap.drover.io has no kind "Kubelet": it has BootstrapConfig, BootstrapConfigTemplate, NodeProfile`,
		{"bootstrap.drover.io/v1", "NodeProfile"}:                   "false NodeProfile has the apiVersion bootstrap.drover.io/v1, must be bootstrap.drover.io/v1alpha1",
		{"bootstrap.drover.oi/v1alpha1", "NodeProfile"}:             "false NodeProfile has the apiVersion bootstrap.drover.oi/v1alpha1, whose group is not known, did you mean bootstrap.drover.io?",
		{"v1", "NodeProfile"}:                                       "false NodeProfile has the apiVersion v1, must be bootstrap.drover.io/v1alpha1",
		{"infra.drover.io/v1alpha1", "SimMachine"}:                  "false SimMachine has the apiVersion infra.drover.io/v1alpha1, whose group is not known: there are bootstrap.drover.io, cluster.x-k8s.io, infrastructure.drover.io, policy.drover.io",
		{"cluster.x-k8s.io/v1beta2", "MachineDeploymnet"}:           `false the group cluster.x-k8s.io has no kind "MachineDeploymnet", did you mean MachineDeployment?`,
		{"infrastructure.drover.io/v1alpha1", "simmachinetemplate"}: `false the group infrastructure.drover.io has no kind "simmachinetemplate", did you mean SimMachineTemplate?`,
	} {
		own, err := kinds.Check(schema.FromAPIVersionAndKind(of[0], of[1]))
		if diff := cmp.Diff(want, fmt.Sprint(own, " ", err)); diff != "" {
			t.Errorf("%v (-want +got):\n%s", of, diff)
		}
	}
}

func TestFieldsThatMayBeMeant(t *testing.T) {
	t.Parallel()
	kinds, err := crdvalidation.Load()
	if err != nil {
		t.Fatal(err)
	}
	for manifest, want := range map[string][]string{
		config + "{operatingSystem: ubuntu, package: [a]}":                                                                                   {`unknown field "spec.package", did you mean "packages"?`},
		config + "{operatingSystem: ubuntu, nodeLabels: {a: b}}":                                                                             {`unknown field "spec.nodeLabels", did you mean "spec.kubelet.nodeLabels"?`},
		config + "{operatingSystem: ubuntu, files: [{path: /a, content: b, permission: '0600'}]}":                                            {`unknown field "spec.files[0].permission", did you mean "permissions"?`},
		config + "{operatingSystem: ubuntu, xyzzy: 1}":                                                                                       {`unknown field "spec.xyzzy"`},
		config + "{operatingSystem: ubuntu}\nsepc: {}":                                                                                       {`unknown field "sepc", did you mean "spec"?`},
		"metadata: {name: a, lables: {a: b}}\nspec: {operatingSystem: ubuntu}":                                                               {`unknown field "metadata.lables", did you mean "labels"?`},
		"metadata: {name: a, labels: {a: 1, b: c, d: true}}":                                                                                 {`metadata.labels[a]: must be of type string, so put it in quotes: "1"`, `metadata.labels[d]: must be of type string, so put it in quotes: "true"`},
		"metadata: {creationTimestamp: now, deletionTimestamp: null, deletionGracePeriodSeconds: soon, name: 7, finalizers: a, labels: [a]}": {"metadata.creationTimestamp: must be of type date-time, such as 2026-01-31T12:00:00Z", "metadata.deletionGracePeriodSeconds: must be of type integer", "metadata.finalizers: must be of type array", "metadata.labels: must be an object whose values are strings", "metadata.name: must be of type string"},
		"metadata: a": {"metadata: must be an object with a name"},
	} {
		got, err := kinds.Admit(schema.GroupVersionKind{Group: "bootstrap.drover.io", Version: "v1alpha1", Kind: "BootstrapConfig"}, object(t, manifest).Object)
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("%v (-want +got):\n%s", err, diff)
		}
	}
}
