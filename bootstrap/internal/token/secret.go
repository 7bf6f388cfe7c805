// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package token

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	bootstrapapi "k8s.io/cluster-bootstrap/token/api"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"

	bootstrapv1 "drover.io/api/bootstrap/v1alpha1"
)

// ErrTaken means that another token has the same id.
var ErrTaken = errors.New("the id of the bootstrap token is taken")

// Request is a token that should be valid.
type Request struct {
	Token      Token
	MachineUID types.UID
	Machine    string // namespace/name, for the description
	TTL        time.Duration
	Now        time.Time
}

// Ensure makes the token valid in the workload cluster: it creates its Secret, or renews it once half of its
// time has gone. It returns how long the token needs no attention.
func Ensure(ctx context.Context, core corev1client.CoreV1Interface, r Request) (time.Duration, error) {
	secrets := core.Secrets(metav1.NamespaceSystem)
	secret, err := secrets.Get(ctx, secretName(r.Token), metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		_, err = secrets.Create(ctx, newSecret(r), metav1.CreateOptions{})
		if apierrors.IsAlreadyExists(err) {
			return 0, nil // made a moment ago: look again
		}
		if err != nil {
			return 0, fmt.Errorf("creating bootstrap token: %w", err)
		}
		decisions.Inc(created)
		ctrl.LoggerFrom(ctx).Info("created bootstrap token", "Secret", secretRef(secretName(r.Token)), "after", r.TTL)
		return r.TTL / 2, nil
	}
	if err != nil {
		return 0, fmt.Errorf("reading bootstrap token: %w", err)
	}
	if !holds(secret, r.Token) {
		decisions.Inc(idTaken)
		return 0, ErrTaken
	}
	expires, err := time.Parse(time.RFC3339, string(secret.Data[bootstrapapi.BootstrapTokenExpirationKey]))
	ours := secret.Labels[bootstrapv1.MachineUIDLabel] == string(r.MachineUID) && string(secret.Data[bootstrapapi.BootstrapTokenExtraGroupsKey]) == Group
	if left := expires.Sub(r.Now); err == nil && left > r.TTL/2 && ours {
		return left - r.TTL/2, nil
	}
	patch, err := json.Marshal(map[string]any{
		"metadata":   map[string]any{"labels": map[string]any{bootstrapv1.MachineUIDLabel: r.MachineUID}},
		"stringData": map[string]any{bootstrapapi.BootstrapTokenExpirationKey: expiration(r), bootstrapapi.BootstrapTokenExtraGroupsKey: Group},
	})
	if err != nil {
		return 0, err
	}
	if _, err := secrets.Patch(ctx, secret.Name, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		return 0, fmt.Errorf("renewing bootstrap token: %w", err)
	}
	decisions.Inc(renewed)
	ctrl.LoggerFrom(ctx).Info("renewed bootstrap token", "Secret", secretRef(secret.Name), "after", r.TTL)
	return r.TTL / 2, nil
}

// Revoke deletes every token of a Machine, and the given one even if it is not marked with the Machine's UID,
// which changes when the Machine moves to another management cluster. The given token may be empty.
func Revoke(ctx context.Context, core corev1client.CoreV1Interface, machine types.UID, t Token) error {
	secrets := core.Secrets(metav1.NamespaceSystem)
	marked, err := secrets.List(ctx, metav1.ListOptions{LabelSelector: bootstrapv1.MachineUIDLabel + "=" + string(machine)})
	if err != nil {
		return fmt.Errorf("listing bootstrap tokens: %w", err)
	}
	tokens := marked.Items
	if t != (Token{}) {
		given, err := secrets.Get(ctx, secretName(t), metav1.GetOptions{})
		switch {
		case err == nil && holds(given, t):
			tokens = append(tokens, *given)
		case err != nil && !apierrors.IsNotFound(err):
			return fmt.Errorf("reading bootstrap token: %w", err)
		}
	}
	for _, s := range tokens {
		if s.Type != corev1.SecretTypeBootstrapToken {
			decisions.Inc(notFound)
			continue // the label alone does not make it a token
		}
		err := secrets.Delete(ctx, s.Name, metav1.DeleteOptions{})
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return fmt.Errorf("deleting bootstrap token: %w", err)
		}
		decisions.Inc(deleted)
		ctrl.LoggerFrom(ctx).Info("deleted bootstrap token", "Secret", secretRef(s.Name))
	}
	return nil
}

func secretRef(name string) klog.ObjectRef { return klog.KRef(metav1.NamespaceSystem, name) }

func secretName(t Token) string { return bootstrapapi.BootstrapTokenSecretPrefix + t.ID }

func holds(s *corev1.Secret, t Token) bool {
	return string(s.Data[bootstrapapi.BootstrapTokenSecretKey]) == t.Secret
}

func expiration(r Request) string { return r.Now.Add(r.TTL).UTC().Format(time.RFC3339) }

func newSecret(r Request) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Name:      secretName(r.Token),
			Namespace: metav1.NamespaceSystem,
			Labels:    map[string]string{bootstrapv1.MachineUIDLabel: string(r.MachineUID)},
		},
		Type: corev1.SecretTypeBootstrapToken,
		StringData: map[string]string{
			bootstrapapi.BootstrapTokenIDKey:               r.Token.ID,
			bootstrapapi.BootstrapTokenSecretKey:           r.Token.Secret,
			bootstrapapi.BootstrapTokenExpirationKey:       expiration(r),
			bootstrapapi.BootstrapTokenUsageAuthentication: "true",
			bootstrapapi.BootstrapTokenExtraGroupsKey:      Group,
			bootstrapapi.BootstrapTokenDescriptionKey:      "bootstrap token of Machine " + r.Machine + ", deleted when its Node has joined",
		},
	}
}
