// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package inframachine

import (
	"context"
	"fmt"
	"time"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"drover.io/infra-providers/driver"
	"drover.io/infra-providers/internal/account"
)

// create asks the cloud for the instance, in the configuration that is stored as the machine's choice. What
// is to be asked for instead is stored first, by ending the reconcile, and asked for in the next.
func (r *Reconciler[M, C]) create(ctx context.Context, s *state[M, C], cloud account.Account[C]) (ctrl.Result, error) {
	configs, err := r.configs(s)
	if err != nil {
		return r.failed(s, err)
	}
	if made := r.made.get(s.machine.GetUID()); made != "" {
		return r.findCreated(ctx, s, cloud, made)
	}
	look := r.outlook(s, cloud, configs)
	if choice, rest := look.choose(); rest > 0 || choice != look.stored {
		return r.nextConfig(s, look)
	}
	if len(configs) > 1 {
		if current, err := r.current(ctx, s, len(configs)); err != nil || !current {
			return ctrl.Result{RequeueAfter: time.Second}, err
		}
	}
	r.quiet.remove(s.machine.GetUID())
	if r.Creating != nil {
		r.Creating(s.identity().UID)
	}
	s.observed, err = cloud.Create(ctx, driver.Request[C]{
		Identity: s.identity(),
		Config:   configs[look.stored],
		UserData: s.userData,
		Format:   s.format,
		Since:    s.since(),
	})
	switch {
	case r.Cloud.Place != nil && (driver.IsInsufficientCapacity(err) || driver.IsQuotaExceeded(err)):
		r.quiet.add(s.machine.GetUID())
		return r.nextConfig(s, r.outlook(s, cloud, configs))
	case err != nil:
		return r.failed(s, fmt.Errorf("creating instance: %w", err))
	}
	s.created = true
	r.made.add(s.machine.GetUID(), s.observed.ProviderID)
	s.machine.SetProviderID(s.observed.ProviderID)
	return ctrl.Result{}, nil
}

// recall goes on with an instance that was created and whose providerID the object does not show: because the cache
// is behind, or because the providerID could not be written, which is tried again.
func (r *Reconciler[M, C]) findCreated(ctx context.Context, s *state[M, C], cloud account.Account[C], made string) (ctrl.Result, error) {
	live := r.Cloud.NewMachine()
	if err := r.Live.Get(ctx, client.ObjectKeyFromObject(s.machine), live); err != nil {
		return ctrl.Result{RequeueAfter: time.Second}, client.IgnoreNotFound(err)
	}
	if live.GetUID() != s.machine.GetUID() || live.GetProviderID() != "" {
		return ctrl.Result{RequeueAfter: time.Second}, nil
	}
	s.created = true
	s.machine.SetProviderID(made)
	return r.read(ctx, s, cloud)
}

// configs returns what may be asked for, in order.
func (r *Reconciler[M, C]) configs(s *state[M, C]) ([]C, error) {
	config, err := r.Cloud.Config(s.machine, s.zone())
	if err != nil || r.Cloud.Alternatives == nil {
		return []C{config}, err
	}
	return append([]C{config}, r.Cloud.Alternatives(config)...), nil
}

func (r *Reconciler[M, C]) outlook(s *state[M, C], cloud account.Account[C], configs []C) outlook {
	look := outlook{stored: stored(s.machine, len(configs)), quiet: r.quiet.has(s.machine.GetUID())}
	for _, config := range configs {
		look.shortages = append(look.shortages, cloud.Shortage(config))
	}
	return look
}

// turn ends the reconcile with another choice to store, or with the wait for room.
func (r *Reconciler[M, C]) nextConfig(s *state[M, C], look outlook) (ctrl.Result, error) {
	choice, rest := look.choose()
	if rest > 0 {
		setShortage(s.machine, look.shortages, fmt.Sprintf("tried again at %s", look.shortages[choice].Until.UTC().Format(time.RFC3339)))
		return ctrl.Result{RequeueAfter: rest}, nil
	}
	place := look.shortages[choice].Place
	setShortage(s.machine, look.shortages, fmt.Sprintf("%q in %q is next", place.InstanceType, place.Zone))
	setChoice(s.machine, choice)
	s.waiting = true
	return ctrl.Result{}, nil
}

// firstChoice passes over places that are known to be short, which only a machine that never asked may do.
func (r *Reconciler[M, C]) firstChoice(ctx context.Context, s *state[M, C]) int {
	configs, err := r.configs(s)
	if err != nil || len(configs) == 1 {
		return 0
	}
	cloud, err := r.Accounts.Driver(ctx, s.machine)
	if err != nil {
		return 0 // whoever asks later tells what is wrong
	}
	look := r.outlook(s, cloud, configs)
	look.quiet = true
	if choice, rest := look.choose(); rest == 0 {
		return choice
	}
	return 0
}

// current reports whether the API server itself agrees that there is no instance yet, and on the choice. A cache
// that is behind shows an earlier one, and asking for that would make a second instance; or it does not show the
// providerID that was just written, and asking again would cost a call.
func (r *Reconciler[M, C]) current(ctx context.Context, s *state[M, C], choices int) (bool, error) {
	live := r.Cloud.NewMachine()
	if err := r.Live.Get(ctx, client.ObjectKeyFromObject(s.machine), live); err != nil {
		return false, client.IgnoreNotFound(err)
	}
	return live.GetUID() == s.machine.GetUID() && live.GetProviderID() == "" && live.GetDeletionTimestamp().IsZero() &&
		stored(live, choices) == stored(s.machine, choices), nil
}
