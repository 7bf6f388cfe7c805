// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"errors"
	"io/fs"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	bootstrapv1 "drover.io/api/bootstrap/v1alpha1"
)

func describe(t *testing.T, in Input) *Node {
	t.Helper()
	n, err := Describe(in)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func contentAt(t *testing.T, n *Node, path string) (string, fs.FileMode) {
	t.Helper()
	for _, f := range n.AllFiles() {
		if f.Path == path {
			return string(f.Content), f.Mode
		}
	}
	t.Fatalf("there is no %s", path)
	return "", 0
}

func unitOf(t *testing.T, n *Node, name string) Unit {
	t.Helper()
	for _, u := range n.Units {
		if u.Name == name {
			return u
		}
	}
	t.Fatalf("there is no %s", name)
	return Unit{}
}

var systems = []bootstrapv1.OperatingSystem{bootstrapv1.Ubuntu, bootstrapv1.Flatcar, bootstrapv1.RHEL, bootstrapv1.Rocky, bootstrapv1.Debian, bootstrapv1.AmazonLinux}

// TestEveryOperatingSystemHasTheSameServices in the same order: containerd before the kubelet, the health check last.
func TestEveryOperatingSystemHasTheSameServices(t *testing.T) {
	t.Parallel()
	for _, system := range systems {
		n := describe(t, minimal(system))
		if diff := cmp.Diff([]string{"containerd.service", "kubelet.service", "drover-health.service"}, n.Services); diff != "" {
			t.Errorf("%s (-want +got):\n%s", system, diff)
		}
		if !slices.Equal(n.Modules, []string{"overlay", "br_netfilter"}) || n.kubelet != "/usr/bin/kubelet" || n.kubeadm != "" {
			t.Errorf("%s: modules %v, kubelet %q, kubeadm %q", system, n.Modules, n.kubelet, n.kubeadm)
		}
		format, err := FormatOf(minimal(system).Spec)
		want := bootstrapv1.CloudConfig
		if system == bootstrapv1.Flatcar {
			want = bootstrapv1.Ignition
		}
		if err != nil || format != want {
			t.Errorf("%s: format %q, %v", system, format, err)
		}
	}
}

func TestTimeServersAreThoseOfTheOperatingSystem(t *testing.T) {
	t.Parallel()
	for system, want := range map[bootstrapv1.OperatingSystem][3]string{
		bootstrapv1.Ubuntu:  {"/etc/systemd/timesyncd.conf.d/50-drover.conf", "[Time]\nNTP=a.example b.example\n", "systemd-timesyncd.service"},
		bootstrapv1.Flatcar: {"/etc/systemd/timesyncd.conf.d/50-drover.conf", "[Time]\nNTP=a.example b.example\n", "systemd-timesyncd.service"},
		bootstrapv1.RHEL:    {"/etc/chrony.conf", "server a.example iburst\nserver b.example iburst\ndriftfile /var/lib/chrony/drift\nmakestep 1.0 3\nrtcsync\nlogdir /var/log/chrony\n", "chronyd.service"},
	} {
		in := minimal(system)
		in.Spec.NTP.Servers = []string{"a.example", "b.example"}
		n := describe(t, in)
		if got, _ := contentAt(t, n, want[0]); got != want[1] || !slices.Contains(n.TimeServices, want[2]) {
			t.Errorf("%s: %q, services %v", system, got, n.TimeServices)
		}
	}
}

// TestHostname is that of the infrastructure unless it is to be that of the Machine.
func TestHostname(t *testing.T) {
	t.Parallel()
	in := minimal(bootstrapv1.Ubuntu)
	if n := describe(t, in); n.Hostname != "" {
		t.Errorf("by default it is %q", n.Hostname)
	}
	in.Spec.Hostname = bootstrapv1.HostnameFromMachine
	if n := describe(t, in); n.Hostname != "m1" {
		t.Errorf("from the Machine it is %q", n.Hostname)
	}
	in.MachineName = strings.Repeat("m", 63)
	describe(t, in)
	in.MachineName += "m"
	_, err := Describe(in)
	if invalid, is := errors.AsType[*InvalidError](err); !is || invalid.Field != "spec.hostname" {
		t.Errorf("a name that no Node can have: %v", err)
	}
}

func TestProxyIsBypassedForTheCluster(t *testing.T) {
	t.Parallel()
	in := minimal(bootstrapv1.Ubuntu)
	in.Spec.Join.Endpoint = "api.example.test:6443"
	in.Spec.Proxy = bootstrapv1.Proxy{HTTPS: "http://proxy.example:3128", NoProxy: []string{"10.0.0.0/8", ".svc"}}
	got, mode := contentAt(t, describe(t, in), proxyFile)
	want := `HTTPS_PROXY='http://proxy.example:3128'
https_proxy='http://proxy.example:3128'
NO_PROXY='localhost,127.0.0.1,::1,10.0.0.1,api.example.test,10.0.0.0/8,.svc'
no_proxy='localhost,127.0.0.1,::1,10.0.0.1,api.example.test,10.0.0.0/8,.svc'
`
	if diff := cmp.Diff(want, got); diff != "" || mode != 0o600 {
		t.Errorf("mode %o (-want +got):\n%s", mode, diff)
	}
	if n := describe(t, minimal(bootstrapv1.Ubuntu)); n.hasFile(proxyFile) {
		t.Error("without a proxy there is its file")
	}
}

func TestClusterDNS(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		given []string
		cidr  string
		want  []string
	}{
		"is the tenth address of the services": {nil, "10.4.0.0/16", []string{"10.4.0.10"}},
		"is that of a range with host bits":    {nil, "10.4.0.77/16", []string{"10.4.0.10"}},
		"is that of IPv6":                      {nil, "fd00:1::/108", []string{"fd00:1::a"}},
		"is kubeadm's by default":              {nil, "", []string{"10.96.0.10"}},
		"is kubeadm's for an invalid range":    {nil, "none", []string{"10.96.0.10"}},
		"is the spec's":                        {[]string{"169.254.20.10", "fd00::a"}, "10.4.0.0/16", []string{"169.254.20.10", "fd00::a"}},
	} {
		in := minimal(bootstrapv1.Ubuntu)
		in.ServiceCIDR, in.Spec.Kubelet.ClusterDNS = test.cidr, test.given
		if diff := cmp.Diff(test.want, ClusterDNS(in)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestKubeletFlags(t *testing.T) {
	t.Parallel()
	in := minimal(bootstrapv1.Ubuntu)
	in.Spec.Kubelet = bootstrapv1.Kubelet{
		ProviderID: "aws:///{{ ds.meta_data.placement }}/x", HostnameOverride: "n1", CloudProvider: bootstrapv1.CloudProviderExternal,
		NodeLabels: map[string]string{"b": "2", "a": "1"},
		Taints:     []corev1.Taint{{Key: "k", Value: "v", Effect: corev1.TaintEffectNoSchedule}, {Key: "k", Value: "v", Effect: corev1.TaintEffectNoSchedule}},
		ExtraArgs:  map[string]string{"v": "4", "max-pods": "7"},
	}
	args, err := kubeletArgs(ubuntu(), in.Spec.Kubelet)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, arg := range args[ownArgs:] {
		got = append(got, arg.text)
	}
	want := []string{
		"--provider-id=aws:///{{ ds.meta_data.placement }}/x", "--hostname-override=n1", "--cloud-provider=external", "--node-labels=a=1,b=2",
		"--register-with-taints=node.cluster.x-k8s.io/uninitialized:NoSchedule,k=v:NoSchedule", "--max-pods=7", "--v=4",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	unit := unitOf(t, describe(t, in), kubeletUnit)
	if !unit.Jinja || !strings.Contains(unit.Content, "ExecStart=/usr/bin/kubelet \\\n  --bootstrap-kubeconfig=/etc/drover/bootstrap-kubelet.conf") {
		t.Errorf("the unit is %q", unit.Content)
	}
}

// TestKubeadmGetsWhatTheKubeletWouldGet: kubeadm writes the kubelet's files itself.
func TestKubeadmGetsWhatTheKubeletWouldGet(t *testing.T) {
	t.Parallel()
	in := minimal(bootstrapv1.Ubuntu)
	in.Spec.Join.Method = bootstrapv1.JoinKubeadm
	in.Spec.Join.IgnorePreflightErrors = []string{"Swap"}
	in.Spec.Kubelet = bootstrapv1.Kubelet{HostnameOverride: "n1", NodeLabels: map[string]string{"a": "1"}, Configuration: &runtime.RawExtension{Raw: []byte(`{"maxPods":7}`)}}
	n := describe(t, in)
	got, mode := contentAt(t, n, joinFile)
	want := `{"apiVersion":"kubeadm.k8s.io/v1beta4","kind":"JoinConfiguration","discovery":{"file":{"kubeConfigPath":"/etc/drover/kubeadm/discovery.conf"}},` +
		`"nodeRegistration":{"name":"n1","criSocket":"unix:///run/containerd/containerd.sock","taints":[{"key":"node.cluster.x-k8s.io/uninitialized","effect":"NoSchedule"}],` +
		`"kubeletExtraArgs":[{"name":"node-labels","value":"a=1"}],"ignorePreflightErrors":["Swap"]},"timeouts":{"tlsBootstrap":"30m0s"},"patches":{"directory":"/etc/drover/kubeadm/patches"}}` + "\n"
	if diff := cmp.Diff(want, got); diff != "" || mode != 0o600 {
		t.Errorf("mode %o (-want +got):\n%s", mode, diff)
	}
	if patch, _ := contentAt(t, n, patchFolder+"/kubeletconfiguration+merge.json"); patch != `{"healthzBindAddress":"127.0.0.1","healthzPort":10248,"maxPods":7}`+"\n" {
		t.Errorf("the patch is %q", patch)
	}
	discovery, _ := contentAt(t, n, discoveryFile)
	if !strings.Contains(discovery, "token: "+in.Token) || !strings.Contains(discovery, "certificate-authority-data: ") || !strings.Contains(discovery, "server: https://10.0.0.1:6443") {
		t.Errorf("the discovery file is %q", discovery)
	}
	if unit := unitOf(t, n, kubeletUnit).Content; !strings.Contains(unit, "\n  --bootstrap-kubeconfig=/etc/kubernetes/bootstrap-kubelet.conf \\\n") {
		t.Errorf("the kubelet does not read the bootstrap kubeconfig that kubeadm writes: %q", unit)
	}
	for _, path := range []string{caFile, bootstrapKubeconfig, "/etc/kubernetes/bootstrap-kubelet.conf", kubeletConfigFile} {
		if n.hasFile(path) {
			t.Errorf("%s is written, and kubeadm refuses to join a host that has it", path)
		}
	}
	script, _ := contentAt(t, n, ScriptFile)
	if !strings.Contains(script, "systemctl enable --quiet kubelet.service\nmkdir -p /var/lib/drover\ntouch "+preparedFile+"\nreport Running Join\n[ -e "+joinedFile+" ] || /usr/bin/kubeadm join --config "+joinFile+"\n") || strings.Contains(script, "systemctl restart kubelet.service") {
		t.Errorf("the script is %q", script)
	}
}

// TestNodeHasEachTaintOnce: a kubelet does not start with two taints of the same key and effect. Specifications that were written
// for other bootstrap providers have the taint of Cluster API among their own.
func TestNodeHasEachTaintOnce(t *testing.T) {
	t.Parallel()
	in := minimal(bootstrapv1.Ubuntu)
	in.Spec.Kubelet.Taints = []corev1.Taint{
		{Key: "node.cluster.x-k8s.io/uninitialized", Effect: "NoSchedule"},
		{Key: "k", Value: "v", Effect: "NoSchedule"}, {Key: "k", Value: "v", Effect: "NoSchedule", TimeAdded: &metav1.Time{}}, {Key: "k", Value: "w", Effect: "NoExecute"},
	}
	unit := unitOf(t, describe(t, in), kubeletUnit).Content
	if want := " --register-with-taints=node.cluster.x-k8s.io/uninitialized:NoSchedule,k=v:NoSchedule,k=w:NoExecute\n"; !strings.Contains(unit, want) {
		t.Errorf("the unit lacks %q: %q", want, unit)
	}
	in.Spec.Join.Method = bootstrapv1.JoinKubeadm
	join, _ := contentAt(t, describe(t, in), joinFile)
	want := `"taints":[{"key":"node.cluster.x-k8s.io/uninitialized","effect":"NoSchedule"},{"key":"k","value":"v","effect":"NoSchedule"},{"key":"k","value":"w","effect":"NoExecute"}]`
	if !strings.Contains(join, want) {
		t.Errorf("the JoinConfiguration lacks %q: %q", want, join)
	}
}

// TestTaintOfTheCloudProviderIsLeftToTheKubelet: it adds the taint itself, and the API server refuses a Node with two.
func TestTaintOfTheCloudProviderIsLeftToTheKubelet(t *testing.T) {
	t.Parallel()
	const own = "node.cloudprovider.kubernetes.io/uninitialized"
	for provider, want := range map[bootstrapv1.CloudProvider]bool{bootstrapv1.CloudProviderExternal: false, bootstrapv1.CloudProviderNone: true, "": true} {
		for _, method := range []bootstrapv1.JoinMethod{bootstrapv1.JoinKubeletTLSBootstrap, bootstrapv1.JoinKubeadm} {
			in := minimal(bootstrapv1.Ubuntu)
			in.Spec.Join.Method, in.Spec.Kubelet.CloudProvider = method, provider
			in.Spec.Kubelet.Taints = []corev1.Taint{{Key: own, Effect: "NoSchedule"}, {Key: own, Effect: "NoExecute"}}
			n := describe(t, in)
			text := unitOf(t, n, kubeletUnit).Content
			if method == bootstrapv1.JoinKubeadm {
				text, _ = contentAt(t, n, joinFile)
			}
			got := strings.Contains(text, own+":NoSchedule") || strings.Contains(text, `{"key":"`+own+`","effect":"NoSchedule"}`)
			if got != want {
				t.Errorf("with the cloud provider %q and the method %q the Node is given the taint: %t, want %t", provider, method, got, want)
			}
			if !strings.Contains(text, own+":NoExecute") && !strings.Contains(text, `{"key":"`+own+`","effect":"NoExecute"}`) {
				t.Errorf("with the cloud provider %q and the method %q the taint of another effect is lost", provider, method)
			}
		}
	}
}

// TestKubeadmPatchHasTheFieldsOfTheSpec: the configuration is the cluster's, which knows nothing of one group of machines.
func TestKubeadmPatchHasTheFieldsOfTheSpec(t *testing.T) {
	t.Parallel()
	for fragment, want := range map[string]string{
		`{}`:                           `{"clusterDNS":["169.254.20.10"],"healthzBindAddress":"127.0.0.1","healthzPort":10248}`,
		`{"clusterDNS":["10.0.0.10"]}`: `{"clusterDNS":["10.0.0.10"],"healthzBindAddress":"127.0.0.1","healthzPort":10248}`,
	} {
		in := minimal(bootstrapv1.Ubuntu)
		in.Spec.Join.Method, in.ServiceCIDR = bootstrapv1.JoinKubeadm, "10.4.0.0/16"
		in.Spec.Kubelet.ClusterDNS = []string{"169.254.20.10"}
		in.Spec.Kubelet.Configuration = &runtime.RawExtension{Raw: []byte(fragment)}
		if patch, _ := contentAt(t, describe(t, in), patchFolder+"/kubeletconfiguration+merge.json"); patch != want+"\n" {
			t.Errorf("with the fragment %s the patch is %q, want %q", fragment, patch, want)
		}
	}
}

func TestContainerdOfTheImageAndOneThatIsDownloaded(t *testing.T) {
	t.Parallel()
	image := unitOf(t, describe(t, minimal(bootstrapv1.Flatcar)), containerdUnit)
	if image.Content != "" || !strings.Contains(image.DropIns[0].Content, "ExecStart=\nExecStart=/usr/bin/containerd --config /etc/containerd/config.toml\n") {
		t.Errorf("that of the image has %q and %q", image.Content, image.DropIns[0].Content)
	}
	in := minimal(bootstrapv1.Flatcar)
	in.Spec.Binaries.Containerd = []bootstrapv1.Download{{Architecture: "amd64", URL: "https://a/containerd.tgz", SHA256: "00"}}
	n := describe(t, in)
	own := unitOf(t, n, containerdUnit)
	if !strings.Contains(own.Content, "ExecStart=/opt/bin/containerd --config /etc/containerd/config.toml\n") ||
		strings.Contains(own.DropIns[0].Content, "/usr/bin/containerd") || !strings.Contains(own.DropIns[0].Content, "Environment=PATH=/opt/bin:") {
		t.Errorf("the downloaded one has %q and %q", own.Content, own.DropIns[0].Content)
	}
	want := []Download{{Name: "containerd", Target: "/opt", Unpack: true, Sources: []Source{{"amd64", "https://a/containerd.tgz", "00"}}}}
	if diff := cmp.Diff(want, n.Downloads); diff != "" {
		t.Errorf("downloads (-want +got):\n%s", diff)
	}
}

func TestMirrorsAndSandboxImage(t *testing.T) {
	t.Parallel()
	in := minimal(bootstrapv1.Ubuntu)
	in.Spec.Containerd = bootstrapv1.Containerd{
		SandboxImage: "mirror.example/pause:3", Mirrors: []bootstrapv1.RegistryMirror{{Registry: "docker.io", Endpoints: []string{"https://a.example", "https://b.example/", "https://c.example/v2/docker", "https://d.example/docker"}}},
	}
	n := describe(t, in)
	config, mode := contentAt(t, n, containerdConfig)
	if !strings.Contains(config, `sandbox_image = "mirror.example/pause:3"`) || mode != 0o600 {
		t.Errorf("mode %o, %q", mode, config)
	}
	hosts, _ := contentAt(t, n, "/etc/containerd/certs.d/docker.io/hosts.toml")
	want := `[host."https://a.example"]
  capabilities = ["pull", "resolve"]

[host."https://b.example/"]
  capabilities = ["pull", "resolve"]

[host."https://c.example/v2/docker"]
  capabilities = ["pull", "resolve"]
  override_path = true

[host."https://d.example/docker"]
  capabilities = ["pull", "resolve"]
`
	if diff := cmp.Diff(want, hosts); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if config, _ := contentAt(t, describe(t, minimal(bootstrapv1.Ubuntu)), containerdConfig); !strings.Contains(config, `sandbox_image = "`+defaultSandboxImage+`"`) {
		t.Errorf("by default it is %q", config)
	}
}

func TestCertificatesOfMirrors(t *testing.T) {
	t.Parallel()
	authority, err := os.ReadFile("../internal/render/testdata/ca.crt")
	if err != nil {
		t.Fatal(err)
	}
	in := minimal(bootstrapv1.Ubuntu)
	in.Spec.Containerd.Mirrors = []bootstrapv1.RegistryMirror{
		{Registry: "docker.io", Endpoints: []string{"https://a.example", "https://b.example"}, TrustedCAs: string(authority)},
		{Registry: "registry.example:5000", Endpoints: []string{"https://c.example"}, InsecureSkipTLSVerify: new(true)},
	}
	n := describe(t, in)
	for file, want := range map[string]string{
		"docker.io/ca.pem": string(authority),
		"docker.io/hosts.toml": `[host."https://a.example"]
  capabilities = ["pull", "resolve"]
  ca = "/etc/containerd/certs.d/docker.io/ca.pem"

[host."https://b.example"]
  capabilities = ["pull", "resolve"]
  ca = "/etc/containerd/certs.d/docker.io/ca.pem"
`,
		"registry.example:5000/hosts.toml": `[host."https://c.example"]
  capabilities = ["pull", "resolve"]
  skip_verify = true
`,
	} {
		if got, _ := contentAt(t, n, registryFolder+"/"+file); got != want {
			t.Errorf("%s: -want +got:\n%s", file, cmp.Diff(want, got))
		}
	}
	in.Spec.Containerd.Mirrors[0].TrustedCAs = "no certificate"
	if _, err := Describe(in); err == nil || !strings.HasPrefix(err.Error(), "spec.containerd.mirrors[0].trustedCAs: ") {
		t.Errorf("got %v", err)
	}
}

func TestRegistryHost(t *testing.T) {
	t.Parallel()
	for written, want := range map[string]string{
		"registry.example.test": "registry.example.test", "registry.example.test:5000": "registry.example.test:5000",
		"https://index.docker.io/v1/": "registry-1.docker.io", "docker.io": "registry-1.docker.io", "index.docker.io": "registry-1.docker.io",
		"docker.io/library/busybox": "registry-1.docker.io", "library/busybox": "registry-1.docker.io", "localhost/x": "localhost",
		"registry.example.test/team/image": "registry.example.test", "https://registry.example.test:5000/v2/": "registry.example.test:5000",
	} {
		if got := registryHost(written); got != want {
			t.Errorf("%q is at %q, want %q", written, got, want)
		}
	}
}

func TestFlatcarUpdates(t *testing.T) {
	t.Parallel()
	for updates, want := range map[bootstrapv1.FlatcarUpdateStrategy]string{
		"": "REBOOT_STRATEGY=off\n", bootstrapv1.FlatcarUpdatesReboot: "REBOOT_STRATEGY=reboot\n", bootstrapv1.FlatcarUpdatesOff: "SERVER=disabled\nREBOOT_STRATEGY=off\n",
	} {
		in := minimal(bootstrapv1.Flatcar)
		in.Spec.Flatcar.Updates = updates
		if got, _ := contentAt(t, describe(t, in), "/etc/flatcar/update.conf"); got != want {
			t.Errorf("%q: %q", updates, got)
		}
	}
}

// TestDisksAreMountedParentsFirst, and services wait for them.
func TestDisksAreMountedParentsFirst(t *testing.T) {
	t.Parallel()
	in := minimal(bootstrapv1.Ubuntu)
	in.Spec.Disks = []bootstrapv1.Disk{
		{Device: "/dev/c", Label: "logs", MountPath: "/data/logs", Filesystem: bootstrapv1.XFS, MountOptions: []string{"noatime"}},
		{Device: "/dev/b", Label: "data", MountPath: "/data", PartitionTable: bootstrapv1.PartitionTableGPT},
	}
	n := describe(t, in)
	want := []Disk{
		{Device: "/dev/b", Partitioned: true, Filesystem: "ext4", Label: "data", MountPath: "/data"},
		{Device: "/dev/c", Filesystem: "xfs", Label: "logs", MountPath: "/data/logs", MountOptions: []string{"noatime"}},
	}
	if diff := cmp.Diff(want, n.Disks); diff != "" {
		t.Errorf("disks (-want +got):\n%s", diff)
	}
	mount := unitOf(t, n, "data-logs.mount")
	if !mount.Enabled || !strings.Contains(mount.Content, "[Mount]\nWhat=/dev/disk/by-label/logs\nWhere=/data/logs\nType=xfs\nOptions=defaults,noatime\n") {
		t.Errorf("the mount is %q", mount.Content)
	}
	for _, content := range []string{unitOf(t, n, kubeletUnit).Content, unitOf(t, n, containerdUnit).DropIns[0].Content} {
		if !strings.Contains(content, "RequiresMountsFor=/data /data/logs\n") {
			t.Errorf("a service does not wait: %q", content)
		}
	}
}

func TestFileModes(t *testing.T) {
	t.Parallel()
	from := bootstrapv1.SecretKeyReference{Name: "s", Key: "k"}
	in := minimal(bootstrapv1.Ubuntu)
	in.Secrets = map[bootstrapv1.SecretKeyReference][]byte{from: []byte("secret")}
	in.Spec.Files = []bootstrapv1.File{
		{Path: "/etc/a", Content: new("x")}, {Path: "/etc/b", ContentFrom: from}, {Path: "/etc/c", Content: new("x"), Permissions: "4755"},
		{Path: "/etc/d", Content: new("eA=="), Encoding: bootstrapv1.Base64, Owner: "app"}, {Path: "/etc/e", ContentFrom: from, Permissions: "0644"},
	}
	n := describe(t, in)
	for path, want := range map[string]struct {
		content string
		mode    fs.FileMode
	}{"/etc/a": {"x", 0o644}, "/etc/b": {"secret", 0o600}, "/etc/c": {"x", 0o4755}, "/etc/d": {"x", 0o644}, "/etc/e": {"secret", 0o644}} {
		if content, mode := contentAt(t, n, path); content != want.content || mode != want.mode {
			t.Errorf("%s has mode %o and %q", path, mode, content)
		}
	}
}

func TestCommandsRunInTheirOrder(t *testing.T) {
	t.Parallel()
	in := minimal(bootstrapv1.Ubuntu)
	in.Spec.PreCommands, in.Spec.PostCommands = []string{"first", "second"}, []string{"last"}
	n := describe(t, in)
	script, mode := contentAt(t, n, ScriptFile)
	position := -1
	for _, step := range []string{"modprobe", "/opt/drover/pre-00.sh", "/opt/drover/pre-01.sh", "systemctl restart kubelet.service", "/opt/drover/post-00.sh", "echo success > " + SuccessFile} {
		at := strings.Index(script, step)
		if at <= position {
			t.Errorf("%q is at %d, after %d", step, at, position)
		}
		position = at
	}
	if content, commandMode := contentAt(t, n, "/opt/drover/pre-01.sh"); content != "#!/bin/bash\nset -euo pipefail\nsecond\n" || commandMode != 0o700 || mode != 0o700 {
		t.Errorf("a command has mode %o, the script %o, and it is %q", commandMode, mode, content)
	}
}
