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

// maxVersions and maxLength are how many versions a status may have, and how many characters each of them.
const maxVersions, maxLength = 100, 256

// Count adds up replicas by version: the lowest first, and what is no version last. Kubelets report any text as their
// version: where there are more versions than a status may have, those of the fewest replicas are left out.
func Count(all []clusterv1.StatusVersion) []clusterv1.StatusVersion {
	replicas := map[string]int32{}
	for _, each := range all {
		if each.Version != "" {
			replicas[bounded(each.Version)] += each.Replicas
		}
	}
	var counted []clusterv1.StatusVersion
	versions := slices.SortedFunc(maps.Keys(replicas), compare)
	if len(versions) > maxVersions {
		slices.SortStableFunc(versions, func(a, b string) int { return cmp.Compare(replicas[b], replicas[a]) })
		versions = versions[:maxVersions]
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
