// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package machineset

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/labels/format"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"drover.io/machine-controller/internal/expectation"
)

// cacheCurrent reports whether the observed Machines show everything that was ever written for the set, by this process or an
// earlier one; only then may Machines be created or deleted.
func (r *Reconciler) cacheCurrent(ctx context.Context, s *state) (bool, error) {
	unseen, unverified := expectation.Unseen(r.tracker, s.set.UID, s.machines)
	r.tracker.Resolve(ctx, r.Live, clusterv1.GroupVersion.WithKind("Machine"), s.set.UID, unverified)
	if unseen > 0 {
		return false, nil
	}
	if r.tracker.Verified(s.set.UID) {
		return true, nil
	}
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(clusterv1.GroupVersion.WithKind("MachineList"))
	name := format.MustFormatValue(s.set.Name)
	if err := r.Live.List(ctx, list, client.InNamespace(s.set.Namespace), client.MatchingLabels{clusterv1.MachineSetNameLabel: name}); err != nil {
		return false, fmt.Errorf("listing Machines: %w", err)
	}
	shown := make(map[types.UID]bool, len(s.machines))
	for _, m := range s.machines {
		shown[m.UID] = m.DeletionTimestamp.IsZero()
	}
	for _, item := range list.Items {
		owner := metav1.GetControllerOfNoCopy(&item)
		if owner == nil || owner.UID != s.set.UID {
			continue
		}
		if active, seen := shown[item.UID]; !seen || active != item.DeletionTimestamp.IsZero() {
			return false, nil
		}
		delete(shown, item.UID)
	}
	for _, m := range s.machines { // one that was adopted a moment ago has no label, and was not listed
		if _, gone := shown[m.UID]; gone && m.Labels[clusterv1.MachineSetNameLabel] == name {
			return false, nil
		}
	}
	r.tracker.SetVerified(s.set.UID)
	return true, nil
}
