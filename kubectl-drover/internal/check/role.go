// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"context"
	"embed"
	"fmt"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/component-helpers/auth/rbac/validation"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"drover.io/kubectl-drover/internal/object"
	"drover.io/runtime/quantity"
)

// released has the ClusterRole of each manager in this release, by the name of its program. hack/generate.sh writes it.
//
//go:embed roles/*.yaml
var released embed.FS

var roleKind = object.Kind{GroupVersionKind: rbacv1.SchemeGroupVersion.WithKind("ClusterRole"), Resource: "clusterroles"}

// releasedRules are what a manager does by its ClusterRole in this release; nil for one that the release does not have.
func releasedRules(manager string) ([]rbacv1.PolicyRule, error) {
	content, err := released.ReadFile("roles/" + strings.TrimPrefix(manager, managerPrefix) + ".yaml")
	if err != nil {
		return nil, nil //nolint:nilerr // only a manager of the release has a file
	}
	role := &rbacv1.ClusterRole{}
	if err := yaml.Unmarshal(content, role); err != nil {
		return nil, fmt.Errorf("reading the ClusterRole of %s: %w", manager, err)
	}
	return role.Rules, nil
}

// roles checks that the ClusterRoles of the core, and of the managers that are installed, permit all that the managers of this
// release do.
func (c *Checker) roles(ctx context.Context) []Result {
	managers := slices.Clone(core)
	versions := map[string]string{}
	installed, err := c.deployments(ctx)
	if err != nil && !object.IsForbidden(err) {
		return unread("roles", err)
	}
	for i := range installed {
		managers, versions[installed[i].Name] = append(managers, installed[i].Name), versionOf(&installed[i])
	}
	slices.Sort(managers)
	var results []Result
	managers = slices.Compact(managers)
	for _, name := range managers {
		found, err := c.role(ctx, name, versions[name])
		if err != nil {
			return unread("roles", c.Explain(err, roleKind, ""))
		}
		results = append(results, found...)
	}
	if len(results) > 0 {
		return results
	}
	return ok("roles", "the ClusterRoles of %s permit what this release does", quantity.Of(len(managers), "manager"))
}

// role checks the ClusterRole of one manager. In a release its name ends with the namespace of the installation.
func (c *Checker) role(ctx context.Context, manager, managerVersion string) ([]Result, error) {
	want, err := releasedRules(manager)
	if err != nil || want == nil {
		return nil, err
	}
	role := &rbacv1.ClusterRole{}
	err = c.Client.Get(ctx, client.ObjectKey{Name: manager + ":" + c.ManagerNamespace}, role)
	if apierrors.IsNotFound(err) {
		err = c.Client.Get(ctx, client.ObjectKey{Name: manager}, role)
	}
	if apierrors.IsNotFound(err) {
		return []Result{failed("roles", "install the manifests of the release", "ClusterRole %s:%s is missing", manager, c.ManagerNamespace)}, nil
	}
	if err != nil {
		return nil, err
	}
	_, missing := validation.Covers(role.Rules, want)
	if len(missing) == 0 {
		return nil, nil
	}
	message := fmt.Sprintf("ClusterRole %s does not permit what %s of this release does: %s", role.Name, manager, describeRules(missing))
	if managerVersion == "" {
		help := fmt.Sprintf("the version of %s is not known: if it is that of this plugin, %s, apply the manifests of the release again, else use the plugin of that release", manager, c.Release)
		return []Result{warning("roles", help, "%s", message)}, nil
	}
	if managerVersion != c.Release {
		return []Result{warning("roles", fmt.Sprintf("%s is of version %s, and this plugin of version %s: use the plugin of that release", manager, managerVersion, c.Release), "%s", message)}, nil
	}
	return []Result{failed("roles", "apply the manifests of the release again", "%s", message)}, nil
}

// maxRules is how many missing permissions a message names.
const maxRules = 3

// describeRules names permissions, each with one verb and one resource.
func describeRules(rules []rbacv1.PolicyRule) string {
	var all []string
	for _, rule := range rules {
		resource := strings.Join(rule.Resources, ",")
		if group := strings.Join(rule.APIGroups, ","); group != "" {
			resource += "." + group
		}
		all = append(all, strings.Join(rule.Verbs, ",")+" "+resource)
	}
	slices.Sort(all)
	text := strings.Join(all[:min(len(all), maxRules)], ", ")
	if more := len(all) - maxRules; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}
