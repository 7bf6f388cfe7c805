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
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"drover.io/kubectl-drover/internal/drain"
)

// joined creates a Cluster and a Machine whose Node has the name of the namespace, in the workload cluster, with pods.
func joined(t *testing.T, namespace string, pods ...string) *clusterv1.Machine {
	t.Helper()
	namespaceNamed(t, namespace)
	apply(t, "testdata/drain-refused.yaml", namespace)
	m := machineNamed(t, namespace, "m")
	m.Status.NodeRef.Name = namespace
	writeStatus(t, m)
	c := empty.Client(t)
	objects := []client.Object{&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: namespace}}}
	if len(pods) > 0 {
		objects = append(objects, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}})
	}
	for _, name := range pods {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{"name": name}}}
		pod.Spec.NodeName, pod.Spec.AutomountServiceAccountToken = namespace, new(false)
		pod.Spec.Containers = []corev1.Container{{Name: "c", Image: "i"}}
		objects = append(objects, pod)
	}
	for _, o := range objects {
		if err := c.Create(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
	return m
}

// kubeconfigContent writes the Secret of the Cluster prod with any content.
func kubeconfigContent(t *testing.T, namespace, content string) {
	t.Helper()
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "prod-kubeconfig"}, Data: map[string][]byte{"value": []byte(content)}}
	if err := management.Client(t).Create(t.Context(), secret); err != nil {
		t.Fatal(err)
	}
}

// TestKubeconfigsOfTenantsAreRefused has Secrets that would run a program of the reader, read a file of the reader, or send the
// reader's requests somewhere else. Each command that reads a workload cluster names the field, and does none of that.
func TestKubeconfigsOfTenantsAreRefused(t *testing.T) {
	t.Parallel()
	marker := filepath.Join(t.TempDir(), "ran")
	server := "https://127.0.0.1:1"
	config := func(cluster, user string) string {
		return fmt.Sprintf("apiVersion: v1\nkind: Config\nclusters: [{name: c, cluster: {%s}}]\nusers: [{name: u, user: {%s}}]\ncontexts: [{name: x, context: {cluster: c, user: u}}]\ncurrent-context: x\n", cluster, user)
	}
	kubeconfig := admin(t, management)
	for name, test := range map[string]struct{ content, want string }{
		"exec":      {config("server: '"+server+"'", "exec: {apiVersion: client.authentication.k8s.io/v1, command: touch, args: ['"+marker+"'], interactiveMode: Never}"), "users[].user.exec runs a program"},
		"tokenfile": {config("server: '"+server+"'", "tokenFile: /etc/hostname"), "users[].user.tokenFile names a file"},
		"keyfile":   {config("server: '"+server+"'", "client-certificate: /etc/hostname, client-key: /etc/hostname"), "users[].user.client-certificate names a file"},
		"insecure":  {config("server: '"+server+"', insecure-skip-tls-verify: true", "token: t"), "insecure-skip-tls-verify is refused"},
		"plain":     {config("server: 'http://127.0.0.1:1'", "token: t"), "must begin with https://"},
		"proxy":     {config("server: '"+server+"', proxy-url: 'http://127.0.0.1:1'", "token: t"), "clusters[].cluster.proxy-url is refused"},
		"nothing":   {"", "has no kubeconfig in data.value"},
		"no-yaml":   {"a: [", "is not a kubeconfig"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			namespace := "tenant-" + name
			m := joined(t, namespace)
			kubeconfigContent(t, namespace, test.content)
			plan := run(t, kubeconfig, "drain", "--dry-run", m.Name, "--namespace", namespace)
			if plan.code != ExitError || plan.out != "" || !strings.Contains(plan.err, "the workload cluster cannot be read: ") || !strings.Contains(plan.err, test.want) || strings.Count(plan.err, "\n") != 1 {
				t.Errorf("drain: exit code %d, output %q, error %q", plan.code, plan.out, plan.err)
			}
			tree := run(t, kubeconfig, "describe", "machine", m.Name, "--namespace", namespace)
			if tree.code != ExitOK || !strings.Contains(tree.out, "Node "+namespace+"  not read: ") || !strings.Contains(tree.out, test.want) {
				t.Errorf("describe: exit code %d, output %q, error %q", tree.code, tree.out, tree.err)
			}
			for _, printed := range []string{plan.err, tree.out} {
				if strings.Contains(printed, "token: t") || strings.Contains(printed, "root:") {
					t.Errorf("the content is printed: %s", printed)
				}
			}
		})
	}
	t.Cleanup(func() {
		if _, err := os.Stat(marker); err == nil {
			t.Error("the program of the kubeconfig ran")
		}
	})
}

// TestWorkloadClusterThatDoesNotAnswer has one whose port is closed.
func TestWorkloadClusterThatDoesNotAnswer(t *testing.T) {
	t.Parallel()
	m := joined(t, "workload-down")
	kubeconfigContent(t, "workload-down", "apiVersion: v1\nkind: Config\nclusters: [{name: c, cluster: {server: 'https://127.0.0.1:1'}}]\nusers: [{name: u, user: {token: secret-token}}]\ncontexts: [{name: x, context: {cluster: c, user: u}}]\ncurrent-context: x\n")
	kubeconfig := admin(t, management)
	plan := run(t, kubeconfig, "drain", "--dry-run", m.Name, "--namespace", "workload-down")
	if plan.code != ExitError || plan.out != "" || strings.Count(plan.err, "\n") != 1 || !strings.Contains(plan.err, "127.0.0.1:1") || strings.Contains(plan.err, "secret-token") {
		t.Errorf("drain: %+v", plan)
	}
	tree := run(t, kubeconfig, "describe", "machine", m.Name, "--namespace", "workload-down")
	if tree.code != ExitOK || !strings.Contains(tree.out, "Node workload-down") || !strings.Contains(tree.out, "connection refused") || strings.Contains(tree.out, "secret-token") {
		t.Errorf("describe: %+v", tree)
	}
}

// TestDrainPlanIsTheSameInEachForm compares the text, JSON and YAML of a drain, and the exit code of each.
func TestDrainPlanIsTheSameInEachForm(t *testing.T) {
	t.Parallel()
	m := joined(t, "drain-forms", "one", "two")
	workloadSecret(t, "drain-forms", "prod", empty)
	kubeconfig := admin(t, management)
	args := []string{"drain", "--dry-run", "machine/" + m.Name, "--namespace", "drain-forms"}
	text, asJSON := run(t, kubeconfig, args...), run(t, kubeconfig, append(args, "-o", "json")...)
	var plan []drain.Pod
	if err := json.Unmarshal([]byte(asJSON.out), &plan); err != nil {
		t.Fatalf("error %v, output %s%s", err, asJSON.out, asJSON.err)
	}
	want := []drain.Pod{
		{Namespace: "drain-forms", Name: "one", Effect: drain.Evicted, Why: "no controller recreates it"},
		{Namespace: "drain-forms", Name: "two", Effect: drain.Evicted, Why: "no controller recreates it"},
	}
	if diff := cmp.Diff(want, plan); diff != "" {
		t.Errorf("the plan (-want +got):\n%s", diff)
	}
	lines := "Node drain-forms of Machine m, 2 pods\n"
	for _, pod := range plan {
		lines += pod.String() + "\n"
	}
	if lines += "A drain is given up after 10m\n"; text.out != lines || text.code != ExitOK || asJSON.code != ExitOK {
		t.Errorf("exit codes %d and %d, output %q, want %q", text.code, asJSON.code, text.out, lines)
	}
}

// TestDrainOfEachMachine has what is said about a Machine beside its pods: how long a drain may take, and whether there is one.
func TestDrainOfEachMachine(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		change func(*testing.T, *clusterv1.Machine)
		code   int
		want   string
	}{
		"without-a-limit": {func(t *testing.T, m *clusterv1.Machine) {
			t.Helper()
			m.Spec.Deletion.NodeDrainTimeoutSeconds = nil
			if err := management.Client(t).Update(t.Context(), m); err != nil {
				t.Fatal(err)
			}
		}, ExitOK, "A drain waits without a limit, unless a MachinePolicy has spec.drain.forceAfterSeconds: spec.deletion.nodeDrainTimeoutSeconds is not set\n"},
		"zero-is-no-limit": {func(t *testing.T, m *clusterv1.Machine) {
			t.Helper()
			m.Spec.Deletion.NodeDrainTimeoutSeconds = new(int32(0))
			if err := management.Client(t).Update(t.Context(), m); err != nil {
				t.Fatal(err)
			}
		}, ExitOK, "A drain waits without a limit, unless a MachinePolicy has spec.drain.forceAfterSeconds: spec.deletion.nodeDrainTimeoutSeconds is not set\n"},
		"cluster-deleted": {func(t *testing.T, m *clusterv1.Machine) {
			t.Helper()
			cluster := &clusterv1.Cluster{}
			if err := management.Client(t).Get(t.Context(), client.ObjectKey{Namespace: m.Namespace, Name: "prod"}, cluster); err != nil {
				t.Fatal(err)
			}
			cluster.Finalizers = []string{"example.org/held"}
			if err := management.Client(t).Update(t.Context(), cluster); err != nil {
				t.Fatal(err)
			}
			if err := management.Client(t).Delete(t.Context(), cluster); err != nil {
				t.Fatal(err)
			}
		}, ExitOK, "The Machine is not drained at all: its Cluster is being deleted\n"},
		"rule-of-its-labels": {func(t *testing.T, m *clusterv1.Machine) {
			t.Helper()
			rule := &clusterv1.MachineDrainRule{ObjectMeta: metav1.ObjectMeta{Namespace: m.Namespace, Name: "skip-all"}}
			rule.Spec.Drain.Behavior = clusterv1.MachineDrainRuleDrainBehaviorSkip
			rule.Spec.Machines = []clusterv1.MachineDrainRuleMachineSelector{{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{clusterv1.ClusterNameLabel: "prod"}}}}
			other := rule.DeepCopy()
			other.Name, other.Spec.Machines[0].Selector.MatchLabels = "of-others", map[string]string{"pool": "other"}
			other.Spec.Drain.Behavior, other.Spec.Drain.Order = clusterv1.MachineDrainRuleDrainBehaviorDrain, new(int32(7))
			for _, o := range []client.Object{rule, other} {
				if err := management.Client(t).Create(t.Context(), o); err != nil {
					t.Fatal(err)
				}
			}
		}, ExitOK, "stays    drain-rule-of-its-labels/one: by MachineDrainRule skip-all\n"},
		"node-gone": {func(t *testing.T, m *clusterv1.Machine) {
			t.Helper()
			m.Status.NodeRef.Name = "drain-node-gon"
			writeStatus(t, m)
		}, ExitError, `there is no Node "drain-node-gon"; did you mean "drain-node-gone"?`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			namespace := "drain-" + name
			m := joined(t, namespace, "one")
			workloadSecret(t, namespace, "prod", empty)
			test.change(t, m)
			got := run(t, admin(t, management), "drain", "--dry-run", m.Name, "--namespace", namespace)
			if got.code != test.code || !strings.Contains(got.out+got.err, test.want) {
				t.Errorf("exit code %d, output %q, error %q", got.code, got.out, got.err)
			}
			if test.code == ExitError && (got.out != "" || strings.Count(got.err, "\n") != 1) {
				t.Errorf("not one line: output %q, error %q", got.out, got.err)
			}
		})
	}
}
