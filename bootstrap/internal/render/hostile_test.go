// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package render_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"

	"drover.io/api/crds"

	bootstrapv1 "drover.io/api/bootstrap/v1alpha1"
	"drover.io/bootstrap/internal/render"
	"drover.io/bootstrap/node"
)

// hostile are strings that are code, or the end of a string, in some language on the way to a host. What is code makes
// the file /canary.
var hostile = []string{
	"$(touch /canary)", "`touch /canary`", "a;touch /canary;b", "a' ; touch /canary ; '", `a" ; touch /canary ; "`, "a&touch /canary&b", "a|touch /canary",
	"a\ntouch /canary\n", "a\r\ntouch /canary", "${IFS}", "$HOME", "$$", "%h%%i", `\`, `a\nb`, `a\`, `"`, "'", "*", "~root", "#a", "a #b", "a: b", "- a", "[a]", "{a,b}",
	"{{ ds.meta_data.local_hostname }}", "{{ 7*7 }}", "{% raw %}", "{# gone #}", "a{{", "a{%", "{{{", "a{\n", "--help", "-", "!!binary x", "&a", "yes", "null", "0x10",
	"é", "a\u202eb", "\x7f", "\x01", "a\tb", " ", "a b ", "a\x00b", "\xff", "a\ufffeb", "a\ufdd0b", "a\ufeffb",
	"https://a.example.test/[1-3]{a,b}?x=$(touch)&y='z", "https://a.example.test/[1-3]?a=%20b&c=(d)*!;e", "http://u:p&w;touch|x(y)@proxy.example.test:3128", "http://u:{{p}}@proxy.example.test:3128",
	"/srv/a-b.c_d", "/dev/disk/by-id/a:b@c+d", "ssh-ed25519 AAAAC3Nz x{{ 7*7 }}$(touch /canary)'\"", `command="touch /canary" ssh-ed25519 AAAAC3Nz`,
	"ALL=(ALL) NOPASSWD: /bin/a, {{ 7*7 }}", "v1.36.3'; touch /canary; '", "a.b-c_d", "a:1/b@sha256:0", "a-", "A.b",
}

// leaf is a string of a specification: a field, an element of a list, or a key or value of a map.
type leaf struct {
	path string
	get  func(*node.Input) string
	set  func(*node.Input, string)
}

// leaves finds every string in what an Input holds.
func leaves(v reflect.Value, path string, at func(*node.Input) reflect.Value) []leaf {
	var all []leaf
	switch v.Kind() {
	case reflect.String:
		return []leaf{{path, func(in *node.Input) string { return at(in).String() }, func(in *node.Input, s string) { at(in).SetString(s) }}}
	case reflect.Pointer:
		if !v.IsNil() {
			return leaves(v.Elem(), path, func(in *node.Input) reflect.Value { return at(in).Elem() })
		}
	case reflect.Struct:
		for i := range v.NumField() {
			name, _, _ := strings.Cut(v.Type().Field(i).Tag.Get("json"), ",")
			if name == "" {
				name = v.Type().Field(i).Name
			}
			all = append(all, leaves(v.Field(i), path+"."+name, func(in *node.Input) reflect.Value { return at(in).Field(i) })...)
		}
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			return nil // what is given as bytes is tried as a Secret's value
		}
		for i := range v.Len() {
			all = append(all, leaves(v.Index(i), path+"["+strconv.Itoa(i)+"]", func(in *node.Input) reflect.Value { return at(in).Index(i) })...)
		}
	case reflect.Map:
		if v.Type() == reflect.TypeFor[map[string]string]() {
			return mapLeaves(v.Interface().(map[string]string), path, at)
		}
	}
	return all
}

// mapLeaves are the key and the value of the only entry.
func mapLeaves(entries map[string]string, path string, at func(*node.Input) reflect.Value) []leaf {
	if len(entries) != 1 {
		panic(path + " needs one entry")
	}
	only := func(in *node.Input) (map[string]string, string) {
		m := at(in).Interface().(map[string]string)
		return m, slices.Collect(maps.Keys(m))[0]
	}
	return []leaf{
		{path + "{key}", func(in *node.Input) string { _, key := only(in); return key }, func(in *node.Input, s string) {
			m, key := only(in)
			value := m[key]
			delete(m, key)
			m[s] = value
		}},
		{path + "{value}", func(in *node.Input) string { m, key := only(in); return m[key] }, func(in *node.Input, s string) {
			m, key := only(in)
			m[key] = s
		}},
	}
}

func leavesOf(in node.Input) []leaf {
	all := leaves(reflect.ValueOf(&in).Elem(), "", func(in *node.Input) reflect.Value { return reflect.ValueOf(in).Elem() })
	return slices.DeleteFunc(all, func(l leaf) bool { return strings.Contains(l.path, ".Secrets") })
}

// fieldsOf are the paths of all strings that a type can hold, without the indexes of lists.
func fieldsOf(t reflect.Type, path string) []string {
	switch t.Kind() {
	case reflect.String:
		return []string{path}
	case reflect.Pointer, reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 {
			return nil
		}
		return fieldsOf(t.Elem(), path)
	case reflect.Map:
		if t == reflect.TypeFor[map[string]string]() {
			return []string{path + "{key}", path + "{value}"}
		}
	case reflect.Struct:
		var all []string
		for i := range t.NumField() {
			name, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ",")
			if name == "" {
				name = t.Field(i).Name
			}
			all = append(all, fieldsOf(t.Field(i).Type, path+"."+name)...)
		}
		return all
	}
	return nil
}

// full has something in every field that its operating system and its way to join allow.
func full(system bootstrapv1.OperatingSystem, method bootstrapv1.JoinMethod) node.Input {
	in := input(system)
	in.TLSServerName, in.ServiceCIDR, in.ClusterDomain = "api.example.test", "10.4.0.0/16", "k8s.example.test"
	pull, key, file := bootstrapv1.SecretKeyReference{Name: "pull", Key: "p"}, bootstrapv1.SecretKeyReference{Name: "rhsm", Key: "k"}, bootstrapv1.SecretKeyReference{Name: "file", Key: "f"}
	in.Secrets = map[bootstrapv1.SecretKeyReference][]byte{
		pull: []byte(`{"auths":{"registry.example.test":{"username":"puller","password":"hunter2"}}}`), key: []byte("kubernetes"), file: []byte("secret\n"),
	}
	download := func() []bootstrapv1.Download { // of nothing: its checksum is that of an empty file
		return []bootstrapv1.Download{{Architecture: "amd64", URL: "https://mirror.example.test/x", SHA256: "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"}}
	}
	in.Spec.Join = bootstrapv1.Join{Method: method, Endpoint: "api.example.test:6443", TLSServerName: "api.example.test"}
	in.Spec.Kubelet = bootstrapv1.Kubelet{
		ClusterDNS: []string{"10.4.0.10"}, NodeLabels: map[string]string{"pool": "general"}, ProviderID: "sim:///zone-a/1", HostnameOverride: "node-1",
		Taints:              in.Spec.Kubelet.Taints,
		CredentialProviders: []bootstrapv1.CredentialProvider{{Name: "provider", MatchImages: []string{"*.example.test"}, Binary: download(), Args: []string{"get"}, Env: map[string]string{"A": "b"}}},
		ExtraArgs:           map[string]string{"v": "2"}, CloudProvider: bootstrapv1.CloudProviderExternal,
		NodeIP: bootstrapv1.NodeIP{IPFamilies: []corev1.IPFamily{corev1.IPv4Protocol}, Interfaces: []string{"eth1"}, Subnets: []string{"10.0.0.0/8"}},
	}
	in.Spec.Containerd = bootstrapv1.Containerd{
		SandboxImage: "registry.example.test/pause:3.10.1", RegistryCredentialsFrom: pull,
		Mirrors: []bootstrapv1.RegistryMirror{{Registry: "docker.io", Endpoints: []string{"https://mirror.example.test/v2"}}},
	}
	in.Spec.Binaries = bootstrapv1.Binaries{Kubelet: download(), Runc: download()}
	if method == bootstrapv1.JoinKubeadm {
		in.Spec.Join.IgnorePreflightErrors, in.Spec.Binaries.Kubeadm = []string{"SystemVerification"}, download()
	}
	in.Spec.Hostname = bootstrapv1.HostnameFromMachine
	in.Spec.Files = []bootstrapv1.File{{Path: "/etc/example", Content: new("x"), Permissions: "0600", Owner: "root:root", Encoding: bootstrapv1.Plain}, {Path: "/etc/secret", ContentFrom: file}}
	in.Spec.Users = []bootstrapv1.User{{Name: "admin", Groups: []string{"adm"}, Sudo: "ALL=(ALL) NOPASSWD:ALL", Shell: "/bin/sh", SSHAuthorizedKeys: []string{"ssh-ed25519 AAAAC3Nz admin"}}}
	in.Spec.NTP.Servers = []string{"ntp.example.test"}
	in.Spec.TrustedCAs = string(in.CA)
	in.Spec.Proxy = bootstrapv1.Proxy{HTTP: "http://proxy.example.test:3128", HTTPS: "http://proxy.example.test:3128", NoProxy: []string{".example.test"}}
	in.Spec.PreCommands, in.Spec.PostCommands = []string{"true"}, []string{"true"}
	switch system {
	case bootstrapv1.Flatcar:
		in.Spec.Flatcar.Updates = bootstrapv1.FlatcarUpdatesOff
	case bootstrapv1.RHEL:
		in.Spec.Packages, in.Spec.PackageUpgrade = []string{"jq"}, bootstrapv1.PackageUpgradeNever
		in.Spec.RHEL.Subscription = bootstrapv1.RHELSubscription{Organization: "org", ActivationKeyFrom: key, Server: "satellite.example.test", ContentURL: "https://satellite.example.test/pulp"}
	}
	return in
}

// withDisk has a disk besides, which a host without one does not boot with.
func withDisk(in node.Input) node.Input {
	in.Spec.Disks = []bootstrapv1.Disk{{Device: "/dev/sdb", PartitionTable: bootstrapv1.PartitionTableGPT, Filesystem: bootstrapv1.Ext4, Label: "data", MountPath: "/srv/data", MountOptions: []string{"noatime"}}}
	return in
}

// byCluster joins by the fields of the Cluster, where those of the specification are empty.
func byCluster(in node.Input) node.Input {
	in.Spec.Join, in.Spec.Kubelet.ClusterDNS = bootstrapv1.Join{}, nil
	return in
}

// hosts are the Inputs that have all fields between them. Each call makes one anew.
var hosts = map[string]func() node.Input{
	"ubuntu":         func() node.Input { return full(bootstrapv1.Ubuntu, bootstrapv1.JoinKubeletTLSBootstrap) },
	"ubuntu-disk":    func() node.Input { return withDisk(full(bootstrapv1.Ubuntu, bootstrapv1.JoinKubeletTLSBootstrap)) },
	"ubuntu-kubeadm": func() node.Input { return full(bootstrapv1.Ubuntu, bootstrapv1.JoinKubeadm) },
	"ubuntu-cluster": func() node.Input { return byCluster(full(bootstrapv1.Ubuntu, bootstrapv1.JoinKubeletTLSBootstrap)) },
	"rhel":           func() node.Input { return full(bootstrapv1.RHEL, bootstrapv1.JoinKubeletTLSBootstrap) },
	"flatcar":        func() node.Input { return full(bootstrapv1.Flatcar, bootstrapv1.JoinKubeletTLSBootstrap) },
}

// tried are the beginnings of the fields that are tried on a host, where it is not all of them: the others are written
// there as on ubuntu.
var tried = map[string][]string{
	"ubuntu-disk":    {".Spec.disks", ".Spec.kubelet.extraArgs"},
	"ubuntu-kubeadm": {".Spec.join", ".Spec.kubelet", ".Spec.binaries.kubeadm"},
	"ubuntu-cluster": {".Endpoint", ".TLSServerName", ".ServiceCIDR", ".ClusterDomain", ".MachineName", ".Version"},
	"rhel":           {".Spec.rhel", ".Spec.packages", ".Spec.ntp"},
	"flatcar":        {".Spec.kubelet.providerID", ".Spec.kubelet.hostnameOverride", ".Spec.kubelet.extraArgs", ".Spec.kubelet.nodeIP", ".Spec.files", ".Spec.users", ".Spec.proxy"},
}

// triedOn are the leaves that are tried on a host.
func triedOn(host string) []leaf {
	return slices.DeleteFunc(leavesOf(hosts[host]()), func(l leaf) bool {
		starts := func(prefix string) bool { return strings.HasPrefix(l.path, prefix) }
		return isFree(strings.Replace(l.path, ".Spec", ".spec", 1)) || (tried[host] != nil && !slices.ContainsFunc(tried[host], starts))
	})
}

// free are fields whose strings are code, names of other objects, or read by the controller alone.
var free = []string{
	".spec.preCommands", ".spec.postCommands", ".spec.kubelet.configuration",
	".spec.containerd.registryCredentialsFrom", ".spec.rhel.subscription.activationKeyFrom", ".spec.rhel.subscription.usernameFrom", ".spec.rhel.subscription.passwordFrom", ".spec.rhel.subscription.unregister", ".spec.files.contentFrom",
	".spec.profileRef.name", ".spec.operatingSystem", ".spec.format", ".spec.packageUpgrade", ".spec.hostname", ".spec.join.method", ".spec.kubelet.cloudProvider", ".spec.kubelet.nodeIP.ipFamilies", ".spec.flatcar.updates",
	".Token", // which we make
	".spec.files.encoding", ".spec.files.permissions", ".spec.disks.partitionTable", ".spec.disks.filesystem", ".spec.trustedCAs",
}

func withoutIndexes(path string) string {
	var b strings.Builder
	for part := range strings.SplitSeq(path, "[") {
		_, after, found := strings.Cut(part, "]")
		if !found {
			after = part
		}
		b.WriteString(after)
	}
	return b.String()
}

func isFree(path string) bool {
	return slices.ContainsFunc(free, func(prefix string) bool { return strings.HasPrefix(withoutIndexes(path), prefix) })
}

// TestEveryFieldIsInAGolden fails when a field is added that no host of this test has.
func TestEveryFieldIsInAGolden(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, make := range hosts {
		for _, l := range leavesOf(make()) {
			seen[withoutIndexes(strings.Replace(l.path, ".Spec", ".spec", 1))] = true
		}
	}
	for _, field := range fieldsOf(reflect.TypeFor[bootstrapv1.BootstrapConfigSpec](), ".spec") {
		if !seen[field] && !isFree(field) && !strings.HasPrefix(field, ".spec.kubelet.taints") && !strings.Contains(field, ".binaries.") {
			t.Errorf("%s is in no host", field)
		}
	}
}

// schema is the one that an API server checks BootstrapConfigs by. Its rules are not looked at: what they refuse must
// be harmless where an older API server has accepted it.
var schema = sync.OnceValues(func() (validation.SchemaValidator, error) {
	definitions, err := crds.Definitions()
	if err != nil {
		return nil, err
	}
	for _, d := range definitions {
		if d.Spec.Names.Kind != "BootstrapConfig" {
			continue
		}
		var internal apiextensions.JSONSchemaProps
		if err := apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(d.Spec.Versions[0].Schema.OpenAPIV3Schema, &internal, nil); err != nil {
			return nil, err
		}
		v, _, err := validation.NewSchemaValidator(&internal)
		return v, err
	}
	return nil, errors.New("there is no BootstrapConfig")
})

// admitted reports whether the API server takes the object, and the names that are checked elsewhere.
func admitted(t testing.TB, in node.Input) bool {
	t.Helper()
	v, err := schema()
	if err != nil {
		t.Fatal(err)
	}
	raw, err := json.Marshal(&bootstrapv1.BootstrapConfig{Spec: *in.Spec})
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(raw, []byte(`\ufffd`)) {
		return false // JSON has no other bytes than UTF-8
	}
	var object map[string]any
	if err := json.Unmarshal(raw, &object); err != nil {
		t.Fatal(err)
	}
	return len(validation.ValidateCustomResource(nil, object, v)) == 0 && len(utilvalidation.IsDNS1123Subdomain(in.MachineName)) == 0
}

// try puts a string into a leaf. It returns nil where the string is refused, as it must be: by the API server, or
// with the name of the field.
func try(t testing.TB, host string, l leaf, s string) *node.Input {
	t.Helper()
	in := hosts[host]()
	l.set(&in, s)
	if !admitted(t, in) {
		return nil
	}
	in.Spec.MaxSizeBytes = new(int32(1 << 20))
	_, _, err := render.Data(in)
	if err == nil {
		return &in
	}
	invalid, is := errors.AsType[*node.InvalidError](err)
	if !is {
		t.Errorf("%s: %s = %q: %v", host, l.path, s, err)
		return nil
	}
	want, _, _ := strings.Cut(strings.TrimPrefix(strings.Replace(l.path, ".Spec", "spec", 1), "."), "{")
	names := map[string]string{
		"Version": "Machine.spec.version", "Endpoint": "Cluster.spec.controlPlaneEndpoint", "TLSServerName": "tls-server-name of the Cluster's kubeconfig",
		"ClusterDomain": "Cluster.spec.clusterNetwork.serviceDomain",
	}
	if field := names[want]; field != "" {
		want = field
	}
	if !strings.HasPrefix(withoutIndexes(invalid.Field), withoutIndexes(want)) {
		t.Errorf("%s: %s = %q: the error names %s: %v", host, l.path, s, invalid.Field, err)
	}
	return nil
}

// acceptance are the hostile strings that each leaf of a host takes, found out once.
var acceptance sync.Map

func accepted(t *testing.T, host string) map[string][]string {
	t.Helper()
	find := sync.OnceValue(func() map[string][]string {
		all, refused := map[string][]string{}, 0
		for _, l := range triedOn(host) {
			for _, s := range hostile {
				if try(t, host, l, s) == nil {
					refused++
					continue
				}
				all[l.path] = append(all[l.path], s)
			}
		}
		if refused == 0 || len(all) == 0 {
			t.Errorf("%s: %d were refused, %d fields take some", host, refused, len(all))
		}
		return all
	})
	found, _ := acceptance.LoadOrStore(host, find)
	return found.(func() map[string][]string)()
}

// exist are fields that name what must exist on a host that boots, and the path of a second file.
var exist = []string{".Spec.users[0].name", ".Spec.users[0].groups[0]", ".Spec.users[0].shell", ".Spec.files[0].owner", ".Spec.files[1].owner", ".Spec.files[1].path"}

// batches are hosts in which every leaf that takes any has another hostile string each time.
func batches(t *testing.T, host string, n int) []node.Input {
	t.Helper()
	taken := accepted(t, host)
	var all []node.Input
	for i := range n {
		in := hosts[host]()
		in.Spec.MaxSizeBytes = new(int32(1 << 20))
		for _, l := range leavesOf(in) {
			if strings := taken[l.path]; len(strings) > 0 && !slices.Contains(exist, l.path) {
				l.set(&in, strings[(i*13+len(l.path))%len(strings)])
			}
		}
		if _, _, err := render.Data(in); err != nil {
			t.Logf("%s: batch %d: %v", host, i, err) // two that are taken alone may exclude each other
			continue
		}
		all = append(all, in)
	}
	if len(all) < n/2 {
		t.Fatalf("%s: only %d of %d batches can be rendered", host, len(all), n)
	}
	return all
}
