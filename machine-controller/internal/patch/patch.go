// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Package patch writes the difference between an object as it was read and as a
// controller wants it, with at most one request for the object and one for its status, and
// none when there is no difference. It owns how such a write looks on the wire; what to
// write is the controllers' business.
package patch

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Main writes what differs outside status. Afterwards the object carries the resource
// version and generation of the write, and keeps the status that it has in memory. Changes
// of metadata conflict with other writers, as finalizers and owner references are replaced
// as whole lists; changes of spec alone do not.
func Main[T client.Object](ctx context.Context, c client.Client, before, after T) error {
	fields, err := difference(without(before, "Status"), without(after, "Status"))
	if err != nil {
		return err
	}
	delete(fields, "status") // of what has no such field in Go
	if len(fields) == 0 {
		return nil
	}
	if metadata, changed := fields["metadata"]; changed {
		if fields["metadata"], err = locked(metadata, before.GetResourceVersion()); err != nil {
			return err
		}
	}
	data, err := json.Marshal(fields)
	if err != nil {
		return fmt.Errorf("encoding patch: %w", err)
	}
	written, err := answer(c, after)
	if err != nil {
		return err
	}
	if err := c.Patch(ctx, written, client.RawPatch(types.MergePatchType, data)); err != nil {
		return err
	}
	after.SetResourceVersion(written.GetResourceVersion())
	after.SetGeneration(written.GetGeneration())
	return nil
}

// Status writes what differs in status, and only if nobody else has written the object
// since: its lists are replaced as a whole and several controllers keep conditions in one
// of them. A conflict is an error that apierrors.IsConflict knows; the next reconcile reads anew.
func Status[T client.Object](ctx context.Context, c client.Client, before, after T) error {
	fields, err := statusDifference(before, after)
	if err != nil {
		return err
	}
	status, changed := fields["status"]
	if !changed {
		return nil
	}
	data, err := json.Marshal(map[string]any{
		"metadata": map[string]string{"resourceVersion": after.GetResourceVersion()},
		"status":   status,
	})
	if err != nil {
		return fmt.Errorf("encoding status patch: %w", err)
	}
	written, err := answer(c, after)
	if err != nil {
		return err
	}
	if err := c.Status().Patch(ctx, written, client.RawPatch(types.MergePatchType, data)); err != nil {
		return err
	}
	after.SetResourceVersion(written.GetResourceVersion())
	return nil
}

// StatusChanged reports whether Status would write.
func StatusChanged(before, after client.Object) (bool, error) {
	fields, err := statusDifference(before, after)
	_, changed := fields["status"]
	return changed, err
}

// locked adds the resource version that the patch was made for.
func locked(metadata json.RawMessage, resourceVersion string) (json.RawMessage, error) {
	fields := map[string]any{}
	if err := json.Unmarshal(metadata, &fields); err != nil {
		return nil, fmt.Errorf("decoding patch: %w", err)
	}
	fields["resourceVersion"] = resourceVersion
	return json.Marshal(fields)
}

// difference is the merge patch from before to after, by top-level field.
func difference(before, after client.Object) (map[string]json.RawMessage, error) {
	if equality.Semantic.DeepEqual(before, after) {
		return nil, nil
	}
	data, err := client.MergeFrom(before).Data(after)
	if err != nil {
		return nil, fmt.Errorf("computing patch: %w", err)
	}
	fields := map[string]json.RawMessage{}
	if err := json.Unmarshal(data, &fields); err != nil {
		return nil, fmt.Errorf("computing patch: %w", err)
	}
	return fields, nil
}

func statusDifference[T client.Object](before, after T) (map[string]json.RawMessage, error) {
	return difference(without(before, "ObjectMeta", "Spec"), without(after, "ObjectMeta", "Spec"))
}

// without is a shallow copy of the object that lacks some of its fields, so that they cost nothing to
// compare. The copy must not be changed.
func without[T client.Object](object T, fields ...string) T {
	part := reflect.New(reflect.TypeOf(object).Elem())
	part.Elem().Set(reflect.ValueOf(object).Elem())
	for _, name := range fields {
		if field := part.Elem().FieldByName(name); field.IsValid() {
			field.SetZero()
		}
	}
	copied, _ := part.Interface().(T)
	return copied
}

// answer is what a patch of the object is answered with: the metadata is all that we want to know, and
// much less to send and to decode than the object.
func answer(c client.Client, object client.Object) (*metav1.PartialObjectMetadata, error) {
	kind, err := c.GroupVersionKindFor(object)
	if err != nil {
		return nil, err
	}
	metadata := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: object.GetNamespace(), Name: object.GetName()}}
	metadata.SetGroupVersionKind(kind)
	return metadata, nil
}
