// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package bootstrapconfig

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	bootstrapv1 "drover.io/api/bootstrap/v1alpha1"
	"drover.io/bootstrap/internal/token"
	"drover.io/bootstrap/internal/workload"
)

const (
	defaultTTL = 30 * time.Minute

	// A deleted BootstrapConfig asks this long and this often before it leaves the token to expire.
	revokeGrace = 30 * time.Second
	revokeRetry = 5 * time.Second

	accessEnsured = "join access"
)

// bootstrapToken keeps the token valid while the host may need it, and deletes it once the Node has joined.
type bootstrapToken struct {
	reconciler *Reconciler
}

func (b *bootstrapToken) reconcile(ctx context.Context, t *target) (time.Duration, error) {
	r := b.reconciler
	if t.joined() {
		return 0, b.retire(ctx, t)
	}
	if !t.mayStillJoin() {
		return 0, nil // no longer renewed: it expires, or is deleted with the BootstrapConfig
	}
	if t.found == (token.Token{}) {
		setTokenLost(t.config)
		return 0, nil
	}
	connection, err := r.connect(ctx, t)
	if err != nil {
		return 0, err
	}
	// The finalizer is there unless somebody took it off, or the object was moved without it.
	if err := r.setFinalizer(ctx, t.config, true); err != nil {
		return 0, fmt.Errorf("adding finalizer: %w", err)
	}
	next, err := ensure(ctx, connection, token.Request{
		Token:      t.found,
		MachineUID: t.machine.UID,
		Machine:    t.machine.Namespace + "/" + t.machine.Name,
		TTL:        tokenTTL(t.config),
		Kubeadm:    t.config.Spec.Join.Method == bootstrapv1.JoinKubeadm,
		Now:        r.Clock.Now(),
	})
	if errors.Is(err, token.ErrTaken) && !t.published() {
		return 0, b.startOver(ctx, t)
	}
	if err != nil {
		return 0, explain(connection, err)
	}
	setTokenReady(t.config)
	return max(next, time.Second), nil
}

func ensure(ctx context.Context, c *workload.Connection, request token.Request) (time.Duration, error) {
	if !c.Done(accessEnsured) {
		if err := token.EnsureAccess(ctx, c.RBAC); err != nil {
			return 0, err
		}
		c.MarkDone(accessEnsured)
	}
	return token.Ensure(ctx, c.Core, request)
}

// retire deletes the token of a Machine whose Node has joined. The finalizer tells whether that was done.
func (b *bootstrapToken) retire(ctx context.Context, t *target) error {
	if !hasFinalizer(t.config) {
		return nil
	}
	connection, err := b.reconciler.connect(ctx, t)
	if err != nil {
		return err
	}
	if err := token.Revoke(ctx, connection.Core, t.machine.UID, t.found); err != nil {
		return explain(connection, err)
	}
	setTokenReady(t.config)
	ctrl.LoggerFrom(ctx).Info("deleted bootstrap token: the Node has joined", "node", t.machine.Status.NodeRef.Name)
	return b.reconciler.setFinalizer(ctx, t.config, false)
}

// startOver drops data that nobody has seen and whose token id belongs to somebody else.
func (b *bootstrapToken) startOver(ctx context.Context, t *target) error {
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: t.config.Name, Namespace: t.config.Namespace}}
	if err := b.reconciler.Client.Delete(ctx, secret); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("deleting data Secret: %w", err)
	}
	return fmt.Errorf("making bootstrap token: %w", token.ErrTaken)
}

// revoke deletes the tokens of a BootstrapConfig that goes. What is gone already needs no call.
func (r *Reconciler) revoke(ctx context.Context, t *target) error {
	if t.cluster == nil {
		return nil
	}
	connection, err := r.Connections.Get(ctx, t.clusterKey())
	var kubeconfig *workload.KubeconfigError
	if errors.As(err, &kubeconfig) && kubeconfig.Missing {
		return nil // taken away with the Cluster
	}
	if err != nil {
		return err
	}
	if err := r.findToken(ctx, t); err != nil {
		return err
	}
	owner := machineOwner(t.config)
	if owner == nil {
		return nil // never owned, so no token was made
	}
	return token.Revoke(ctx, connection.Core, owner.UID, t.found)
}

// findToken reads the token of a BootstrapConfig from its data Secret, if that is still there.
func (r *Reconciler) findToken(ctx context.Context, t *target) error {
	secret := &corev1.Secret{}
	if err := r.Live.Get(ctx, client.ObjectKeyFromObject(t.config), secret); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("reading data Secret: %w", err)
	}
	if metav1.IsControlledBy(secret, t.config) {
		t.found, _ = token.Parse(string(secret.Data[tokenKey]))
	}
	return nil
}

// connect reaches the workload cluster, or says in a condition why not.
func (r *Reconciler) connect(ctx context.Context, t *target) (*workload.Connection, error) {
	connection, err := r.Connections.Get(ctx, t.clusterKey())
	var kubeconfig *workload.KubeconfigError
	if errors.As(err, &kubeconfig) {
		return nil, badKubeconfig(kubeconfig)
	}
	return connection, err
}

// explain turns an error from the workload cluster into a condition where it says something of that cluster.
func explain(connection *workload.Connection, err error) error {
	if trouble := connection.Explain(err); trouble != nil {
		return clusterTrouble(trouble, connection.RetryAfter())
	}
	return err
}

func tokenTTL(config *bootstrapv1.BootstrapConfig) time.Duration {
	return time.Duration(ptr.Deref(config.Spec.Join.TokenTTLSeconds, int32(defaultTTL/time.Second))) * time.Second
}

func hasFinalizer(config *bootstrapv1.BootstrapConfig) bool {
	return controllerutil.ContainsFinalizer(config, bootstrapv1.TokenFinalizer)
}

// setFinalizer puts the finalizer on or takes it off, and leaves the status in memory alone.
func (r *Reconciler) setFinalizer(ctx context.Context, config *bootstrapv1.BootstrapConfig, on bool) error {
	if hasFinalizer(config) == on {
		return nil
	}
	changed := config.DeepCopy()
	if on {
		controllerutil.AddFinalizer(changed, bootstrapv1.TokenFinalizer)
	} else {
		controllerutil.RemoveFinalizer(changed, bootstrapv1.TokenFinalizer)
	}
	if err := r.Client.Patch(ctx, changed, client.MergeFromWithOptions(config, client.MergeFromWithOptimisticLock{})); err != nil {
		return err
	}
	config.Finalizers, config.ResourceVersion = changed.Finalizers, changed.ResourceVersion
	return nil
}
