// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package bootstrapconfig

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	bootstrapv1 "drover.io/api/bootstrap/v1alpha1"
	"drover.io/bootstrap/internal/render"
	"drover.io/bootstrap/internal/token"
	"drover.io/bootstrap/internal/workload"
	"drover.io/bootstrap/node"
)

// Keys of the data Secret. value is the contract's; format is what providers expect beside it; token is the
// token in value, so that the same token can be made again if it expired before the host had booted; redact lists
// the words that are removed from what is quoted of the host's console, one in each line.
const (
	valueKey  = "value"
	formatKey = "format"
	tokenKey  = "token"
	redactKey = "redact"
)

// data writes the data Secret, for the last time before it is published. The Secret is created before the token: after a
// crash in between, the next reconcile reads the token from it, and no token exists that is in no Secret.
type data struct {
	reconciler *Reconciler
}

func (d *data) reconcile(ctx context.Context, s *state) (time.Duration, error) {
	if s.published() && !needsToken(s) {
		return 0, nil
	}
	secret, err := d.read(ctx, s)
	if err != nil {
		return 0, err
	}
	if secret != nil {
		s.found, _ = token.Parse(string(secret.Data[tokenKey]))
	}
	if s.published() || s.booted() {
		return 0, nil // new data would not be used
	}
	return 0, d.write(ctx, s, secret)
}

// needsToken reports whether the token may have to be renewed or deleted.
func needsToken(s *state) bool { return s.mayStillJoin() || s.joined() && hasFinalizer(s.config) }

// read returns the data Secret, or nil if there is none.
func (d *data) read(ctx context.Context, s *state) (*corev1.Secret, error) {
	secret := &corev1.Secret{}
	err := d.reconciler.Live.Get(ctx, client.ObjectKeyFromObject(s.config), secret)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading data Secret: %w", err)
	}
	if owner := metav1.GetControllerOf(secret); owner == nil || owner.UID != s.config.UID {
		if owner != nil && owner.Kind == "BootstrapConfig" && owner.Name == s.config.Name {
			return nil, waitForGarbageCollection(secret.Name) // of a BootstrapConfig of the same name that is gone
		}
		return nil, secretConflict(secret.Name)
	}
	return secret, nil
}

// write creates the data Secret, or replaces one that is not published and is out of date: the kubeconfig, the Cluster or
// the spec may have been corrected since. The token stays.
func (d *data) write(ctx context.Context, s *state, before *corev1.Secret) error {
	if err := ready(s); err != nil {
		return err
	}
	r := d.reconciler
	if err := r.applyProfile(ctx, s); err != nil {
		return err
	}
	secrets, err := d.references(ctx, s)
	if err != nil {
		return err
	}
	connection, err := r.connect(ctx, s)
	if err != nil {
		return err
	}
	if err := checkKubeadm(ctx, s, connection); err != nil {
		return err
	}
	if s.found == (token.Token{}) {
		if s.found, err = r.NewToken(); err != nil {
			return err
		}
	}
	secret, err := newSecret(s, secrets, connection.Server)
	if err != nil {
		return err
	}
	if before != nil && maps.EqualFunc(before.Data, secret.Data, bytes.Equal) {
		return nil
	}
	// First: a cache that is behind does not have it, and the conflict keeps data that was published from being deleted.
	if err := r.setFinalizer(ctx, s.config, true); err != nil {
		return fmt.Errorf("adding finalizer: %w", err)
	}
	if before != nil {
		if err := r.Client.Delete(ctx, before, client.Preconditions{UID: &before.UID, ResourceVersion: &before.ResourceVersion}); err != nil {
			return fmt.Errorf("deleting outdated data Secret: %w", err)
		}
	}
	if err := r.Client.Create(ctx, secret); err != nil {
		return fmt.Errorf("creating data Secret: %w", err)
	}
	if before == nil {
		ctrl.LoggerFrom(ctx).Info("created bootstrap data", "Secret", klog.KObj(secret))
	} else {
		ctrl.LoggerFrom(ctx).Info("replaced bootstrap data", "Secret", klog.KObj(secret))
	}
	return nil
}

// ready waits for what the Cluster must have before a host can join it.
func ready(s *state) error {
	if !ptr.Deref(s.cluster.Status.Initialization.InfrastructureProvisioned, false) {
		return waitForInfrastructure(s.cluster.Name)
	}
	if !s.cluster.Spec.ControlPlaneEndpoint.IsValid() && s.config.Spec.Join.Endpoint == "" {
		return waitForEndpoint(s.cluster)
	}
	return nil
}

// references reads the Secrets that the spec refers to, each once.
func (d *data) references(ctx context.Context, s *state) (map[bootstrapv1.SecretKeyReference][]byte, error) {
	values := map[bootstrapv1.SecretKeyReference][]byte{}
	all, size := referencesOf(s.spec), 0
	for _, first := range all {
		if _, read := values[first.ref]; read {
			continue
		}
		secret := &corev1.Secret{}
		err := d.reconciler.Live.Get(ctx, types.NamespacedName{Namespace: s.config.Namespace, Name: first.ref.Name}, secret)
		if client.IgnoreNotFound(err) != nil {
			return nil, fmt.Errorf("reading Secret of %s: %w", first.field, err)
		}
		for _, r := range all {
			value, found := secret.Data[r.ref.Key]
			if _, read := values[r.ref]; read || r.ref.Name != first.ref.Name {
				continue
			}
			if !found {
				return nil, missingReference(r.field, r.ref)
			}
			values[r.ref] = value
			if size += len(value); size > render.MaxContent {
				return nil, largeReferences(r.field)
			}
		}
	}
	return values, nil
}

// reference is a field that takes its value from a Secret.
type reference struct {
	field string
	ref   bootstrapv1.SecretKeyReference
}

func referencesOf(spec *bootstrapv1.BootstrapConfigSpec) []reference {
	var all []reference
	for i, f := range spec.Files {
		all = append(all, reference{fmt.Sprintf("spec.files[%d].contentFrom", i), f.ContentFrom})
	}
	all = append(all,
		reference{"spec.containerd.registryCredentialsFrom", spec.Containerd.RegistryCredentialsFrom},
		reference{"spec.rhel.subscription.activationKeyFrom", spec.RHEL.Subscription.ActivationKeyFrom},
		reference{"spec.rhel.subscription.usernameFrom", spec.RHEL.Subscription.UsernameFrom},
		reference{"spec.rhel.subscription.passwordFrom", spec.RHEL.Subscription.PasswordFrom},
	)
	return slices.DeleteFunc(all, func(r reference) bool { return r.ref.Name == "" })
}

// newSecret makes the data Secret.
func newSecret(s *state, secrets map[bootstrapv1.SecretKeyReference][]byte, server workload.Server) (*corev1.Secret, error) {
	endpoint := s.cluster.Spec.ControlPlaneEndpoint
	in := node.Input{
		Spec:          s.spec,
		Secrets:       secrets,
		MachineName:   s.machine.Name,
		Version:       s.machine.Spec.Version,
		Endpoint:      net.JoinHostPort(endpoint.Host, strconv.Itoa(int(endpoint.Port))),
		TLSServerName: server.TLSServerName,
		CA:            server.CA,
		Token:         s.found.Value(),
		ClusterDomain: s.cluster.Spec.ClusterNetwork.ServiceDomain,
	}
	if ranges := s.cluster.Spec.ClusterNetwork.Services.CIDRBlocks; len(ranges) > 0 {
		in.ServiceCIDR = ranges[0]
	}
	value, format, err := render.Data(in)
	if err != nil {
		return nil, invalidSpec(err) // it fails again until something is changed
	}
	words := strings.Join(node.SecretWords(in), "\n")
	if size := len(value) + len(format) + len(in.Token) + len(words); size > corev1.MaxSecretSize {
		return nil, largeSecret(size, len(words))
	}
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Name:      s.config.Name,
			Namespace: s.config.Namespace,
			Labels:    map[string]string{clusterv1.ClusterNameLabel: s.cluster.Name},
			OwnerReferences: []metav1.OwnerReference{
				*metav1.NewControllerRef(s.config, bootstrapv1.GroupVersion.WithKind("BootstrapConfig")),
			},
		},
		Type: clusterv1.ClusterSecretType,
		Data: map[string][]byte{
			valueKey:  value,
			formatKey: []byte(format),
			tokenKey:  []byte(s.found.Value()),
			redactKey: []byte(words),
		},
	}
	return secret, nil
}
