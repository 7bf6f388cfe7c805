// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"drover.io/test/controlplane"
	"drover.io/test/framework"
	"drover.io/test/vm"
)

const (
	// nodeName is the name of the management cluster's only Node.
	nodeName = "node"
	// containerPrefix begins the name of the node's container, which ends with the number of this process.
	containerPrefix = "drover-install-"
	// serviceAddress is where Pods find the API server: the address of the Service kubernetes.
	serviceAddress = "10.96.0.1"
	// stateFolder is the folder of the node that a PersistentVolume stands for.
	stateFolder = "/var/lib/drover-sim"
)

//go:embed node/containerd.toml
var containerdConfig string

//go:embed node/kubelet.yaml
var kubeletConfig string

//go:embed node/kubelet.service
var kubeletService string

//go:embed node/bridge.conflist
var bridgeConfig string

// requirements reports what is missing on this host.
func requirements(root string, o options) error {
	if os.Getuid() != 0 {
		return errors.New("it needs root")
	}
	packages := map[string]string{"systemd-nspawn": "systemd-container", "ip": "iproute2", "nsenter": "util-linux"}
	if o.qemu {
		packages["qemu-system-x86_64"], packages["qemu-img"] = "qemu-system-x86", "qemu-utils"
	}
	for program, pack := range packages {
		if _, err := exec.LookPath(program); err != nil {
			return fmt.Errorf("there is no %s here: apt-get install %s", program, pack)
		}
	}
	if _, err := os.Stat("/sys/fs/cgroup/cgroup.controllers"); err == nil {
		return errors.New("this host has control groups of version 2 alone, for which test/vm/nspawn.sh is not made")
	}
	for _, file := range []string{"guest/recipe", "k8s/kubelet", "k8s/kube-scheduler", "infra-qemu"} {
		if _, err := os.Stat(filepath.Join(root, "bin", file)); err != nil {
			return fmt.Errorf("there is no bin/%s: run it by make, which makes it", file)
		}
	}
	return nil
}

// startNode boots the guest as the Node of a cluster: systemd, containerd, runc and a kubelet, and a bridge for Pods. In
// its network are the API servers of both clusters and nothing else. It returns what was made also with an error.
func startNode(root, dir string, management, workload *controlplane.ControlPlane) (*vm.Container, error) {
	_, port := management.Endpoint()
	_, other := workload.Endpoint()
	if err := vm.RemoveLeftovers(containerPrefix); err != nil {
		return nil, err
	}
	node, err := vm.NewContainer(containerPrefix+fmt.Sprint(os.Getpid()), root, dir, int(port), int(other))
	if err != nil {
		return node, err
	}
	// What kube-proxy would do for the only Service in use.
	if err := node.Relay(serviceAddress+":443", int(port)); err != nil {
		return node, err
	}
	if err := node.Prepare(nodeName); err != nil {
		return node, err
	}
	if err := writeFiles(node, management, int(port)); err != nil {
		return node, err
	}
	if err := command(context.Background(), root, "cp", filepath.Join(root, "bin/k8s/kubelet"), filepath.Join(node.Root, "usr/local/bin/kubelet")); err != nil {
		return node, err
	}
	if err := node.Systemctl("enable", "kubelet.service"); err != nil {
		return node, err
	}
	return node, node.Boot()
}

// writeFiles writes the configuration of the node's programs.
func writeFiles(node *vm.Container, management *controlplane.ControlPlane, port int) error {
	kubeconfig, err := management.Kubeconfig("system:node:"+nodeName, "system:nodes")
	if err != nil {
		return err
	}
	if kubeconfig, err = framework.WithServer(kubeconfig, fmt.Sprintf("https://%s:%d", vm.Gateway, port)); err != nil {
		return err
	}
	for path, content := range map[string]string{
		"/etc/cloud/cloud-init.disabled":      "",
		"/etc/containerd/config.toml":         containerdConfig,
		"/etc/cni/net.d/10-bridge.conflist":   bridgeConfig,
		"/etc/kubernetes/kubelet.yaml":        kubeletConfig,
		"/etc/kubernetes/kubelet.conf":        string(kubeconfig),
		"/etc/kubernetes/ca.crt":              string(management.CA()),
		"/etc/systemd/system/kubelet.service": kubeletService,
		stateFolder + "/.keep":                "",
	} {
		if err := node.Write(path, content, 0o600); err != nil {
			return err
		}
	}
	return os.Remove(filepath.Join(node.Root, stateFolder, ".keep"))
}

// importImages imports the archives of releases as users do without a registry, and the image of sandbox containers.
func importImages(ctx context.Context, node *vm.Container, releases ...*release) error {
	if err := vm.WriteSandboxArchive(filepath.Join(node.Root, "var/sandbox.tar")); err != nil {
		return err
	}
	archives := []string{"/var/sandbox.tar"}
	for _, r := range releases {
		for _, program := range programs {
			inside := fmt.Sprintf("/var/%s-%s.tar", program, r.version)
			if err := command(ctx, r.images, "cp", "drover-"+program+".tar", filepath.Join(node.Root, inside)); err != nil {
				return err
			}
			archives = append(archives, inside)
		}
	}
	for _, archive := range archives {
		if err := node.Run(ctx, "ctr", "--namespace", "k8s.io", "images", "import", archive); err != nil {
			return err
		}
	}
	return nil
}
