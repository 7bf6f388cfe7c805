// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package drivertest

import (
	"testing"
	"time"

	"drover.io/infra-providers/driver"
)

// readOnly reads an instance in all ways while it starts, runs and is deleted. Only the calls that are meant to change
// something may do so.
func readOnly[C any](t *testing.T, env Environment[C]) {
	if env.Changes == nil {
		t.Skip("this cloud does not count changes")
	}
	id := identity(1)
	id.ProviderID = create(t, env, id).ProviderID
	for range 3 {
		wantReadOnly(t, env, id, "creation")
		found, err := env.Driver.Get(t.Context(), id)
		if err == nil {
			err = proceed(t, env, id, found)
		}
		if err != nil {
			t.Fatalf("provisioning: %v", err)
		}
	}
	wantRunning(t, env, id)
	wantReadOnly(t, env, id, "provisioning")
	if err := env.Driver.Delete(t.Context(), id); err != nil {
		t.Fatalf("deleting: %v", err)
	}
	wantReadOnly(t, env, id, "the request to delete it")
	wantGone(t, env, id)
	wantReadOnly(t, env, id, "deletion")
	wantNothing(t, env)
}

// wantReadOnly fails if reading changes anything.
func wantReadOnly[C any](t *testing.T, env Environment[C], id driver.Identity, after string) {
	t.Helper()
	before := env.Changes()
	byUID := id
	byUID.ProviderID = ""
	for range 3 {
		for _, id := range []driver.Identity{id, byUID} {
			if _, err := env.Driver.Get(t.Context(), id); err != nil && !driver.IsNotFound(err) {
				t.Fatalf("reading after %s: %v", after, err)
			}
		}
		for _, owner := range []driver.Owner{id.Owner, {}} {
			if _, err := all(t.Context(), env.Driver, owner); err != nil {
				t.Fatalf("listing after %s: %v", after, err)
			}
		}
		readAbilities(t, env, after)
	}
	if changed := env.Changes() - before; changed != 0 {
		t.Errorf("reading after %s created %d requests that change something, want none", after, changed)
	}
}

// readAbilities calls every optional ability that reads.
func readAbilities[C any](t *testing.T, env Environment[C], after string) {
	t.Helper()
	if remainder, ok := env.Driver.(driver.AttachedObjectLister); ok {
		for _, err := range remainder.AttachedObjects(t.Context(), driver.Owner{}) {
			if err != nil {
				t.Fatalf("listing what is beside instances after %s: %v", after, err)
			}
		}
	}
	if finder, ok := env.Driver.(driver.ImageFinder[C]); ok {
		if _, err := finder.FindImage(t.Context(), env.Config); err != nil {
			t.Fatalf("finding the image after %s: %v", after, err)
		}
	}
	if sizer, ok := env.Driver.(driver.CapacityProvider[C]); ok {
		if _, err := sizer.Capacity(t.Context(), env.Config); err != nil {
			t.Fatalf("finding the size after %s: %v", after, err)
		}
	}
}

// provision takes each step in another process, where the cloud can reconnect, by UID and by provider ID in turns.
func provision[C any](t *testing.T, env Environment[C]) {
	id := identity(1)
	if _, err := provisionerOf(t, env).Provision(t.Context(), id); !driver.IsNotFound(err) {
		t.Errorf("provisioning what does not exist: got %v, want a NotFoundError", err)
	}
	created := create(t, env, id)
	steps := 0
	for deadline := time.Now().Add(waitTimeout); ; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("the instance does not run after %d steps", steps)
		}
		if env.Reconnect != nil {
			env.Driver = env.Reconnect()
		}
		found, err := env.Driver.Get(t.Context(), id)
		switch {
		case err != nil && !known(err): // another process may have to wait until it is certain what there is
		case err != nil:
			t.Fatalf("reading after %d steps: %v", steps, err)
		case found.StepDue:
			steps++
			takeStep(t, env, id, created, steps)
		case found.State == driver.Running && steps == 0:
			t.Skip("this cloud makes an instance in one go")
		case found.State == driver.Running:
			wantOne(t, env, id)
			return
		}
	}
}

func takeStep[C any](t *testing.T, env Environment[C], id driver.Identity, created driver.Instance, number int) {
	t.Helper()
	if number%2 == 0 {
		id.ProviderID = created.ProviderID
	}
	after, err := provisionerOf(t, env).Provision(t.Context(), id)
	if err != nil {
		t.Fatalf("step %d: %v", number, err)
	}
	if diff := same(created, after); diff != "" {
		t.Errorf("step %d changed the instance (-created +after):\n%s", number, diff)
	}
}

// provisionNothing requests a step of an instance that needs none, or must not get one.
func provisionNothing[C any](t *testing.T, env Environment[C]) {
	provisioner := provisionerOf(t, env)
	id := identity(1)
	id.ProviderID = create(t, env, id).ProviderID
	wantRunning(t, env, id)
	wantNoStep(t, env, id, driver.Running)
	if env.Stop != nil {
		env.Stop()
		wantNoStep(t, env, id, driver.Stopped)
	}
	if err := env.Driver.Delete(t.Context(), id); err != nil {
		t.Fatalf("deleting: %v", err)
	}
	found, err := provisioner.Provision(t.Context(), id)
	if !driver.IsNotFound(err) && (err != nil || found.State != driver.Stopping && found.State != driver.Terminated) {
		t.Errorf("provisioning what is deleted: got %q and %v, want it to be %s or not found", found.State, err, driver.Stopping)
	}
	wantGone(t, env, id)
	if _, err := provisioner.Provision(t.Context(), id); !driver.IsNotFound(err) {
		t.Errorf("provisioning what was deleted: got %v, want a NotFoundError", err)
	}
	wantNothing(t, env)
}

// wantNoStep fails if Provision changes anything.
func wantNoStep[C any](t *testing.T, env Environment[C], id driver.Identity, state driver.State) {
	t.Helper()
	before, changes := everything(t, env), changesOf(env)
	for range 2 {
		if found, err := provisionerOf(t, env).Provision(t.Context(), id); err != nil || found.State != state || found.StepDue {
			t.Errorf("provisioning what is %s: got %+v and %v", state, found, err)
		}
	}
	if changed := changesOf(env) - changes; changed != 0 {
		t.Errorf("provisioning what is %s created %d requests that change something, want none", state, changed)
	}
	wantUnchanged(t, env, before, "provisioning what is "+string(state))
}

func changesOf[C any](env Environment[C]) int {
	if env.Changes == nil {
		return 0
	}
	return env.Changes()
}

func provisionerOf[C any](t *testing.T, env Environment[C]) driver.Provisioner {
	t.Helper()
	provisioner, ok := env.Driver.(driver.Provisioner)
	if !ok {
		t.Skip("this cloud makes an instance in one go")
	}
	return provisioner
}
