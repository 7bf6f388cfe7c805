// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package machineset

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/blang/semver/v4"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"drover.io/machine-controller/internal/kubeversion"
)

const (
	// preflightRetry is how often a refused creation is looked at again.
	preflightRetry = 15 * time.Second
	// kubeletLag is how many minor versions a kubelet may be behind its API server, and
	// oldKubeletLag how many it might before API servers of version 1.28.
	kubeletLag, oldKubeletLag = 3, 2
	lagGrewIn                 = 28
)

// preflight reads the control plane object, if the Cluster has one, and says why Machines had
// better not be made now; nothing where they may.
func (r *Reconciler) preflight(ctx context.Context, s *state) (string, error) {
	template := &s.set.Spec.Template
	if !s.cluster.Spec.ControlPlaneRef.IsDefined() {
		return "", nil
	}
	plane, err := r.Templates.Instance(ctx, s.set.Namespace, s.cluster.Spec.ControlPlaneRef)
	if err != nil {
		return "", err
	}
	skipped := s.set.Annotations[clusterv1.MachineSetSkipPreflightChecksAnnotation] + "," + template.Annotations[clusterv1.MachineSetSkipPreflightChecksAnnotation]
	return checked(plane, template, strings.Split(skipped, ",")), nil
}

// checked runs the checks in upstream's order, but those that are skipped by name.
func checked(plane *unstructured.Unstructured, template *clusterv1.MachineTemplateSpec, skipped []string) string {
	wanted, _, _ := unstructured.NestedString(plane.Object, "spec", "version")
	if wanted == "" {
		return "" // a control plane that has no version cannot be compared
	}
	for _, check := range []struct {
		name clusterv1.MachineSetPreflightCheck
		run  func(*unstructured.Unstructured, *clusterv1.MachineTemplateSpec, string) string
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
		if complaint := check.run(plane, template, wanted); complaint != "" {
			return fmt.Sprintf("%s; the annotation %s: %s skips this check", complaint, clusterv1.MachineSetSkipPreflightChecksAnnotation, check.name)
		}
	}
	return ""
}

// stable waits until the control plane is made, and until it is not being upgraded. The versions of all its
// machines count, where it reports them.
func stable(plane *unstructured.Unstructured, _ *clusterv1.MachineTemplateSpec, wanted string) string {
	name := plane.GetKind() + " " + plane.GetName()
	present, complaint := planeVersions(plane)
	if complaint != "" {
		return complaint
	}
	if len(present) == 0 {
		if elsewhere, _, _ := unstructured.NestedBool(plane.Object, "status", "externalManagedControlPlane"); elsewhere {
			return "" // somebody else's, who need not report versions
		}
		return name + " reports neither status.versions nor status.version yet: it is being made"
	}
	goal, err := kubeversion.Parse(wanted)
	if err != nil {
		return fmt.Sprintf("spec.version of %s: %v", name, err)
	}
	for _, each := range present {
		now, err := kubeversion.Parse(each)
		if err != nil {
			return fmt.Sprintf("the version in the status of %s: %v", name, err)
		}
		if kubeversion.Upgrades(now, goal) {
			return fmt.Sprintf("%s is being upgraded from %s to %s", name, each, wanted)
		}
	}
	return ""
}

// planeVersions are the versions in status.versions, or else the one in status.version.
func planeVersions(plane *unstructured.Unstructured) (all []string, complaint string) {
	list, _, err := unstructured.NestedSlice(plane.Object, "status", "versions")
	if err != nil {
		return nil, fmt.Sprintf("status.versions of %s %s: %v", plane.GetKind(), plane.GetName(), err)
	}
	for _, item := range list {
		entry, _ := item.(map[string]any)
		version, _, _ := unstructured.NestedString(entry, "version")
		all = append(all, version)
	}
	if len(all) > 0 {
		return all, ""
	}
	if single, _, _ := unstructured.NestedString(plane.Object, "status", "version"); single != "" {
		return []string{single}, ""
	}
	return nil, ""
}

// skew keeps to what Kubernetes supports: no kubelet is newer than its API server, nor too old.
func skew(_ *unstructured.Unstructured, template *clusterv1.MachineTemplateSpec, wanted string) string {
	if template.Spec.Version == "" {
		return "" // what the machines get is not known here
	}
	plane, kubelet, complaint := both(wanted, template.Spec.Version)
	if complaint != "" {
		return complaint
	}
	lag := uint64(kubeletLag)
	if plane.Minor < lagGrewIn {
		lag = oldKubeletLag
	}
	if plane.Major < kubelet.Major || (plane.Major == kubelet.Major && plane.Minor < kubelet.Minor) {
		return fmt.Sprintf("spec.template.spec.version %s is newer than the control plane's %s: upgrade that first", template.Spec.Version, wanted)
	}
	if plane.Major != kubelet.Major || kubelet.Minor+lag < plane.Minor {
		return fmt.Sprintf("spec.template.spec.version %s is more than %d minor versions older than the control plane's %s", template.Spec.Version, lag, wanted)
	}
	return ""
}

// kubeadmSkew wants one minor version where kubeadm joins the machine.
func kubeadmSkew(_ *unstructured.Unstructured, template *clusterv1.MachineTemplateSpec, wanted string) string {
	ref := template.Spec.Bootstrap.ConfigRef
	if template.Spec.Version == "" || ref.APIGroup != "bootstrap.cluster.x-k8s.io" || ref.Kind != "KubeadmConfigTemplate" {
		return ""
	}
	plane, kubelet, complaint := both(wanted, template.Spec.Version)
	if complaint != "" {
		return complaint
	}
	if plane.Major != kubelet.Major || plane.Minor != kubelet.Minor {
		return fmt.Sprintf("kubeadm of version %s joins no control plane of another minor version, as %s is", template.Spec.Version, wanted)
	}
	return ""
}

func both(plane, kubelet string) (p, k semver.Version, complaint string) {
	p, err := kubeversion.Parse(plane)
	if err != nil {
		return p, k, fmt.Sprintf("spec.version of the control plane: %v", err)
	}
	if k, err = kubeversion.Parse(kubelet); err != nil {
		return p, k, fmt.Sprintf("spec.template.spec.version: %v", err)
	}
	return p, k, ""
}
