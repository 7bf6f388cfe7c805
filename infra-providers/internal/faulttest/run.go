// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package faulttest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/tools/events"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	infrav1 "drover.io/api/infrastructure/v1alpha1"
	"drover.io/infra-providers/driver"
	"drover.io/infra-providers/internal/account"
	"drover.io/infra-providers/internal/inframachine"
	"drover.io/infra-providers/internal/journal"
	"drover.io/infra-providers/internal/testenv"
)

// The failures that a run may find.
var (
	errLeaked  = errors.New("leaked")
	errDoubled = errors.New("doubled")
	errStuck   = errors.New("stuck")
	errGivenUp = errors.New("terminal condition without a cause")
)

// run is a Cluster with machines, and a reconciler that is called by the test.
type run[M driver.Machine, C any] struct {
	cluster *testenv.Cluster
	// direct is a client without a cache that never fails.
	direct  client.WithWatch
	home    *clusterv1.Cluster
	env     Environment[M, C]
	rand    *Rand
	answers *answers
	clock   steppingClock
	// maxReconciles is how many reconciles one machine may take before it counts as stuck.
	maxReconciles int
	// hooks inject faults into the simulated cloud, in a stable order.
	hooks []func()

	server     *apiserver[M]
	reconciler reconcile.Reconciler
	steps      int
	active     []*lifecycle[M]
	others     others[C]
	// lived counts the machines that completed their lifecycle.
	lived int
}

// lifecycle is one machine and how far it is.
type lifecycle[M driver.Machine] struct {
	machine M
	owner   *clusterv1.Machine
	// deleteAt is the reconcile at which it is deleted.
	deleteAt, steps int
	deleted         bool
	// forged is true for one that claims the instance of another tenant.
	forged bool
	// gone is true once it does not exist in the API server any more.
	gone bool
}

func newRun[M driver.Machine, C any](ctx context.Context, cluster *testenv.Cluster, rand *Rand, env Environment[M, C]) (*run[M, C], error) {
	if env.Hooks.Leftovers == nil || env.Hooks.Driver == nil {
		return nil, errors.New("Hooks.Driver and Hooks.Leftovers are needed")
	}
	direct, err := client.NewWithWatch(cluster.Config, client.Options{Scheme: cluster.Client.Scheme()})
	if err != nil {
		return nil, err
	}
	namespace, err := cluster.Namespace(ctx, "rig")
	if err != nil {
		return nil, err
	}
	home, err := cluster.Cluster(ctx, namespace, "home")
	if err != nil {
		return nil, err
	}
	if env.Secret != nil {
		secret := env.Secret.DeepCopy()
		secret.Namespace = namespace
		if err := direct.Create(ctx, secret); err != nil {
			return nil, err
		}
	}
	s := &run[M, C]{cluster: cluster, direct: direct, home: home, env: env, rand: rand, answers: newAnswers(), clock: steppingClock{time.Now()}, maxReconciles: 500}
	for _, hook := range []func(){env.Hooks.Lose, env.Hooks.Interrupt, env.Hooks.Hide} {
		if hook != nil {
			s.hooks = append(s.hooks, hook)
		}
	}
	for _, refusal := range slices.Sorted(maps.Keys(env.Hooks.Refuse)) {
		s.hooks = append(s.hooks, env.Hooks.Refuse[refusal])
	}
	if err := s.createOthers(ctx); err != nil {
		return nil, err
	}
	s.restart()
	return s, nil
}

// restart replaces the reconciler: accounts, inventories and caches are empty.
func (s *run[M, C]) restart() {
	described := s.env.Cloud
	described.Connect = func(ctx context.Context, at driver.Account, credentials driver.Credentials) (driver.Driver[C], error) {
		connected, err := s.env.Cloud.Connect(ctx, at, credentials)
		if err != nil {
			return nil, err
		}
		return faulty(connected, faultyDriver[C]{rand: s.rand, answers: s.answers, place: described.Offering}), nil
	}
	s.server = &apiserver[M]{rand: s.rand, latest: s.latest, shown: map[client.ObjectKey]M{}, belongings: map[string]client.Object{}}
	shaken := s.server.wrap(s.direct)
	s.reconciler = reconcile.AsReconciler(client.Client(shaken), &inframachine.Reconciler[M, C]{
		Cloud:  described,
		Client: shaken,
		Live:   s.direct,
		Accounts: account.NewCache(described, account.Options{
			Secrets: s.direct, OwnCredentials: []string{account.EveryNamespace}, Now: s.clock.time, Changed: func(driver.Identity) {}, Interval: time.Minute,
			Journal: journal.Journal[M]{NewMachine: described.NewMachine, NewMachineList: described.NewMachineList, Client: shaken, Live: s.direct},
		}),
		Events:  &events.FakeRecorder{},
		Changes: &inframachine.Changes{},
		Resync:  time.Minute,
		Jitter:  func() float64 { return 0 },
	})
}

// run begins lifecycles as long as more are wanted, and returns when all have ended.
func (s *run[M, C]) run(ctx context.Context, more func(begun int) bool) error {
	for begun := 0; ; {
		for len(s.active) < concurrentMachines && more(begun) {
			if err := s.begin(ctx, begun); err != nil {
				return err
			}
			begun++
		}
		if len(s.active) == 0 {
			return nil
		}
		if err := s.step(ctx); err != nil {
			return err
		}
	}
}

func (s *run[M, C]) begin(ctx context.Context, n int) error {
	machine := s.env.Machine()
	machine.SetName(fmt.Sprint("m", n))
	forged := s.createForged(machine, n)
	owner, err := s.cluster.Machine(ctx, s.home, machine, []byte("#cloud-config\n"))
	s.active = append(s.active, &lifecycle[M]{machine: machine, owner: owner, forged: forged, deleteAt: s.rand.UpTo(40)})
	return err
}

// step moves the clock, injects faults, and reconciles one machine.
func (s *run[M, C]) step(ctx context.Context) error {
	s.steps++
	passed := s.rand.seconds(15)
	s.clock.now = s.clock.now.Add(passed)
	if s.env.Pass != nil {
		s.env.Pass(passed)
	}
	if s.rand.happens(3, "restart") {
		s.restart()
	}
	if len(s.hooks) > 0 && s.rand.happens(20, "hook") {
		s.hooks[s.rand.UpTo(len(s.hooks))]()
	}
	one := s.active[s.rand.UpTo(len(s.active))]
	if one.steps++; one.steps >= one.deleteAt && !one.deleted {
		one.deleted = true
		if err := s.retry(ctx, func() error { return s.direct.Delete(ctx, one.machine) }); client.IgnoreNotFound(err) != nil {
			return err
		}
		if err := s.read(ctx, one); err != nil {
			return err
		}
	}
	if err := s.injectFault(ctx, one); err != nil {
		return err
	}
	var failure error
	if !one.gone {
		// A failure is retried at some later step, as a queue does it.
		s.server.reset()
		_, failure = s.reconciler.Reconcile(ctx, ctrl.Request{NamespacedName: client.ObjectKeyFromObject(one.machine)})
		if err := s.follow(ctx, one); err != nil {
			return err
		}
	}
	if one.gone {
		return s.awaitDeleted(ctx, one)
	}
	return s.check(ctx, one, failure)
}

// injectFault restarts the instance of a machine at random, in any state, as a remediation would that is out of date.
// Nearly every error is permitted, because the instance need not run.
func (s *run[M, C]) injectFault(ctx context.Context, one *lifecycle[M]) error {
	restarter, able := s.env.Hooks.Driver.(driver.Restarter)
	if !able || !s.rand.happens(3, "restart of an instance") {
		return nil
	}
	s.answers.count("restart")
	if err := restarter.Restart(ctx, s.identity(one)); driver.IsNotOwned(err) || driver.IsInvalidConfiguration(err) {
		return fmt.Errorf("%w: restarting the instance of machine %q: %w", errGivenUp, one.machine.GetName(), err)
	}
	return nil
}

func (s *run[M, C]) identity(one *lifecycle[M]) driver.Identity {
	owner := driver.Owner{UID: s.home.UID, Namespace: s.home.Namespace, Name: s.home.Name}
	return driver.Identity{UID: one.machine.GetUID(), Name: one.machine.GetName(), Owner: owner}
}

// follow takes the machine from the answer of the last write. Its removal, and the outcome of a write that failed, are read.
func (s *run[M, C]) follow(ctx context.Context, one *lifecycle[M]) error {
	answer := s.server.answer
	switch {
	case s.server.unsure, answer != nil && len((*answer).GetFinalizers()) == 0:
		return s.read(ctx, one)
	case answer != nil:
		one.machine = *answer
	}
	return nil
}

// read reads a machine from the API server.
func (s *run[M, C]) read(ctx context.Context, one *lifecycle[M]) error {
	key := client.ObjectKeyFromObject(one.machine)
	err := s.retry(ctx, func() error { return s.direct.Get(ctx, key, one.machine) })
	one.gone = apierrors.IsNotFound(err)
	return client.IgnoreNotFound(err)
}

// latest is what a cache without a delay would return.
func (s *run[M, C]) latest(key client.ObjectKey) (machine M, ok bool) {
	for _, one := range s.active {
		if !one.gone && client.ObjectKeyFromObject(one.machine) == key {
			return one.machine, true
		}
	}
	return machine, false
}

// retry repeats what fails because the API server is busy, which is no fault of the test.
func (s *run[M, C]) retry(ctx context.Context, do func() error) (err error) {
	waited := wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, 4*time.Minute, true, func(context.Context) (bool, error) {
		err = do()
		return err == nil || apierrors.IsNotFound(err), nil
	})
	if waited != nil {
		return errors.Join(err, waited)
	}
	return err
}

// check is what must be true at every moment.
func (s *run[M, C]) check(ctx context.Context, one *lifecycle[M], failure error) error {
	name, status := one.machine.GetName(), one.machine.GetStatus()
	if one.steps > s.maxReconciles {
		return fmt.Errorf("%w: machine %q with %+v, because of: %s", errStuck, name, status, fmt.Sprint(failure))
	}
	if err := s.checkReplacements(ctx); err != nil {
		return err
	}
	if one.forged {
		return nil // it never gets an instance, and waits until it is deleted
	}
	made := s.answers.seen[one.machine.GetUID()].instance.ProviderID
	if id := one.machine.GetProviderID(); id != "" && id != made {
		return fmt.Errorf("machine %q has providerID %q and the instance %q", name, id, made)
	}
	ready := meta.FindStatusCondition(status.Conditions, clusterv1.ReadyCondition)
	if ready == nil {
		return nil
	}
	switch ready.Reason {
	case infrav1.InstanceMissingReason, infrav1.InstanceNotOwnedReason, infrav1.InvalidConfigurationReason:
		return fmt.Errorf("%w: machine %q: %s", errGivenUp, name, ready.Message)
	default:
		return nil
	}
}

// checkReplacements fails if a machine has two instances. Where ReportsDoubles is true, one that was listed and never started may be
// replaced once it is gone.
func (s *run[M, C]) checkReplacements(ctx context.Context) error {
	for _, each := range s.answers.replacements {
		if each.before.settled || !s.env.ReportsDoubles {
			return fmt.Errorf("%w: %s", errDoubled, each)
		}
		left, err := s.get(ctx, each.before.id())
		switch {
		case err == nil && left.State != driver.Terminated:
			return fmt.Errorf("%w: %s", errDoubled, each)
		case err != nil && !driver.IsNotFound(err):
			return fmt.Errorf("%s; reading the first: %w", each, err)
		}
		s.answers.count("replacement of what was never started")
	}
	s.answers.replacements = nil
	return nil
}

// get reads an instance directly and without faults.
func (s *run[M, C]) get(ctx context.Context, id driver.Identity) (found driver.Instance, err error) {
	s.rand.rest(func() {
		for range 1 + 2*len(s.hooks) { // a hook may still wait for its call
			if found, err = s.env.Hooks.Driver.Get(ctx, id); err == nil || driver.IsNotFound(err) {
				return
			}
		}
	})
	return found, err
}

// awaitDeleted proves by a direct read that a machine that was removed has no instance, and deletes its other objects.
func (s *run[M, C]) awaitDeleted(ctx context.Context, one *lifecycle[M]) error {
	s.active = slices.DeleteFunc(s.active, func(other *lifecycle[M]) bool { return other == one })
	id := s.identity(one)
	left, err := s.get(ctx, id)
	switch {
	case err == nil && left.State != driver.Terminated:
		return fmt.Errorf("%w: machine %q is gone and its instance %q is %s", errLeaked, id.Name, left.ProviderID, left.State)
	case err != nil && !driver.IsNotFound(err):
		return fmt.Errorf("reading what machine %q left: %w", id.Name, err)
	}
	s.answers.drop(id.UID)
	s.lived++
	return errors.Join(s.direct.Delete(ctx, one.owner), s.direct.Delete(ctx, testenv.BootstrapSecret(one.owner)))
}

// checkRemaining fails if anything is left in the cloud but what others created, or if that was touched.
func (s *run[M, C]) checkRemaining(ctx context.Context) error {
	if err := s.verify(ctx); err != nil {
		return err
	}
	var left []string
	s.rand.rest(func() { left = s.env.Hooks.Leftovers() })
	left = slices.DeleteFunc(left, func(thing string) bool { return slices.Contains(s.others.things, thing) })
	if len(left) > 0 {
		return fmt.Errorf("%w: %q", errLeaked, left)
	}
	return nil
}
