// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"drover.io/runtime/envtest"
)

// TestWhy has the objects of each file, whose state is the one that the managers write, and asks what its first line asks.
// test/scenarios has many more situations, with the managers themselves.
func TestWhy(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/why/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no situations: %v", err)
	}
	kubeconfig := admin(t, management)
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".yaml")
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			namespaceNamed(t, name)
			apply(t, file, name)
			question := firstLine(t, file)
			got := run(t, kubeconfig, append(question, "--namespace", name)...)
			golden(t, strings.TrimSuffix(file, ".yaml")+".txt", fmt.Sprintf("%s%sexit code %d\n", got.out, got.err, got.code))
		})
	}
}

// firstLine is the command in the comment at the begin of a file.
func firstLine(t *testing.T, file string) []string {
	t.Helper()
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	line, _, _ := strings.Cut(string(content), "\n")
	command, found := strings.CutPrefix(line, "# kubectl drover ")
	if !found {
		t.Fatalf("%s begins with %q", file, line)
	}
	return strings.Fields(command)
}

func namespaceNamed(t testing.TB, name string) {
	t.Helper()
	if err := management.Client(t).Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}); err != nil {
		t.Fatal(err)
	}
}

// TestBadInputIsOneLine has questions that have no answer.
func TestBadInputIsOneLine(t *testing.T) {
	t.Parallel()
	namespaceNamed(t, "bad-input")
	apply(t, "testdata/why/unauthorized.yaml", "bad-input")
	kubeconfig, other := admin(t, management), admin(t, empty)
	for name, test := range map[string]struct {
		kubeconfig string
		args       []string
		want       string
	}{
		"offers the nearest name":                 {kubeconfig, []string{"why", "cluster/prd"}, `there is no Cluster "prd" in namespace "bad-input"; did you mean "prod"?`},
		"offers nothing if no name is near":       {kubeconfig, []string{"why", "cluster/something-else"}, `there is no Cluster "something-else" in namespace "bad-input"`},
		"offers the nearest kind":                 {kubeconfig, []string{"why", "machin/m"}, `there is no kind "machin"; did you mean "machine"?`},
		"lists the kinds if none is near":         {kubeconfig, []string{"why", "xyz/m"}, `there is no kind "xyz"; try one of cluster, machinedeployment, machineset, machine, `},
		"says how an object is named":             {kubeconfig, []string{"why"}, "name one object, as KIND/NAME"},
		"refuses two objects":                     {kubeconfig, []string{"why", "a/b", "c/d"}, "name one object, as KIND/NAME"},
		"refuses an output that it does not have": {kubeconfig, []string{"why", "machine/m", "-o", "xml"}, `--output is "xml"; it is one of json, yaml`},
		"refuses a flag that it does not have":    {kubeconfig, []string{"why", "machine/m", "--frobnicate"}, "unknown flag: --frobnicate"},
		"describes no other kinds":                {kubeconfig, []string{"describe", "machinepolicy", "x"}, "MachinePolicy has no tree"},
		"says that Drover is not installed":       {other, []string{"why", "machine/m"}, "this cluster has no Machine of cluster.x-k8s.io/v1beta2: Drover is not installed there"},
		"finds no Node without a Machine":         {kubeconfig, []string{"why", "node/n"}, `there is no Machine with the Node "n" in namespace "bad-input"`},
		"does not print control characters":       {kubeconfig, []string{"why", "machine/\x1b[2J"}, `\x1b[2J`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := run(t, test.kubeconfig, append(test.args, "--namespace", "bad-input")...)
			if got.code != ExitError || got.out != "" {
				t.Errorf("exit code %d, output %q", got.code, got.out)
			}
			if !strings.Contains(got.err, test.want) || strings.Count(got.err, "\n") != 1 || strings.Contains(got.err, "\x1b") {
				t.Errorf("the error is %q, want one line with %q", got.err, test.want)
			}
		})
	}
}

// TestNoConnectionIsOneLine has a server that refuses connections.
func TestNoConnectionIsOneLine(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "kubeconfig")
	content := "apiVersion: v1\nkind: Config\nclusters: [{name: c, cluster: {server: 'https://127.0.0.1:1'}}]\nusers: [{name: u, user: {token: secret-token}}]\ncontexts: [{name: c, context: {cluster: c, user: u}}]\ncurrent-context: c\n"
	if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	got := run(t, file, "why", "machine/m")
	if got.code != ExitError || strings.Count(got.err, "\n") != 1 || !strings.Contains(got.err, "127.0.0.1:1") || strings.Contains(got.err, "secret-token") {
		t.Errorf("exit code %d, error %q", got.code, got.err)
	}
}

// TestMissingPermissionsAreNamed has a user who may read Machines, and neither Clusters nor Secrets.
func TestMissingPermissionsAreNamed(t *testing.T) {
	t.Parallel()
	namespaceNamed(t, "permissions")
	apply(t, "testdata/drain.yaml", "permissions")
	c := management.Client(t)
	role := &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: "permissions", Name: "reader"}, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{"cluster.x-k8s.io"}, Resources: []string{"machines"}, Verbs: []string{"get", "list"}},
	}}
	binding := &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: "permissions", Name: "reader"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "reader"},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: "reader"}},
	}
	if err := c.Create(t.Context(), role); err != nil {
		t.Fatal(err)
	}
	if err := c.Create(t.Context(), binding); err != nil {
		t.Fatal(err)
	}
	user, err := management.AddUser("reader")
	if err != nil {
		t.Fatal(err)
	}
	access := authorizationv1.ResourceAttributes{Namespace: "permissions", Group: "cluster.x-k8s.io", Resource: "machines", Verb: "list"}
	if err := envtest.AwaitAccess(t.Context(), user, access); err != nil {
		t.Fatal(err)
	}
	kubeconfig := kubeconfigOf(t, user)
	refused := run(t, kubeconfig, "why", "machinedeployment/x", "--namespace", "permissions")
	if want := `you may not read machinedeployments in namespace "permissions"`; refused.code != ExitError || !strings.Contains(refused.err, want) || strings.Count(refused.err, "\n") != 1 {
		t.Errorf("exit code %d, error %q", refused.code, refused.err)
	}
	partly := run(t, kubeconfig, "why", "machine/m", "--namespace", "permissions")
	if want := "The workload cluster was not read: you may not read the Secret permissions/prod-kubeconfig"; partly.code != ExitProblem || !strings.Contains(partly.out, want) {
		t.Errorf("exit code %d, output %q, error %q", partly.code, partly.out, partly.err)
	}
}

// TestNamesAreCompleted asks as a shell does.
func TestNamesAreCompleted(t *testing.T) {
	t.Parallel()
	namespaceNamed(t, "completion")
	apply(t, "testdata/tree.yaml", "completion")
	kubeconfig := admin(t, management)
	for last, want := range map[string]string{
		"machine/web-new": "machine/web-new-0\nmachine/web-new-1\nmachine/web-new-2\n",
		"cluster/":        "cluster/shop\n",
	} {
		var out, errOut bytes.Buffer
		code := Run(t.Context(), Environment{
			Streams: genericiooptions.IOStreams{In: strings.NewReader(""), Out: &out, ErrOut: &errOut}, Now: time.Now,
		}, []string{"__complete", "--kubeconfig", kubeconfig, "--namespace", "completion", "why", last})
		if code != ExitOK || !strings.HasPrefix(out.String(), want) {
			t.Errorf("%s: exit code %d, output %q, error %q", last, code, out.String(), errOut.String())
		}
	}
}
