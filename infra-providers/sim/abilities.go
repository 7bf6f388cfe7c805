// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"context"

	"drover.io/infra-providers/driver"
	"drover.io/infra-providers/internal/statedir"
	"drover.io/infra-providers/sim/hypervisor"
)

// AccountID implements driver.AccountIdentifier. It is the hypervisor's state directory.
func (d *Driver) AccountID(ctx context.Context) (string, error) {
	return "sim/" + d.api.Name(), ctx.Err()
}

// Capacity implements driver.CapacityProvider.
func (d *Driver) Capacity(_ context.Context, config InstanceConfig) (driver.Capacity, error) {
	return config.Size, nil
}

// Notify implements driver.Notifier.
func (d *Driver) Notify(changed func(driver.Identity)) {
	d.api.Notify(func(instance hypervisor.Instance) { changed(toInstance(instance).Identity) })
}

// Tag implements driver.Tagger.
func (d *Driver) Tag(ctx context.Context, id driver.Identity) error {
	found, err := d.Get(ctx, id)
	if err != nil {
		return err
	}
	id.UID = found.Identity.UID
	return d.api.Tag(found.ID, id.Tags())
}

// Restart implements driver.Restarter. The instance stays Running while its host boots again.
func (d *Driver) Restart(ctx context.Context, id driver.Identity) error {
	found, err := driver.RequireRunning(d.Get(ctx, id))
	if err != nil {
		return err
	}
	return d.api.Restart(found.ID)
}

// Console implements driver.ConsoleReader.
func (d *Driver) Console(ctx context.Context, id driver.Identity) ([]byte, error) {
	found, err := d.Get(ctx, id)
	if err != nil {
		return nil, err
	}
	return statedir.ReadEnd(d.api.ConsoleFile(found.ID), driver.MaxConsole)
}
