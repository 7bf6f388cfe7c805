// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package inframachine

import (
	"context"
	"fmt"
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	infrav1 "drover.io/api/infrastructure/v1alpha1"
	"drover.io/infra-providers/driver"
)

// secretRetry is the pause before a bootstrap Secret that could not be used is read again: Secrets are
// not watched.
const secretRetry = 10 * time.Second

func (r *Reconciler[M, C]) waitForOwner(_ context.Context, job *job[M, C]) (ctrl.Result, error) {
	if job.owner != nil {
		return ctrl.Result{}, nil
	}
	return job.wait(WaitingForMachineReason, "waiting for a Machine to own this object")
}

// claim puts the finalizer, the identity and the first choice on the object. They are stored at the end of
// this reconcile, and checkpoint lets nothing be created before.
func (r *Reconciler[M, C]) claim(ctx context.Context, job *job[M, C]) (ctrl.Result, error) {
	job.unclaimed = controllerutil.AddFinalizer(job.machine, infrav1.MachineFinalizer)
	if job.machine.GetAnnotations()[infrav1.IdentityAnnotation] == "" && job.machine.GetProviderID() == "" {
		setIdentity(job.machine, job.machine.GetUID())
		setChoice(job.machine, r.firstChoice(ctx, job))
		job.fresh, job.unclaimed = job.unclaimed, true
	}
	return ctrl.Result{}, nil
}

// checkpoint ends a reconcile that claimed: the stored claim comes back as an event, so no instance can
// exist that the API server does not know of.
func (r *Reconciler[M, C]) checkpoint(_ context.Context, job *job[M, C]) (ctrl.Result, error) {
	job.waiting = job.unclaimed
	return ctrl.Result{}, nil
}

func setIdentity[M driver.Machine](machine M, uid types.UID) {
	annotations := maps.Clone(machine.GetAnnotations())
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[infrav1.IdentityAnnotation] = string(uid)
	machine.SetAnnotations(annotations)
}

func (r *Reconciler[M, C]) waitForCluster(_ context.Context, job *job[M, C]) (ctrl.Result, error) {
	switch {
	case job.machine.GetProviderID() != "":
		return ctrl.Result{}, nil
	case job.cluster == nil:
		return job.wait(WaitingForClusterReason, fmt.Sprintf("waiting for Cluster %q to exist", job.clusterName()))
	case !ptr.Deref(job.cluster.Status.Initialization.InfrastructureProvisioned, false):
		return job.wait(WaitingForClusterReason, fmt.Sprintf("waiting for the infrastructure of Cluster %q to be provisioned", job.cluster.Name))
	default:
		return ctrl.Result{}, nil
	}
}

// waitForBootstrap waits for the Machine to name its bootstrap data.
func (r *Reconciler[M, C]) waitForBootstrap(_ context.Context, job *job[M, C]) (ctrl.Result, error) {
	if job.machine.GetProviderID() != "" || ptr.Deref(job.owner.Spec.Bootstrap.DataSecretName, "") != "" {
		return ctrl.Result{}, nil
	}
	return job.wait(WaitingForBootstrapReason, fmt.Sprintf("waiting for Machine %q to have spec.bootstrap.dataSecretName", job.owner.Name))
}

func (r *Reconciler[M, C]) bootstrap(ctx context.Context, job *job[M, C]) (ctrl.Result, error) {
	if job.machine.GetProviderID() != "" {
		return ctrl.Result{}, nil
	}
	name := *job.owner.Spec.Bootstrap.DataSecretName
	secret := &corev1.Secret{}
	err := r.Live.Get(ctx, client.ObjectKey{Namespace: job.machine.GetNamespace(), Name: name}, secret)
	if err == nil && len(secret.Data["value"]) == 0 {
		err = errNoBootstrapValue
	} else if err != nil && !apierrors.IsNotFound(err) {
		return ctrl.Result{}, fmt.Errorf("reading bootstrap data: %w", err)
	}
	if err != nil {
		setWaiting(job.machine, BootstrapDataInvalidReason, fmt.Sprintf("using bootstrap Secret %q: %v", name, err))
		return ctrl.Result{RequeueAfter: secretRetry}, nil
	}
	job.userData, job.format = secret.Data["value"], string(secret.Data["format"])
	return ctrl.Result{}, nil
}
