// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Package catalog finds what a machine's spec names in DigitalOcean: the size, the region and the image. It changes
// nothing. What does not exist is an InvalidConfigurationError of the field; other errors are the SDK's own.
package catalog

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/digitalocean/godo"
	"k8s.io/utils/clock"

	"drover.io/infra-providers/driver"
	"drover.io/runtime/expiring"
)

const (
	// sizesTTL is how long the sizes are cached for the capacity of templates.
	sizesTTL = 10 * time.Minute
	// pageSize is the maximum page size of the API.
	pageSize = 200
)

// Catalog finds resources for one team.
type Catalog struct {
	client *godo.Client
	sizes  expiring.Map[string, godo.Size]
}

// New returns a Catalog for the team of a client.
func New(client *godo.Client, clock clock.PassiveClock) *Catalog {
	c := &Catalog{client: client}
	c.sizes.Clock, c.sizes.TTL = clock, sizesTTL
	return c
}

// Size finds a size by its slug. It may be as old as the cache.
func (c *Catalog) Size(ctx context.Context, slug string) (godo.Size, error) {
	if known, ok := c.sizes.Get(slug); ok {
		return known, nil
	}
	return c.readSize(ctx, slug)
}

func (c *Catalog) readSize(ctx context.Context, slug string) (godo.Size, error) {
	all, err := pages(ctx, c.client.Sizes.List)
	if err != nil {
		return godo.Size{}, fmt.Errorf("listing sizes: %w", err)
	}
	for _, size := range all {
		c.sizes.Set(size.Slug, size)
	}
	at := slices.IndexFunc(all, func(size godo.Size) bool { return size.Slug == slug })
	if at < 0 {
		return godo.Size{}, driver.InvalidField("spec.size", "the cloud has no size %q", slug)
	}
	return all[at], nil
}

// Offer finds a size and a region as they are now.
func (c *Catalog) Offer(ctx context.Context, size, region string) (godo.Size, godo.Region, error) {
	foundSize, err := c.readSize(ctx, size)
	if err != nil {
		return godo.Size{}, godo.Region{}, err
	}
	all, err := pages(ctx, c.client.Regions.List)
	if err != nil {
		return godo.Size{}, godo.Region{}, fmt.Errorf("listing regions: %w", err)
	}
	at := slices.IndexFunc(all, func(found godo.Region) bool { return found.Slug == region })
	if at < 0 {
		return godo.Size{}, godo.Region{}, driver.InvalidField("spec.region", "the cloud has no region %q", region)
	}
	return foundSize, all[at], nil
}

// Image finds an image in a region: by its ID or slug, or the newest of the team's own by its name.
func (c *Catalog) Image(ctx context.Context, image, name, region string) (godo.Image, error) {
	if name != "" {
		return c.newest(ctx, name, region)
	}
	var found *godo.Image
	var response *godo.Response
	var err error
	if id, failure := strconv.Atoi(image); failure == nil {
		found, response, err = c.client.Images.GetByID(ctx, id)
	} else {
		found, response, err = c.client.Images.GetBySlug(ctx, image)
	}
	switch {
	case response != nil && response.Response != nil && response.StatusCode == http.StatusNotFound:
		return godo.Image{}, driver.InvalidField("spec.image", "there is no image %q", image)
	case err != nil:
		return godo.Image{}, fmt.Errorf("reading image %q: %w", image, err)
	case !slices.Contains(found.Regions, region):
		return godo.Image{}, driver.InvalidField("spec.image", "image %q is not in region %q: transfer it there", image, region)
	}
	return *found, nil
}

// newest finds the newest image of a name that is available in a region.
func (c *Catalog) newest(ctx context.Context, name, region string) (newest godo.Image, err error) {
	all, err := pages(ctx, c.client.Images.ListUser)
	if err != nil {
		return newest, fmt.Errorf("listing images: %w", err)
	}
	for _, image := range all {
		available := image.Status == "" || image.Status == "available"
		// Times are of one format, in UTC.
		if image.Name == name && available && slices.Contains(image.Regions, region) && (newest.ID == 0 || image.Created > newest.Created) {
			newest = image
		}
	}
	if newest.ID == 0 {
		return newest, driver.InvalidField("spec.imageName", "the team has no available image of the name %q in region %q", name, region)
	}
	return newest, nil
}

// pages returns what a list has over all pages.
func pages[T any](ctx context.Context, list func(context.Context, *godo.ListOptions) ([]T, *godo.Response, error)) (all []T, err error) {
	for page := 1; ; page++ {
		found, response, err := list(ctx, &godo.ListOptions{Page: page, PerPage: pageSize})
		if err != nil {
			return nil, err
		}
		all = append(all, found...)
		if response.Links == nil || response.Links.IsLastPage() {
			return all, nil
		}
	}
}
