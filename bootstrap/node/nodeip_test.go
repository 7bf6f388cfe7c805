// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	bootstrapv1 "drover.io/api/bootstrap/v1alpha1"
)

const (
	v4 = corev1.IPv4Protocol
	v6 = corev1.IPv6Protocol
)

// network makes the interfaces of a host: eth0 with all kinds of addresses, eth1 with another name, eth2 whose cable is not
// plugged in, so that its IPv6 address stays tentative, and eth3, which is down. Default routes are over the first two.
const network = `
wire() { ip link add "$1" type veth peer name "to-$1" && ip link set "$1" up; }
for name in eth0 eth1 eth2 eth3; do wire $name; done
echo 2 >/proc/sys/net/ipv6/conf/eth0/use_tempaddr
for name in eth0 eth1 eth3; do ip link set to-$name up; done
ip address add 10.0.0.5/24 dev eth0
ip address add 10.0.0.6/24 dev eth0
ip address add fd00::5/64 dev eth0 nodad
ip address add fd00:1::5/64 dev eth0 nodad mngtmpaddr
ip address add fd00::6/64 dev eth0 nodad preferred_lft 0 valid_lft 1000
ip address add 192.168.7.5/16 dev eth1
ip address add 2001:db8::5/64 dev eth1 nodad
ip link property add dev eth1 altname enp7s0
ip address add 169.254.9.9/16 dev eth2
ip address add fd22::5/64 dev eth2
ip address add 172.16.0.5/12 dev eth3
ip link set eth3 down
ip route add default via 192.168.7.1 dev eth1 metric 200
ip route add default via 10.0.0.1 dev eth0 metric 100
ip -6 route add default via fe80::1 dev eth0 metric 512
ip -6 route add default via fe80::1 dev eth1 metric 1024
`

// nodeIPScriptOf is the script of a host, with its file elsewhere.
func nodeIPScriptOf(t *testing.T, ip bootstrapv1.NodeIP, file string) string {
	t.Helper()
	in := minimal(bootstrapv1.Ubuntu)
	in.Spec.Kubelet.NodeIP = ip
	n, err := Describe(in)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range n.Files {
		if f.Path == nodeIPScript {
			return strings.Replace(string(f.Content), nodeIPFile, file, 1)
		}
	}
	t.Fatal("the host has no script for the addresses of the Node")
	return ""
}

func TestHostChoosesTheAddressesOfTheNode(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("not root: interfaces need a network of their own")
	}
	if out, err := exec.CommandContext(t.Context(), "unshare", "--net", "bash", "-ec", network).CombinedOutput(); err != nil {
		t.Skipf("no interfaces can be made here: %v: %s", err, out)
	}
	const unusable = "that is global and neither temporary, deprecated nor tentative"
	cases := map[string]struct {
		ip     bootstrapv1.NodeIP
		before string // changes the network
		known  string // the file of an earlier start
		want   string
		err    string
	}{
		"it takes the interface with the default route":                    {ip: bootstrapv1.NodeIP{IPFamilies: []corev1.IPFamily{v4}}, want: "10.0.0.5"},
		"it takes the other one where that has the lower metric":           {ip: bootstrapv1.NodeIP{IPFamilies: []corev1.IPFamily{v4}}, before: "ip route add default via 192.168.7.1 dev eth1 metric 50", want: "192.168.7.5"},
		"it takes a default route without a metric first":                  {ip: bootstrapv1.NodeIP{IPFamilies: []corev1.IPFamily{v4}}, before: "ip route add default dev eth1", want: "192.168.7.5"},
		"it has an address of both families in their order":                {ip: bootstrapv1.NodeIP{IPFamilies: []corev1.IPFamily{v6, v4}}, want: "fd00:1::5,10.0.0.5"},
		"it takes a named interface":                                       {ip: bootstrapv1.NodeIP{IPFamilies: []corev1.IPFamily{v4, v6}, Interfaces: []string{"eth1"}}, want: "192.168.7.5,2001:db8::5"},
		"it takes an interface by its other name":                          {ip: bootstrapv1.NodeIP{IPFamilies: []corev1.IPFamily{v4}, Interfaces: []string{"enp7s0"}}, want: "192.168.7.5"},
		"it takes the first interface that the host has":                   {ip: bootstrapv1.NodeIP{IPFamilies: []corev1.IPFamily{v4}, Interfaces: []string{"ens10", "eth1", "eth0"}}, want: "192.168.7.5"},
		"it takes an address in a subnet":                                  {ip: bootstrapv1.NodeIP{IPFamilies: []corev1.IPFamily{v4}, Subnets: []string{"192.168.0.0/16"}}, want: "192.168.7.5"},
		"it takes the first subnet in which it has one":                    {ip: bootstrapv1.NodeIP{IPFamilies: []corev1.IPFamily{v4, v6}, Subnets: []string{"10.99.0.0/16", "2001:db8::/32", "192.168.0.0/16", "10.0.0.0/8"}}, want: "192.168.7.5,2001:db8::5"},
		"it takes a further address by its subnet":                         {ip: bootstrapv1.NodeIP{IPFamilies: []corev1.IPFamily{v4}, Subnets: []string{"10.0.0.6/32"}}, want: "10.0.0.6"},
		"it takes an address of the interface in the subnet":               {ip: bootstrapv1.NodeIP{IPFamilies: []corev1.IPFamily{v6}, Interfaces: []string{"eth0"}, Subnets: []string{"fd00::/64"}}, want: "fd00::5"},
		"it works on a host without IPv6":                                  {ip: bootstrapv1.NodeIP{IPFamilies: []corev1.IPFamily{v4}}, before: "echo 1 >/proc/sys/net/ipv6/conf/all/disable_ipv6", want: "10.0.0.5"},
		"it keeps the address of an earlier start":                         {ip: bootstrapv1.NodeIP{IPFamilies: []corev1.IPFamily{v4, v6}}, known: "10.0.0.6,fd00::5", want: "10.0.0.6,fd00::5"},
		"it leaves an address that the host has no more":                   {ip: bootstrapv1.NodeIP{IPFamilies: []corev1.IPFamily{v4}}, known: "10.0.0.66", want: "10.0.0.5"},
		"it leaves an address that is deprecated":                          {ip: bootstrapv1.NodeIP{IPFamilies: []corev1.IPFamily{v6}, Subnets: []string{"fd00::/64"}}, known: "fd00::6", want: "fd00::5"},
		"it leaves an address of another interface":                        {ip: bootstrapv1.NodeIP{IPFamilies: []corev1.IPFamily{v4}, Interfaces: []string{"eth1"}}, known: "10.0.0.5", want: "192.168.7.5"},
		"it takes no deprecated address":                                   {ip: bootstrapv1.NodeIP{IPFamilies: []corev1.IPFamily{v6}, Subnets: []string{"fd00::6/128"}}, err: "the host has no IPv6 address in fd00::6/128 " + unusable},
		"it takes no temporary address":                                    {ip: bootstrapv1.NodeIP{IPFamilies: []corev1.IPFamily{v6}, Interfaces: []string{"eth0"}, Subnets: []string{"fd00:1::/64"}}, before: "ip address show dev eth0 | grep -q temporary; ip address change fd00:1::5/64 dev eth0 preferred_lft 0 valid_lft 1000", err: "the host has no IPv6 address of the interface eth0 in fd00:1::/64 " + unusable},
		"it takes no tentative address":                                    {ip: bootstrapv1.NodeIP{IPFamilies: []corev1.IPFamily{v6}, Interfaces: []string{"eth2"}}, err: "the host has no IPv6 address of the interface eth2 " + unusable},
		"it takes no link-local address":                                   {ip: bootstrapv1.NodeIP{IPFamilies: []corev1.IPFamily{v4}, Interfaces: []string{"eth2"}}, err: "the host has no IPv4 address of the interface eth2 " + unusable},
		"it takes no address of an interface that is down":                 {ip: bootstrapv1.NodeIP{IPFamilies: []corev1.IPFamily{v4}, Subnets: []string{"172.16.0.0/12"}}, err: "the host has no IPv4 address in 172.16.0.0/12 " + unusable},
		"it takes no loopback address":                                     {ip: bootstrapv1.NodeIP{IPFamilies: []corev1.IPFamily{v4}, Interfaces: []string{"lo"}}, before: "ip link set lo up", err: "the host has no IPv4 address of the interface lo " + unusable},
		"it names the interfaces that are missing":                         {ip: bootstrapv1.NodeIP{IPFamilies: []corev1.IPFamily{v4}, Interfaces: []string{"ens10", "enp8s0"}}, err: "the host has no interface ens10 enp8s0"},
		"it names the family without a default route":                      {ip: bootstrapv1.NodeIP{IPFamilies: []corev1.IPFamily{v4, v6}}, before: "ip -6 route flush default", err: "the host has no default route for IPv6"},
		"it names the family that the host does not have":                  {ip: bootstrapv1.NodeIP{IPFamilies: []corev1.IPFamily{v4, v6}, Interfaces: []string{"eth1"}}, before: "echo 1 >/proc/sys/net/ipv6/conf/all/disable_ipv6", err: "the host has no IPv6 address of the interface eth1 " + unusable},
		"it does not take a route that is none for a default route":        {ip: bootstrapv1.NodeIP{IPFamilies: []corev1.IPFamily{v6}}, before: "ip -6 route flush default; ip -6 route add unreachable default", err: "the host has no default route for IPv6"},
		"it takes the first interface of a default route over two of them": {ip: bootstrapv1.NodeIP{IPFamilies: []corev1.IPFamily{v4}}, before: "ip route add default nexthop via 192.168.7.1 dev eth1 nexthop via 10.0.0.1 dev eth0", want: "192.168.7.5"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			file := filepath.Join(t.TempDir(), "drover", "node-ip.env")
			if c.known != "" {
				must(t, os.Mkdir(filepath.Dir(file), 0o755))
				must(t, os.WriteFile(file, []byte("DROVER_NODE_IP=--node-ip="+c.known+"\n"), 0o644))
			}
			script := filepath.Join(t.TempDir(), "node-ip.sh")
			must(t, os.WriteFile(script, []byte(nodeIPScriptOf(t, c.ip, file)), 0o755))
			out, err := exec.CommandContext(t.Context(), "unshare", "--net", "bash", "-ec", network+c.before+"\n exec "+script).CombinedOutput()
			if c.err != "" {
				if got, want := string(out), "bootstrap: spec.kubelet.nodeIP: "+c.err+"\n"; err == nil || got != want {
					t.Errorf("%v, %q, want %q", err, got, want)
				}
				return
			}
			if err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			got, err := os.ReadFile(file)
			must(t, err)
			if diff := cmp.Diff("DROVER_NODE_IP=--node-ip="+c.want+"\n", string(got)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// recordedIP answers as ip of iproute2 6.1 did on a host with addresses by DHCP and router advertisements.
const recordedIP = `
ip() {
  case "$*" in
    '-o -4 route show default') echo 'default via 10.0.0.1 dev ens3 proto dhcp src 10.0.0.5 metric 100 ' ;;
    '-o -6 route show default') echo 'default via fe80::1 dev ens3 proto ra metric 100 expires 1790sec mtu 1500 pref medium' ;;
    '-o -4 address show up scope global dev ens3') echo '2: ens3    inet 10.0.0.5/24 metric 100 brd 10.0.0.255 scope global dynamic ens3\       valid_lft 85857sec preferred_lft 85857sec' ;;
    '-o -6 address show up scope global dev ens3')
      echo '2: ens3    inet6 fd00::1:9c5e/64 scope global temporary dynamic \       valid_lft 6000sec preferred_lft 3000sec'
      echo '2: ens3    inet6 fd00::a/64 scope global tentative dynamic mngtmpaddr noprefixroute \       valid_lft 6000sec preferred_lft 3000sec'
      echo '2: ens3    inet6 fd00::b/64 scope global dadfailed tentative noprefixroute \       valid_lft forever preferred_lft forever'
      echo '2: ens3    inet6 fd00::5/128 scope global dynamic noprefixroute \       valid_lft 6000sec preferred_lft 3000sec' ;;
    *) return 1 ;;
  esac
}
`

func TestHostReadsWhatIPWrites(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "node-ip.env")
	out, err := bash(t, recordedIP+nodeIPScriptOf(t, bootstrapv1.NodeIP{IPFamilies: []corev1.IPFamily{v4, v6}}, file))
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	got, err := os.ReadFile(file)
	must(t, err)
	if diff := cmp.Diff("DROVER_NODE_IP=--node-ip=10.0.0.5,fd00::5\n", string(got)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestHostWithoutIPSaysSo(t *testing.T) {
	t.Parallel()
	script := nodeIPScriptOf(t, bootstrapv1.NodeIP{IPFamilies: []corev1.IPFamily{v4}}, filepath.Join(t.TempDir(), "node-ip.env"))
	out, err := bash(t, "PATH=\n"+strings.Replace(script, "export PATH=$PATH:/usr/sbin:/sbin\n", "", 1))
	if want := "bootstrap: spec.kubelet.nodeIP: the host has no program ip: install iproute2\n"; err == nil || out != want {
		t.Errorf("%v, %q, want %q", err, out, want)
	}
}

// TestBootstrapWaitsForTheAddressesOfTheNode runs the step with a script that finds them at the third time, or never.
func TestBootstrapWaitsForTheAddressesOfTheNode(t *testing.T) {
	t.Parallel()
	in := minimal(bootstrapv1.Ubuntu)
	in.Spec.Kubelet.NodeIP.IPFamilies = []corev1.IPFamily{v4}
	n, err := Describe(in)
	must(t, err)
	all := string(n.script())
	before, after, found := strings.Cut(all, "report Running NodeIP\n")
	part, _, ends := strings.Cut(after, "report Running Services\n")
	if !found || !ends || strings.Contains(before, "kubelet.service") {
		t.Fatalf("the step is not before the services:\n%s", all)
	}
	const retried = "drover-bootstrap: state=Running step=NodeIP\nno address\ndrover-bootstrap: state=Retrying step=NodeIP\nsleep 1\nno address\n"
	for name, c := range map[string]struct{ pause, want string }{
		"it finds them at last":         {"", retried + "drover-bootstrap: state=Retrying step=NodeIP\nsleep 2\nfound\n"},
		"it reports what was not found": {"passed=5800", retried + "drover-bootstrap: state=Failed step=NodeIP\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			script := filepath.Join(t.TempDir(), "node-ip.sh")
			must(t, os.WriteFile(script, []byte("#!/bin/bash\necho x >>$0.runs\nif [ $(wc -l <$0.runs) -lt 3 ]; then echo 'no address' >&2; exit 1; fi\n"), 0o755))
			out, err := bash(t, reportFunction+clock+"sleep() { echo sleep $1 >&2; "+c.pause+"\n}\nreport Running NodeIP\n"+strings.Replace(part, nodeIPScript, script, 1)+"echo found\n")
			if out != c.want || (err != nil) != (c.pause != "") {
				t.Errorf("%v (-want +got):\n%s", err, cmp.Diff(c.want, out))
			}
		})
	}
}

func TestKubeletStartsWithTheAddressesOfTheNode(t *testing.T) {
	t.Parallel()
	for _, method := range []bootstrapv1.JoinMethod{bootstrapv1.JoinKubeletTLSBootstrap, bootstrapv1.JoinKubeadm} {
		in := minimal(bootstrapv1.Flatcar)
		in.Spec.Join.Method = method
		in.Spec.Kubelet.NodeIP.IPFamilies = []corev1.IPFamily{v4}
		n, err := Describe(in)
		must(t, err)
		for _, u := range n.Units {
			if u.Name != kubeletUnit {
				continue
			}
			for _, want := range []string{"ExecStartPre=/opt/drover/node-ip.sh\nEnvironmentFile=-/var/lib/drover/node-ip.env\nExecStart=", " \\\n  $DROVER_NODE_IP\nEnvironmentFile="} {
				if !strings.Contains(u.Content, want) {
					t.Errorf("%s: the unit has no %q:\n%s", method, want, u.Content)
				}
			}
		}
	}
}

func TestNodeIPThatIsNoneIsRefused(t *testing.T) {
	t.Parallel()
	both := []corev1.IPFamily{v4, v6}
	for name, c := range map[string]struct {
		kubelet bootstrapv1.Kubelet
		field   string
	}{
		"no family":                   {bootstrapv1.Kubelet{NodeIP: bootstrapv1.NodeIP{Interfaces: []string{"eth0"}}}, "spec.kubelet.nodeIP.ipFamilies"},
		"another family":              {bootstrapv1.Kubelet{NodeIP: bootstrapv1.NodeIP{IPFamilies: []corev1.IPFamily{"4"}}}, "spec.kubelet.nodeIP.ipFamilies"},
		"the same family twice":       {bootstrapv1.Kubelet{NodeIP: bootstrapv1.NodeIP{IPFamilies: []corev1.IPFamily{v4, v4}}}, "spec.kubelet.nodeIP.ipFamilies"},
		"a command":                   {bootstrapv1.Kubelet{NodeIP: bootstrapv1.NodeIP{IPFamilies: both, Interfaces: []string{"eth0", "$(reboot)"}}}, "spec.kubelet.nodeIP.interfaces[1]"},
		"an option":                   {bootstrapv1.Kubelet{NodeIP: bootstrapv1.NodeIP{IPFamilies: both, Interfaces: []string{"-all"}}}, "spec.kubelet.nodeIP.interfaces[0]"},
		"an address":                  {bootstrapv1.Kubelet{NodeIP: bootstrapv1.NodeIP{IPFamilies: both, Subnets: []string{"10.0.0.1"}}}, "spec.kubelet.nodeIP.subnets[0]"},
		"an address in its subnet":    {bootstrapv1.Kubelet{NodeIP: bootstrapv1.NodeIP{IPFamilies: both, Subnets: []string{"10.0.0.1/8"}}}, "spec.kubelet.nodeIP.subnets[0]"},
		"a subnet of IPv4 in IPv6":    {bootstrapv1.Kubelet{NodeIP: bootstrapv1.NodeIP{IPFamilies: both, Subnets: []string{"::ffff:10.0.0.0/104"}}}, "spec.kubelet.nodeIP.subnets[0]"},
		"no subnet of a family":       {bootstrapv1.Kubelet{NodeIP: bootstrapv1.NodeIP{IPFamilies: both, Subnets: []string{"10.0.0.0/8"}}}, "spec.kubelet.nodeIP.subnets"},
		"a subnet of another family":  {bootstrapv1.Kubelet{NodeIP: bootstrapv1.NodeIP{IPFamilies: []corev1.IPFamily{v4}, Subnets: []string{"10.0.0.0/8", "fd00::/8"}}}, "spec.kubelet.nodeIP.subnets"},
		"the flag of the kubelet too": {bootstrapv1.Kubelet{NodeIP: bootstrapv1.NodeIP{IPFamilies: both}, ExtraArgs: map[string]string{"node-ip": "::"}}, "spec.kubelet.extraArgs[node-ip]"},
	} {
		in := minimal(bootstrapv1.Ubuntu)
		in.Spec.Kubelet = c.kubelet
		_, err := Describe(in)
		if refused, is := errors.AsType[*InvalidError](err); !is || refused.Field != c.field {
			t.Errorf("%s: err = %v, want an InvalidError for %s", name, err, c.field)
		}
	}
}
