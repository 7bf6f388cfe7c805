// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package alerts

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"drover.io/test/pods"
	"drover.io/test/workflow"
)

// kept is the name of a Deployment and of the policy that refuses the eviction of its pod.
const kept = "kept"

// refusedEviction deletes a Machine whose Node has a pod that an admission policy keeps.
type refusedEviction struct {
	flow *workflow.Workflow
	// stop ends the scheduler.
	stop context.CancelFunc
}

func (r *refusedEviction) begin(ctx context.Context) error {
	work, err := client.NewWithWatch(r.flow.Stack.Workload.AdminConfig(), client.Options{Scheme: r.flow.Stack.WorkloadClient.Scheme()})
	if err != nil {
		return err
	}
	scheduling, stop := context.WithCancel(ctx)
	r.stop = stop
	go func() { _ = (&pods.Scheduler{Client: work, Namespace: r.flow.Namespace}).Run(scheduling) }() // without it no pod runs, and this fails
	for _, object := range r.objects() {
		if err := work.Create(ctx, object); err != nil {
			return err
		}
	}
	node, err := r.nodeOfPod(ctx)
	if err != nil {
		return fmt.Errorf("waiting for the pod to run: %w", err)
	}
	all, err := r.flow.Machines(ctx)
	if err != nil {
		return err
	}
	for i := range all {
		if all[i].Status.NodeRef.Name == node {
			return r.flow.Stack.ManagementClient.Delete(ctx, &all[i])
		}
	}
	return fmt.Errorf("no Machine has the Node %q", node)
}

// nodeOfPod waits until the pod of the Deployment runs, and returns the name of its Node.
func (r *refusedEviction) nodeOfPod(ctx context.Context) (node string, err error) {
	err = wait.PollUntilContextCancel(ctx, time.Second, true, func(ctx context.Context) (bool, error) {
		list := &corev1.PodList{}
		if err := r.flow.Stack.WorkloadClient.List(ctx, list, client.InNamespace(r.flow.Namespace)); err != nil {
			return false, err
		}
		for _, pod := range list.Items {
			if pod.Status.Phase == corev1.PodRunning {
				node = pod.Spec.NodeName
			}
		}
		return node != "", nil
	})
	return node, err
}

// objects are the Deployment and the policy.
func (r *refusedEviction) objects() []client.Object {
	meta := metav1.ObjectMeta{Name: kept}
	policy := &admissionv1.ValidatingAdmissionPolicy{ObjectMeta: meta, Spec: admissionv1.ValidatingAdmissionPolicySpec{
		MatchConstraints: &admissionv1.MatchResources{ResourceRules: []admissionv1.NamedRuleWithOperations{{RuleWithOperations: admissionv1.RuleWithOperations{
			Operations: []admissionv1.OperationType{admissionv1.Create},
			Rule:       admissionv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"pods/eviction"}},
		}}}},
		Validations: []admissionv1.Validation{{Expression: "false", Message: "it is moved by its operator"}},
	}}
	binding := &admissionv1.ValidatingAdmissionPolicyBinding{ObjectMeta: meta, Spec: admissionv1.ValidatingAdmissionPolicyBindingSpec{
		PolicyName: kept, ValidationActions: []admissionv1.ValidationAction{admissionv1.Deny},
	}}
	return []client.Object{policy, binding, pods.Deployment(r.flow.Namespace, kept, 1, nil)}
}

func (r *refusedEviction) end(ctx context.Context) error {
	r.stop()
	for _, object := range r.objects() {
		if err := r.flow.Stack.WorkloadClient.Delete(ctx, object); err != nil {
			return err
		}
	}
	return r.flow.AwaitRunning(ctx, machines)
}

// broken is the type of a condition of Nodes that means that they are unhealthy.
const broken = "NetworkBroken"

// blockedRemediation makes Machines unhealthy before a MachineHealthCheck looks at them. All are in one failure domain.
type blockedRemediation struct {
	flow *workflow.Workflow
	// unhealthy is how many.
	unhealthy int
}

func (b blockedRemediation) begin(ctx context.Context) error {
	if err := b.set(ctx, corev1.ConditionTrue); err != nil {
		return err
	}
	return b.flow.Stack.ManagementClient.Create(ctx, b.check())
}

func (b blockedRemediation) end(ctx context.Context) error {
	return errors.Join(b.flow.Stack.ManagementClient.Delete(ctx, b.check()), b.set(ctx, corev1.ConditionFalse))
}

func (b blockedRemediation) check() *clusterv1.MachineHealthCheck {
	check := &clusterv1.MachineHealthCheck{ObjectMeta: metav1.ObjectMeta{Namespace: b.flow.Namespace, Name: b.flow.Cluster}}
	check.Spec.ClusterName = b.flow.Cluster
	check.Spec.Selector.MatchLabels = map[string]string{clusterv1.MachineDeploymentNameLabel: b.flow.Deployment()}
	check.Spec.Checks.UnhealthyNodeConditions = []clusterv1.UnhealthyNodeCondition{{Type: broken, Status: corev1.ConditionTrue, TimeoutSeconds: new(int32)}}
	return check
}

// set sets the condition of the Nodes.
func (b blockedRemediation) set(ctx context.Context, status corev1.ConditionStatus) error {
	nodes, err := b.flow.Nodes(ctx)
	if err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(nodes))[:b.unhealthy] {
		node := nodes[name]
		before := node.DeepCopy()
		node.Status.Conditions = append(node.Status.Conditions, corev1.NodeCondition{Type: broken, Status: status, Reason: "Test", LastTransitionTime: metav1.Now()})
		if err := b.flow.Stack.WorkloadClient.Status().Patch(ctx, node, client.StrategicMergeFrom(before)); err != nil {
			return err
		}
	}
	return nil
}
