// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Package catalog finds in a Hetzner Cloud project what a machine's spec names: the server type, the image
// for its architecture, keys, networks, firewalls, placement groups and Primary IPs. It creates nothing
// but the group that identifies the project. What does not exist is an InvalidConfigurationError that names the field; other errors are the SDK's own.
// The driver asks it each time it orders a server, because all but server types may change meanwhile.
package catalog

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/hetznercloud/hcloud-go/v2/hcloud"

	"drover.io/infra-providers/driver"
)

// freshness is how long a server type is remembered.
const freshness = 10 * time.Minute

// Catalog finds things in one project.
type Catalog struct {
	client *hcloud.Client
	now    func() time.Time

	mu    sync.Mutex
	types map[string]seen
}

// seen is a server type and when it was read.
type seen struct {
	serverType *hcloud.ServerType
	at         time.Time
}

// New returns a Catalog of the project that a client speaks to.
func New(client *hcloud.Client, now func() time.Time) *Catalog {
	return &Catalog{client: client, now: now, types: map[string]seen{}}
}

// ServerType finds a server type by its name.
func (c *Catalog) ServerType(ctx context.Context, name string) (*hcloud.ServerType, error) {
	c.mu.Lock()
	known, ok := c.types[name]
	c.mu.Unlock()
	if ok && c.now().Sub(known.at) < freshness {
		return known.serverType, nil
	}
	found, _, err := c.client.ServerType.GetByName(ctx, name)
	if err != nil {
		return nil, fmt.Errorf("reading server type %q: %w", name, err)
	}
	if found == nil {
		return nil, invalid("spec.serverType", "the cloud has no server type %q", name)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.types[name] = seen{found, c.now()}
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

// each finds one thing per name.
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
		return nil, invalid(field, "the project has none of the name or ID %q", name)
	}
	return found, nil
}

func invalid(field, format string, values ...any) error {
	return &driver.InvalidConfigurationError{Field: field, Err: fmt.Errorf(format, values...)}
}
