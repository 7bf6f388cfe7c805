// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package preview

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// fleet is what a site writes: all of it is right.
const fleet = `apiVersion: bootstrap.drover.io/v1alpha1
kind: NodeProfile
metadata: {name: fleet}
spec:
  releases: {architectures: [amd64]}
---
apiVersion: bootstrap.drover.io/v1alpha1
kind: BootstrapConfigTemplate
metadata: {name: workers}
spec: {template: {spec: {operatingSystem: ubuntu, profileRef: {name: fleet}}}}
---
apiVersion: cluster.x-k8s.io/v1beta2
kind: MachineDeployment
metadata: {name: workers}
spec:
  clusterName: c
  selector: {}
  template:
    spec:
      clusterName: c
      version: v1.36.3
      bootstrap: {configRef: {apiGroup: bootstrap.drover.io, kind: BootstrapConfigTemplate, name: workers}}
      infrastructureRef: {apiGroup: infrastructure.drover.io, kind: SimMachineTemplate, name: w}
---
apiVersion: cluster.x-k8s.io/v1beta2
kind: Cluster
metadata: {name: c}
spec: {controlPlaneEndpoint: {host: api.example.com, port: 6443}}
`

const (
	releases = "releases: {architectures: [amd64]}"
	system   = "operatingSystem: ubuntu"
	workers  = "BootstrapConfigTemplate workers: "
	ofFleet  = "NodeProfile fleet, for BootstrapConfigTemplate workers: "
)

// TestWrongInputIsNamed: what a newcomer writes, and the lines that they get. Each changes one thing of what is right.
func TestWrongInputIsNamed(t *testing.T) {
	t.Parallel()
	if _, err := preview(fleet); err != nil {
		t.Fatal(err)
	}
	digest := strings.Repeat("0", 64)
	for name, c := range map[string]struct {
		old, replacement string
		want             []string
	}{
		"a mirror without https": {releases, "releases: {architectures: [amd64], mirror: 'http://m.example.com', sources: [{component: runc, fromImage: true}, {component: containerd, fromImage: true}, {component: crictl, fromImage: true}]}", []string{
			ofFleet + "spec.releases.digests: has no checksum of cniPlugins 1.9.1 for amd64, and that of a mirror without https is not trusted: add it",
			ofFleet + "spec.releases.digests: has no checksum of kubelet 1.36.3 for amd64, and that of a mirror without https is not trusted: add it",
		}},
		"a mirror that ends with a slash": {releases, "releases: {architectures: [amd64], mirror: 'https://m.example.com/'}", []string{
			"document 1: NodeProfile fleet: spec.releases.mirror: Invalid value: \"https://m.example.com/\": must be a URL that begins with https:// or http://, such as https://mirror.example.com/releases, and ends with a letter or digit, without query",
		}},
		"a short URL without a scheme": {system, system + ", proxy: {https: 'p:3128'}", []string{
			"document 2: BootstrapConfigTemplate workers: spec.template.spec.proxy.https: Invalid value: \"p:3128\": spec.template.spec.proxy.https in body should match '^https?://[^\\s\"'\\\\$]+$'",
		}},
		"a mirror at the metadata service": {releases, "releases: {architectures: [amd64], mirror: 'https://169.254.169.254', sources: [{component: runc, fromImage: true}, {component: containerd, fromImage: true}, {component: crictl, fromImage: true}, {component: cniPlugins, fromImage: true}]}", []string{
			ofFleet + "the checksum of kubelet 1.36.3 for amd64 cannot be read from https://169.254.169.254/dl.k8s.io/release/v1.36.3/bin/linux/amd64/kubelet.sha256: link-local, multicast, unspecified and metadata addresses are not connected to: correct spec.releases, or add the checksum to spec.releases.digests",
		}},
		"a binary for another architecture": {system, system + ", binaries: {kubelet: [{architecture: arm64, url: 'https://a.example.com/k', sha256: '" + digest + "'}]}", []string{
			workers + "spec.template.spec.binaries.kubelet: is for arm64, and spec.releases.architectures of the NodeProfile has amd64: add a file for that, or correct the architectures",
		}},
		"binaries for two architectures": {"profileRef: {name: fleet}", "binaries: {kubelet: [{architecture: arm64, url: 'https://a.example.com/k', sha256: '" + digest + "'}], runc: [{architecture: amd64, url: 'https://a.example.com/r', sha256: '" + digest + "'}]}", []string{
			workers + "spec.template.spec.binaries: there is no architecture for which there are all, so that no host can join: there is kubelet for arm64, runc for amd64: add the others, or correct the architecture",
		}},
		"a misspelt kind":    {"kind: NodeProfile", "kind: NodeProfil", []string{`document 1: the group bootstrap.drover.io has no kind "NodeProfil", did you mean NodeProfile?`}},
		"another version":    {"v1alpha1\nkind: NodeProfile", "v1\nkind: NodeProfile", []string{"document 1: NodeProfile has the apiVersion bootstrap.drover.io/v1, must be bootstrap.drover.io/v1alpha1"}},
		"no known versions":  {"v1.36.3", "v1.99.1", []string{ofFleet + "spec.releases.versions: has no version of runc, containerd, cniPlugins, crictl for Kubernetes 1.99, which is not among the known ones: add it"}},
		"a version of words": {"v1.36.3", "latest", []string{`document 3: MachineDeployment workers: spec.template.spec.version: Invalid value: "latest": must be a Kubernetes version such as v1.36.3`}},
		"an operating system": {system, "operatingSystem: centos", []string{
			"document 2: " + workers + `spec.template.spec.operatingSystem: Unsupported value: "centos": supported values: "ubuntu", "debian", "flatcar", "rhel", "rocky", "amazonlinux"`,
		}},
		"a type": {system, system + `, maxSizeBytes: "16k"`, []string{
			"document 2: " + workers + `spec.template.spec.maxSizeBytes: Invalid value: "string": spec.template.spec.maxSizeBytes in body must be of type integer: "string"`,
		}},
		"a type in a fragment": {system, system + `, kubelet: {configuration: {maxPods: "50"}}`, []string{workers + "spec.template.spec.kubelet.configuration.maxPods: must be an integer of type int32, and is a JSON string"}},
		"a rule":               {system, "operatingSystem: flatcar, packages: [jq]", []string{"document 2: " + workers + "spec.template.spec.operatingSystem: Invalid value: flatcar has no packages: use binaries, and flatcar.updates"}},
		"a level too few": {"{template: {spec: {operatingSystem: ubuntu, profileRef: {name: fleet}}}}", "{operatingSystem: ubuntu}", []string{
			"document 2: " + workers + `unknown field "spec.operatingSystem", did you mean "spec.template.spec.operatingSystem"?`,
		}},
		"another profile": {"profileRef: {name: fleet}", "profileRef: {name: flet}", []string{workers + `spec.template.spec.profileRef.name: there is no NodeProfile "flet" of its namespace in the files, only fleet: correct the name or the namespace, or name the file that has it`}},
		"another reference": {"BootstrapConfigTemplate, name: workers", "BootstrapConfigTemplate, name: worker", []string{
			workers + `there is no MachineDeployment in the files that refers to it (MachineDeployment workers refers to "worker"), and its version decides which binaries of the NodeProfile are used: correct the name, or name the file that has it`,
		}},
		"a reference to another project": {"apiGroup: bootstrap.drover.io", "apiGroup: bootstrap.cluster.x-k8s.io", []string{"MachineDeployment workers: spec.template.spec.bootstrap.configRef.apiGroup: is bootstrap.cluster.x-k8s.io, must be bootstrap.drover.io for a BootstrapConfigTemplate"}},
		"a reference to another kind":    {"kind: BootstrapConfigTemplate, name", "kind: BootstrapTemplate, name", []string{"MachineDeployment workers: spec.template.spec.bootstrap.configRef.kind: is BootstrapTemplate, must be BootstrapConfigTemplate"}},
		"another Cluster":                {"metadata: {name: c}", "metadata: {name: d}", []string{`MachineDeployment workers, for BootstrapConfigTemplate workers: spec.template.spec.clusterName: there is no Cluster "c" in the files, only d: correct the name, or name the file that has it`}},
		"no endpoint": {"{controlPlaneEndpoint: {host: api.example.com, port: 6443}}", "{clusterNetwork: {serviceDomain: a.example}}", []string{
			"Cluster c, for BootstrapConfigTemplate workers: spec.controlPlaneEndpoint: has no host and port, and without infrastructureRef and controlPlaneRef nothing adds them: set it, or spec.join.endpoint of the BootstrapConfig",
		}},
		"a file of the controller in the profile": {releases, releases + "\n  defaults: {files: [{path: /a, content: b}, {path: /etc/containerd/config.toml, content: c}]}", []string{ofFleet + "spec.defaults.files[1].path: /etc/containerd/config.toml: the file is written by the controller, or twice"}},
		"a label in the profile":                  {releases, releases + "\n  defaults: {kubelet: {nodeLabels: {topology.k8s.io/zone: a}}}", []string{ofFleet + "spec.defaults.kubelet.nodeLabels[topology.k8s.io/zone]: a kubelet may not set this label: put it on the Machine, whose labels are synchronised to the Node"}},
		"too much":                                {system, system + ", maxSizeBytes: 4096, preCommands: ['" + strings.Repeat("a", 900) + "', '" + strings.Repeat("b", 900) + "', '" + strings.Repeat("c", 900) + "', '" + strings.Repeat("d", 900) + "', '" + strings.Repeat("e", 900) + "']", nil},
		"a template of Helm":                      {"{name: fleet}\nspec", "{name: {{ .Values.name }}}\nspec", []string{"document 1: is no YAML: it has {{, as a template of Helm: fill it in first, with helm template"}},
		"a template of clusterctl":                {"metadata: {name: c}", "metadata: {name: a, namespace: '${NAMESPACE}'}", []string{`document 4: Cluster a: metadata.namespace: Invalid value: "${NAMESPACE}": a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name', or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?'): fill in the variables first, for a template of clusterctl with clusterctl generate`}},
		"no separator":                            {"---\napiVersion: cluster.x-k8s.io/v1beta2\nkind: Cluster", "apiVersion: cluster.x-k8s.io/v1beta2\nkind: Cluster", []string{"document 3: is no YAML: it has two objects: put a line with --- alone between them"}},
		"a field twice":                           {"metadata: {name: fleet}", "metadata: {name: fleet}\nmetadata: {name: fleet}", []string{`document 1: is no YAML: line 4: key "metadata" already set in map`}},
		"no kind":                                 {"kind: NodeProfile", "Kind: NodeProfile", []string{"document 1: is no manifest: it has no kind"}},
		"an object twice":                         {"kind: Cluster\nmetadata: {name: c}\n", "kind: Cluster\nmetadata: {name: c}\nspec: {paused: true}\n---\napiVersion: cluster.x-k8s.io/v1beta2\nkind: Cluster\nmetadata: {name: c}\n", []string{"document 5: Cluster c: is in the files twice"}},
		"an unknown field, which is reported alone": {"name: workers}\nspec: {template: {spec: {", "name: Workers}\nspec: {template: {spec: {xyzzy: 1, ", []string{
			`document 2: BootstrapConfigTemplate Workers: unknown field "spec.template.spec.xyzzy"`,
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if !strings.Contains(fleet, c.old) {
				t.Fatalf("%q is not in the manifest", c.old)
			}
			got, err := preview(strings.Replace(fleet, c.old, c.replacement, 1))
			if got != "" || err == nil {
				t.Fatalf("err = %v, output %q", err, got)
			}
			if c.want == nil { // the number of bytes is not of interest
				c.want = []string{err.Error()}
				if !strings.HasPrefix(err.Error(), workers+"spec.template.spec.maxSizeBytes: the bootstrap data has ") {
					t.Errorf("err = %v", err)
				}
			}
			if diff := cmp.Diff(c.want, strings.Split(err.Error(), "\n")); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestMachinesOfALongNameAreNotRefused: machine-controller cuts the names of Machines, so that they can be host names.
func TestMachinesOfALongNameAreNotRefused(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("w", 63)
	fromMachine := strings.Replace(fleet, system, system+", hostname: Machine", 1)
	if _, err := preview(strings.Replace(fromMachine, "kind: MachineDeployment\nmetadata: {name: workers}", "kind: MachineDeployment\nmetadata: {name: "+long+"}", 1)); err != nil {
		t.Error(err)
	}
	machine := strings.Replace(machineManifest, "name: m1", "name: "+long+"w", 1)
	want := "BootstrapConfig workers: spec.hostname: the name of the Machine has more than 63 characters, which no Node can have as its host name: use a shorter one"
	if _, err := preview(nodeProfile, strings.Replace(bootstrapConfig, "operatingSystem: ubuntu", "operatingSystem: ubuntu\n  hostname: Machine", 1), machine); fmt.Sprint(err) != want {
		t.Errorf("err = %v, want %s", err, want)
	}
}

// TestDefaultsAreThoseOfTheSchema: those in items of lists, too, and a value that is given is none.
func TestDefaultsAreThoseOfTheSchema(t *testing.T) {
	t.Parallel()
	provider := ", kubelet: {credentialProviders: [{name: ecr, matchImages: ['a.example.com']}]}, join: {method: Kubeadm}, maxSizeBytes: 20000"
	got, err := preview(strings.NewReplacer(system, system+provider, releases, releases+"\n  defaults: {kubelet: {credentialProviders: [{name: gcr, matchImages: ['b.example.com']}]}}").Replace(fleet))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"  tokenTTLSeconds: 1800 # default\n", "  method: Kubeadm # BootstrapConfigTemplate\n", "maxSizeBytes: 20000 # BootstrapConfigTemplate\n",
		"    - cacheSeconds: 43200 # NodeProfile fleet\n", "    - cacheSeconds: 43200 # default\n",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("there is no %q in:\n%s", want, got)
		}
	}
}

func TestObjectsOfOthersAreListed(t *testing.T) {
	t.Parallel()
	k, err := kinds()
	if err != nil {
		t.Fatal(err)
	}
	m := NewManifests(k)
	foreign := "---\napiVersion: postgresql.cnpg.io/v1\nkind: Cluster\nmetadata: {name: db}\nspec: {instances: 3}\n---\n# nothing\n"
	if err := m.Read(strings.NewReader(fleet + foreign + "---" + secret)); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"Cluster db", "Secret keys"}, m.Skipped()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestFilesInJSONMayHaveSeveralObjects(t *testing.T) {
	t.Parallel()
	object := `{"apiVersion":"bootstrap.drover.io/v1alpha1","kind":"BootstrapConfig","metadata":{"name":"NAME"},"spec":{"operatingSystem":"ubuntu"}}`
	got, err := preview(strings.ReplaceAll(object, "NAME", "a") + "\n" + strings.ReplaceAll(object, "NAME", "b"))
	if err != nil || !strings.Contains(got, "# BootstrapConfig a\n") || !strings.Contains(got, "# BootstrapConfig b\n") {
		t.Errorf("err = %v, output:\n%s", err, got)
	}
	for text, want := range map[string]string{
		object + "\nkind: NodeProfile":                                          "document 1: is no YAML: there is something after its end",
		strings.Replace(object, "drover.io/v1alpha1", "drover.io/v1/alpha1", 1): `document 1: apiVersion: must be a group and a version, as in bootstrap.drover.io/v1alpha1, or a version: "bootstrap.drover.io/v1/alpha1"`,
		object + "\n" + object:                                                  "document 1: items[0]: BootstrapConfig NAME: metadata.name: Invalid value: ",
	} {
		if _, err := preview(text); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("err = %v, want %s", err, want)
		}
	}
}
