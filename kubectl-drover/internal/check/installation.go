// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/duration"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"drover.io/api/crds"
	"drover.io/kubectl-drover/internal/object"
	"drover.io/runtime/quantity"
)

// server checks the API server, and that it serves the kinds of the core. Those of a cloud that is not used may be missing.
func (c *Checker) server(ctx context.Context) []Result {
	info, err := c.Version()
	if err != nil {
		return unread("API server", err)
	}
	results := ok("API server", "answers, version %s", info.GitVersion)
	definitions, err := crds.Definitions()
	if err != nil {
		return append(results, failed("kinds", "", "%v", err))
	}
	var missing, old []string
	for _, want := range definitions {
		problem, err := c.definition(ctx, want)
		switch {
		case err != nil:
			return append(results, unread("kinds", err)...)
		case problem == "missing" && want.Spec.Group != "infrastructure.drover.io":
			missing = append(missing, want.Name)
		case problem != "" && problem != "missing":
			old = append(old, problem)
		}
	}
	switch {
	case len(missing) > 0:
		results = append(results, failed("kinds", "install Drover, or choose another cluster with --context", "%d %s missing, as %s", len(missing), quantity.Verb(len(missing), "is", "are"), missing[0]))
	case len(old) > 0:
		results = append(results, failed("kinds", "install the CustomResourceDefinitions of this release", "%s", strings.Join(old, "; ")))
	default:
		results = append(results, ok("kinds", "the API server serves all kinds of the core")...)
	}
	return results
}

var definitionKind = object.Kind{GroupVersionKind: apiextensionsv1.SchemeGroupVersion.WithKind("CustomResourceDefinition"), Resource: "customresourcedefinitions"}

// definition is what is wrong with a CustomResourceDefinition.
func (c *Checker) definition(ctx context.Context, want *apiextensionsv1.CustomResourceDefinition) (string, error) {
	found := &unstructured.Unstructured{}
	found.SetGroupVersionKind(definitionKind.GroupVersionKind)
	err := c.Client.Get(ctx, client.ObjectKey{Name: want.Name}, found)
	if apierrors.IsNotFound(err) {
		return "missing", nil
	}
	if err != nil {
		return "", c.Explain(err, definitionKind, "")
	}
	version := want.Spec.Versions[0].Name
	versions, _, _ := unstructured.NestedSlice(found.Object, "spec", "versions")
	served := slices.ContainsFunc(versions, func(v any) bool {
		fields, _ := v.(map[string]any)
		return fields["name"] == version && fields["served"] == true
	})
	if !served {
		return fmt.Sprintf("%s does not serve %s", want.Name, version), nil
	}
	for _, condition := range object.Conditions(found) {
		if condition.Type == string(apiextensionsv1.Established) && condition.Status != "True" {
			return want.Name + " is not established", nil
		}
	}
	return "", nil
}

var (
	deploymentKind = object.Kind{GroupVersionKind: appsv1.SchemeGroupVersion.WithKind("Deployment"), Resource: "deployments"}
	leaseKind      = object.Kind{GroupVersionKind: coordinationv1.SchemeGroupVersion.WithKind("Lease"), Resource: "leases"}
)

// managerPrefix begins the name of every manager.
const managerPrefix = "drover-"

// core are the managers without which nothing works.
var core = []string{"drover-machine-controller", "drover-bootstrap"}

// deployments are those of the managers in the namespace of the installation.
func (c *Checker) deployments(ctx context.Context) ([]appsv1.Deployment, error) {
	list := &appsv1.DeploymentList{}
	if err := c.Client.List(ctx, list, client.InNamespace(c.ManagerNamespace)); err != nil {
		return nil, c.Explain(err, deploymentKind, c.ManagerNamespace)
	}
	return slices.DeleteFunc(list.Items, func(d appsv1.Deployment) bool { return !strings.HasPrefix(d.Name, managerPrefix) }), nil
}

// managers checks that every manager runs, and that all are of one version.
func (c *Checker) managers(ctx context.Context) []Result {
	deployments, err := c.deployments(ctx)
	if err != nil {
		return unread("managers", err)
	}
	if len(deployments) == 0 {
		return []Result{{"managers", Unknown, fmt.Sprintf("there are none in namespace %s; --installed-in names another", c.ManagerNamespace), ""}}
	}
	var results []Result
	installed := map[string]bool{}
	for i := range deployments {
		d := &deployments[i]
		installed[d.Name] = true
		switch {
		case ptr.Deref(d.Spec.Replicas, 1) == 0:
			results = append(results, turnedOff(d.Name))
		case d.Status.AvailableReplicas == 0:
			results = append(results, failed("managers", fmt.Sprintf("kubectl describe deployment %s --namespace %s", d.Name, d.Namespace), "%s has no available replica", d.Name))
		}
	}
	for _, name := range core {
		if !installed[name] {
			results = append(results, warning("managers", "", "%s is not in namespace %s", name, c.ManagerNamespace))
		}
	}
	results = append(results, versions(deployments)...)
	if len(results) == 0 {
		return ok("managers", "%d run", len(deployments))
	}
	return results
}

// turnedOff is the result about a manager without replicas. What it has reported before stays as it was.
func turnedOff(name string) Result {
	help := "scale it up, unless it is to do nothing, as in a copy of a management cluster: what objects report is as old as that"
	if slices.Contains(core, name) {
		return failed("managers", help, "%s is turned off: it has 0 replicas", name)
	}
	return warning("managers", help, "%s is turned off: it has 0 replicas", name)
}

// versions checks that all managers are of one version, as far as their images have one.
func versions(deployments []appsv1.Deployment) []Result {
	users := map[string][]string{}
	for i := range deployments {
		if version := versionOf(&deployments[i]); version != "" {
			users[version] = append(users[version], deployments[i].Name)
		}
	}
	if len(users) < 2 {
		return nil
	}
	var all []string
	for version, names := range users {
		all = append(all, fmt.Sprintf("%s (%s)", version, strings.Join(names, ", ")))
	}
	slices.Sort(all)
	return []Result{warning("versions", "install one release of all managers", "the managers have different versions: %s", strings.Join(all, ", "))}
}

// versionOf is the version of a manager, by the tag of its image; empty if it is not known, as with a digest alone. Other
// containers of its pod are not of Drover.
func versionOf(d *appsv1.Deployment) string {
	for _, container := range d.Spec.Template.Spec.Containers {
		if container.Name != managerContainer {
			continue
		}
		image, _, digest := strings.Cut(container.Image, "@")
		if i := strings.LastIndex(image, ":"); i > strings.LastIndex(image, "/") {
			return image[i+1:]
		}
		if !digest {
			return "latest"
		}
	}
	return ""
}

// managerContainer is the container of a manager in its pod.
const managerContainer = "manager"

// leases checks that every manager that was elected still holds its Lease. That of a manager which was removed, or has no replicas,
// stays behind.
func (c *Checker) leases(ctx context.Context) []Result {
	deployments, err := c.deployments(ctx)
	if err != nil {
		return unread("leases", err)
	}
	running := map[string]bool{}
	for i := range deployments {
		running[deployments[i].Name] = ptr.Deref(deployments[i].Spec.Replicas, 1) > 0
	}
	list := &coordinationv1.LeaseList{}
	if err := c.Client.List(ctx, list, client.InNamespace(c.ManagerNamespace)); err != nil {
		return unread("leases", c.Explain(err, leaseKind, c.ManagerNamespace))
	}
	var results []Result
	n := 0
	for i := range list.Items {
		lease := &list.Items[i]
		if !running[lease.Name] || lease.Spec.RenewTime == nil || lease.Spec.LeaseDurationSeconds == nil {
			continue
		}
		n++
		age := c.Now.Sub(lease.Spec.RenewTime.Time)
		if age > 4*time.Duration(*lease.Spec.LeaseDurationSeconds)*time.Second {
			results = append(results, failed("leases", "see whether that manager runs", "%s was renewed %s ago, and its holder must renew it within %d s",
				lease.Name, duration.HumanDuration(age), *lease.Spec.LeaseDurationSeconds))
		}
	}
	switch {
	case len(results) > 0:
		return results
	case n == 0:
		return []Result{{"leases", Unknown, fmt.Sprintf("there are none of managers in namespace %s", c.ManagerNamespace), ""}}
	}
	return ok("leases", "%d %s renewed", n, quantity.Verb(n, "is", "are"))
}
