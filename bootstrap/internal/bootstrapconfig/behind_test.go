// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package bootstrapconfig

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// TestCacheThatIsBehindDeletesNoData has a cache in which the data was not made yet, and a kubeconfig that has changed since.
func TestCacheThatIsBehindDeletesNoData(t *testing.T) {
	b := newEnv(t, workloads.Kubeconfig)
	behind := b.config.DeepCopy()
	b.reconcile()
	before := &corev1.Secret{}
	if err := b.Client.Get(t.Context(), client.ObjectKeyFromObject(b.config), before); err != nil {
		t.Fatal(err)
	}
	kubeconfig := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: b.config.Namespace, Name: "c1-kubeconfig"}}
	kubeconfig.Data = map[string][]byte{"value": changed(t, func(c *clientcmdapi.Cluster, _ *clientcmdapi.AuthInfo) {
		c.CertificateAuthorityData = append(c.CertificateAuthorityData, c.CertificateAuthorityData...)
	})}
	if err := b.Client.Update(t.Context(), kubeconfig); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Reconcile(t.Context(), behind); err != nil {
		t.Fatal(err)
	}
	after := &corev1.Secret{}
	if err := b.Client.Get(t.Context(), client.ObjectKeyFromObject(b.config), after); err != nil || after.UID != before.UID {
		t.Errorf("the data that was published is deleted or written again: %v", err)
	}
}
