// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"helm.sh/helm/v4/pkg/action"
	chart "helm.sh/helm/v4/pkg/chart/v2"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"drover.io/test/controlplane"
	"drover.io/test/install/helm"
)

const (
	releaseName      = "drover"
	releaseNamespace = "nodes"
)

// helmIn returns Helm's client for the releases of a namespace.
func helmIn(t *testing.T, plane *controlplane.ControlPlane, namespace string) *helm.Client {
	t.Helper()
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(kubeconfig, plane.AdminKubeconfig(), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := helm.New(kubeconfig, namespace)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func load(t *testing.T, version string) *chart.Chart {
	t.Helper()
	loaded, err := helm.Load(made[version], version)
	if err != nil {
		t.Fatal(err)
	}
	return loaded
}

// simulated are the settings of an installation with simulated machines.
func simulated() map[string]any {
	return map[string]any{"infrastructure": map[string]any{"sim": map[string]any{}}}
}

// image returns the image of the core's Deployment.
func image(ctx context.Context, c client.Client) (string, error) {
	var deployment appsv1.Deployment
	err := c.Get(ctx, client.ObjectKey{Namespace: releaseNamespace, Name: "drover-machine-controller"}, &deployment)
	if err != nil {
		return "", err
	}
	return deployment.Spec.Template.Spec.Containers[0].Image, nil
}

func TestTheChartIsClean(t *testing.T) {
	t.Parallel()
	for title, settings := range map[string]map[string]any{
		"without settings": nil,
		"with all clouds": {"infrastructure": map[string]any{
			"alibaba": nil, "anexia": nil, "aws": nil, "azure": nil, "digitalocean": nil, "google": nil, "hetzner": nil, "kubevirt": nil, "metalstack": nil, "nutanix": nil, "openstack": nil, "qemu": nil, "sim": nil, "vcd": nil, "vsphere": nil, "yandex": nil,
		}, "networkPolicy": map[string]any{"enabled": true}},
	} {
		lint := action.NewLint()
		lint.Strict = true
		result := lint.Run([]string{helm.ChartFile(made[version], version)}, settings)
		for _, err := range result.Errors {
			t.Errorf("%s: %v", title, err)
		}
		for _, message := range result.Messages {
			if message.Severity > 1 { // informative ones recommend an icon
				t.Errorf("%s: %s", title, message)
			}
		}
	}
}

func TestAReleaseIsInstalledUpgradedRolledBackAndUninstalled(t *testing.T) {
	t.Parallel()
	plane, c := start(t)
	h := helmIn(t, plane, releaseNamespace)
	if err := h.Install(t.Context(), releaseName, load(t, version), simulated(), false); err != nil {
		t.Fatal(err)
	}
	await(t, "a machine is created", func(ctx context.Context) error { return c.Create(ctx, machine()) })
	expectImage(t, c, version)

	if err := h.Upgrade(t.Context(), releaseName, load(t, nextVersion), simulated()); err != nil {
		t.Fatalf("upgrading: %v", err)
	}
	expectImage(t, c, nextVersion)

	if err := h.Rollback(releaseName, 1); err != nil {
		t.Fatalf("rolling back: %v", err)
	}
	expectImage(t, c, version)

	if _, err := h.Uninstall(releaseName); err != nil {
		t.Fatalf("uninstalling: %v", err)
	}
	await(t, "the managers are gone", func(ctx context.Context) error {
		found, err := image(ctx, c)
		if err == nil {
			return fmt.Errorf("the Deployment is still there with image %q", found)
		}
		return client.IgnoreNotFound(err)
	})
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(machine()), machine()); err != nil {
		t.Errorf("the machine is gone: %v", err)
	}
	for _, kind := range []string{"ClusterRole", "ClusterRoleBinding"} {
		left, err := list(t.Context(), c, schema.GroupVersionKind{Group: "rbac.authorization.k8s.io", Version: "v1", Kind: kind},
			client.MatchingLabels{"app.kubernetes.io/part-of": "drover"})
		if err != nil {
			t.Error(err)
		}
		for _, object := range left {
			if object.GetAnnotations()["helm.sh/resource-policy"] != "keep" {
				t.Errorf("%s %s is left", kind, object.GetName())
			}
		}
	}

	if err := h.Install(t.Context(), releaseName, load(t, version), simulated(), false); err != nil {
		t.Errorf("installing again over the kinds that were kept: %v", err)
	}
}

func expectImage(t *testing.T, c client.Client, version string) {
	t.Helper()
	got, err := image(t.Context(), c)
	if want := "registry.example/drover/drover-machine-controller:" + version; err != nil || got != want {
		t.Errorf("got image %q, %v, want %q", got, err, want)
	}
}

func TestWrongSettingsInstallNothing(t *testing.T) {
	t.Parallel()
	plane, c := start(t)
	settings := map[string]any{"infrastructure": map[string]any{"none": nil}}
	err := helmIn(t, plane, releaseNamespace).Install(t.Context(), releaseName, load(t, version), settings, false)
	if err == nil || !strings.Contains(err.Error(), "infrastructure.none: there is no such provider") {
		t.Errorf("got %v", err)
	}
	found, err := list(t.Context(), c, crdKind)
	if err != nil || len(found) > 0 {
		t.Errorf("%d kinds were installed, %v", len(found), err)
	}
}
