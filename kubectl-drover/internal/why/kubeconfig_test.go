// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package why

import (
	"errors"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"drover.io/api/reason"
	"drover.io/kubectl-drover/internal/object"
	"drover.io/runtime/kubeconfig"
)

const usable = "apiVersion: v1\nkind: Config\nclusters: [{name: c, cluster: {server: 'http://127.0.0.1:1', proxy-url: 'http://127.0.0.1:2'}}]\nusers: [{name: u, user: {token: t}}]\ncontexts: [{name: x, context: {cluster: c, user: u}}]\ncurrent-context: x\n"

// TestKubeconfigOfAConnectedCluster has Secrets that changed after machine-controller has connected, which no condition has.
func TestKubeconfigOfAConnectedCluster(t *testing.T) {
	t.Parallel()
	connected := is(clusterv1.ClusterRemoteConnectionProbeCondition, "True", clusterv1.ClusterRemoteConnectionProbeSucceededReason, "")
	secret := func(content, label string) *corev1.Secret {
		return &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "c-kubeconfig", Labels: map[string]string{clusterv1.ClusterNameLabel: label}},
			Data:       map[string][]byte{"value": []byte(content)},
		}
	}
	booting := ofDeployment(machine("m", is(clusterv1.MachineInfrastructureReadyCondition, "False", "InstancePending", "")))
	for name, test := range map[string]struct {
		cluster *clusterv1.Cluster
		objects []client.Object
		fact    string
		note    string
	}{
		"is well":                               {cluster(connected), []client.Object{secret(usable, "c")}, "", ""},
		"has lost its Secret":                   {cluster(connected), nil, `Secret "n/c-kubeconfig" does not exist`, ""},
		"has lost it while a Machine boots":     {cluster(connected), []client.Object{booting, deployment()}, `Secret "n/c-kubeconfig" does not exist`, ""},
		"has an empty Secret":                   {cluster(connected), []client.Object{secret("", "c")}, "has no kubeconfig in data.value", ""},
		"has a Secret with something else":      {cluster(connected), []client.Object{secret("x", "c")}, "is not a kubeconfig", ""},
		"has a Secret without its label":        {cluster(connected), []client.Object{secret(usable, "")}, "", "lacks the label cluster.x-k8s.io/cluster-name=c"},
		"reports itself that it is unconnected": {cluster(unconnected), nil, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			answer, err := finder(t, nil, append(test.objects, test.cluster)...).Answer(t.Context(), object.Cluster, key("c"))
			if err != nil {
				t.Fatal(err)
			}
			facts := ""
			if found := answer.Finding; found != nil && found.Condition.Type == "" {
				facts = strings.Join(found.Facts, "")
				if found.Actor != reason.Operator || found.Object.Kind != "Cluster" {
					t.Errorf("got %+v", found)
				}
			}
			if got := strings.Join(answer.Notes, ""); (facts == "") != (test.fact == "") || !strings.Contains(facts, test.fact) || (got == "") != (test.note == "") || !strings.Contains(got, test.note) {
				t.Errorf("facts %q and notes %q, want %q and %q", facts, got, test.fact, test.note)
			}
		})
	}
}

// TestASecretThatMayNotBeReadIsNotAProblem is about a user without that permission, and a Cluster that is being deleted.
func TestASecretThatMayNotBeReadIsNotAProblem(t *testing.T) {
	t.Parallel()
	c := cluster(is(clusterv1.ClusterRemoteConnectionProbeCondition, "True", clusterv1.ClusterRemoteConnectionProbeSucceededReason, ""))
	for _, err := range []error{&kubeconfig.Error{Problem: kubeconfig.Unreadable}, errors.New("broken")} {
		if found, note := KubeconfigProblem(c, kubeconfig.Kubeconfig{}, err); found != nil || note != "" {
			t.Errorf("%v: got %+v, %q", err, found, note)
		}
	}
	c.DeletionTimestamp = new(ago(time.Hour))
	if found, note := KubeconfigProblem(c, kubeconfig.Kubeconfig{}, &kubeconfig.Error{Problem: kubeconfig.Missing}); found != nil || note != "" {
		t.Errorf("deleted: got %+v, %q", found, note)
	}
}
