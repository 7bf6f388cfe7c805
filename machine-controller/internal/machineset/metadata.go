// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package machineset

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/labels/format"

	"drover.io/machine-controller/internal/inplace"
	"drover.io/machine-controller/internal/machineowner"
)

// setMetadata sets the MachineSet's finalizer, its label of the Cluster, its selector and, for one without a
// MachineDeployment, the owner reference to its Cluster.
func setMetadata(s *state) {
	machineowner.SetMetadata(s.set, clusterv1.MachineSetFinalizer, s.set.Spec.ClusterName)
	fillSelector(s.set)
	if metav1.GetControllerOfNoCopy(s.set) == nil {
		machineowner.SetClusterOwner(s.set, s.cluster)
	}
}

// fillSelector replaces an empty selector by the set's own labels: a client that reads only the selector would take it for
// every Machine of the Cluster.
func fillSelector(set *clusterv1.MachineSet) {
	if len(set.Spec.Selector.MatchLabels) == 0 && len(set.Spec.Selector.MatchExpressions) == 0 {
		set.Spec.Selector.MatchLabels = ownLabels(set)
	}
}

func ownLabels(set *clusterv1.MachineSet) map[string]string {
	return map[string]string{
		clusterv1.ClusterNameLabel:    set.Spec.ClusterName,
		clusterv1.MachineSetNameLabel: format.MustFormatValue(set.Name),
	}
}

// selector selects the Machines of the set. An empty one is the set's own labels, as upstream's webhook would have filled
// in.
func selector(set *clusterv1.MachineSet) (labels.Selector, error) {
	if len(set.Spec.Selector.MatchLabels) == 0 && len(set.Spec.Selector.MatchExpressions) == 0 {
		return labels.SelectorFromSet(ownLabels(set)), nil
	}
	selector, err := metav1.LabelSelectorAsSelector(&set.Spec.Selector)
	if err != nil {
		return nil, fmt.Errorf("spec.selector: %w", err)
	}
	return selector, nil
}

// checkSelected returns an error for a set that would not select the Machines that it creates: it would release each, and
// create another. The API server refuses such a set, but one may be stored already.
func checkSelected(set *clusterv1.MachineSet) error {
	matches, err := selector(set)
	if err == nil && !matches.Matches(labels.Set(inplace.MachineLabels(set))) {
		err = fmt.Errorf("spec.selector, %s, does not select the Machines of spec.template: create a new MachineSet", matches)
	}
	return err
}
