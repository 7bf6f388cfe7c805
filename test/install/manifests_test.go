// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

var crdKind = schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"}

// machine is an object of one of the kinds that a release installs, in namespace default.
func machine() *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "infrastructure.drover.io/v1alpha1",
		"kind":       "SimMachine",
		"metadata":   map[string]any{"name": "worker", "namespace": "default"},
		"spec":       map[string]any{"instanceType": "small"},
	}}
}

func crdNamed(name string) *unstructured.Unstructured {
	crd := &unstructured.Unstructured{}
	crd.SetGroupVersionKind(crdKind)
	crd.SetName(name)
	return crd
}

// allManifests are the policy for the kinds, drover.yaml and the file of each provider.
func allManifests(t *testing.T, version string) []*unstructured.Unstructured {
	t.Helper()
	objects := append(read(t, version, "drover-deletion-protection.yaml"), read(t, version, "drover.yaml")...)
	for _, cloud := range []string{"alibaba", "anexia", "aws", "azure", "digitalocean", "google", "hetzner", "kubevirt", "metalstack", "nutanix", "openstack", "sim", "vcd", "vsphere", "yandex", "qemu"} {
		objects = append(objects, read(t, version, "drover-infra-"+cloud+".yaml")...)
	}
	return objects
}

func TestManifestsAreAppliedTwiceAndUpgraded(t *testing.T) {
	t.Parallel()
	_, c := start(t)
	objects := allManifests(t, version)
	if err := apply(t.Context(), c, objects); err != nil {
		t.Fatal(err)
	}
	// The controller that gathers the providers' roles is a second owner of that role.
	await(t, "the core is granted the providers' kinds", func(ctx context.Context) error {
		var role rbacv1.ClusterRole
		if err := c.Get(ctx, client.ObjectKey{Name: "drover-machine-controller-providers:drover-system"}, &role); err != nil {
			return err
		}
		for _, kind := range []string{"awsmachines", "simmachines", "bootstrapconfigs"} {
			if !slices.ContainsFunc(role.Rules, func(r rbacv1.PolicyRule) bool { return slices.Contains(r.Resources, kind) }) {
				return fmt.Errorf("%s is not among its rules", kind)
			}
		}
		return nil
	})
	if err := apply(t.Context(), c, objects); err != nil {
		t.Errorf("a second time: %v", err)
	}
	if err := apply(t.Context(), c, allManifests(t, nextVersion)); err != nil {
		t.Errorf("the next version: %v", err)
	}
}

// awaitKept waits until the deletion of a kind is refused.
func awaitKept(t *testing.T, c client.Client, kind string) {
	t.Helper()
	await(t, "the policy is in force", func(ctx context.Context) error {
		err := c.Delete(ctx, crdNamed(kind), client.DryRunAll)
		if err == nil {
			return errors.New("the kind can still be deleted")
		}
		if want := "kubectl annotate crd " + kind + " drover.io/allow-deletion=true"; !strings.Contains(err.Error(), want) {
			return fmt.Errorf("the refusal does not name the way out: %w", err)
		}
		return nil
	})
}

// expectKept fails if the deletion of a kind is not refused any more.
func expectKept(t *testing.T, c client.Client, kind string) {
	t.Helper()
	for range 10 { // a policy that was deleted has an effect for a moment
		time.Sleep(200 * time.Millisecond)
		if err := c.Delete(t.Context(), crdNamed(kind), client.DryRunAll); !apierrors.IsInvalid(err) {
			t.Fatalf("deleting kind %s: got %v, want a refusal", kind, err)
		}
	}
}

func TestRemovingTheManifestsTwiceKeepsTheMachines(t *testing.T) {
	t.Parallel()
	_, c := start(t)
	objects := append(read(t, version, "drover.yaml"), read(t, version, "drover-infra-sim.yaml")...)
	if err := apply(t.Context(), c, append(read(t, version, "drover-deletion-protection.yaml"), objects...)); err != nil {
		t.Fatal(err)
	}
	await(t, "a machine is created", func(ctx context.Context) error { return c.Create(ctx, machine()) })
	awaitKept(t, c, "simmachines.infrastructure.drover.io")
	for range 2 {
		refused := deleteAll(t, c, objects)
		for _, object := range objects {
			name := object.GetKind() + " " + object.GetName()
			if isKind := object.GetKind() == "CustomResourceDefinition"; slices.Contains(refused, name) != isKind {
				t.Errorf("deleting %s: refused: %t", name, !isKind)
			}
		}
		expectKept(t, c, "simmachines.infrastructure.drover.io")
	}
	got := machine()
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(got), got); err != nil || got.GetDeletionTimestamp() != nil {
		t.Errorf("the machine is gone or being deleted: %v", err)
	}
}

// awaitServed waits until the objects of a kind can be listed. An API server whose kind is deleted before that
// takes minutes for it.
func awaitServed(t *testing.T, c client.Client, crd *unstructured.Unstructured) {
	t.Helper()
	group, _, _ := unstructured.NestedString(crd.Object, "spec", "group")
	kind, _, _ := unstructured.NestedString(crd.Object, "spec", "names", "kind")
	versions, _, _ := unstructured.NestedSlice(crd.Object, "spec", "versions")
	served := schema.GroupVersionKind{Group: group, Version: versions[0].(map[string]any)["name"].(string), Kind: kind}
	await(t, kind+" is served", func(ctx context.Context) error {
		_, err := list(ctx, c, served)
		return err
	})
}

func TestKindsAreDeletedWhereThatIsAllowed(t *testing.T) {
	t.Parallel()
	_, c := start(t)
	objects := slices.Concat(
		read(t, version, "drover.yaml"), read(t, version, "drover-infra-sim.yaml"), read(t, version, "drover-deletion-protection.yaml"))
	if err := apply(t.Context(), c, objects); err != nil {
		t.Fatal(err)
	}
	awaitKept(t, c, "simmachines.infrastructure.drover.io")
	crds, err := list(t.Context(), c, crdKind)
	if err != nil {
		t.Fatal(err)
	}
	for i := range crds {
		awaitServed(t, c, &crds[i])
		patch := client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"annotations":{"drover.io/allow-deletion":"true"}}}`))
		if err := c.Patch(t.Context(), &crds[i], patch); err != nil {
			t.Fatal(err)
		}
	}
	if refused := deleteAll(t, c, objects); len(refused) > 0 {
		t.Errorf("refused: %q", refused)
	}
	for _, object := range objects {
		await(t, object.GetKind()+" "+object.GetName()+" is gone", func(ctx context.Context) error {
			found := object.DeepCopy()
			err := c.Get(ctx, client.ObjectKeyFromObject(object), found)
			if object.GetKind() == "Namespace" || apierrors.IsNotFound(err) {
				return nil // a namespace ends when its content has
			}
			if err == nil && found.Object["aggregationRule"] == nil && object.Object["aggregationRule"] != nil {
				// The controller that gathers the rules of roles wrote it once more after its deletion.
				return errors.Join(errors.New("it was written again"), c.Delete(ctx, found))
			}
			if err == nil {
				return fmt.Errorf("it is still there, with finalizers %q and status %v", found.GetFinalizers(), found.Object["status"])
			}
			return client.IgnoreNotFound(err)
		})
	}
}
