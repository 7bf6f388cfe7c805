// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package kubevirt

import (
	"bytes"
	"context"
	"errors"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"drover.io/infra-providers/driver"
)

// Create implements driver.Driver. The Secret is first, and owns the VirtualMachine: what a late answer creates after the
// machine was deleted has no owner, and Kubernetes deletes it.
func (d *Driver) Create(ctx context.Context, req driver.CreateRequest[InstanceConfig]) (driver.Instance, error) {
	id := req.Identity
	id.ProviderID = ""
	if vmName(id.UID) == "" {
		return driver.Instance{}, driver.NeverValid("metadata.uid", "%q cannot be part of a name", id.UID)
	}
	if len(req.UserData) > corev1.MaxSecretSize {
		return driver.Instance{}, driver.NeverValid("bootstrap data", "%d bytes are more than the %d that a Secret may have", len(req.UserData), corev1.MaxSecretSize)
	}
	if _, err := d.FindImage(ctx, req.Config); err != nil {
		return driver.Instance{}, err
	}
	if err := d.requireAll(ctx, req.Config.Spec); err != nil {
		return driver.Instance{}, err
	}
	if err := d.verifyAccount(ctx); err != nil {
		return driver.Instance{}, err
	}
	secret, err := d.ensureSecret(ctx, id, req.UserData)
	if err != nil {
		return driver.Instance{}, err
	}
	vm := newVirtualMachine(req, secret)
	created := d.api.Create(ctx, vm)
	if created == nil {
		return toInstance(vm, nil), nil
	}
	// Quotas and webhooks refuse a VirtualMachine that exists, too.
	found, err := d.Get(ctx, id)
	switch {
	case err == nil, driver.IsNotOwned(err):
		return found, err
	case apierrors.IsAlreadyExists(created):
		return driver.Instance{}, err // it is being deleted, or the read failed
	default:
		return driver.Instance{}, d.toCreateError(ctx, created, "virtualmachines")
	}
}

// ensureSecret returns the Secret with the bootstrap data, which it creates, or updates after an incomplete creation.
func (d *Driver) ensureSecret(ctx context.Context, id driver.Identity, userData []byte) (*corev1.Secret, error) {
	secret := newSecret(id, d.namespace, userData)
	created := d.api.Create(ctx, secret)
	if created == nil {
		return secret, nil
	}
	key := client.ObjectKeyFromObject(secret)
	secret = &corev1.Secret{}
	err := d.api.Get(ctx, key, secret)
	switch {
	case isNotFound(err, "secrets", key.Name):
		return nil, d.toCreateError(ctx, created, "secrets")
	case err != nil:
		return nil, toError(err)
	}
	if err := id.Check(identity(secret)); err != nil {
		return nil, err
	}
	if !secret.DeletionTimestamp.IsZero() {
		return nil, errSecretDeleting
	}
	if bytes.Equal(secret.Data[userDataKey], userData) {
		return secret, nil
	}
	secret.Data = map[string][]byte{userDataKey: userData}
	if err := d.api.Update(ctx, secret); err != nil {
		return nil, toError(err)
	}
	return secret, nil
}

var errSecretDeleting = errors.New("the Secret with the bootstrap data is being deleted")
