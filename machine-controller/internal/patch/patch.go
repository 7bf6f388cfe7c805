// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Package patch writes the difference between an object as it was read and as a
// controller needs it, with at most one request for the object and one for its status, and
// none when there is no difference. It decides the form of the request; what to
// write, the controllers decide.
package patch

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	jsonpatch "github.com/evanphx/json-patch/v5"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"drover.io/machine-controller/internal/metrics"
)

// Main writes what differs outside status, and only if no other client has written the object
// since: finalizers and owner references are replaced as whole lists, and Status, which trusts
// the version that Main returns, would otherwise replace conditions that were written in
// between. Afterwards the object carries the resource version and generation of the write,
// and keeps the status that it has in memory.
func Main[T client.Object](ctx context.Context, c client.Client, before, after T) error {
	fields, err := difference(before, after, "Status")
	if err != nil {
		return err
	}
	delete(fields, "status") // of what has no such field in Go
	if len(fields) == 0 {
		return nil
	}
	if fields["metadata"], err = locked(object(fields["metadata"]), before.GetResourceVersion()); err != nil {
		return err
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

// Status writes what differs in status, and only if no other client has written the object
// since: its lists are replaced as a whole and several controllers keep conditions in one
// of them. A conflict is an error for which apierrors.IsConflict is true; the next reconcile reads again.
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
	metrics.ObserveConditionTransitions(before, after)
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
func difference[T client.Object](before, after T, ignored ...string) (map[string]json.RawMessage, error) {
	before, after, same := rest(before, after, ignored)
	if same {
		return nil, nil
	}
	was, err := encoded(before)
	if err != nil {
		return nil, err
	}
	is, err := encoded(after)
	if err != nil {
		return nil, err
	}
	fields := map[string]json.RawMessage{}
	for name := range maps.Keys(merged(was, is)) {
		if bytes.Equal(was[name], is[name]) {
			continue
		}
		if fields[name], err = jsonpatch.CreateMergePatch(object(was[name]), object(is[name])); err != nil {
			return nil, fmt.Errorf("computing the patch of %s: %w", name, err)
		}
	}
	return fields, nil
}

// encoded is the object as JSON, by top-level field.
func encoded(object client.Object) (map[string]json.RawMessage, error) {
	data, err := json.Marshal(object)
	if err != nil {
		return nil, fmt.Errorf("encoding %T: %w", object, err)
	}
	fields := map[string]json.RawMessage{}
	if err := json.Unmarshal(data, &fields); err != nil {
		return nil, fmt.Errorf("decoding %T: %w", object, err)
	}
	return fields, nil
}

func merged(was, is map[string]json.RawMessage) map[string]json.RawMessage {
	all := maps.Clone(was)
	maps.Copy(all, is)
	return all
}

// object replaces a field that is empty now. Without it in the patch the field would stay, and as null it would be
// removed with all that is equal in both.
func object(field json.RawMessage) json.RawMessage {
	if field == nil {
		return json.RawMessage("{}")
	}
	return field
}

// maxMessage is how many bytes the message of a condition may have, as many as the API allows it characters.
const maxMessage = 32768

// truncateMessages shortens messages of conditions that are too long, for which the API server would refuse the whole
// status. Messages repeat what others report, several of them in one.
func truncateMessages(object client.Object) {
	reporting, ok := object.(interface{ GetConditions() []metav1.Condition })
	if !ok {
		return
	}
	all := reporting.GetConditions()
	for i := range all {
		if message := &all[i].Message; len(*message) > maxMessage {
			*message = strings.ToValidUTF8((*message)[:maxMessage], "")
		}
	}
}

func statusDifference[T client.Object](before, after T) (map[string]json.RawMessage, error) {
	truncateMessages(after)
	return difference(before, after, "ObjectMeta", "Spec")
}

// rest returns shallow copies of two objects without the fields to be ignored and without what is equal in
// both, so that only what differs is encoded. The copies must not be changed.
func rest[T client.Object](before, after T, ignored []string) (T, T, bool) {
	b, a := shallow(before), shallow(after)
	for _, name := range ignored {
		for _, object := range []reflect.Value{b, a} {
			if field := object.Elem().FieldByName(name); field.IsValid() {
				field.SetZero()
			}
		}
	}
	same := prune(b.Elem(), a.Elem(), 2)
	return b.Interface().(T), a.Interface().(T), same
}

func shallow(object client.Object) reflect.Value {
	part := reflect.New(reflect.TypeOf(object).Elem())
	part.Elem().Set(reflect.ValueOf(object).Elem())
	return part
}

// prune empties the fields that are equal in two structs, and in the structs in them down to a depth. It
// reports whether all are.
func prune(before, after reflect.Value, depth int) bool {
	same := true
	for i := range before.NumField() {
		b, a := before.Field(i), after.Field(i)
		switch {
		case depth > 1 && b.Kind() == reflect.Struct:
			same = prune(b, a, depth-1) && same
		case equal(b.Addr().Interface(), a.Addr().Interface()):
			b.SetZero()
			a.SetZero()
		default:
			same = false
		}
	}
	return same
}

// equal compares two fields, the most frequent kind of them without reflection.
func equal(before, after any) bool {
	b, ok := before.(*[]metav1.Condition)
	if !ok {
		return equality.Semantic.DeepEqual(before, after)
	}
	return slices.EqualFunc(*b, *after.(*[]metav1.Condition), func(x, y metav1.Condition) bool {
		same := x.LastTransitionTime.Equal(&y.LastTransitionTime)
		x.LastTransitionTime, y.LastTransitionTime = metav1.Time{}, metav1.Time{}
		return same && x == y
	})
}

// answer is the type of the response to a patch: metadata is all that is needed, and much less to send and to decode
// than the object.
func answer(c client.Client, object client.Object) (*metav1.PartialObjectMetadata, error) {
	kind, err := c.GroupVersionKindFor(object)
	if err != nil {
		return nil, err
	}
	metadata := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: object.GetNamespace(), Name: object.GetName()}}
	metadata.SetGroupVersionKind(kind)
	return metadata, nil
}
