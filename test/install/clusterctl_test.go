// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"drover.io/test/controlplane/binaries"
	"drover.io/test/interop/peer"
)

// certManagerVersion is the version that clusterctl v1.14.2 installs by default.
const certManagerVersion = "v1.21.1"

// clusterctl is upstream's program against one API server.
type clusterctl struct{ program, kubeconfig, folder string }

// newClusterctl compiles clusterctl. make interop requests that; the other tests do not need it.
func newClusterctl(t *testing.T, kubeconfig []byte) clusterctl {
	t.Helper()
	root, err := binaries.Root()
	if err != nil {
		t.Fatal(err)
	}
	peers, err := peer.Build(t.Context(), root, func(step string) { t.Log(step) }, peer.Clusterctl)
	if err != nil {
		t.Fatal(err)
	}
	c := clusterctl{program: peers.Path(peer.Clusterctl), folder: t.TempDir()}
	c.kubeconfig = filepath.Join(c.folder, "kubeconfig")
	if err := os.WriteFile(c.kubeconfig, kubeconfig, 0o600); err != nil {
		t.Fatal(err)
	}
	return c
}

// config writes the configuration of a release, with an addition.
func (c clusterctl) config(t *testing.T, version, addition string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "run", ".", "clusterctl-config", made[version])
	cmd.Dir, cmd.Env = "../../release", append(os.Environ(), "GOWORK=off")
	content, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(c.folder, version+".yaml")
	if err := os.WriteFile(file, append(content, addition...), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func (c clusterctl) run(ctx context.Context, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, c.program, append(args, "--kubeconfig="+c.kubeconfig)...)
	cmd.Env = append(os.Environ(), "CLUSTERCTL_DISABLE_VERSIONCHECK=true", "XDG_CONFIG_HOME="+c.folder, "CONTROL_PLANE_ENDPOINT_HOST=api.example.test")
	output, err := cmd.CombinedOutput()
	return string(output), err
}

func (c clusterctl) mustRun(t *testing.T, args ...string) string {
	t.Helper()
	output, err := c.run(t.Context(), args...)
	if err != nil {
		t.Fatalf("clusterctl %s: %v\n%s", strings.Join(args, " "), err, output)
	}
	return output
}

// certManagerKinds returns the kinds of cert-manager, without its programs.
func certManagerKinds(t *testing.T) string {
	t.Helper()
	output, err := exec.CommandContext(t.Context(), "go", "mod", "download", "-json", "github.com/cert-manager/cert-manager@"+certManagerVersion).Output()
	if err != nil {
		t.Fatal(err)
	}
	var module struct{ Dir string }
	if err := json.Unmarshal(output, &module); err != nil {
		t.Fatal(err)
	}
	return filepath.Join(module.Dir, "deploy", "crds")
}

// TestClusterctl installs, upgrades and removes the providers by clusterctl. Of cert-manager only the kinds are there.
func TestClusterctl(t *testing.T) {
	if os.Getenv("DROVER_INTEROP") == "" {
		t.Skip("make interop runs this: it compiles clusterctl")
	}
	plane, c := start(t)
	ctl := newClusterctl(t, plane.AdminKubeconfig())
	external := "cert-manager:\n  externallyProvisioned: \"true\"\n  timeout: 10s\n"
	before, after := ctl.config(t, version, external), ctl.config(t, nextVersion, external)
	initialize := []string{
		"init", "--config", before, "--core", "cluster-api:" + version, "--bootstrap", "drover:" + version, "--control-plane", "-",
		"--infrastructure", "drover-sim:" + version + ",drover-hetzner:" + version,
	}
	if output, err := ctl.run(t.Context(), initialize...); err == nil {
		t.Fatalf("clusterctl init without the API of cert-manager succeeded:\n%s", output)
	}
	for _, name := range []string{"issuers", "certificates"} {
		if err := apply(t.Context(), c, readFile(t, filepath.Join(certManagerKinds(t), "cert-manager.io_"+name+".yaml"))); err != nil {
			t.Fatal(err)
		}
	}
	ctl.mustRun(t, initialize...)
	wantProviders(t, c, version, "bootstrap-drover", "cluster-api", "infrastructure-drover-hetzner", "infrastructure-drover-sim")

	generated := filepath.Join(ctl.folder, "cluster.yaml")
	ctl.mustRun(t, "generate", "cluster", "edge", "--config", before, "--infrastructure", "drover-sim:"+version, "--target-namespace", "default",
		"--kubernetes-version", "v1.36.3", "--worker-machine-count", "3", "--write-to", generated)
	objects := readFile(t, generated)
	if err := apply(t.Context(), c, objects); err != nil {
		t.Fatal(err)
	}
	objects = append(objects, crdNamed("machinedeployments.cluster.x-k8s.io"), crdNamed("simmachines.infrastructure.drover.io"))
	kept := uids(t, c, objects)

	if plan := ctl.mustRun(t, "upgrade", "plan", "--config", after); strings.Count(plan, nextVersion) < 4 {
		t.Errorf("clusterctl upgrade plan does not offer %s for each provider:\n%s", nextVersion, plan)
	}
	ctl.mustRun(t, "upgrade", "apply", "--config", after, "--contract", "v1beta2")
	wantProviders(t, c, nextVersion, "bootstrap-drover", "cluster-api", "infrastructure-drover-hetzner", "infrastructure-drover-sim")
	if got := uids(t, c, objects); !slices.Equal(got, kept) {
		t.Errorf("objects were replaced by the upgrade: got %v, want %v", got, kept)
	}

	awaitKept(t, c, "simmachines.infrastructure.drover.io")
	ctl.mustRun(t, "delete", "--config", after, "--infrastructure", "drover-hetzner")
	if got := uids(t, c, objects); !slices.Equal(got, kept) {
		t.Errorf("objects were replaced by the removal of a provider: got %v, want %v", got, kept)
	}
	if err := c.Get(t.Context(), types.NamespacedName{Name: "hetznermachines.infrastructure.drover.io"}, crdNamed("")); err != nil {
		t.Errorf("the kinds of a removed provider: got %v, want them to stay without --include-crd", err)
	}
	wantProviders(t, c, nextVersion, "bootstrap-drover", "cluster-api", "infrastructure-drover-sim")

	if output, err := ctl.run(t.Context(), "delete", "--config", after, "--infrastructure", "drover-sim", "--include-crd"); err == nil {
		t.Errorf("the kinds of objects that exist are deleted:\n%s", output)
	}
	ctl.mustRun(t, "delete", "--config", after, "--core", "cluster-api", "--bootstrap", "drover", "--infrastructure", "drover-sim")
	wantProviders(t, c, nextVersion)
	if got := uids(t, c, objects); !slices.Equal(got, kept) {
		t.Errorf("objects were replaced by the removal of all providers: got %v, want %v", got, kept)
	}
}

// wantProviders compares what clusterctl has installed, and the version of each.
func wantProviders(t *testing.T, c client.Client, version string, want ...string) {
	t.Helper()
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(schema.GroupVersionKind{Group: "clusterctl.cluster.x-k8s.io", Version: "v1alpha3", Kind: "ProviderList"})
	if err := c.List(t.Context(), list); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, each := range list.Items {
		got = append(got, each.GetName())
		if installed, _, _ := unstructured.NestedString(each.Object, "version"); installed != version {
			t.Errorf("%s has the version %q, want %s", each.GetName(), installed, version)
		}
	}
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("installed are %q, want %q", got, want)
	}
}

// uids returns the UIDs of objects, which must exist.
func uids(t *testing.T, c client.Client, objects []*unstructured.Unstructured) []types.UID {
	t.Helper()
	var found []types.UID
	for _, object := range objects {
		current := object.DeepCopy()
		if err := c.Get(t.Context(), client.ObjectKeyFromObject(object), current); err != nil {
			t.Fatalf("%s %s: %v", object.GetKind(), object.GetName(), err)
		}
		found = append(found, current.GetUID())
	}
	return found
}
