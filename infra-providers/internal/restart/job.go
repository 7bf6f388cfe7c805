// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package restart

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	infrav1 "drover.io/api/infrastructure/v1alpha1"
	"drover.io/infra-providers/driver"
	"drover.io/infra-providers/internal/account"
	"drover.io/infra-providers/internal/inframachine"
)

// job is what one reconcile works on.
type job[M driver.Machine, C any] struct {
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

// gather reads what a remediation is about. It returns nothing for one that is not about a machine of this cloud,
// or whose Machine is gone: then the remediation goes too.
func (r *Reconciler[M, C]) gather(ctx context.Context, remediation *infrav1.RestartRemediation) (*job[M, C], error) {
	machine, err := r.ownerOf(ctx, remediation)
	if err != nil || machine == nil {
		return nil, err
	}
	ref := machine.Spec.InfrastructureRef
	kind, err := apiutil.GVKForObject(r.Cloud.NewMachine(), r.Client.Scheme())
	if err != nil || ref.Kind != kind.Kind || ref.APIGroup != kind.Group {
		return nil, err
	}
	j := &job[M, C]{before: remediation.DeepCopy(), remediation: remediation, machine: machine, infra: r.Cloud.NewMachine()}
	cluster := &clusterv1.Cluster{}
	if found, err := r.read(ctx, machine.Namespace, machine.Spec.ClusterName, cluster); err != nil {
		return nil, err
	} else if found {
		j.cluster = cluster
	}
	if j.found, err = r.read(ctx, machine.Namespace, ref.Name, j.infra); err != nil || !j.found {
		return j, err
	}
	j.cloud, j.cloudErr = r.Accounts.Driver(ctx, j.infra)
	return j, nil
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

func (j *job[M, C]) facts(now time.Time) facts {
	id := j.identity()
	return facts{
		remediation: j.remediation,
		machine:     j.machine,
		cluster:     j.cluster,
		leaving:     j.found && !j.infra.GetDeletionTimestamp().IsZero(),
		instance:    j.found && (id.UID != "" || id.ProviderID != ""),
		able:        j.cloudErr != nil || j.cloud.Restart != nil,
		now:         now,
	}
}

// identity names the instance.
func (j *job[M, C]) identity() driver.Identity {
	owner := driver.Owner{Namespace: j.machine.Namespace, Name: j.machine.Spec.ClusterName}
	if j.cluster != nil {
		owner.UID = j.cluster.UID
	}
	return inframachine.Identity(j.infra, owner)
}

// pausedBy says what pauses the remediation, or nothing.
func (j *job[M, C]) pausedBy() string {
	if j.cluster != nil && ptr.Deref(j.cluster.Spec.Paused, false) {
		return "Cluster spec.paused is set to true"
	}
	for _, one := range []struct {
		what   string
		object metav1.Object
	}{{"remediation", j.remediation}, {"Machine", j.machine}, {"infrastructure machine", j.infra}} {
		if _, annotated := one.object.GetAnnotations()[clusterv1.PausedAnnotation]; annotated {
			return fmt.Sprintf("the annotation %s is set on the %s", clusterv1.PausedAnnotation, one.what)
		}
	}
	return ""
}
