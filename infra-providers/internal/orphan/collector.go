// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Package orphan finds what is left in a cloud without a machine that owns it, and collects it with every
// guard there is: only what has all tags of a Cluster that we know by UID, namespace and name, is older than a
// grace period, was found twice a grace period apart, and has no machine in a live read of the API server; never
// more than a few per sweep, never while the Cluster is paused or one of its MachineDeployments or MachineSets is frozen, never on a list
// that broke off. It reports before it acts, and in dry-run mode it only reports.
//
//	found ─► no machine owns it ─► suspected, reported ─► still so a grace later ─► confirmed by a live read ─► deleted
//
// What belongs to a Cluster that is not here, a second instance of a machine, and what tags were copied to, are reported and never
// deleted.
//
// It is the safety net of the inframachine reconciler, which is meant to leave no orphans.
package orphan

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	kerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"drover.io/infra-providers/driver"
	"drover.io/infra-providers/internal/account"
	"drover.io/runtime/metric"
	"drover.io/runtime/predicates"
)

// firstSweep is when the first sweep is, which deletes nothing because nothing is suspected yet.
const firstSweep = time.Minute

const (
	// finishTime bounds the time for the steps of one removal, and pollMin is the shortest pause between two.
	finishTime = 2 * time.Minute
	pollMin    = time.Second
)

// errHeartbeatUnknown means that it is not known yet what this installation has created.
var errHeartbeatUnknown = errors.New("the provider's heartbeat has not been read yet")

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
	Accounts *account.Cache[M, C]
	// Client reads from the cache, Live from the API server.
	Client  client.Client
	Live    client.Reader
	Events  events.EventRecorder
	Clock   clock.Clock
	Options Options
	// WatchFilter selects the Clusters of this provider; instances of others are foreign.
	WatchFilter predicates.WatchFilter
	// Namespace is the only one that the provider watches; empty for all.
	Namespace string
	// Memory has the times at which a provider of this installation was running.
	Memory Creations
	// Core names the Lease by which machine-controller is elected.
	Core client.ObjectKey

	// suspects are things that an event was created for.
	suspects map[string]suspect
	// tried are the things that were to be deleted by earlier sweeps.
	tried map[string]bool
	// owned are the things, by account, that a machine was seen to own and that are still found: they are ours,
	// whenever they were created.
	owned map[string]map[string]bool
	// events are how many events of each kind have been created in this sweep, and eventsMu guards them.
	eventsMu sync.Mutex
	events   map[eventKind]int
	// missing has how much was reported of Clusters that are missing.
	missing map[driver.Owner]int
}

// suspect is something that has been found for one reason, that of its event, since a time.
type suspect struct {
	account string
	reason  string
	since   time.Time
}

// Creations is what a Memory has.
type Creations interface {
	// Known reports whether there is an answer.
	Known() bool
	// Ours reports whether a provider of this installation may have created something.
	Ours(uid types.UID, created time.Time) bool
}

// +kubebuilder:rbac:groups=cluster.x-k8s.io,resources=machinedeployments;machinesets,verbs=list

// Start sweeps for the first time after a minute, and then once per period until ctx is done.
func (c *Collector[M, C]) Start(ctx context.Context) error {
	if c.Options.Period <= 0 {
		return nil
	}
	for _, counter := range []*metric.Counter{sweepsTotal, failedSweeps, collectedTotal} {
		counter.Start(c.Cloud.Name)
	}
	timer := c.Clock.NewTimer(min(firstSweep, c.Options.Period))
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-timer.C():
			timer.Reset(c.Options.Period)
			if err := c.Sweep(ctx); err != nil && ctx.Err() == nil {
				failedSweeps.Inc(c.Cloud.Name)
				ctrl.LoggerFrom(ctx).Error(err, "sweeping for orphans")
			}
		}
	}
}

// Sweep lists every account once. Nothing is deleted in one whose list breaks off. The error has all failures in one line, so that
// grep finds them in the log.
func (c *Collector[M, C]) Sweep(ctx context.Context) error {
	if !c.Memory.Known() {
		return errHeartbeatUnknown
	}
	c.events = map[eventKind]int{}
	clusters, err := c.clusters(ctx)
	if err != nil {
		return err
	}
	failures := []error{c.connect(ctx)}
	accounts, found, err := c.listAccounts(ctx)
	failures = append(failures, err)
	// Machines are read after the cloud: one that was made meanwhile is known here and missing there, not
	// the other way round.
	in := Input{Now: c.Clock.Now(), Resources: found, Namespace: c.Namespace, Suspects: map[string]time.Time{}, Tried: c.tried, Grace: c.Options.Grace, Cap: c.Options.Cap}
	for key, known := range c.suspects {
		if known.reason == orphanFound {
			in.Suspects[key] = known.since
		}
	}
	if err := c.observe(ctx, &in); err != nil {
		return kerrors.NewAggregate(append(failures, err))
	}
	c.markElsewhere(in, accounts)
	if in.Clusters, err = c.clusterStates(ctx, in, clusters); err != nil {
		return kerrors.NewAggregate(append(failures, err))
	}
	classified := Plan(in)
	c.report(ctx, classified, clusters, accounts)
	failures = append(failures, c.act(ctx, classified, clusters, accounts))
	sweepsTotal.Inc(c.Cloud.Name)
	return kerrors.NewAggregate(failures)
}

// markElsewhere marks of what is found whether another management cluster created it. What an owner was found for before
// is kept while the list of its account breaks off.
func (c *Collector[M, C]) markElsewhere(in Input, accounts map[string]*listed[C]) {
	owned := map[string]map[string]bool{}
	for name, account := range accounts {
		if !account.complete {
			owned[name] = c.owned[name]
		}
	}
	for i, thing := range in.Resources {
		if in.isOwned(thing) || c.owned[thing.Account][thing.key()] {
			if owned[thing.Account] == nil {
				owned[thing.Account] = map[string]bool{}
			}
			owned[thing.Account][thing.key()] = true
			continue
		}
		in.Resources[i].Elsewhere = !thing.Created.IsZero() && !c.Memory.Ours(thing.Identity.UID, thing.Created)
	}
	c.owned = owned
}

// report keeps every orphan as a suspect, and records it when it is first found, and when it is found for another reason. Those of
// an account whose list broke off are kept.
func (c *Collector[M, C]) report(ctx context.Context, classified []Classified, clusters map[driver.Owner]*clusterv1.Cluster, accounts map[string]*listed[C]) {
	suspects := map[string]suspect{}
	for key, known := range c.suspects {
		if account := accounts[known.account]; account != nil && !account.complete {
			suspects[key] = known
		}
	}
	counts := map[Class]int{}
	for _, thing := range classified {
		counts[thing.Class]++
		known := c.suspects[thing.key()]
		cluster := clusters[thing.Identity.Owner]
		if cluster == nil || !c.WatchFilter.Matches(cluster) || !thing.remarkable() {
			continue
		}
		if found := c.foundEvent(thing); found.reason != known.reason {
			known = suspect{thing.Account, found.reason, c.Clock.Now()}
			c.record(ctx, cluster, thing.Resource, found)
		}
		suspects[thing.key()] = known
	}
	c.suspects = suspects
	c.reportMissing(ctx, classified, clusters)
	for _, class := range classes {
		foundGauge.Set(float64(counts[class]), c.Cloud.Name, string(class))
	}
}

// act deletes the orphans that a live read confirms, those of an account one after another.
func (c *Collector[M, C]) act(ctx context.Context, classified []Classified, clusters map[driver.Owner]*clusterv1.Cluster, accounts map[string]*listed[C]) error {
	if c.Options.DryRun {
		return nil
	}
	orphans, tried := map[string][]Resource{}, map[string]bool{}
	for _, thing := range classified {
		if thing.Class == ClassOrphaned {
			holder := accounts[thing.Account].holder()
			orphans[holder] = append(orphans[holder], thing.Resource)
			tried[thing.key()] = true
		} else if c.tried[thing.key()] && thing.Class == ClassOverLimit {
			tried[thing.key()] = true
		}
	}
	c.tried = tried
	return concurrently(ctx, orphans, func(ctx context.Context, thing Resource) error {
		done, err := c.collect(ctx, thing, accounts[thing.Account])
		if done {
			c.record(ctx, clusters[thing.Identity.Owner], thing, deletedOrphan(thing))
			collectedTotal.Inc(c.Cloud.Name)
		}
		return err
	})
}

// collect deletes one orphan, if reads of the API server without a cache confirm that it is one. It is confirmed again where
// the deletion had to wait.
func (c *Collector[M, C]) collect(ctx context.Context, thing Resource, in *listed[C]) (done bool, err error) {
	err = c.inTurn(ctx, func() (err error) {
		if done, err = c.confirm(ctx, thing); !done || err != nil {
			return err
		}
		if err := in.cloud.Delete(ctx, thing.Identity); err != nil {
			done = false
			return fmt.Errorf("deleting %s %q: %w", thing.Kind, thing.ID, err)
		}
		return nil
	})
	if done && c.Cloud.RemovesInSteps {
		err = c.finish(ctx, thing, in.cloud)
	}
	return done, err
}

// confirm reports whether something is an orphan that may be deleted now, by reads without a cache.
func (c *Collector[M, C]) confirm(ctx context.Context, thing Resource) (bool, error) {
	owner := thing.Identity.Owner
	cluster := &clusterv1.Cluster{}
	if err := c.Live.Get(ctx, client.ObjectKey{Namespace: owner.Namespace, Name: owner.Name}, cluster); err != nil {
		return false, fmt.Errorf("confirming cluster %q: %w", owner.Name, err)
	}
	if cluster.UID != owner.UID || isHeld(cluster) || !c.WatchFilter.Matches(cluster) {
		return false, nil
	}
	machine := c.Cloud.NewMachine()
	err := c.Live.Get(ctx, thing.machine(), machine)
	if err != nil && !apierrors.IsNotFound(err) {
		return false, fmt.Errorf("confirming machine %q: %w", thing.Identity.Name, err)
	}
	if err == nil && c.claimOf(machine).covers(thing) {
		return false, nil
	}
	references, err := c.references(ctx, c.Live, owner.Namespace)
	if err != nil {
		return false, fmt.Errorf("confirming that no Machine refers to it: %w", err)
	}
	return !thing.referred(references), nil
}

// finish takes the remaining steps of a removal for a while. What is left then is found by the next sweep.
func (c *Collector[M, C]) finish(ctx context.Context, thing Resource, cloud driver.Driver[C]) error {
	for end := c.Clock.Now().Add(finishTime); c.Clock.Now().Before(end); {
		left, err := cloud.Get(ctx, thing.Identity)
		if err == nil && left.State == driver.Stopping && left.StepDue {
			err = cloud.Delete(ctx, thing.Identity)
		}
		switch {
		case driver.IsNotFound(err), driver.IsUnfinished(err), err == nil && left.State != driver.Stopping:
			return nil // an unfinished one is what a creation left, and its removal a single request
		case err != nil:
			return fmt.Errorf("deleting the rest of %s %q: %w", thing.Kind, thing.ID, err)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-c.Clock.After(max(left.PollAfter, pollMin)):
		}
	}
	return nil
}
