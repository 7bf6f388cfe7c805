// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package bootstrapconfig

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	bootstrapv1 "drover.io/api/bootstrap/v1alpha1"
	"drover.io/bootstrap/internal/token"
)

// phase is one step. It returns after how long to look again, if nothing happens before; a *waiting error ends
// the reconcile with a condition.
type phase interface {
	reconcile(ctx context.Context, t *target) (time.Duration, error)
}

// target is what the phases look at. A phase may change the status of config, and found.
type target struct {
	config  *bootstrapv1.BootstrapConfig
	machine *clusterv1.Machine // nil: no Machine owns it, or it is gone
	cluster *clusterv1.Cluster // nil: it names none, or that is gone

	// found is the token in the data Secret, once a phase has seen or made that.
	found token.Token
}

// target gathers the Machine and the Cluster of a BootstrapConfig.
func (r *Reconciler) target(ctx context.Context, config *bootstrapv1.BootstrapConfig) (*target, error) {
	t := &target{config: config}
	if owner := machineOwner(config); owner != nil {
		machine := &clusterv1.Machine{}
		err := r.Client.Get(ctx, types.NamespacedName{Namespace: config.Namespace, Name: owner.Name}, machine)
		switch {
		case err == nil && machine.UID == owner.UID:
			t.machine = machine
		case err != nil && !apierrors.IsNotFound(err):
			return nil, fmt.Errorf("reading Machine: %w", err)
		}
	}
	if name := t.clusterName(); name != "" {
		cluster := &clusterv1.Cluster{}
		err := r.Client.Get(ctx, types.NamespacedName{Namespace: config.Namespace, Name: name}, cluster)
		switch {
		case err == nil:
			t.cluster = cluster
		case !apierrors.IsNotFound(err):
			return nil, fmt.Errorf("reading Cluster: %w", err)
		default:
			r.Connections.Forget(types.NamespacedName{Namespace: config.Namespace, Name: name})
		}
	}
	return t, nil
}

func machineOwner(config *bootstrapv1.BootstrapConfig) *metav1.OwnerReference {
	owner := metav1.GetControllerOf(config)
	if owner == nil || owner.Kind != "Machine" {
		return nil
	}
	if groupOf(owner.APIVersion) != clusterv1.GroupVersion.Group {
		return nil
	}
	return owner
}

func (t *target) clusterName() string {
	if name := t.config.Labels[clusterv1.ClusterNameLabel]; name != "" {
		return name
	}
	if t.machine != nil {
		return t.machine.Spec.ClusterName
	}
	return ""
}

func (t *target) clusterKey() types.NamespacedName {
	return types.NamespacedName{Namespace: t.config.Namespace, Name: t.clusterName()}
}

func (t *target) paused() bool {
	_, annotated := t.config.Annotations[clusterv1.PausedAnnotation]
	return annotated || t.cluster != nil && ptr.Deref(t.cluster.Spec.Paused, false)
}

// published tells whether the core may already have handed the data to a host.
func (t *target) published() bool {
	return ptr.Deref(t.config.Status.Initialization.DataSecretCreated, false)
}

// joined tells whether the Node is known: nobody needs the token any more.
func (t *target) joined() bool { return t.machine.Status.NodeRef.Name != "" }

// booted tells whether an instance exists: new data would not reach it.
func (t *target) booted() bool {
	return t.joined() || ptr.Deref(t.machine.Status.Initialization.InfrastructureProvisioned, false)
}

// mayStillJoin tells whether the host may yet need the token.
func (t *target) mayStillJoin() bool {
	return !t.joined() && t.machine.DeletionTimestamp.IsZero() && !infrastructureGone(t.machine)
}

// infrastructureGone tells whether the core has seen the instance's object disappear.
func infrastructureGone(machine *clusterv1.Machine) bool {
	c := meta.FindStatusCondition(machine.Status.Conditions, clusterv1.MachineInfrastructureReadyCondition)
	return c != nil && c.Reason == clusterv1.MachineInfrastructureDeletedReason
}

// ownership waits until a Machine owns the BootstrapConfig and its Cluster exists. A Machine that is being deleted
// before there was data gets none.
type ownership struct{}

func (*ownership) reconcile(_ context.Context, t *target) (time.Duration, error) {
	switch {
	case t.machine == nil:
		return 0, waitForMachine()
	case !t.machine.DeletionTimestamp.IsZero() && !t.published():
		return 0, machineGoes(t.machine.Name)
	case t.cluster == nil:
		return 0, waitForCluster(t.clusterName())
	}
	return 0, nil
}
