// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package profile_test

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	bootstrapv1 "drover.io/api/bootstrap/v1alpha1"
	"drover.io/bootstrap/node"
	"drover.io/bootstrap/profile"
)

func fragment(json string) *runtime.RawExtension { return &runtime.RawExtension{Raw: []byte(json)} }

// allDefaults has a value in every field of NodeDefaults.
func allDefaults() *bootstrapv1.NodeDefaults {
	secret := bootstrapv1.SecretKeyReference{Name: "s", Key: "k"}
	return &bootstrapv1.NodeDefaults{
		Kubelet: bootstrapv1.Kubelet{
			Configuration: fragment(`{"maxPods":50,"evictionHard":{"memory.available":"1Gi"},"readOnlyPort":null}`), ClusterDNS: []string{"10.0.0.10"},
			NodeLabels: map[string]string{"a": "profile", "b": "profile"}, Taints: []corev1.Taint{{Key: "t", Effect: "NoSchedule"}},
			ProviderID: "p", HostnameOverride: "h", CloudProvider: bootstrapv1.CloudProviderExternal,
			NodeIP:              bootstrapv1.NodeIP{IPFamilies: []corev1.IPFamily{corev1.IPv4Protocol}, Interfaces: []string{"eth1"}},
			CredentialProviders: []bootstrapv1.CredentialProvider{{Name: "ecr", MatchImages: []string{"*"}}},
			ExtraArgs:           map[string]string{"v": "2", "max-pods": "9"},
		},
		Containerd: bootstrapv1.Containerd{
			SandboxImage: "pause:profile", Mirrors: []bootstrapv1.RegistryMirror{{Registry: "docker.io"}, {Registry: "quay.io"}}, RegistryCredentialsFrom: secret,
		},
		Packages: []string{"nfs-common", "jq"}, PackageUpgrade: bootstrapv1.PackageUpgradeOnFirstBoot,
		Flatcar:  bootstrapv1.FlatcarOptions{Updates: bootstrapv1.FlatcarUpdatesOff},
		RHEL:     bootstrapv1.RHELOptions{Subscription: bootstrapv1.RHELSubscription{Organization: "o", ActivationKeyFrom: secret}},
		Hostname: bootstrapv1.HostnameFromMachine, Files: []bootstrapv1.File{{Path: "/a", Content: new("profile")}, {Path: "/b", Content: new("profile")}},
		Users: []bootstrapv1.User{{Name: "ops"}}, NTP: bootstrapv1.NTP{Servers: []string{"time.example"}}, TrustedCAs: "PROFILE\n",
		Proxy:       bootstrapv1.Proxy{HTTP: "http://proxy.example", NoProxy: []string{"a.example"}},
		PreCommands: []string{"profile"}, PostCommands: []string{"profile"},
	}
}

func TestEveryDefaultIsUsedWhereTheConfigHasNone(t *testing.T) {
	t.Parallel()
	defaults := reflect.ValueOf(allDefaults()).Elem()
	for i := range defaults.NumField() {
		if defaults.Field(i).IsZero() {
			t.Fatalf("the test has no value for %s", defaults.Type().Field(i).Name)
		}
	}
	for os, other := range map[bootstrapv1.OperatingSystem][]string{
		bootstrapv1.Ubuntu: {"Flatcar", "RHEL"}, bootstrapv1.RHEL: {"Flatcar"}, bootstrapv1.Flatcar: {"RHEL", "Packages", "PackageUpgrade"},
	} {
		spec := &bootstrapv1.BootstrapConfigSpec{OperatingSystem: os}
		merged, fields := profile.Merge(spec, allDefaults())
		got := reflect.ValueOf(merged).Elem()
		for i := range defaults.NumField() {
			name := defaults.Type().Field(i).Name
			want := defaults.Field(i).Interface()
			if slices.Contains(other, name) {
				want = reflect.Zero(defaults.Field(i).Type()).Interface()
			}
			if diff := cmp.Diff(want, got.FieldByName(name).Interface()); diff != "" {
				t.Errorf("%s: %s (-want +got):\n%s", os, name, diff)
			}
			json, _, _ := strings.Cut(defaults.Type().Field(i).Tag.Get("json"), ",")
			used := slices.ContainsFunc(fields, func(f string) bool { return f == "spec."+json || strings.HasPrefix(f, "spec."+json+".") })
			if used == slices.Contains(other, name) {
				t.Errorf("%s: %s is among the fields of the profile: %t", os, name, used)
			}
		}
		if !reflect.DeepEqual(spec, &bootstrapv1.BootstrapConfigSpec{OperatingSystem: os}) {
			t.Errorf("the config was changed: %v", spec)
		}
	}
}

func TestWhatTheConfigHasIsKept(t *testing.T) {
	t.Parallel()
	spec := &bootstrapv1.BootstrapConfigSpec{
		OperatingSystem: bootstrapv1.Ubuntu,
		Kubelet: bootstrapv1.Kubelet{
			Configuration: fragment(`{"maxPods":null,"evictionHard":{"nodefs.available":"5%"}}`), ClusterDNS: []string{"10.9.9.9"},
			NodeLabels: map[string]string{"a": "config"}, ExtraArgs: map[string]string{"v": "4"},
			NodeIP:              bootstrapv1.NodeIP{IPFamilies: []corev1.IPFamily{corev1.IPv6Protocol}},
			CredentialProviders: []bootstrapv1.CredentialProvider{{Name: "ecr", MatchImages: []string{"own"}}},
		},
		Containerd:     bootstrapv1.Containerd{SandboxImage: "pause:config", Mirrors: []bootstrapv1.RegistryMirror{{Registry: "quay.io", Endpoints: []string{"own"}}}},
		Packages:       []string{"jq", "curl"},
		PackageUpgrade: bootstrapv1.PackageUpgradeNever,
		Hostname:       bootstrapv1.HostnameFromInfrastructure,
		Files:          []bootstrapv1.File{{Path: "/b", Content: new("config")}},
		Users:          []bootstrapv1.User{{Name: "dev"}},
		TrustedCAs:     "CONFIG\n",
		Proxy:          bootstrapv1.Proxy{HTTPS: "http://own.example"},
		PreCommands:    []string{"config"},
	}
	merged, fields := profile.Merge(spec, allDefaults())
	want := spec.DeepCopy()
	want.Kubelet.Configuration = fragment(`{"evictionHard":{"memory.available":"1Gi","nodefs.available":"5%"},"maxPods":null,"readOnlyPort":null}`)
	want.Kubelet.NodeLabels = map[string]string{"a": "config", "b": "profile"}
	want.Kubelet.ExtraArgs = map[string]string{"v": "4", "max-pods": "9"}
	want.Containerd.Mirrors = []bootstrapv1.RegistryMirror{{Registry: "docker.io"}, {Registry: "quay.io", Endpoints: []string{"own"}}}
	want.Packages = []string{"nfs-common", "jq", "curl"}
	want.Files = []bootstrapv1.File{{Path: "/a", Content: new("profile")}, {Path: "/b", Content: new("config")}}
	want.Users = []bootstrapv1.User{{Name: "ops"}, {Name: "dev"}}
	want.TrustedCAs = "PROFILE\n\nCONFIG\n"
	want.PreCommands = []string{"profile", "config"}
	inherited := cmpopts.IgnoreFields(bootstrapv1.BootstrapConfigSpec{}, "NTP", "PostCommands", "Kubelet.Taints", "Kubelet.ProviderID", "Kubelet.HostnameOverride", "Kubelet.CloudProvider", "Containerd.RegistryCredentialsFrom")
	if diff := cmp.Diff(want, merged, inherited); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for _, own := range []string{"spec.kubelet.clusterDNS", "spec.containerd.sandboxImage", "spec.packageUpgrade", "spec.hostname", "spec.proxy", "spec.kubelet.credentialProviders", "spec.kubelet.nodeIP"} {
		if slices.Contains(fields, own) {
			t.Errorf("%s is said to be of the profile", own)
		}
	}
	if !slices.IsSorted(fields) || len(slices.Compact(slices.Clone(fields))) != len(fields) {
		t.Errorf("fields = %v", fields)
	}
}

func TestLargeConfigurationsAreNotMerged(t *testing.T) {
	t.Parallel()
	large := fragment(`{"a":"` + strings.Repeat("a", node.MaxKubeletConfiguration) + `"}`)
	for name, test := range map[string]struct{ own, under, want *runtime.RawExtension }{
		"of the config":  {large, fragment(`{"maxPods":1}`), large},
		"of the profile": {fragment(`{"maxPods":1}`), large, large},
	} {
		spec := &bootstrapv1.BootstrapConfigSpec{Kubelet: bootstrapv1.Kubelet{Configuration: test.own}}
		merged, _ := profile.Merge(spec, &bootstrapv1.NodeDefaults{Kubelet: bootstrapv1.Kubelet{Configuration: test.under}})
		if got := merged.Kubelet.Configuration; string(got.Raw) != string(test.want.Raw) {
			t.Errorf("%s: got %d bytes: it is not refused by its size", name, len(got.Raw))
		}
	}
}
