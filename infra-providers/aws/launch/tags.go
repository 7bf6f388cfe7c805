// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package launch

import (
	"maps"
	"slices"

	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
)

// tagSpecifications returns the tags of everything that RunInstances creates. They are part of that call, so that at no
// time a resource exists without them.
func tagSpecifications(tags map[string]string, spot bool) (all []types.TagSpecification) {
	resources := []types.ResourceType{types.ResourceTypeInstance, types.ResourceTypeVolume, types.ResourceTypeNetworkInterface}
	if spot {
		resources = append(resources, types.ResourceTypeSpotInstancesRequest)
	}
	for _, kind := range resources {
		all = append(all, types.TagSpecification{ResourceType: kind, Tags: Tags(tags)})
	}
	return all
}

// Tags converts tags. They are sorted, because a request that is repeated with the same client token must be identical.
func Tags(tags map[string]string) (list []types.Tag) {
	for _, key := range slices.Sorted(maps.Keys(tags)) {
		value := tags[key]
		list = append(list, types.Tag{Key: &key, Value: &value})
	}
	return list
}
