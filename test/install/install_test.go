// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Package install proves what a release writes on real API servers: its manifests, its clusterctl repository and its
// chart are installed, upgraded and removed as users do it. Pods do not run here: there is no kubelet.
package install

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"drover.io/test/controlplane"
	"drover.io/test/install/helm"
)

// waitTimeout bounds waiting for real API servers; no test measures time by it.
const waitTimeout = 10 * time.Minute

// version is that of the release under test, nextVersion that of the one that follows it.
const (
	version     = "v0.1.0"
	nextVersion = "v0.2.0"
)

// made are the folders of the releases, by version.
var made = map[string]string{}

func TestMain(m *testing.M) {
	os.Exit(func() int {
		folder, err := os.MkdirTemp("", "drover-install-*")
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer func() { _ = os.RemoveAll(folder) }()
		for _, v := range []string{version, nextVersion} {
			made[v] = filepath.Join(folder, v)
			if err := helm.MakeRelease(context.Background(), "../..", v, made[v], "--registry", "registry.example/drover"); err != nil {
				fmt.Fprintln(os.Stderr, err)
				return 1
			}
		}
		return m.Run()
	}())
}

// start starts a control plane and returns a client of its administrator.
func start(t *testing.T) (*controlplane.ControlPlane, client.Client) {
	t.Helper()
	plane, err := controlplane.Start(t.Context(), controlplane.Options{ControllerManager: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := plane.Stop(); err != nil {
			t.Error(err)
		}
	})
	c, err := client.New(plane.AdminConfig(), client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return plane, c
}

// read returns the objects of a file of a release, in its order.
func read(t *testing.T, version, file string) []*unstructured.Unstructured {
	t.Helper()
	return readFile(t, filepath.Join(made[version], file))
}

func readFile(t *testing.T, file string) []*unstructured.Unstructured {
	t.Helper()
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var objects []*unstructured.Unstructured
	for decoder := utilyaml.NewYAMLOrJSONDecoder(bytes.NewReader(content), 4096); ; {
		object := &unstructured.Unstructured{}
		err := decoder.Decode(object)
		if errors.Is(err, io.EOF) {
			return objects
		}
		if err != nil {
			t.Fatal(err)
		}
		objects = append(objects, object)
	}
}

// apply does what kubectl apply --server-side does. Kinds that were created just now are requested again until they are
// served.
func apply(ctx context.Context, c client.Client, objects []*unstructured.Unstructured) error {
	ctx, cancel := context.WithTimeout(ctx, waitTimeout)
	defer cancel()
	for _, object := range objects {
		err := until(ctx, func() error {
			return c.Apply(ctx, client.ApplyConfigurationFromUnstructured(object.DeepCopy()), client.FieldOwner("kubectl"))
		}, meta.IsNoMatchError)
		if err != nil {
			return fmt.Errorf("applying %s %s: %w", object.GetKind(), object.GetName(), err)
		}
	}
	return nil
}

// until repeats an attempt as long as its error is of a kind that passes.
func until(ctx context.Context, attempt func() error, passes func(error) bool) error {
	for {
		err := attempt()
		if err == nil || !passes(err) {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// await repeats an attempt until it succeeds.
func await(t *testing.T, what string, attempt func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), waitTimeout)
	defer cancel()
	if err := until(ctx, func() error { return attempt(ctx) }, func(error) bool { return true }); err != nil {
		t.Fatalf("%s: %v", what, err)
	}
}

// deleteAll does what kubectl delete does, and returns what was refused.
func deleteAll(t *testing.T, c client.Client, objects []*unstructured.Unstructured) (refused []string) {
	t.Helper()
	for _, object := range objects {
		switch err := client.IgnoreNotFound(c.Delete(t.Context(), object.DeepCopy())); {
		case apierrors.IsInvalid(err), apierrors.IsForbidden(err):
			refused = append(refused, object.GetKind()+" "+object.GetName())
		case err != nil:
			t.Fatalf("deleting %s %s: %v", object.GetKind(), object.GetName(), err)
		}
	}
	return refused
}

// list returns the names of all objects of a kind.
func list(ctx context.Context, c client.Client, kind schema.GroupVersionKind, options ...client.ListOption) ([]unstructured.Unstructured, error) {
	found := &unstructured.UnstructuredList{}
	found.SetGroupVersionKind(kind)
	err := c.List(ctx, found, options...)
	return found.Items, err
}
