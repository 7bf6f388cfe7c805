// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Package ratcheting proves that what was accepted once, before Drover's rules stood in the
// CRDs, can still be deleted: validation never refuses the removal of a finalizer.
package ratcheting

import (
	"bytes"
	"context"
	_ "embed"
	"errors"
	"io"
	"io/fs"
	"strings"
	"testing"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/util/yaml"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"drover.io/api/crds"
	"drover.io/test/controlplane"
	"drover.io/test/framework"
)

// waitTimeout bounds waiting for the API server; no test measures time by it.
const waitTimeout = 10 * time.Minute

//go:embed objects.yaml
var storedObjects []byte

func TestInvalidObjectsCanBeDeleted(t *testing.T) {
	t.Parallel()
	c := start(t)
	install(t, c, removeRules)
	objects := parse(t)
	for _, object := range objects {
		object.SetNamespace("default")
		object.SetFinalizers([]string{"example.org/hold"})
		eventually(t, func(ctx context.Context) error { return client.IgnoreAlreadyExists(c.Create(ctx, object.DeepCopy())) })
	}
	install(t, c, func(any) {})
	for _, object := range objects {
		t.Run(object.GetKind(), func(t *testing.T) {
			eventually(t, func(ctx context.Context) error { return refused(ctx, c, object) })
			if err := c.Delete(t.Context(), object.DeepCopy()); err != nil {
				t.Fatal(err)
			}
			patch := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))
			if err := c.Patch(t.Context(), object.DeepCopy(), patch); err != nil {
				t.Fatalf("its finalizer cannot be removed: %v", err)
			}
			if err := c.Get(t.Context(), client.ObjectKeyFromObject(object), object.DeepCopy()); !apierrors.IsNotFound(err) {
				t.Errorf("it is still there: %v", err)
			}
		})
	}
}

// refused is nil once the rules are in force: then such an object cannot be created.
func refused(ctx context.Context, c client.Client, object *unstructured.Unstructured) error {
	duplicate := object.DeepCopy()
	duplicate.SetName(object.GetName()[:len(object.GetName())-1] + "x")
	err := c.Create(ctx, duplicate, client.DryRunAll)
	if apierrors.IsInvalid(err) {
		return nil
	}
	if err == nil {
		return errors.New("the rules are not in force")
	}
	return err
}

// removeRules takes every rule away, also that a value is one of a few.
func removeRules(value any) {
	switch value := value.(type) {
	case map[string]any:
		delete(value, "x-kubernetes-validations")
		delete(value, "enum")
		for _, each := range value {
			removeRules(each)
		}
	case []any:
		for _, each := range value {
			removeRules(each)
		}
	}
}

// install applies the CRDs of the core kinds, changed.
func install(t *testing.T, c client.Client, change func(any)) {
	t.Helper()
	err := fs.WalkDir(crds.Bases, ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasPrefix(entry.Name(), clusterv1.GroupVersion.Group+"_") {
			return err
		}
		text, err := crds.Bases.ReadFile(path)
		if err != nil {
			return err
		}
		var crd map[string]any
		if err := yaml.Unmarshal(text, &crd); err != nil {
			return err
		}
		change(crd["spec"])
		raw, err := (&unstructured.Unstructured{Object: crd}).MarshalJSON()
		if err != nil {
			return err
		}
		return framework.Apply(t.Context(), c, raw)
	})
	if err != nil {
		t.Fatal(err)
	}
}

func parse(t *testing.T) []*unstructured.Unstructured {
	t.Helper()
	decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(storedObjects), 4096)
	var objects []*unstructured.Unstructured
	for {
		object := &unstructured.Unstructured{}
		err := decoder.Decode(&object.Object)
		if errors.Is(err, io.EOF) {
			return objects
		}
		if err != nil {
			t.Fatal(err)
		}
		objects = append(objects, object)
	}
}

// eventually repeats what fails only because the API server has not caught up.
func eventually(t *testing.T, do func(context.Context) error) {
	t.Helper()
	var last error
	err := wait.PollUntilContextTimeout(t.Context(), 100*time.Millisecond, waitTimeout, true, func(ctx context.Context) (bool, error) {
		last = do(ctx)
		if apierrors.IsInvalid(last) && !meta.IsNoMatchError(last) {
			return false, last
		}
		return last == nil, nil
	})
	if err != nil {
		t.Fatalf("%v: %v", err, last)
	}
}

func start(t *testing.T) client.Client {
	t.Helper()
	plane, err := controlplane.Start(t.Context(), controlplane.Options{Name: "ratcheting"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := plane.Stop(); err != nil {
			t.Error(err)
		}
	})
	known := runtime.NewScheme()
	if err := apiextensionsv1.AddToScheme(known); err != nil {
		t.Fatal(err)
	}
	c, err := client.New(plane.AdminConfig(), client.Options{Scheme: known})
	if err != nil {
		t.Fatal(err)
	}
	return c
}
