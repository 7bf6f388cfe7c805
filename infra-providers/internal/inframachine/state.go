// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package inframachine

import (
	"cmp"
	"context"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "drover.io/api/infrastructure/v1alpha1"
	"drover.io/infra-providers/driver"
	"drover.io/infra-providers/internal/account"
	"drover.io/infra-providers/internal/machinestatus"
)

// phase is one step of a reconcile. It may change the machine of the state, and ends the reconcile by setting
// state.waiting, by a result with a requeue, or by an error.
type phase[M driver.Machine, C any] func(context.Context, *state[M, C]) (ctrl.Result, error)

// state is what one reconcile has read and found.
type state[M driver.Machine, C any] struct {
	machine M
	// owner is the Machine; nil when it does not exist yet or any more.
	owner *clusterv1.Machine
	// cluster is nil when it is not known or does not exist.
	cluster *clusterv1.Cluster

	// waiting ends the reconcile; a watch event starts the next one.
	waiting bool
	// claimChanged is true when this reconcile set the finalizer, the identity or the account, so that it is not stored.
	claimChanged bool
	// newlyClaimed is true when neither finalizer nor identity was stored before, so that no instance can exist.
	newlyClaimed bool
	userData     []byte
	format       string
	observed     driver.Instance
	// created is true when this reconcile created the instance, so that its providerID is not stored yet.
	created bool
	// removal is the event for a machine whose finalizer is removed.
	removal machinestatus.Event
}

// observe reads the Machine and the Cluster that the machine belongs to.
func (r *Reconciler[M, C]) observe(ctx context.Context, machine M) (*state[M, C], error) {
	owner, err := Owner(ctx, r.Client, machine)
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

// Owner returns the Machine that owns an object; nil where it has none, or the Machine does not exist any more.
func Owner(ctx context.Context, reader client.Reader, object metav1.Object) (*clusterv1.Machine, error) {
	ref := OwnerReference(object)
	if ref == nil {
		return nil, nil
	}
	owner := &clusterv1.Machine{}
	key := client.ObjectKey{Namespace: object.GetNamespace(), Name: ref.Name}
	if err := client.IgnoreNotFound(reader.Get(ctx, key, owner)); err != nil {
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

// withLogger returns a context whose logger has the objects that the machine belongs to.
func (s *state[M, C]) withLogger(ctx context.Context) context.Context {
	var values []any
	if name := s.clusterName(); name != "" {
		values = append(values, "Cluster", klog.KRef(s.machine.GetNamespace(), name))
	}
	if s.owner != nil {
		values = append(values, "Machine", klog.KObj(s.owner))
	}
	return ctrl.LoggerInto(ctx, ctrl.LoggerFrom(ctx, values...))
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

// claimed reports whether an instance may have been created for a machine. Identity and account are stored before a creation
// is requested, so without an account there is none, unless the machine has a providerID from before accounts were stored.
func claimed[M driver.Machine](machine M) bool {
	identity := machine.GetAnnotations()[infrav1.IdentityAnnotation]
	return machine.GetStatus().Account != "" || identity != "" && cmp.Or(account.Pinned(machine), machine.GetProviderID()) != ""
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
// empty for a machine that has a providerID and lost its annotation, and for one without an instance.
func Identity(machine driver.Machine, owner driver.Owner) driver.Identity {
	return driver.Identity{
		UID:        types.UID(machine.GetAnnotations()[infrav1.IdentityAnnotation]),
		Name:       machine.GetName(),
		Owner:      owner,
		ProviderID: machine.GetProviderID(),
	}
}

// zone is the failure domain of the Machine.
func (s *state[M, C]) zone() string {
	if s.owner == nil {
		return ""
	}
	return s.owner.Spec.FailureDomain
}

// wait ends the reconcile; a watch event starts the next one.
func (s *state[M, C]) wait(reason, message string) (ctrl.Result, error) {
	machinestatus.SetWaiting(s.machine, reason, message)
	s.waiting = true
	return ctrl.Result{}, nil
}

// since is when the machine was created, unless it came from another management cluster or a backup: then its instance
// may have been created before.
func (s *state[M, C]) since() time.Time {
	if s.identity().UID != s.machine.GetUID() {
		return time.Time{}
	}
	return s.machine.GetCreationTimestamp().Time
}
