// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package bootstrapconfig

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	bootstrapapi "k8s.io/cluster-bootstrap/token/api"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	bootstrapv1 "drover.io/api/bootstrap/v1alpha1"
)

func TestKubeadmJoinNeedsAClusterMadeByKubeadm(t *testing.T) {
	f := newFixture(t)
	machine := f.machine("m1")
	config := f.config(machine, func(c *bootstrapv1.BootstrapConfig) { c.Spec.Join.Method = bootstrapv1.JoinKubeadm })
	f.eventually(config, clusterv1.ReadyCondition, metav1.ConditionFalse, bootstrapv1.NotMadeByKubeadmReason)
	if left := f.tokens(machine); len(left) > 0 {
		t.Errorf("%d tokens were made for a machine that cannot join", len(left))
	}
	for _, name := range []string{"kubeadm-config", "kubelet-config"} {
		configMap := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: metav1.NamespaceSystem}}
		if err := workloads.Client.Create(t.Context(), configMap); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = workloads.Client.Delete(context.WithoutCancel(t.Context()), configMap) })
	}
	enqueued := config.DeepCopy()
	enqueued.Annotations = map[string]string{"example.test/look": "again"}
	if err := management.Client.Patch(t.Context(), enqueued, client.MergeFrom(config)); err != nil {
		t.Fatal(err)
	}
	f.eventuallyReady(config)
	made := f.tokens(machine)
	if len(made) != 1 {
		t.Fatalf("%d tokens, want one", len(made))
	}
	// Not kubeadm's own group: clusters made by kubeadm approve every request of a member of that.
	want := "system:bootstrappers:drover"
	if got := string(made[0].Data[bootstrapapi.BootstrapTokenExtraGroupsKey]); got != want {
		t.Errorf("groups = %s, want %s", got, want)
	}
}
