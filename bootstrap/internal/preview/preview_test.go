// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package preview

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	bootstrapv1 "drover.io/api/bootstrap/v1alpha1"
	"drover.io/bootstrap/profile"
	"drover.io/runtime/crdvalidation"
)

const nodeProfile = `
apiVersion: bootstrap.drover.io/v1alpha1
kind: NodeProfile
metadata: {name: fleet}
spec:
  releases: {architectures: [amd64], sources: [{component: containerd, fromImage: true}, {component: runc, fromImage: true}, {component: crictl, fromImage: true}]}
  defaults:
    kubelet:
      configuration: {maxPods: 50, evictionHard: {memory.available: 1Gi}, readOnlyPort: 0, allowedUnsafeSysctls: [a]}
      nodeLabels: {a: profile, b: profile}
      nodeIP: {ipFamilies: [IPv4]}
      taints: [{key: t, effect: NoSchedule}]
    containerd: {mirrors: [{registry: docker.io, endpoints: ["https://m.example.com/v2"]}, {registry: quay.io, endpoints: ["https://m.example.com/v2"]}]}
    packages: [nfs-common, jq]
    files: [{path: /a, content: "one\ntwo\n"}, {path: /b, content: profile}]
    ntp: {servers: [time.example.com]}
    preCommands: ["same", "echo a\necho b\n"]
    proxy: {http: "http://proxy.example.com", noProxy: [a.example.com]}
`

const bootstrapConfig = `
apiVersion: bootstrap.drover.io/v1alpha1
kind: BootstrapConfig
metadata: {name: workers, namespace: default}
spec:
  operatingSystem: ubuntu
  profileRef: {name: fleet}
  kubelet:
    configuration: {maxPods: null, evictionHard: {nodefs.available: 5%}, allowedUnsafeSysctls: [b]}
    nodeLabels: {a: config}
  containerd: {mirrors: [{registry: quay.io, endpoints: ["https://own.example.com/v2"]}]}
  packages: [curl, jq]
  files: [{path: /b, content: config}]
  preCommands: [same]
  proxy: {https: "http://own.example.com"}
`

const machineManifest = `
apiVersion: cluster.x-k8s.io/v1beta2
kind: Machine
metadata: {name: m1}
spec:
  clusterName: c1
  version: v1.36.3
  bootstrap: {configRef: {apiGroup: bootstrap.drover.io, kind: BootstrapConfig, name: workers}}
  infrastructureRef: {apiGroup: infrastructure.drover.io, kind: SimMachine, name: m1}
`

const clusterManifest = `
apiVersion: cluster.x-k8s.io/v1beta2
kind: Cluster
metadata: {name: c1}
spec:
  controlPlaneEndpoint: {host: api.example.com, port: 6443}
  clusterNetwork: {services: {cidrBlocks: [10.4.0.0/16]}}
`

const secret = `
apiVersion: v1
kind: Secret
metadata: {name: keys}
stringData: {password: hunter2}
`

// kinds are read once: all tests have the same.
var kinds = sync.OnceValues(crdvalidation.Load)

func preview(manifests ...string) (string, error) {
	k, err := kinds()
	if err != nil {
		return "", err
	}
	m := NewManifests(k)
	if err := m.Read(strings.NewReader(strings.Join(manifests, "\n---\n"))); err != nil {
		return "", err
	}
	var out bytes.Buffer
	err = Write(&out, m)
	return out.String(), err
}

func TestEachValueHasItsOrigin(t *testing.T) {
	t.Parallel()
	got, err := preview(nodeProfile, bootstrapConfig, machineManifest, clusterManifest, secret)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"# BootstrapConfig workers\n",
		"operatingSystem: ubuntu # BootstrapConfig\n",
		"    maxPods: null # BootstrapConfig\n",
		"      memory.available: 1Gi # NodeProfile fleet\n",
		"      nodefs.available: 5% # BootstrapConfig\n",
		"    readOnlyPort: 0 # NodeProfile fleet\n",
		"    allowedUnsafeSysctls:\n      - b # BootstrapConfig\n",
		"    a: config # BootstrapConfig\n    b: profile # NodeProfile fleet\n",
		"    ipFamilies:\n      - IPv4 # NodeProfile fleet\n",
		"    - endpoints:\n        - https://m.example.com/v2 # NodeProfile fleet\n      registry: docker.io # NodeProfile fleet\n",
		"        - https://own.example.com/v2 # BootstrapConfig\n      registry: quay.io # BootstrapConfig\n",
		"packages:\n  - nfs-common # NodeProfile fleet\n  - curl # BootstrapConfig\n  - jq # BootstrapConfig\n",
		"  - # NodeProfile fleet\n    content: |\n      one\n      two\n    path: /a # NodeProfile fleet\n",
		"preCommands:\n  - same # NodeProfile fleet\n  # NodeProfile fleet\n  - |\n    echo a\n    echo b\n  - same # BootstrapConfig\n",
		"proxy:\n  https: http://own.example.com # BootstrapConfig\n",
		"  tokenTTLSeconds: 1800 # default\n",
		"  endpoint: api.example.com:6443 # Cluster c1\n",
		"  clusterDNS:\n    - 10.4.0.10 # Cluster c1\n",
		"      sha256: '?' # to be read from https://dl.k8s.io/release/v1.36.3/bin/linux/amd64/kubelet.sha256\n",
		"      url: https://dl.k8s.io/release/v1.36.3/bin/linux/amd64/kubelet # release of Kubernetes v1.36.3\n",
		"  sandboxImage: registry.k8s.io/pause:3.10.2 # release of Kubernetes v1.36.3\n",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("there is no %q in:\n%s", want, got)
		}
	}
	if strings.Contains(got, "hunter2") {
		t.Error("a Secret is in the output")
	}
}

// TestOutputIsWhatTheControllerMerges: as data it is the merged specification, and values of the profile are in the fields
// that the controller reports to have some.
func TestOutputIsWhatTheControllerMerges(t *testing.T) {
	t.Parallel()
	ready := strings.Replace(nodeProfile, "{architectures: [amd64], sources: [", "{sources: [{component: kubelet, fromImage: true}, {component: cniPlugins, fromImage: true}, ", 1)
	got, err := preview(ready, bootstrapConfig)
	if err != nil {
		t.Fatal(err)
	}
	config, fleet := &bootstrapv1.BootstrapConfig{}, &bootstrapv1.NodeProfile{}
	for text, into := range map[string]any{bootstrapConfig: config, ready: fleet} {
		if err := yaml.UnmarshalStrict([]byte(text), into); err != nil {
			t.Fatal(err)
		}
	}
	want, fields := profile.Merge(&config.Spec, &fleet.Spec.Defaults)
	want.Join.TokenTTLSeconds, want.MaxSizeBytes = new(int32(1800)), new(int32(16384))
	printed := &bootstrapv1.BootstrapConfigSpec{}
	if err := yaml.UnmarshalStrict([]byte(got), printed); err != nil {
		t.Fatalf("%v:\n%s", err, got)
	}
	if diff := cmp.Diff(want, printed); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if of := ofProfile(got); !slices.Equal(of, fields) {
		t.Errorf("values of the profile are in %v, the controller reports %v", of, fields)
	}
}

// ofProfile are the fields with a value of the profile, of those that the test has.
func ofProfile(text string) []string {
	var found []string
	for _, field := range []string{"spec.containerd.mirrors", "spec.files", "spec.kubelet.configuration", "spec.kubelet.nodeIP", "spec.kubelet.nodeLabels", "spec.kubelet.taints", "spec.ntp", "spec.packages", "spec.preCommands", "spec.proxy"} {
		path := strings.Split(strings.TrimPrefix(field, "spec."), ".")
		rest := "\n" + text
		for depth, key := range path {
			indent := strings.Repeat("  ", depth)
			_, rest, _ = strings.Cut(rest, "\n"+indent+key+":")
			var inside strings.Builder
			for line := range strings.Lines(rest) {
				if inside.Len() > 0 && !strings.HasPrefix(line, indent+"  ") {
					break
				}
				inside.WriteString(line)
			}
			rest = inside.String()
		}
		if strings.Contains(rest, "# NodeProfile fleet") {
			found = append(found, field)
		}
	}
	return found
}

func TestTemplateIsMergedWithTheVersionOfItsMachineDeployment(t *testing.T) {
	t.Parallel()
	template := "apiVersion: bootstrap.drover.io/v1alpha1\nkind: BootstrapConfigTemplate\nmetadata: {name: workers}\nspec: {template: {spec: {operatingSystem: flatcar, profileRef: {name: fleet}}}}\n"
	deployment := strings.NewReplacer("kind: Machine\n", "kind: MachineDeployment\n", "spec:\n  clusterName: c1\n  version", "spec:\n  clusterName: c1\n  selector: {}\n  template:\n   spec:\n    clusterName: c1\n    version",
		"  bootstrap:", "    bootstrap:", "  infrastructureRef", "    infrastructureRef", "kind: BootstrapConfig,", "kind: BootstrapConfigTemplate,", "kind: SimMachine,", "kind: SimMachineTemplate,", "v1.36.3", "v1.35.1").Replace(machineManifest)
	got, err := preview("apiVersion: v1\nkind: List\nitems:\n- "+strings.ReplaceAll(strings.TrimSpace(template), "\n", "\n  "), nodeProfile, deployment, bootstrapConfig, machineManifest)
	if err != nil {
		t.Fatal(err)
	}
	first, second, _ := strings.Cut(got, "---\n")
	if !strings.Contains(first, "/v1.35.1/") || !strings.Contains(second, "/v1.36.3/") || strings.Contains(first, "packages:") {
		t.Errorf("each is not merged with its own version:\n%s", got)
	}
}

func TestWrongManifestsAreRefused(t *testing.T) {
	t.Parallel()
	change := func(text, old, replacement string) string {
		if !strings.Contains(text, old) {
			panic(old)
		}
		return strings.Replace(text, old, replacement, 1)
	}
	fixed := change(bootstrapConfig, "  kubelet:\n", "  kubelet:\n    extraArgs: {node-ip: 10.0.0.1}\n")
	for name, c := range map[string]struct {
		manifests []string
		want      string
	}{
		"no config":               {[]string{nodeProfile}, "there is no BootstrapConfig and no BootstrapConfigTemplate in the files"},
		"no YAML":                 {[]string{"a: [b"}, "document 1: is no YAML: line 1: did not find expected ',' or ']'"},
		"an unknown field":        {[]string{nodeProfile, change(bootstrapConfig, "packages", "package")}, `document 2: BootstrapConfig workers: unknown field "spec.package", did you mean "packages"?`},
		"another version":         {[]string{change(machineManifest, "v1beta2", "v1beta1")}, "document 1: Machine has the apiVersion cluster.x-k8s.io/v1beta1, must be cluster.x-k8s.io/v1beta2"},
		"no profile":              {[]string{bootstrapConfig, machineManifest}, `BootstrapConfig workers: spec.profileRef.name: there is no NodeProfile "fleet" in the files: name the file that has it`},
		"a profile elsewhere":     {[]string{bootstrapConfig, change(nodeProfile, "name: fleet", "name: fleet, namespace: other"), machineManifest}, `BootstrapConfig workers: spec.profileRef.name: there is no NodeProfile "fleet" of its namespace in the files, only other/fleet: correct the name or the namespace, or name the file that has it`},
		"two profiles":            {[]string{bootstrapConfig, nodeProfile, change(nodeProfile, "name: fleet", "name: fleet, namespace: default"), machineManifest}, `BootstrapConfig workers: spec.profileRef.name: there are 2 NodeProfiles "fleet" of its namespace in the files, must be one`},
		"no Machine":              {[]string{bootstrapConfig, nodeProfile}, "BootstrapConfig workers: there is no Machine in the files that refers to it, and its version decides which binaries of the NodeProfile are used: correct the name, or name the file that has it"},
		"a version without table": {[]string{bootstrapConfig, nodeProfile, change(machineManifest, "v1.36.3", "v1.99.0")}, "NodeProfile fleet, for BootstrapConfig workers: spec.releases.versions: has no version of cniPlugins for Kubernetes 1.99, which is not among the known ones: add it"},
		"two versions":            {[]string{bootstrapConfig, nodeProfile, machineManifest, change(change(machineManifest, "v1.36.3", "v1.35.0"), "m1", "m2")}, "BootstrapConfig workers: Machine m1 and Machine m2 refer to it, with other versions or Clusters: name the file of one of them"},
		"two Clusters":            {[]string{bootstrapConfig, nodeProfile, machineManifest, clusterManifest, change(clusterManifest, "name: c1", "name: c1, namespace: default")}, "BootstrapConfig workers: there are 2 Clusters in the files that may be its own: name the file of one of them"},
		"what excludes itself":    {[]string{fixed, nodeProfile, machineManifest}, "BootstrapConfig workers: spec.kubelet.extraArgs[node-ip]: excludes spec.kubelet.nodeIP: remove one of them, which may be in the NodeProfile"},
	} {
		got, err := preview(c.manifests...)
		if fmt.Sprint(err) != c.want || got != "" {
			t.Errorf("%s: err = %v, want %s; output %q", name, err, c.want, got)
		}
	}
}

func TestSecretsAreNeitherNeededNorShown(t *testing.T) {
	t.Parallel()
	config := `
apiVersion: bootstrap.drover.io/v1alpha1
kind: BootstrapConfig
metadata: {name: workers}
spec:
  operatingSystem: rhel
  files: [{path: /etc/a, contentFrom: {name: keys, key: a}}]
  containerd: {registryCredentialsFrom: {name: keys, key: b}}
  rhel: {subscription: {usernameFrom: {name: keys, key: c}, passwordFrom: {name: keys, key: d}}}
`
	got, err := preview(config, secret)
	if err != nil {
		t.Fatal(err)
	}
	for _, other := range []string{"hunter2", anyToken, "password\":"} {
		if strings.Contains(got, other) {
			t.Errorf("%q is in the output:\n%s", other, got)
		}
	}
}
