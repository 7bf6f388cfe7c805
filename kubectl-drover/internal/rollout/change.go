// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"drover.io/runtime/quantity"
)

// Change is what another version of a MachineDeployment would do to its Machines.
type Change struct {
	Name string `json:"name"`
	// New means that the MachineDeployment does not exist.
	New bool `json:"new,omitempty"`
	// Replaced is how many Machines would be replaced, and Why the fields that need new Machines.
	Replaced int32    `json:"replaced"`
	Why      []string `json:"why,omitempty"`
	// InPlace are the fields that would be changed on every Machine without a replacement.
	InPlace []string `json:"inPlace,omitempty"`
	// From and To are the numbers of Machines.
	From int32 `json:"from"`
	To   int32 `json:"to"`
	// OnDelete means that Machines are replaced only after they are deleted by hand.
	OnDelete bool `json:"onDelete,omitempty"`
	// Missing are the templates that it would refer to and that neither exist nor are in the files. No Machine is created from them.
	Missing []string `json:"missing,omitempty"`
}

// Compare returns what a change from one version to another does; the first is nil for one that does not exist.
func Compare(is, want *clusterv1.MachineDeployment) Change {
	c := Change{Name: want.Name, New: is == nil, To: ptr.Deref(want.Spec.Replicas, 0)}
	if is == nil {
		return c
	}
	c.From = ptr.Deref(is.Spec.Replicas, 0)
	c.OnDelete = want.Spec.Rollout.Strategy.Type == clusterv1.OnDeleteMachineDeploymentStrategyType
	c.Why = append(replacing(&is.Spec.Template, &want.Spec.Template), restarting(is, want)...)
	if len(c.Why) > 0 {
		c.Replaced = ptr.Deref(is.Status.Replicas, 0)
	}
	c.InPlace = inPlace(&is.Spec.Template, &want.Spec.Template)
	return c
}

// replacing are the differences for which Machines are replaced: the version, the failure domain, and what a template refers
// to. A template that is referred to is immutable, so its changes come with another name.
func replacing(is, want *clusterv1.MachineTemplateSpec) []string {
	var all []string
	for _, field := range []struct{ path, is, want string }{
		{"spec.version", version(is), version(want)},
		{"spec.failureDomain", is.Spec.FailureDomain, want.Spec.FailureDomain},
		{"spec.bootstrap.configRef", reference(is.Spec.Bootstrap.ConfigRef), reference(want.Spec.Bootstrap.ConfigRef)},
		{"spec.bootstrap.dataSecretName", ptr.Deref(is.Spec.Bootstrap.DataSecretName, ""), ptr.Deref(want.Spec.Bootstrap.DataSecretName, "")},
		{"spec.infrastructureRef", reference(is.Spec.InfrastructureRef), reference(want.Spec.InfrastructureRef)},
	} {
		if field.is != field.want {
			all = append(all, fmt.Sprintf("%s is %q, would be %q", field.path, field.is, field.want))
		}
	}
	return all
}

// restarting is the difference of spec.rollout.after, by which Machines that are older are replaced once that time has passed.
func restarting(is, want *clusterv1.MachineDeployment) []string {
	after := want.Spec.Rollout.After
	if after.IsZero() || after.Equal(&is.Spec.Rollout.After) || after.Before(&is.CreationTimestamp) {
		return nil
	}
	return []string{fmt.Sprintf("spec.rollout.after would be %q, and older Machines are replaced from then on", after.UTC().Format(time.RFC3339))}
}

// inPlace are the fields of a template that are changed on every Machine.
func inPlace(is, want *clusterv1.MachineTemplateSpec) []string {
	var all []string
	for _, field := range []struct {
		path     string
		is, want any
	}{
		{"metadata.labels", is.Labels, want.Labels},
		{"metadata.annotations", is.Annotations, want.Annotations},
		{"spec.readinessGates", is.Spec.ReadinessGates, want.Spec.ReadinessGates},
		{"spec.minReadySeconds", is.Spec.MinReadySeconds, want.Spec.MinReadySeconds},
		{"spec.taints", is.Spec.Taints, want.Spec.Taints},
		{"spec.deletion", is.Spec.Deletion, want.Spec.Deletion},
	} {
		if !equality.Semantic.DeepEqual(field.is, field.want) {
			all = append(all, field.path)
		}
	}
	return all
}

func version(t *clusterv1.MachineTemplateSpec) string {
	if t.Spec.Version == "" {
		return ""
	}
	return "v" + strings.TrimPrefix(t.Spec.Version, "v")
}

func reference(ref clusterv1.ContractVersionedObjectReference) string {
	if !ref.IsDefined() {
		return ""
	}
	return fmt.Sprintf("%s.%s/%s", ref.Kind, ref.APIGroup, ref.Name)
}

// Text describes a change in one line, and each cause in one more.
func (c Change) Text() string {
	var out strings.Builder
	fmt.Fprintf(&out, "MachineDeployment %s: ", c.Name)
	switch {
	case c.New:
		out.WriteString("it would be created, with " + quantity.Of(c.To, "Machine"))
	case len(c.Why) > 0 && c.OnDelete:
		fmt.Fprintf(&out, "%s would be replaced, each after it is deleted (OnDelete)", quantity.Of(c.Replaced, "Machine"))
	case len(c.Why) > 0:
		fmt.Fprintf(&out, "%s would be replaced", quantity.Of(c.Replaced, "Machine"))
	default:
		out.WriteString("no Machine would be replaced")
	}
	if !c.New && c.From != c.To {
		fmt.Fprintf(&out, ", replicas from %d to %d", c.From, c.To)
	}
	out.WriteString("\n")
	for _, why := range c.Why {
		fmt.Fprintf(&out, "  %s\n", why)
	}
	for _, missing := range c.Missing {
		fmt.Fprintf(&out, "  %s: create it first, or no Machine can be created\n", missing)
	}
	if len(c.InPlace) > 0 {
		fmt.Fprintf(&out, "  changed on every Machine without a replacement: %s\n", strings.Join(c.InPlace, ", "))
	}
	return out.String()
}
