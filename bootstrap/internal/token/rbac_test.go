// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package token_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	authorizationv1client "k8s.io/client-go/kubernetes/typed/authorization/v1"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	rbacv1client "k8s.io/client-go/kubernetes/typed/rbac/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"drover.io/bootstrap/internal/testenv"
	"drover.io/bootstrap/internal/token"
	"drover.io/runtime/envtest"
)

// A cluster whose administrator applied config/workload needs no more than that manifest grants, and what
// EnsureAccess creates elsewhere is the same as what the manifest has.
func TestWorkloadManifestIsSufficient(t *testing.T) {
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
	if err := token.EnsureAccess(t.Context(), rbac, true); !apierrors.IsForbidden(err) {
		t.Fatalf("err = %v, want Forbidden before the manifest is applied", err)
	}
	if err := token.EnsureAccess(t.Context(), rbacv1client.NewForConfigOrDie(cluster.Admin), true); err != nil {
		t.Fatal(err)
	}
	made := bindings(t, cluster)
	rules := kubeadmRules(t, cluster)
	for i := range made {
		if err := cluster.Client.Delete(t.Context(), &made[i]); err != nil {
			t.Fatal(err)
		}
	}
	inKubeSystem := metav1.ObjectMeta{Namespace: "kube-system", Name: "drover:kubeadm-join"}
	for _, object := range []client.Object{
		&rbacv1.Role{ObjectMeta: inKubeSystem}, &rbacv1.RoleBinding{ObjectMeta: inKubeSystem}, &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: inKubeSystem.Name}},
	} {
		if err := cluster.Client.Delete(t.Context(), object); err != nil {
			t.Fatal(err)
		}
	}
	if err := cluster.Apply(t.Context(), "config/workload/rbac.yaml"); err != nil {
		t.Fatal(err)
	}
	for _, right := range []authorizationv1.ResourceAttributes{
		{Namespace: metav1.NamespaceSystem, Resource: "secrets", Verb: "create"},
		{Group: rbacv1.GroupName, Resource: "clusterroles", Verb: "get", Name: "drover:kubeadm-join"},
	} {
		if err := envtest.AwaitAccess(t.Context(), limited, right); err != nil {
			t.Fatal(err)
		}
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

	if diff := cmp.Diff(rules, kubeadmRules(t, cluster)); diff != "" {
		t.Errorf("what kubeadm join may do (-EnsureAccess +manifest):\n%s", diff)
	}
	old := binding("drover:approve-node-client", "system:bootstrappers:drover")
	if err := cluster.Client.Create(t.Context(), old); err != nil {
		t.Fatal(err)
	}
	if err := token.EnsureAccess(t.Context(), rbac, true); err != nil {
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

// bindings are the ClusterRoleBindings that joining machines need.
func bindings(t *testing.T, cluster *testenv.Cluster) []rbacv1.ClusterRoleBinding {
	t.Helper()
	list := &rbacv1.ClusterRoleBindingList{}
	if err := cluster.Client.List(t.Context(), list); err != nil {
		t.Fatal(err)
	}
	var ours []rbacv1.ClusterRoleBinding
	for _, name := range []string{"drover:node-bootstrapper", "drover:approve-node-client-renewal", "drover:kubeadm-join"} {
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

// kubeadmRules are what a token may do for kubeadm join.
func kubeadmRules(t *testing.T, cluster *testenv.Cluster) []any {
	t.Helper()
	role, bound, everywhere := &rbacv1.Role{}, &rbacv1.RoleBinding{}, &rbacv1.ClusterRole{}
	for _, object := range []client.Object{role, bound, everywhere} {
		key := client.ObjectKey{Namespace: "kube-system", Name: "drover:kubeadm-join"}
		if object == client.Object(everywhere) {
			key.Namespace = ""
		}
		if err := cluster.Client.Get(t.Context(), key, object); err != nil {
			t.Fatal(err)
		}
	}
	return []any{role.Rules, bound.RoleRef, bound.Subjects, everywhere.Rules}
}

// binding gives a group what makes the cluster approve every client certificate that its members request.
func binding(name, group string) *rbacv1.ClusterRoleBinding {
	return &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "system:certificates.k8s.io:certificatesigningrequests:nodeclient"},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: group}},
	}
}

// A token is good for one Node only if nothing in the cluster approves by itself what its holder requests.
func TestClusterDoesNotAutoApprove(t *testing.T) {
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
	rbac, authorization := rbacv1client.NewForConfigOrDie(cluster.Admin), authorizationv1client.NewForConfigOrDie(cluster.Admin)
	for _, step := range []struct {
		name         string
		given        *rbacv1.ClusterRoleBinding
		autoApproved bool
		kept         bool
	}{
		{"a cluster as it comes", nil, false, false},
		{"the binding of an earlier version", binding("drover:approve-node-client", token.Group), false, false},
		{"a binding of ours that an operator has widened", binding("drover:approve-node-client", "system:bootstrappers"), true, true},
		{"an operator's own binding", binding("operators-own", "system:bootstrappers"), true, true},
		{"kubeadm's own binding", binding("kubeadm:node-autoapprove-bootstrap", "system:bootstrappers:kubeadm:default-node-token"), false, true},
	} {
		if step.given != nil {
			if err := cluster.Client.Create(t.Context(), step.given); err != nil {
				t.Fatal(err)
			}
		}
		if err := token.EnsureAccess(t.Context(), rbac, true); err != nil {
			t.Fatal(err)
		}
		got, err := token.AutoApproves(t.Context(), authorization)
		if err != nil || got != step.autoApproved {
			t.Errorf("%s: approves blindly = %t, %v", step.name, got, err)
		}
		if step.given == nil {
			continue
		}
		err = cluster.Client.Delete(t.Context(), step.given)
		if kept := err == nil; kept != step.kept || client.IgnoreNotFound(err) != nil {
			t.Errorf("%s: kept = %t, %v", step.name, kept, err)
		}
	}
}
