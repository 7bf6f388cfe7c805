// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package vm_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "drover.io/api/infrastructure/v1alpha1"
	"drover.io/test/vm"
)

// containerTimeout bounds the lifecycle of a container on a busy host.
const containerTimeout = 15 * time.Minute

// provider is what the tests' own provider calls its machines, whose place the tests take.
const provider = "sim:///container/"

// TestContainer takes the same way as a virtual machine, with a container for it: faster, on the host's kernel.
func TestContainer(t *testing.T) {
	root, guest := requireContainers(t)
	for name, chosen := range map[string]choice{
		"by cloud-init":   {Container: true},
		"by Ignition":     {Container: true, Ignition: true},
		"by kubeadm join": {Container: true, Kubeadm: true},
		"by its version":  {Container: true, Profile: true},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), containerTimeout)
			defer cancel()
			l := newEnvironment(ctx, t, root, guest)
			if chosen.Kubeadm {
				l.kubeadmCluster(ctx)
			}
			l.begin(ctx, chosen)
			c := l.boot(ctx, chosen)
			token := l.token(ctx)
			node := l.join(ctx)
			if chosen.Kubeadm {
				l.joinedByKubeadm(c)
			}
			if chosen.Profile {
				l.runsContainerd2(ctx, node)
			}
			l.restartKubelet(ctx, c, node)
			l.run(ctx, node)
			l.checkTokenIsSecret(ctx, token)
			l.drain(ctx, node)
			l.nothingLeft(ctx)
		})
	}
}

// runsContainerd2 proves that the machine runs the containerd of the NodeProfile, not Debian's 1.6, with the configuration
// that was written for it.
func (l *environment) runsContainerd2(ctx context.Context, name string) {
	l.t.Helper()
	node := &corev1.Node{}
	l.must(l.stack.WorkloadClient.Get(ctx, client.ObjectKey{Name: name}, node))
	if got := node.Status.NodeInfo.ContainerRuntimeVersion; !strings.HasPrefix(got, "containerd://2.") {
		l.t.Errorf("the container runtime is %q", got)
	}
	l.step("it runs " + node.Status.NodeInfo.ContainerRuntimeVersion)
}

// TestAWrongChecksumFailsVisibly gives the machine a kubelet that is not the one that was pinned.
func TestAWrongChecksumFailsVisibly(t *testing.T) {
	root, guest := requireContainers(t)
	ctx, cancel := context.WithTimeout(t.Context(), containerTimeout)
	defer cancel()
	l := newEnvironment(ctx, t, root, guest)
	wrong := choice{Container: true, Checksum: strings.Repeat("0", 64)}
	l.begin(ctx, wrong)
	c := l.boot(ctx, wrong)
	l.await(ctx, "cloud-init reports the error", func(context.Context) (string, error) {
		output, err := os.ReadFile(filepath.Join(c.Root, "var/log/cloud-init-output.log"))
		if err == nil && strings.Contains(string(output), "does not have the checksum sha256:"+wrong.Checksum) {
			return "", nil
		}
		return "nothing yet", err
	})
	l.await(ctx, "its result is an error", func(context.Context) (string, error) {
		result, err := os.ReadFile(filepath.Join(c.Root, "var/lib/cloud/data/result.json"))
		if err == nil && strings.Contains(string(result), "Runparts: 1 failures (runcmd)") {
			return "", nil
		}
		return string(result), err
	})
	l.awaitBootstrap(ctx, c, "state=Failed step=Downloads")
	if left, _ := filepath.Glob(filepath.Join(c.Root, "opt/bin/kubelet*")); len(left) > 0 {
		t.Errorf("%v was put in place", left)
	}
	nodes := &corev1.NodeList{}
	l.must(l.stack.WorkloadClient.List(ctx, nodes))
	if len(nodes.Items) > 0 {
		t.Errorf("%d Nodes joined", len(nodes.Items))
	}
}

// TestContainerJoinsAfterAMirrorWasDown: the bootstrap reports that it retries, and continues once it can.
func TestContainerJoinsAfterAMirrorWasDown(t *testing.T) {
	root, guest := requireContainers(t)
	ctx, cancel := context.WithTimeout(t.Context(), containerTimeout)
	defer cancel()
	l := newEnvironment(ctx, t, root, guest)
	l.artifacts.Down.Store(true)
	l.begin(ctx, choice{Container: true})
	c := l.boot(ctx, choice{Container: true})
	l.awaitBootstrap(ctx, c, "state=Retrying step=Downloads")
	l.artifacts.Down.Store(false)
	l.join(ctx)
	l.awaitBootstrap(ctx, c, "state=Succeeded step=All")
}

// awaitBootstrap waits until the last line about the bootstrap has a state and step. A container has no console: cloud-init
// writes the same into its log.
func (l *environment) awaitBootstrap(ctx context.Context, c *vm.Container, want string) {
	l.t.Helper()
	l.await(ctx, "the last line about the bootstrap has "+want, func(context.Context) (string, error) {
		output, err := os.ReadFile(filepath.Join(c.Root, "var/log/cloud-init-output.log"))
		last := string(output[max(0, strings.LastIndex(string(output), "drover-bootstrap: ")):])
		if err == nil && !strings.HasPrefix(last, "drover-bootstrap: "+want) || errors.Is(err, fs.ErrNotExist) {
			return fmt.Sprintf("it is %.200q", last), nil
		}
		return "", err
	})
}

func requireContainers(t *testing.T) (root, guest string) {
	t.Helper()
	root, guest = require(t, "DROVER_E2E", "systemd-nspawn", "ip")
	if _, err := os.Stat("/sys/fs/cgroup/cgroup.controllers"); err == nil {
		t.Fatal("this host has control groups of version 2 alone, for which nspawn.sh and the fixture are not made")
	}
	requireSpace(t)
	return root, guest
}

// leastSpace is what a kubelet wants to be free of the file system of images, in percent: with less it evicts pods.
const leastSpace = 15

// requireSpace fails where the kubelet of a container, which sees the host's file system, would evict the test's pod.
func requireSpace(t *testing.T) {
	t.Helper()
	var seen unix.Statfs_t
	if err := unix.Statfs(os.TempDir(), &seen); err != nil {
		t.Fatal(err)
	}
	if free := 100 * seen.Bavail / seen.Blocks; free < leastSpace {
		t.Fatalf("%s is on a file system of which %d %% are free: kubelets need %d %% and evict pods otherwise", os.TempDir(), free, leastSpace)
	}
}

// boot takes the provider's place: it gives a container the bootstrap data and reports it as provisioned.
func (l *environment) boot(ctx context.Context, chosen choice) *vm.Container {
	l.t.Helper()
	machine, infra, data := &clusterv1.Machine{}, &infrav1.SimMachine{}, &corev1.Secret{}
	l.await(ctx, "the bootstrap data is there", func(ctx context.Context) (string, error) {
		machines := &clusterv1.MachineList{}
		if err := l.stack.ManagementClient.List(ctx, machines); err != nil || len(machines.Items) != 1 {
			return fmt.Sprintf("%d Machines", len(machines.Items)), err
		}
		machine = &machines.Items[0]
		if machine.Spec.Bootstrap.DataSecretName == nil {
			return fmt.Sprintf("%+v", machine.Status.Conditions), nil
		}
		if err := l.stack.ManagementClient.Get(ctx, client.ObjectKey{Namespace: "default", Name: *machine.Spec.Bootstrap.DataSecretName}, data); err != nil {
			return "", err
		}
		return "", l.stack.ManagementClient.Get(ctx, client.ObjectKeyFromObject(machine), infra)
	})
	_, port := l.stack.Workload.Endpoint()
	dir, err := os.MkdirTemp("", "drover-container-")
	l.must(err)
	c, err := vm.NewContainer(fmt.Sprintf("drover%d", port), l.root, dir, int(port), l.artifacts.Port)
	l.t.Cleanup(func() {
		if err := c.Stop(); err != nil {
			l.t.Error(err)
		}
		if !l.t.Failed() {
			_ = os.RemoveAll(dir)
		}
	})
	l.must(err)
	l.fixture(c, machine.Name)
	if chosen.Ignition {
		l.ignite(c, data.Data["value"])
	} else {
		l.must(c.Write("/var/lib/cloud/seed/nocloud/user-data", string(data.Data["value"]), 0o600))
		l.must(c.Write("/var/lib/cloud/seed/nocloud/meta-data", fmt.Sprintf("instance-id: one\nlocal-hostname: %s\nprovider_id: %s%s\n", machine.Name, provider, machine.Name), 0o600))
	}
	l.must(c.Boot())
	before := infra.DeepCopy()
	infra.Spec.ProviderID = provider + machine.Name
	l.must(l.stack.ManagementClient.Patch(ctx, infra, client.MergeFrom(before)))
	before = infra.DeepCopy()
	infra.Status.Initialization.Provisioned = ptr.To(true)
	infra.Status.Addresses = []clusterv1.MachineAddress{{Type: clusterv1.MachineInternalIP, Address: vm.Address}, {Type: clusterv1.MachineHostName, Address: machine.Name}}
	infra.Status.CloudAddresses = []string{vm.Address, machine.Name}
	l.must(l.stack.ManagementClient.Status().Patch(ctx, infra, client.MergeFrom(before)))
	l.container = c
	l.step("the container boots")
	return c
}

// fixture is all that a container has that a machine's image does not.
func (l *environment) fixture(c *vm.Container, name string) {
	l.t.Helper()
	l.must(c.Prepare(name))
	// Kernel modules and settings are the host's business: these take the programs' place for the bootstrap script.
	for _, program := range []string{"modprobe", "sysctl"} {
		l.must(c.Write("/opt/bin/"+program, "#!/bin/bash\necho \"$0 $*\"\n", 0o755))
	}
	l.must(c.Write("/etc/cloud/cloud.cfg.d/60-container.cfg", "network: {config: disabled}\nmanage_etc_hosts: true\n", 0o644))
	// What Flatcar's metadata service would write.
	l.must(c.Write("/etc/systemd/system/coreos-metadata.service", "[Service]\nType=oneshot\nRemainAfterExit=yes\nExecStart=/bin/sh -c 'mkdir -p /run/metadata && echo COREOS_TEST_PROVIDER_ID="+provider+name+" > /run/metadata/flatcar'\n", 0o644))
}

// ignite runs the real Ignition, which writes its configuration into the root, as it would before the first boot.
func (l *environment) ignite(c *vm.Container, data []byte) {
	l.t.Helper()
	scratch := l.t.TempDir()
	config := filepath.Join(scratch, "config.ign")
	l.must(os.WriteFile(config, data, 0o600))
	l.must(c.Systemctl("disable", "cloud-init-local.service", "cloud-init.service", "cloud-config.service", "cloud-final.service"))
	l.must(os.Remove(filepath.Join(c.Root, "etc/machine-id")))
	for _, stage := range []string{"fetch", "files"} {
		command := exec.Command(filepath.Join(l.root, "bin", "ignition"), "-root", c.Root, "-stage", stage, "-platform", "file", "-log-to-stdout",
			"-config-cache", filepath.Join(scratch, "cache"), "-state-file", filepath.Join(scratch, "state"), "-neednet", filepath.Join(scratch, "neednet"))
		command.Env = append(os.Environ(), "IGNITION_CONFIG_FILE="+config)
		if output, err := command.CombinedOutput(); err != nil {
			l.t.Fatalf("ignition -stage %s: %v\n%s", stage, err, output)
		}
	}
	l.must(c.Systemctl("preset-all"))
	l.must(c.Systemctl("enable", "fixture.service"))
}

// restartKubelet proves that the kubelet still verifies the API server with its own kubeconfig.
func (l *environment) restartKubelet(ctx context.Context, c *vm.Container, node string) {
	l.t.Helper()
	l.must(c.Run(ctx, "systemctl", "restart", "kubelet.service"))
	last, renewals := "", -1 // the first look is no renewal, and the first renewal may be the old kubelet's
	l.await(ctx, "a restarted kubelet renews its Lease", func(ctx context.Context) (string, error) {
		lease := &coordinationv1.Lease{}
		if err := l.stack.WorkloadClient.Get(ctx, client.ObjectKey{Namespace: corev1.NamespaceNodeLease, Name: node}, lease); err != nil {
			return "", err
		}
		if lease.ResourceVersion != last {
			last = lease.ResourceVersion
			renewals++
		}
		if renewals < 2 {
			return fmt.Sprintf("%d renewals", renewals), nil
		}
		return "", nil
	})
}
