// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package hetznerfake

import (
	"encoding/json"
	"net/http"
	"slices"
	"time"

	"github.com/hetznercloud/hcloud-go/v2/hcloud/schema"
	"k8s.io/utils/ptr"
)

func createPlacementGroup(c *Cloud, r request) (any, *refusal) {
	var requested schema.PlacementGroupCreateRequest
	if err := json.Unmarshal(r.body, &requested); err != nil {
		return nil, &refusal{status: http.StatusBadRequest, code: "json_error", message: err.Error()}
	}
	if slices.ContainsFunc(c.placementGroups, func(g *schema.PlacementGroup) bool { return g.Name == requested.Name }) {
		return nil, &refusal{status: http.StatusConflict, code: "uniqueness_error", message: "placement group name is already used", field: "name"}
	}
	created := &schema.PlacementGroup{
		ID: newID(), Name: requested.Name, Type: requested.Type, Labels: ptr.Deref(requested.Labels, nil), Servers: []int64{},
		Created: time.Now().Truncate(time.Second),
	}
	if refused := checkLabels(created.Labels); refused != nil {
		return nil, refused
	}
	c.placementGroups = append(c.placementGroups, created)
	return schema.PlacementGroupCreateResponse{PlacementGroup: *created}, nil
}

// PlacementGroups returns the names of the groups that exist.
func (c *Cloud) PlacementGroups() (names []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, group := range c.placementGroups {
		names = append(names, group.Name)
	}
	return names
}

// HidePlacementGroups returns empty lists of placement groups for a number of requests.
func (c *Cloud) HidePlacementGroups(lists int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.faults.hiddenGroupLists = lists
}
