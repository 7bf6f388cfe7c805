// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"sigs.k8s.io/yaml"
)

// TestOutputs has each command that has -o, as JSON and as YAML: both are the same, with the exit code of the text.
func TestOutputs(t *testing.T) {
	t.Parallel()
	key := pool(t, "outputs")
	kubeconfig := admin(t, management)
	for name, test := range map[string]struct {
		args []string
		code int
		has  string
	}{
		"why of what is not well": {[]string{"why", "machine/web-new-0"}, ExitProblem, `"reason":"InsufficientCapacity"`},
		"why of what is well":     {[]string{"why", "machine/alone"}, ExitOK, `"well":true`},
		"describe":                {[]string{"describe", "md", "web"}, ExitOK, `"names":["web-new-0","web-new-1"]`},
		"history":                 {[]string{"rollout", "history", "web"}, ExitOK, `"machineSet":"web-older"`},
		"orphans":                 {[]string{"orphans"}, ExitOK, `{"objects":[],"reports":[]}`},
		"check":                   {[]string{"check", "--this-namespace", "--installed-in", "outputs"}, ExitProblem, `"name":"roles"`},
		"validate":                {[]string{"validate", "-f", "testdata/validate/right.yaml"}, ExitOK, `"document":1`},
		"validate with problems":  {[]string{"validate", "-f", "testdata/validate/wrong.yaml"}, ExitProblem, `"problems":["`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			args := append(test.args, "--namespace", key.Namespace)
			asJSON, asYAML := run(t, kubeconfig, append(args, "-o", "json")...), run(t, kubeconfig, append(args, "-o", "yaml")...)
			var compact bytes.Buffer
			if err := json.Compact(&compact, []byte(asJSON.out)); err != nil || asJSON.code != test.code || !strings.Contains(compact.String(), test.has) {
				t.Errorf("exit code %d, error %v, output %s%s", asJSON.code, err, asJSON.out, asJSON.err)
			}
			var first, second any
			if err := json.Unmarshal([]byte(asJSON.out), &first); err != nil {
				t.Error(err)
			}
			if err := yaml.Unmarshal([]byte(asYAML.out), &second); err != nil || asYAML.code != test.code {
				t.Errorf("YAML: exit code %d, error %v", asYAML.code, err)
			}
			if diff := cmp.Diff(first, second); diff != "" {
				t.Errorf("YAML is not JSON:\n%s", diff)
			}
		})
	}
}

// TestReportsOfCollectors has an event about an instance in the cloud, and asks in all namespaces too.
func TestReportsOfCollectors(t *testing.T) {
	t.Parallel()
	namespaceNamed(t, "reports")
	event := &corev1.Event{ObjectMeta: metav1.ObjectMeta{Namespace: "reports", Name: "e"}, Reason: "OrphanFound", Message: "instance i-1\x1b[2J", LastTimestamp: metav1.NewTime(noon.Add(-time.Hour))}
	event.InvolvedObject = corev1.ObjectReference{Kind: "Cluster", Namespace: "reports", Name: "prod"}
	if err := management.Client(t).Create(t.Context(), event); err != nil {
		t.Fatal(err)
	}
	want := "Cluster prod in namespace reports, 60m ago, OrphanFound: instance i-1\\u001b[2J\n"
	if got := run(t, admin(t, management), "orphans", "--namespace", "reports"); got.code != ExitOK || got.out != want {
		t.Errorf("exit code %d, output %q, error %q", got.code, got.out, got.err)
	}
	if got := run(t, admin(t, management), "orphans", "-A"); got.code != ExitOK || !strings.Contains(got.out, want) {
		t.Errorf("all namespaces: exit code %d, output %q, error %q", got.code, got.out, got.err)
	}
	if got := run(t, admin(t, management), "orphans", "--namespace", "default"); got.out != "There are none\n" {
		t.Errorf("another namespace: %q", got.out)
	}
}

// TestOtherKindsAreRefused has commands that are about one kind.
func TestOtherKindsAreRefused(t *testing.T) {
	t.Parallel()
	key := pool(t, "other-kinds")
	for want, args := range map[string][]string{
		"Cluster cannot be watched: name a machinedeployment or a machine": {"watch", "cluster/shop"},
		"Cluster has no console: name a machine":                           {"logs", "cluster/shop"},
		"MachineSet has no Node: name a machine":                           {"drain", "--dry-run", "machineset/web-new"},
		"MachineSet has no rollout: name a machinedeployment":              {"rollout", "status", "machineset/web-new"},
		"revision 2 has the current template":                              {"rollout", "undo", "web", "--to-revision=2"},
		`there is no Cluster "none"`:                                       {"describe", "cluster", "none"},
		"unknown command":                                                  {"frobnicate"},
		"name a file with -f":                                              {"diff"},
	} {
		t.Run(want, func(t *testing.T) {
			if args[0] == "rollout" && args[1] == "undo" {
				md := deploymentOf(t, key)
				annotate(md, "machinedeployment.clusters.x-k8s.io/revision", "2")
				if err := management.Client(t).Update(t.Context(), md); err != nil {
					t.Fatal(err)
				}
			}
			got := run(t, admin(t, management), append(args, "--namespace", key.Namespace)...)
			if got.code != ExitError || got.out != "" || !strings.Contains(got.err, want) || strings.Count(got.err, "\n") != 1 {
				t.Errorf("exit code %d, output %q, error %q", got.code, got.out, got.err)
			}
		})
	}
}

// TestClientDryRunWritesNothing and does not ask the API server whether it would.
func TestClientDryRunWritesNothing(t *testing.T) {
	t.Parallel()
	key := pool(t, "client-dry-run")
	before := deploymentOf(t, key)
	for _, args := range [][]string{{"freeze", "web"}, {"rollout", "restart", "web"}, {"rollout", "pause", "web"}, {"rollout", "undo", "web"}} {
		got := run(t, admin(t, management), append(args, "--dry-run=client", "--namespace", key.Namespace)...)
		if got.code != ExitOK || !strings.HasSuffix(got.out, " (client dry run)\n") {
			t.Errorf("%v: exit code %d, output %q, error %q", args, got.code, got.out, got.err)
		}
	}
	if after := deploymentOf(t, key); after.ResourceVersion != before.ResourceVersion {
		t.Error("the MachineDeployment was changed")
	}
}

// TestArgumentsAreCompleted has the kinds, the names and the formats that a shell offers.
func TestArgumentsAreCompleted(t *testing.T) {
	t.Parallel()
	key := pool(t, "arguments")
	kubeconfig := admin(t, management)
	for line, want := range map[string]string{
		"rollout status ":       "web\n",
		"logs al":               "alone\n",
		"freeze machineset/":    "machineset/web-new\nmachineset/web-old\nmachineset/web-older\n",
		"describe -o ":          "json\nyaml\nwide\n",
		"why --namespace argum": "arguments\n",
	} {
		var out, errOut bytes.Buffer
		words := strings.Split(line, " ")
		args := append([]string{"__complete", "--kubeconfig", kubeconfig, "--namespace", key.Namespace}, words...)
		code := Run(t.Context(), Environment{Streams: genericiooptions.IOStreams{In: strings.NewReader(""), Out: &out, ErrOut: &errOut}, Now: time.Now}, args)
		if code != ExitOK || !strings.HasPrefix(out.String(), want) {
			t.Errorf("%s: exit code %d, output %q, error %q", line, code, out.String(), errOut.String())
		}
	}
}
