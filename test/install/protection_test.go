// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"slices"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

func TestKindsAreKeptWhateverHelmDoes(t *testing.T) {
	t.Parallel()
	plane, c := start(t)
	h := helmIn(t, plane, releaseNamespace)
	if err := h.Install(t.Context(), releaseName, load(t, version), simulated(), false); err != nil {
		t.Fatal(err)
	}
	awaitKept(t, c, "simmachines.infrastructure.drover.io")
	settings := simulated()
	settings["crds"] = map[string]any{"enabled": false}
	if err := h.Upgrade(t.Context(), releaseName, load(t, nextVersion), settings); err != nil {
		t.Fatalf("upgrading without kinds: %v", err)
	}
	expectKept(t, c, "simmachines.infrastructure.drover.io")
	if _, err := h.Uninstall(releaseName); err != nil {
		t.Fatal(err)
	}
	expectKept(t, c, "simmachines.infrastructure.drover.io")
	if err := h.Install(t.Context(), "other", load(t, version), simulated(), true); err != nil {
		t.Errorf("installing again under another name with --take-ownership: %v", err)
	}
}

func TestEveryKindIsKeptWhateverItsLabels(t *testing.T) {
	t.Parallel()
	_, c := start(t)
	if err := apply(t.Context(), c, allManifests(t, version)); err != nil {
		t.Fatal(err)
	}
	awaitKept(t, c, "simmachines.infrastructure.drover.io")
	for _, object := range slices.DeleteFunc(allManifests(t, version), func(o *unstructured.Unstructured) bool { return o.GetKind() != crdKind.Kind }) {
		patch := client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"labels":{"app.kubernetes.io/part-of":"platform"}}}`))
		if err := c.Patch(t.Context(), crdNamed(object.GetName()), patch); err != nil {
			t.Fatal(err)
		}
		if err := c.Delete(t.Context(), crdNamed(object.GetName()), client.DryRunAll); !apierrors.IsInvalid(err) {
			t.Errorf("deleting %s with a label of another tool: got %v, want a refusal", object.GetName(), err)
		}
	}
	all := &unstructured.Unstructured{}
	all.SetGroupVersionKind(crdKind)
	if err := c.DeleteAllOf(t.Context(), all, client.DryRunAll); !apierrors.IsInvalid(err) {
		t.Errorf("deleting all kinds at once: got %v, want a refusal", err)
	}
}
