// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package vcenter

import (
	"context"
	"fmt"
	"strings"

	"github.com/vmware/govmomi/object"
	"github.com/vmware/govmomi/vapi/rest"
	"github.com/vmware/govmomi/vapi/tags"
	"github.com/vmware/govmomi/vim25/types"
)

// Attach attaches tags, by ID, to an object. What is attached already stays.
func (s *Session) Attach(ctx context.Context, ids []string, to types.ManagedObjectReference) error {
	if len(ids) == 0 {
		return nil
	}
	return s.Rest(ctx, func(client *rest.Client) error {
		manager := tags.NewManager(client)
		for _, id := range ids {
			if err := manager.AttachTag(ctx, id, to); err != nil {
				return fmt.Errorf("attaching tag %q: %w", id, err)
			}
		}
		return nil
	})
}

// tags looks the tags' IDs up.
func (r *resolver) tags(ctx context.Context) error {
	if len(r.references.Tags) == 0 {
		return nil
	}
	return r.session.Rest(ctx, func(client *rest.Client) error {
		manager := tags.NewManager(client)
		categories, err := manager.GetCategories(ctx)
		if err != nil {
			return fmt.Errorf("reading tag categories: %w", err)
		}
		var ids []string
		for i, name := range r.references.Tags {
			id, err := tagID(ctx, manager, categories, name)
			if err != nil {
				return err
			}
			if id == "" {
				return &ReferenceError{fmt.Sprintf("spec.tags[%d]", i), fmt.Errorf("there is no tag %q", name)}
			}
			ids = append(ids, id)
		}
		r.place.Tags = ids
		return nil
	})
}

func tagID(ctx context.Context, manager *tags.Manager, categories []tags.Category, name string) (string, error) {
	category, tag, _ := strings.Cut(name, "/")
	for _, known := range categories {
		if known.Name != category {
			continue
		}
		all, err := manager.GetTagsForCategory(ctx, known.ID)
		if err != nil {
			return "", fmt.Errorf("reading tags of category %q: %w", category, err)
		}
		for _, one := range all {
			if one.Name == tag {
				return one.ID, nil
			}
		}
	}
	return "", nil
}

// attributes looks the custom attributes' keys up.
func (r *resolver) attributes(ctx context.Context) error {
	if len(r.references.Attributes) == 0 {
		return nil
	}
	fields, err := object.NewCustomFieldsManager(r.client).Field(ctx)
	if err != nil {
		return fmt.Errorf("reading custom attributes: %w", err)
	}
	keys := map[string]int32{}
	for _, field := range fields {
		if field.ManagedObjectType == "" || field.ManagedObjectType == "VirtualMachine" {
			keys[field.Name] = field.Key
		}
	}
	r.place.Attributes = map[int32]string{}
	for name, value := range r.references.Attributes {
		key, ok := keys[name]
		if !ok {
			return &ReferenceError{"spec.customAttributes", fmt.Errorf("there is no custom attribute %q", name)}
		}
		r.place.Attributes[key] = string(value)
	}
	return nil
}
