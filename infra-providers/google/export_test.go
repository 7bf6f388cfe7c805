// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package google

import (
	compute "google.golang.org/api/compute/v1"

	"drover.io/infra-providers/driver"
	"drover.io/infra-providers/google/request"
)

// RequestOf returns the instance that is requested for a configuration.
func RequestOf(config InstanceConfig, id driver.Identity) (*compute.Instance, error) {
	return request.Instance(request.Input{Spec: config.Spec, Zone: config.Zone, Identity: id}, &compute.Image{})
}

// UIDFilter and OwnerFilter return the filters of lists.
var (
	UIDFilter   = uidFilter
	OwnerFilter = ownerFilter
)
