// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package metalstack

import (
	"context"
	"fmt"

	"github.com/metal-stack/metal-go/api/client/partition"
	"github.com/metal-stack/metal-go/api/models"

	"drover.io/infra-providers/driver"
)

// The API answers an allocation that it refuses with 400 or 422, whatever the reason, and has no codes. The reason is read from
// its state: what the spec names and does not exist, a quota that is used up, a partition without a free machine of the size.

// explain returns the reason of a refused allocation.
func (d *Driver) explain(ctx context.Context, config InstanceConfig, refusal error) error {
	if !isRefused(refusal) {
		return refusal
	}
	for _, check := range []func() error{
		func() error { _, err := d.size(ctx, config.Spec.Size); return err },
		func() error { return d.missing(ctx, config) },
		func() error { return d.checkQuota(ctx, refusal) },
		func() error { return d.checkCapacity(ctx, config, refusal) },
	} {
		if err := check(); err != nil {
			return err
		}
	}
	// Nothing explains it any more: what did has passed, or it is something that cannot be read.
	return refusal
}

// checkQuota finds that the project's quota is used up. The API compares the quota of machines with the number of the project's
// firewalls. A quota that its machines exceed explains no refusal.
func (d *Driver) checkQuota(ctx context.Context, refusal error) error {
	found, err := d.projectOf(ctx)
	if err != nil {
		return err
	}
	if found.Quotas == nil || found.Quotas.Machine == nil || found.Quotas.Machine.Quota == 0 {
		return nil
	}
	limit := int(found.Quotas.Machine.Quota)
	allocated, err := d.client.find(ctx, models.V1MachineFindRequest{AllocationProject: d.project, AllocationRole: models.V1MachineAllocationRoleFirewall})
	if err != nil {
		return fmt.Errorf("counting firewalls: %w", err)
	}
	if len(allocated) >= limit {
		return &driver.QuotaExceededError{Err: fmt.Errorf("the project's quota of %d machines is used up: %w", limit, causeOf(refusal))}
	}
	return nil
}

// checkCapacity finds that the partition has no machine of the size that the project could have.
func (d *Driver) checkCapacity(ctx context.Context, config InstanceConfig, refusal error) error {
	found, err := d.client.api.Partition.PartitionCapacity(partition.NewPartitionCapacityParamsWithContext(ctx).WithBody(&models.V1PartitionCapacityRequest{
		ID: config.Partition, Sizeid: config.Spec.Size, Projectid: &d.project,
	}), nil)
	if err != nil {
		return fmt.Errorf("reading the capacity: %w", err)
	}
	for _, of := range found.Payload {
		for _, servers := range of.Servers {
			if value(of.ID) == config.Partition && value(servers.Size) == config.Spec.Size && servers.Free > 0 {
				return nil
			}
		}
	}
	return &driver.InsufficientCapacityError{InstanceType: config.Spec.Size, Zone: config.Partition, Err: causeOf(refusal)}
}
