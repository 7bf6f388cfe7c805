// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package azure

import (
	"context"

	"drover.io/infra-providers/azure/request"
	"drover.io/infra-providers/driver"
)

// FindImage returns the image that a driver requests for a configuration.
func FindImage(ctx context.Context, d driver.Driver[InstanceConfig], config InstanceConfig) (request.Image, error) {
	return d.(*Driver).lookup.Image(ctx, config.Spec)
}
