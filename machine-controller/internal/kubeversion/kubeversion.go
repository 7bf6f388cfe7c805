// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Package kubeversion compares, normalizes and counts Kubernetes versions the way Cluster API does: the prefix v
// may be left out, and build metadata counts.
package kubeversion

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/blang/semver/v4"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	capiversion "sigs.k8s.io/cluster-api/util/version"
)

// Normalize writes a version with the prefix v, as Cluster API's webhooks do. An empty version stays empty.
func Normalize(version string) string {
	if version == "" || strings.HasPrefix(version, "v") {
		return version
	}
	return "v" + version
}

// Parse reads a version, with or without the prefix v.
func Parse(version string) (semver.Version, error) {
	parsed, err := semver.ParseTolerant(version)
	if err != nil {
		return parsed, fmt.Errorf("%q is not a version: %w", version, err)
	}
	return parsed, nil
}

// Upgrades reports whether going from one version to the other is an upgrade, or a change of build metadata that
// cannot be ordered.
func Upgrades(from, to semver.Version) bool {
	return capiversion.Compare(to, from, capiversion.WithBuildTags()) >= 1
}

// MaxOfOwner is how many versions the status of a MachineSet or MachineDeployment may have.
const MaxOfOwner = 100

// MaxOfCluster is how many versions each of the two lists in the status of a Cluster may have.
const MaxOfCluster = 32

// maxLength is how many characters a version may have.
const maxLength = 256

// OfMachines has for each Machine the version of its kubelet or, while that is not known, the one in its spec.
func OfMachines(machines []*clusterv1.Machine) []clusterv1.StatusVersion {
	all := make([]clusterv1.StatusVersion, 0, len(machines))
	for _, m := range machines {
		version := Normalize(m.Spec.Version)
		if m.Status.NodeInfo != nil && m.Status.NodeInfo.KubeletVersion != "" {
			version = m.Status.NodeInfo.KubeletVersion
		}
		all = append(all, clusterv1.StatusVersion{Version: version, Replicas: 1})
	}
	return all
}

// Count adds up replicas by version: the lowest first, and what is no version last. Kubelets report any text as their
// version: where there are more versions than the most that the status may have, those of the fewest replicas are left out.
func Count(all []clusterv1.StatusVersion, most int) []clusterv1.StatusVersion {
	replicas := map[string]int32{}
	for _, each := range all {
		if each.Version != "" {
			replicas[bounded(each.Version)] += each.Replicas
		}
	}
	var counted []clusterv1.StatusVersion
	versions := slices.SortedFunc(maps.Keys(replicas), compare)
	if len(versions) > most {
		slices.SortStableFunc(versions, func(a, b string) int { return cmp.Compare(replicas[b], replicas[a]) })
		versions = versions[:most]
		slices.SortFunc(versions, compare)
	}
	for _, version := range versions {
		counted = append(counted, clusterv1.StatusVersion{Version: version, Replicas: replicas[version]})
	}
	return counted
}

func bounded(version string) string {
	if len(version) <= maxLength {
		return version
	}
	return strings.ToValidUTF8(version[:maxLength], "")
}

func compare(a, b string) int {
	va, errA := Parse(a)
	vb, errB := Parse(b)
	switch {
	case errA == nil && errB == nil:
		// The precedence of versions first; build metadata has none that is the same in every pair.
		return cmp.Or(va.Compare(vb), cmp.Compare(a, b))
	case errA == nil:
		return -1
	case errB == nil:
		return 1
	}
	return cmp.Compare(a, b)
}
