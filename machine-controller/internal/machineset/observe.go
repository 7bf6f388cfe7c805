// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package machineset

import (
	"context"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/labels/format"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"drover.io/machine-controller/internal/expectation"
	"drover.io/machine-controller/internal/index"
	"drover.io/machine-controller/internal/ownerref"
	"drover.io/machine-controller/internal/patch"
)

// ensureMetadata keeps the MachineSet's finalizer, its cluster label and, for one that stands alone,
// the owner reference to its Cluster.
func ensureMetadata(s *state) {
	set := s.set
	controllerutil.AddFinalizer(set, clusterv1.MachineSetFinalizer)
	if set.Labels == nil {
		set.Labels = map[string]string{}
	}
	set.Labels[clusterv1.ClusterNameLabel] = set.Spec.ClusterName
	fillSelector(set)
	if metav1.GetControllerOfNoCopy(set) != nil {
		return
	}
	for _, reference := range set.OwnerReferences {
		if reference.UID == s.cluster.UID {
			return
		}
	}
	set.OwnerReferences = append(set.OwnerReferences, metav1.OwnerReference{
		APIVersion: clusterv1.GroupVersion.String(), Kind: "Cluster", Name: s.cluster.Name, UID: s.cluster.UID,
	})
}

// fillSelector writes down what an empty selector stands for, namely the set's own labels:
// whoever reads only the selector would take it for every Machine of the Cluster.
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

// selector selects the Machines of the set. One that says nothing stands for the set's own
// labels, as upstream's webhook would have filled in.
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

// observe returns the Machines of the set. Machines without a controller that match the
// selector are adopted; Machines of the set that no longer match are released.
func (r *Reconciler) observe(ctx context.Context, s *state) ([]*clusterv1.Machine, error) {
	matches, err := selector(s.set)
	if err != nil {
		return nil, err
	}
	owned, err := index.MachinesOf(ctx, r.Client, s.set.Namespace, s.set.UID)
	if err != nil {
		return nil, err
	}
	var members []*clusterv1.Machine
	for _, m := range owned {
		if m.DeletionTimestamp.IsZero() && !matches.Matches(labels.Set(m.Labels)) && !r.watch.Foreign(m) {
			if err := r.release(ctx, s.set, m); err != nil {
				return nil, err
			}
			continue
		}
		members = append(members, m)
	}
	uncontrolled, err := index.MachinesWithoutController(ctx, r.Client, s.set.Namespace)
	if err != nil {
		return nil, err
	}
	canAdopt := false
	for _, m := range uncontrolled {
		if !r.watch.Matches(m) || !adoptable(s.set, m, matches) {
			continue
		}
		if !canAdopt {
			if able, err := ownerref.CanAdopt(ctx, r.Live, s.set); err != nil || !able {
				return members, err
			}
			canAdopt = true
		}
		adopted, err := r.adopt(ctx, s.set, m)
		if err != nil {
			return nil, err
		}
		members = append(members, adopted)
	}
	return members, nil
}

// mutable replaces a Machine of the family, whose memory is the cache's, by a copy that may be changed.
func (s *state) mutable(m *clusterv1.Machine) *clusterv1.Machine {
	copied := m.DeepCopy()
	if i := slices.Index(s.machines, m); i >= 0 {
		s.machines[i] = copied
	}
	return copied
}

func adoptable(set *clusterv1.MachineSet, m *clusterv1.Machine, matches labels.Selector) bool {
	return m.DeletionTimestamp.IsZero() && m.Spec.ClusterName == set.Spec.ClusterName && matches.Matches(labels.Set(m.Labels))
}

// adopt takes a Machine that nobody controls, and returns it as it is then.
func (r *Reconciler) adopt(ctx context.Context, set *clusterv1.MachineSet, before *clusterv1.Machine) (*clusterv1.Machine, error) {
	m := before.DeepCopy()
	m.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(set, clusterv1.GroupVersion.WithKind("MachineSet"))}
	if err := patch.Main(ctx, r.Client, before, m); err != nil {
		return nil, fmt.Errorf("adopting Machine %q: %w", m.Name, err)
	}
	adopted(r.Events, set, m)
	return m, nil
}

func (r *Reconciler) release(ctx context.Context, set *clusterv1.MachineSet, before *clusterv1.Machine) error {
	m := before.DeepCopy()
	var others []metav1.OwnerReference
	for _, reference := range m.OwnerReferences {
		if reference.UID != set.UID {
			others = append(others, reference)
		}
	}
	m.OwnerReferences = others
	if err := patch.Main(ctx, r.Client, before, m); err != nil {
		return fmt.Errorf("releasing Machine %q: %w", m.Name, err)
	}
	released(r.Events, set, m)
	return nil
}

// cacheCurrent reports whether the Machines at hand show everything that was ever written for the
// set, by this process or one before it; only then may Machines be created or deleted.
func (r *Reconciler) cacheCurrent(ctx context.Context, s *state) (bool, error) {
	unseen, doubtful := expectation.Unseen(r.tracker, s.set.UID, s.machines)
	r.resolveUnseen(ctx, s.set.UID, doubtful)
	if unseen > 0 {
		return false, nil
	}
	if r.tracker.Verified(s.set.UID) {
		return true, nil
	}
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(clusterv1.GroupVersion.WithKind("MachineList"))
	if err := r.Live.List(ctx, list, client.InNamespace(s.set.Namespace),
		client.MatchingLabels{clusterv1.MachineSetNameLabel: format.MustFormatValue(s.set.Name)}); err != nil {
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
		if alive, seen := shown[item.UID]; !seen || alive != item.DeletionTimestamp.IsZero() {
			return false, nil
		}
	}
	r.tracker.SetVerified(s.set.UID)
	return true, nil
}

// resolveUnseen asks the API server about Machines that were created but never seen.
func (r *Reconciler) resolveUnseen(ctx context.Context, set types.UID, doubtful map[types.UID]client.ObjectKey) {
	for uid, key := range doubtful {
		found := &metav1.PartialObjectMetadata{}
		found.SetGroupVersionKind(clusterv1.GroupVersion.WithKind("Machine"))
		err := r.Live.Get(ctx, key, found)
		// One that was taken out before it was seen is awaited no more either.
		if apierrors.IsNotFound(err) || (err == nil && (found.UID != uid || !controlled(found, set))) {
			r.tracker.Forget(set, uid)
		}
	}
}

// controlled reports whether the object's controller has the UID.
func controlled(object client.Object, by types.UID) bool {
	controller := metav1.GetControllerOfNoCopy(object)
	return controller != nil && controller.UID == by
}

// setsForUncontrolledMachine wakes the MachineSets of a namespace that could adopt a Machine.
func (r *Reconciler) setsForUncontrolledMachine(ctx context.Context, object client.Object) []reconcile.Request {
	m, ok := object.(*clusterv1.Machine)
	if !ok {
		return nil
	}
	sets, err := index.MachineSetsOfCluster(ctx, r.Client, client.ObjectKey{Namespace: m.Namespace, Name: m.Spec.ClusterName})
	if err != nil {
		return nil
	}
	var found []reconcile.Request
	for _, set := range sets {
		if matches, err := selector(set); err == nil && adoptable(set, m, matches) {
			found = append(found, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(set)})
		}
	}
	return found
}

// uncontrolledMachines passes the Machines that nothing controls.
func uncontrolledMachines() predicate.Predicate {
	uncontrolled := func(object client.Object) bool { return metav1.GetControllerOfNoCopy(object) == nil }
	return predicate.Funcs{
		CreateFunc: func(e event.CreateEvent) bool { return uncontrolled(e.Object) },
		UpdateFunc: func(e event.UpdateEvent) bool { return uncontrolled(e.ObjectNew) },
		DeleteFunc: func(event.DeleteEvent) bool { return false },
	}
}

func (r *Reconciler) setsOfCluster(_ context.Context, cluster client.Object) []reconcile.Request {
	return r.setsOfConnection(client.ObjectKeyFromObject(cluster))
}

func (r *Reconciler) setsOfConnection(cluster client.ObjectKey) []reconcile.Request {
	sets, err := index.MachineSetsOfCluster(context.Background(), r.Client, cluster)
	if err != nil {
		return nil
	}
	found := make([]reconcile.Request, 0, len(sets))
	for _, set := range sets {
		found = append(found, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(set)})
	}
	return found
}
