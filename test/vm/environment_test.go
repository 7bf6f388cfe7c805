// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package vm_test

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"drover.io/test/controlplane/binaries"
	"drover.io/test/framework"
	"drover.io/test/process"
	"drover.io/test/vm"
	"drover.io/test/workflow"
)

// environment is a stack whose machines are real.
type environment struct {
	t     *testing.T
	stack *framework.Stack
	began time.Time
	// root is the repository, guest what guest.sh made, machines where the provider keeps its state.
	root, guest, machines string
	artifacts             *vm.ArtifactServer
	// process is the number of the virtual machine's process before its provider was killed.
	process string
	// container is the machine where it is one.
	container *vm.Container
}

// packages are Debian's for programs of other names.
var packages = map[string]string{"systemd-nspawn": "systemd-container", "qemu-system-x86_64": "qemu-system-x86", "qemu-img": "qemu-utils", "ip": "iproute2"}

// require skips the test unless it is enabled, fails it where it cannot run, and returns the folder of the guest.
func require(t *testing.T, variable string, programs ...string) (root, guest string) {
	t.Helper()
	if os.Getenv(variable) == "" {
		t.Skipf("it takes minutes and needs root: set %s=1, or run it by make", variable)
	}
	if os.Getuid() != 0 {
		t.Fatal("it needs root")
	}
	for _, name := range programs {
		if _, err := exec.LookPath(name); err != nil {
			t.Fatalf("there is no %s here: apt-get install %s", name, cmp.Or(packages[name], name))
		}
	}
	root, err := binaries.Root()
	if err != nil {
		t.Fatal(err)
	}
	guest = filepath.Join(root, "bin", "guest")
	for _, file := range []string{"guest/recipe", "guest/containerd.tgz", "k8s/kubelet", "k8s/kubeadm", "ignition"} {
		if _, err := os.Stat(filepath.Join(root, "bin", file)); err != nil {
			t.Fatalf("there is no bin/%s: run it by make, which makes it", file)
		}
	}
	return root, guest
}

func newEnvironment(ctx context.Context, t *testing.T, root, guest string) *environment {
	t.Helper()
	l := &environment{t: t, began: time.Now(), root: root, guest: guest}
	dir, err := os.MkdirTemp("", "drover-vm-") // short enough for a socket
	if err != nil {
		t.Fatal(err)
	}
	l.machines = filepath.Join(dir, "machines")
	disks, err := flatcarDisks(root, dir)
	if err != nil {
		t.Fatal(err)
	}
	if l.artifacts, err = vm.StartArtifactServer(map[string]string{
		"kubelet":         filepath.Join(root, "bin", "k8s", "kubelet"),
		"kubeadm":         filepath.Join(root, "bin", "k8s", "kubeadm"),
		"cni-plugins.tgz": filepath.Join(guest, "cni-plugins.tgz"),
		"containerd.tgz":  filepath.Join(guest, "containerd.tgz"),
		// For disks.sh, with Ignition itself.
		"disks.sh":          filepath.Join(root, "test/vm/fixture/disks.sh"),
		"ignition":          filepath.Join(root, "bin", "ignition"),
		"flatcar-disks.ign": disks,
	}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.artifacts.Stop)
	if l.stack, err = framework.Start(ctx, framework.Options{Dir: dir, Without: []string{"infra-sim"}, Clouds: []string{"qemu"}}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			for _, m := range l.stack.Managers() {
				t.Log(m.Tail())
			}
		}
		if err := l.stack.Stop(); err != nil {
			t.Error(err)
		}
		l.endMachines()
		if !t.Failed() {
			if err := os.RemoveAll(dir); err != nil {
				t.Error(err)
			}
		}
	})
	l.step("control planes and managers run")
	return l
}

// endMachines ends the virtual machines that a failed test leaves: they run without their provider.
func (l *environment) endMachines() {
	l.t.Helper()
	files, _ := filepath.Glob(filepath.Join(l.machines, "machines", "*", "qemu.pid"))
	for _, file := range files {
		content, err := os.ReadFile(file)
		l.must(err)
		pid, err := strconv.Atoi(strings.TrimSpace(string(content)))
		l.must(err)
		if err := unix.Kill(pid, unix.SIGKILL); err != nil && !errors.Is(err, unix.ESRCH) {
			l.t.Error(err)
		}
	}
}

// launch runs the qemu provider under the permissions that it is shipped with.
func (l *environment) launch(ctx context.Context, args ...string) {
	l.t.Helper()
	files, err := filepath.Glob(filepath.Join(l.root, "infra-providers/config/rbac/qemu/*.yaml"))
	if err != nil || len(files) == 0 {
		l.t.Fatalf("no permissions of infra-qemu: %v", err)
	}
	for _, file := range files {
		if filepath.Base(file) == "kustomization.yaml" {
			continue
		}
		documents, err := os.ReadFile(file)
		if err != nil {
			l.t.Fatal(err)
		}
		l.must(framework.Apply(ctx, l.stack.ManagementClient, documents))
	}
	kubeconfig, err := l.stack.ServiceAccountKubeconfig(ctx, "infra-qemu", framework.Namespace, "drover-infra-qemu")
	l.must(err)
	_, err = l.stack.Launch("infra-qemu", process.Command{Path: filepath.Join(l.root, "bin", "infra-qemu"), Args: append([]string{
		"--kubeconfig=" + kubeconfig, "--metrics-bind-address=0", "--health-probe-bind-address=0", "--leader-elect=false",
		"--state-dir=" + l.machines, "--image-dir=" + l.guest, "--host-name=lab", "--own-credentials-namespaces=*",
	}, args...)})
	l.must(err)
}

// choice has the values of the manifests that differ between tests.
type choice struct {
	// Container is for a machine that is a container, Ignition for Flatcar's format, Kubeadm for a join by it, and Profile
	// for binaries by a NodeProfile, on Debian.
	Container, Ignition, Kubeadm, Profile bool
	// Checksum is that of the kubelet; empty is the right one.
	Checksum string
}

// begin applies the kubeconfig Secret and the manifests.
func (l *environment) begin(ctx context.Context, chosen choice) {
	l.t.Helper()
	kubeconfig, err := l.stack.Workload.Kubeconfig("drover", "drover:managers")
	l.must(err)
	l.must(l.stack.ManagementClient.Create(ctx, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "demo-kubeconfig", Labels: map[string]string{clusterv1.ClusterNameLabel: "demo"}},
		Type:       clusterv1.ClusterSecretType,
		Data:       map[string][]byte{"value": kubeconfig},
	}))
	host, port := l.stack.Workload.Endpoint()
	documents, err := vm.Machine{
		Host: host, Port: port, Artifacts: l.artifacts, Version: workflow.Kubernetes, Acceleration: cmp.Or(os.Getenv("DROVER_E2E_ACCELERATION"), "Auto"),
		Container: chosen.Container, Ignition: chosen.Ignition, Kubeadm: chosen.Kubeadm, Profile: chosen.Profile, Disks: !chosen.Container,
		Checksum: cmp.Or(chosen.Checksum, l.artifacts.Checksums["kubelet"]),
	}.Manifests()
	l.must(err)
	l.must(framework.Apply(ctx, l.stack.ManagementClient, documents))
	l.began = time.Now()
}

func (l *environment) must(err error) {
	l.t.Helper()
	if err != nil {
		l.t.Fatal(err)
	}
}

// step prints the time since the machine was requested.
func (l *environment) step(what string) { l.t.Logf("%6.1fs  %s", time.Since(l.began).Seconds(), what) }

// await polls until nothing is missing, and logs that.
func (l *environment) await(ctx context.Context, what string, missing func(context.Context) (string, error)) {
	l.t.Helper()
	var last string
	err := wait.PollUntilContextCancel(ctx, 200*time.Millisecond, true, func(ctx context.Context) (bool, error) {
		for _, m := range l.stack.Managers() {
			if err := m.Err(); err != nil {
				return false, err
			}
		}
		if l.container != nil && l.container.Err() != nil {
			return false, l.container.Err()
		}
		seen, err := missing(ctx)
		if err != nil {
			seen = err.Error()
		}
		last = seen
		return seen == "", nil
	})
	if err != nil {
		l.t.Fatalf("waiting until %s: %v (%s)%s", what, err, last, l.consoles())
	}
	l.step(what)
}

// logs are what the machines themselves write.
func (l *environment) logs() []string {
	logs, _ := filepath.Glob(filepath.Join(l.machines, "machines", "*", "console.log"))
	if l.container != nil {
		logs = append(logs, l.container.Log)
		if log := filepath.Join(l.container.Root, "var/log/cloud-init-output.log"); exists(log) {
			logs = append(logs, log)
		}
	}
	return logs
}

// consoles is the end of the machines' consoles.
func (l *environment) consoles() string {
	output := ""
	for _, log := range l.logs() {
		output += fmt.Sprintf("\nconsole%s", process.Tail(log))
	}
	return output
}

// failed reports whether a step of a machine's bootstrap failed: no Node will come.
func (l *environment) failed() bool {
	return slices.ContainsFunc(l.logs(), func(log string) bool {
		content, err := os.ReadFile(log)
		return err == nil && bytes.Contains(content, []byte("drover-bootstrap: state=Failed "))
	})
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
