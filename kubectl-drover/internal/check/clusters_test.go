// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	droverpolicyv1 "drover.io/api/policy/v1alpha1"
)

func clusterNamed(namespace, name string, conditions ...metav1.Condition) *clusterv1.Cluster {
	c := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	c.Status.Conditions = append([]metav1.Condition{{Type: "Other", Status: metav1.ConditionTrue}}, conditions...)
	return c
}

func condition(kind string, status metav1.ConditionStatus, reason string) metav1.Condition {
	return metav1.Condition{Type: kind, Status: status, Reason: reason, LastTransitionTime: metav1.NewTime(noon.Add(-90 * time.Minute))}
}

// TestWorkloadClusters has Clusters that are connected, paused and not connected, in two namespaces.
func TestWorkloadClusters(t *testing.T) {
	t.Parallel()
	connected := condition(clusterv1.ClusterRemoteConnectionProbeCondition, metav1.ConditionTrue, clusterv1.ClusterRemoteConnectionProbeSucceededReason)
	lost := condition(clusterv1.ClusterRemoteConnectionProbeCondition, metav1.ConditionFalse, clusterv1.ClusterRemoteConnectionProbeFailedReason)
	paused := condition(clusterv1.PausedCondition, metav1.ConditionTrue, clusterv1.PausedReason)
	const broken = "the API server of the workload cluster is not connected; meanwhile nothing is created, replaced or drained for it"
	for name, test := range map[string]struct {
		clusters  []client.Object
		namespace string
		want      []Result
	}{
		"are all connected": {[]client.Object{clusterNamed("a", "x", connected), clusterNamed("b", "y", connected)}, "", []Result{{"workload clusters", OK, "2 are connected", ""}}},
		"are none":          {nil, "", []Result{{"workload clusters", OK, "0 are connected", ""}}},
		"are those of one namespace": {
			[]client.Object{clusterNamed("a", "x", connected), clusterNamed("b", "y", lost)}, "a", []Result{{"workload clusters", OK, "1 is connected", ""}},
		},
		"are named where they are not well": {
			[]client.Object{clusterNamed("a", "x", lost), clusterNamed("b", "x", paused), clusterNamed("b", "y", connected)}, "",
			[]Result{
				{"workload clusters", Failed, "Cluster a/x: " + broken, "kubectl drover why cluster/x --namespace a"},
				{"workload clusters", Warning, "Cluster b/x is paused", "kubectl drover why cluster/x --namespace b"},
			},
		},
		"are a warning while they are paused, whatever else": {
			[]client.Object{clusterNamed("a", "x", lost, paused)}, "", []Result{{"workload clusters", Warning, "Cluster a/x is paused", "kubectl drover why cluster/x --namespace a"}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := checker(t, interceptor.Funcs{}, test.clusters...)
			c.Namespace = test.namespace
			if diff := cmp.Diff(test.want, c.clusters(t.Context())); diff != "" {
				t.Errorf("results (-want +got):\n%s", diff)
			}
		})
	}
}

// TestFreezes has MachineDeployments with each status of the condition, and counts those that were looked at.
func TestFreezes(t *testing.T) {
	t.Parallel()
	deployment := func(namespace, name string, conditions ...metav1.Condition) *clusterv1.MachineDeployment {
		md := &clusterv1.MachineDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
		md.Status.Conditions = conditions
		return md
	}
	objects := []client.Object{
		deployment("a", "plain"), deployment("a", "thawed", condition(droverpolicyv1.FrozenCondition, metav1.ConditionFalse, "NotFrozen")),
		deployment("b", "by-hand", condition(droverpolicyv1.FrozenCondition, metav1.ConditionTrue, droverpolicyv1.FrozenByAnnotationReason)),
		deployment("b", "surplus", condition(droverpolicyv1.FrozenCondition, metav1.ConditionTrue, droverpolicyv1.OvershootReason)),
	}
	for namespace, want := range map[string][]Result{
		"a": {{"freezes", OK, "none of 2 MachineDeployments is frozen", ""}},
		"c": {{"freezes", OK, "none of 0 MachineDeployments is frozen", ""}},
		"": {
			{"freezes", Warning, "MachineDeployment b/by-hand is frozen for 90m: FrozenByAnnotation", "kubectl drover why machinedeployment/by-hand --namespace b"},
			{"freezes", Warning, "MachineDeployment b/surplus is frozen for 90m: " + droverpolicyv1.OvershootReason, "kubectl drover why machinedeployment/surplus --namespace b"},
		},
	} {
		c := checker(t, interceptor.Funcs{}, objects...)
		c.Namespace = namespace
		if diff := cmp.Diff(want, c.frozen(t.Context())); diff != "" {
			t.Errorf("%q: results (-want +got):\n%s", namespace, diff)
		}
	}
}

// kubeconfigWith has a client certificate, and no key, which a check of certificates does not need.
func kubeconfigWith(user string) []byte {
	return []byte("apiVersion: v1\nkind: Config\nclusters: [{name: c, cluster: {server: 'https://127.0.0.1:1'}}]\nusers: [{name: u, user: {" + user + "}}]\ncontexts: [{name: x, context: {cluster: c, user: u}}]\ncurrent-context: x\n")
}

// TestCertificatesOfClusters has Secrets of each kind: what is missing or not accepted is reported by its Cluster, and one that may
// not be read does not hide the others.
func TestCertificatesOfClusters(t *testing.T) {
	t.Parallel()
	secret := func(cluster string, content []byte) *corev1.Secret {
		return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: cluster + "-kubeconfig"}, Data: map[string][]byte{"value": content}}
	}
	var clusters []client.Object
	for _, name := range []string{"token", "missing", "empty", "exec", "refused"} {
		clusters = append(clusters, clusterNamed("n", name))
	}
	objects := append(clusters, secret("token", kubeconfigWith("token: t")), secret("empty", nil), secret("refused", kubeconfigWith("token: t")),
		secret("exec", kubeconfigWith("exec: {apiVersion: client.authentication.k8s.io/v1, command: x, interactiveMode: Never}")))
	readable := checker(t, interceptor.Funcs{}, objects...)
	want := []Result{{"certificates", OK, "none of 2 kubeconfigs expires within 30 days", ""}}
	if diff := cmp.Diff(want, readable.kubeconfigs(t.Context())); diff != "" {
		t.Errorf("results (-want +got):\n%s", diff)
	}
	refusing := checker(t, interceptor.Funcs{Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, options ...client.GetOption) error {
		if key.Name == "refused-kubeconfig" {
			return apierrors.NewForbidden(schema.GroupResource{Resource: "secrets"}, key.Name, errors.New("no rule"))
		}
		return c.Get(ctx, key, o, options...)
	}}, objects...)
	want = []Result{{"certificates", Unknown, "you may not read the kubeconfig Secrets of 1 Cluster", ""}}
	if diff := cmp.Diff(want, refusing.kubeconfigs(t.Context())); diff != "" {
		t.Errorf("with one that is refused (-want +got):\n%s", diff)
	}
}

// TestSecretsOfConnectedClusters has Clusters that report a connection, whatever became of the Secret since.
func TestSecretsOfConnectedClusters(t *testing.T) {
	t.Parallel()
	connected := condition(clusterv1.ClusterRemoteConnectionProbeCondition, metav1.ConditionTrue, clusterv1.ClusterRemoteConnectionProbeSucceededReason)
	secret := func(cluster, label string) *corev1.Secret {
		return &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: cluster + "-kubeconfig", Labels: map[string]string{clusterv1.ClusterNameLabel: label}},
			Data:       map[string][]byte{"value": kubeconfigWith("token: t")},
		}
	}
	want := []Result{
		{"kubeconfigs", Failed, `Cluster n/missing: Secret "n/missing-kubeconfig" does not exist; create it with the kubeconfig in data.value: machine-controller is still connected with a kubeconfig that its Secret no longer has: after a restart or a broken connection it cannot connect again, and no new machine can join`, "kubectl drover why cluster/missing --namespace n"},
		{"kubeconfigs", Warning, "Cluster n/unlabelled: Secret unlabelled-kubeconfig lacks the label cluster.x-k8s.io/cluster-name=unlabelled: machine-controller notices a change of the Secret only once the former credentials are refused", "kubectl label secret unlabelled-kubeconfig --namespace n --overwrite cluster.x-k8s.io/cluster-name=unlabelled"},
		{"certificates", OK, "none of 2 kubeconfigs expires within 30 days", ""},
	}
	c := checker(t, interceptor.Funcs{}, clusterNamed("n", "missing", connected), clusterNamed("n", "unlabelled", connected), clusterNamed("n", "well", connected),
		secret("unlabelled", "another"), secret("well", "well"))
	if diff := cmp.Diff(want, c.kubeconfigs(t.Context())); diff != "" {
		t.Errorf("results (-want +got):\n%s", diff)
	}
}

// TestChunksOfAllClusters has more Clusters than one answer of the API server: each is looked at once.
func TestChunksOfAllClusters(t *testing.T) {
	t.Parallel()
	page := 0
	c := checker(t, interceptor.Funcs{List: func(_ context.Context, _ client.WithWatch, list client.ObjectList, _ ...client.ListOption) error {
		clusters, is := list.(*clusterv1.ClusterList)
		if !is {
			t.Fatalf("asked for %T", list)
		}
		page++
		for i := range 500 {
			clusters.Items = append(clusters.Items, *clusterNamed("n", fmt.Sprintf("c-%d-%d", page, i)))
		}
		if page < 3 {
			list.SetContinue(fmt.Sprint(page))
		}
		return nil
	}})
	seen := map[string]int{}
	if err := c.eachCluster(t.Context(), func(c *clusterv1.Cluster) { seen[c.Name]++ }); err != nil || len(seen) != 1500 || page != 3 {
		t.Errorf("%d Clusters in %d chunks, error %v", len(seen), page, err)
	}
}

// TestTextOfResultsIsOneLineEach has messages of objects that others write.
func TestTextOfResultsIsOneLineEach(t *testing.T) {
	t.Parallel()
	text := Text([]Result{
		failed("a", "help\nforged  b: ok", "Cluster %s", "x\x1b[2J\nok       b: forged"), warning("b", "", "w"), {"c", Unknown, "u", ""}, ok("d", "%d", 3)[0],
	})
	want := "failed   a: Cluster x\\u001b[2J; ok       b: forged\n         help; forged  b: ok\nwarning  b: w\nunknown  c: u\nok       d: 3\n\n1 ok, 1 warning, 1 failed, 1 not checked\n"
	if diff := cmp.Diff(want, text); diff != "" || strings.Contains(text, "\x1b") {
		t.Errorf("text (-want +got):\n%s", diff)
	}
}
