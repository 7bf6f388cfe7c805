// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package fake

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"maps"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"

	"drover.io/infra-providers/driver"
)

// AttachedObjects implements driver.AttachedObjectLister: the disks.
func (c *Cloud) AttachedObjects(ctx context.Context, owner driver.Owner) iter.Seq2[driver.AttachedObject, error] {
	return func(yield func(driver.AttachedObject, error) bool) {
		var all []driver.AttachedObject
		err := c.call(ctx, Call{Operation: "list"}, func() error {
			for uid, left := range c.disks {
				if owner.UID == "" || left.owner.Owner.UID == owner.UID {
					all = append(all, driver.AttachedObject{Kind: "disk", ID: string(uid), Identity: left.owner, Created: left.created})
				}
			}
			return nil
		})
		if err != nil {
			yield(driver.AttachedObject{}, err)
			return
		}
		for _, remain := range all {
			if !yield(remain, nil) {
				return
			}
		}
	}
}

// AccountID implements driver.AccountIdentifier.
func (c *Cloud) AccountID(ctx context.Context) (id string, err error) {
	err = c.call(ctx, Call{Operation: "account"}, func() error {
		id = c.options.Account
		return nil
	})
	return id, err
}

// Capacity implements driver.CapacityProvider.
func (c *Cloud) Capacity(_ context.Context, config Config) (driver.Capacity, error) {
	capacity, ok := sizes[config.InstanceType]
	if !ok {
		return driver.Capacity{}, &driver.InvalidConfigurationError{Field: "spec.instanceType", Err: fmt.Errorf("unknown type %q", config.InstanceType)}
	}
	return driver.Capacity{Capacity: maps.Clone(capacity), Architecture: "amd64", OperatingSystem: "linux"}, nil
}

// FindImage implements driver.ImageFinder.
func (c *Cloud) FindImage(ctx context.Context, config Config) (found driver.Image, err error) {
	err = c.call(ctx, Call{Operation: "image", Config: config}, func() (err error) {
		found, err = c.imageOf(config)
		return err
	})
	return found, err
}

// image is the look-up of a creation, which is no call of its own. An instance that exists needs none any more.
func (c *Cloud) image(req driver.CreateRequest[Config]) (driver.Image, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.findCreated(Call{Identity: req.Identity, Config: req.Config}) != nil {
		return driver.Image{}, nil
	}
	return c.imageOf(req.Config)
}

func (c *Cloud) imageOf(config Config) (driver.Image, error) {
	name := cmp.Or(config.Image, "linux")
	found, ok := c.images[name]
	if !ok {
		return driver.Image{}, &driver.InvalidConfigurationError{Field: "spec.image", Err: fmt.Errorf("unknown image %q", name)}
	}
	return found, nil
}

// Notify implements driver.Notifier.
func (c *Cloud) Notify(changed func(driver.Identity)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.changed = changed
}

// Provision implements driver.Provisioner.
func (c *Cloud) Provision(ctx context.Context, id driver.Identity) (found driver.Instance, err error) {
	err = c.call(ctx, Call{Operation: "provision", Identity: id}, func() error {
		known := c.find(id)
		if known == nil {
			return &driver.NotFoundError{What: "instance of " + id.Name}
		}
		if err := id.Check(known.instance.Identity); err != nil {
			return err
		}
		if known.instance.State == driver.Pending && known.instance.StepDue {
			known.provisions--
			c.provisioned++
			known.instance.StepDue = false
		}
		found = known.instance
		return nil
	})
	return found, err
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
		if _, err := driver.RequireRunning(known.instance, nil); err != nil {
			return err
		}
		c.restarts[known.instance.Identity.UID]++
		return nil
	})
}

// Console implements driver.ConsoleReader.
func (c *Cloud) Console(ctx context.Context, id driver.Identity) (output []byte, err error) {
	err = c.call(ctx, Call{Operation: "console", Identity: id}, func() error {
		known := c.find(id)
		if known == nil {
			return &driver.NotFoundError{What: "instance of " + id.Name}
		}
		if err := id.Check(known.instance.Identity); err != nil {
			return err
		}
		output = driver.LastOutput([]byte(c.consoles[known.instance.Identity.UID]))
		return nil
	})
	return output, err
}

// Write replaces the output on the console of an instance.
func (c *Cloud) Write(uid types.UID, output string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.consoles[uid] = output
}

var sizes = map[string]corev1.ResourceList{
	"small": {corev1.ResourceCPU: resource.MustParse("2"), corev1.ResourceMemory: resource.MustParse("4Gi")},
	"large": {corev1.ResourceCPU: resource.MustParse("8"), corev1.ResourceMemory: resource.MustParse("32Gi")},
}

func images() map[string]driver.Image {
	return map[string]driver.Image{
		"linux":       {ID: "image-1", Architecture: "amd64"},
		"linux-arm64": {ID: "image-2", Architecture: "arm64"},
		"plain":       {ID: "image-3"},
	}
}
