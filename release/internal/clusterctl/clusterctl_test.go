// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package clusterctl

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"drover.io/release/internal/chart"
	"drover.io/release/internal/program"
)

const root = "../../.."

// write makes the repository of all providers and returns its folder.
func write(t *testing.T) string {
	t.Helper()
	programs, err := program.List(root)
	if err != nil {
		t.Fatal(err)
	}
	c, err := chart.Assemble(root, programs, chart.Release{Version: "v0.2.3", Registry: "registry.example"})
	if err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	for _, provider := range Providers(programs) {
		if err := provider.Write(folder, c); err != nil {
			t.Fatal(err)
		}
	}
	return folder
}

func objects(t *testing.T, file string) []*unstructured.Unstructured {
	t.Helper()
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var all []*unstructured.Unstructured
	for document := range bytes.SplitSeq(content, []byte("\n---\n")) {
		object := &unstructured.Unstructured{}
		if err := yaml.Unmarshal(document, object); err != nil {
			t.Fatal(err)
		}
		all = append(all, object)
	}
	return all
}

// The contract of clusterctl for components: docs/book/src/developer/providers/contracts/clusterctl.md of Cluster API.
func TestComponentsKeepClusterctlsContract(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob(filepath.Join(write(t), "*", "v0.2.3", "*-components.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		label := filepath.Base(filepath.Dir(filepath.Dir(file)))
		namespaces, wanted := 0, chart.Namespace
		if label == "infrastructure-drover-qemu" {
			wanted = "drover-qemu-system"
		}
		for _, object := range objects(t, file) {
			if got := object.GetLabels()["cluster.x-k8s.io/provider"]; got != label {
				t.Errorf("%s: %s %s has provider label %q", label, object.GetKind(), object.GetName(), got)
			}
			if object.GetKind() == "Namespace" {
				namespaces++
				if object.GetName() != wanted {
					t.Errorf("%s: got Namespace %s, want %s", label, object.GetName(), wanted)
				}
			}
			if namespace := object.GetNamespace(); namespace != "" && namespace != wanted {
				t.Errorf("%s: %s %s is in namespace %s", label, object.GetKind(), object.GetName(), namespace)
			}
			if object.GetKind() == "Deployment" {
				containers, _, _ := unstructured.NestedSlice(object.Object, "spec", "template", "spec", "containers")
				if containers[0].(map[string]any)["name"] != "manager" {
					t.Errorf("%s: the container of %s is not called manager", label, object.GetName())
				}
			}
		}
		if namespaces != 1 {
			t.Errorf("%s has %d Namespaces, want 1", label, namespaces)
		}
	}
	if len(files) < 8 {
		t.Errorf("got %d providers: %q", len(files), files)
	}
}

func TestEachProviderBringsItsOwnKinds(t *testing.T) {
	t.Parallel()
	folder := write(t)
	kinds := func(label, file string) []string {
		var names []string
		for _, object := range objects(t, filepath.Join(folder, label, "v0.2.3", file)) {
			if object.GetKind() == "CustomResourceDefinition" {
				names = append(names, strings.SplitN(object.GetName(), ".", 2)[0])
			}
		}
		slices.Sort(names)
		return names
	}
	if diff := cmp.Diff([]string{"bootstrapconfigs", "bootstrapconfigtemplates", "nodeprofiles"}, kinds("bootstrap-drover", "bootstrap-components.yaml")); diff != "" {
		t.Error(diff)
	}
	want := []string{"hetznermachines", "hetznermachinetemplates", "restartremediations", "restartremediationtemplates"}
	if diff := cmp.Diff(want, kinds("infrastructure-drover-hetzner", "infrastructure-components.yaml")); diff != "" {
		t.Error(diff)
	}
	if core := kinds("cluster-api", "core-components.yaml"); !slices.Contains(core, "machinedeployments") || slices.Contains(core, "bootstrapconfigs") {
		t.Errorf("core brings %q", core)
	}
}

// TestAnUpgradeKeepsTheProvidersCredentialsProtected: clusterctl upgrades one provider after the other, and deletes all its
// objects but its kinds before it creates them again. Meanwhile those of another one protect the label of Namespaces.
func TestAnUpgradeKeepsTheProvidersCredentialsProtected(t *testing.T) {
	t.Parallel()
	folder := write(t)
	bound := func(label, file string) any {
		policies := map[string]any{}
		var names []string
		for _, object := range objects(t, filepath.Join(folder, label, "v0.2.3", file)) {
			switch {
			case !strings.HasSuffix(object.GetName(), "-own-credentials"):
			case object.GetKind() == "ValidatingAdmissionPolicy":
				policies[object.GetName()] = object.Object["spec"]
			case object.GetKind() == "ValidatingAdmissionPolicyBinding":
				name, _, _ := unstructured.NestedString(object.Object, "spec", "policyName")
				names = append(names, name)
			}
		}
		if len(names) != 1 || policies[names[0]] == nil {
			t.Fatalf("%s has the bindings %q and %d policies", label, names, len(policies))
		}
		return policies[names[0]]
	}
	want := bound("infrastructure-drover-aws", "infrastructure-components.yaml")
	for label, file := range map[string]string{"cluster-api": "core-components.yaml", "bootstrap-drover": "bootstrap-components.yaml"} {
		if diff := cmp.Diff(want, bound(label, file)); diff != "" {
			t.Errorf("%s protects otherwise than a provider: %s", label, diff)
		}
	}
}

func TestMetadata(t *testing.T) {
	t.Parallel()
	got, err := os.ReadFile(filepath.Join(write(t), "bootstrap-drover", "v0.2.3", "metadata.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	want := `apiVersion: clusterctl.cluster.x-k8s.io/v1alpha3
kind: Metadata
releaseSeries:
- major: 0
  minor: 0
  contract: v1beta2
- major: 0
  minor: 1
  contract: v1beta2
- major: 0
  minor: 2
  contract: v1beta2
`
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Error(diff)
	}
}

func TestMetadataHasTheSeriesOfEarlierMajorVersions(t *testing.T) {
	t.Parallel()
	for version, want := range map[string]string{"v0.1.0": "0.0 0.1", "v1.0.0": "0.0 0.1 0.2 1.0", "v1.1.5-rc.1": "0.0 0.1 0.2 1.0 1.1"} {
		content, err := metadata(version, []int{2})
		if err != nil {
			t.Fatal(err)
		}
		var parsed struct{ ReleaseSeries []struct{ Major, Minor int } }
		if err := yaml.Unmarshal(content, &parsed); err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, series := range parsed.ReleaseSeries {
			got = append(got, fmt.Sprintf("%d.%d", series.Major, series.Minor))
		}
		if diff := cmp.Diff(want, strings.Join(got, " ")); diff != "" {
			t.Errorf("%s: %s", version, diff)
		}
	}
}

func TestANewMajorVersionNeedsTheSeriesOfTheOneBefore(t *testing.T) {
	t.Parallel()
	const file = "release/internal/clusterctl/clusterctl.go"
	_, err := metadata("v2.0.0", []int{7})
	if err == nil || !strings.HasPrefix(err.Error(), "--version v2.0.0 ") || !strings.Contains(err.Error(), "of major version 1 to lastMinor in "+file) {
		t.Errorf("got %v", err)
	}
	if content, err := os.ReadFile(filepath.Join(root, file)); err != nil || !strings.Contains(string(content), "\nvar lastMinor = ") {
		t.Errorf("%s does not have the variable: %v", file, err)
	}
}

func TestFindConfigNamesEveryProvider(t *testing.T) {
	t.Parallel()
	folder := write(t)
	config, err := FindConfig(folder)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"name: cluster-api\n  type: CoreProvider\n  url: " + folder + "/cluster-api/v0.2.3/core-components.yaml",
		"name: drover\n  type: BootstrapProvider\n",
		"name: drover-aws\n  type: InfrastructureProvider\n",
	} {
		if !strings.Contains(string(config), want) {
			t.Errorf("the configuration does not have\n%s\n%s", want, config)
		}
	}
	if _, err := FindConfig(t.TempDir()); err == nil {
		t.Error("a folder without providers is accepted")
	}
}
