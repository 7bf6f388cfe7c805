// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package nutanix

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"

	"github.com/google/uuid"
	tasks "github.com/nutanix/ntnx-api-golang-clients/prism-go-client/v4/models/prism/v4/config"
	"k8s.io/utils/ptr"

	"drover.io/infra-providers/driver"
	"drover.io/infra-providers/nutanix/request"
)

// ownerKey is the key of the categories of Clusters.
const ownerKey = "drover-cluster"

// maxCategory is the maximum length of the value of a category.
const maxCategory = 64

// ownerValue is the value of the category of a Cluster: its namespace and its name, cut if they are too long.
func ownerValue(owner driver.Owner) string {
	value := owner.Namespace + "." + owner.Name
	if len(value) <= maxCategory {
		return value
	}
	sum := sha256.Sum256([]byte(value))
	return fmt.Sprintf("%s-%x", value[:maxCategory-17], sum[:8])
}

// ownerCategory returns the ID of the category of a Cluster, and whether it is a cached one, which may be gone. It is created if
// there is none, and stays when the last machine is gone: another process may be about to assign it.
func (d *Driver) ownerCategory(ctx context.Context, owner driver.Owner) (id string, cached bool, err error) {
	value := ownerValue(owner)
	if known, ok := d.owners.Get(value); ok {
		return known, true, nil
	}
	id, err = d.ensureCategory(ctx, value)
	if err == nil {
		d.owners.Set(value, id)
	}
	return id, false, err
}

// ensureCategory returns the ID of the category of a Cluster by its value, and creates it if there is none.
func (d *Driver) ensureCategory(ctx context.Context, value string) (string, error) {
	var refusal error
	found, err := d.prism.Category(ctx, ownerKey, value)
	if err == nil && found == nil {
		created := tasks.NewCategory()
		created.Key, created.Value = ptr.To(ownerKey), &value
		created.Description = ptr.To("Virtual machines of a Cluster of Cluster API, created by Drover")
		refusal = d.prism.CreateCategory(ctx, created, randomUUID(uuid.New()))
		if refusal != nil && !isRefusal(refusal) || driver.IsUnauthorized(toError(refusal)) {
			return "", fmt.Errorf("creating the category %s of the Cluster: %w", ownerKey, toError(refusal))
		}
		found, err = d.prism.Category(ctx, ownerKey, value)
	}
	switch {
	case err != nil:
		return "", fmt.Errorf("reading the category %s of the Cluster: %w", ownerKey, toError(err))
	case found == nil && refusal != nil && !isConflict(refusal): // not because another caller created it a moment ago
		return "", fmt.Errorf("creating the category %s of the Cluster: %w", ownerKey, toError(refusal))
	case found == nil || !request.IsUUID(ptr.Deref(found.ExtId, "")):
		return "", &driver.UnfinishedError{Err: errors.New("Prism Central does not show the category of the Cluster yet")} //nolint:staticcheck // it is a name
	}
	return *found.ExtId, nil
}
