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
	"drover.io/infra-providers/internal/machinestatus"
)

// maxProviderID is how many bytes a providerID may have.
const maxProviderID = 512

// create creates the instance, in the configuration that is stored as the machine's choice. Another choice is stored
// first, by ending the reconcile, and created by the next.
func (r *Reconciler[M, C]) create(ctx context.Context, s *state[M, C], cloud account.Account[C]) (ctrl.Result, error) {
	configs, err := r.configs(s)
	if err != nil {
		return r.failed(ctx, s, err)
	}
	if createdID, ok := r.createdIDs.Get(s.machine.GetUID()); ok {
		return r.findCreated(ctx, s, cloud, createdID)
	}
	options := r.choices(s, cloud, configs)
	if choice, wait := options.next(); wait > 0 || choice != options.stored {
		return r.storeChoice(s, options)
	}
	if len(configs) > 1 {
		if current, err := r.isCurrent(ctx, s, len(configs)); err != nil || !current {
			return ctrl.Result{RequeueAfter: time.Second}, err
		}
	}
	if s.waiting, err = r.correctIdentity(ctx, s, cloud); err != nil {
		return r.failed(ctx, s, err)
	} else if s.waiting {
		return ctrl.Result{}, nil
	}
	r.outcomeKnown.Delete(s.machine.GetUID())
	if r.Creating != nil {
		r.Creating(s.identity().UID)
	}
	s.observed, err = cloud.Create(ctx, driver.CreateRequest[C]{
		Identity: s.identity(),
		Config:   configs[options.stored],
		UserData: s.userData,
		Format:   s.format,
		Since:    s.since(),
	})
	switch {
	case r.Cloud.Offering != nil && (driver.IsInsufficientCapacity(err) || driver.IsQuotaExceeded(err)):
		r.outcomeKnown.Set(s.machine.GetUID(), struct{}{})
		return r.storeChoice(s, r.choices(s, cloud, configs))
	case err != nil:
		return r.failed(ctx, s, &machinestatus.CallError{Doing: "creating", Err: err})
	}
	if length := len(s.observed.ProviderID); length > maxProviderID {
		return r.failed(ctx, s, fmt.Errorf("creating instance: its providerID would have %d bytes, and %d are possible", length, maxProviderID))
	}
	s.created = true
	r.createdIDs.Set(s.machine.GetUID(), s.observed.ProviderID)
	s.machine.SetProviderID(s.observed.ProviderID)
	return ctrl.Result{}, nil
}

// findCreated continues with an instance that was created and whose providerID the object does not show: because the
// cache is behind, or because the providerID could not be written, which is tried again.
func (r *Reconciler[M, C]) findCreated(ctx context.Context, s *state[M, C], cloud account.Account[C], createdID string) (ctrl.Result, error) {
	live := r.Cloud.NewMachine()
	if err := r.Live.Get(ctx, client.ObjectKeyFromObject(s.machine), live); err != nil {
		return ctrl.Result{RequeueAfter: time.Second}, client.IgnoreNotFound(err)
	}
	if live.GetUID() != s.machine.GetUID() || live.GetProviderID() != "" {
		return ctrl.Result{RequeueAfter: time.Second}, nil
	}
	s.created = true
	s.machine.SetProviderID(createdID)
	return r.readInstance(ctx, s, cloud)
}

// configs returns the configurations that may be created, in order.
func (r *Reconciler[M, C]) configs(s *state[M, C]) ([]C, error) {
	config, err := r.Cloud.Config(s.machine, s.zone())
	if err != nil || r.Cloud.Alternatives == nil {
		return []C{config}, err
	}
	return append([]C{config}, r.Cloud.Alternatives(config)...), nil
}

func (r *Reconciler[M, C]) choices(s *state[M, C], cloud account.Account[C], configs []C) choiceInput {
	found := choiceInput{stored: storedChoice(s.machine, len(configs)), outcomeKnown: r.outcomeKnown.Has(s.machine.GetUID())}
	for _, config := range configs {
		found.offerings = append(found.offerings, cloud.UnavailableOffering(s.machine.GetNamespace(), config))
	}
	return found
}

// storeChoice ends the reconcile with another choice to store, or with a pause until the next creation.
func (r *Reconciler[M, C]) storeChoice(s *state[M, C], options choiceInput) (ctrl.Result, error) {
	choice, wait := options.next()
	if wait > 0 {
		machinestatus.SetShortage(s.machine, options.offerings, fmt.Sprintf("tried again at %s", options.offerings[choice].Until.UTC().Format(time.RFC3339)))
		return ctrl.Result{RequeueAfter: wait}, nil
	}
	if choice == options.stored {
		// It was refused and is available again by now: another machine has got one, or the time was over. Nothing is stored, so
		// that no watch event starts the next reconcile.
		return ctrl.Result{RequeueAfter: time.Second}, nil
	}
	offering := options.offerings[choice].Offering
	machinestatus.SetShortage(s.machine, options.offerings, fmt.Sprintf("%q in %q is next", offering.InstanceType, offering.Zone))
	setChoice(s.machine, choice)
	s.waiting = true
	return ctrl.Result{}, nil
}

// firstChoice returns the first choice whose offering is available, which is safe only before the first creation.
func (r *Reconciler[M, C]) firstChoice(ctx context.Context, s *state[M, C]) int {
	configs, err := r.configs(s)
	if err != nil || len(configs) == 1 {
		return 0
	}
	cloud, err := r.Accounts.Driver(ctx, s.machine)
	if err != nil {
		return 0 // a later phase reports the error
	}
	options := r.choices(s, cloud, configs)
	options.outcomeKnown = true
	if choice, wait := options.next(); wait == 0 {
		return choice
	}
	return 0
}

// isCurrent reports whether the API server itself shows no instance and the same choice. A cache that is behind shows an
// earlier choice, whose creation would make a second instance; or it does not show the providerID that was just written,
// and another creation would cost a call.
func (r *Reconciler[M, C]) isCurrent(ctx context.Context, s *state[M, C], choices int) (bool, error) {
	live := r.Cloud.NewMachine()
	if err := r.Live.Get(ctx, client.ObjectKeyFromObject(s.machine), live); err != nil {
		return false, client.IgnoreNotFound(err)
	}
	return live.GetUID() == s.machine.GetUID() && live.GetProviderID() == "" && live.GetDeletionTimestamp().IsZero() &&
		storedChoice(live, choices) == storedChoice(s.machine, choices), nil
}
