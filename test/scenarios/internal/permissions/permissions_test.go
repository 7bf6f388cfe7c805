// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package permissions

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
)

const log = `{"verb":"get","user":{"username":"system:serviceaccount:ns:a"},"objectRef":{"resource":"secrets"},"responseStatus":{"code":404}}
{"verb":"patch","user":{"username":"system:serviceaccount:ns:a"},"objectRef":{"resource":"things","apiGroup":"g","subresource":"status"},"responseStatus":{"code":200}}
{"verb":"list","user":{"username":"system:serviceaccount:ns:a"},"objectRef":{"resource":"things","apiGroup":"g"},"responseStatus":{"code":403},"annotations":{"authorization.k8s.io/decision":"forbid"}}
{"verb":"create","user":{"username":"system:serviceaccount:ns:a"},"objectRef":{"resource":"pods"},"responseStatus":{"code":403},"annotations":{"authorization.k8s.io/decision":"allow"}}
{"verb":"get","user":{"username":"system:serviceaccount:other:a"},"objectRef":{"resource":"nodes"},"responseStatus":{"code":200}}
{"verb":"get","user":{"username":"system:serviceaccount:ns:a"},"responseStatus":{"code":200}}
`

func TestRead(t *testing.T) {
	t.Parallel()
	got, err := Read(strings.NewReader(log), "ns")
	if err != nil {
		t.Fatal(err)
	}
	want := Use{
		Used:   []Permission{{"a", "create", "", "pods"}, {"a", "get", "", "secrets"}, {"a", "patch", "g", "things/status"}},
		Denied: []Permission{{"a", "list", "g", "things"}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if got := got.Denied[0].String(); got != "a: list things.g" {
		t.Errorf("its text is %q", got)
	}
	if got := got.Used[2].String(); got != "a: patch things.g/status" {
		t.Errorf("its text is %q", got)
	}
	if _, err := Read(strings.NewReader("half an ev"), "ns"); err == nil {
		t.Error("an event that cannot be read is ignored")
	}
}

func TestUnused(t *testing.T) {
	t.Parallel()
	use := Use{Used: []Permission{{"a", "get", "g", "things"}}}
	granted := []Permission{
		{"a", "get", "g", "things"}, {"a", "get", "*", "*"}, {"a", "*", "g", "things"},
		{"a", "get", "g", "things/status"}, {"a", "list", "g", "things"}, {"a", "get", "h", "things"}, {"b", "get", "g", "things"},
	}
	if diff := cmp.Diff(granted[3:], use.Unused(granted)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestGranted(t *testing.T) {
	t.Parallel()
	rules := []rbacv1.PolicyRule{{APIGroups: []string{"", "g"}, Resources: []string{"things"}, Verbs: []string{"get"}}}
	subjects := func(namespace string) []rbacv1.Subject {
		return []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: "a"}, {Kind: rbacv1.UserKind, Name: "u"}}
	}
	c := fake.NewClientBuilder().WithObjects(
		&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "all"}, Rules: rules},
		&rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "some"}, Rules: []rbacv1.PolicyRule{{APIGroups: []string{"h"}, Resources: []string{"x"}, Verbs: []string{"list"}}}},
		&rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "all"}, RoleRef: rbacv1.RoleRef{Kind: "ClusterRole", Name: "all"}, Subjects: subjects("ns")},
		&rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "another"}, RoleRef: rbacv1.RoleRef{Kind: "ClusterRole", Name: "missing"}, Subjects: subjects("other")},
		&rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "some"}, RoleRef: rbacv1.RoleRef{Kind: "Role", Name: "some"}, Subjects: subjects("ns")},
	).Build()
	got, err := Granted(t.Context(), c, "ns")
	if err != nil {
		t.Fatal(err)
	}
	want := []Permission{{"a", "get", "", "things"}, {"a", "get", "g", "things"}, {"a", "list", "h", "x"}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
