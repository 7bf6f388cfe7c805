// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/go-logr/logr"
	"github.com/hetznercloud/hcloud-go/v2/hcloud"
)

// MarkerName is the name of the placement group that identifies a project.
const MarkerName = "drover-project-do-not-delete"

// errNotListedYet is transient: lists are eventually consistent.
var errNotListedYet = errors.New("the project does not list it yet")

// Marker returns the ID of the placement group that identifies the project, and creates it if there is none. The API has
// no name for a project, but IDs are unique over all projects.
func (c *Catalog) Marker(ctx context.Context) (int64, error) {
	id, err := c.marker(ctx)
	if !errors.Is(err, errNotListedYet) {
		return id, err
	}
	_, _, err = c.client.PlacementGroup.Create(ctx, hcloud.PlacementGroupCreateOpts{Name: MarkerName, Type: hcloud.PlacementGroupTypeSpread})
	if err != nil && !hcloud.IsError(err, hcloud.ErrorCodeUniquenessError) {
		return 0, fmt.Errorf("creating it: %w", err)
	}
	if err == nil {
		logr.FromContextOrDiscard(ctx).Info("created placement group", "placementGroup", MarkerName)
	}
	// It is read again in either case: another process may have created it first.
	return c.marker(ctx)
}

// marker returns the ID of the group that was created first.
func (c *Catalog) marker(ctx context.Context) (int64, error) {
	found, err := c.client.PlacementGroup.AllWithOpts(ctx, hcloud.PlacementGroupListOpts{Name: MarkerName})
	if err == nil && len(found) == 0 {
		err = errNotListedYet
	}
	if err != nil {
		return 0, fmt.Errorf("reading it: %w", err)
	}
	return slices.MinFunc(found, func(a, b *hcloud.PlacementGroup) int { return cmp.Compare(a.ID, b.ID) }).ID, nil
}
