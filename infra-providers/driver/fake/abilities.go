// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package fake

import (
	"context"
	"fmt"
	"iter"
	"maps"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"drover.io/infra-providers/driver"
)

// Remains implements driver.Remainder: the disks.
func (c *Cloud) Remains(ctx context.Context, owner driver.Owner) iter.Seq2[driver.Remain, error] {
	return func(yield func(driver.Remain, error) bool) {
		var all []driver.Remain
		err := c.call(ctx, Call{Operation: "list"}, func() error {
			for uid, left := range c.disks {
				if owner.UID == "" || left.owner.Owner.UID == owner.UID {
					all = append(all, driver.Remain{Kind: "disk", ID: string(uid), Identity: left.owner, Created: left.born})
				}
			}
			return nil
		})
		if err != nil {
			yield(driver.Remain{}, err)
			return
		}
		for _, remain := range all {
			if !yield(remain, nil) {
				return
			}
		}
	}
}

// Size implements driver.Sizer.
func (c *Cloud) Size(_ context.Context, config Config) (driver.Size, error) {
	capacity, ok := sizes[config.InstanceType]
	if !ok {
		return driver.Size{}, &driver.InvalidConfigurationError{Field: "spec.instanceType", Err: fmt.Errorf("unknown type %q", config.InstanceType)}
	}
	return driver.Size{Capacity: maps.Clone(capacity), Architecture: "amd64", OperatingSystem: "linux"}, nil
}

// Notify implements driver.Notifier.
func (c *Cloud) Notify(changed func(driver.Identity)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.changed = changed
}

// Tag implements driver.Tagger.
func (c *Cloud) Tag(ctx context.Context, id driver.Identity) error {
	return c.call(ctx, Call{Operation: "tag", Identity: id}, func() error {
		known := c.find(id)
		if known == nil {
			return &driver.NotFoundError{What: "instance of " + id.Name}
		}
		if err := id.Check(known.instance.Identity); err != nil {
			return err
		}
		known.instance.Identity.Owner = id.Owner
		if beside, ok := c.disks[known.instance.Identity.UID]; ok {
			beside.owner.Owner = id.Owner
			c.disks[known.instance.Identity.UID] = beside
		}
		return nil
	})
}

// Restart implements driver.Restarter.
func (c *Cloud) Restart(ctx context.Context, id driver.Identity) error {
	return c.call(ctx, Call{Operation: "restart", Identity: id}, func() error {
		known := c.find(id)
		if known == nil {
			return &driver.NotFoundError{What: "instance of " + id.Name}
		}
		if err := id.Check(known.instance.Identity); err != nil {
			return err
		}
		if err := known.instance.Restartable(); err != nil {
			return err
		}
		c.restarts[known.instance.Identity.UID]++
		return nil
	})
}

var sizes = map[string]corev1.ResourceList{
	"small": {corev1.ResourceCPU: resource.MustParse("2"), corev1.ResourceMemory: resource.MustParse("4Gi")},
	"large": {corev1.ResourceCPU: resource.MustParse("8"), corev1.ResourceMemory: resource.MustParse("32Gi")},
}
