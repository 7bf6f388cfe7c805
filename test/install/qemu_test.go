// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"context"
	"errors"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const qemuNamespace = "drover-qemu-system"

func TestRemovingTheQEMUProviderKeepsTheCore(t *testing.T) {
	t.Parallel()
	_, c := start(t)
	qemu := read(t, version, "drover-infra-qemu.yaml")
	// The core comes last: it must not take the privileged standard away again.
	if err := apply(t.Context(), c, append(qemu, read(t, version, "drover.yaml")...)); err != nil {
		t.Fatal(err)
	}
	var provider appsv1.Deployment
	if err := c.Get(t.Context(), client.ObjectKey{Namespace: qemuNamespace, Name: "drover-infra-qemu"}, &provider); err != nil {
		t.Fatal(err)
	}
	await(t, "its pod is admitted", func(ctx context.Context) error {
		meta := metav1.ObjectMeta{GenerateName: "qemu-", Namespace: qemuNamespace, Labels: provider.Spec.Template.Labels}
		return c.Create(ctx, &corev1.Pod{ObjectMeta: meta, Spec: provider.Spec.Template.Spec}, client.DryRunAll)
	})
	deleteAll(t, c, qemu)
	await(t, "the provider is gone", func(ctx context.Context) error {
		err := c.Get(ctx, client.ObjectKeyFromObject(&provider), &provider)
		if err == nil {
			return errors.New("it is still there")
		}
		return client.IgnoreNotFound(err)
	})
	var namespace corev1.Namespace
	if err := c.Get(t.Context(), client.ObjectKey{Name: "drover-system"}, &namespace); err != nil || namespace.DeletionTimestamp != nil {
		t.Errorf("the namespace of the core: %v, deleted at %v", err, namespace.DeletionTimestamp)
	}
	if got := namespace.Labels["pod-security.kubernetes.io/enforce"]; got != "restricted" {
		t.Errorf("the namespace of the core enforces %q", got)
	}
	var core appsv1.Deployment
	if err := c.Get(t.Context(), client.ObjectKey{Namespace: "drover-system", Name: "drover-machine-controller"}, &core); err != nil {
		t.Error(err)
	}
}

func TestTheQEMUProviderIsRefusedInARestrictedNamespace(t *testing.T) {
	t.Parallel()
	plane, c := start(t)
	for _, standard := range []string{"restricted", "baseline", "privileged"} {
		labels := map[string]string{"pod-security.kubernetes.io/enforce": standard}
		if err := c.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: standard, Labels: labels}}); err != nil {
			t.Fatal(err)
		}
		err := installIn(t, plane, "drover", standard, map[string]any{"infrastructure": map[string]any{"qemu": nil}})
		if standard == "privileged" {
			if err != nil {
				t.Errorf("%s: %v", standard, err)
			}
			continue
		}
		if err == nil || !strings.Contains(err.Error(), "namespace "+standard+" enforces "+standard) {
			t.Errorf("%s: got %v, want a refusal", standard, err)
		}
		found := crdNamed("qemumachines.infrastructure.drover.io")
		if err := c.Get(t.Context(), client.ObjectKeyFromObject(found), found); !apierrors.IsNotFound(err) {
			t.Errorf("%s: kinds were installed: %v", standard, err)
		}
	}
}
