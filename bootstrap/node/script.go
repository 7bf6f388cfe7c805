// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"fmt"
	"path"
	"strings"

	"drover.io/bootstrap/node/quote"
)

// Files that are the same on all operating systems. See the package comment.
const (
	scriptFolder = "/opt/drover"
	modulesFile  = "/etc/modules-load.d/drover.conf"
	sysctlFile   = "/etc/sysctl.d/99-drover.conf"

	unitFolder = "/etc/systemd/system/"

	// metadataUnit writes the instance's metadata into a file, where the format has no expressions.
	metadataUnit = "coreos-metadata.service"

	// BootstrapUnit runs ScriptFile once, where the format has no commands of its own.
	BootstrapUnit = "drover-bootstrap.service"

	// ScriptFile runs all steps in order.
	ScriptFile = scriptFolder + "/bootstrap.sh"

	// SuccessFile is written by the last step, as the Cluster API contract demands.
	SuccessFile = "/run/cluster-api/bootstrap-success.complete"
)

// AllFiles are the files of the Node with those that its modules, sysctls and commands become.
func (n *Node) AllFiles() []File {
	files := append([]File(nil), n.Files...)
	var sysctl strings.Builder
	for _, s := range n.Sysctls {
		sysctl.WriteString(s.Name + " = " + s.Value + "\n")
	}
	files = append(files,
		File{Path: modulesFile, Mode: 0o644, Content: []byte(strings.Join(n.Modules, "\n") + "\n")},
		File{Path: sysctlFile, Mode: 0o644, Content: []byte(sysctl.String())},
	)
	for i, command := range n.PreCommands {
		files = append(files, commandFile("pre", i, command))
	}
	for i, command := range n.PostCommands {
		files = append(files, commandFile("post", i, command))
	}
	return append(files, File{Path: ScriptFile, Mode: 0o700, Content: n.script()})
}

// commandFile gives each command a file of its own: an unclosed quote in one cannot affect the next. Commands
// may hold secrets, so only root may read them.
func commandFile(when string, i int, command string) File {
	return File{Path: commandPath(when, i), Mode: 0o700, Content: []byte("#!/bin/bash\nset -euo pipefail\n" + command + "\n")}
}

func commandPath(when string, i int) string {
	return fmt.Sprintf("%s/%s-%02d.sh", scriptFolder, when, i)
}

// script turns the written files into a running Node. A line that fails ends it, and without the success file the Machine
// has failed.
func (n *Node) script() []byte {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	step := func(name string) { line("report Running %s", name) }
	line("#!/bin/bash")
	line("set -euo pipefail")
	line("%s", reportFunction)
	line("export PATH=/opt/bin:$PATH")
	if n.hasFile(proxyFile) {
		line("set -a; . %s; set +a", proxyFile)
	}
	if len(n.Setup) > 0 {
		step("OperatingSystem") // first: it installs kernel modules that the image lacks
	}
	for _, command := range n.Setup {
		line("%s", command)
	}
	step("System")
	line("modprobe -a %s", strings.Join(n.Modules, " "))
	line("[ -e /proc/sys/net/ipv6 ] || sed -i '/^net[.]ipv6[.]/d' %s", sysctlFile) // a kernel may be without
	line("sysctl --quiet --load %s", sysctlFile)
	line("swapoff -a")
	line("systemctl mask --quiet swap.target")
	if len(n.Disks) > 0 {
		step("Disks")
	}
	n.writeMounts(line)
	if len(n.Downloads) > 0 {
		step("Downloads")
	}
	n.writeDownloads(line)
	for i := range n.PreCommands {
		step(fmt.Sprintf("preCommands[%d]", i))
		line("%s", commandPath("pre", i))
	}
	n.writeNodeIP(line)
	step("Services")
	n.writeMetadataCheck(line)
	n.writeKubeletCheck(line)
	if n.kubeadm != "" {
		line("if ! [ -x %s ]; then echo 'bootstrap: there is no %s: use an image that has it, or spec.binaries.kubeadm' >&2; exit 1; fi", n.kubeadm, n.kubeadm)
	}
	line("mkdir -p /etc/cni/net.d /opt/cni/bin")
	line("systemctl daemon-reload")
	n.writeTimeService(line)
	for _, service := range n.Services {
		line("systemctl enable --quiet %s", service)
		if service == kubeletUnit { // last: what starts it besides, such as its own Restart=, would be interrupted
			line("mkdir -p %s", path.Dir(preparedFile))
			line("touch %s", preparedFile)
		}
		if service == kubeletUnit && n.kubeadm != "" {
			step("Join")
			n.writeJoin(line)
			continue
		}
		line("systemctl restart %s", service)
	}
	for i := range n.PostCommands {
		step(fmt.Sprintf("postCommands[%d]", i))
		line("%s", commandPath("post", i))
	}
	line("mkdir -p %s", SuccessFile[:strings.LastIndex(SuccessFile, "/")])
	line("echo success > %s", SuccessFile)
	line("report Succeeded All")
	return []byte(b.String())
}

// writeJoin joins by kubeadm, which starts the kubelet when that has its configuration. A second run, after a reboot in between,
// must not join again.
func (n *Node) writeJoin(line func(string, ...any)) {
	if n.hasFile(serverNameScript) {
		// kubeadm before 1.34 connects with the kubeconfig of the kubelet as soon as the kubelet has its certificate. A kubelet that
		// is restarted before writes it again.
		line("while kill -0 $$ && ! [ -e %s ]; do sleep 0.2; grep --quiet 'tls-server-name:' %s || %s || true; done </dev/null >/dev/null 2>&1 &", joinedFile, kubeletKubeconfig, serverNameScript)
	}
	line("[ -e %s ] || %s join --config %s", joinedFile, n.kubeadm, joinFile)
	line("touch %s", joinedFile)
}

// reportFunction writes the state of the bootstrap to the console, in lines that a provider of infrastructure reads there:
// docs/contracts/console.md. The last line of a bootstrap that ends is Succeeded or Failed. With it is the clock of all steps.
const reportFunction = `step=System
report() { # state, step
  step=$2
  echo "drover-bootstrap: state=$1 step=$2" >&2
}
now() { # seconds since the boot, which do not jump when the clock is set
  local uptime
  read -r uptime _ </proc/uptime
  echo "${uptime%.*}"
}
trap 'echo "bootstrap: line $LINENO ended with status $?" >&2' ERR
trap '[ $? = 0 ] || report Failed "$step"' EXIT`

// writeKubeletCheck fails where there is no kubelet, which systemd would not report, and warns of one that is not of the
// version of the Machine. It may still be the right one: vendors add to the version.
func (n *Node) writeKubeletCheck(line func(string, ...any)) {
	if n.kubelet == "" {
		return
	}
	line("if ! [ -x %s ]; then echo 'bootstrap: there is no %s: use an image that has it, or spec.binaries.kubelet' >&2; exit 1; fi", n.kubelet, n.kubelet)
	if n.Version != "" {
		line("installed=$(%s --version)", n.kubelet)
		line("[ \"$installed\" = %s ] || echo \"bootstrap: the version of the Machine is\" %s\", that of the kubelet: $installed\" >&2", quote.Shell("Kubernetes "+n.Version), quote.Shell(n.Version))
	}
}

// writeMetadataCheck ends the bootstrap where an expression or a variable named metadata that the instance does not have:
// cloud-init writes a text in its place that no Machine could ever be known by, and systemd nothing.
func (n *Node) writeMetadataCheck(line func(string, ...any)) {
	if len(n.variables) > 0 {
		line("systemctl start %s || true", metadataUnit) // writes the file, which may have another author
	}
	for _, v := range n.variables {
		name := strings.Trim(v, "${}")
		line("if ! grep --quiet '^%s=.' %s; then echo 'bootstrap: %s has no %s: change spec.kubelet.providerID or hostnameOverride' >&2; exit 1; fi", name, n.metadata, n.metadata, name)
	}
	var templates []string
	for _, f := range n.Files {
		if f.Jinja {
			templates = append(templates, f.Path)
		}
	}
	for _, u := range n.Units {
		if u.Jinja {
			templates = append(templates, unitFolder+u.Name)
		}
	}
	for _, file := range templates {
		line("if grep --only-matching 'CI_MISSING_JINJA_VAR/[^ \"]*' %s >&2; then echo 'bootstrap: the instance has no such metadata: change spec.kubelet.providerID or hostnameOverride' >&2; exit 1; fi", file)
	}
}

func (n *Node) hasFile(path string) bool {
	for _, f := range n.Files {
		if f.Path == path {
			return true
		}
	}
	return false
}

// fetchFunction downloads a file. What can pass, such as a server that does not answer, is tried again for 30 minutes, with
// pauses of 1 to 32 seconds.
const fetchFunction = `case $(uname -m) in
  x86_64) arch=amd64 ;;
  aarch64) arch=arm64 ;;
  *) arch=$(uname -m) ;;
esac
fetch() { # URL, SHA-256, file: nothing unverified is ever put in place
  local code wait=1 end=$(($(now) + 1800))
  mkdir -p "${3%/*}"
  until code=$(curl --fail --location --silent --show-error --connect-timeout 10 --speed-limit 1024 --speed-time 60 --globoff --write-out '%{http_code}' --output "$3.part" --url "$1"); do
    case $code in
      408 | 429) ;;
      4??) echo "bootstrap: $1: the server answers $code, which does not pass" >&2; return 1 ;;
    esac
    if [ "$(now)" -ge "$end" ]; then echo "bootstrap: $1 was not downloaded within 30 minutes" >&2; return 1; fi
    report Retrying Downloads
    sleep $wait
    wait=$((wait < 30 ? wait * 2 : wait))
  done
  if ! echo "$2  $3.part" | sha256sum --check --status; then
    rm -f "$3.part"
    echo "bootstrap: $1 does not have the checksum sha256:$2" >&2
    return 1
  fi
  mv "$3.part" "$3"
}`

func (n *Node) writeDownloads(line func(string, ...any)) {
	if len(n.Downloads) == 0 {
		return
	}
	line("%s", fetchFunction)
	for _, d := range n.Downloads {
		target := quote.Shell(d.Target)
		file := target
		if d.Unpack {
			file = quote.Shell(scriptFolder + "/" + d.Name + ".tgz")
		}
		line("case $arch in")
		for _, s := range d.Sources {
			line("  %s) fetch %s %s %s ;;", quote.Shell(s.Architecture), quote.Shell(s.URL), quote.Shell(s.SHA256), file)
		}
		line("  *) echo \"bootstrap: no\" %s \"is configured for $arch\" >&2; exit 1 ;;", quote.Shell(d.Name))
		line("esac")
		if d.Unpack {
			// Three lines: set -e ignores what fails before the last &&.
			line("mkdir -p %s", target)
			line("tar -xzf %s -C %s --no-same-owner", file, target)
			line("rm %s", file)
			continue
		}
		line("chmod 0755 %s", file)
	}
}
