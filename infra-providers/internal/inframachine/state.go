// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package inframachine

import (
	"context"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "drover.io/api/infrastructure/v1alpha1"
	"drover.io/infra-providers/driver"
)

// phase is one step of a reconcile. It may change the machine it was handed and ends the reconcile by
// setting job.waiting, by asking to be called again, or by failing.
type phase[M driver.Machine, C any] func(context.Context, *state[M, C]) (ctrl.Result, error)

// state is what one reconcile works on.
type state[M driver.Machine, C any] struct {
	machine M
	// owner is the Machine; nil when there is none yet or any more.
	owner *clusterv1.Machine
	// cluster is nil when it is not known or gone.
	cluster *clusterv1.Cluster

	// waiting ends the reconcile; an event starts the next one.
	waiting bool
	// unclaimed is true while the finalizer and the identity are not stored.
	unclaimed bool
	// fresh is true when neither was there before, so that nothing can have been asked for.
	fresh    bool
	userData []byte
	format   string
	observed driver.Instance
	// created is true when this reconcile created the instance, so that its providerID is not stored yet.
	created bool
	// end is what became of the instance of a machine that goes.
	end notice
}

// observe reads what the machine belongs to.
func (r *Reconciler[M, C]) observe(ctx context.Context, machine M) (*state[M, C], error) {
	owner, err := r.ownerOf(ctx, machine)
	if err != nil {
		return nil, err
	}
	s := &state[M, C]{machine: machine, owner: owner}
	if name := s.clusterName(); name != "" {
		cluster := &clusterv1.Cluster{}
		key := client.ObjectKey{Namespace: machine.GetNamespace(), Name: name}
		switch err := client.IgnoreNotFound(r.Client.Get(ctx, key, cluster)); {
		case err != nil:
			return nil, err
		case cluster.UID != "":
			s.cluster = cluster
		}
	}
	return s, nil
}

func (r *Reconciler[M, C]) ownerOf(ctx context.Context, machine M) (*clusterv1.Machine, error) {
	ref := OwnerReference(machine)
	if ref == nil {
		return nil, nil
	}
	owner := &clusterv1.Machine{}
	key := client.ObjectKey{Namespace: machine.GetNamespace(), Name: ref.Name}
	if err := client.IgnoreNotFound(r.Client.Get(ctx, key, owner)); err != nil {
		return nil, err
	}
	if owner.UID != ref.UID {
		return nil, nil
	}
	return owner, nil
}

// OwnerReference returns the reference to the Machine that owns an object; nil without one.
func OwnerReference(object metav1.Object) *metav1.OwnerReference {
	for _, ref := range object.GetOwnerReferences() {
		group, err := schema.ParseGroupVersion(ref.APIVersion)
		if err == nil && group.Group == clusterv1.GroupVersion.Group && ref.Kind == "Machine" {
			return &ref
		}
	}
	return nil
}

func (s *state[M, C]) clusterName() string {
	if name := s.machine.GetLabels()[clusterv1.ClusterNameLabel]; name != "" {
		return name
	}
	if s.owner != nil {
		return s.owner.Spec.ClusterName
	}
	return ""
}

// claimed reports whether a machine may have asked for an instance.
func claimed[M driver.Machine](machine M) bool {
	return machine.GetAnnotations()[infrav1.IdentityAnnotation] != "" || machine.GetStatus().Account != ""
}

// identity names the instance.
func (s *state[M, C]) identity() driver.Identity {
	owner := driver.Owner{Namespace: s.machine.GetNamespace(), Name: s.clusterName()}
	if s.cluster != nil {
		owner.UID = s.cluster.UID
	}
	return Identity(s.machine, owner)
}

// Identity names the instance of a machine. The UID comes from the annotation, because that outlives a move; it is
// empty for a machine that has a providerID and lost its annotation, and for one that asked for no instance yet.
func Identity(machine driver.Machine, owner driver.Owner) driver.Identity {
	return driver.Identity{
		UID:        types.UID(machine.GetAnnotations()[infrav1.IdentityAnnotation]),
		Name:       machine.GetName(),
		Owner:      owner,
		ProviderID: machine.GetProviderID(),
	}
}

// zone is the failure domain that the Machine was given.
func (s *state[M, C]) zone() string {
	if s.owner == nil {
		return ""
	}
	return s.owner.Spec.FailureDomain
}

// wait ends the reconcile; an event will start the next one.
func (s *state[M, C]) wait(reason, message string) (ctrl.Result, error) {
	setWaiting(s.machine, reason, message)
	s.waiting = true
	return ctrl.Result{}, nil
}

// since is when the machine was made, unless it came from another management cluster or a backup: then its instance
// may have been asked for before.
func (s *state[M, C]) since() time.Time {
	if s.identity().UID != s.machine.GetUID() {
		return time.Time{}
	}
	return s.machine.GetCreationTimestamp().Time
}
