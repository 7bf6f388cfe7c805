// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package deletion

import (
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"drover.io/runtime/envtest"
)

// limitTo gives the Machine's Cluster a kubeconfig whose user may do with Nodes what the verbs are, and all with Pods and
// Leases; it may not list VolumeAttachments.
func (e *environment) limitTo(nodeVerbs ...string) {
	e.Helper()
	namespace := e.state.Machine.Namespace
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "limited"}}
	e.create(account)
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "limited-" + namespace}, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"nodes"}, Verbs: nodeVerbs},
		{APIGroups: []string{""}, Resources: []string{"pods", "pods/eviction", "namespaces"}, Verbs: []string{"*"}},
		{APIGroups: []string{"coordination.k8s.io"}, Resources: []string{"leases"}, Verbs: []string{"*"}},
	}}
	e.create(role)
	e.create(&rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: role.Name},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.Name},
		Subjects:   []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: namespace, Name: account.Name}},
	})
	request := &authenticationv1.TokenRequest{}
	if err := e.client.SubResource("token").Create(e.Context(), account, request); err != nil {
		e.Fatal(err)
	}
	admin, err := apiServer.Start()
	if err != nil {
		e.Fatal(err)
	}
	limited := &rest.Config{Host: admin.Host, BearerToken: request.Status.Token, TLSClientConfig: rest.TLSClientConfig{CAData: admin.CAData}}
	if err := envtest.AwaitAccess(e.Context(), limited, authorizationv1.ResourceAttributes{Verb: "watch", Resource: "nodes"}); err != nil {
		e.Fatal(err)
	}
	secret := &corev1.Secret{}
	if err := e.client.Get(e.Context(), client.ObjectKey{Namespace: namespace, Name: "c-kubeconfig"}, secret); err != nil {
		e.Fatal(err)
	}
	if secret.Data["value"], err = envtest.Kubeconfig(limited); err != nil {
		e.Fatal(err)
	}
	if err := e.client.Update(e.Context(), secret); err != nil {
		e.Fatal(err)
	}
	e.eventually("the new kubeconfig to be used", func() bool {
		connection, err := e.workloads.Get(e.state.clusterKey())
		return err == nil && apierrors.IsForbidden(connection.Client().List(e.Context(), &storagev1.VolumeAttachmentList{}))
	})
}

// TestVolumesThatCannotBeReadAreAwaitedForTheTimeout has a workload cluster that refuses to list VolumeAttachments.
func TestVolumesThatCannotBeReadAreAwaitedForTheTimeout(t *testing.T) {
	t.Parallel()
	e := newEnvironment(t)
	e.limitTo("*")
	e.state.Machine.Spec.Deletion.NodeVolumeDetachTimeoutSeconds = new(int32(600))
	progress, err := e.detach().run(t.Context(), e.state)
	if progress.Done {
		t.Fatalf("progress %+v, error %v", progress, err)
	}
	if progress.Reason != clusterv1.MachineDeletingWaitingForVolumeDetachReason {
		t.Errorf("the condition Deleting has the reason %q and the message %q, error %v", progress.Reason, progress.Message, err)
	}
	e.clock.SetTime(e.clock.Now().Add(time.Hour))
	if progress, err = e.detach().run(t.Context(), e.state); progress != done {
		t.Errorf("an hour after a timeout of ten minutes: %+v, error %v", progress, err)
	}
}

// TestNodeThatCannotBeCordonedIsReported has a workload cluster that refuses to change Nodes.
func TestNodeThatCannotBeCordonedIsReported(t *testing.T) {
	t.Parallel()
	e := newEnvironment(t)
	e.limitTo("get", "list", "watch")
	progress, err := e.drain().run(t.Context(), e.state)
	if progress.Done || progress.Reason != clusterv1.MachineDeletingDrainingNodeReason || progress.Message == "" {
		t.Errorf("progress %+v, error %v", progress, err)
	}
}
