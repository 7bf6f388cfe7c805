// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package restart

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	infrav1 "drover.io/api/infrastructure/v1alpha1"
	"drover.io/infra-providers/driver"
	"drover.io/infra-providers/internal/account"
	"drover.io/infra-providers/internal/inframachine"
	"drover.io/runtime/predicates"
)

// state is what one reconcile has read.
type state[M driver.Machine, C any] struct {
	// before is the remediation as it is stored.
	before, remediation *infrav1.RestartRemediation
	machine             *clusterv1.Machine
	// cluster is nil when it is gone.
	cluster *clusterv1.Cluster
	// infra counts only if found is true.
	infra M
	found bool
	// cloud is the driver of the machine's account, or cloudErr why there is none.
	cloud    account.Account[C]
	cloudErr error
}

// observe reads what a remediation is about. It returns nil for one of a machine of another cloud, or whose Machine does
// not exist any more: then the remediation is deleted too.
func (r *Reconciler[M, C]) observe(ctx context.Context, remediation *infrav1.RestartRemediation) (*state[M, C], error) {
	machine, err := r.ownerOf(ctx, remediation)
	if err != nil || machine == nil {
		return nil, err
	}
	ref := machine.Spec.InfrastructureRef
	kind, err := apiutil.GVKForObject(r.Cloud.NewMachine(), r.Client.Scheme())
	if err != nil || ref.Kind != kind.Kind || ref.APIGroup != kind.Group {
		return nil, err
	}
	s := &state[M, C]{before: remediation.DeepCopy(), remediation: remediation, machine: machine, infra: r.Cloud.NewMachine()}
	cluster := &clusterv1.Cluster{}
	if found, err := r.read(ctx, machine.Namespace, machine.Spec.ClusterName, cluster); err != nil {
		return nil, err
	} else if found {
		s.cluster = cluster
	}
	if s.found, err = r.read(ctx, machine.Namespace, ref.Name, s.infra); err != nil || !s.found {
		return s, err
	}
	s.cloud, s.cloudErr = r.Accounts.Driver(ctx, s.infra)
	return s, nil
}

// ownerOf returns the Machine that owns a remediation, or nil.
func (r *Reconciler[M, C]) ownerOf(ctx context.Context, remediation *infrav1.RestartRemediation) (*clusterv1.Machine, error) {
	ref := inframachine.OwnerReference(remediation)
	if ref == nil {
		return nil, nil //nolint:nilnil // a remediation need not have an owner
	}
	machine := &clusterv1.Machine{}
	found, err := r.read(ctx, remediation.Namespace, ref.Name, machine)
	if err != nil || !found || machine.UID != ref.UID {
		return nil, err
	}
	return machine, nil
}

func (r *Reconciler[M, C]) read(ctx context.Context, namespace, name string, object client.Object) (found bool, err error) {
	err = r.Live.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, object)
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("reading %T %q: %w", object, name, err)
	}
	return true, nil
}

// withLogger returns a context whose logger has the objects that the remediation is about.
func (s *state[M, C]) withLogger(ctx context.Context) context.Context {
	ref := s.machine.Spec.InfrastructureRef
	return ctrl.LoggerInto(ctx, ctrl.LoggerFrom(ctx,
		"Cluster", klog.KRef(s.machine.Namespace, s.machine.Spec.ClusterName), "Machine", klog.KObj(s.machine), ref.Kind, klog.KRef(s.machine.Namespace, ref.Name)))
}

func (s *state[M, C]) facts(now time.Time) decisionInput {
	id := s.identity()
	return decisionInput{
		remediation: s.remediation,
		machine:     s.machine,
		cluster:     s.cluster,
		deleting:    s.found && !s.infra.GetDeletionTimestamp().IsZero(),
		instance:    s.found && (id.UID != "" || id.ProviderID != ""),
		supported:   s.cloudErr != nil || s.cloud.Restart != nil,
		now:         now,
	}
}

// identity names the instance.
func (s *state[M, C]) identity() driver.Identity {
	owner := driver.Owner{Namespace: s.machine.Namespace, Name: s.machine.Spec.ClusterName}
	if s.cluster != nil {
		owner.UID = s.cluster.UID
	}
	return inframachine.Identity(s.infra, owner)
}

// excludedByWatchFilter returns what of the remediation is labelled for another provider, or "".
func (s *state[M, C]) excludedByWatchFilter(watch predicates.WatchFilter) string {
	for _, one := range []struct {
		what   string
		object metav1.Object
	}{{"Machine", s.machine}, {"infrastructure machine", s.infra}} {
		if watch.Foreign(one.object) {
			return fmt.Sprintf("the %s has the label %s: %q, so another provider acts on it: set the label to %q, or delete the remediation",
				one.what, clusterv1.WatchLabel, one.object.GetLabels()[clusterv1.WatchLabel], string(watch))
		}
	}
	return ""
}

// pausedCondition is True if the remediation, its Machine or the infrastructure machine is paused.
func (s *state[M, C]) pausedCondition() metav1.Condition {
	condition := predicates.PausedCondition(s.cluster, s.remediation, "RestartRemediation")
	if condition.Status != metav1.ConditionTrue {
		condition = predicates.PausedCondition(nil, s.machine, "Machine")
	}
	if condition.Status != metav1.ConditionTrue {
		condition = predicates.PausedCondition(nil, s.infra, "infrastructure machine")
	}
	return condition
}
