// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package bootstrapconfig

import (
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"drover.io/bootstrap/internal/token"
	"drover.io/runtime/fairshare"
)

// TestNamespaceWhoseClustersHangHasAShareOfTheWorkers: the others of that namespace come back later, and other
// namespaces are served.
func TestNamespaceWhoseClustersHangHasAShareOfTheWorkers(t *testing.T) {
	hanging, other := newEnv(t, workloads.Kubeconfig), another(t, workloads.Kubeconfig)
	gate := fairshare.NewGate(2, hanging.Clock)
	hanging.share, other.share = gate, gate
	called, answer, ended := make(chan struct{}), make(chan struct{}), make(chan error)
	hanging.NewToken = func() (token.Token, error) {
		close(called)
		<-answer
		return token.New()
	}
	if err := hanging.Client.Get(t.Context(), client.ObjectKeyFromObject(hanging.config), hanging.config); err != nil {
		t.Fatal(err)
	}
	go func() {
		_, err := hanging.Reconcile(t.Context(), hanging.config.DeepCopy())
		ended <- err
	}()
	<-called
	for range 2 {
		result, err := hanging.Reconcile(t.Context(), hanging.config.DeepCopy())
		if err != nil || result.RequeueAfter == 0 {
			t.Errorf("while the other place hangs: got %+v and %v, want another look later", result, err)
		}
	}
	if _, writes := other.reconcile(); writes == 0 {
		t.Error("another namespace was not served")
	}
	close(answer)
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
