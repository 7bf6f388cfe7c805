// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	bootstrapv1 "drover.io/api/bootstrap/v1alpha1"
	infrav1 "drover.io/api/infrastructure/v1alpha1"
	"drover.io/test/framework"
	"drover.io/test/workflow"
)

// TestBadInput gives the managers what cannot work, one thing after another, and looks for
// the condition that describes what to do. After each correction the machines run; nothing
// crashes, which waiting for anything checks.
func TestBadInput(t *testing.T) {
	ctx, flow := start(t, framework.Options{})
	run(ctx, t, func(ctx context.Context) error { return flow.Create(ctx, 1) }, running(flow, 1))

	t.Run("a template that does not exist", func(t *testing.T) { missingTemplate(ctx, t, flow) })
	t.Run("a kubeconfig that is none", func(t *testing.T) { wrongKubeconfig(ctx, t, flow) })
	t.Run("files that cannot be had", func(t *testing.T) { missingFile(ctx, t, flow) })
	t.Run("a workload cluster that does not answer", func(t *testing.T) { unreachable(ctx, t, flow) })
	run(ctx, t, flow.Delete, flow.AwaitNothingLeft)
}

func missingTemplate(ctx context.Context, t *testing.T, flow *workflow.Workflow) {
	md := flow.MachineDeployment()
	patch(ctx, t, flow, md, func() { md.Spec.Template.Spec.InfrastructureRef.Name = "demo-nowhere" })
	awaitCondition(ctx, t, flow, flow.MachineDeployment(), clusterv1.MachineDeploymentScalingUpCondition, "", `SimMachineTemplate "demo-nowhere"`)

	healed := &infrav1.SimMachineTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: flow.Namespace, Name: "demo-nowhere"}}
	healed.Spec.Template.Spec.InstanceType = "medium"
	create(ctx, t, flow, healed)
	run(ctx, t, running(flow, 1))
}

func wrongKubeconfig(ctx context.Context, t *testing.T, flow *workflow.Workflow) {
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: flow.Namespace, Name: "demo-kubeconfig"}}
	right := []byte(nil)
	patch(ctx, t, flow, secret, func() {
		right = secret.Data["value"]
		secret.Data["value"] = []byte("this is no kubeconfig")
	})
	awaitCondition(ctx, t, flow, flow.ClusterObject(), clusterv1.ClusterRemoteConnectionProbeCondition, metav1.ConditionFalse, "KubeconfigInvalid")
	patch(ctx, t, flow, secret, func() { secret.Data["value"] = right })
	awaitCondition(ctx, t, flow, flow.ClusterObject(), clusterv1.ClusterRemoteConnectionProbeCondition, metav1.ConditionTrue, "")
}

func missingFile(ctx context.Context, t *testing.T, flow *workflow.Workflow) {
	broken := &bootstrapv1.BootstrapConfigTemplate{}
	key := client.ObjectKey{Namespace: flow.Namespace, Name: "demo-workers"}
	if err := flow.Stack.ManagementClient.Get(ctx, key, broken); err != nil {
		t.Fatal(err)
	}
	broken.ObjectMeta = metav1.ObjectMeta{Namespace: flow.Namespace, Name: "demo-broken"}
	broken.Spec.Template.Spec.Files = []bootstrapv1.File{{
		Path:        "/etc/motd",
		ContentFrom: bootstrapv1.SecretKeyReference{Name: "demo-motd", Key: "motd"},
	}}
	create(ctx, t, flow, broken)
	md := flow.MachineDeployment()
	patch(ctx, t, flow, md, func() { md.Spec.Template.Spec.Bootstrap.ConfigRef.Name = "demo-broken" })
	awaitCondition(ctx, t, flow, flow.MachineDeployment(), clusterv1.MachineDeploymentMachinesReadyCondition, metav1.ConditionFalse, "demo-motd")

	create(ctx, t, flow, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: flow.Namespace, Name: "demo-motd"},
		StringData: map[string]string{"motd": "welcome"},
	})
	run(ctx, t, running(flow, 1))
}

func unreachable(ctx context.Context, t *testing.T, flow *workflow.Workflow) {
	if err := flow.Stack.Workload.StopAPIServer(); err != nil {
		t.Fatal(err)
	}
	awaitCondition(ctx, t, flow, flow.ClusterObject(), clusterv1.ClusterRemoteConnectionProbeCondition, metav1.ConditionFalse, "Unreachable")
	if err := flow.Stack.Workload.StartAPIServer(ctx); err != nil {
		t.Fatal(err)
	}
	awaitCondition(ctx, t, flow, flow.ClusterObject(), clusterv1.ClusterRemoteConnectionProbeCondition, metav1.ConditionTrue, "")
	run(ctx, t, running(flow, 1))
}

// awaitCondition waits until a condition of the object has the status, if one is given, and a message
// with the words.
func awaitCondition(ctx context.Context, t *testing.T, flow *workflow.Workflow, object workflow.ObjectWithConditions, kind string, status metav1.ConditionStatus, words string) {
	t.Helper()
	if err := flow.AwaitCondition(ctx, object, kind, status, words); err != nil {
		t.Fatal(err)
	}
}

func create(ctx context.Context, t *testing.T, flow *workflow.Workflow, object client.Object) {
	t.Helper()
	if err := flow.Stack.ManagementClient.Create(ctx, object); err != nil {
		t.Fatal(err)
	}
}

// patch reads the object and patches what do changes.
func patch(ctx context.Context, t *testing.T, flow *workflow.Workflow, object client.Object, do func()) {
	t.Helper()
	if err := flow.Stack.ManagementClient.Get(ctx, client.ObjectKeyFromObject(object), object); err != nil {
		t.Fatal(err)
	}
	before, _ := object.DeepCopyObject().(client.Object)
	do()
	if err := flow.Stack.ManagementClient.Patch(ctx, object, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
}
