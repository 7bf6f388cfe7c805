// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Package object reads the objects that the commands are about: their kinds by any of their names, single objects, and lists
// in chunks. It says in one line what is missing: the kind in an API server, a permission, or an object, whose nearest name
// it offers.
package object

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	bootstrapv1 "drover.io/api/bootstrap/v1alpha1"
	infrav1 "drover.io/api/infrastructure/v1alpha1"
	droverpolicyv1 "drover.io/api/policy/v1alpha1"
	"drover.io/runtime/spelling"
)

// Kind is a kind that the commands know.
type Kind struct {
	schema.GroupVersionKind
	// Resource is its plural, in lower case.
	Resource string
	// Short are further names.
	Short []string
}

// The kinds of the core.
var (
	Cluster            = Kind{clusterv1.GroupVersion.WithKind("Cluster"), "clusters", []string{"cl"}}
	MachineDeployment  = Kind{clusterv1.GroupVersion.WithKind("MachineDeployment"), "machinedeployments", []string{"md"}}
	MachineSet         = Kind{clusterv1.GroupVersion.WithKind("MachineSet"), "machinesets", []string{"ms"}}
	Machine            = Kind{clusterv1.GroupVersion.WithKind("Machine"), "machines", []string{"ma"}}
	MachineHealthCheck = Kind{clusterv1.GroupVersion.WithKind("MachineHealthCheck"), "machinehealthchecks", []string{"mhc"}}
	MachineDrainRule   = Kind{clusterv1.GroupVersion.WithKind("MachineDrainRule"), "machinedrainrules", nil}
	MachinePolicy      = Kind{droverpolicyv1.GroupVersion.WithKind("MachinePolicy"), "machinepolicies", nil}
	BootstrapConfig    = Kind{bootstrapv1.GroupVersion.WithKind("BootstrapConfig"), "bootstrapconfigs", nil}
	Remediation        = Kind{infrav1.GroupVersion.WithKind("RestartRemediation"), "restartremediations", nil}
	// Node is a Node of a workload cluster, not of the management cluster.
	Node = Kind{schema.GroupVersionKind{Version: "v1", Kind: "Node"}, "nodes", []string{"no"}}
)

// Known are the kinds that need no look into the API server.
var Known = []Kind{Cluster, MachineDeployment, MachineSet, Machine, MachineHealthCheck, MachinePolicy, BootstrapConfig, Remediation, Node}

// Is reports whether it is another kind, in whatever version: other projects have kinds of the same names in groups of their own.
func (k Kind) Is(other Kind) bool { return k.GroupKind() == other.GroupKind() }

// Owns reports whether an owner reference leads to an object of the kind, in whatever version.
func (k Kind) Owns(owner *metav1.OwnerReference) bool {
	gv, err := schema.ParseGroupVersion(owner.APIVersion)
	return err == nil && gv.Group == k.Group && owner.Kind == k.Kind
}

// Title is how a message names the kind: with its group where a kind that is known has the same name.
func (k Kind) Title() string {
	if slices.ContainsFunc(Known, func(known Kind) bool { return known.Kind == k.Kind && !known.Is(k) }) {
		return k.GroupKind().String()
	}
	return k.Kind
}

// named reports whether a word in lower case is a name of the kind, with or without its group.
func (k Kind) named(word string) bool {
	names := append([]string{strings.ToLower(k.Kind), k.Resource}, k.Short...)
	return slices.Contains(names, word) || k.Group != "" && slices.Contains(names[:2], strings.TrimSuffix(word, "."+k.Group))
}

// ofKubernetes reports whether an API group is one of Kubernetes itself. No manager of machines reports about its kinds.
func ofKubernetes(group string) bool {
	return !strings.Contains(group, ".") || strings.HasSuffix(group, ".k8s.io") && !strings.HasSuffix(group, ".x-k8s.io")
}

// KindOf returns the kind that a word names: by its kind, plural or short name, in any case. Kinds of infrastructure providers
// are looked up in the API server. Those of Kubernetes itself are refused, but for Node.
func KindOf(word string, mapper meta.RESTMapper) (Kind, error) {
	lower := strings.ToLower(word)
	var names []string
	for _, kind := range Known {
		if kind.named(lower) {
			return kind, nil
		}
		names = append(names, strings.ToLower(kind.Kind))
	}
	resource := schema.GroupVersionResource{Resource: lower}
	if name, group, found := strings.Cut(lower, "."); found {
		resource = schema.GroupVersionResource{Resource: name, Group: group}
	}
	found, err := mapper.KindFor(resource)
	switch {
	case err == nil && ofKubernetes(found.Group):
		return Kind{}, fmt.Errorf("%s is no kind of Drover or of a provider; try one of %s", found.Kind, strings.Join(names, ", "))
	case err == nil:
		return Kind{GroupVersionKind: found, Resource: lower}, nil
	case !meta.IsNoMatchError(err):
		return Kind{}, err
	}
	if near, found := spelling.Nearest(lower, names); found {
		return Kind{}, fmt.Errorf("there is no kind %q; did you mean %q?", word, near)
	}
	return Kind{}, fmt.Errorf("there is no kind %q; try one of %s, or that of a provider", word, strings.Join(names, ", "))
}

// Argument splits the arguments of a command into kind and name: KIND/NAME, KIND NAME, or, where a kind is implied, NAME.
func Argument(args []string, implied string) (kind, name string, err error) {
	switch {
	case len(args) == 2 && !strings.Contains(args[0], "/"):
		kind, name = args[0], args[1]
	case len(args) == 1 && strings.Contains(args[0], "/"):
		kind, name, _ = strings.Cut(args[0], "/")
	case len(args) == 1 && implied != "":
		kind, name = implied, args[0]
	default:
		return "", "", fmt.Errorf("name one object, as %s/NAME", orKind(implied))
	}
	if kind == "" || name == "" || strings.Contains(name, "/") {
		return "", "", fmt.Errorf("%q names no object: write %s/NAME", strings.Join(args, " "), orKind(implied))
	}
	return kind, name, nil
}

func orKind(implied string) string {
	if implied == "" {
		return "KIND"
	}
	return implied
}
