// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package preflight

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

func TestCheck(t *testing.T) {
	t.Parallel()
	type facts map[string]any
	at := func(version string) any { return map[string]any{"version": version, "replicas": int64(1)} }
	plane := func(spec, status facts) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{
			"kind": "Plane", "metadata": map[string]any{"name": "p"}, "spec": map[string]any(spec), "status": map[string]any(status),
		}}
	}
	steady := func(version string) *unstructured.Unstructured {
		return plane(facts{"version": version}, facts{"version": version})
	}
	for name, test := range map[string]struct {
		plane   *unstructured.Unstructured
		kubelet string
		kubeadm bool
		skip    string
		want    clusterv1.MachineSetPreflightCheck // that fails
		passes  bool
	}{
		"it accepts what fits":                               {plane: steady("v1.36.3"), kubelet: "v1.36.3"},
		"it requires nothing of a control plane unversioned": {plane: plane(facts{}, facts{}), kubelet: "v1.99.0"},
		"it waits for the control plane to exist":            {plane: plane(facts{"version": "v1.36.3"}, facts{}), kubelet: "v1.36.3", want: clusterv1.MachineSetPreflightCheckControlPlaneIsStable, passes: true},
		"it does not wait for an external control plane":     {plane: plane(facts{"version": "v1.36.3"}, facts{"externalManagedControlPlane": true}), kubelet: "v1.36.3"},
		"it waits for an upgrade":                            {plane: plane(facts{"version": "v1.36.3"}, facts{"version": "v1.35.9"}), kubelet: "v1.35.9", want: clusterv1.MachineSetPreflightCheckControlPlaneIsStable, passes: true},
		"it waits where no machine has a version":            {plane: plane(facts{"version": "v1.36.3"}, facts{"version": "v1.35.9"}), want: clusterv1.MachineSetPreflightCheckControlPlaneIsStable, passes: true},
		"it requires no version of machines without one":     {plane: steady("v1.36.3"), kubeadm: true},
		"it takes versions without a prefix":                 {plane: plane(facts{"version": "1.36.3"}, facts{"version": "v1.36.3"}), kubelet: "1.36.3"},
		"it waits for the last machine of an upgrade":        {plane: plane(facts{"version": "v1.36.3"}, facts{"version": "v1.36.3", "versions": []any{at("v1.35.9"), at("v1.36.3")}}), kubelet: "v1.35.9", want: clusterv1.MachineSetPreflightCheckControlPlaneIsStable, passes: true},
		"it takes status.versions without status.version":    {plane: plane(facts{"version": "v1.36.3"}, facts{"versions": []any{at("v1.36.3")}}), kubelet: "v1.36.3"},
		"it prefers status.versions":                         {plane: plane(facts{"version": "v1.36.3"}, facts{"version": "v1.35.9", "versions": []any{at("v1.36.3")}}), kubelet: "v1.36.3"},
		"it refuses status.versions that are none":           {plane: plane(facts{"version": "v1.36.3"}, facts{"versions": []any{at("")}}), kubelet: "v1.36.3", want: clusterv1.MachineSetPreflightCheckControlPlaneIsStable},
		"it waits for another build":                         {plane: plane(facts{"version": "v1.36.3+r2"}, facts{"version": "v1.36.3+r1"}), kubelet: "v1.36.3", want: clusterv1.MachineSetPreflightCheckControlPlaneIsStable, passes: true},
		"it does not wait for a newer one to go back":        {plane: plane(facts{"version": "v1.36.3"}, facts{"version": "v1.36.4"}), kubelet: "v1.36.3"},
		"it refuses a newer kubelet":                         {plane: steady("v1.35.9"), kubelet: "v1.36.0", want: clusterv1.MachineSetPreflightCheckKubernetesVersionSkew},
		"it takes a newer patch":                             {plane: steady("v1.36.3"), kubelet: "v1.36.9"},
		"it takes a kubelet three minors older":              {plane: steady("v1.36.3"), kubelet: "v1.33.0"},
		"it refuses one four minors older":                   {plane: steady("v1.36.3"), kubelet: "v1.32.9", want: clusterv1.MachineSetPreflightCheckKubernetesVersionSkew},
		"it refuses three minors older before 1.28":          {plane: steady("v1.27.3"), kubelet: "v1.24.9", want: clusterv1.MachineSetPreflightCheckKubernetesVersionSkew},
		"it refuses kubeadm of another minor":                {plane: steady("v1.36.3"), kubelet: "v1.35.3", kubeadm: true, want: clusterv1.MachineSetPreflightCheckKubeadmVersionSkew},
		"it takes kubeadm of this minor":                     {plane: steady("v1.36.3"), kubelet: "v1.36.0", kubeadm: true},
		"it refuses a version that is none":                  {plane: steady("v1.36.3"), kubelet: "newest", want: clusterv1.MachineSetPreflightCheckKubernetesVersionSkew},
		"it skips a check by name":                           {plane: steady("v1.35.9"), kubelet: "v1.36.0", skip: "KubernetesVersionSkew"},
		"it skips one of several":                            {plane: steady("v1.35.9"), kubelet: "v1.36.0", skip: "ControlPlaneIsStable, KubernetesVersionSkew"},
		"it skips all":                                       {plane: plane(facts{"version": "v1.36.3"}, facts{}), kubelet: "v1.99.0", skip: "All"},
		"it does not skip a check that was not named":        {plane: steady("v1.35.9"), kubelet: "v1.36.0", skip: "ControlPlaneIsStable", want: clusterv1.MachineSetPreflightCheckKubernetesVersionSkew},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			template := &clusterv1.MachineTemplateSpec{}
			template.Spec.Version = test.kubelet
			if test.kubeadm {
				template.Spec.Bootstrap.ConfigRef = clusterv1.ContractVersionedObjectReference{APIGroup: "bootstrap.cluster.x-k8s.io", Kind: "KubeadmConfigTemplate", Name: "k"}
			}
			problem := Check(test.plane, template, strings.Split(test.skip, ","))
			got := problem.Message
			if (got == "") != (test.want == "") || !strings.Contains(got, string(test.want)) {
				t.Errorf("%q, want the problem of %q", got, test.want)
			}
			if problem.Passes != test.passes {
				t.Errorf("%q passes: %t", got, problem.Passes)
			}
		})
	}
}
