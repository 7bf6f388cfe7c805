// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package launch

import (
	"maps"
	"slices"

	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
)

// tagged puts the tags on everything that RunInstances makes, in the very call that makes it, so that at no
// moment something of ours exists without them.
func tagged(tags map[string]string, spot bool) (all []types.TagSpecification) {
	made := []types.ResourceType{types.ResourceTypeInstance, types.ResourceTypeVolume, types.ResourceTypeNetworkInterface}
	if spot {
		made = append(made, types.ResourceTypeSpotInstancesRequest)
	}
	for _, kind := range made {
		all = append(all, types.TagSpecification{ResourceType: kind, Tags: Tags(tags)})
	}
	return all
}

// Tags writes tags as EC2 takes them. Their order counts: a request that is repeated under the same token must
// be the same.
func Tags(tags map[string]string) (list []types.Tag) {
	for _, key := range slices.Sorted(maps.Keys(tags)) {
		value := tags[key]
		list = append(list, types.Tag{Key: &key, Value: &value})
	}
	return list
}
