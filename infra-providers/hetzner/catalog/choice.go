// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/hetznercloud/hcloud-go/v2/hcloud"

	"drover.io/infra-providers/driver"
)

// groupSize is the maximum number of servers in a placement group.
const groupSize = 10

// errNoneFree is transient: the deletion of a server frees one.
var errNoneFree = errors.New("all are in use")

// Image finds an image for an architecture: by its ID, by the name of a system image, or as the newest
// snapshot of a label selector.
func (c *Catalog) Image(ctx context.Context, name, selector string, architecture hcloud.Architecture) (*hcloud.Image, error) {
	if selector != "" {
		return c.newest(ctx, selector, architecture)
	}
	if id, err := strconv.ParseInt(name, 10, 64); err == nil {
		return c.imageByID(ctx, id, architecture)
	}
	found, _, err := c.client.Image.GetByNameAndArchitecture(ctx, name, architecture)
	if err != nil {
		return nil, fmt.Errorf("reading image %q: %w", name, err)
	}
	if found == nil {
		return nil, driver.InvalidField("spec.image", "there is no image %q for architecture %q", name, architecture)
	}
	return found, nil
}

func (c *Catalog) imageByID(ctx context.Context, id int64, architecture hcloud.Architecture) (*hcloud.Image, error) {
	found, _, err := c.client.Image.GetByID(ctx, id)
	switch {
	case err != nil:
		return nil, fmt.Errorf("reading image %d: %w", id, err)
	case found == nil || found.IsDeleted():
		return nil, driver.InvalidField("spec.image", "the project has no image %d", id)
	case found.Architecture != architecture:
		return nil, driver.InvalidField("spec.image", "image %d is for architecture %q, the server type has %q", id, found.Architecture, architecture)
	}
	return found, nil
}

// newest finds the newest snapshot that is available.
func (c *Catalog) newest(ctx context.Context, selector string, architecture hcloud.Architecture) (*hcloud.Image, error) {
	found, _, err := c.client.Image.List(ctx, hcloud.ImageListOpts{
		ListOpts:     hcloud.ListOpts{LabelSelector: selector, PerPage: 1},
		Type:         []hcloud.ImageType{hcloud.ImageTypeSnapshot},
		Status:       []hcloud.ImageStatus{hcloud.ImageStatusAvailable},
		Architecture: []hcloud.Architecture{architecture},
		Sort:         []string{"created:desc"},
	})
	if err != nil {
		return nil, fmt.Errorf("reading images of %q: %w", selector, err)
	}
	if len(found) == 0 {
		return nil, driver.InvalidField("spec.imageSelector", "the project has no snapshot of %q for architecture %q", selector, architecture)
	}
	return found[0], nil
}

// PlacementGroup finds a group by name or ID, or the one with the fewest servers of a label selector.
func (c *Catalog) PlacementGroup(ctx context.Context, name, selector string) (*hcloud.PlacementGroup, error) {
	if selector == "" {
		found, err := one(ctx, "spec.placementGroup", name, c.client.PlacementGroup.Get)
		if err == nil && found.Name == MarkerName {
			return nil, driver.InvalidField("spec.placementGroup", "placement group %q identifies the project and holds no servers", MarkerName)
		}
		return found, err
	}
	found, err := c.client.PlacementGroup.AllWithOpts(ctx, hcloud.PlacementGroupListOpts{ListOpts: hcloud.ListOpts{LabelSelector: selector}})
	if err != nil {
		return nil, fmt.Errorf("reading placement groups of %q: %w", selector, err)
	}
	// A selector such as !pool matches the group that identifies the project.
	found = slices.DeleteFunc(found, func(group *hcloud.PlacementGroup) bool { return group.Name == MarkerName })
	if len(found) == 0 {
		return nil, driver.InvalidField("spec.placementGroupSelector", "the project has no placement group of %q", selector)
	}
	emptiest := slices.MinFunc(found, func(a, b *hcloud.PlacementGroup) int {
		return cmp.Or(cmp.Compare(len(a.Servers), len(b.Servers)), cmp.Compare(a.ID, b.ID))
	})
	if len(emptiest.Servers) >= groupSize {
		return nil, fmt.Errorf("choosing a placement group of %q: %w", selector, errNoneFree)
	}
	return emptiest, nil
}

// Address is a Primary IP to find.
type Address struct {
	// Field is the path of the field that names it.
	Field string
	Kind  hcloud.PrimaryIPType
	// Name or ID, or Selector.
	Name, Selector string
	// Location is its location; empty means any.
	Location string
}

// PrimaryIP finds a Primary IP by name or ID, or an unassigned one of a label selector. It returns nil when the address
// names neither.
func (c *Catalog) PrimaryIP(ctx context.Context, want Address) (*hcloud.PrimaryIP, error) {
	switch {
	case want.Name != "":
		found, err := one(ctx, want.Field+".primaryIP", want.Name, c.client.PrimaryIP.Get)
		if err == nil && found.Type != want.Kind {
			return nil, driver.InvalidField(want.Field+".primaryIP", "Primary IP %q has type %q", want.Name, found.Type)
		}
		return found, err
	case want.Selector != "":
		return c.freePrimaryIP(ctx, want)
	default:
		return nil, nil
	}
}

func (c *Catalog) freePrimaryIP(ctx context.Context, want Address) (*hcloud.PrimaryIP, error) {
	found, err := c.client.PrimaryIP.AllWithOpts(ctx, hcloud.PrimaryIPListOpts{ListOpts: hcloud.ListOpts{LabelSelector: want.Selector}})
	if err != nil {
		return nil, fmt.Errorf("reading Primary IPs of %q: %w", want.Selector, err)
	}
	fits := func(ip *hcloud.PrimaryIP) bool {
		elsewhere := want.Location != "" && ip.Location != nil && ip.Location.Name != want.Location
		return ip.Type == want.Kind && !elsewhere
	}
	candidates := slices.DeleteFunc(found, func(ip *hcloud.PrimaryIP) bool { return !fits(ip) })
	if len(candidates) == 0 {
		return nil, driver.InvalidField(want.Field+".primaryIPSelector", "the project has no Primary IP of %q and type %q there", want.Selector, want.Kind)
	}
	free := slices.IndexFunc(candidates, func(ip *hcloud.PrimaryIP) bool { return ip.AssigneeID == 0 })
	if free < 0 {
		return nil, fmt.Errorf("choosing a Primary IP of %q: %w", want.Selector, errNoneFree)
	}
	return candidates[free], nil
}
