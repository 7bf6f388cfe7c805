// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package token_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"drover.io/bootstrap/internal/token"
)

// TestAccessIsCreatedOnceAndLogged: each object is one line, and a second call finds them all.
func TestAccessIsCreatedOnceAndLogged(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		kubeadm bool
		want    []string
	}{
		"for the kubelet": {false, []string{
			`"ClusterRoleBinding"={"name"="drover:node-bootstrapper"}`,
			`"ClusterRoleBinding"={"name"="drover:approve-node-client-renewal"}`,
		}},
		"for kubeadm": {true, []string{
			`"ClusterRoleBinding"={"name"="drover:node-bootstrapper"}`,
			`"ClusterRoleBinding"={"name"="drover:approve-node-client-renewal"}`,
			`"Role"={"name"="drover:kubeadm-join" "namespace"="kube-system"}`,
			`"RoleBinding"={"name"="drover:kubeadm-join" "namespace"="kube-system"}`,
			`"ClusterRole"={"name"="drover:kubeadm-join"}`,
			`"ClusterRoleBinding"={"name"="drover:kubeadm-join"}`,
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := fake.NewClientset()
			ctx, lines := logged(t)
			for range 2 {
				if err := token.EnsureAccess(ctx, c.RbacV1(), test.kubeadm); err != nil {
					t.Fatal(err)
				}
			}
			var got []string
			for _, line := range *lines {
				message, object, _ := strings.Cut(line, `" `)
				kind, _, _ := strings.Cut(strings.TrimPrefix(object, `"`), `"`)
				if want := `"level"=0 "msg"="created ` + kind; message != want {
					t.Errorf("the line is %q, want %q", line, want)
				}
				got = append(got, object)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("created (-want +got):\n%s", diff)
			}
		})
	}
}

func TestAccessThatWasNarrowedDownIsNotChanged(t *testing.T) {
	t.Parallel()
	narrow := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "drover:node-bootstrapper"}, RoleRef: rbacv1.RoleRef{Kind: "ClusterRole", Name: "mine"},
	}
	c := fake.NewClientset(narrow)
	if err := token.EnsureAccess(t.Context(), c.RbacV1(), false); err != nil {
		t.Fatal(err)
	}
	got, err := c.RbacV1().ClusterRoleBindings().Get(t.Context(), narrow.Name, metav1.GetOptions{})
	if err != nil || got.RoleRef.Name != "mine" {
		t.Errorf("the binding is of %q, %v", got.RoleRef.Name, err)
	}
	if diff := cmp.Diff([]string{"create clusterrolebindings"}, writes(c)); diff != "" {
		t.Errorf("writes (-want +got):\n%s", diff)
	}
}

// TestBindingOfEarlierVersionsIsDeleted only as they created it.
func TestBindingOfEarlierVersionsIsDeleted(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		change  func(*rbacv1.ClusterRoleBinding)
		deleted bool
	}{
		"as it was created":      {func(*rbacv1.ClusterRoleBinding) {}, true},
		"with another role":      {func(b *rbacv1.ClusterRoleBinding) { b.RoleRef.Name = "view" }, false},
		"with another group":     {func(b *rbacv1.ClusterRoleBinding) { b.Subjects[0].Name = "ops" }, false},
		"with a further group":   {func(b *rbacv1.ClusterRoleBinding) { b.Subjects = append(b.Subjects, rbacv1.Subject{Name: "ops"}) }, false},
		"without any subject":    {func(b *rbacv1.ClusterRoleBinding) { b.Subjects = nil }, false},
		"with a user as subject": {func(b *rbacv1.ClusterRoleBinding) { b.Subjects[0].Kind = rbacv1.UserKind }, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			old := binding("drover:approve-node-client", token.Group)
			test.change(old)
			c := fake.NewClientset(old)
			ctx, lines := logged(t)
			if err := token.EnsureAccess(ctx, c.RbacV1(), false); err != nil {
				t.Fatal(err)
			}
			_, err := c.RbacV1().ClusterRoleBindings().Get(t.Context(), old.Name, metav1.GetOptions{})
			if apierrors.IsNotFound(err) != test.deleted {
				t.Errorf("deleted is %v, want %t", err, test.deleted)
			}
			if output := strings.Contains(strings.Join(*lines, "\n"), `"msg"="deleted ClusterRoleBinding" "ClusterRoleBinding"={"name"="drover:approve-node-client"}`); output != test.deleted {
				t.Errorf("the log is %q", *lines)
			}
		})
	}
}

// TestAccessErrorsNameTheObject, and objects that appear meanwhile are no error.
func TestAccessErrorsNameTheObject(t *testing.T) {
	t.Parallel()
	boom := errors.New("boom")
	exists := apierrors.NewAlreadyExists(schema.GroupResource{}, "x")
	for _, test := range []struct {
		verb, resource string
		err            error
		want           string
	}{
		{"get", "clusterrolebindings", boom, `reading ClusterRoleBinding "drover:approve-node-client": boom`},
		{"create", "clusterrolebindings", boom, `ensuring ClusterRoleBinding "drover:node-bootstrapper": boom`},
		{"get", "roles", boom, `ensuring Role "drover:kubeadm-join": boom`},
		{"create", "roles", boom, `ensuring Role "drover:kubeadm-join": boom`},
		{"create", "rolebindings", boom, `ensuring RoleBinding "drover:kubeadm-join": boom`},
		{"create", "clusterroles", boom, `ensuring ClusterRole "drover:kubeadm-join": boom`},
		{"delete", "clusterrolebindings", boom, `deleting ClusterRoleBinding "drover:approve-node-client", which allows a stolen token to register as any Node: boom`},
		{"create", "clusterrolebindings", exists, ""},
		{"create", "roles", exists, ""},
		{"delete", "clusterrolebindings", apierrors.NewNotFound(schema.GroupResource{}, "x"), ""},
	} {
		c := fake.NewClientset(binding("drover:approve-node-client", token.Group))
		if test.verb == "get" && test.resource == "clusterrolebindings" {
			c = fake.NewClientset()
		}
		c.PrependReactor(test.verb, test.resource, func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, test.err })
		err := token.EnsureAccess(t.Context(), c.RbacV1(), true)
		if message := errorText(err); message != test.want {
			t.Errorf("%s of %s: got %q, want %q", test.verb, test.resource, message, test.want)
		}
	}
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func TestAutoApprovesReportsErrors(t *testing.T) {
	t.Parallel()
	c := fake.NewClientset()
	c.PrependReactor("create", "subjectaccessreviews", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, errors.New("boom")
	})
	if _, err := token.AutoApproves(t.Context(), c.AuthorizationV1()); err == nil || err.Error() != "reviewing who approves client certificates: boom" {
		t.Errorf("got %v", err)
	}
}
