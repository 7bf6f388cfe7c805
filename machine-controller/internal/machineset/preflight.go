// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package machineset

import (
	"context"
	"strings"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"drover.io/machine-controller/internal/contract"
	"drover.io/machine-controller/internal/machineset/preflight"
)

// preflighter checks the control plane object, if the Cluster has one, before Machines are created.
type preflighter struct{ templates *contract.Templates }

// check returns why no Machines should be created now.
func (p *preflighter) check(ctx context.Context, s *state) (preflight.Problem, error) {
	if !s.cluster.Spec.ControlPlaneRef.IsDefined() {
		return preflight.Problem{}, nil
	}
	controlPlane, err := p.templates.Instance(ctx, s.set.Namespace, s.cluster.Spec.ControlPlaneRef)
	if err != nil {
		return preflight.Problem{}, err
	}
	template := &s.set.Spec.Template
	skipped := s.set.Annotations[clusterv1.MachineSetSkipPreflightChecksAnnotation] + "," + template.Annotations[clusterv1.MachineSetSkipPreflightChecksAnnotation]
	return preflight.Check(controlPlane, template, strings.Split(skipped, ",")), nil
}
