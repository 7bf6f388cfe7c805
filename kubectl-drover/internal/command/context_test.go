// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"drover.io/runtime/envtest"
)

// contexts is a kubeconfig with a context of the same name for each namespace of the management cluster, and the context other
// of a cluster without Drover. The first namespace is that of the current context.
func contexts(t *testing.T, namespaces ...string) string {
	t.Helper()
	written := clientcmdapi.NewConfig()
	for name, server := range map[string]*envtest.Server{"management": management, "other": empty} {
		config, err := server.Start()
		if err != nil {
			t.Fatal(err)
		}
		written.Clusters[name] = &clientcmdapi.Cluster{Server: envtest.URL(config), CertificateAuthorityData: config.CAData}
		written.AuthInfos[name] = &clientcmdapi.AuthInfo{ClientCertificateData: config.CertData, ClientKeyData: config.KeyData}
	}
	for _, namespace := range namespaces {
		written.Contexts[namespace] = &clientcmdapi.Context{Cluster: "management", AuthInfo: "management", Namespace: namespace}
	}
	written.Contexts["other"] = &clientcmdapi.Context{Cluster: "other", AuthInfo: "other"}
	written.CurrentContext = namespaces[0]
	file := filepath.Join(t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(*written, file); err != nil {
		t.Fatal(err)
	}
	return file
}

// TestContexts asks the same question by each way to choose a cluster and a namespace.
func TestContexts(t *testing.T) {
	t.Parallel()
	for _, namespace := range []string{"context-east", "context-west"} {
		pool(t, namespace)
	}
	kubeconfig := contexts(t, "context-east", "context-west")
	for name, test := range map[string]struct {
		flags []string
		code  int
		want  string
	}{
		"uses the current one":                  {nil, ExitProblem, "Cluster shop in namespace context-east "},
		"uses another one":                      {[]string{"--context", "context-west"}, ExitProblem, "Cluster shop in namespace context-west "},
		"prefers the flag of the namespace":     {[]string{"--namespace", "context-west"}, ExitProblem, "Cluster shop in namespace context-west "},
		"prefers it to that of another context": {[]string{"--context", "context-west", "-n", "context-east"}, ExitProblem, "Cluster shop in namespace context-east "},
		"knows where Drover is not installed":   {[]string{"--context", "other"}, ExitError, "Drover is not installed there; --context chooses another cluster"},
		"has no cluster of a user's spelling":   {[]string{"--cluster", "manage"}, ExitError, `cluster "manage" does not exist`},
		"has no user of a user's spelling":      {[]string{"--user", "manage"}, ExitError, `auth info "manage" does not exist`},
		"has no context of a user's spelling":   {[]string{"--context", "context-est"}, ExitError, `context "context-est" does not exist`},
		"uses another cluster with its user":    {[]string{"--cluster", "other", "--user", "other"}, ExitError, "Drover is not installed there"},
		"looks into a namespace that is not":    {[]string{"--namespace", "context-none"}, ExitError, `there is no Cluster "shop" in namespace "context-none"`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := run(t, kubeconfig, append([]string{"why", "cluster/shop"}, test.flags...)...)
			if got.code != test.code || !strings.Contains(got.out+got.err, test.want) {
				t.Errorf("exit code %d, output %q, error %q", got.code, got.out, got.err)
			}
			if test.code == ExitError && (got.out != "" || strings.Count(got.err, "\n") != 1) {
				t.Errorf("not one line: output %q, error %q", got.out, got.err)
			}
		})
	}
}

// TestCommandIsAboutTheSameCluster: a command that is printed has the flags that chose the cluster and the user.
func TestCommandIsAboutTheSameCluster(t *testing.T) {
	t.Parallel()
	const namespace = "context-command"
	namespaceNamed(t, namespace)
	apply(t, "testdata/why/instance-missing.yaml", namespace)
	kubeconfig := contexts(t, "other", namespace)
	for _, format := range []string{"", "json"} {
		args := []string{"why", "machine/m", "--context", namespace}
		if format != "" {
			args = append(args, "--output", format)
		}
		if got := run(t, kubeconfig, args...); got.code != ExitProblem || !strings.Contains(got.out, "kubectl delete machine.cluster.x-k8s.io m --namespace "+namespace+" --kubeconfig "+kubeconfig+" --context "+namespace) {
			t.Errorf("output %q, error %q", got.out, got.err)
		}
	}
}

// TestKubeconfigsThatCannotBeUsed has none, one that is no YAML, and one without a current context.
func TestKubeconfigsThatCannotBeUsed(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	write := func(name, content string) string {
		file := filepath.Join(folder, name)
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	for file, want := range map[string]string{
		filepath.Join(folder, "none"):                                                           "none: no such file or directory",
		write("broken", "clusters: {\n"):                                                        "broken",
		write("kind", "apiVersion: v1\nkind: Secret\ndata: {token: c2VjcmV0}\n"):                "kind",
		write("context", "apiVersion: v1\nkind: Config\ncurrent-context: gone\ncontexts: []\n"): "context was not found for specified context: gone",
		write("key", "apiVersion: v1\nkind: Config\nusers: [{name: u, user: {client-key-data: c2VjcmV0, client-certificate-data: c2VjcmV0}}]\n"+
			"clusters: [{name: c, cluster: {server: 'https://127.0.0.1:1'}}]\ncontexts: [{name: x, context: {cluster: c, user: u}}]\ncurrent-context: x\n"): "tls: ",
	} {
		for _, args := range [][]string{{"why", "machine/m"}, {"describe", "cluster", "c"}, {"check"}, {"orphans"}, {"freeze", "web"}, {"rollout", "history", "web"}, {"diff", "-f", "testdata/tree.yaml"}} {
			got := run(t, file, args...)
			if args[0] == "check" && got.code == ExitProblem {
				got.err, got.code, got.out = got.out, ExitError, "" // what cannot be reached is what check reports
				got.err, _, _ = strings.Cut(got.err, "\n")
				got.err += "\n"
			}
			if got.code != ExitError || got.out != "" || !strings.Contains(got.err, want) || strings.Count(got.err, "\n") != 1 || strings.Contains(got.err, "c2VjcmV0") {
				t.Errorf("%v with %s: exit code %d, output %q, error %q", args, filepath.Base(file), got.code, got.out, got.err)
			}
		}
	}
}

// TestClustersOfOneName has two namespaces with the same objects, of which those of one are not well: answers, actions and the
// Secret of the workload cluster are those of one namespace.
func TestClustersOfOneName(t *testing.T) {
	t.Parallel()
	east, west := pool(t, "twin-east"), pool(t, "twin-west")
	kubeconfig := contexts(t, east.Namespace, west.Namespace)
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "twin"}}
	if err := empty.Client(t).Create(t.Context(), node); err != nil {
		t.Fatal(err)
	}
	node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "KubeletReady"}}
	node.Status.NodeInfo.KubeletVersion = "v1.36.2"
	if err := empty.Client(t).Status().Update(t.Context(), node); err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{east.Namespace, west.Namespace} {
		m := machineNamed(t, key, "alone")
		m.Status.NodeRef.Name = node.Name
		writeStatus(t, m)
	}
	workloadSecret(t, east.Namespace, "shop", empty)
	read, unread := run(t, kubeconfig, "describe", "machine", "alone"), run(t, kubeconfig, "describe", "machine", "alone", "--context", west.Namespace)
	if read.code != ExitOK || !strings.Contains(read.out, "Node twin  v1.36.2\n") {
		t.Errorf("east: exit code %d, output %q, error %q", read.code, read.out, read.err)
	}
	if unread.code != ExitOK || !strings.Contains(unread.out, `Node twin  not read: Secret "twin-west/shop-kubeconfig" does not exist`) {
		t.Errorf("west: exit code %d, output %q, error %q", unread.code, unread.out, unread.err)
	}
	before := deploymentOf(t, west)
	if got := run(t, kubeconfig, "freeze", "web"); got.code != ExitOK {
		t.Errorf("exit code %d, error %q", got.code, got.err)
	}
	if frozen := deploymentOf(t, east).Annotations["drover.io/freeze"]; frozen != "true" {
		t.Errorf("east has the annotation %q", frozen)
	}
	if after := deploymentOf(t, west); after.ResourceVersion != before.ResourceVersion {
		t.Error("the MachineDeployment of the other namespace was changed")
	}
	for _, m := range []string{"web-new-0", "web-new-1", "web-new-2"} {
		broken := machineNamed(t, west.Namespace, m)
		broken.Status.Conditions[0].Reason, broken.Status.Conditions[0].Message = "Unauthorized", "refused in the west"
		writeStatus(t, broken)
	}
	for namespace, want := range map[string]bool{east.Namespace: false, west.Namespace: true} {
		got := run(t, kubeconfig, "describe", "cluster", "shop", "--context", namespace)
		if strings.Contains(got.out, "refused in the west") != want || !strings.Contains(got.out, "4 Machines  Running") {
			t.Errorf("%s: %s%s", namespace, got.out, got.err)
		}
		node := run(t, kubeconfig, "why", "node/twin", "--context", namespace)
		if want := fmt.Sprintf("Machine alone in namespace %s is well", namespace); !strings.HasPrefix(node.out, want) {
			t.Errorf("the Machine of the Node in %s: %q %q", namespace, node.out, node.err)
		}
	}
}
