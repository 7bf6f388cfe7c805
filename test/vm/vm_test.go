// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package vm_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	bootstrapv1 "drover.io/api/bootstrap/v1alpha1"
	infrav1 "drover.io/api/infrastructure/v1alpha1"
	"drover.io/test/vm"
)

// lifecycleTimeout bounds the whole lifecycle of an emulated machine on a busy host.
const lifecycleTimeout = 40 * time.Minute

// TestVirtualMachine is the whole way with nothing simulated: a MachineDeployment becomes a virtual machine that
// boots, downloads the kubelet and containerd that its NodeProfile found for the version in checksum files, joins and runs
// a pod; scaling down drains it, which a PodDisruptionBudget holds up, shuts it down and leaves nothing.
func TestVirtualMachine(t *testing.T) {
	root, guest := require(t, "DROVER_E2E_VM", "qemu-system-x86_64", "qemu-img")
	ctx, cancel := context.WithTimeout(t.Context(), lifecycleTimeout)
	defer cancel()
	l := newEnvironment(ctx, t, root, guest)
	l.launch(ctx)
	l.begin(ctx, choice{Profile: true})
	l.awaitInstance(ctx)
	token := l.token(ctx)
	node := l.join(ctx)
	l.runsContainerd2(ctx, node)
	l.checkKubeletDisk(ctx, node)
	l.killProvider()
	l.run(ctx, node)
	l.checkTokenIsSecret(ctx, token)
	l.sameProcess()
	l.drain(ctx, node)
	l.nothingLeft(ctx)
}

// TestVirtualMachineExplainsAWrongChecksum: a kubelet is not the one that was pinned, and the Machine says so without a look
// at the host.
func TestVirtualMachineExplainsAWrongChecksum(t *testing.T) {
	root, guest := require(t, "DROVER_E2E_VM", "qemu-system-x86_64", "qemu-img")
	ctx, cancel := context.WithTimeout(t.Context(), lifecycleTimeout)
	defer cancel()
	l := newEnvironment(ctx, t, root, guest)
	l.launch(ctx, "--console-after=10s")
	l.begin(ctx, choice{Checksum: strings.Repeat("0", 64)})
	want := []string{"the bootstrap failed in the step Downloads", "does not have the checksum sha256:000000"}
	l.await(ctx, "the condition of the Machine names the step and the file", func(ctx context.Context) (string, error) {
		machines := &clusterv1.MachineList{}
		if err := l.stack.ManagementClient.List(ctx, machines); err != nil || len(machines.Items) != 1 {
			return fmt.Sprintf("%d Machines", len(machines.Items)), err
		}
		message := conditions.GetMessage(&machines.Items[0], clusterv1.MachineNodeHealthyCondition)
		for _, part := range want {
			if !strings.Contains(message, part) {
				return fmt.Sprintf("it has %q", message), nil
			}
		}
		return "", nil
	})
	l.await(ctx, "an event of the Machine names them", func(ctx context.Context) (string, error) {
		recorded := &eventsv1.EventList{}
		err := l.stack.ManagementClient.List(ctx, recorded)
		if slices.ContainsFunc(recorded.Items, func(e eventsv1.Event) bool {
			return e.Reason == "BootstrapFailed" && e.Regarding.Kind == "Machine" && strings.Contains(e.Note, want[1])
		}) {
			return "", nil
		}
		return "there is none", err
	})
	deployment := &clusterv1.MachineDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "demo-workers"}}
	l.must(l.stack.ManagementClient.Delete(ctx, deployment))
	l.nothingLeft(ctx)
}

// awaitInstance waits for the virtual machine itself.
func (l *environment) awaitInstance(ctx context.Context) {
	l.t.Helper()
	l.await(ctx, "the virtual machine runs", func(ctx context.Context) (string, error) {
		machines := &infrav1.QEMUMachineList{}
		if err := l.stack.ManagementClient.List(ctx, machines); err != nil || len(machines.Items) != 1 {
			return fmt.Sprintf("%d QEMUMachines", len(machines.Items)), err
		}
		if state := machines.Items[0].Status.InstanceState; state != "Running" {
			return fmt.Sprintf("it is %q: %+v", state, machines.Items[0].Status.Conditions), nil
		}
		return "", nil
	})
}

// join follows a machine until its Node is ready, and returns the Node's name.
func (l *environment) join(ctx context.Context) string {
	l.t.Helper()
	machine := &clusterv1.Machine{}
	l.await(ctx, "its Node has registered", func(ctx context.Context) (string, error) {
		nodes := &corev1.NodeList{}
		err := l.stack.WorkloadClient.List(ctx, nodes)
		if err == nil && len(nodes.Items) == 1 {
			return "", nil
		}
		if l.failed() {
			l.t.Fatalf("the bootstrap failed%s", l.consoles())
		}
		return fmt.Sprintf("%d Nodes", len(nodes.Items)), err
	})
	l.await(ctx, "its Machine is Running, with a Ready Node of the same providerID", func(ctx context.Context) (string, error) {
		machines := &clusterv1.MachineList{}
		if err := l.stack.ManagementClient.List(ctx, machines); err != nil || len(machines.Items) != 1 {
			return fmt.Sprintf("%d Machines", len(machines.Items)), err
		}
		machine = &machines.Items[0]
		if machine.Status.Phase != string(clusterv1.MachinePhaseRunning) || !conditions.IsTrue(machine, clusterv1.MachineNodeHealthyCondition) {
			return fmt.Sprintf("it is %s: %+v", machine.Status.Phase, machine.Status.Conditions), nil
		}
		node := &corev1.Node{}
		if err := l.stack.WorkloadClient.Get(ctx, client.ObjectKey{Name: machine.Status.NodeRef.Name}, node); err != nil {
			return "", err
		}
		if node.Spec.ProviderID != machine.Spec.ProviderID {
			return fmt.Sprintf("the Node's is %q", node.Spec.ProviderID), nil
		}
		return "", nil
	})
	name := machine.Status.NodeRef.Name
	l.await(ctx, "its serving certificate is approved and issued", func(ctx context.Context) (string, error) {
		requests := &certificatesv1.CertificateSigningRequestList{}
		if err := l.stack.WorkloadClient.List(ctx, requests); err != nil {
			return "", err
		}
		for _, r := range requests.Items {
			if r.Spec.SignerName == certificatesv1.KubeletServingSignerName && r.Spec.Username == "system:node:"+name && len(r.Status.Certificate) > 0 {
				return "", nil
			}
		}
		return "no certificate", nil
	})
	return name
}

// killProvider sends SIGKILL to infra-qemu and starts it again: the virtual machine keeps running.
func (l *environment) killProvider() {
	l.t.Helper()
	l.process = l.read(filepath.Join(l.machines, "machines", "*", "qemu.pid"))
	for _, m := range l.stack.Managers() {
		if m.Name == "infra-qemu" {
			m.Kill()
			l.must(m.Start())
		}
	}
}

// sameProcess is checked when the new provider has reconciled the machine.
func (l *environment) sameProcess() {
	l.t.Helper()
	if now := l.read(filepath.Join(l.machines, "machines", "*", "qemu.pid")); now != l.process {
		l.t.Errorf("the machine's process was %s and is %s", l.process, now)
	}
	l.step("the provider was killed meanwhile, and the machine's process is the same")
}

// read returns the content of the one file that a pattern matches.
func (l *environment) read(pattern string) string {
	l.t.Helper()
	paths, err := filepath.Glob(pattern)
	if err != nil || len(paths) != 1 {
		l.t.Fatalf("%s matches %v, %v", pattern, paths, err)
	}
	content, err := os.ReadFile(paths[0])
	l.must(err)
	return string(content)
}

func pod(node string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "hello", Labels: map[string]string{"app": "hello"}},
		Spec:       corev1.PodSpec{NodeName: node, Containers: []corev1.Container{{Name: "hello", Image: vm.WorkloadImage}}},
	}
}

func budget() *policyv1.PodDisruptionBudget {
	return &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "hello"},
		Spec: policyv1.PodDisruptionBudgetSpec{
			MinAvailable: ptr.To(intstr.FromInt32(1)),
			Selector:     &metav1.LabelSelector{MatchLabels: map[string]string{"app": "hello"}},
		},
	}
}

// run creates a pod there, whose image comes through a mirror, under a budget that permits no eviction.
func (l *environment) run(ctx context.Context, node string) {
	l.t.Helper()
	l.must(l.stack.WorkloadClient.Create(ctx, budget()))
	l.must(l.stack.WorkloadClient.Create(ctx, pod(node)))
	l.await(ctx, "a pod runs and has an address", func(ctx context.Context) (string, error) {
		seen := &corev1.Pod{}
		if err := l.stack.WorkloadClient.Get(ctx, client.ObjectKeyFromObject(pod(node)), seen); err != nil {
			return "", err
		}
		if seen.Status.Phase != corev1.PodRunning || seen.Status.PodIP == "" || !seen.Status.ContainerStatuses[0].Ready {
			return fmt.Sprintf("it is %s: %+v", seen.Status.Phase, seen.Status.ContainerStatuses), nil
		}
		return "", nil
	})
	l.await(ctx, "the budget counts it", func(ctx context.Context) (string, error) {
		seen := budget()
		err := l.stack.WorkloadClient.Get(ctx, client.ObjectKeyFromObject(seen), seen)
		if err == nil && seen.Status.CurrentHealthy == 1 {
			return "", nil
		}
		return "it does not yet", err
	})
}

// drain scales to none: the budget holds the drain up until it goes.
func (l *environment) drain(ctx context.Context, node string) {
	l.t.Helper()
	md := &clusterv1.MachineDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "demo-workers"}}
	l.must(l.stack.ManagementClient.Get(ctx, client.ObjectKeyFromObject(md), md))
	before := md.DeepCopy()
	md.Spec.Replicas = ptr.To[int32](0)
	l.must(l.stack.ManagementClient.Patch(ctx, md, client.MergeFrom(before)))
	l.began = time.Now()
	l.await(ctx, "the budget holds the drain up", func(ctx context.Context) (string, error) {
		machines := &clusterv1.MachineList{}
		if err := l.stack.ManagementClient.List(ctx, machines); err != nil || len(machines.Items) != 1 {
			return fmt.Sprintf("%d Machines", len(machines.Items)), err
		}
		deleting := conditions.Get(&machines.Items[0], clusterv1.MachineDeletingCondition)
		if deleting == nil || deleting.Reason != clusterv1.MachineDeletingDrainingNodeReason {
			return fmt.Sprintf("%+v", deleting), nil
		}
		seen := budget()
		err := l.stack.WorkloadClient.Get(ctx, client.ObjectKeyFromObject(seen), seen)
		return "", err
	})
	l.must(l.stack.WorkloadClient.Get(ctx, client.ObjectKeyFromObject(pod(node)), &corev1.Pod{}))
	l.must(l.stack.WorkloadClient.Delete(ctx, budget()))
	l.await(ctx, "the pod has gone gracefully", func(ctx context.Context) (string, error) {
		err := l.stack.WorkloadClient.Get(ctx, client.ObjectKeyFromObject(pod(node)), &corev1.Pod{})
		if apierrors.IsNotFound(err) {
			return "", nil
		}
		return "it is there", err
	})
}

// nothingLeft waits until there is neither object, nor token, nor folder, nor process of the machine.
func (l *environment) nothingLeft(ctx context.Context) {
	l.t.Helper()
	l.await(ctx, "nothing is left", func(ctx context.Context) (string, error) {
		for _, list := range []client.ObjectList{&clusterv1.MachineList{}, &bootstrapv1.BootstrapConfigList{}, &infrav1.QEMUMachineList{}} {
			if err := l.stack.ManagementClient.List(ctx, list); err != nil {
				return "", err
			}
			if left := items(list); left > 0 {
				return fmt.Sprintf("%d of %T", left, list), nil
			}
		}
		nodes := &corev1.NodeList{}
		tokens := &corev1.SecretList{}
		if err := l.stack.WorkloadClient.List(ctx, nodes); err != nil {
			return "", err
		}
		if err := l.stack.WorkloadClient.List(ctx, tokens, client.InNamespace(metav1.NamespaceSystem)); err != nil {
			return "", err
		}
		for _, secret := range tokens.Items {
			if secret.Type == corev1.SecretTypeBootstrapToken {
				return "token " + secret.Name, nil
			}
		}
		folders, err := os.ReadDir(filepath.Join(l.machines, "machines"))
		if errors.Is(err, fs.ErrNotExist) { // no machine was a virtual one
			err = nil
		}
		if err == nil && (len(nodes.Items) > 0 || len(folders) > 0) {
			return fmt.Sprintf("%d Nodes, %d folders", len(nodes.Items), len(folders)), nil
		}
		return "", err
	})
}

func items(list client.ObjectList) int {
	switch l := list.(type) {
	case *clusterv1.MachineList:
		return len(l.Items)
	case *bootstrapv1.BootstrapConfigList:
		return len(l.Items)
	case *infrav1.QEMUMachineList:
		return len(l.Items)
	}
	return 0
}
