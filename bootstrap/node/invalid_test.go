// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	bootstrapv1 "drover.io/api/bootstrap/v1alpha1"
)

func minimal(system bootstrapv1.OperatingSystem) Input {
	return Input{
		Spec:        &bootstrapv1.BootstrapConfigSpec{OperatingSystem: system},
		MachineName: "m1",
		Endpoint:    "10.0.0.1:6443",
		CA:          []byte("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"),
		Token:       "abcdef.0123456789abcdef",
	}
}

func TestDescribeNamesTheInvalidField(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		os     bootstrapv1.OperatingSystem
		change func(*bootstrapv1.BootstrapConfigSpec)
		field  string
	}{
		"unknown operating system":           {"plan9", func(*bootstrapv1.BootstrapConfigSpec) {}, "spec.operatingSystem"},
		"format of another operating system": {"ubuntu", func(s *bootstrapv1.BootstrapConfigSpec) { s.Format = bootstrapv1.Ignition }, "spec.format"},
		"a noncharacter":                     {"ubuntu", func(s *bootstrapv1.BootstrapConfigSpec) { s.PreCommands = []string{"a", "b\ufffe"} }, "spec.preCommands[1]"},
		"a noncharacter in a configuration": {"ubuntu", func(s *bootstrapv1.BootstrapConfigSpec) {
			s.Kubelet.Configuration = &runtime.RawExtension{Raw: []byte(`{"clusterDomain":"\ufdd0"}`)}
		}, "spec.kubelet.configuration.clusterDomain"},
		"packages where there are none": {"flatcar", func(s *bootstrapv1.BootstrapConfigSpec) { s.Packages = []string{"jq"} }, "spec.packages"},
		"configuration is not an object": {"ubuntu", func(s *bootstrapv1.BootstrapConfigSpec) {
			s.Kubelet.Configuration = &runtime.RawExtension{Raw: []byte(`[1]`)}
		}, "spec.kubelet.configuration"},
		"configuration of another kind": {"ubuntu", func(s *bootstrapv1.BootstrapConfigSpec) {
			s.Kubelet.Configuration = &runtime.RawExtension{Raw: []byte(`{"kind":"KubeProxyConfiguration"}`)}
		}, "spec.kubelet.configuration.kind"},
		"configuration with a wrong type": {"ubuntu", func(s *bootstrapv1.BootstrapConfigSpec) {
			s.Kubelet.Configuration = &runtime.RawExtension{Raw: []byte(`{"maxPods":"many"}`)}
		}, "spec.kubelet.configuration.maxPods"},
		"a nested configuration with a wrong type": {"ubuntu", func(s *bootstrapv1.BootstrapConfigSpec) {
			s.Kubelet.Configuration = &runtime.RawExtension{Raw: []byte(`{"authentication":{"webhook":{"cacheTTL":5}}}`)}
		}, "spec.kubelet.configuration.authentication.webhook.cacheTTL"},
		"configuration with an unknown field": {"ubuntu", func(s *bootstrapv1.BootstrapConfigSpec) {
			s.Kubelet.Configuration = &runtime.RawExtension{Raw: []byte(`{"maxPod":1}`)}
		}, "spec.kubelet.configuration"},
		"taints that the command line overrides": {"ubuntu", func(s *bootstrapv1.BootstrapConfigSpec) {
			s.Kubelet.Configuration = &runtime.RawExtension{Raw: []byte(`{"registerWithTaints":[{"key":"k","effect":"NoSchedule"}]}`)}
		}, "spec.kubelet.configuration.registerWithTaints"},
		"a providerID that the command line overrides": {"ubuntu", func(s *bootstrapv1.BootstrapConfigSpec) {
			s.Kubelet.ProviderID = "a:///b"
			s.Kubelet.Configuration = &runtime.RawExtension{Raw: []byte(`{"providerID":"a:///c"}`)}
		}, "spec.kubelet.configuration.providerID"},
		"a kubelet that does not keep the name of the server": {"ubuntu", func(s *bootstrapv1.BootstrapConfigSpec) {
			s.Join.TLSServerName = "api.example.test"
			s.Kubelet.Configuration = &runtime.RawExtension{Raw: []byte(`{"rotateCertificates":false}`)}
		}, "spec.kubelet.configuration.rotateCertificates"},
		"a kubelet without the default by which it keeps that name": {"ubuntu", func(s *bootstrapv1.BootstrapConfigSpec) {
			s.Join.TLSServerName = "api.example.test"
			s.Kubelet.Configuration = &runtime.RawExtension{Raw: []byte(`{"rotateCertificates":null}`)}
		}, "spec.kubelet.configuration.rotateCertificates"},
		"an expression where none is filled in": {"ubuntu", func(s *bootstrapv1.BootstrapConfigSpec) {
			s.Kubelet.Configuration = &runtime.RawExtension{Raw: []byte(`{"providerID":"{{ ds.meta_data.provider_id }}"}`)}
		}, "spec.kubelet.configuration.providerID"},
		"a mirror that is there twice": {"ubuntu", func(s *bootstrapv1.BootstrapConfigSpec) {
			s.Containerd.Mirrors = []bootstrapv1.RegistryMirror{{Registry: "docker.io", Endpoints: []string{"https://a.example", "https://b.example", "https://a.example"}}}
		}, "spec.containerd.mirrors[0].endpoints[2]"},
		"label of Kubernetes": {"ubuntu", func(s *bootstrapv1.BootstrapConfigSpec) {
			s.Kubelet.NodeLabels = map[string]string{"topology.k8s.io/x": "y"}
		}, "spec.kubelet.nodeLabels[topology.k8s.io/x]"},
		"label value with a space": {"ubuntu", func(s *bootstrapv1.BootstrapConfigSpec) {
			s.Kubelet.NodeLabels = map[string]string{"a": "b c"}
		}, "spec.kubelet.nodeLabels[a]"},
		"taint without effect": {"ubuntu", func(s *bootstrapv1.BootstrapConfigSpec) {
			s.Kubelet.Taints = []corev1.Taint{{Key: "a"}}
		}, "spec.kubelet.taints[0].effect"},
		"two values of a taint": {"ubuntu", func(s *bootstrapv1.BootstrapConfigSpec) {
			s.Kubelet.Taints = []corev1.Taint{{Key: "a", Value: "b", Effect: "NoSchedule"}, {Key: "a", Value: "c", Effect: "NoSchedule"}}
		}, "spec.kubelet.taints[1]"},
		"another value of the taint that each Node has": {"ubuntu", func(s *bootstrapv1.BootstrapConfigSpec) {
			s.Join.Method = bootstrapv1.JoinKubeadm
			s.Kubelet.Taints = []corev1.Taint{{Key: "node.cluster.x-k8s.io/uninitialized", Value: "true", Effect: "NoSchedule"}}
		}, "spec.kubelet.taints[0]"},
		"flag with two lines": {"ubuntu", func(s *bootstrapv1.BootstrapConfigSpec) {
			s.Kubelet.ExtraArgs = map[string]string{"v": "1\nExecStartPre=/bin/false"}
		}, "spec.kubelet.extraArgs[v]"},
		"health check elsewhere": {"ubuntu", func(s *bootstrapv1.BootstrapConfigSpec) {
			s.Kubelet.Configuration = &runtime.RawExtension{Raw: []byte(`{"healthzPort":0}`)}
		}, "spec.kubelet.configuration.healthzPort"},
		"health check on another address": {"ubuntu", func(s *bootstrapv1.BootstrapConfigSpec) {
			s.Kubelet.Configuration = &runtime.RawExtension{Raw: []byte(`{"healthzPort":10248,"healthzBindAddress":"10.0.0.1"}`)}
		}, "spec.kubelet.configuration.healthzBindAddress"},
		"health check elsewhere by a flag": {"ubuntu", func(s *bootstrapv1.BootstrapConfigSpec) {
			s.Kubelet.ExtraArgs = map[string]string{"healthz-port": "1"}
		}, "spec.kubelet.extraArgs[healthz-port]"},
		"flag with dashes": {"ubuntu", func(s *bootstrapv1.BootstrapConfigSpec) {
			s.Kubelet.ExtraArgs = map[string]string{"--v": "1"}
		}, "spec.kubelet.extraArgs[--v]"},
		"two words as providerID":       {"ubuntu", func(s *bootstrapv1.BootstrapConfigSpec) { s.Kubelet.ProviderID = "a --root-dir=/x" }, "spec.kubelet.providerID"},
		"expression that is not closed": {"ubuntu", func(s *bootstrapv1.BootstrapConfigSpec) { s.Kubelet.ProviderID = "{{ ds" }, "spec.kubelet.providerID"},
		"statement as hostname":         {"ubuntu", func(s *bootstrapv1.BootstrapConfigSpec) { s.Kubelet.HostnameOverride = "{% if x %}" }, "spec.kubelet.hostnameOverride"},
		"variable in cloud-config":      {"ubuntu", func(s *bootstrapv1.BootstrapConfigSpec) { s.Kubelet.ProviderID = "aws:///${COREOS_EC2_INSTANCE_ID}" }, "spec.kubelet.providerID"},
		"expression in Ignition":        {"flatcar", func(s *bootstrapv1.BootstrapConfigSpec) { s.Kubelet.ProviderID = "{{ ds.x }}" }, "spec.kubelet.providerID"},
		"endpoint without a port":       {"ubuntu", func(s *bootstrapv1.BootstrapConfigSpec) { s.Join.Endpoint = "10.0.0.1" }, "spec.join.endpoint"},
		"noProxy without a proxy":       {"ubuntu", func(s *bootstrapv1.BootstrapConfigSpec) { s.Proxy.NoProxy = []string{"a"} }, "spec.proxy.noProxy"},
		"trusted CA that is a key": {"ubuntu", func(s *bootstrapv1.BootstrapConfigSpec) {
			s.TrustedCAs = "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n"
		}, "spec.trustedCAs"},
		"file twice":                            {"ubuntu", files("/etc/a", "/etc/a"), "spec.files[1].path"},
		"file of ours":                          {"ubuntu", files("/opt/drover/bootstrap.sh"), "spec.files[0].path"},
		"file where others wait":                {"ubuntu", files("/opt/drover/files/etc/a"), "spec.files[0].path"},
		"folder of ours":                        {"ubuntu", files("/etc/kubernetes"), "spec.files[0].path"},
		"file below a file":                     {"ubuntu", files("/etc/a", "/etc/a/b"), "spec.files[1].path"},
		"file the host needs":                   {"ubuntu", files("/etc/passwd"), "spec.files[0].path"},
		"file in a virtual folder":              {"ubuntu", files("/proc/sys/vm/swappiness"), "spec.files[0].path"},
		"file where a unit of ours is":          {"flatcar", files("/etc/systemd/system/kubelet.service"), "spec.files[0].path"},
		"file where a drop-in of ours is":       {"ubuntu", files("/etc/systemd/system/containerd.service.d/10-drover.conf"), "spec.files[0].path"},
		"file where a folder of drop-ins is":    {"ubuntu", files("/etc/systemd/system/containerd.service.d"), "spec.files[0].path"},
		"file where the unit of Ignition is":    {"flatcar", files("/etc/a", "/etc/systemd/system/drover-bootstrap.service"), "spec.files[1].path"},
		"file that a kubelet takes for its own": {"ubuntu", files("/etc/kubernetes/kubelet.conf"), "spec.files[0].path"},
		"file where every host has a folder":    {"ubuntu", files("/usr"), "spec.files[0].path"},
		"file where the script makes a folder":  {"ubuntu", files("/var/lib/drover"), "spec.files[0].path"},
		"file in place of the shell":            {"ubuntu", files("/bin/bash"), "spec.files[0].path"},
		"file where nothing can be written":     {"flatcar", files("/usr/local/bin/a"), "spec.files[0].path"},
		"name of the host that a field sets": {"flatcar", func(s *bootstrapv1.BootstrapConfigSpec) {
			files("/etc/hostname")(s)
			s.Hostname = bootstrapv1.HostnameFromMachine
		}, "spec.files[0].path"},
		"rule for sudo that a field sets": {"flatcar", func(s *bootstrapv1.BootstrapConfigSpec) {
			files("/etc/sudoers.d/admin")(s)
			s.Users = []bootstrapv1.User{{Name: "admin", Sudo: "ALL=(ALL) ALL"}}
		}, "spec.files[0].path"},
		"file where a download is unpacked": {"ubuntu", func(s *bootstrapv1.BootstrapConfigSpec) {
			files("/opt/cni/bin")(s)
			s.Binaries.CNIPlugins = []bootstrapv1.Download{{Architecture: "amd64"}}
		}, "spec.files[0].path"},
		"file that is downloaded": {"ubuntu", func(s *bootstrapv1.BootstrapConfigSpec) {
			files("/opt/bin/kubelet")(s)
			s.Binaries.Kubelet = []bootstrapv1.Download{{Architecture: "amd64"}}
		}, "spec.files[0].path"},
		"content that is not base64": {"ubuntu", func(s *bootstrapv1.BootstrapConfigSpec) {
			s.Files = []bootstrapv1.File{{Path: "/etc/a", Content: new("?"), Encoding: bootstrapv1.Base64}}
		}, "spec.files[0].content"},
		"unknown Secret": {"ubuntu", func(s *bootstrapv1.BootstrapConfigSpec) {
			s.Files = []bootstrapv1.File{{Path: "/etc/a", ContentFrom: bootstrapv1.SecretKeyReference{Name: "a", Key: "b"}}}
		}, "spec.files[0].contentFrom"},
		"disk twice":                        {"ubuntu", disks(bootstrapv1.Disk{Device: "/dev/sdb", Label: "a", MountPath: "/srv/a"}, bootstrapv1.Disk{Device: "/dev/sdb", Label: "b", MountPath: "/srv/b"}), "spec.disks[1].device"},
		"label twice":                       {"ubuntu", disks(bootstrapv1.Disk{Device: "/dev/sdb", Label: "a", MountPath: "/srv/a"}, bootstrapv1.Disk{Device: "/dev/sdc", Label: "a", MountPath: "/srv/b"}), "spec.disks[1].label"},
		"disk over what the host needs":     {"ubuntu", disks(bootstrapv1.Disk{Device: "/dev/sdb", Label: "a", MountPath: "/etc/kubernetes"}), "spec.disks[0].mountPath"},
		"disk over a folder that is in use": {"ubuntu", disks(bootstrapv1.Disk{Device: "/dev/sdb", Label: "a", MountPath: "/var/lib"}), "spec.disks[0].mountPath"},
		"kubeadm that is not run": {"ubuntu", func(s *bootstrapv1.BootstrapConfigSpec) {
			s.Binaries.Kubeadm = []bootstrapv1.Download{{}}
		}, "spec.binaries.kubeadm"},
		"checks of a kubeadm that is not run": {"ubuntu", func(s *bootstrapv1.BootstrapConfigSpec) {
			s.Join.IgnorePreflightErrors = []string{"Swap"}
		}, "spec.join.ignorePreflightErrors"},
		"variable for kubeadm": {"flatcar", func(s *bootstrapv1.BootstrapConfigSpec) {
			s.Join.Method, s.Kubelet.ProviderID = bootstrapv1.JoinKubeadm, "aws:///${COREOS_EC2_INSTANCE_ID}"
		}, "spec.kubelet.providerID"},
		"flag that a field sets": {"ubuntu", func(s *bootstrapv1.BootstrapConfigSpec) {
			s.Kubelet.CredentialProviders = []bootstrapv1.CredentialProvider{{Name: "a", MatchImages: []string{"b"}}}
			s.Kubelet.ExtraArgs = map[string]string{"image-credential-provider-config": "/x"}
		}, "spec.kubelet.extraArgs[image-credential-provider-config]"},
		"registry credentials that are none":       {"ubuntu", registryCredentialsFrom("json"), "spec.containerd.registryCredentialsFrom"},
		"registry credentials without registries":  {"ubuntu", registryCredentialsFrom("empty"), "spec.containerd.registryCredentialsFrom"},
		"registry without credentials":             {"ubuntu", registryCredentialsFrom("nothing"), "spec.containerd.registryCredentialsFrom"},
		"registry credentials that are not base64": {"ubuntu", registryCredentialsFrom("auth"), "spec.containerd.registryCredentialsFrom"},
		"activation key that is empty": {"rhel", func(s *bootstrapv1.BootstrapConfigSpec) {
			s.RHEL.Subscription = bootstrapv1.RHELSubscription{Organization: "1", ActivationKeyFrom: bootstrapv1.SecretKeyReference{Name: "a", Key: "b"}}
		}, "spec.rhel.subscription.activationKeyFrom"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in := minimal(c.os)
			in.Secrets = brokenCredentials
			c.change(in.Spec)
			_, err := Describe(in)
			got, is := errors.AsType[*InvalidError](err)
			if !is || got.Field != c.field {
				t.Errorf("err = %v, want an InvalidError for %s", err, c.field)
			}
			if err != nil && strings.Contains(err.Error(), "hunter2") {
				t.Errorf("the error has a secret: %v", err)
			}
		})
	}
}

func TestDescribeAcceptsFilesBesideItsOwn(t *testing.T) {
	t.Parallel()
	for system, paths := range map[bootstrapv1.OperatingSystem][]string{
		bootstrapv1.Ubuntu:  {"/opt/cni/bin/mine", "/opt/bin/mine", "/usr/local/bin/mine", "/etc/hostname", "/etc/systemd/system/kubelet.service.d/90-mine.conf"},
		bootstrapv1.Flatcar: {"/opt/cni/bin/mine", "/opt/bin/mine", "/etc/hostname", "/etc/systemd/system/mine.service", "/etc/kubernetes/mine"},
	} {
		in := minimal(system)
		in.Spec.Binaries.Kubelet = []bootstrapv1.Download{{Architecture: "amd64"}}
		in.Spec.Binaries.CNIPlugins = []bootstrapv1.Download{{Architecture: "amd64"}}
		files(paths...)(in.Spec)
		if _, err := Describe(in); err != nil {
			t.Errorf("%s: %v", system, err)
		}
	}
}

// brokenCredentials must be refused without being quoted.
var brokenCredentials = map[bootstrapv1.SecretKeyReference][]byte{
	{Name: "pull", Key: "json"}:    []byte(`{"auths":hunter2`),
	{Name: "pull", Key: "empty"}:   []byte(`{"auths":{},"hunter2":1}`),
	{Name: "pull", Key: "nothing"}: []byte(`{"auths":{"a.example.test":{"identitytoken":"hunter2"}}}`),
	{Name: "pull", Key: "auth"}:    []byte(`{"auths":{"a.example.test":{"auth":"hunter2"}}}`),
}

func registryCredentialsFrom(key string) func(*bootstrapv1.BootstrapConfigSpec) {
	return func(s *bootstrapv1.BootstrapConfigSpec) {
		s.Containerd.RegistryCredentialsFrom = bootstrapv1.SecretKeyReference{Name: "pull", Key: key}
	}
}

func disks(disks ...bootstrapv1.Disk) func(*bootstrapv1.BootstrapConfigSpec) {
	return func(s *bootstrapv1.BootstrapConfigSpec) { s.Disks = disks }
}

func files(paths ...string) func(*bootstrapv1.BootstrapConfigSpec) {
	return func(s *bootstrapv1.BootstrapConfigSpec) {
		for _, p := range paths {
			s.Files = append(s.Files, bootstrapv1.File{Path: p, Content: new("x")})
		}
	}
}

func TestKubeletConfigurationIsMergedOverTheDefaults(t *testing.T) {
	t.Parallel()
	in := minimal(bootstrapv1.Ubuntu)
	in.ServiceCIDR = "10.4.0.0/16"
	in.Spec.Kubelet.Configuration = &runtime.RawExtension{Raw: []byte(`{"authentication":{"webhook":{"cacheTTL":"1m0s"}},"kubeReserved":null,"maxPods":7}`)}
	got, err := kubeletConfiguration(ubuntu(), in)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"    cacheTTL: 1m0s\n    enabled: true\n", "- 10.4.0.10\n", "maxPods: 7\n", "clientCAFile: /etc/kubernetes/pki/ca.crt\n"} {
		if !strings.Contains(string(got), want) {
			t.Errorf("the configuration lacks %q:\n%s", want, got)
		}
	}
	if strings.Contains(string(got), "kubeReserved") {
		t.Error("null does not remove a field")
	}
}

// TestDefaultsGiveWayToValuesThatExcludeThem: a kubelet does not start with both, and the user has written one of them only.
func TestDefaultsGiveWayToValuesThatExcludeThem(t *testing.T) {
	t.Parallel()
	const parallel, serving, period, critical = "maxParallelImagePulls", "serverTLSBootstrap", "shutdownGracePeriod", "shutdownGracePeriodCriticalPods"
	for fragment, want := range map[string][]string{
		`{}`:                                      {parallel, serving, period, critical},
		`{"serializeImagePulls":false}`:           {parallel, serving, period, critical},
		`{"serializeImagePulls":true}`:            {serving, period, critical},
		`{"serializeImagePulls":null}`:            {serving, period, critical},
		`{"shutdownGracePeriod":"0s"}`:            {parallel, serving, period},
		`{"shutdownGracePeriod":null}`:            {parallel, serving},
		`{"shutdownGracePeriod":"1m"}`:            {parallel, serving, period, critical},
		`{"shutdownGracePeriodByPodPriority":[]}`: {parallel, serving, period, critical},
		`{"shutdownGracePeriodByPodPriority":[{"priority":0,"shutdownGracePeriodSeconds":5}]}`: {parallel, serving},
		`{"serializeImagePulls":true,"maxParallelImagePulls":1}`:                               {parallel, serving, period, critical},
		`{"shutdownGracePeriod":"5s","shutdownGracePeriodCriticalPods":"2s"}`:                  {parallel, serving, period, critical},
		`{"featureGates":{"GracefulNodeShutdown":true}}`:                                       {parallel, serving, period, critical},
		`{"featureGates":{"GracefulNodeShutdown":false}}`:                                      {parallel, serving},
		`{"featureGates":{"RotateKubeletServerCertificate":false}}`:                            {parallel, period, critical},
	} {
		in := minimal(bootstrapv1.Ubuntu)
		in.Spec.Kubelet.Configuration = &runtime.RawExtension{Raw: []byte(fragment)}
		config, err := kubeletConfiguration(ubuntu(), in)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, field := range []string{parallel, serving, period, critical} {
			if strings.Contains(string(config), "\n"+field+": ") {
				got = append(got, field)
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("with the fragment %s (-want +got):\n%s", fragment, diff)
		}
	}
}

// TestConfigurationThatContradictsNothingIsAccepted: it names what is so in any case.
func TestConfigurationThatContradictsNothingIsAccepted(t *testing.T) {
	t.Parallel()
	for _, method := range []bootstrapv1.JoinMethod{bootstrapv1.JoinKubeletTLSBootstrap, bootstrapv1.JoinKubeadm} {
		in := minimal(bootstrapv1.Ubuntu)
		in.Spec.Join = bootstrapv1.Join{Method: method, Endpoint: "api.example.test:6443", TLSServerName: "api.example.test"}
		in.Spec.Kubelet.ProviderID = "a:///b"
		in.Spec.Kubelet.Configuration = &runtime.RawExtension{Raw: []byte(`{"registerWithTaints":[],"providerID":"","rotateCertificates":false}`)}
		if _, err := Describe(in); err != nil {
			t.Errorf("with the method %q: %v", method, err)
		}
	}
}

// TestKubeletMayVerifyClientsByAnotherAuthority: that of the API server's client certificate is not always that of its serving
// certificate.
func TestKubeletMayVerifyClientsByAnotherAuthority(t *testing.T) {
	t.Parallel()
	const path = "/etc/kubernetes/pki/client-ca.crt"
	for _, system := range []bootstrapv1.OperatingSystem{bootstrapv1.Ubuntu, bootstrapv1.Flatcar, bootstrapv1.RHEL} {
		in := minimal(system)
		in.Spec.Files = []bootstrapv1.File{{Path: path, Content: new("pem")}}
		in.Spec.Kubelet.Configuration = &runtime.RawExtension{Raw: []byte(`{"authentication":{"x509":{"clientCAFile":"` + path + `"}}}`)}
		config, _ := contentAt(t, describe(t, in), kubeletConfigFile)
		if !strings.Contains(config, "clientCAFile: "+path+"\n") || !strings.Contains(config, "anonymous:\n    enabled: false\n") {
			t.Errorf("%s: %s", system, config)
		}
	}
}

// TestMessagesHaveWhatWouldBeRight: a Go type is nothing that a user knows.
func TestMessagesHaveWhatWouldBeRight(t *testing.T) {
	t.Parallel()
	for fragment, want := range map[string]string{
		`{"maxPods":"50"}`:                  "spec.kubelet.configuration.maxPods: must be an integer of type int32, and is a JSON string",
		`{"evictionHard":["a"]}`:            "spec.kubelet.configuration.evictionHard: must be an object, and is a JSON array",
		`{"authentication":{"x509":"a"}}`:   "spec.kubelet.configuration.authentication.x509: must be an object, and is a JSON string",
		`{"allowedUnsafeSysctls":"a"}`:      "spec.kubelet.configuration.allowedUnsafeSysctls: must be a list, and is a JSON string",
		`{"enableDebuggingHandlers":"yes"}`: "spec.kubelet.configuration.enableDebuggingHandlers: must be true or false, and is a JSON string",
		`{"maxPod":5}`:                      `spec.kubelet.configuration: unknown field "maxPod": it is not a field of KubeletConfiguration v1beta1`,
		// The kubelet ignores these, with a line in its log.
		`{"clusterDns":["10.0.0.10"]}`:                     `spec.kubelet.configuration: unknown field "clusterDns": it is not a field of KubeletConfiguration v1beta1, in which upper and lower case count`,
		`{"authentication":{"webhook":{"cacheTtl":"1m"}}}`: `spec.kubelet.configuration: unknown field "authentication.webhook.cacheTtl": it is not a field of KubeletConfiguration v1beta1, in which upper and lower case count`,
	} {
		in := minimal(bootstrapv1.Ubuntu)
		in.Spec.Kubelet.Configuration = &runtime.RawExtension{Raw: []byte(fragment)}
		if _, err := Describe(in); err == nil || err.Error() != want {
			t.Errorf("%s: err = %v, want %s", fragment, err, want)
		}
	}
	in := minimal("plan9")
	if _, err := Describe(in); err == nil || err.Error() != `spec.operatingSystem: "plan9" is not supported: set one of ubuntu, debian, flatcar, rhel, rocky, amazonlinux` {
		t.Errorf("err = %v", err)
	}
}

func TestBinariesHaveOneArchitectureInCommon(t *testing.T) {
	t.Parallel()
	amd64, arm64 := bootstrapv1.Download{Architecture: "amd64"}, bootstrapv1.Download{Architecture: "arm64"}
	for name, c := range map[string]struct {
		binaries bootstrapv1.Binaries
		want     string
	}{
		"it needs none":                {bootstrapv1.Binaries{}, ""},
		"it accepts one for all":       {bootstrapv1.Binaries{Kubelet: []bootstrapv1.Download{arm64}, CNIPlugins: []bootstrapv1.Download{arm64}}, ""},
		"it accepts one of two":        {bootstrapv1.Binaries{Kubelet: []bootstrapv1.Download{amd64, arm64}, CNIPlugins: []bootstrapv1.Download{arm64}}, ""},
		"it refuses two without other": {bootstrapv1.Binaries{Kubelet: []bootstrapv1.Download{arm64}, CNIPlugins: []bootstrapv1.Download{amd64}}, "spec.binaries: there is no architecture for which there are all, so that no host can join: there is kubelet for arm64, cniPlugins for amd64: add the others, or correct the architecture"},
	} {
		in := minimal(bootstrapv1.Ubuntu)
		in.Spec.Binaries = c.binaries
		got := ""
		if _, err := Describe(in); err != nil {
			got = err.Error()
		}
		if got != c.want {
			t.Errorf("%s: err = %s, want %s", name, got, c.want)
		}
	}
}
