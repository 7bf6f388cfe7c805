// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Package preflight checks whether a control plane is fit for new Machines of a template, as upstream's preflight checks
// do. It is pure: the machineset controller reads the control plane.
package preflight

import (
	"fmt"
	"slices"
	"strings"

	"github.com/blang/semver/v4"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"drover.io/machine-controller/internal/kubeversion"
)

const (
	// maxSkew is how many minor versions a kubelet may be behind its API server, and oldMaxSkew how many before API
	// servers of minor version skewGrewIn.
	maxSkew, oldMaxSkew = 3, 2
	skewGrewIn          = 28
)

// Problem is what a check finds.
type Problem struct {
	// Message is empty if new Machines may be created.
	Message string
	// Passes is true for a problem that ends by itself.
	Passes bool
}

// Check runs the checks in upstream's order, except those that are skipped by name, and returns the problem that one of
// them finds.
func Check(controlPlane *unstructured.Unstructured, template *clusterv1.MachineTemplateSpec, skipped []string) Problem {
	wanted, _, _ := unstructured.NestedString(controlPlane.Object, "spec", "version")
	if wanted == "" {
		return Problem{} // a control plane that has no version cannot be compared
	}
	for _, check := range []struct {
		name clusterv1.MachineSetPreflightCheck
		run  func(*unstructured.Unstructured, *clusterv1.MachineTemplateSpec, string) Problem
	}{
		{clusterv1.MachineSetPreflightCheckControlPlaneIsStable, stable},
		{clusterv1.MachineSetPreflightCheckKubernetesVersionSkew, skew},
		{clusterv1.MachineSetPreflightCheckKubeadmVersionSkew, kubeadmSkew},
	} {
		if slices.ContainsFunc(skipped, func(s string) bool {
			s = strings.TrimSpace(s)
			return s == string(check.name) || s == string(clusterv1.MachineSetPreflightCheckAll)
		}) {
			continue
		}
		if problem := check.run(controlPlane, template, wanted); problem.Message != "" {
			problem.Message += fmt.Sprintf("; the annotation %s: %s skips this check", clusterv1.MachineSetSkipPreflightChecksAnnotation, check.name)
			return problem
		}
	}
	return Problem{}
}

// lasting is a problem that lasts until a version or an object is changed.
func lasting(format string, values ...any) Problem {
	return Problem{Message: fmt.Sprintf(format, values...)}
}

// passing is a problem that ends by itself.
func passing(format string, values ...any) Problem {
	return Problem{Message: fmt.Sprintf(format, values...), Passes: true}
}

// stable waits until the control plane exists and is not being upgraded. The versions of all its machines count, where it
// reports them.
func stable(controlPlane *unstructured.Unstructured, _ *clusterv1.MachineTemplateSpec, wanted string) Problem {
	name := controlPlane.GetKind() + " " + controlPlane.GetName()
	present, problem := controlPlaneVersions(controlPlane)
	if problem != "" {
		return lasting("%s", problem)
	}
	if len(present) == 0 {
		if external, _, _ := unstructured.NestedBool(controlPlane.Object, "status", "externalManagedControlPlane"); external {
			return Problem{} // an externally managed one need not report versions
		}
		return passing("%s reports neither status.versions nor status.version yet: it is being made", name)
	}
	goal, err := kubeversion.Parse(wanted)
	if err != nil {
		return lasting("spec.version of %s: %v", name, err)
	}
	for _, each := range present {
		now, err := kubeversion.Parse(each)
		if err != nil {
			return lasting("the version in the status of %s: %v", name, err)
		}
		if kubeversion.Upgrades(now, goal) {
			return passing("%s is being upgraded from %s to %s", name, each, wanted)
		}
	}
	return Problem{}
}

// controlPlaneVersions returns the versions in status.versions, or else the one in status.version.
func controlPlaneVersions(controlPlane *unstructured.Unstructured) (all []string, problem string) {
	list, _, err := unstructured.NestedSlice(controlPlane.Object, "status", "versions")
	if err != nil {
		return nil, fmt.Sprintf("status.versions of %s %s: %v", controlPlane.GetKind(), controlPlane.GetName(), err)
	}
	for _, item := range list {
		entry, _ := item.(map[string]any)
		version, _, _ := unstructured.NestedString(entry, "version")
		all = append(all, version)
	}
	if len(all) > 0 {
		return all, ""
	}
	if single, _, _ := unstructured.NestedString(controlPlane.Object, "status", "version"); single != "" {
		return []string{single}, ""
	}
	return nil, ""
}

// skew checks the version skew that Kubernetes supports: a kubelet is not newer than its API server, and not too old.
func skew(_ *unstructured.Unstructured, template *clusterv1.MachineTemplateSpec, wanted string) Problem {
	if template.Spec.Version == "" {
		return Problem{} // the version of the machines is not known here
	}
	controlPlane, kubelet, problem := parseBoth(wanted, template.Spec.Version)
	if problem != "" {
		return lasting("%s", problem)
	}
	skewLimit := uint64(maxSkew)
	if controlPlane.Minor < skewGrewIn {
		skewLimit = oldMaxSkew
	}
	if controlPlane.Major < kubelet.Major || (controlPlane.Major == kubelet.Major && controlPlane.Minor < kubelet.Minor) {
		return lasting("spec.template.spec.version %s is newer than the control plane's %s: upgrade that first", template.Spec.Version, wanted)
	}
	if controlPlane.Major != kubelet.Major || kubelet.Minor+skewLimit < controlPlane.Minor {
		return lasting("spec.template.spec.version %s is more than %d minor versions older than the control plane's %s", template.Spec.Version, skewLimit, wanted)
	}
	return Problem{}
}

// kubeadmSkew requires the same minor version where kubeadm joins the machine.
func kubeadmSkew(_ *unstructured.Unstructured, template *clusterv1.MachineTemplateSpec, wanted string) Problem {
	ref := template.Spec.Bootstrap.ConfigRef
	if template.Spec.Version == "" || ref.APIGroup != "bootstrap.cluster.x-k8s.io" || ref.Kind != "KubeadmConfigTemplate" {
		return Problem{}
	}
	controlPlane, kubelet, problem := parseBoth(wanted, template.Spec.Version)
	if problem != "" {
		return lasting("%s", problem)
	}
	if controlPlane.Major != kubelet.Major || controlPlane.Minor != kubelet.Minor {
		return lasting("kubeadm of version %s joins no control plane of another minor version, as %s is", template.Spec.Version, wanted)
	}
	return Problem{}
}

func parseBoth(controlPlane, kubelet string) (p, k semver.Version, problem string) {
	p, err := kubeversion.Parse(controlPlane)
	if err != nil {
		return p, k, fmt.Sprintf("spec.version of the control plane: %v", err)
	}
	if k, err = kubeversion.Parse(kubelet); err != nil {
		return p, k, fmt.Sprintf("spec.template.spec.version: %v", err)
	}
	return p, k, ""
}
