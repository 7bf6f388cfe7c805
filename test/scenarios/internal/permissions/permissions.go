// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Package permissions compares what the roles of a management cluster grant to the managers with what the managers do
// there, by the API server's audit log: what is granted and never used can go, what is denied is missing in a role.
package permissions

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Policy is an audit policy that selects what the ServiceAccounts of a namespace do.
func Policy(namespace string) []byte {
	return fmt.Appendf(nil, `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- {level: Metadata, userGroups: ["system:serviceaccounts:%s"]}
- {level: None}
`, namespace)
}

// A Permission is one verb on one resource, by API group, that a ServiceAccount has or uses. In what a role grants, the
// resource or the group may be *.
type Permission struct {
	Account, Verb, Group, Resource string
}

// String names the permission as kubectl auth can-i does.
func (p Permission) String() string {
	resource := p.Resource
	if p.Group != "" {
		resource, subresource, isSub := strings.Cut(p.Resource, "/")
		resource += "." + p.Group
		if isSub {
			resource += "/" + subresource
		}
		return fmt.Sprintf("%s: %s %s", p.Account, p.Verb, resource)
	}
	return fmt.Sprintf("%s: %s %s", p.Account, p.Verb, resource)
}

// covers reports whether a granted permission is what allows another to be used.
func (p Permission) covers(used Permission) bool {
	matches := func(granted, used string) bool { return granted == "*" || granted == used }
	return p.Account == used.Account && matches(p.Verb, used.Verb) && matches(p.Group, used.Group) && matches(p.Resource, used.Resource)
}

// Granted returns what the roles bound to the ServiceAccounts of a namespace grant, in order.
func Granted(ctx context.Context, c client.Reader, namespace string) ([]Permission, error) {
	clusterBindings, bindings := &rbacv1.ClusterRoleBindingList{}, &rbacv1.RoleBindingList{}
	if err := c.List(ctx, clusterBindings); err != nil {
		return nil, fmt.Errorf("listing ClusterRoleBindings: %w", err)
	}
	if err := c.List(ctx, bindings); err != nil {
		return nil, fmt.Errorf("listing RoleBindings: %w", err)
	}
	var granted []Permission
	add := func(bound string, ref rbacv1.RoleRef, subjects []rbacv1.Subject) error {
		for _, subject := range subjects {
			if subject.Kind != rbacv1.ServiceAccountKind || subject.Namespace != namespace {
				continue
			}
			rules, err := rulesOf(ctx, c, bound, ref)
			if err != nil {
				return err
			}
			granted = append(granted, permissionsOf(subject.Name, rules)...)
		}
		return nil
	}
	for _, b := range clusterBindings.Items {
		if err := add("", b.RoleRef, b.Subjects); err != nil {
			return nil, err
		}
	}
	for _, b := range bindings.Items {
		if err := add(b.Namespace, b.RoleRef, b.Subjects); err != nil {
			return nil, err
		}
	}
	slices.SortFunc(granted, func(a, b Permission) int { return cmp.Compare(a.String(), b.String()) })
	return slices.Compact(granted), nil
}

func rulesOf(ctx context.Context, c client.Reader, namespace string, ref rbacv1.RoleRef) ([]rbacv1.PolicyRule, error) {
	if ref.Kind == "ClusterRole" {
		role := &rbacv1.ClusterRole{}
		err := c.Get(ctx, client.ObjectKey{Name: ref.Name}, role)
		return role.Rules, err
	}
	role := &rbacv1.Role{}
	err := c.Get(ctx, client.ObjectKey{Namespace: namespace, Name: ref.Name}, role)
	return role.Rules, err
}

func permissionsOf(account string, rules []rbacv1.PolicyRule) []Permission {
	var all []Permission
	for _, rule := range rules {
		for _, group := range rule.APIGroups {
			for _, resource := range rule.Resources {
				for _, verb := range rule.Verbs {
					all = append(all, Permission{account, verb, group, resource})
				}
			}
		}
	}
	return all
}

// Use is what the ServiceAccounts of a namespace did, and what was denied to them.
type Use struct {
	Used, Denied []Permission
}

// Read reads an audit log.
func Read(log io.Reader, namespace string) (Use, error) {
	used, denied := map[Permission]bool{}, map[Permission]bool{}
	lines := bufio.NewScanner(log)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var event auditv1.Event
		if err := json.Unmarshal(lines.Bytes(), &event); err != nil {
			return Use{}, fmt.Errorf("reading an event of the audit log: %w", err)
		}
		account, ours := strings.CutPrefix(event.User.Username, "system:serviceaccount:"+namespace+":")
		if !ours || event.ObjectRef == nil || event.ResponseStatus == nil {
			continue
		}
		permission := Permission{account, event.Verb, event.ObjectRef.APIGroup, event.ObjectRef.Resource}
		if event.ObjectRef.Subresource != "" {
			permission.Resource += "/" + event.ObjectRef.Subresource
		}
		if event.ResponseStatus.Code == http.StatusForbidden && event.Annotations["authorization.k8s.io/decision"] == "forbid" {
			denied[permission] = true
		} else {
			used[permission] = true
		}
	}
	return Use{sorted(used), sorted(denied)}, lines.Err()
}

func sorted(set map[Permission]bool) []Permission {
	all := make([]Permission, 0, len(set))
	for p := range set {
		all = append(all, p)
	}
	slices.SortFunc(all, func(a, b Permission) int { return cmp.Compare(a.String(), b.String()) })
	return all
}

// Unused returns what is granted and was not used.
func (u Use) Unused(granted []Permission) []Permission {
	return slices.DeleteFunc(slices.Clone(granted), func(p Permission) bool { return slices.ContainsFunc(u.Used, p.covers) })
}
