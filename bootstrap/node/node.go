// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"fmt"
	"io/fs"
	"regexp"
	"strings"

	bootstrapv1 "drover.io/api/bootstrap/v1alpha1"
)

// Node is everything that a host must have and do to become a Node.
type Node struct {
	// Hostname is the name to give the host; empty keeps the name that the infrastructure gives it.
	Hostname string

	// Users are the users to create.
	Users []User

	// Disks are the disks to give a file system and to mount, parents first.
	Disks []Disk

	// Files are the files to write, those of the operator last.
	Files []File

	// Units are the systemd units to write or change.
	Units []Unit

	// Modules are the kernel modules to load, now and at each boot.
	Modules []string

	// Sysctls are the kernel parameters to set, now and at each boot, in order.
	Sysctls []Sysctl

	// Downloads are the binaries to fetch and verify, in order.
	Downloads []Download

	// Version is the version of Kubernetes that the host should run; empty is not checked.
	Version string

	// Setup are shell commands that prepare the host, before everything else: packages, and what the operating system needs.
	Setup []string

	// TimeServices are units that synchronise the clock. The first that the host has is enabled and restarted before the
	// others; it is an error if the host has none. Empty leaves the clock to the image.
	TimeServices []string

	// Services are the units to enable and start, in order.
	Services []string

	// PreCommands and PostCommands are the operator's commands before and after the services start.
	PreCommands, PostCommands []string

	// subscription registers the host before packages are installed; nil does not.
	subscription *subscription

	// kubelet is the path of the kubelet.
	kubelet string

	// metadata is the file with the variables in which the kubelet's command line has instance metadata.
	metadata  string
	variables []string

	// kubeadm is the path of the kubeadm that joins; empty leaves that to the kubelet.
	kubeadm string
}

// File is a file on the host.
type File struct {
	Path    string
	Owner   string // user or user:group; empty is root:root
	Mode    fs.FileMode
	Content []byte

	// Jinja is true where the content has jinja expressions that cloud-init evaluates.
	Jinja bool
}

// Staged is where cloud-init writes a file that the script copies to its path later: one that users and packages may own, which
// exist by then, and one below /tmp, which the reboot after an upgrade may empty. It is empty for other files.
func (f File) Staged() string {
	if (f.Owner == "" || f.Owner == "root" || f.Owner == "root:root") && !strings.HasPrefix(f.Path, "/tmp/") {
		return ""
	}
	return stagedFolder + f.Path
}

// Unit is a systemd unit, or drop-ins for one that the image has.
type Unit struct {
	Name    string
	Content string // empty: the image has the unit
	DropIns []DropIn

	// Enabled is true where the unit starts at each boot, before and without the script.
	Enabled bool

	// Jinja is true where the content has jinja expressions that cloud-init evaluates.
	Jinja bool
}

// DropIn changes a unit.
type DropIn struct {
	Name    string
	Content string
}

// Sysctl is a kernel parameter.
type Sysctl struct {
	Name, Value string
}

// User is a user on the host.
type User struct {
	Name              string
	Groups            []string
	Sudo              string
	Shell             string
	SSHAuthorizedKeys []string
}

// InvalidError means that a field of the spec cannot be made into a Node. Its text never holds the value of a
// field that may be secret.
type InvalidError struct {
	Field  string // as in spec.files[2].content
	Detail string // what is wrong and what would be right
}

// Error names the field and what is wrong with it.
func (e *InvalidError) Error() string { return e.Field + ": " + e.Detail }

func invalid(field, format string, args ...any) error {
	return &InvalidError{Field: field, Detail: fmt.Sprintf(format, args...)}
}

// Input is all that a Node is described from.
type Input struct {
	Spec *bootstrapv1.BootstrapConfigSpec

	// Secrets are the values that the spec refers to.
	Secrets map[bootstrapv1.SecretKeyReference][]byte

	// MachineName is the name of the Machine.
	MachineName string

	// Version is the version of Kubernetes that the Machine should run; may be empty.
	Version string

	// Endpoint is the host and port of the API server as spec.controlPlaneEndpoint of the Cluster has it.
	Endpoint string

	// TLSServerName is what the certificate of the API server is checked against; empty is the endpoint's host.
	TLSServerName string

	// CA is the PEM bundle that the API server's certificate is verified with.
	CA []byte

	// Token is the bootstrap token.
	Token string

	// ServiceCIDR is the first service range of the Cluster, ClusterDomain its DNS domain; both may be empty.
	ServiceCIDR, ClusterDomain string
}

// kubernetesVersion is a semantic version, with what vendors add to it.
var kubernetesVersion = regexp.MustCompile(`^v?[0-9]+\.[0-9]+\.[0-9]+([-+][0-9A-Za-z.-]+)*$`)

// maxHostname is how long the label kubernetes.io/hostname of a Node may be.
const maxHostname = 63

// Describe returns what the host must have. An error is an *InvalidError that names the field to change.
func Describe(in Input) (*Node, error) {
	if in.Version != "" && !kubernetesVersion.MatchString(in.Version) {
		return nil, invalid("Machine.spec.version", "must be a version of Kubernetes such as v1.36.3")
	}
	if err := checkKubeletConfigurationSize(in.Spec); err != nil {
		return nil, err
	}
	if err := checkText(in.Spec); err != nil {
		return nil, err
	}
	os, err := distributionOf(in.Spec)
	if err != nil {
		return nil, err
	}
	if err := checkArchitectures(in.Spec.Binaries); err != nil {
		return nil, err
	}
	n := &Node{
		Version:      in.Version,
		Users:        users(in.Spec.Users),
		Modules:      []string{"overlay", "br_netfilter"},
		Sysctls:      sysctls(),
		Downloads:    downloads(in.Spec.Binaries),
		Setup:        os.setup,
		Services:     []string{"containerd.service", kubeletUnit},
		PreCommands:  in.Spec.PreCommands,
		PostCommands: in.Spec.PostCommands,
	}
	if in.Spec.Hostname == bootstrapv1.HostnameFromMachine {
		if len(in.MachineName) > maxHostname {
			return nil, invalid("spec.hostname", "the name of the Machine has more than %d characters, which no Node can have as its host name: use a shorter one", maxHostname)
		}
		n.Hostname = in.MachineName
	}
	for _, part := range []func(*Node, distribution, Input) error{
		addDisks,      // file systems and mounts
		addTrust,      // CA file and bootstrap kubeconfig
		addKubeadm,    // or what kubeadm join needs instead
		addKubelet,    // KubeletConfiguration and unit
		addNodeIP,     // the addresses of the Node
		addServerName, // what the kubelet's own kubeconfig lacks
		addContainerd, // config.toml, mirrors
		addRegistryCredentials,
		addCredentialProviders,
		addProxy,      // environment of the services
		addTime,       // time servers
		addNetworkd,   // what systemd-networkd leaves alone
		addTrustedCAs, // the operator's certificate authorities
		addHealthCheck,
		addOwn,      // what only this operating system has
		addFiles,    // the operator's files, last: they may not replace others
		addPackages, // what the script does first, with these files
	} {
		if err := part(n, os, in); err != nil {
			return nil, err
		}
	}
	return n, nil
}

// sysctls are what the kubelet demands under protectKernelDefaults, and what pod networking needs.
func sysctls() []Sysctl {
	return []Sysctl{
		{"net.bridge.bridge-nf-call-iptables", "1"},
		{"net.bridge.bridge-nf-call-ip6tables", "1"},
		{"net.ipv4.ip_forward", "1"},
		{"net.ipv6.conf.all.forwarding", "1"},
		{"vm.overcommit_memory", "1"},
		{"vm.panic_on_oom", "0"},
		{"kernel.panic", "10"},
		{"kernel.panic_on_oops", "1"},
		{"fs.inotify.max_user_watches", "1048576"},
		{"fs.inotify.max_user_instances", "8192"},
	}
}

func users(in []bootstrapv1.User) []User {
	out := make([]User, 0, len(in))
	for _, u := range in {
		shell := u.Shell
		if shell == "" {
			shell = "/bin/bash"
		}
		out = append(out, User{u.Name, u.Groups, u.Sudo, shell, u.SSHAuthorizedKeys})
	}
	return out
}

// hasJinja reports whether a value of the spec refers to the instance's metadata.
func hasJinja(s string) bool {
	return strings.Contains(s, "{{") || strings.Contains(s, "{%") || strings.Contains(s, "{#")
}
