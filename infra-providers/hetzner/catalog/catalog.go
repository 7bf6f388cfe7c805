// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Package catalog finds in a Hetzner Cloud project what a machine's spec names: the server type, the image
// for its architecture, keys, networks, firewalls, placement groups and Primary IPs. It creates nothing
// but the group that identifies the project. What does not exist is an InvalidConfigurationError of the field; other
// errors are the SDK's own. The driver calls it before each creation of a server, because all but server types may change.
package catalog

import (
	"context"
	"fmt"
	"time"

	"github.com/hetznercloud/hcloud-go/v2/hcloud"
	"k8s.io/utils/clock"

	"drover.io/infra-providers/driver"
	"drover.io/runtime/expiring"
)

// typeTTL is how long a server type is cached.
const typeTTL = 10 * time.Minute

// maxTypes bounds the cached server types. A project has some dozens.
const maxTypes = 1000

// Catalog finds resources in one project.
type Catalog struct {
	client *hcloud.Client
	types  expiring.Map[string, *hcloud.ServerType]
}

// New returns a Catalog of the project of a client.
func New(client *hcloud.Client, clock clock.PassiveClock) *Catalog {
	c := &Catalog{client: client}
	c.types.Clock, c.types.TTL, c.types.Max = clock, typeTTL, maxTypes
	return c
}

// ServerType finds a server type by its name.
func (c *Catalog) ServerType(ctx context.Context, name string) (*hcloud.ServerType, error) {
	if known, ok := c.types.Get(name); ok {
		return known, nil
	}
	found, _, err := c.client.ServerType.GetByName(ctx, name)
	if err != nil {
		return nil, fmt.Errorf("reading server type %q: %w", name, err)
	}
	if found == nil {
		return nil, driver.InvalidField("spec.serverType", "the cloud has no server type %q", name)
	}
	c.types.Set(name, found)
	return found, nil
}

// SSHKeys finds SSH keys by name or ID.
func (c *Catalog) SSHKeys(ctx context.Context, names []string) ([]*hcloud.SSHKey, error) {
	return each(ctx, "spec.sshKeys", names, c.client.SSHKey.Get)
}

// Firewalls finds firewalls by name or ID.
func (c *Catalog) Firewalls(ctx context.Context, names []string) ([]*hcloud.Firewall, error) {
	return each(ctx, "spec.firewalls", names, c.client.Firewall.Get)
}

// Networks finds networks by name or ID, in the order of the names.
func (c *Catalog) Networks(ctx context.Context, names []string) ([]*hcloud.Network, error) {
	return each(ctx, "spec.networks", names, c.client.Network.Get)
}

// each finds one resource per name.
func each[T any](ctx context.Context, field string, names []string, get func(context.Context, string) (*T, *hcloud.Response, error)) ([]*T, error) {
	all := make([]*T, 0, len(names))
	for i, name := range names {
		found, err := one(ctx, fmt.Sprintf("%s[%d]", field, i), name, get)
		if err != nil {
			return nil, err
		}
		all = append(all, found)
	}
	return all, nil
}

func one[T any](ctx context.Context, field, name string, get func(context.Context, string) (*T, *hcloud.Response, error)) (*T, error) {
	found, _, err := get(ctx, name)
	if err != nil {
		return nil, fmt.Errorf("reading %s %q: %w", field, name, err)
	}
	if found == nil {
		return nil, driver.InvalidField(field, "the project has none of the name or ID %q", name)
	}
	return found, nil
}
