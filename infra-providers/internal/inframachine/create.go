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
func (r *Reconciler[M, C]) create(ctx context.Context, job *job[M, C], cloud account.Account[C]) (ctrl.Result, error) {
	configs, err := r.configs(job)
	if err != nil {
		return r.failed(job, err)
	}
	look := r.outlook(job, cloud, configs)
	if choice, rest := look.choose(); rest > 0 || choice != look.stored {
		return r.turn(job, look)
	}
	if len(configs) > 1 || r.made.has(job.machine.GetUID()) {
		if current, err := r.current(ctx, job, len(configs)); err != nil || !current {
			return ctrl.Result{RequeueAfter: time.Second}, err
		}
	}
	r.quiet.remove(job.machine.GetUID())
	job.observed, err = cloud.Create(ctx, driver.Request[C]{
		Identity: job.identity(),
		Config:   configs[look.stored],
		UserData: job.userData,
		Format:   job.format,
	})
	switch {
	case r.Cloud.Place != nil && (driver.IsInsufficientCapacity(err) || driver.IsQuotaExceeded(err)):
		r.quiet.add(job.machine.GetUID())
		return r.turn(job, r.outlook(job, cloud, configs))
	case err != nil:
		return r.failed(job, fmt.Errorf("creating instance: %w", err))
	}
	r.made.add(job.machine.GetUID())
	job.machine.SetProviderID(job.observed.ProviderID)
	return ctrl.Result{}, nil
}

// configs returns what may be asked for, in order.
func (r *Reconciler[M, C]) configs(job *job[M, C]) ([]C, error) {
	config, err := r.Cloud.Config(job.machine, job.zone())
	if err != nil || r.Cloud.Alternatives == nil {
		return []C{config}, err
	}
	return append([]C{config}, r.Cloud.Alternatives(config)...), nil
}

func (r *Reconciler[M, C]) outlook(job *job[M, C], cloud account.Account[C], configs []C) outlook {
	look := outlook{stored: stored(job.machine, len(configs)), quiet: r.quiet.has(job.machine.GetUID())}
	for _, config := range configs {
		look.shortages = append(look.shortages, cloud.Shortage(config))
	}
	return look
}

// turn ends the reconcile with another choice to store, or with the wait for room.
func (r *Reconciler[M, C]) turn(job *job[M, C], look outlook) (ctrl.Result, error) {
	choice, rest := look.choose()
	if rest > 0 {
		setShortage(job.machine, look.shortages, fmt.Sprintf("tried again at %s", look.shortages[choice].Until.UTC().Format(time.RFC3339)))
		return ctrl.Result{RequeueAfter: rest}, nil
	}
	place := look.shortages[choice].Place
	setShortage(job.machine, look.shortages, fmt.Sprintf("%q in %q is next", place.InstanceType, place.Zone))
	setChoice(job.machine, choice)
	job.waiting = true
	return ctrl.Result{}, nil
}

// firstChoice passes over places that are known to be short, which only a machine that never asked may do.
func (r *Reconciler[M, C]) firstChoice(ctx context.Context, job *job[M, C]) int {
	configs, err := r.configs(job)
	if err != nil || len(configs) == 1 {
		return 0
	}
	cloud, err := r.Accounts.Driver(ctx, job.machine)
	if err != nil {
		return 0 // whoever asks later tells what is wrong
	}
	look := r.outlook(job, cloud, configs)
	look.quiet = true
	if choice, rest := look.choose(); rest == 0 {
		return choice
	}
	return 0
}

// current reports whether the API server itself agrees that there is no instance yet, and on the choice. A cache
// that is behind shows an earlier one, and asking for that would make a second instance; or it does not show the
// providerID that was just written, and asking again would cost a call.
func (r *Reconciler[M, C]) current(ctx context.Context, job *job[M, C], choices int) (bool, error) {
	live := r.Cloud.NewMachine()
	if err := r.Live.Get(ctx, client.ObjectKeyFromObject(job.machine), live); err != nil {
		return false, client.IgnoreNotFound(err)
	}
	return live.GetUID() == job.machine.GetUID() && live.GetProviderID() == "" && live.GetDeletionTimestamp().IsZero() &&
		stored(live, choices) == stored(job.machine, choices), nil
}
