// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package lookup

import (
	"context"
	"fmt"
	"slices"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/image/v2/images"

	infrav1 "drover.io/api/infrastructure/v1alpha1"
	"drover.io/infra-providers/driver"
	"drover.io/infra-providers/openstack/access"
)

// Image finds an image by ID, or the newest that matches. Only an active image can be booted and matches.
func Image(ctx context.Context, client *gophercloud.ServiceClient, wanted infrav1.OpenStackImage) (images.Image, error) {
	if wanted.ID != "" {
		found, err := images.Get(ctx, client, wanted.ID).Extract()
		if access.MissingImage(err) {
			return images.Image{}, noImage("spec.image.id", "there is no image %q that the project can see", wanted.ID)
		}
		if err != nil {
			return images.Image{}, err
		}
		if found.Status != images.ImageStatusActive {
			return images.Image{}, noImage("spec.image.id", "the image %q is %s, not active", wanted.ID, found.Status)
		}
		return *found, nil
	}
	options := images.ListOpts{Name: wanted.Name, Tags: wanted.Tags, Status: images.ImageStatusActive, Limit: 100}
	all, err := access.All(ctx, images.List(client, options), images.ExtractImages)
	if err != nil {
		return images.Image{}, err
	}
	matching := slices.DeleteFunc(all, func(i images.Image) bool { return !hasProperties(i, wanted.Properties) })
	if len(matching) == 0 {
		return images.Image{}, noImage("spec.image", "no active image that the project can see matches name %q, tags %q and properties %q", wanted.Name, wanted.Tags, wanted.Properties)
	}
	return slices.MaxFunc(matching, func(a, b images.Image) int { return a.CreatedAt.Compare(b.CreatedAt) }), nil
}

// hasProperties reports whether an image has all properties.
func hasProperties(image images.Image, properties map[string]string) bool {
	for key, value := range properties {
		if Property(image, key) != value {
			return false
		}
	}
	return true
}

// Property returns a property of an image, empty without it.
func Property(image images.Image, key string) string {
	if value, ok := image.Properties[key]; ok && value != nil {
		return fmt.Sprint(value)
	}
	return ""
}

// noImage returns an InvalidConfigurationError of a field of the image.
func noImage(field, format string, arguments ...any) error {
	return &driver.InvalidConfigurationError{Field: field, Err: fmt.Errorf(format, arguments...)}
}
