// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package revision

import (
	"fmt"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"drover.io/machine-controller/internal/kubeversion"
)

// EqualTemplate reports whether Machines made from a satisfy b. Only what cannot be changed on an existing Machine
// counts: version, failure domain and what the references and dataSecretName point at (never their content). Labels,
// annotations, readiness gates, minReadySeconds, deletion timeouts and taints are propagated in place. A version means
// the same with and without the prefix v. Each difference reads as a clause about a.
func EqualTemplate(a, b *clusterv1.MachineTemplateSpec) (equal bool, diffs []string) {
	x, y := fieldsOf(a), fieldsOf(b)
	for _, field := range []struct{ path, is, want string }{
		{"spec.version", x.Version, y.Version},
		{"spec.failureDomain", x.FailureDomain, y.FailureDomain},
		{"spec.bootstrap.configRef", x.Bootstrap.String(), y.Bootstrap.String()},
		{"spec.bootstrap.dataSecretName", x.DataSecretName, y.DataSecretName},
		{"spec.infrastructureRef", x.Infrastructure.String(), y.Infrastructure.String()},
	} {
		if field.is != field.want {
			diffs = append(diffs, fmt.Sprintf("%s is %q, want %q", field.path, field.is, field.want))
		}
	}
	return len(diffs) == 0, diffs
}

// fields are the parts of a template that need new Machines. Their JSON is hashed into the names of MachineSets, so it
// must not change.
type fields struct {
	Version        string    `json:"version"`
	FailureDomain  string    `json:"failureDomain"`
	Bootstrap      reference `json:"bootstrap"`
	DataSecretName string    `json:"dataSecretName"`
	Infrastructure reference `json:"infrastructure"`
}

type reference struct {
	APIGroup string `json:"apiGroup"`
	Kind     string `json:"kind"`
	Name     string `json:"name"`
}

func (r reference) String() string {
	if r == (reference{}) {
		return ""
	}
	return fmt.Sprintf("%s.%s/%s", r.Kind, r.APIGroup, r.Name)
}

func fieldsOf(template *clusterv1.MachineTemplateSpec) fields {
	spec := &template.Spec
	f := fields{
		Version:        kubeversion.Normalize(spec.Version),
		FailureDomain:  spec.FailureDomain,
		Bootstrap:      referenceOf(spec.Bootstrap.ConfigRef),
		Infrastructure: referenceOf(spec.InfrastructureRef),
	}
	if spec.Bootstrap.DataSecretName != nil {
		f.DataSecretName = *spec.Bootstrap.DataSecretName
	}
	return f
}

func referenceOf(ref clusterv1.ContractVersionedObjectReference) reference {
	return reference{APIGroup: ref.APIGroup, Kind: ref.Kind, Name: ref.Name}
}

// CopyInPlaceFields gives a template what another has in the fields that change without new Machines: all those that
// EqualTemplate leaves out.
func CopyInPlaceFields(template, from *clusterv1.MachineTemplateSpec) {
	from = from.DeepCopy()
	template.Labels, template.Annotations = from.Labels, from.Annotations
	template.Spec.ReadinessGates = from.Spec.ReadinessGates
	template.Spec.MinReadySeconds = from.Spec.MinReadySeconds
	template.Spec.Taints = from.Spec.Taints
	template.Spec.Deletion = from.Spec.Deletion
}
