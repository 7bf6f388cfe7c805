// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package token

import (
	"context"
	"fmt"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	rbacv1client "k8s.io/client-go/kubernetes/typed/rbac/v1"
)

// Group is what the holders of our tokens are members of.
const Group = "system:bootstrappers:drover"

// kubeadmGroup is the group that kubeadm itself puts its tokens in. Clusters made by kubeadm let it read the
// ConfigMaps that kubeadm join needs.
const kubeadmGroup = "system:bootstrappers:kubeadm:default-node-token"

// grants are what a joining host needs: to ask for a client certificate, to be given it without a person, and
// to renew it later as the Node that it has become.
var grants = []struct{ name, role, group string }{
	{"drover:node-bootstrapper", "system:node-bootstrapper", Group},
	{"drover:approve-node-client", "system:certificates.k8s.io:certificatesigningrequests:nodeclient", Group},
	{"drover:approve-node-client-renewal", "system:certificates.k8s.io:certificatesigningrequests:selfnodeclient", "system:nodes"},
}

// EnsureAccess creates the ClusterRoleBindings that let hosts join, where they do not exist. It never changes
// one: they are the operator's to narrow down.
func EnsureAccess(ctx context.Context, rbac rbacv1client.RbacV1Interface) error {
	bindings := rbac.ClusterRoleBindings()
	for _, g := range grants {
		_, err := bindings.Get(ctx, g.name, metav1.GetOptions{})
		if err == nil {
			continue
		}
		if !apierrors.IsNotFound(err) {
			return fmt.Errorf("reading ClusterRoleBinding %q: %w", g.name, err)
		}
		binding := &rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: g.name},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: g.role},
			Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: g.group}},
		}
		if _, err := bindings.Create(ctx, binding, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("creating ClusterRoleBinding %q: %w", g.name, err)
		}
	}
	return nil
}
