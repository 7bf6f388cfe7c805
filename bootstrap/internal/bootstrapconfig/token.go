// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package bootstrapconfig

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	bootstrapv1 "drover.io/api/bootstrap/v1alpha1"
	"drover.io/bootstrap/internal/token"
	"drover.io/bootstrap/internal/workload"
	"drover.io/runtime/kubeconfig"
	runtimeworkload "drover.io/runtime/workload"
)

const (
	defaultTTL = 30 * time.Minute

	// revokeGrace is how long the deletion of a token is tried, and revokeRetry how often, before it is left to expire.
	revokeGrace = 30 * time.Second
	revokeRetry = 5 * time.Second

	// accessCheck is the check, by join method, that hosts may join, and accessPeriod is how often it is made: a workload
	// cluster may be restored from a backup, and the bindings may be deleted.
	accessCheck  = "join access by "
	accessPeriod = 10 * time.Minute
	// approvalCheck is the check of who approves client certificates, and approvalPeriod is how often it is made: a
	// binding that permits too much may be created at any time.
	approvalCheck  = "approval"
	approvalPeriod = 10 * time.Minute
)

// bootstrapToken keeps the token valid while the host may need it, and deletes it once the Node has joined.
type bootstrapToken struct {
	reconciler *Reconciler
}

func (b *bootstrapToken) reconcile(ctx context.Context, s *state) (time.Duration, error) {
	r := b.reconciler
	if s.joined() {
		return 0, b.retire(ctx, s)
	}
	if !s.mayStillJoin() {
		return 0, nil // no longer renewed: it expires, or is deleted with the BootstrapConfig
	}
	if s.found == (token.Token{}) {
		setTokenLost(s.config)
		return 0, nil
	}
	connection, err := r.connect(ctx, s)
	if err != nil {
		return 0, err
	}
	// The finalizer is absent where it was removed by a user, or the object was moved without it.
	if err := r.setFinalizer(ctx, s.config, true); err != nil {
		return 0, fmt.Errorf("adding finalizer: %w", err)
	}
	start := r.Clock.Now()
	next, err := b.ensure(ctx, s, connection)
	if !s.published() { // later ones renew it
		emitCall(ctx, "token.create", start, r.Clock.Now(), err)
	}
	if errors.Is(err, token.ErrTaken) && !s.published() {
		return 0, b.discardData(ctx, s)
	}
	if err != nil {
		return 0, toWaiting(connection, err)
	}
	setTokenReady(s.config)
	return max(next, time.Second), nil
}

// ensure makes the token valid, and periodically ensures that its holder may join.
func (b *bootstrapToken) ensure(ctx context.Context, s *state, c *workload.Connection) (time.Duration, error) {
	method := s.config.Spec.Join.Method
	if check := accessCheck + string(method); c.CheckDue(check) {
		if err := token.EnsureAccess(ctx, c.RBAC, method == bootstrapv1.JoinKubeadm); err != nil {
			return 0, err
		}
		c.MarkChecked(check, accessPeriod)
	}
	if c.CheckDue(approvalCheck) {
		b.checkApproval(ctx, s, c)
	}
	return token.Ensure(ctx, c.Core, token.Request{
		Token:      s.found,
		MachineUID: s.machine.UID,
		Machine:    s.machine.Namespace + "/" + s.machine.Name,
		TTL:        tokenTTL(s.config),
		Now:        b.reconciler.Clock.Now(),
	})
}

// checkApproval warns where the workload cluster approves client certificates by itself. Hosts can join also where the
// check fails, for lack of the permission for example.
func (b *bootstrapToken) checkApproval(ctx context.Context, s *state, c *workload.Connection) {
	auto, err := token.AutoApproves(ctx, c.Authorization)
	if err != nil {
		ctrl.LoggerFrom(ctx).V(1).Info("could not check who approves client certificates", "message", err.Error())
		return
	}
	if auto {
		autoApproved(b.reconciler.Events, s.config)
	}
	c.MarkChecked(approvalCheck, approvalPeriod)
}

// retire deletes the token of a Machine whose Node has joined. The finalizer is present until that is done.
func (b *bootstrapToken) retire(ctx context.Context, s *state) error {
	if !hasFinalizer(s.config) {
		return nil
	}
	connection, err := b.reconciler.connect(ctx, s)
	if err != nil {
		return err
	}
	start := b.reconciler.Clock.Now()
	err = token.Revoke(ctx, connection.Core, s.machine.UID, s.found)
	emitCall(ctx, "token.delete", start, b.reconciler.Clock.Now(), err)
	if err != nil {
		return toWaiting(connection, err)
	}
	setTokenReady(s.config)
	return b.reconciler.setFinalizer(ctx, s.config, false)
}

// discardData deletes data that is not published and whose token id is that of another token.
func (b *bootstrapToken) discardData(ctx context.Context, s *state) error {
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: s.config.Name, Namespace: s.config.Namespace}}
	if err := b.reconciler.Client.Delete(ctx, secret); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("deleting data Secret: %w", err)
	}
	ctrl.LoggerFrom(ctx).Info("deleted bootstrap data", "Secret", klog.KObj(secret), "reason", "the id of its token is taken")
	return fmt.Errorf("creating bootstrap token: %w", token.ErrTaken)
}

// revoke deletes the tokens of a BootstrapConfig that is being deleted. It makes no call where there can be none any more.
func (r *Reconciler) revoke(ctx context.Context, s *state) error {
	if s.cluster == nil {
		return nil
	}
	connection, err := r.Connections.Get(ctx, s.clusterKey())
	if bad, is := errors.AsType[*kubeconfig.Error](err); is && bad.Problem == kubeconfig.Missing {
		return nil // deleted with the Cluster
	}
	if err != nil {
		return err
	}
	if err := r.checkClaim(ctx, s, connection); err != nil {
		return err
	}
	if err := r.findToken(ctx, s); err != nil {
		return err
	}
	owner := machineOwner(s.config)
	if owner == nil {
		return nil // never owned, so no token was created
	}
	start := r.Clock.Now()
	err = token.Revoke(ctx, connection.Core, owner.UID, s.found)
	emitCall(ctx, "token.delete", start, r.Clock.Now(), err)
	return err
}

// findToken reads the token of a BootstrapConfig from its data Secret, if that is still there.
func (r *Reconciler) findToken(ctx context.Context, s *state) error {
	secret := &corev1.Secret{}
	if err := r.Live.Get(ctx, client.ObjectKeyFromObject(s.config), secret); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("reading data Secret: %w", err)
	}
	if metav1.IsControlledBy(secret, s.config) {
		s.found, _ = token.Parse(string(secret.Data[tokenKey]))
	}
	return nil
}

// connect returns the connection to the workload cluster. An error that a condition has to report is a *waiting.
func (r *Reconciler) connect(ctx context.Context, s *state) (*workload.Connection, error) {
	connection, err := r.Connections.Get(ctx, s.clusterKey())
	if bad, is := errors.AsType[*kubeconfig.Error](err); is {
		return nil, badKubeconfig(bad)
	}
	if err != nil {
		return nil, err
	}
	return connection, r.checkClaim(ctx, s, connection)
}

// checkClaim refuses to act on a workload cluster on which another management cluster acts: a copy of one would make
// tokens again that the original has deleted.
func (r *Reconciler) checkClaim(ctx context.Context, s *state, connection *workload.Connection) error {
	holder, elsewhere, err := connection.ClaimedElsewhere(ctx, r.Claims, s.clusterKey())
	switch {
	case err != nil:
		return toWaiting(connection, fmt.Errorf("reading the claim of the workload cluster: %w", err))
	case elsewhere:
		return claimedElsewhere(s.clusterName(), holder)
	}
	return nil
}

// toWaiting turns an error from the workload cluster into a *waiting where it is about that cluster as a whole.
func toWaiting(connection *workload.Connection, err error) error {
	failure := connection.Classify(err)
	switch failure.Kind {
	case runtimeworkload.Unauthorized, runtimeworkload.Forbidden:
		return clusterForbidden(failure.Message)
	case runtimeworkload.Unavailable:
		return clusterUnreachable(failure.Message, connection.RetryAfter())
	}
	if refused(err) { // by a policy, with another status than for a missing permission
		return clusterForbidden(failure.Message)
	}
	return err
}

func tokenTTL(config *bootstrapv1.BootstrapConfig) time.Duration {
	return time.Duration(ptr.Deref(config.Spec.Join.TokenTTLSeconds, int32(defaultTTL/time.Second))) * time.Second
}

func hasFinalizer(config *bootstrapv1.BootstrapConfig) bool {
	return controllerutil.ContainsFinalizer(config, bootstrapv1.TokenFinalizer)
}

// setFinalizer adds the finalizer or removes it, and leaves the status in memory alone.
func (r *Reconciler) setFinalizer(ctx context.Context, config *bootstrapv1.BootstrapConfig, on bool) error {
	if hasFinalizer(config) == on {
		return nil
	}
	before, changed := withoutSpec(config), withoutSpec(config)
	before.Finalizers, changed.Finalizers = config.Finalizers, slices.Clone(config.Finalizers)
	if on {
		controllerutil.AddFinalizer(changed, bootstrapv1.TokenFinalizer)
	} else {
		controllerutil.RemoveFinalizer(changed, bootstrapv1.TokenFinalizer)
	}
	if err := r.Client.Patch(ctx, changed, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
		return err
	}
	config.Finalizers, config.ResourceVersion = changed.Finalizers, changed.ResourceVersion
	return nil
}
