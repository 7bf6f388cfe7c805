// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Package profile combines a BootstrapConfig with its NodeProfile: the defaults of the profile, and the binaries for a
// version of Kubernetes. It reads nothing: its callers have the checksums.
package profile

import (
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"

	bootstrapv1 "drover.io/api/bootstrap/v1alpha1"
	"drover.io/bootstrap/node"
)

// Merge returns the spec of a BootstrapConfig with the defaults of a profile under it, and the fields that have a value of
// the profile or a part of one, sorted. Neither argument is changed.
func Merge(spec *bootstrapv1.BootstrapConfigSpec, defaults *bootstrapv1.NodeDefaults) (*bootstrapv1.BootstrapConfigSpec, []string) {
	merged, under := spec.DeepCopy(), defaults.DeepCopy()
	m := &merger{}
	m.kubelet(&merged.Kubelet, &under.Kubelet)
	set(m, "spec.containerd.sandboxImage", &merged.Containerd.SandboxImage, under.Containerd.SandboxImage)
	set(m, "spec.containerd.registryCredentialsFrom", &merged.Containerd.RegistryCredentialsFrom, under.Containerd.RegistryCredentialsFrom)
	add(m, "spec.containerd.mirrors", &merged.Containerd.Mirrors, under.Containerd.Mirrors, func(r bootstrapv1.RegistryMirror) string { return r.Registry })
	if spec.OperatingSystem == bootstrapv1.Flatcar {
		set(m, "spec.flatcar", &merged.Flatcar, under.Flatcar)
	} else {
		add(m, "spec.packages", &merged.Packages, under.Packages, strings.Clone)
		set(m, "spec.packageUpgrade", &merged.PackageUpgrade, under.PackageUpgrade)
	}
	if spec.OperatingSystem == bootstrapv1.RHEL {
		set(m, "spec.rhel", &merged.RHEL, under.RHEL)
	}
	set(m, "spec.hostname", &merged.Hostname, under.Hostname)
	add(m, "spec.files", &merged.Files, under.Files, func(f bootstrapv1.File) string { return f.Path })
	add(m, "spec.users", &merged.Users, under.Users, func(u bootstrapv1.User) string { return u.Name })
	set(m, "spec.ntp", &merged.NTP, under.NTP)
	m.certificates(&merged.TrustedCAs, under.TrustedCAs)
	set(m, "spec.proxy", &merged.Proxy, under.Proxy)
	before(m, "spec.preCommands", &merged.PreCommands, under.PreCommands)
	before(m, "spec.postCommands", &merged.PostCommands, under.PostCommands)
	return merged, slices.Sorted(slices.Values(m.fields))
}

// merger collects the fields that have a value of the profile.
type merger struct{ fields []string }

func (m *merger) kubelet(own, under *bootstrapv1.Kubelet) {
	m.configuration(&own.Configuration, under.Configuration)
	set(m, "spec.kubelet.clusterDNS", &own.ClusterDNS, under.ClusterDNS)
	addEntries(m, "spec.kubelet.nodeLabels", &own.NodeLabels, under.NodeLabels)
	set(m, "spec.kubelet.taints", &own.Taints, under.Taints)
	set(m, "spec.kubelet.providerID", &own.ProviderID, under.ProviderID)
	set(m, "spec.kubelet.hostnameOverride", &own.HostnameOverride, under.HostnameOverride)
	set(m, "spec.kubelet.nodeIP", &own.NodeIP, under.NodeIP)
	set(m, "spec.kubelet.cloudProvider", &own.CloudProvider, under.CloudProvider)
	add(m, "spec.kubelet.credentialProviders", &own.CredentialProviders, under.CredentialProviders, func(p bootstrapv1.CredentialProvider) string { return p.Name })
	addEntries(m, "spec.kubelet.extraArgs", &own.ExtraArgs, under.ExtraArgs)
}

// configuration merges the own fragment of a KubeletConfiguration over that of the profile. A fragment that is not an
// object, or is too large, stays alone: it is refused where it is used.
func (m *merger) configuration(own **runtime.RawExtension, under *runtime.RawExtension) {
	if under == nil || len(under.Raw) == 0 {
		return
	}
	m.fields = append(m.fields, "spec.kubelet.configuration")
	if *own == nil || len((*own).Raw) == 0 {
		*own = under
		return
	}
	if len((*own).Raw) > node.MaxKubeletConfiguration {
		return
	}
	if len(under.Raw) > node.MaxKubeletConfiguration {
		*own = under
		return
	}
	var base, over map[string]any
	if json.Unmarshal(under.Raw, &base) != nil || json.Unmarshal((*own).Raw, &over) != nil {
		return
	}
	if raw, err := json.Marshal(combine(base, over)); err == nil {
		(*own).Raw = raw
	}
}

// combine puts one fragment over another: objects are combined, anything else replaces. A null stays, since it removes a
// default of the controller.
func combine(base, over map[string]any) map[string]any {
	for key, value := range over {
		inner, isObject := value.(map[string]any)
		if below, both := base[key].(map[string]any); both && isObject {
			value = combine(below, inner)
		}
		base[key] = value
	}
	return base
}

func (m *merger) certificates(own *string, under string) {
	if under == "" {
		return
	}
	m.fields = append(m.fields, "spec.trustedCAs")
	*own = strings.TrimSpace(under+"\n"+*own) + "\n"
}

// set gives a field without a value that of the profile.
func set[T any](m *merger, field string, own *T, under T) {
	if !reflect.ValueOf(own).Elem().IsZero() || reflect.ValueOf(&under).Elem().IsZero() {
		return
	}
	m.fields = append(m.fields, field)
	*own = under
}

// add puts the items of the profile whose key is not among the own ones before these.
func add[T any](m *merger, field string, own *[]T, under []T, key func(T) string) {
	has := map[string]bool{}
	for _, each := range *own {
		has[key(each)] = true
	}
	before(m, field, own, slices.DeleteFunc(under, func(each T) bool { return has[key(each)] }))
}

// before puts the items of the profile before the own ones.
func before[T any](m *merger, field string, own *[]T, under []T) {
	if len(under) > 0 {
		m.fields = append(m.fields, field)
		*own = slices.Concat(under, *own)
	}
}

// addEntries adds the entries of the profile whose key is not among the own ones.
func addEntries(m *merger, field string, own *map[string]string, under map[string]string) {
	maps.DeleteFunc(under, func(key, _ string) bool { _, has := (*own)[key]; return has })
	if len(under) == 0 {
		return
	}
	m.fields = append(m.fields, field)
	maps.Copy(under, *own)
	*own = under
}
