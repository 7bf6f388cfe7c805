// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"drover.io/test/controlplane"
)

// inNamespace returns the objects of a file as they are after its namespace was replaced in all places.
func inNamespace(t *testing.T, objects []*unstructured.Unstructured, namespace string) []*unstructured.Unstructured {
	t.Helper()
	moved := make([]*unstructured.Unstructured, len(objects))
	for i, object := range objects {
		content, err := object.MarshalJSON()
		if err != nil {
			t.Fatal(err)
		}
		moved[i] = &unstructured.Unstructured{}
		if err := moved[i].UnmarshalJSON([]byte(strings.ReplaceAll(string(content), "drover-system", namespace))); err != nil {
			t.Fatal(err)
		}
	}
	return moved
}

// expectSubjects checks that a manager has its permissions in the whole cluster by a binding of its own installation.
func expectSubjects(t *testing.T, c client.Client, manager, namespace string) {
	t.Helper()
	var binding rbacv1.ClusterRoleBinding
	if err := c.Get(t.Context(), client.ObjectKey{Name: manager + ":" + namespace}, &binding); err != nil {
		t.Error(err)
		return
	}
	want := rbacv1.Subject{Kind: "ServiceAccount", Namespace: namespace, Name: manager}
	if len(binding.Subjects) != 1 || binding.Subjects[0] != want || binding.RoleRef.Name != manager+":"+namespace {
		t.Errorf("%s binds %s to %v, want %v", binding.Name, binding.RoleRef.Name, binding.Subjects, want)
	}
}

func TestASecondInstallationFromManifestsLeavesTheFirstItsPermissions(t *testing.T) {
	t.Parallel()
	_, c := start(t)
	files := append(read(t, version, "drover.yaml"), read(t, version, "drover-infra-sim.yaml")...)
	first := inNamespace(t, files, "first")
	second := inNamespace(t, files, "second")
	for _, objects := range [][]*unstructured.Unstructured{first, second} {
		if err := apply(t.Context(), c, objects); err != nil {
			t.Fatal(err)
		}
	}
	managers := []string{"drover-machine-controller", "drover-bootstrap", "drover-infra-sim"}
	for _, namespace := range []string{"first", "second"} {
		for _, manager := range managers {
			expectSubjects(t, c, manager, namespace)
		}
	}
	deleteAll(t, c, second)
	for _, manager := range managers {
		expectSubjects(t, c, manager, "first")
	}
}

// installIn installs the chart as a release in a namespace.
func installIn(t *testing.T, plane *controlplane.ControlPlane, name, namespace string, settings map[string]any) error {
	t.Helper()
	return helmIn(t, plane, namespace).Install(t.Context(), name, load(t, version), settings, false)
}

func TestTwoReleasesOfTheChartInNamespacesOfTheirOwn(t *testing.T) {
	t.Parallel()
	plane, c := start(t)
	namespaces := []string{"first", "second"}
	for i, namespace := range namespaces {
		settings := simulated()
		settings["watchFilter"] = namespace
		settings["crds"] = map[string]any{"enabled": i == 0} // both need the same ones
		if err := installIn(t, plane, "drover", namespace, settings); err != nil {
			t.Fatalf("%s: %v", namespace, err)
		}
	}
	for _, namespace := range namespaces {
		for _, manager := range []string{"drover-machine-controller", "drover-bootstrap", "drover-infra-sim"} {
			expectSubjects(t, c, manager, namespace)
		}
	}
}

func TestTwoReleasesOfTheChartThatWatchTheSameNamespace(t *testing.T) {
	t.Parallel()
	plane, c := start(t)
	if err := c.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "watched"}}); err != nil {
		t.Fatal(err)
	}
	for i, namespace := range []string{"first", "second"} {
		settings := simulated()
		settings["watchFilter"], settings["watchNamespace"] = namespace, "watched"
		settings["crds"] = map[string]any{"enabled": i == 0}
		if err := installIn(t, plane, "drover", namespace, settings); err != nil {
			t.Fatalf("%s: %v", namespace, err)
		}
	}
	for _, namespace := range []string{"first", "second"} {
		var binding rbacv1.RoleBinding
		err := c.Get(t.Context(), client.ObjectKey{Namespace: "watched", Name: "drover-machine-controller:" + namespace}, &binding)
		if err != nil || len(binding.Subjects) != 1 || binding.Subjects[0].Namespace != namespace {
			t.Errorf("%s: got %v, %v", namespace, binding.Subjects, err)
		}
	}
}

func TestAProviderAsAReleaseOfItsOwn(t *testing.T) {
	t.Parallel()
	plane, c := start(t)
	off := map[string]any{"enabled": false}
	for _, cloud := range []string{"sim", "hetzner"} {
		settings := map[string]any{
			"managers":       map[string]any{"machine-controller": off, "bootstrap": off},
			"infrastructure": map[string]any{cloud: nil},
			"crds":           map[string]any{"shared": cloud == "sim"},
		}
		if err := installIn(t, plane, "drover-"+cloud, releaseNamespace, settings); err != nil {
			t.Errorf("%s: %v", cloud, err)
		}
		crd := crdNamed(cloud + "machines.infrastructure.drover.io")
		if err := c.Get(t.Context(), client.ObjectKeyFromObject(crd), crd); err != nil {
			t.Error(err)
		}
	}
}
