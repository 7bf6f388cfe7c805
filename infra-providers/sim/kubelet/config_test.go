// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package kubelet

import (
	"maps"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"drover.io/infra-providers/sim/userdata"
)

const (
	unitFile   = "/etc/systemd/system/kubelet.service"
	configFile = "/var/lib/kubelet/config.yaml"
	bootFile   = "/etc/kubernetes/bootstrap"
	kubeconfig = "apiVersion: v1\nkind: Config\ncurrent-context: x\ncontexts: [{name: x, context: {cluster: c, user: u}}]\n" +
		"clusters: [{name: c, cluster: {server: 'https://api:6443', certificate-authority: /ca.crt}}]\nusers: [{name: u, user: {token: secret}}]\n"
)

// host returns the files of a host that can join, with changes; an empty change removes the file.
func host(changes map[string]string) *userdata.Disk {
	texts := map[string]string{
		unitFile:   "[Service]\nExecStart=/bin/kubelet --bootstrap-kubeconfig=" + bootFile + " --config " + configFile + " --node-labels=a=1,b --provider-id=sim:///z/1\n",
		configFile: "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\nregisterWithTaints: [{key: k, value: v, effect: NoSchedule}]\n",
		bootFile:   kubeconfig,
		"/ca.crt":  "PEM",
	}
	maps.Copy(texts, changes)
	disk := &userdata.Disk{Files: map[string][]byte{}, Hostname: "Worker-1"}
	for name, text := range texts {
		if text != "" {
			disk.Files[name] = []byte(text)
		}
	}
	return disk
}

func TestLoad(t *testing.T) {
	t.Parallel()
	got, err := Load(host(nil))
	if err != nil {
		t.Fatal(err)
	}
	want := &Config{
		NodeName:   "worker-1",
		ProviderID: "sim:///z/1",
		Labels:     map[string]string{"a": "1", "b": ""},
		Taints:     []corev1.Taint{{Key: "k", Value: "v", Effect: corev1.TaintEffectNoSchedule}},
		Server:     "https://api:6443",
		CA:         []byte("PEM"),
		Token:      "secret",
		Kubelet:    got.Kubelet,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("config (-want +got):\n%s", diff)
	}
}

func TestLoadPrefersFlags(t *testing.T) {
	t.Parallel()
	disk := host(map[string]string{
		unitFile: "[Service]\nExecStart=/bin/kubelet --bootstrap-kubeconfig=" + bootFile + " --config=" + configFile +
			" --register-with-taints=x=y:NoExecute --hostname-override=other --node-ip=10.1.1.1 --cloud-provider=external\n",
		configFile: "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\nproviderID: sim:///from/config\nregisterWithTaints: [{key: k, effect: NoSchedule}]\n",
	})
	got, err := Load(disk)
	if err != nil {
		t.Fatal(err)
	}
	taints := []corev1.Taint{
		{Key: "x", Value: "y", Effect: corev1.TaintEffectNoExecute},
		{Key: "node.cloudprovider.kubernetes.io/uninitialized", Value: "true", Effect: corev1.TaintEffectNoSchedule},
	}
	if diff := cmp.Diff(taints, got.Taints); diff != "" {
		t.Errorf("taints (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"other", "10.1.1.1", "sim:///from/config"}, []string{got.NodeName, got.NodeIP, got.ProviderID}); diff != "" {
		t.Error(diff)
	}
}

func TestLoadFindsTheVersion(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"curl https://dl.k8s.io/v1.36.3/bin/linux/amd64/kubelet": "v1.36.3",
		"curl https://dl.k8s.io/release/v1.35.1/bin/kubelet":     "v1.35.1",
		"apt-get install -y kubelet=1.34.2-1.1":                  "v1.34.2",
		"KUBERNETES_VERSION=v1.33.0":                             "v1.33.0",
		"echo 1.2.3":                                             "",
	} {
		disk := host(nil)
		disk.Commands = []string{text}
		got, err := Load(disk)
		if err != nil || got.Version != want {
			t.Errorf("%q: got %q and %v, want %q", text, got.Version, err, want)
		}
	}
}

func TestLoadFailsForAnInvalidHost(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		changes map[string]string
		want    string
	}{
		"no unit":                     {map[string]string{unitFile: ""}, unitFile},
		"no bootstrap kubeconfig":     {map[string]string{bootFile: ""}, bootFile},
		"no bootstrap flag":           {map[string]string{unitFile: "[Service]\nExecStart=/bin/kubelet\n"}, "--bootstrap-kubeconfig"},
		"a removed flag":              {map[string]string{unitFile: "[Service]\nExecStart=/bin/kubelet --network-plugin=cni\n"}, "unknown flag: --network-plugin"},
		"no configuration":            {map[string]string{configFile: ""}, configFile},
		"another kind":                {map[string]string{configFile: "apiVersion: v1\nkind: ConfigMap\n"}, "ConfigMap"},
		"broken configuration":        {map[string]string{configFile: "kind: ["}, configFile},
		"no CA":                       {map[string]string{"/ca.crt": ""}, "certificate authority"},
		"no token":                    {map[string]string{bootFile: strings.Replace(kubeconfig, "token: secret", "username: u", 1)}, "token"},
		"plain http":                  {map[string]string{bootFile: strings.Replace(kubeconfig, "https:", "http:", 1)}, "https"},
		"a context that is not there": {map[string]string{bootFile: strings.Replace(kubeconfig, "current-context: x", "current-context: away", 1)}, `"away"`},
		"a taint without an effect":   {map[string]string{unitFile: "[Service]\nExecStart=/k --bootstrap-kubeconfig=" + bootFile + " --register-with-taints=a=b\n"}, `"a=b"`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := Load(host(test.changes))
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want an error about %q", err, test.want)
			}
		})
	}
}

func TestLoadWarnsOfUnknownFields(t *testing.T) {
	t.Parallel()
	got, err := Load(host(map[string]string{configFile: "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\nmaxPodz: 3\n"}))
	if err != nil {
		t.Fatal(err)
	}
	if len(got.Warnings) != 1 || !strings.Contains(got.Warnings[0], "maxPodz") {
		t.Errorf("warnings are %q", got.Warnings)
	}
}
