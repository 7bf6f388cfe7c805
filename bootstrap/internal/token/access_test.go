// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package token_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	rbacv1client "k8s.io/client-go/kubernetes/typed/rbac/v1"
	"k8s.io/client-go/rest"

	"drover.io/bootstrap/internal/testenv"
	"drover.io/bootstrap/internal/token"
)

// A cluster whose administrator applied config/workload needs no more than that manifest grants, and what
// EnsureAccess makes elsewhere is the same as what the manifest says.
func TestTheWorkloadManifestIsEnough(t *testing.T) {
	t.Parallel()
	cluster, err := testenv.StartWorkload()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := cluster.Stop(); err != nil {
			t.Error(err)
		}
	})
	limited := rest.CopyConfig(cluster.Admin)
	limited.Impersonate = rest.ImpersonationConfig{UserName: "limited", Groups: []string{"drover:managers"}}
	rbac := rbacv1client.NewForConfigOrDie(limited)
	if err := token.EnsureAccess(t.Context(), rbac); !apierrors.IsForbidden(err) {
		t.Fatalf("err = %v, want Forbidden before the manifest is applied", err)
	}
	if err := token.EnsureAccess(t.Context(), rbacv1client.NewForConfigOrDie(cluster.Admin)); err != nil {
		t.Fatal(err)
	}
	made := bindings(t, cluster)
	for i := range made {
		if err := cluster.Client.Delete(t.Context(), &made[i]); err != nil {
			t.Fatal(err)
		}
	}
	if err := cluster.Apply("config/workload/rbac.yaml"); err != nil {
		t.Fatal(err)
	}
	var want, got []any
	for _, b := range made {
		want = append(want, b.Name, b.RoleRef, b.Subjects)
	}
	for _, b := range bindings(t, cluster) {
		got = append(got, b.Name, b.RoleRef, b.Subjects)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("ClusterRoleBindings (-EnsureAccess +manifest):\n%s", diff)
	}

	if err := token.EnsureAccess(t.Context(), rbac); err != nil {
		t.Errorf("after the manifest is applied: %v", err)
	}
	core := corev1client.NewForConfigOrDie(limited)
	tok, err := token.New()
	if err != nil {
		t.Fatal(err)
	}
	request := token.Request{Token: tok, MachineUID: "uid", Machine: "ns/m1", TTL: time.Hour, Now: time.Now()}
	for range 2 {
		if _, err := token.Ensure(t.Context(), core, request); err != nil {
			t.Errorf("making the token: %v", err)
		}
		request.Now = request.Now.Add(50 * time.Minute)
	}
	if err := token.Revoke(t.Context(), core, "uid", tok); err != nil {
		t.Errorf("deleting the token: %v", err)
	}
}

// bindings are the ClusterRoleBindings that let machines join.
func bindings(t *testing.T, cluster *testenv.Cluster) []rbacv1.ClusterRoleBinding {
	t.Helper()
	list := &rbacv1.ClusterRoleBindingList{}
	if err := cluster.Client.List(t.Context(), list); err != nil {
		t.Fatal(err)
	}
	var ours []rbacv1.ClusterRoleBinding
	for _, name := range []string{"drover:node-bootstrapper", "drover:approve-node-client", "drover:approve-node-client-renewal"} {
		for i := range list.Items {
			if list.Items[i].Name == name {
				ours = append(ours, list.Items[i])
			}
		}
	}
	if len(ours) != 3 {
		t.Fatalf("%d ClusterRoleBindings, want 3", len(ours))
	}
	return ours
}
