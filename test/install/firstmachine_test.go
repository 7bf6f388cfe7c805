// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"drover.io/test/controlplane/binaries"
)

var (
	// exportLine matches a line that exports variables, exported one of them, and secretCreated the name of a Secret.
	exportLine    = regexp.MustCompile(`(?m)^export (.*)$`)
	exported      = regexp.MustCompile(`(\w+)=(?:"([^"]*)"|(\S+))`)
	secretCreated = regexp.MustCompile(`kubectl create secret generic (\S+)`)
	// withoutDefault matches a variable of a template that the user has to set.
	withoutDefault = regexp.MustCompile(`\$\{(\w+)\}`)
)

// TestFirstMachineOfEachCloud fills in the template of each cloud with the variables that docs/guides/first-machine.md sets,
// has a real API server check the objects, and compares the Secret that they name with the one that the guide creates.
func TestFirstMachineOfEachCloud(t *testing.T) {
	t.Parallel()
	root, err := binaries.Root()
	if err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(filepath.Join(root, "docs", "guides", "first-machine.md"))
	if err != nil {
		t.Fatal(err)
	}
	accounts, common, found := strings.Cut(string(raw), "\n## 3. ")
	if !found {
		t.Fatal("the guide has no third section")
	}
	_, c := start(t)
	if err := apply(t.Context(), c, allManifests(t, version)); err != nil {
		t.Fatal(err)
	}
	described := map[string]bool{}
	for _, section := range strings.Split(accounts, "\n### ")[1:] {
		values := variables(section, common)
		cloud := values["CLOUD"]
		described[cloud] = true
		t.Run(cloud, func(t *testing.T) { firstMachine(t, c, section, values) })
	}
	folders, err := filepath.Glob(filepath.Join(made[version], "clusterctl", "infrastructure-drover-*"))
	if err != nil || len(folders) < 8 {
		t.Fatalf("%d clouds, %v", len(folders), err)
	}
	for _, folder := range folders {
		cloud := strings.TrimPrefix(filepath.Base(folder), "infrastructure-drover-")
		if local := cloud == "qemu" || cloud == "sim"; !described[cloud] && !local {
			t.Errorf("the guide does not describe %s", cloud)
		}
	}
}

// firstMachine compares the section of a cloud with its template.
func firstMachine(t *testing.T, c client.Client, section string, values map[string]string) {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(made[version], "clusterctl", "infrastructure-drover-"+values["CLOUD"], version, "cluster-template.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range withoutDefault.FindAllStringSubmatch(string(content), -1) {
		if values[name[1]] == "" {
			t.Errorf("the guide does not set %s", name[1])
		}
	}
	secret := secretCreated.FindStringSubmatch(section)
	if secret == nil {
		t.Fatal("the guide creates no Secret")
	}
	for _, object := range process(t, content, values) {
		name, has, err := unstructured.NestedString(object.Object, "spec", "template", "spec", "credentialsSecretName")
		if err != nil || has && name != secret[1] {
			t.Errorf("the template names the Secret %q, the guide creates %q, error %v", name, secret[1], err)
		}
		await(t, object.GetKind(), func(ctx context.Context) error {
			return client.WithFieldValidation(c, "Strict").Create(ctx, object.DeepCopy(), client.DryRunAll)
		})
	}
}

// variables returns what the parts of a guide export.
func variables(parts ...string) map[string]string {
	values := map[string]string{}
	for _, part := range parts {
		for _, line := range exportLine.FindAllStringSubmatch(part, -1) {
			for _, pair := range exported.FindAllStringSubmatch(line[1], -1) {
				values[pair[1]] = pair[2] + pair[3]
			}
		}
	}
	return values
}
