// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"drover.io/kubectl-drover/internal/rollout"
	"drover.io/kubectl-drover/internal/validate"
)

const (
	rightConfig = "apiVersion: bootstrap.drover.io/v1alpha1\nkind: BootstrapConfig\nmetadata: {name: right}\nspec: {operatingSystem: ubuntu}\n"
	wrongConfig = "apiVersion: bootstrap.drover.io/v1alpha1\nkind: BootstrapConfig\nmetadata: {name: wrong}\nspec: {operatingSystem: ubuntu, pakages: [a]}\n"
	otherSecret = "apiVersion: v1\nkind: Secret\nmetadata: {name: other}\nstringData: {password: very-secret}\n"
)

// asList is what kubectl prints for several objects.
func asList(t *testing.T, objects ...string) string {
	t.Helper()
	list := map[string]any{"apiVersion": "v1", "kind": "List", "metadata": map[string]any{"resourceVersion": ""}}
	var items []any
	for _, text := range objects {
		var item map[string]any
		if err := yaml.Unmarshal([]byte(text), &item); err != nil {
			t.Fatal(err)
		}
		items = append(items, item)
	}
	list["items"] = items
	text, err := yaml.Marshal(list)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestValidateCountsEachObject has the forms in which several objects come in one stream.
func TestValidateCountsEachObject(t *testing.T) {
	t.Parallel()
	asJSON, err := yaml.YAMLToJSON([]byte(wrongConfig))
	if err != nil {
		t.Fatal(err)
	}
	const problem = `BootstrapConfig wrong: unknown field "spec.pakages", did you mean "packages"?`
	for name, test := range map[string]struct {
		text    string
		numbers string
		lines   []string
	}{
		"one document":                  {rightConfig, "1 object checked, 0 problems, 0 objects of other projects skipped", nil},
		"two documents":                 {rightConfig + "---\n" + wrongConfig, "2 objects checked, 1 problem, 0 objects of other projects skipped", []string{"standard input, document 2, " + problem}},
		"separators without a document": {"---\n" + rightConfig + "---\n---\n" + wrongConfig, "2 objects checked, 1 problem, 0 objects of other projects skipped", []string{"standard input, document 2, " + problem}},
		"line ends of Windows":          {strings.ReplaceAll(rightConfig+"---\n"+wrongConfig, "\n", "\r\n"), "2 objects checked, 1 problem, 0 objects of other projects skipped", []string{"standard input, document 2, " + problem}},
		"a document end":                {rightConfig + "---\n" + wrongConfig + "...\n", "2 objects checked, 1 problem, 0 objects of other projects skipped", []string{"standard input, document 2, " + problem}},
		"JSON":                          {string(asJSON), "1 object checked, 1 problem, 0 objects of other projects skipped", []string{"standard input, document 1, " + problem}},
		"one of another project":        {otherSecret + "---\n" + wrongConfig, "1 object checked, 1 problem, 1 object of other projects skipped", []string{"standard input, document 2, " + problem}},
		"one of another project last":   {wrongConfig + "---\n" + otherSecret, "1 object checked, 1 problem, 1 object of other projects skipped", []string{"standard input, document 1, " + problem}},
		"a List":                        {asList(t, rightConfig, otherSecret, wrongConfig), "2 objects checked, 1 problem, 1 object of other projects skipped", []string{"standard input, document 1, " + problem}},
		"a List in a List":              {asList(t, asList(t, wrongConfig), rightConfig), "2 objects checked, 1 problem, 0 objects of other projects skipped", []string{"standard input, document 1, " + problem}},
		"a List after another":          {rightConfig + "---\n" + asList(t, wrongConfig, wrongConfig), "3 objects checked, 2 problems, 0 objects of other projects skipped", []string{"standard input, document 2, " + problem, "standard input, document 2, " + problem}},
		"a List of no objects":          {"apiVersion: v1\nkind: List\nitems: [a, {}]\n", "1 object checked, 1 problem, 0 objects of other projects skipped", []string{"standard input, document 1, List: items[0] is no object"}},
		"another project's List":        {"apiVersion: example.org/v1\nkind: List\nitems: [a]\n", "0 objects checked, 0 problems, 1 object of other projects skipped", nil},
		"an error of YAML in one":       {"a: [\n---\n" + rightConfig, "2 objects checked, 1 problem, 0 objects of other projects skipped", []string{"standard input, document 1: yaml: line 1: did not find expected node content"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := offline(t, test.text, "validate", "-f", "-")
			want := strings.Join(append(test.lines, test.numbers), "\n") + "\n"
			code := ExitOK
			if len(test.lines) > 0 {
				code = ExitProblem
			}
			if diff := cmp.Diff(want, got.out); diff != "" || got.code != code || got.err != "" {
				t.Errorf("exit code %d, error %q, output (-want +got):\n%s", got.code, got.err, diff)
			}
			if strings.Contains(got.out, "very-secret") {
				t.Error("the content of a Secret is printed")
			}
		})
	}
}

// TestValidateOfNothingFails has what a command that failed may leave in a pipe, which is not well.
func TestValidateOfNothingFails(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"nothing": "", "comments alone": "# a\n---\n# b\n---\n", "an empty List": "apiVersion: v1\nkind: List\nitems: []\n",
	} {
		if got := offline(t, text, "validate", "-f", "-"); got.code != ExitError || got.out != "" || !strings.Contains(got.err, "-f has no object") {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

// TestValidateNamesEachFile has files of several kinds in several arguments, in their order.
func TestValidateNamesEachFile(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	for name, text := range map[string]string{"b.yaml": wrongConfig, "a.yml": rightConfig + "---\n" + wrongConfig, "c.json": `{"apiVersion":"v1","kind":"Secret","metadata":{"name":"x"}}`, "notes.txt": "no manifest: ["} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	got := offline(t, wrongConfig, "validate", "-f", folder, "-f", "-,"+filepath.Join(folder, "b.yaml"), "-o", "json")
	var results []validate.Result
	if err := json.Unmarshal([]byte(got.out), &results); err != nil || got.code != ExitProblem {
		t.Fatalf("exit code %d, error %v, %s", got.code, err, got.err)
	}
	var found []string
	for _, r := range results {
		found = append(found, fmt.Sprintf("%s %d %s %d %t", filepath.Base(r.File), r.Document, r.Object, len(r.Problems), r.Skipped))
	}
	want := []string{
		"a.yml 1 BootstrapConfig right 0 false", "a.yml 2 BootstrapConfig wrong 1 false", "b.yaml 1 BootstrapConfig wrong 1 false", "c.json 1 Secret x 0 true",
		"standard input 1 BootstrapConfig wrong 1 false", "b.yaml 1 BootstrapConfig wrong 1 false",
	}
	if diff := cmp.Diff(want, found); diff != "" {
		t.Errorf("results (-want +got):\n%s", diff)
	}
	// A path that is not there is no answer, whatever was found before it.
	if got := offline(t, "", "validate", "-f", folder, "-f", filepath.Join(folder, "d.yaml")); got.code != ExitError || got.out != "" || strings.Count(got.err, "\n") != 1 {
		t.Errorf("a file that is missing: %+v", got)
	}
	if err := os.Chmod(filepath.Join(folder, "b.yaml"), 0); err != nil {
		t.Fatal(err)
	}
	if _, err := os.ReadFile(filepath.Join(folder, "b.yaml")); err == nil {
		t.Log("this user reads every file")
	} else if got := offline(t, "", "validate", "-f", folder); got.code != ExitError || got.out != "" || !strings.Contains(got.err, "permission denied") {
		t.Errorf("a file that may not be read: %+v", got)
	}
}

// TestProblemsOfOthersAreOneLine has names with what a terminal obeys, which become part of a message.
func TestProblemsOfOthersAreOneLine(t *testing.T) {
	t.Parallel()
	text := "apiVersion: bootstrap.drover.io/v1alpha1\nkind: BootstrapConfig\nmetadata: {name: \"a\\e[2J\\nforged, document 1: well\"}\nspec: {operatingSystem: \"u\\e]0;x\\a\"}\n"
	got := offline(t, text, "validate", "-f", "-")
	if got.code != ExitProblem || strings.ContainsAny(got.out, "\x1b\a") || !strings.Contains(got.out, `\u001b[2J`) {
		t.Errorf("exit code %d, output %q", got.code, got.out)
	}
}

// TestDiffOfSeveralDocuments has MachineDeployments of two namespaces, in documents and in a List, among other objects.
func TestDiffOfSeveralDocuments(t *testing.T) {
	t.Parallel()
	here, there := pool(t, "diff-here"), pool(t, "diff-there")
	kubeconfig := admin(t, management)
	manifest := func(namespace, spec string) string {
		text := "apiVersion: cluster.x-k8s.io/v1beta2\nkind: MachineDeployment\nmetadata: {name: web}\nspec: {" + spec + "}\n"
		if namespace != "" {
			text = strings.Replace(text, "{name: web}", "{name: web, namespace: "+namespace+"}", 1)
		}
		return text
	}
	version := "template: {spec: {clusterName: shop, version: v1.36.3}}"
	why := []string{`spec.version is "", would be "v1.36.3"`}
	missing := func(pool client.ObjectKey) []string {
		return []string{fmt.Sprintf("there is no SimMachineTemplate %q in namespace %q", "web", pool.Namespace)}
	}
	for name, test := range map[string]struct {
		text string
		code int
		want []rollout.Change
	}{
		"the namespace of the flags": {manifest("", "replicas: 2"), ExitOK, []rollout.Change{{Name: "web", From: 6, To: 2, Missing: missing(here)}}},
		"its own namespace":          {manifest(there.Namespace, "replicas: 3") + "---\n" + otherSecret, ExitOK, []rollout.Change{{Name: "web", From: 6, To: 3, Missing: missing(there)}}},
		"two, of which one replaces": {manifest("", "replicas: 2") + "---\n" + manifest(there.Namespace, version), ExitProblem, []rollout.Change{
			{Name: "web", From: 6, To: 2, Missing: missing(here)}, {Name: "web", From: 6, To: 6, Replaced: 7, Why: why, Missing: missing(there)},
		}},
		"a List": {asList(t, manifest("", version), otherSecret), ExitProblem, []rollout.Change{{Name: "web", From: 6, To: 6, Replaced: 7, Why: why, Missing: missing(here)}}},
	} {
		got := runAt(t, noon, kubeconfig, test.text, "diff", "-f", "-", "--namespace", here.Namespace, "-o", "yaml")
		var changes []rollout.Change
		if err := yaml.Unmarshal([]byte(got.out), &changes); err != nil || got.code != test.code {
			t.Errorf("%s: exit code %d, error %v, %s", name, got.code, err, got.err)
		}
		if diff := cmp.Diff(test.want, changes); diff != "" {
			t.Errorf("%s: changes (-want +got):\n%s", name, diff)
		}
	}
}

// TestDiffIsRefusedAsAnApplyIs has objects that the API server does not accept: there is no answer then.
func TestDiffIsRefusedAsAnApplyIs(t *testing.T) {
	t.Parallel()
	key := pool(t, "diff-refused")
	kubeconfig := admin(t, management)
	const head = "apiVersion: cluster.x-k8s.io/v1beta2\nkind: MachineDeployment\nmetadata: {name: web}\n"
	for name, test := range map[string]struct {
		text string
		want string
	}{
		"a field that there is not":   {head + "spec: {replica: 3}\n", "spec.replica"},
		"another type":                {head + "spec: {replicas: three}\n", "replicas"},
		"an immutable field":          {head + "spec: {clusterName: other}\n", "clusterName"},
		"a cluster that is renamed":   {head + "spec: {template: {spec: {clusterName: other}}}\n", "clusterName"},
		"another version":             {strings.Replace(head, "v1beta2", "v1beta1", 1) + "spec: {replicas: 3}\n", "there is no MachineDeployment of cluster.x-k8s.io/v1beta2 in the files"},
		"a namespace that is not":     {strings.Replace(head, "{name: web}", "{name: web, namespace: diff-none}", 1) + "spec: {replicas: 3}\n", "diff-none"},
		"no YAML":                     {"a: [\n", "yaml"},
		"nothing":                     {"", ""},
		"an object without a name":    {strings.Replace(head, "{name: web}", "{}", 1) + "spec: {replicas: 3}\n", "name"},
		"an object without a version": {"kind: MachineDeployment\nmetadata: {name: web}\n", "there is no MachineDeployment of cluster.x-k8s.io/v1beta2"},
	} {
		got := runAt(t, noon, kubeconfig, test.text, "diff", "-f", "-", "--namespace", key.Namespace)
		if got.code != ExitError || got.out != "" || strings.Count(got.err, "\n") != 1 || !strings.Contains(got.err, test.want) {
			t.Errorf("%s: exit code %d, output %q, error %q", name, got.code, got.out, got.err)
		}
	}
}

// TestDiffRemovesWhatItsManagerApplied has a field that is left out of the file: it is removed for the manager that applied it
// before, and stays for another.
func TestDiffRemovesWhatItsManagerApplied(t *testing.T) {
	t.Parallel()
	key := pool(t, "diff-manager")
	file := filepath.Join(t.TempDir(), "web.yaml")
	md := deploymentOf(t, key)
	if err := os.WriteFile(file, []byte("apiVersion: cluster.x-k8s.io/v1beta2\nkind: MachineDeployment\nmetadata: {name: web}\nspec: {template: {spec: {clusterName: shop, version: v1.36.2}}}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	applied := map[string]any{
		"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "MachineDeployment", "metadata": map[string]any{"name": md.Name, "namespace": md.Namespace},
		"spec": map[string]any{"template": map[string]any{"spec": map[string]any{"clusterName": "shop", "version": "v1.36.2", "failureDomain": "zone-a"}}},
	}
	applyAs(t, applied, "pipeline")
	kubeconfig := admin(t, management)
	const missing = "  there is no SimMachineTemplate \"web\" in namespace \"diff-manager\": create it first, or no Machine can be created\n"
	for manager, want := range map[string]string{
		"pipeline": "MachineDeployment web: 7 Machines would be replaced\n  spec.failureDomain is \"zone-a\", would be \"\"\n" + missing,
		"kubectl":  "MachineDeployment web: no Machine would be replaced\n" + missing,
	} {
		got := run(t, kubeconfig, "diff", "-f", file, "--namespace", key.Namespace, "--field-manager", manager)
		if got.out != want || got.err != "" || (got.code == ExitProblem) != strings.Contains(want, "7 Machines") {
			t.Errorf("%s: exit code %d, output %q, error %q", manager, got.code, got.out, got.err)
		}
	}
}
