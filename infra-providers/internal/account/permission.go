// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package account

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "drover.io/api/infrastructure/v1alpha1"
	"drover.io/infra-providers/driver"
	"drover.io/infra-providers/internal/throttle"
	"drover.io/runtime/expiring"
)

// +kubebuilder:rbac:groups="",resources=namespaces,verbs=get

// EveryNamespace allows every namespace to use the provider's own credentials.
const EveryNamespace = "*"

// permissionTTL is how long the label of a Namespace is kept.
const permissionTTL = 30 * time.Second

// permission decides which namespaces may use the provider's own credentials: those that a flag names, and those with a
// label. The ValidatingAdmissionPolicy of the provider's manifests permits the label only to users who may update all
// Namespaces; RBAC alone permits it to a user with all rights in the namespace.
type permission struct {
	named      []string
	namespaces client.Reader
	// refusals are by namespace; nil for one that is allowed.
	refusals expiring.Map[string, error]
}

func newPermission(options Options) *permission {
	return &permission{
		named:      options.OwnCredentials,
		namespaces: options.Namespaces,
		refusals:   expiring.Map[string, error]{Clock: throttle.Clock(options.Now), TTL: permissionTTL},
	}
}

// check fails with UnauthorizedError unless a namespace may use the provider's own credentials.
func (p *permission) check(ctx context.Context, namespace string) error {
	if slices.Contains(p.named, EveryNamespace) || namespace != "" && slices.Contains(p.named, namespace) {
		return nil
	}
	if p.namespaces == nil {
		return refused(namespace, "")
	}
	if refusal, ok := p.refusals.Get(namespace); ok {
		return refusal
	}
	object, err := readNamespace(ctx, p.namespaces, namespace)
	switch {
	case apierrors.IsForbidden(err):
		err = refused(namespace, "; the label cannot be read, because the provider may not get namespaces")
	case apierrors.IsNotFound(err):
		err = refused(namespace, "")
	case err != nil: // a failure of the API server, which is neither a permission nor a refusal
		return fmt.Errorf("reading namespace %q: %w", namespace, err)
	case object.Labels[infrav1.OwnCredentialsLabel] != infrav1.OwnCredentialsAllowed:
		err = refused(namespace, "")
	}
	p.refusals.Set(namespace, err)
	return err
}

func readNamespace(ctx context.Context, reader client.Reader, name string) (*metav1.PartialObjectMetadata, error) {
	object := &metav1.PartialObjectMetadata{}
	object.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Namespace"))
	return object, reader.Get(ctx, client.ObjectKey{Name: name}, object)
}

func refused(namespace, note string) error {
	return &driver.UnauthorizedError{Err: fmt.Errorf(
		"namespace %q may not use the provider's own credentials: name a Secret in spec.credentialsSecretName, or have an operator label the namespace %s=%s or list it in --own-credentials-namespaces%s",
		namespace, infrav1.OwnCredentialsLabel, infrav1.OwnCredentialsAllowed, note)}
}

// reset makes the next check read the Namespace again.
func (p *permission) reset(namespace string) { p.refusals.Delete(namespace) }
