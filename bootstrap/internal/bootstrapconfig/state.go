// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package bootstrapconfig

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"

	bootstrapv1 "drover.io/api/bootstrap/v1alpha1"
	"drover.io/bootstrap/internal/token"
	"drover.io/runtime/predicates"
)

// phase is one step. It returns after how long to reconcile again, if no event comes before; a *waiting error ends the
// reconcile with a condition.
type phase interface {
	reconcile(ctx context.Context, s *state) (time.Duration, error)
}

// state is what a reconcile has read. A phase may change the status of config, and found.
type state struct {
	config  *bootstrapv1.BootstrapConfig
	machine *clusterv1.Machine // nil: no Machine owns it, or it is gone
	cluster *clusterv1.Cluster // nil: it names none, or that is gone

	// spec is that of config, once a phase has applied it with the defaults and binaries of its NodeProfile.
	spec *bootstrapv1.BootstrapConfigSpec

	// found is the token in the data Secret, once a phase has seen or made that.
	found token.Token
}

// observe reads the Machine and the Cluster of a BootstrapConfig.
func (r *Reconciler) observe(ctx context.Context, config *bootstrapv1.BootstrapConfig) (*state, error) {
	s := &state{config: config, spec: &config.Spec}
	if owner := machineOwner(config); owner != nil {
		machine := &clusterv1.Machine{}
		err := r.Client.Get(ctx, types.NamespacedName{Namespace: config.Namespace, Name: owner.Name}, machine)
		switch {
		case err == nil && machine.UID == owner.UID:
			s.machine = machine
		case err != nil && !apierrors.IsNotFound(err):
			return nil, fmt.Errorf("reading Machine: %w", err)
		}
	}
	if name := s.clusterName(); name != "" {
		cluster := &clusterv1.Cluster{}
		err := r.Client.Get(ctx, types.NamespacedName{Namespace: config.Namespace, Name: name}, cluster)
		switch {
		case err == nil:
			s.cluster = cluster
		case !apierrors.IsNotFound(err):
			return nil, fmt.Errorf("reading Cluster: %w", err)
		default:
			r.Connections.Remove(types.NamespacedName{Namespace: config.Namespace, Name: name})
		}
	}
	return s, nil
}

// logger returns the context's logger with the objects that belong to the BootstrapConfig.
func (s *state) logger(ctx context.Context) logr.Logger {
	log := ctrl.LoggerFrom(ctx).WithValues("Cluster", klog.KRef(s.config.Namespace, s.clusterName()))
	if s.machine == nil {
		return log
	}
	log = log.WithValues("Machine", klog.KObj(s.machine))
	if s.joined() {
		log = log.WithValues("Node", klog.KRef("", s.machine.Status.NodeRef.Name))
	}
	return log
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

func (s *state) clusterName() string {
	if name := s.config.Labels[clusterv1.ClusterNameLabel]; name != "" {
		return name
	}
	if s.machine != nil {
		return s.machine.Spec.ClusterName
	}
	return ""
}

func (s *state) clusterKey() types.NamespacedName {
	return types.NamespacedName{Namespace: s.config.Namespace, Name: s.clusterName()}
}

// published reports whether a host may already have the data.
func (s *state) published() bool {
	return ptr.Deref(s.config.Status.Initialization.DataSecretCreated, false)
}

// joined reports whether the Node exists: the token is not needed any more.
func (s *state) joined() bool { return s.machine.Status.NodeRef.Name != "" }

// booted reports whether an instance exists: new data would not reach it.
func (s *state) booted() bool {
	return s.joined() || ptr.Deref(s.machine.Status.Initialization.InfrastructureProvisioned, false)
}

// mayStillJoin reports whether the host may still need the token.
func (s *state) mayStillJoin() bool {
	return !s.joined() && s.machine.DeletionTimestamp.IsZero() && !infrastructureGone(s.machine)
}

// infrastructureGone reports whether the Machine's infrastructure object was deleted.
func infrastructureGone(machine *clusterv1.Machine) bool {
	c := meta.FindStatusCondition(machine.Status.Conditions, clusterv1.MachineInfrastructureReadyCondition)
	return c != nil && c.Reason == clusterv1.MachineInfrastructureDeletedReason
}

// ownership waits until a Machine owns the BootstrapConfig and its Cluster exists. A Machine that is being deleted
// before there was data gets none, and so does one whose Cluster is another manager's.
type ownership struct{ watch predicates.WatchFilter }

func (o *ownership) reconcile(_ context.Context, s *state) (time.Duration, error) {
	switch {
	case s.machine == nil:
		return 0, waitForMachine()
	case !s.machine.DeletionTimestamp.IsZero() && !s.published():
		return 0, machineDeleted(s.machine.Name)
	case s.cluster == nil:
		return 0, waitForCluster(s.clusterName())
	case !o.watch.Matches(s.cluster):
		return 0, waitForClusterLabel(s.cluster.Name, o.watch)
	}
	return 0, nil
}

func groupOf(apiVersion string) string {
	group, _, _ := strings.Cut(apiVersion, "/")
	return group
}
