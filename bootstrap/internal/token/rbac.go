// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package token

import (
	"context"
	"fmt"
	"slices"

	authorizationv1 "k8s.io/api/authorization/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	authorizationv1client "k8s.io/client-go/kubernetes/typed/authorization/v1"
	rbacv1client "k8s.io/client-go/kubernetes/typed/rbac/v1"
	bootstrapapi "k8s.io/cluster-bootstrap/token/api"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
)

// Group is what the holders of our tokens are members of.
const Group = "system:bootstrappers:drover"

const (
	// nodeClientRole makes kube-controller-manager approve the client certificate of any Node for its holders. A token
	// whose group has it can be used for the identity of every Node, control plane Nodes included.
	nodeClientRole = "system:certificates.k8s.io:certificatesigningrequests:nodeclient"
	// nodeClientBinding gave it to Group in earlier versions.
	nodeClientBinding = "drover:approve-node-client"
	// kubeadmJoin is the name of the roles, and of their bindings, that kubeadm join needs.
	kubeadmJoin = "drover:kubeadm-join"
)

// grants are what a joining host needs: to request a client certificate, which the approver of this project decides
// on, and to renew it later as a Node.
var grants = []struct{ name, role, group string }{
	{"drover:node-bootstrapper", "system:node-bootstrapper", Group},
	{"drover:approve-node-client-renewal", "system:certificates.k8s.io:certificatesigningrequests:selfnodeclient", "system:nodes"},
}

// kubeadmRules are what kubeadm join reads with its token. kubeadm's own group has the same rights, but clusters made
// by kubeadm approve every client certificate that a member of it requests.
var kubeadmRules = struct{ inKubeSystem, anywhere []rbacv1.PolicyRule }{
	inKubeSystem: []rbacv1.PolicyRule{{
		APIGroups: []string{""}, Resources: []string{"configmaps"}, ResourceNames: []string{"kubeadm-config", "kubelet-config", "kube-proxy"}, Verbs: []string{"get"},
	}},
	anywhere: []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"nodes"}, Verbs: []string{"get"}}},
}

// EnsureAccess creates the ClusterRoleBindings that joining hosts need, where they do not exist, and with kubeadm the
// roles that kubeadm join needs. It never changes one: an operator may have narrowed it down. It deletes the one that
// earlier versions created and that permits too much.
func EnsureAccess(ctx context.Context, rbac rbacv1client.RbacV1Interface, kubeadm bool) error {
	if err := removeNodeClient(ctx, rbac); err != nil {
		return err
	}
	for _, g := range grants {
		if err := ensureBinding(ctx, rbac, g.name, g.role, g.group); err != nil {
			return err
		}
	}
	if !kubeadm {
		return nil
	}
	return ensureKubeadmJoin(ctx, rbac)
}

// removeNodeClient deletes the binding that makes the cluster approve every request made with a token, if it is still as
// earlier versions created it. One that was changed since is left to the operator; AutoApproves finds it.
func removeNodeClient(ctx context.Context, rbac rbacv1client.RbacV1Interface) error {
	found, err := rbac.ClusterRoleBindings().Get(ctx, nodeClientBinding, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("reading ClusterRoleBinding %q: %w", nodeClientBinding, err)
	}
	if found.RoleRef.Name != nodeClientRole || !slices.Equal(found.Subjects, subjects(Group)) {
		return nil
	}
	err = rbac.ClusterRoleBindings().Delete(ctx, nodeClientBinding, metav1.DeleteOptions{
		Preconditions: &metav1.Preconditions{UID: &found.UID, ResourceVersion: &found.ResourceVersion},
	})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("deleting ClusterRoleBinding %q, which allows a stolen token to register as any Node: %w", nodeClientBinding, err)
	}
	ctrl.LoggerFrom(ctx).Info("deleted ClusterRoleBinding", "ClusterRoleBinding", klog.KRef("", nodeClientBinding))
	return nil
}

func ensureBinding(ctx context.Context, rbac rbacv1client.RbacV1Interface, name, role, group string) error {
	_, err := rbac.ClusterRoleBindings().Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		_, err = rbac.ClusterRoleBindings().Create(ctx, &rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
			Subjects:   subjects(group),
		}, metav1.CreateOptions{})
		if err == nil {
			ctrl.LoggerFrom(ctx).Info("created ClusterRoleBinding", "ClusterRoleBinding", klog.KRef("", name))
		}
	}
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("ensuring ClusterRoleBinding %q: %w", name, err)
	}
	return nil
}

// ensureKubeadmJoin creates the roles of kubeadm join and their bindings, where they do not exist.
func ensureKubeadmJoin(ctx context.Context, rbac rbacv1client.RbacV1Interface) error {
	meta := metav1.ObjectMeta{Name: kubeadmJoin}
	roles, bindings := rbac.Roles(metav1.NamespaceSystem), rbac.RoleBindings(metav1.NamespaceSystem)
	for _, step := range []struct {
		object       klog.ObjectRef
		kind         string
		read, create func() error
	}{
		{klog.KRef(metav1.NamespaceSystem, kubeadmJoin), "Role", func() error {
			_, err := roles.Get(ctx, kubeadmJoin, metav1.GetOptions{})
			return err
		}, func() error {
			_, err := roles.Create(ctx, &rbacv1.Role{ObjectMeta: meta, Rules: kubeadmRules.inKubeSystem}, metav1.CreateOptions{})
			return err
		}},
		{klog.KRef(metav1.NamespaceSystem, kubeadmJoin), "RoleBinding", func() error {
			_, err := bindings.Get(ctx, kubeadmJoin, metav1.GetOptions{})
			return err
		}, func() error {
			_, err := bindings.Create(ctx, &rbacv1.RoleBinding{
				ObjectMeta: meta, Subjects: subjects(Group),
				RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: kubeadmJoin},
			}, metav1.CreateOptions{})
			return err
		}},
		{klog.KRef("", kubeadmJoin), "ClusterRole", func() error {
			_, err := rbac.ClusterRoles().Get(ctx, kubeadmJoin, metav1.GetOptions{})
			return err
		}, func() error {
			_, err := rbac.ClusterRoles().Create(ctx, &rbacv1.ClusterRole{ObjectMeta: meta, Rules: kubeadmRules.anywhere}, metav1.CreateOptions{})
			return err
		}},
	} {
		err := step.read()
		if apierrors.IsNotFound(err) {
			if err = step.create(); err == nil {
				ctrl.LoggerFrom(ctx).Info("created "+step.kind, step.kind, step.object)
			}
		}
		if err != nil && !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("ensuring %s %q: %w", step.kind, kubeadmJoin, err)
		}
	}
	return ensureBinding(ctx, rbac, kubeadmJoin, kubeadmJoin, Group)
}

// AutoApproves reports whether the workload cluster approves by itself every client certificate that the holder of a
// token requests, by a binding that is not of this project: then a stolen token can be used to register as any Node.
func AutoApproves(ctx context.Context, authorization authorizationv1client.AuthorizationV1Interface) (bool, error) {
	review, err := authorization.SubjectAccessReviews().Create(ctx, &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User:   bootstrapapi.BootstrapUserPrefix + "drover",
		Groups: []string{bootstrapapi.BootstrapDefaultGroup, Group, "system:authenticated"},
		ResourceAttributes: &authorizationv1.ResourceAttributes{
			Group: certificatesv1.GroupName, Resource: "certificatesigningrequests", Subresource: "nodeclient", Verb: "create",
		},
	}}, metav1.CreateOptions{})
	if err != nil {
		return false, fmt.Errorf("reviewing who approves client certificates: %w", err)
	}
	return review.Status.Allowed, nil
}

func subjects(group string) []rbacv1.Subject {
	return []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: group}}
}
