// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package bootstrapconfig

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	bootstrapv1 "drover.io/api/bootstrap/v1alpha1"
	"drover.io/bootstrap/profile"
)

// failedReadMemory is how long checksums that could not be read are not read again: hundreds of Machines of one
// MachineDeployment request a server once.
const failedReadMemory = 15 * time.Second

// +kubebuilder:rbac:groups=bootstrap.drover.io,resources=nodeprofiles,verbs=get;list;watch
// +kubebuilder:rbac:groups=bootstrap.drover.io,resources=nodeprofiles/status,verbs=patch

// applyProfile puts the NodeProfile of the BootstrapConfig under its spec: the defaults, and the binaries for the version
// of the Machine.
func (r *Reconciler) applyProfile(ctx context.Context, s *state) error {
	name := s.config.Spec.ProfileRef.Name
	s.config.Status.Profile = bootstrapv1.BootstrapConfigProfile{}
	if name == "" {
		return nil
	}
	p := &bootstrapv1.NodeProfile{}
	err := r.Client.Get(ctx, types.NamespacedName{Namespace: s.config.Namespace, Name: name}, p)
	if apierrors.IsNotFound(err) {
		return waitForProfile(name)
	}
	if err != nil {
		return fmt.Errorf("reading NodeProfile: %w", err)
	}
	if !r.Watch.Matches(p) {
		return waitForProfileLabel(name, r.Watch)
	}
	merged, fields := profile.Merge(&s.config.Spec, &p.Spec.Defaults)
	release, err := profile.Plan(merged, &p.Spec.Releases, s.machine.Spec.Version)
	if invalid, is := errors.AsType[*profile.InvalidError](err); is && invalid.OfBootstrapConfig() {
		return invalidSpec(err)
	}
	if err != nil {
		return releaseUnavailable(name, err, 0)
	}
	known, err := r.checksums(ctx, p, release.Binaries)
	if err != nil {
		return err
	}
	fields = append(fields, release.Set(merged, known.Of)...)
	slices.Sort(fields)
	s.spec = merged
	s.config.Status.Profile = bootstrapv1.BootstrapConfigProfile{Name: name, Generation: p.Generation, Fields: slices.Compact(fields)}
	return nil
}

// checksums returns the checksum of each binary. Those that the profile does not have yet are read from the checksum files
// of the release, and stored in its status before they are used.
func (r *Reconciler) checksums(ctx context.Context, p *bootstrapv1.NodeProfile, binaries []profile.Binary) (profile.Checksums, error) {
	known := profile.ChecksumsOf(p)
	unknown := known.Missing(binaries)
	if len(unknown) == 0 {
		return known, nil
	}
	attempt := attemptOf(p, unknown)
	if err, failed := r.failedReads.Get(attempt); failed {
		return nil, err
	}
	start := r.Clock.Now()
	found, err, _ := r.reads.Do(attempt, func() (any, error) { return r.readChecksums(ctx, p, binaries) })
	emitCall(ctx, "checksums.read", start, r.Clock.Now(), err)
	if _, failed := errors.AsType[*waiting](err); failed {
		r.failedReads.Set(attempt, err)
	}
	if err != nil {
		return nil, err
	}
	return found.(profile.Checksums), nil
}

// attemptOf identifies an attempt to read checksums. It is a hash, because it is kept and the addresses may be long.
func attemptOf(p *bootstrapv1.NodeProfile, unknown []profile.Binary) string {
	sum := sha256.Sum256(fmt.Append(nil, p.UID, p.Generation, unknown))
	return string(sum[:])
}

// readChecksums reads the checksums that the profile lacks, and stores what it has found, also where another one cannot be
// read. The profile is read from the API server: another BootstrapConfig may just have stored the same ones. It must still
// be the one that named the servers.
func (r *Reconciler) readChecksums(ctx context.Context, cached *bootstrapv1.NodeProfile, binaries []profile.Binary) (profile.Checksums, error) {
	p := &bootstrapv1.NodeProfile{}
	if err := r.Live.Get(ctx, client.ObjectKeyFromObject(cached), p); err != nil {
		return nil, fmt.Errorf("reading NodeProfile: %w", err)
	}
	if p.UID != cached.UID || p.Generation != cached.Generation {
		return nil, apierrors.NewConflict(bootstrapv1.GroupVersion.WithResource("nodeprofiles").GroupResource(), p.Name, errors.New("the cache is behind"))
	}
	known := profile.ChecksumsOf(p)
	unknown := known.Missing(binaries)
	if err := profile.CheckPlace(p, unknown); err != nil {
		return nil, releaseUnavailable(p.Name, err, poll)
	}
	sums, problems := make([]string, len(unknown)), make([]error, len(unknown))
	var reading sync.WaitGroup
	for i, b := range unknown {
		reading.Go(func() { sums[i], problems[i] = r.readChecksum(ctx, p, b) })
	}
	reading.Wait()
	stored := slices.Clone(p.Status.Releases)
	for i, b := range unknown {
		if problems[i] == nil {
			known.Add(b, sums[i])
			stored = append(stored, bootstrapv1.ReleaseDigest{
				Component: b.Component, Version: b.Version, Architecture: b.Architecture, SHA256: sums[i],
			})
		}
	}
	if count := len(stored) - len(p.Status.Releases); count > 0 {
		if err := r.storeChecksums(ctx, p, stored); err != nil {
			return nil, err
		}
		ctrl.LoggerFrom(ctx).Info("pinned checksums of binaries", "NodeProfile", klog.KObj(p), "count", count)
	}
	if at := slices.IndexFunc(problems, func(err error) bool { return err != nil }); at >= 0 {
		return nil, releaseUnavailable(p.Name, problems[at], poll)
	}
	return known, nil
}

// storeChecksums writes the checksums into the status, unless the profile has changed since it was read. The patch is
// computed without the spec, which may be large.
func (r *Reconciler) storeChecksums(ctx context.Context, p *bootstrapv1.NodeProfile, all []bootstrapv1.ReleaseDigest) error {
	before, after := &bootstrapv1.NodeProfile{ObjectMeta: identifying(p)}, &bootstrapv1.NodeProfile{ObjectMeta: identifying(p)}
	before.Status.Releases, after.Status.Releases = p.Status.Releases, all
	if err := r.Client.Status().Patch(ctx, after, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
		return fmt.Errorf("storing checksums in NodeProfile: %w", err)
	}
	return nil
}

func (r *Reconciler) readChecksum(ctx context.Context, p *bootstrapv1.NodeProfile, b profile.Binary) (string, error) {
	if err := profile.CheckTrusted(b); err != nil {
		return "", err
	}
	sum, err := r.ReadChecksum(ctx, b.ChecksumURL, b.URL, p.Spec.Defaults.TrustedCAs)
	if err != nil {
		return "", profile.Unreadable(b, err)
	}
	return sum, nil
}

// configsOfProfile are the BootstrapConfigs that wait for a NodeProfile, or whose data may still be replaced.
func (r *Reconciler) configsOfProfile(ctx context.Context, p client.Object) []reconcile.Request {
	list := &bootstrapv1.BootstrapConfigList{}
	if err := r.Client.List(ctx, list, client.InNamespace(p.GetNamespace()), client.UnsafeDisableDeepCopy); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "listing BootstrapConfigs of a NodeProfile")
		return nil
	}
	var requests []reconcile.Request
	for i := range list.Items {
		config := &list.Items[i]
		if published := config.Status.Initialization.DataSecretCreated; config.Spec.ProfileRef.Name == p.GetName() && (published == nil || !*published) {
			requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(config)})
		}
	}
	return requests
}
