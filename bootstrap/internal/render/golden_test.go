// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package render_test

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	bootstrapv1 "drover.io/api/bootstrap/v1alpha1"
	"drover.io/bootstrap/internal/render"
	"drover.io/bootstrap/node"
)

var update = flag.Bool("update", false, "write the golden files anew")

// input is the smallest one for an operating system.
func input(system bootstrapv1.OperatingSystem) node.Input {
	ca, err := os.ReadFile(filepath.Join("testdata", "ca.crt"))
	if err != nil {
		panic(err)
	}
	return node.Input{
		Spec:        &bootstrapv1.BootstrapConfigSpec{OperatingSystem: system},
		MachineName: "workers-x7k2p",
		Version:     "v1.36.3",
		Endpoint:    "api.example.test:6443",
		CA:          ca,
		Token:       "abcdef.0123456789abcdef",
	}
}

// all switches every option on that works on every operating system.
func all(in node.Input) node.Input {
	key := bootstrapv1.SecretKeyReference{Name: "registry", Key: "password"}
	in.Secrets = map[bootstrapv1.SecretKeyReference][]byte{key: []byte("hunter2")}
	in.ServiceCIDR, in.ClusterDomain = "fd00:10::/108", "k8s.example.test"
	digest := strings.Repeat("0123456789abcdef", 4)
	download := func(name string) []bootstrapv1.Download {
		return []bootstrapv1.Download{
			{Architecture: "amd64", URL: "https://mirror.example.test/amd64/" + name, SHA256: digest},
			{Architecture: "arm64", URL: "https://mirror.example.test/arm64/" + name, SHA256: digest},
		}
	}
	*in.Spec = bootstrapv1.BootstrapConfigSpec{
		OperatingSystem: in.Spec.OperatingSystem,
		Join:            bootstrapv1.Join{Endpoint: "10.0.0.10:443", TLSServerName: "api.example.test"},
		Kubelet: bootstrapv1.Kubelet{
			Configuration: &runtime.RawExtension{Raw: []byte(`{"maxPods":50,"kubeReserved":{"cpu":"200m"},"systemReserved":null,"evictionHard":{"memory.available":"5%"}}`)},
			NodeLabels:    map[string]string{"pool": "general", "node.kubernetes.io/speed": "fast"},
			Taints:        []corev1.Taint{{Key: "dedicated", Value: "batch", Effect: corev1.TaintEffectNoSchedule}},
			CloudProvider: bootstrapv1.CloudProviderExternal,
			ExtraArgs:     map[string]string{"v": "2", "node-ip": "::", "feature-gates": "A=true,B=50%"},
		},
		Containerd: bootstrapv1.Containerd{
			SandboxImage: "registry.example.test/pause:3.10.1",
			Mirrors:      []bootstrapv1.RegistryMirror{{Registry: "docker.io", Endpoints: []string{"https://mirror.example.test/v2/docker"}}},
		},
		Binaries: bootstrapv1.Binaries{Kubelet: download("kubelet"), CNIPlugins: download("cni.tgz"), Crictl: download("crictl.tgz")},
		Hostname: bootstrapv1.HostnameFromMachine,
		Files: []bootstrapv1.File{
			{Path: "/etc/motd", Content: new("Welcome to {{ this }} node\n")},
			{Path: "/etc/example/binary", Content: new("AAECAwQ="), Encoding: bootstrapv1.Base64, Permissions: "0755", Owner: "admin:admin"},
			{Path: "/etc/example/password", ContentFrom: key},
			{Path: "/etc/example/large", Content: new(strings.Repeat("a line that compresses well\n", 64))},
		},
		Users:        []bootstrapv1.User{{Name: "admin", Groups: []string{"adm"}, Sudo: "ALL=(ALL) NOPASSWD:ALL", SSHAuthorizedKeys: []string{"ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJxl1nS9l3a1 admin"}}},
		NTP:          bootstrapv1.NTP{Servers: []string{"ntp1.example.test", "ntp2.example.test"}},
		TrustedCAs:   string(in.CA),
		Proxy:        bootstrapv1.Proxy{HTTP: "http://user:pass@proxy.example.test:3128", HTTPS: "http://user:pass@proxy.example.test:3128", NoProxy: []string{"10.0.0.0/8", ".example.test"}},
		PreCommands:  []string{"echo \"it's before ${#HOME}\""},
		PostCommands: []string{"echo after"},
	}
	return in
}

// registries has credentials in both ways.
func registries(in node.Input) node.Input {
	key := bootstrapv1.SecretKeyReference{Name: "pull", Key: ".dockerconfigjson"}
	in.Secrets = map[bootstrapv1.SecretKeyReference][]byte{key: []byte(
		`{"auths":{"registry.example.test":{"username":"puller","password":"hunter2\"\\"},"mirror.example.test:5000":{"auth":"cHVsbGVyOmh1bnRlcjI="},"https://index.docker.io/v1/":{"username":"puller","password":"hunter2"},"other.example.test/team":{"auth":"cHVsbGVyOmh1bnRlcjI=","email":"a@example.test"}},"credsStore":"pass"}`)}
	in.Spec.Containerd = bootstrapv1.Containerd{
		SandboxImage:            "registry.example.test/pause:3.10.1",
		Mirrors:                 []bootstrapv1.RegistryMirror{{Registry: "_default", Endpoints: []string{"https://mirror.example.test:5000/v2/all", "https://registry-1.docker.io"}}},
		RegistryCredentialsFrom: key,
	}
	in.Spec.Kubelet.CredentialProviders = []bootstrapv1.CredentialProvider{{
		Name:        "ecr-credential-provider",
		MatchImages: []string{"*.dkr.ecr.*.amazonaws.com"},
		Binary:      []bootstrapv1.Download{{Architecture: "amd64", URL: "https://mirror.example.test/ecr-credential-provider", SHA256: strings.Repeat("0123456789abcdef", 4)}},
		Args:        []string{"get-credentials"},
		Env:         map[string]string{"AWS_PROFILE": "hunter2"},
	}}
	return in
}

// disks names the mount below another one first.
func disks(in node.Input) node.Input {
	in.Spec.Disks = []bootstrapv1.Disk{
		{Device: "/dev/disk/by-id/nvme-data", PartitionTable: bootstrapv1.PartitionTableGPT, Filesystem: bootstrapv1.XFS, Label: "logs", MountPath: "/srv/my-data/logs", MountOptions: []string{"noatime", "nodev"}},
		{Device: "/dev/sdc", Label: "data", MountPath: "/srv/my-data"},
		{Device: "/dev/sdb", PartitionTable: bootstrapv1.PartitionTableNone, Filesystem: bootstrapv1.Ext4, Label: "containerd", MountPath: "/var/lib/containerd"},
	}
	return in
}

// kubeadm joins by kubeadm, with everything that it has in its own form.
func kubeadm(in node.Input) node.Input {
	in.TLSServerName = "kubernetes.default"
	in.Spec.Join.Method = bootstrapv1.JoinKubeadm
	in.Spec.Join.IgnorePreflightErrors = []string{"SystemVerification"}
	in.Spec.Binaries.Kubeadm = []bootstrapv1.Download{{Architecture: "amd64", URL: "https://mirror.example.test/kubeadm", SHA256: strings.Repeat("0123456789abcdef", 4)}}
	in.Spec.Kubelet = bootstrapv1.Kubelet{
		Configuration:    &runtime.RawExtension{Raw: []byte(`{"maxPods":50}`)},
		HostnameOverride: "{{ ds.meta_data['local_hostname'] }}",
		NodeLabels:       map[string]string{"pool": "general"},
		Taints:           []corev1.Taint{{Key: "dedicated", Value: "batch", Effect: corev1.TaintEffectNoSchedule}},
		ExtraArgs:        map[string]string{"v": "2"},
	}
	return in
}

// runtimes downloads containerd and runc.
func runtimes(in node.Input) node.Input {
	digest := strings.Repeat("0123456789abcdef", 4)
	in.Spec.Binaries.Containerd = []bootstrapv1.Download{{Architecture: "amd64", URL: "https://mirror.example.test/containerd-2.1.4-linux-amd64.tar.gz", SHA256: digest}}
	in.Spec.Binaries.Runc = []bootstrapv1.Download{{Architecture: "amd64", URL: "https://mirror.example.test/runc.amd64", SHA256: digest}}
	return in
}

func with(in node.Input, change func(*node.Input)) node.Input {
	change(&in)
	return in
}

func cases() map[string]node.Input {
	key := bootstrapv1.SecretKeyReference{Name: "rhsm", Key: "key"}
	return map[string]node.Input{
		"ubuntu":      input(bootstrapv1.Ubuntu),
		"debian":      input(bootstrapv1.Debian),
		"flatcar":     input(bootstrapv1.Flatcar),
		"rhel":        input(bootstrapv1.RHEL),
		"rocky":       input(bootstrapv1.Rocky),
		"amazonlinux": input(bootstrapv1.AmazonLinux),

		"ubuntu-all":      all(input(bootstrapv1.Ubuntu)),
		"debian-all":      all(input(bootstrapv1.Debian)),
		"flatcar-all":     all(input(bootstrapv1.Flatcar)),
		"rhel-all":        all(input(bootstrapv1.RHEL)),
		"rocky-all":       all(input(bootstrapv1.Rocky)),
		"amazonlinux-all": all(input(bootstrapv1.AmazonLinux)),

		"ubuntu-metadata": with(input(bootstrapv1.Ubuntu), func(in *node.Input) {
			in.Spec.Kubelet.ProviderID = "{{ ds.meta_data.provider_id }}"
			in.Spec.Kubelet.HostnameOverride = "{{ ds.meta_data.local_hostname }}"
		}),
		"ubuntu-registries":  registries(input(bootstrapv1.Ubuntu)),
		"flatcar-registries": registries(input(bootstrapv1.Flatcar)),
		"ubuntu-disks":       disks(input(bootstrapv1.Ubuntu)),
		"flatcar-disks":      disks(input(bootstrapv1.Flatcar)),
		"rocky-disks":        disks(input(bootstrapv1.Rocky)),
		"ubuntu-kubeadm":     kubeadm(input(bootstrapv1.Ubuntu)),
		"flatcar-kubeadm":    with(kubeadm(input(bootstrapv1.Flatcar)), func(in *node.Input) { in.Spec.Kubelet.HostnameOverride = "node-1" }),
		"ubuntu-runtime":     runtimes(input(bootstrapv1.Ubuntu)),
		"flatcar-runtime":    runtimes(input(bootstrapv1.Flatcar)),
		"ubuntu-node-ip": with(input(bootstrapv1.Ubuntu), func(in *node.Input) {
			in.Spec.Kubelet.NodeIP = bootstrapv1.NodeIP{IPFamilies: []corev1.IPFamily{corev1.IPv6Protocol, corev1.IPv4Protocol}, Interfaces: []string{"ens10", "enp7s0"}}
		}),
		"flatcar-node-ip": with(input(bootstrapv1.Flatcar), func(in *node.Input) {
			in.Spec.Kubelet.NodeIP = bootstrapv1.NodeIP{IPFamilies: []corev1.IPFamily{corev1.IPv4Protocol}}
		}),
		"rocky-kubeadm-node-ip": with(kubeadm(input(bootstrapv1.Rocky)), func(in *node.Input) {
			in.Spec.Kubelet.NodeIP = bootstrapv1.NodeIP{IPFamilies: []corev1.IPFamily{corev1.IPv4Protocol}, Subnets: []string{"10.0.0.0/16", "10.1.0.0/16"}}
		}),
		"ubuntu-packages": with(input(bootstrapv1.Ubuntu), func(in *node.Input) {
			in.Spec.Packages = []string{"containerd", "conntrack"}
			in.Spec.PackageUpgrade = bootstrapv1.PackageUpgradeOnFirstBoot
		}),
		"debian-packages-by-proxy": with(input(bootstrapv1.Debian), func(in *node.Input) {
			in.Spec.Packages = []string{"containerd"}
			in.Spec.TrustedCAs = string(in.CA)
			in.Spec.Proxy = bootstrapv1.Proxy{
				HTTP: "http://proxy.example.test:3128", HTTPS: "http://proxy.example.test:3128",
				NoProxy: []string{"mirror.example.test", ".internal.example.test", "10.0.0.0/8"},
			}
		}),
		"flatcar-metadata": with(input(bootstrapv1.Flatcar), func(in *node.Input) {
			in.Spec.Kubelet.ProviderID = "aws:///${COREOS_EC2_AVAILABILITY_ZONE}/${COREOS_EC2_INSTANCE_ID}"
			in.Spec.Flatcar.Updates = bootstrapv1.FlatcarUpdatesOff
		}),
		"rhel-user": with(input(bootstrapv1.RHEL), func(in *node.Input) {
			user, password := bootstrapv1.SecretKeyReference{Name: "rhsm", Key: "user"}, bootstrapv1.SecretKeyReference{Name: "rhsm", Key: "password"}
			in.Spec.Kubelet.ProviderID = "{{ ds.meta_data.provider_id }}"
			in.Spec.RHEL.Subscription = bootstrapv1.RHELSubscription{UsernameFrom: user, PasswordFrom: password}
			in.Secrets = map[bootstrapv1.SecretKeyReference][]byte{user: []byte("operator\n"), password: []byte(`hunter2' " {{ 7*7 }} {% raw %} $(touch /canary) \ #`)}
		}),
		"rhel-subscription": with(input(bootstrapv1.RHEL), func(in *node.Input) {
			in.Spec.RHEL.Subscription = bootstrapv1.RHELSubscription{Organization: "1234567", ActivationKeyFrom: key, Server: "satellite.example.test:443/rhsm", ContentURL: "https://satellite.example.test/pulp/content"}
			in.Secrets = map[bootstrapv1.SecretKeyReference][]byte{key: []byte("kubernetes\n")}
		}),
	}
}

func golden(name string, in node.Input) string {
	ending := ".yaml"
	if in.Spec.OperatingSystem == bootstrapv1.Flatcar {
		ending = ".ign"
	}
	return filepath.Join("testdata", name+ending)
}

func TestGolden(t *testing.T) {
	t.Parallel()
	for name, in := range cases() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, _, err := render.Data(in)
			if err != nil {
				t.Fatal(err)
			}
			file := golden(name, in)
			if *update {
				if err := os.WriteFile(file, got, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), string(got)); diff != "" {
				t.Errorf("%s (-want +got):\n%s", file, diff)
			}
		})
	}
}

// Some clouds take compressed user data; then everything that an operating system needs must leave enough bytes for what
// the operator adds.
func TestDataIsSmall(t *testing.T) {
	t.Parallel()
	const limit = 12 << 10
	for name, in := range cases() {
		data, _, err := render.Data(in)
		if err != nil {
			t.Fatal(err)
		}
		var compressed bytes.Buffer
		w := gzip.NewWriter(&compressed)
		if _, err := w.Write(data); err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		size := base64.StdEncoding.EncodedLen(compressed.Len())
		t.Logf("%s: %d bytes, %d compressed and encoded", name, len(data), size)
		if size > limit {
			t.Errorf("%s has %d bytes compressed and encoded, more than %d", name, size, limit)
		}
	}
}

func TestDataOverTheLimitIsRefused(t *testing.T) {
	t.Parallel()
	in := input(bootstrapv1.Ubuntu)
	in.Spec.MaxSizeBytes = new(int32(4096))
	_, _, err := render.Data(in)
	invalid, is := errors.AsType[*node.InvalidError](err)
	if !is || invalid.Field != "spec.maxSizeBytes" {
		t.Errorf("err = %v, want an InvalidError for spec.maxSizeBytes", err)
	}
}
