// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package runner

import (
	"context"
	"fmt"
	"regexp"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// reference is ${Kind/name path.to.field}, all of a string.
var reference = regexp.MustCompile(`^\$\{(\w+)/([\w.-]+) ([\w.]+)\}$`)

// resolveReferences puts the fields of objects that are there in the place of references to them.
func (r *Runner) resolveReferences(ctx context.Context, value any) (any, error) {
	var err error
	switch value := value.(type) {
	case map[string]any:
		for key := range value {
			if value[key], err = r.resolveReferences(ctx, value[key]); err != nil {
				return nil, err
			}
		}
	case []any:
		for i := range value {
			if value[i], err = r.resolveReferences(ctx, value[i]); err != nil {
				return nil, err
			}
		}
	case string:
		if parts := reference.FindStringSubmatch(value); parts != nil {
			return r.field(ctx, parts[1], parts[2], strings.Split(parts[3], "."))
		}
	}
	return value, nil
}

func (r *Runner) field(ctx context.Context, kind, name string, path []string) (any, error) {
	gvk, err := r.kind(kind)
	if err != nil {
		return nil, err
	}
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(gvk)
	if err := r.Stack.ManagementClient.Get(ctx, client.ObjectKey{Namespace: r.Namespace, Name: name}, object); err != nil {
		return nil, err
	}
	value, found, err := unstructured.NestedFieldNoCopy(object.Object, path...)
	if err == nil && !found {
		err = fmt.Errorf("%s %q has no %s", kind, name, strings.Join(path, "."))
	}
	return value, err
}

// kind finds the group and version of a kind in the stack's scheme.
func (r *Runner) kind(kind string) (schema.GroupVersionKind, error) {
	for gvk := range r.Stack.ManagementClient.Scheme().AllKnownTypes() {
		if gvk.Kind == kind && gvk.Version != "__internal" {
			return gvk, nil
		}
	}
	return schema.GroupVersionKind{}, fmt.Errorf("no kind %q is known", kind)
}
