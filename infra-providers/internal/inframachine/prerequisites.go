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
	"drover.io/infra-providers/internal/account"
	"drover.io/infra-providers/internal/machinestatus"
	"drover.io/infra-providers/internal/managementclaim"
)

// secretRetry is the pause before a bootstrap Secret that could not be used is read again: Secrets are not watched.
const secretRetry = 10 * time.Second

func (r *Reconciler[M, C]) waitForOwner(_ context.Context, s *state[M, C]) (ctrl.Result, error) {
	if s.owner != nil {
		return ctrl.Result{}, nil
	}
	return s.wait(infrav1.WaitingForMachineReason, "waiting for a Machine to own this object")
}

// claim puts the finalizer, the identity and the first choice on the object. They are stored at the end of this
// reconcile, and storeClaim prevents a creation before.
func (r *Reconciler[M, C]) claim(ctx context.Context, s *state[M, C]) (ctrl.Result, error) {
	s.claimChanged = controllerutil.AddFinalizer(s.machine, infrav1.MachineFinalizer)
	if s.machine.GetAnnotations()[infrav1.IdentityAnnotation] == "" && s.machine.GetProviderID() == "" {
		setIdentity(s.machine, s.machine.GetUID())
		setChoice(s.machine, r.firstChoice(ctx, s))
		s.newlyClaimed, s.claimChanged = s.claimChanged, true
		// The account is written with the claim where it is known already. Otherwise pinAccount reports why.
		if cloud, err := r.Accounts.Driver(ctx, s.machine); err == nil {
			if id, err := cloud.ID(ctx); err == nil {
				setAccount(s.machine, id)
			}
		}
	}
	return ctrl.Result{}, nil
}

// pinAccount puts the account on an object before anything is created there, and continues with one that is stored.
func (r *Reconciler[M, C]) pinAccount(ctx context.Context, s *state[M, C]) (ctrl.Result, error) {
	if pinned := account.Pinned(s.machine); pinned != "" {
		annotateAccount(s.machine, pinned)
		return ctrl.Result{}, nil
	}
	if s.machine.GetProviderID() != "" {
		return ctrl.Result{}, nil // readInstance pins it once the instance was found
	}
	cloud, err := r.Accounts.Driver(ctx, s.machine)
	if err != nil {
		return r.failed(ctx, s, err)
	}
	id, err := cloud.ID(ctx)
	if err != nil {
		return r.failed(ctx, s, fmt.Errorf("identifying the account: %w", err))
	}
	s.claimChanged = setAccount(s.machine, id) || s.claimChanged
	return ctrl.Result{}, nil
}

// setAccount pins a machine to the account that its credentials were found to lead to, in the annotation that outlives a
// move and in the status, which its owner cannot write. It reports whether the annotation changed. A cloud without
// names for its accounts changes nothing.
func setAccount[M driver.Machine](machine M, id string) (changed bool) {
	if id == "" {
		return false
	}
	machine.GetStatus().Account = id
	return annotateAccount(machine, id)
}

// annotateAccount writes the annotation of a machine that has lost it.
func annotateAccount[M driver.Machine](machine M, id string) (changed bool) {
	if machine.GetAnnotations()[infrav1.AccountAnnotation] == id {
		return false
	}
	annotate(machine, infrav1.AccountAnnotation, id)
	return true
}

// storeClaim ends a reconcile that changed the claim. The write causes a watch event, and the next reconcile continues
// with what is stored, so that no instance can exist without a record in the API server.
func (r *Reconciler[M, C]) storeClaim(_ context.Context, s *state[M, C]) (ctrl.Result, error) {
	s.waiting = s.claimChanged
	return ctrl.Result{}, nil
}

func setIdentity[M driver.Machine](machine M, uid types.UID) {
	annotate(machine, infrav1.IdentityAnnotation, string(uid))
}

func annotate[M driver.Machine](machine M, name, value string) {
	annotations := maps.Clone(machine.GetAnnotations())
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[name] = value
	machine.SetAnnotations(annotations)
}

func (r *Reconciler[M, C]) waitForCluster(_ context.Context, s *state[M, C]) (ctrl.Result, error) {
	switch {
	case s.machine.GetProviderID() != "":
		return ctrl.Result{}, nil
	case s.cluster == nil:
		return s.wait(infrav1.WaitingForClusterReason, fmt.Sprintf("waiting for Cluster %q to exist", s.clusterName()))
	case !ptr.Deref(s.cluster.Status.Initialization.InfrastructureProvisioned, false):
		return s.wait(infrav1.WaitingForClusterReason, fmt.Sprintf("waiting for the infrastructure of Cluster %q to be provisioned", s.cluster.Name))
	default:
		return ctrl.Result{}, nil
	}
}

// waitForClaim waits while another management cluster may act on the Cluster: it may have created the machine's instance
// already, and deleted the Machine since. An instance that is known here is still read.
func (r *Reconciler[M, C]) waitForClaim(_ context.Context, s *state[M, C]) (ctrl.Result, error) {
	if s.machine.GetProviderID() != "" || !managementclaim.Forbids(s.cluster) {
		return ctrl.Result{}, nil
	}
	return s.wait(infrav1.WaitingForManagementClaimReason, managementclaim.Message)
}

// waitForBootstrap waits for the Machine to name its bootstrap data.
func (r *Reconciler[M, C]) waitForBootstrap(_ context.Context, s *state[M, C]) (ctrl.Result, error) {
	if s.machine.GetProviderID() != "" || ptr.Deref(s.owner.Spec.Bootstrap.DataSecretName, "") != "" {
		return ctrl.Result{}, nil
	}
	return s.wait(infrav1.WaitingForBootstrapReason, fmt.Sprintf("waiting for Machine %q to have spec.bootstrap.dataSecretName", s.owner.Name))
}

// readBootstrapData reads the user data from the Secret that the Machine names.
func (r *Reconciler[M, C]) readBootstrapData(ctx context.Context, s *state[M, C]) (ctrl.Result, error) {
	if s.machine.GetProviderID() != "" {
		return ctrl.Result{}, nil
	}
	name := *s.owner.Spec.Bootstrap.DataSecretName
	secret := &corev1.Secret{}
	err := r.Live.Get(ctx, client.ObjectKey{Namespace: s.machine.GetNamespace(), Name: name}, secret)
	problem := ""
	switch {
	case apierrors.IsNotFound(err):
		problem = "does not exist: create it with the user data in data.value"
	case err != nil:
		return ctrl.Result{}, fmt.Errorf("reading bootstrap data: %w", err)
	case len(secret.Data["value"]) == 0:
		problem = "has no user data in data.value: add it"
	}
	if problem != "" {
		machinestatus.SetWaiting(s.machine, infrav1.BootstrapDataInvalidReason, fmt.Sprintf("the Secret %q of spec.bootstrap.dataSecretName of the Machine %s", name, problem))
		return ctrl.Result{RequeueAfter: secretRetry}, nil
	}
	s.userData, s.format = secret.Data["value"], string(secret.Data["format"])
	return ctrl.Result{}, nil
}
