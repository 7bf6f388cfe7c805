// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package crdvalidation

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	bootstrapv1 "drover.io/api/bootstrap/v1alpha1"
	"drover.io/runtime/spelling"
)

// ownDomain ends the groups of this project.
const ownDomain = "drover.io"

// Check reports whether the kind is one of Drover's. The error names what is wrong with a kind that was meant to be one:
// another version of the group, or a kind or group that there is not but is spelled like one.
func (k *Kinds) Check(of schema.GroupVersionKind) (bool, error) {
	if _, served := k.served[of]; served {
		return true, nil
	}
	versions, kinds, groups := k.names(of)
	if len(versions) > 0 {
		return false, fmt.Errorf("%s has the apiVersion %s, must be %s", of.Kind, of.GroupVersion(), strings.Join(versions, " or "))
	}
	if len(kinds) > 0 {
		return false, unknownKind(of, kinds)
	}
	if group, found := spelling.Nearest(of.Group, groups); found {
		return false, fmt.Errorf("%s has the apiVersion %s, whose group is not known, did you mean %s?", of.Kind, of.GroupVersion(), group)
	}
	if of.Group == ownDomain || strings.HasSuffix(of.Group, "."+ownDomain) {
		return false, fmt.Errorf("%s has the apiVersion %s, whose group is not known: there are %s", of.Kind, of.GroupVersion(), strings.Join(groups, ", "))
	}
	// No other project has these kinds, while many have a Cluster and a Machine.
	if own := []string{"BootstrapConfig", "BootstrapConfigTemplate", "NodeProfile"}; slices.Contains(own, of.Kind) {
		return false, fmt.Errorf("%s has the apiVersion %s, must be %s", of.Kind, of.GroupVersion(), bootstrapv1.GroupVersion)
	}
	return false, nil
}

// names are the versions in which the kind of another is served, the kinds of its group, and all groups, each sorted.
func (k *Kinds) names(of schema.GroupVersionKind) (versions, kinds, groups []string) {
	for each := range k.served {
		groups = append(groups, each.Group)
		if each.Group != of.Group {
			continue
		}
		kinds = append(kinds, each.Kind)
		if each.Kind == of.Kind {
			versions = append(versions, each.GroupVersion().String())
		}
	}
	for _, all := range [][]string{versions, kinds, groups} {
		slices.Sort(all)
	}
	return versions, slices.Compact(kinds), slices.Compact(groups)
}

// unknownKind is nil for the kind of Cluster API that Drover does not have.
func unknownKind(of schema.GroupVersionKind, kinds []string) error {
	if of.Group == clusterv1.GroupVersion.Group && of.Kind == "ClusterClass" {
		return nil
	}
	if near, found := spelling.Nearest(of.Kind, kinds); found {
		return fmt.Errorf("the group %s has no kind %q, did you mean %s?", of.Group, of.Kind, near)
	}
	return fmt.Errorf("the group %s has no kind %q: it has %s", of.Group, of.Kind, strings.Join(kinds, ", "))
}
