// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package health

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"drover.io/machine-controller/internal/selectorcache"
)

// Selector returns the selector of a check. An empty one is an error: it would select every Machine of the Cluster.
func Selector(check *clusterv1.MachineHealthCheck) (labels.Selector, error) {
	if len(check.Spec.Selector.MatchLabels) == 0 && len(check.Spec.Selector.MatchExpressions) == 0 {
		return nil, fmt.Errorf("spec.selector: it is empty; name the labels of the Machines to check")
	}
	selector, err := metav1.LabelSelectorAsSelector(&check.Spec.Selector)
	if err != nil {
		return nil, fmt.Errorf("spec.selector: %w", err)
	}
	return selector, nil
}

// Selectors caches the compiled selectors of checks. The zero value is ready to use.
type Selectors struct{ compiled selectorcache.Cache }

// Of returns the selector of a check as [Selector] does; nil where it cannot be used, and then the check selects nothing.
func (s *Selectors) Of(check *clusterv1.MachineHealthCheck) (labels.Selector, error) {
	return s.compiled.Get(check, func() (labels.Selector, error) { return Selector(check) })
}

// MaySelect reports whether a check is about a Machine, and also true where its selector would have to be compiled first.
func (s *Selectors) MaySelect(check *clusterv1.MachineHealthCheck, m *clusterv1.Machine) bool {
	selector, known := s.compiled.Known(check)
	return !known || selector != nil && selector.Matches(labels.Set(m.Labels))
}

// Selects reports whether a check is about a Machine.
func (s *Selectors) Selects(check *clusterv1.MachineHealthCheck, m *clusterv1.Machine) bool {
	if check.Namespace != m.Namespace || check.Spec.ClusterName != m.Spec.ClusterName {
		return false
	}
	selector, err := s.Of(check)
	return err == nil && selector.Matches(labels.Set(m.Labels))
}
