// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
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
	"sigs.k8s.io/yaml"

	"drover.io/test/controlplane"
	"drover.io/test/controlplane/binaries"
	"drover.io/test/interop/peer"
)

// certManagerVersion is the version that clusterctl v1.14.2 installs by default.
const certManagerVersion = "v1.21.1"

// clusterctl is upstream's program against one API server.
type clusterctl struct {
	peers                       *peer.Peers
	plane                       *controlplane.ControlPlane
	program, kubeconfig, folder string
}

// newClusterctl compiles clusterctl. make interop requests that; the other tests do not need it. WriteRepository needs no
// manager of upstream but kustomize, which is always compiled.
func newClusterctl(t *testing.T, plane *controlplane.ControlPlane) clusterctl {
	t.Helper()
	root, err := binaries.Root()
	if err != nil {
		t.Fatal(err)
	}
	peers, err := peer.Build(t.Context(), root, func(step string) { t.Log(step) }, peer.Clusterctl)
	if err != nil {
		t.Fatal(err)
	}
	c := clusterctl{peers: peers, plane: plane, program: peers.Path(peer.Clusterctl), folder: t.TempDir()}
	c.kubeconfig = filepath.Join(c.folder, "kubeconfig")
	if err := os.WriteFile(c.kubeconfig, plane.AdminKubeconfig(), 0o600); err != nil {
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

// externalCertManager is the addition to a configuration where clusterctl does not install cert-manager.
const externalCertManager = "cert-manager:\n  externallyProvisioned: \"true\"\n  timeout: 10s\n"

// startClusterctl starts a control plane for clusterctl.
func startClusterctl(t *testing.T) (clusterctl, client.Client) {
	t.Helper()
	if os.Getenv("DROVER_INTEROP") == "" {
		t.Skip("make interop runs this: it compiles clusterctl")
	}
	plane, c := start(t)
	return newClusterctl(t, plane), c
}

// applyCertManagerKinds creates the kinds of cert-manager that clusterctl init demands.
func applyCertManagerKinds(t *testing.T, c client.Client) {
	t.Helper()
	for _, name := range []string{"issuers", "certificates"} {
		if err := apply(t.Context(), c, readFile(t, filepath.Join(certManagerKinds(t), "cert-manager.io_"+name+".yaml"))); err != nil {
			t.Fatal(err)
		}
	}
}

// TestClusterctl installs, upgrades and removes the providers by clusterctl. Of cert-manager only the kinds are there.
func TestClusterctl(t *testing.T) {
	ctl, c := startClusterctl(t)
	before, after := ctl.config(t, version, externalCertManager), ctl.config(t, nextVersion, externalCertManager)
	initialize := []string{
		"init", "--config", before, "--core", "cluster-api:" + version, "--bootstrap", "drover:" + version, "--control-plane", "-",
		"--infrastructure", "drover-sim:" + version + ",drover-hetzner:" + version,
	}
	if output, err := ctl.run(t.Context(), initialize...); err == nil {
		t.Fatalf("clusterctl init without the API of cert-manager succeeded:\n%s", output)
	}
	applyCertManagerKinds(t, c)
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

	ctl.mustRun(t, "init", "--config", after, "--core", "cluster-api:"+nextVersion, "--bootstrap", "-", "--control-plane", "-")
	ctl.mustRun(t, "delete", "--config", after, "--core", "cluster-api", "--include-namespace")
	await(t, "the namespace is gone, and the inventory in it", func(context.Context) error {
		if left := providers(t, c); len(left) > 0 {
			return fmt.Errorf("installed are %q", left)
		}
		return nil
	})
	if got := uids(t, c, objects); !slices.Equal(got, kept) {
		t.Errorf("objects were replaced by the removal of the namespace: got %v, want %v", got, kept)
	}
}

// TestClusterctlUpgradeKeepsTheLabelProtected has a tenant try to label its namespace all the time while the providers are
// upgraded: their objects are deleted and created again.
func TestClusterctlUpgradeKeepsTheLabelProtected(t *testing.T) {
	ctl, c := startClusterctl(t)
	createUsers(t, c)
	applyCertManagerKinds(t, c)
	before, after := ctl.config(t, version, externalCertManager), ctl.config(t, nextVersion, externalCertManager)
	ctl.mustRun(t, "init", "--config", before, "--core", "cluster-api:"+version, "--bootstrap", "drover:"+version, "--control-plane", "-",
		"--infrastructure", "drover-aws:"+version)
	tenant := userClient(t, ctl.plane, "all")
	await(t, "the policy is in force", func(ctx context.Context) error {
		if patchNamespace(ctx, tenant, allowCredentials, client.DryRunAll) == nil {
			return errors.New("a tenant can label its namespace")
		}
		return nil
	})
	ctx, end := context.WithCancel(t.Context())
	labelled := make(chan int)
	go func() {
		succeeded := 0
		for ctx.Err() == nil {
			if patchNamespace(ctx, tenant, allowCredentials, client.DryRunAll) == nil {
				succeeded++
			}
		}
		labelled <- succeeded
	}()
	ctl.mustRun(t, "upgrade", "apply", "--config", after, "--contract", "v1beta2")
	end()
	if succeeded := <-labelled; succeeded > 0 {
		t.Errorf("a tenant labelled its namespace %d times during the upgrade", succeeded)
	}
	wantProviders(t, c, nextVersion, "bootstrap-drover", "cluster-api", "infrastructure-drover-aws")
}

// TestClusterctlComposesProviders installs providers of Drover and of Cluster API together by one clusterctl init, in both
// directions. That they work together is what the combinations of test/interop show.
func TestClusterctlComposesProviders(t *testing.T) {
	for _, test := range []struct {
		name string
		// upstream is the program that takes the place of ours, of a type and with a name in the configuration.
		upstream, label, components, providerType, provider string
		args                                                []string
		want                                                []string
	}{
		{
			name: "providers of Drover under the core of Cluster API", upstream: peer.Core,
			label: "cluster-api", components: "core-components.yaml", providerType: "CoreProvider", provider: "cluster-api",
			args: []string{"--core", "cluster-api:UPSTREAM", "--bootstrap", "drover:" + version, "--infrastructure", "drover-sim:" + version},
			want: []string{"bootstrap-drover " + version, "cluster-api UPSTREAM", "infrastructure-drover-sim " + version},
		},
		{
			name: "bootstrap provider of Cluster API under the core of Drover", upstream: peer.Kubeadm,
			label: "bootstrap-kubeadm", components: "bootstrap-components.yaml", providerType: "BootstrapProvider", provider: "kubeadm",
			args: []string{"--core", "cluster-api:" + version, "--bootstrap", "kubeadm:UPSTREAM,drover:" + version, "--infrastructure", "drover-sim:" + version},
			want: []string{"bootstrap-drover " + version, "bootstrap-kubeadm UPSTREAM", "cluster-api " + version, "infrastructure-drover-sim " + version},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			ctl, c := startClusterctl(t)
			url, upstream, err := ctl.peers.WriteRepository(t.Context(), test.upstream, ctl.folder, test.label, test.components)
			if err != nil {
				t.Fatal(err)
			}
			config := ctl.config(t, version, externalCertManager)
			ctl.replaceProvider(t, config, test.providerType, test.provider, url)
			applyCertManagerKinds(t, c)
			args := []string{"init", "--config", config, "--control-plane", "-"}
			for _, arg := range test.args {
				args = append(args, strings.ReplaceAll(arg, "UPSTREAM", upstream))
			}
			ctl.mustRun(t, args...)
			var want []string
			for _, each := range test.want {
				want = append(want, strings.ReplaceAll(each, "UPSTREAM", upstream))
			}
			if got := providers(t, c); !slices.Equal(got, want) {
				t.Errorf("installed are %q, want %q", got, want)
			}
			if plan := ctl.mustRun(t, "upgrade", "plan", "--config", config); !strings.Contains(plan, "already up to date") {
				t.Errorf("clusterctl upgrade plan does not find each provider up to date:\n%s", plan)
			}
		})
	}
}

// replaceProvider makes a configuration name another source for a provider.
func (c clusterctl) replaceProvider(t *testing.T, file, providerType, name, url string) {
	t.Helper()
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	config := map[string]any{}
	if err := yaml.Unmarshal(content, &config); err != nil {
		t.Fatal(err)
	}
	listed, _ := config["providers"].([]any)
	listed = slices.DeleteFunc(listed, func(each any) bool {
		provider, _ := each.(map[string]any)
		return provider["type"] == providerType && provider["name"] == name
	})
	config["providers"] = append(listed, map[string]any{"name": name, "type": providerType, "url": url})
	if content, err = yaml.Marshal(config); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, content, 0o600); err != nil {
		t.Fatal(err)
	}
}

// wantProviders compares what clusterctl has installed, all of one version.
func wantProviders(t *testing.T, c client.Client, version string, names ...string) {
	t.Helper()
	var want []string
	for _, name := range names {
		want = append(want, name+" "+version)
	}
	if got := providers(t, c); !slices.Equal(got, want) {
		t.Errorf("installed are %q, want %q", got, want)
	}
}

// providers returns the name and version of each provider in clusterctl's inventory.
func providers(t *testing.T, c client.Client) []string {
	t.Helper()
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(schema.GroupVersionKind{Group: "clusterctl.cluster.x-k8s.io", Version: "v1alpha3", Kind: "ProviderList"})
	if err := c.List(t.Context(), list); err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, each := range list.Items {
		installed, _, _ := unstructured.NestedString(each.Object, "version")
		found = append(found, each.GetName()+" "+installed)
	}
	slices.Sort(found)
	return found
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
