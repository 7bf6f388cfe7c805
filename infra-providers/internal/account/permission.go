// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package account

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "drover.io/api/infrastructure/v1alpha1"
	"drover.io/infra-providers/driver"
)

// +kubebuilder:rbac:groups="",resources=namespaces,verbs=get

// EveryNamespace allows every namespace to use the provider's own credentials.
const EveryNamespace = "*"

// remembered is how long the label of a Namespace is believed.
const remembered = 30 * time.Second

// permission answers which namespaces may use the provider's own credentials: those that a flag names, and those that
// a label allows, which only who may change Namespaces can set.
type permission struct {
	named      []string
	namespaces client.Reader
	now        func() time.Time

	mu    sync.Mutex
	known map[string]answer
}

// answer is what was read of a Namespace; nothing is wrong with one that is allowed.
type answer struct {
	refusal error
	read    time.Time
}

func newPermission(options Options) *permission {
	return &permission{named: options.OwnCredentials, namespaces: options.Namespaces, now: options.Now, known: map[string]answer{}}
}

// check fails with UnauthorizedError unless a namespace may use the provider's own credentials.
func (p *permission) check(ctx context.Context, namespace string) error {
	if slices.Contains(p.named, EveryNamespace) || namespace != "" && slices.Contains(p.named, namespace) {
		return nil
	}
	if p.namespaces == nil {
		return refused(namespace, "")
	}
	if known, ok := p.recall(namespace); ok {
		return known.refusal
	}
	object := &metav1.PartialObjectMetadata{}
	object.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Namespace"))
	err := p.namespaces.Get(ctx, client.ObjectKey{Name: namespace}, object)
	switch {
	case apierrors.IsForbidden(err):
		err = refused(namespace, "; the label cannot be read, because the provider may not get namespaces")
	case apierrors.IsNotFound(err):
		err = refused(namespace, "")
	case err != nil: // the API server's own trouble says nothing about the permission
		return fmt.Errorf("reading namespace %q: %w", namespace, err)
	case object.Labels[infrav1.OwnCredentialsLabel] != infrav1.OwnCredentialsAllowed:
		err = refused(namespace, "")
	}
	p.remember(namespace, err)
	return err
}

func refused(namespace, note string) error {
	return &driver.UnauthorizedError{Err: fmt.Errorf(
		"namespace %q may not use the provider's own credentials: name a Secret in spec.credentialsSecretName, or have an operator label the namespace %s=%s or list it in --own-credentials-namespaces%s",
		namespace, infrav1.OwnCredentialsLabel, infrav1.OwnCredentialsAllowed, note)}
}

func (p *permission) recall(namespace string) (answer, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	known, ok := p.known[namespace]
	return known, ok && p.now().Sub(known.read) < remembered
}

// remember also forgets what is too old, so that namespaces that come and go leave nothing behind.
func (p *permission) remember(namespace string, refusal error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.now()
	for name, known := range p.known {
		if now.Sub(known.read) >= remembered {
			delete(p.known, name)
		}
	}
	p.known[namespace] = answer{refusal: refusal, read: now}
}

func (p *permission) forget(namespace string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.known, namespace)
}
