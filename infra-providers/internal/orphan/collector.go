// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Package orphan finds what is left in a cloud without a machine that owns it, and collects it with every
// guard there is: only what is tagged for a Cluster that we know by its UID, is older than a grace period,
// was found twice a grace period apart, and has no machine in a live read of the API server; never more
// than a few per sweep, never while the Cluster is paused or one of its fleets is frozen, never on a list
// that broke off. It reports before it acts, and in dry-run mode it only reports.
//
//	found ─► nobody owns it ─► suspected, told ─► still so a grace later ─► live read agrees ─► deleted
//
// It is the safety net under the inframachine reconciler, which is meant to leave it nothing to do.
package orphan

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "drover.io/api/infrastructure/v1alpha1"
	"drover.io/infra-providers/driver"
	"drover.io/infra-providers/internal/account"
)

// Options are the flags of the collector.
type Options struct {
	// Period is the time between sweeps; zero turns the collector off.
	Period time.Duration
	Grace  time.Duration
	Cap    int
	DryRun bool
}

// Collector sweeps all accounts of one cloud.
type Collector[M driver.Machine, C any] struct {
	Cloud    driver.Cloud[M, C]
	Accounts *account.Book[M, C]
	// Client reads from the cache, Live from the API server.
	Client  client.Reader
	Live    client.Reader
	Events  events.EventRecorder
	Now     func() time.Time
	Options Options

	suspects map[string]time.Time
}

// +kubebuilder:rbac:groups=cluster.x-k8s.io,resources=machinedeployments;machinesets,verbs=list

// Start sweeps once per period until ctx is done.
func (c *Collector[M, C]) Start(ctx context.Context) error {
	if c.Options.Period <= 0 {
		return nil
	}
	ticker := time.NewTicker(c.Options.Period)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
			if err := c.Sweep(ctx); err != nil && ctx.Err() == nil {
				ctrl.LoggerFrom(ctx).Error(err, "sweeping for orphans", "cloud", c.Cloud.Name)
			}
		}
	}
}

// Sweep looks through every account once. An account whose list breaks off is left alone this time.
func (c *Collector[M, C]) Sweep(ctx context.Context) error {
	clusters, err := c.clusters(ctx)
	if err != nil {
		return err
	}
	var found []Found
	var failures []error
	accounts := map[string]driver.Driver[C]{}
	for _, connected := range c.Accounts.All() {
		things, err := everything(ctx, connected)
		if err != nil {
			failures = append(failures, err)
			continue
		}
		for _, thing := range things {
			accounts[thing.key()] = connected.Direct
		}
		found = append(found, things...)
	}
	// Machines are read after the cloud: one that was made meanwhile is known here and missing there, not
	// the other way round.
	wanted, err := c.wanted(ctx)
	if err != nil {
		return errors.Join(append(failures, err)...)
	}
	in := Input{Now: c.Now(), Found: found, Wanted: wanted, Suspects: c.suspects, Grace: c.Options.Grace, Cap: c.Options.Cap}
	if in.Clusters, err = c.frozen(ctx, in, clusters); err != nil {
		return errors.Join(append(failures, err)...)
	}
	return errors.Join(append(failures, c.act(ctx, Plan(in), clusters, accounts))...)
}

// act tells about every orphan and deletes those that a live read confirms.
func (c *Collector[M, C]) act(ctx context.Context, judged []Judged, clusters map[types.UID]*clusterv1.Cluster, accounts map[string]driver.Driver[C]) error {
	suspects := map[string]time.Time{}
	counts := map[Verdict]int{}
	var failures []error
	for _, thing := range judged {
		counts[thing.Verdict]++
		since, before := c.suspects[thing.key()]
		switch thing.Verdict {
		case Suspected, Spared, Orphaned:
			if !before {
				since = c.Now()
				c.tell(clusters[thing.Identity.Owner.UID], suspected(thing.Found, c.Options))
			}
			suspects[thing.key()] = since
		}
		if thing.Verdict != Orphaned || c.Options.DryRun {
			continue
		}
		switch done, err := c.collect(ctx, thing.Found, accounts[thing.key()]); {
		case err != nil:
			failures = append(failures, err)
		case done:
			c.tell(clusters[thing.Identity.Owner.UID], collected(thing.Found))
			collectedTotal.WithLabelValues(c.Cloud.Name).Inc()
		}
	}
	c.suspects = suspects
	for _, verdict := range []Verdict{Wanted, Foreign, Young, Frozen, Suspected, Spared, Orphaned} {
		foundGauge.WithLabelValues(c.Cloud.Name, string(verdict)).Set(float64(counts[verdict]))
	}
	return errors.Join(failures...)
}

// collect deletes one orphan unless the API server itself, asked without a cache, knows better.
func (c *Collector[M, C]) collect(ctx context.Context, thing Found, cloud driver.Driver[C]) (done bool, err error) {
	owner := thing.Identity.Owner
	cluster := &clusterv1.Cluster{}
	if err := c.Live.Get(ctx, client.ObjectKey{Namespace: owner.Namespace, Name: owner.Name}, cluster); err != nil {
		return false, fmt.Errorf("confirming cluster %q: %w", owner.Name, err)
	}
	if cluster.UID != owner.UID || paused(cluster) {
		return false, nil
	}
	machine := c.Cloud.NewMachine()
	err = c.Live.Get(ctx, client.ObjectKey{Namespace: owner.Namespace, Name: thing.Identity.Name}, machine)
	if err != nil && !apierrors.IsNotFound(err) {
		return false, fmt.Errorf("confirming machine %q: %w", thing.Identity.Name, err)
	}
	if err == nil && owns(machine, thing.Identity) {
		return false, nil
	}
	if err := cloud.Delete(ctx, thing.Identity); err != nil {
		return false, fmt.Errorf("deleting %s %q: %w", thing.Kind, thing.ID, err)
	}
	return true, nil
}

// owns reports whether a machine has anything to do with an identity.
func owns(machine driver.Machine, id driver.Identity) bool {
	return machine.GetUID() == id.UID ||
		machine.GetAnnotations()[infrav1.IdentityAnnotation] == string(id.UID) ||
		id.ProviderID != "" && machine.GetProviderID() == id.ProviderID
}

// everything lists what is ours in one account.
func everything[C any](ctx context.Context, connected account.Account[C]) ([]Found, error) {
	var all []Found
	for instance, err := range connected.Direct.List(ctx, driver.Owner{}) {
		if err != nil {
			return nil, fmt.Errorf("listing instances: %w", err)
		}
		if instance.State == driver.Stopping || instance.State == driver.Terminated {
			continue
		}
		all = append(all, Found{Kind: "instance", ID: instance.ProviderID, Identity: instance.Identity, Created: instance.Created})
	}
	if connected.Remainder == nil {
		return all, nil
	}
	for thing, err := range connected.Remainder.Remains(ctx, driver.Owner{}) {
		if err != nil {
			return nil, fmt.Errorf("listing what is beside instances: %w", err)
		}
		all = append(all, Found{Kind: thing.Kind, ID: thing.ID, Identity: thing.Identity, Created: thing.Created})
	}
	return all, nil
}

func (c *Collector[M, C]) clusters(ctx context.Context) (map[types.UID]*clusterv1.Cluster, error) {
	list := &clusterv1.ClusterList{}
	if err := c.Client.List(ctx, list); err != nil {
		return nil, fmt.Errorf("listing clusters: %w", err)
	}
	known := map[types.UID]*clusterv1.Cluster{}
	for i := range list.Items {
		known[list.Items[i].UID] = &list.Items[i]
	}
	return known, nil
}

// wanted collects every name under which a machine may own something.
func (c *Collector[M, C]) wanted(ctx context.Context) (map[string]bool, error) {
	list := c.Cloud.NewMachineList()
	if err := c.Client.List(ctx, list); err != nil {
		return nil, fmt.Errorf("listing machines: %w", err)
	}
	wanted := map[string]bool{}
	err := meta.EachListItem(list, func(item runtime.Object) error {
		machine := item.(driver.Machine)
		for _, name := range []string{string(machine.GetUID()), machine.GetAnnotations()[infrav1.IdentityAnnotation], machine.GetProviderID()} {
			wanted[name] = true
		}
		return nil
	})
	delete(wanted, "")
	return wanted, err
}
