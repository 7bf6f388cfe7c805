// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "drover.io/api/infrastructure/v1alpha1"
	"drover.io/test/framework"
	"drover.io/test/install/helm"
	"drover.io/test/process"
	"drover.io/test/vm"
	"drover.io/test/workflow"
)

// bootTimeout bounds the boot of an emulated machine on a busy host.
const bootTimeout = 15 * time.Minute

// qemuNamespace is that of the release with the QEMU provider, which needs the privileged Pod Security Standard.
const qemuNamespace = "drover-qemu-system"

// virtualMachine runs machine-controller and bootstrap as Pods, and the QEMU provider as a service of the host, as its
// page recommends, with the permissions of the chart. A virtual machine boots, joins and is deleted.
func virtualMachine(ctx context.Context, s *environment) (err error) {
	if err := s.prepareNamespace(ctx); err != nil {
		return err
	}
	if err := s.helm.Install(ctx, releaseName, s.now.chart, simulated(), false); err != nil {
		return err
	}
	qemu, err := s.installQEMU(ctx)
	if err != nil {
		return fmt.Errorf("installing the QEMU provider: %w", err)
	}
	state := filepath.Join(s.stack.Dir, "qemu")
	defer func() { err = errors.Join(err, endMachines(state)) }()
	provider, err := s.launchProvider(ctx, state)
	if err != nil {
		return err
	}
	defer provider.Stop()
	guest := filepath.Join(s.root, "bin", "guest")
	artifacts, err := vm.StartArtifactServer(map[string]string{
		"kubelet": filepath.Join(s.root, "bin/k8s/kubelet"), "cni-plugins.tgz": filepath.Join(guest, "cni-plugins.tgz"),
	})
	if err != nil {
		return err
	}
	defer artifacts.Stop()
	start := time.Now()
	if err := s.createVirtualMachine(ctx, artifacts); err != nil {
		return err
	}
	if err := s.awaitFor(ctx, bootTimeout, "the virtual machine is Running with a Ready Node", s.virtualMachineRuns); err != nil {
		return fmt.Errorf("%w%s", err, provider.Tail())
	}
	step("a virtual machine was Running with a Ready Node %.0f s after its MachineDeployment was created", time.Since(start).Seconds())
	if err := s.deleteFleet(ctx); err != nil {
		return err
	}
	if left, err := filepath.Glob(filepath.Join(state, "machines", "*")); err != nil || len(left) > 0 {
		return errors.Join(err, fmt.Errorf("left of the virtual machine: %q", left))
	}
	if err := s.client.DeleteAllOf(ctx, &infrav1.QEMUMachineTemplate{}, client.InNamespace(s.workflow.Namespace)); err != nil {
		return err
	}
	step("deleted the Cluster: nothing is left of the virtual machine")
	provider.Stop()
	if err := s.removeQEMU(ctx, qemu); err != nil {
		return fmt.Errorf("removing the QEMU provider: %w", err)
	}
	return s.remove(ctx)
}

// installQEMU installs the QEMU provider as a release of its own. Its Pod has no node, because the provider runs as a
// service of the host.
func (s *environment) installQEMU(ctx context.Context) (*helm.Client, error) {
	qemu, err := helm.New(s.stack.Kubeconfig("management"), qemuNamespace)
	if err != nil {
		return nil, err
	}
	off := map[string]any{"enabled": false}
	return qemu, qemu.Install(ctx, releaseName, s.now.chart, map[string]any{
		"managers":       map[string]any{"machine-controller": off, "bootstrap": off},
		"infrastructure": map[string]any{"qemu": nil},
		"crds":           map[string]any{"shared": false},
		"nodeSelector":   map[string]any{"drover.io/provider-runs-on-the-host": "true"},
	}, false)
}

// removeQEMU removes the release of the QEMU provider. Its kinds stay until those of the core are deleted.
func (s *environment) removeQEMU(ctx context.Context, qemu *helm.Client) error {
	if _, err := qemu.Uninstall(releaseName); err != nil {
		return err
	}
	name := "drover-" + qemuNamespace + "-infra-qemu-kinds-are-kept"
	for _, object := range []client.Object{
		&admissionv1.ValidatingAdmissionPolicyBinding{ObjectMeta: metav1.ObjectMeta{Name: name}},
		&admissionv1.ValidatingAdmissionPolicy{ObjectMeta: metav1.ObjectMeta{Name: name}},
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: qemuNamespace}},
	} {
		if err := client.IgnoreNotFound(s.client.Delete(ctx, object)); err != nil {
			return err
		}
	}
	return s.await(ctx, "the namespace of the QEMU provider is gone", func(ctx context.Context) error {
		err := s.client.Get(ctx, client.ObjectKey{Name: qemuNamespace}, &corev1.Namespace{})
		if err == nil {
			return errors.New("it is still there")
		}
		return client.IgnoreNotFound(err)
	})
}

// launchProvider starts infra-qemu as a process under the ServiceAccount of the chart.
func (s *environment) launchProvider(ctx context.Context, state string) (*framework.Manager, error) {
	kubeconfig, err := s.stack.ServiceAccountKubeconfig(ctx, "infra-qemu", qemuNamespace, "drover-infra-qemu")
	if err != nil {
		return nil, err
	}
	return s.stack.Launch("infra-qemu", process.Command{Path: filepath.Join(s.root, "bin", "infra-qemu"), Args: []string{
		"--kubeconfig=" + kubeconfig, "--metrics-bind-address=0", "--health-probe-bind-address=0", "--leader-election-namespace=" + qemuNamespace,
		"--state-dir=" + state, "--image-dir=" + filepath.Join(s.root, "bin", "guest"), "--host-name=lab", "--own-credentials-namespaces=*",
	}})
}

// createVirtualMachine creates the kubeconfig Secret, a Cluster and a MachineDeployment with one virtual machine. The host
// has the same address for it as for the Pods.
func (s *environment) createVirtualMachine(ctx context.Context, artifacts *vm.ArtifactServer) error {
	if err := s.workflow.CreateKubeconfig(ctx); err != nil {
		return err
	}
	_, port := s.stack.Workload.Endpoint()
	documents, err := vm.Machine{
		Host: vm.Gateway, Port: port, Artifacts: artifacts, Version: workflow.Kubernetes, Acceleration: cmp.Or(os.Getenv("DROVER_E2E_ACCELERATION"), "Auto"), Checksum: artifacts.Checksums["kubelet"],
	}.Manifests()
	if err != nil {
		return err
	}
	return framework.Apply(ctx, s.client, documents)
}

func (s *environment) virtualMachineRuns(ctx context.Context) error {
	machines, err := s.workflow.Machines(ctx)
	if err != nil || len(machines) != 1 {
		return errors.Join(err, fmt.Errorf("%d Machines", len(machines)))
	}
	m := &machines[0]
	if m.Status.Phase != string(clusterv1.MachinePhaseRunning) || !conditions.IsTrue(m, clusterv1.MachineNodeHealthyCondition) {
		return fmt.Errorf("it is %q", m.Status.Phase)
	}
	node := &corev1.Node{}
	if err := s.stack.WorkloadClient.Get(ctx, client.ObjectKey{Name: m.Status.NodeRef.Name}, node); err != nil {
		return err
	}
	if node.Spec.ProviderID != m.Spec.ProviderID {
		return fmt.Errorf("the providerID of the Node is %q", node.Spec.ProviderID)
	}
	return nil
}

// endMachines ends virtual machines that a failed scenario leaves: they outlive their provider.
func endMachines(state string) error {
	files, err := filepath.Glob(filepath.Join(state, "machines", "*", "qemu.pid"))
	errs := []error{err}
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		pid, err := strconv.Atoi(strings.TrimSpace(string(content)))
		if err == nil {
			err = unix.Kill(pid, unix.SIGKILL)
		}
		if !errors.Is(err, unix.ESRCH) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}
