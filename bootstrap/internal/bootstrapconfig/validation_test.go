// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package bootstrapconfig

import (
	"errors"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"

	bootstrapv1 "drover.io/api/bootstrap/v1alpha1"
)

func TestAPIServerRefuses(t *testing.T) {
	t.Parallel()
	f := newNamespace(t)
	cases := map[string]struct {
		change func(*bootstrapv1.BootstrapConfigSpec)
		field  string
	}{
		"no operating system": {func(s *bootstrapv1.BootstrapConfigSpec) {
			s.OperatingSystem, s.Hostname = "", bootstrapv1.HostnameFromMachine
		}, "spec.operatingSystem"},
		"an unknown operating system": {func(s *bootstrapv1.BootstrapConfigSpec) { s.OperatingSystem = "plan9" }, "spec.operatingSystem"},
		"ubuntu with ignition":        {func(s *bootstrapv1.BootstrapConfigSpec) { s.Format = bootstrapv1.Ignition }, "spec.format"},
		"flatcar with packages": {func(s *bootstrapv1.BootstrapConfigSpec) {
			s.OperatingSystem, s.Packages = bootstrapv1.Flatcar, []string{"jq"}
		}, "spec.operatingSystem"},
		"options of flatcar for ubuntu": {func(s *bootstrapv1.BootstrapConfigSpec) { s.Flatcar.Updates = bootstrapv1.FlatcarUpdatesOff }, "spec.flatcar"},
		"a relative path": {func(s *bootstrapv1.BootstrapConfigSpec) {
			s.Files = []bootstrapv1.File{{Path: "etc/a", Content: new("")}}
		}, "spec.files[0].path"},
		"a path with dots": {func(s *bootstrapv1.BootstrapConfigSpec) {
			s.Files = []bootstrapv1.File{{Path: "/etc/../a", Content: new("")}}
		}, "spec.files[0].path"},
		"the same path twice": {func(s *bootstrapv1.BootstrapConfigSpec) {
			s.Files = []bootstrapv1.File{{Path: "/a", Content: new("")}, {Path: "/a", Content: new("")}}
		}, "spec.files[1]"},
		"a file without content": {func(s *bootstrapv1.BootstrapConfigSpec) { s.Files = []bootstrapv1.File{{Path: "/a"}} }, "spec.files[0]"},
		"permissions that are not octal": {func(s *bootstrapv1.BootstrapConfigSpec) {
			s.Files = []bootstrapv1.File{{Path: "/a", Content: new(""), Permissions: "0888"}}
		}, "spec.files[0].permissions"},
		"an SSH key that is none": {func(s *bootstrapv1.BootstrapConfigSpec) {
			s.Users = []bootstrapv1.User{{Name: "admin", SSHAuthorizedKeys: []string{"not a key"}}}
		}, "spec.users[0].sshAuthorizedKeys[0]"},
		"a private SSH key": {func(s *bootstrapv1.BootstrapConfigSpec) {
			s.Users = []bootstrapv1.User{{Name: "admin", SSHAuthorizedKeys: []string{"-----BEGIN OPENSSH PRIVATE KEY-----"}}}
		}, "spec.users[0].sshAuthorizedKeys[0]"},
		"a flag of ours": {func(s *bootstrapv1.BootstrapConfigSpec) {
			s.Kubelet.ExtraArgs = map[string]string{"kubeconfig": "/x"}
		}, "spec.kubelet.extraArgs"},
		"a chosen address of the Node beside a fixed one": {func(s *bootstrapv1.BootstrapConfigSpec) {
			s.Kubelet.NodeIP.IPFamilies = []corev1.IPFamily{corev1.IPv4Protocol}
			s.Kubelet.ExtraArgs = map[string]string{"node-ip": "10.0.0.1"}
		}, "spec.kubelet.nodeIP"},
		"interfaces without a family": {func(s *bootstrapv1.BootstrapConfigSpec) {
			s.Kubelet.NodeIP = bootstrapv1.NodeIP{Interfaces: []string{"eth0"}}
		}, "spec.kubelet.nodeIP.ipFamilies"},
		"a family twice": {func(s *bootstrapv1.BootstrapConfigSpec) {
			s.Kubelet.NodeIP.IPFamilies = []corev1.IPFamily{corev1.IPv4Protocol, corev1.IPv4Protocol}
		}, "spec.kubelet.nodeIP.ipFamilies"},
		"an interface with a space": {func(s *bootstrapv1.BootstrapConfigSpec) {
			s.Kubelet.NodeIP = bootstrapv1.NodeIP{IPFamilies: []corev1.IPFamily{corev1.IPv4Protocol}, Interfaces: []string{"eth0 eth1"}}
		}, "spec.kubelet.nodeIP.interfaces[0]"},
		"a subnet with bits of a host": {func(s *bootstrapv1.BootstrapConfigSpec) {
			s.Kubelet.NodeIP = bootstrapv1.NodeIP{IPFamilies: []corev1.IPFamily{corev1.IPv4Protocol}, Subnets: []string{"10.0.0.1/8"}}
		}, "spec.kubelet.nodeIP.subnets"},
		"a subnet that is none": {func(s *bootstrapv1.BootstrapConfigSpec) {
			s.Kubelet.NodeIP = bootstrapv1.NodeIP{IPFamilies: []corev1.IPFamily{corev1.IPv4Protocol}, Subnets: []string{"eth0"}}
		}, "spec.kubelet.nodeIP.subnets"},
		"a family without a subnet": {func(s *bootstrapv1.BootstrapConfigSpec) {
			s.Kubelet.NodeIP = bootstrapv1.NodeIP{IPFamilies: []corev1.IPFamily{corev1.IPv4Protocol, corev1.IPv6Protocol}, Subnets: []string{"10.0.0.0/8"}}
		}, "spec.kubelet.nodeIP.subnets"},
		"a subnet without its family": {func(s *bootstrapv1.BootstrapConfigSpec) {
			s.Kubelet.NodeIP = bootstrapv1.NodeIP{IPFamilies: []corev1.IPFamily{corev1.IPv4Protocol}, Subnets: []string{"10.0.0.0/8", "fd00::/8"}}
		}, "spec.kubelet.nodeIP.subnets"},
		"a subscription by a key without its organization": {func(s *bootstrapv1.BootstrapConfigSpec) {
			s.OperatingSystem, s.RHEL.Subscription.ActivationKeyFrom = bootstrapv1.RHEL, bootstrapv1.SecretKeyReference{Name: "a", Key: "b"}
		}, "spec.rhel.subscription"},
		"a subscription by a user without a password": {func(s *bootstrapv1.BootstrapConfigSpec) {
			s.OperatingSystem, s.RHEL.Subscription.UsernameFrom = bootstrapv1.RHEL, bootstrapv1.SecretKeyReference{Name: "a", Key: "b"}
		}, "spec.rhel.subscription"},
		"a subscription in two ways": {func(s *bootstrapv1.BootstrapConfigSpec) {
			ref := bootstrapv1.SecretKeyReference{Name: "a", Key: "b"}
			s.OperatingSystem = bootstrapv1.RHEL
			s.RHEL.Subscription = bootstrapv1.RHELSubscription{Organization: "1", ActivationKeyFrom: ref, UsernameFrom: ref, PasswordFrom: ref}
		}, "spec.rhel.subscription"},
		"a DNS server that is no address": {func(s *bootstrapv1.BootstrapConfigSpec) { s.Kubelet.ClusterDNS = []string{"dns"} }, "spec.kubelet.clusterDNS"},
		"a checksum that is none": {func(s *bootstrapv1.BootstrapConfigSpec) {
			s.Binaries.Kubelet = []bootstrapv1.Download{{Architecture: "amd64", URL: "https://a.example.test", SHA256: "x"}}
		}, "spec.binaries.kubelet[0].sha256"},
		"a URL with a quote": {func(s *bootstrapv1.BootstrapConfigSpec) {
			s.Binaries.Kubelet = []bootstrapv1.Download{{Architecture: "amd64", URL: "https://a.example.test/';reboot'", SHA256: strings.Repeat("0", 64)}}
		}, "spec.binaries.kubelet[0].url"},
		"kubeadm without its method": {func(s *bootstrapv1.BootstrapConfigSpec) {
			s.Binaries.Kubeadm = []bootstrapv1.Download{{Architecture: "amd64", URL: "https://a.example.test", SHA256: strings.Repeat("0", 64)}}
		}, "spec.binaries.kubeadm"},
		"a disk for swap": {func(s *bootstrapv1.BootstrapConfigSpec) {
			s.Disks = []bootstrapv1.Disk{{Device: "/dev/sdb", Filesystem: "swap", Label: "a", MountPath: "/srv/a"}}
		}, "spec.disks[0].filesystem"},
		"a disk that is no device": {func(s *bootstrapv1.BootstrapConfigSpec) {
			s.Disks = []bootstrapv1.Disk{{Device: "/dev/../etc", Label: "a", MountPath: "/srv/a"}}
		}, "spec.disks[0].device"},
		"the same mount twice": {func(s *bootstrapv1.BootstrapConfigSpec) {
			s.Disks = []bootstrapv1.Disk{{Device: "/dev/sdb", Label: "a", MountPath: "/srv/a"}, {Device: "/dev/sdc", Label: "b", MountPath: "/srv/a"}}
		}, "spec.disks[1]"},
		"a credential provider with a path": {func(s *bootstrapv1.BootstrapConfigSpec) {
			s.Kubelet.CredentialProviders = []bootstrapv1.CredentialProvider{{Name: "../sh", MatchImages: []string{"*"}}}
		}, "spec.kubelet.credentialProviders[0].name"},
		"a token that lives too long": {func(s *bootstrapv1.BootstrapConfigSpec) { s.Join.TokenTTLSeconds = new(int32(90000)) }, "spec.join.tokenTTLSeconds"},
		"a user's key on two lines": {func(s *bootstrapv1.BootstrapConfigSpec) {
			s.Users = []bootstrapv1.User{{Name: "a", SSHAuthorizedKeys: []string{"a\nb"}}}
		}, "spec.users[0].sshAuthorizedKeys[0]"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			config := &bootstrapv1.BootstrapConfig{
				ObjectMeta: metav1.ObjectMeta{GenerateName: "refused-", Namespace: f.namespace},
				Spec:       bootstrapv1.BootstrapConfigSpec{OperatingSystem: bootstrapv1.Ubuntu},
			}
			c.change(&config.Spec)
			err := management.Client.Create(t.Context(), config)
			status, is := errors.AsType[*apierrors.StatusError](err)
			if !is || !apierrors.IsInvalid(err) {
				t.Fatalf("err = %v, want Invalid", err)
			}
			var fields []string
			for _, cause := range status.Status().Details.Causes {
				fields = append(fields, cause.Field)
			}
			if !strings.Contains(strings.Join(fields, " ")+" ", c.field) {
				t.Errorf("refused because of %q, want %s", fields, c.field)
			}
		})
	}
}

func TestAPIServerSetsDefaults(t *testing.T) {
	t.Parallel()
	f := newNamespace(t)
	config := &bootstrapv1.BootstrapConfig{
		ObjectMeta: metav1.ObjectMeta{Name: "a", Namespace: f.namespace},
		Spec: bootstrapv1.BootstrapConfigSpec{
			OperatingSystem: bootstrapv1.Ubuntu,
			Join:            bootstrapv1.Join{Endpoint: "[fd00::1]:6443"},
			Kubelet: bootstrapv1.Kubelet{
				Configuration: &runtime.RawExtension{Raw: []byte(`{"maxPods":9}`)},
				NodeIP: bootstrapv1.NodeIP{
					IPFamilies: []corev1.IPFamily{corev1.IPv6Protocol, corev1.IPv4Protocol}, Interfaces: []string{"eth0.100", "enp7s0"}, Subnets: []string{"10.0.0.0/8", "fd00::/8"},
				},
			},
		},
	}
	f.create(config)
	if got := ptr.Deref(config.Spec.Join.TokenTTLSeconds, 0); got != 1800 {
		t.Errorf("tokenTTLSeconds = %d, want 1800", got)
	}
	if got := ptr.Deref(config.Spec.MaxSizeBytes, 0); got != 16384 {
		t.Errorf("maxSizeBytes = %d, want 16384", got)
	}
	if got := string(config.Spec.Kubelet.Configuration.Raw); got != `{"maxPods":9}` {
		t.Errorf("configuration = %s, want it kept", got)
	}
}

func TestTemplateIsImmutable(t *testing.T) {
	t.Parallel()
	f := newNamespace(t)
	template := &bootstrapv1.BootstrapConfigTemplate{ObjectMeta: metav1.ObjectMeta{Name: "a", Namespace: f.namespace}}
	template.Spec.Template.Spec.OperatingSystem = bootstrapv1.Ubuntu
	f.create(template)
	template.Labels = map[string]string{"a": "b"}
	if err := management.Client.Update(t.Context(), template); err != nil {
		t.Errorf("a label could not be set: %v", err)
	}
	template.Spec.Template.Spec.Packages = []string{"jq"}
	if err := management.Client.Update(t.Context(), template); !apierrors.IsInvalid(err) {
		t.Errorf("err = %v, want Invalid", err)
	}
}
