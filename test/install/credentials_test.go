// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"context"
	"errors"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"drover.io/test/controlplane"
)

// tenantNamespace is where the users of these tests have their permissions.
const tenantNamespace = "tenant"

// Merge patches that change the label for the provider's own credentials, and one that changes another label.
const (
	allowCredentials  = `{"metadata":{"labels":{"infrastructure.drover.io/own-credentials":"allowed"}}}`
	changeCredentials = `{"metadata":{"labels":{"infrastructure.drover.io/own-credentials":"no"}}}`
	forbidCredentials = `{"metadata":{"labels":{"infrastructure.drover.io/own-credentials":null}}}`
	anotherLabel      = `{"metadata":{"labels":{"team":"a"}}}`
)

// everything is the rule of a user with all rights.
var everything = []rbacv1.PolicyRule{{APIGroups: []string{"*"}, Resources: []string{"*"}, Verbs: []string{"*"}}}

// userClient returns a client of a user, once its permission to list Secrets of the tenant's namespace is in force.
func userClient(t *testing.T, plane *controlplane.ControlPlane, user string) client.Client {
	t.Helper()
	kubeconfig, err := plane.Kubeconfig(user)
	if err != nil {
		t.Fatal(err)
	}
	config, err := clientcmd.RESTConfigFromKubeConfig(kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	c, err := client.New(config, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	await(t, "the role of "+user+" is in force", func(ctx context.Context) error {
		return c.List(ctx, &corev1.SecretList{}, client.InNamespace(tenantNamespace))
	})
	return c
}

// createUsers creates the tenant's namespace and three users: "admin" with the ClusterRole admin and "all" with all rights
// in that namespace, and "operator" with all rights in the cluster.
func createUsers(t *testing.T, c client.Client) {
	t.Helper()
	subjects := func(user string) []rbacv1.Subject {
		return []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: user}}
	}
	for _, object := range []client.Object{
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: tenantNamespace}},
		&rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: tenantNamespace, Name: "all"}, Rules: everything},
		&rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Namespace: tenantNamespace, Name: "all"}, Subjects: subjects("all"),
			RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "all"},
		},
		&rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Namespace: tenantNamespace, Name: "admin"}, Subjects: subjects("admin"),
			RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "admin"},
		},
		&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "operator"}, Rules: everything},
		&rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: "operator"}, Subjects: subjects("operator"),
			RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "operator"},
		},
	} {
		if err := c.Create(t.Context(), object); err != nil {
			t.Fatal(err)
		}
	}
}

func patchNamespace(ctx context.Context, c client.Client, patch string, options ...client.PatchOption) error {
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: tenantNamespace}}
	return c.Patch(ctx, namespace, client.RawPatch("application/merge-patch+json", []byte(patch)), options...)
}

func TestOnlyAnOperatorAllowsANamespaceTheProvidersCredentials(t *testing.T) {
	t.Parallel()
	plane, c := start(t)
	createUsers(t, c)
	admin, all, operator := userClient(t, plane, "admin"), userClient(t, plane, "all"), userClient(t, plane, "operator")
	if err := patchNamespace(t.Context(), all, allowCredentials, client.DryRunAll); err != nil {
		t.Fatalf("without policy RBAC permits the label, which this test depends on: %v", err)
	}
	if err := apply(t.Context(), c, append(read(t, version, "drover.yaml"), read(t, version, "drover-infra-aws.yaml")...)); err != nil {
		t.Fatal(err)
	}
	await(t, "the policy is in force", func(ctx context.Context) error {
		err := patchNamespace(ctx, all, allowCredentials, client.DryRunAll)
		if err == nil {
			return errors.New("a tenant can label its namespace")
		}
		if apierrors.IsForbidden(err) || apierrors.IsInvalid(err) {
			return nil
		}
		return err
	})
	refused := func(title string, err error) {
		t.Helper()
		if !apierrors.IsForbidden(err) && !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "own-credentials") {
			t.Errorf("%s: got %v, want a refusal that names the label", title, err)
		}
	}
	if err := patchNamespace(t.Context(), admin, allowCredentials); !apierrors.IsForbidden(err) {
		t.Errorf("a tenant with the ClusterRole admin: got %v", err)
	}
	refused("adding the label", patchNamespace(t.Context(), all, allowCredentials))
	for _, subresource := range []string{"status", "finalize"} {
		refused("adding the label by namespaces/"+subresource, updateSubresource(t, all, subresource))
	}
	if err := patchNamespace(t.Context(), all, anotherLabel); err != nil {
		t.Errorf("another label: %v", err)
	}
	if err := patchNamespace(t.Context(), operator, allowCredentials); err != nil {
		t.Errorf("an operator adds the label: %v", err)
	}
	refused("changing the label", patchNamespace(t.Context(), all, changeCredentials))
	refused("removing the label", patchNamespace(t.Context(), all, forbidCredentials))
	if err := patchNamespace(t.Context(), all, anotherLabel); err != nil {
		t.Errorf("another label of a namespace that is allowed: %v", err)
	}
	if err := patchNamespace(t.Context(), operator, forbidCredentials); err != nil {
		t.Errorf("an operator removes the label: %v", err)
	}
	created := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "new", Labels: map[string]string{"infrastructure.drover.io/own-credentials": "allowed"}}}
	if err := operator.Create(t.Context(), created); err != nil {
		t.Errorf("an operator creates a namespace with the label: %v", err)
	}
}

// updateSubresource adds the label by an update of a subresource of the Namespace, which changes labels too.
func updateSubresource(t *testing.T, c client.Client, subresource string) error {
	t.Helper()
	namespace := &corev1.Namespace{}
	if err := c.Get(t.Context(), client.ObjectKey{Name: tenantNamespace}, namespace); err != nil {
		t.Fatal(err)
	}
	namespace.Labels["infrastructure.drover.io/own-credentials"] = "allowed"
	return c.SubResource(subresource).Update(t.Context(), namespace)
}

// TestNamespacesWithTheLabelAreNamedByHelm: the policy cannot refuse a label that was set before it was there.
func TestNamespacesWithTheLabelAreNamedByHelm(t *testing.T) {
	t.Parallel()
	plane, c := start(t)
	for name, value := range map[string]string{"early": "allowed", "other": "no"} {
		namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"infrastructure.drover.io/own-credentials": value}}}
		if err := c.Create(t.Context(), namespace); err != nil {
			t.Fatal(err)
		}
	}
	h := helmIn(t, plane, releaseNamespace)
	if err := h.Install(t.Context(), releaseName, load(t, version), simulated(), false); err != nil {
		t.Fatal(err)
	}
	notes, err := h.Notes(releaseName)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(notes, "infrastructure.drover.io/own-credentials: early.") {
		t.Errorf("the notes do not name the namespace that has the label, and no other:\n%s", notes)
	}
}
