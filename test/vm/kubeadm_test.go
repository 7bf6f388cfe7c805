// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package vm_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"drover.io/test/vm"
	"drover.io/test/workflow"
)

// initConfiguration is what the cluster would have been made with.
const initConfiguration = `apiVersion: kubeadm.k8s.io/v1beta4
kind: InitConfiguration
localAPIEndpoint: {advertiseAddress: %[1]s, bindPort: %[2]d}
nodeRegistration: {name: control-plane, criSocket: unix:///run/containerd/containerd.sock}
---
apiVersion: kubeadm.k8s.io/v1beta4
kind: ClusterConfiguration
kubernetesVersion: %[3]s
controlPlaneEndpoint: %[1]s:%[2]d
`

// kubeadmCluster has kubeadm itself leave in the workload cluster what it leaves in each: the ConfigMaps
// kubeadm-config, kubelet-config and cluster-info, and what their readers may do. Only its own token is not left.
func (l *environment) kubeadmCluster(ctx context.Context) {
	l.t.Helper()
	dir := l.t.TempDir()
	config, kubeconfig := filepath.Join(dir, "init.yaml"), filepath.Join(dir, "admin.conf")
	_, port := l.stack.Workload.Endpoint()
	l.must(os.WriteFile(config, fmt.Appendf(nil, initConfiguration, vm.Gateway, port, workflow.Kubernetes), 0o600))
	l.must(os.WriteFile(kubeconfig, l.stack.Workload.AdminKubeconfig(), 0o600))
	for _, phase := range [][]string{{"upload-config", "all"}, {"bootstrap-token", "--skip-token-print"}} {
		args := append(append([]string{"init", "phase"}, phase...), "--config="+config, "--kubeconfig="+kubeconfig)
		command := exec.CommandContext(ctx, filepath.Join(l.root, "bin", "k8s", "kubeadm"), args...)
		if output, err := command.CombinedOutput(); err != nil {
			l.t.Fatalf("kubeadm %s: %v\n%s", strings.Join(args, " "), err, output)
		}
	}
	l.must(l.stack.WorkloadClient.DeleteAllOf(ctx, &corev1.Secret{}, client.InNamespace(metav1.NamespaceSystem), client.MatchingFields{"type": string(corev1.SecretTypeBootstrapToken)}))
	l.step("the workload cluster has what kubeadm leaves in a cluster")
}

// joinedByKubeadm checks the output of kubeadm, and the files that only kubeadm writes.
func (l *environment) joinedByKubeadm(c *vm.Container) {
	l.t.Helper()
	output, err := os.ReadFile(filepath.Join(c.Root, "var/log/cloud-init-output.log"))
	l.must(err)
	if !strings.Contains(string(output), "This node has joined the cluster") {
		l.t.Errorf("kubeadm did not report that the node has joined:\n%s", output)
	}
	for path, want := range map[string]string{
		"var/lib/kubelet/kubeadm-flags.env":    "--register-with-taints=node.cluster.x-k8s.io/uninitialized",
		"var/lib/kubelet/instance-config.yaml": "containerd.sock",
		"var/lib/kubelet/config.yaml":          "cgroupDriver: cgroupfs",
	} {
		content, err := os.ReadFile(filepath.Join(c.Root, path))
		l.must(err)
		if !strings.Contains(string(content), want) {
			l.t.Errorf("%s has no %s:\n%s", path, want, content)
		}
	}
	if _, err := os.Stat(filepath.Join(c.Root, "etc/kubernetes/bootstrap-kubelet.conf")); err == nil {
		l.t.Error("the token is still on the host")
	}
}
