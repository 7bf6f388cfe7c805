// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package autoscaler

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "drover.io/api/infrastructure/v1alpha1"
)

const (
	workers = "demo-workers"
	others  = "demo-others"
)

// TestAutoscaler scales two pools of one Cluster with the autoscaler through everything that
// it does: discovery, up, down, a rollout, a machine that never joins, to none and from none.
func TestAutoscaler(t *testing.T) {
	w := start(t)
	w.must(w.Create(w.ctx, 2))
	w.addPool(others)
	for _, step := range []struct {
		it string
		do func()
	}{
		{"serves what the autoscaler discovers", w.discovered},
		{"keeps pools apart", w.apart},
		{"scales up", w.up},
		{"names every Node", w.named},
		{"deletes the machines that were chosen", w.down},
		{"deletes the chosen machine of a superseded MachineSet", w.downWhileRolling},
		{"deletes a machine that never joins", w.downPending},
		{"ends the rollout for the autoscaler too", w.rolled},
		{"leaves a paused pool alone", w.pausedPool},
		{"scales to none and from none", w.none},
		{"saw the states of each machine in order", w.inOrder},
	} {
		t.Log("it " + step.it)
		step.do()
	}
}

// addPool makes a second MachineDeployment like the first, with one replica.
func (w *environment) addPool(name string) {
	w.t.Helper()
	first := w.MachineDeployment()
	w.must(w.Stack.ManagementClient.Get(w.ctx, client.ObjectKeyFromObject(first), first))
	w.must(w.Stack.ManagementClient.Create(w.ctx, &clusterv1.MachineDeployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.Namespace, Name: name},
		Spec: clusterv1.MachineDeploymentSpec{
			ClusterName: w.Cluster, Replicas: ptr.To[int32](1), Template: *first.Spec.Template.DeepCopy(),
		},
	}))
	for _, each := range []string{workers, others} {
		w.change(each, func(md *clusterv1.MachineDeployment) {
			metav1.SetMetaDataAnnotation(&md.ObjectMeta, MinSize, "0")
			metav1.SetMetaDataAnnotation(&md.ObjectMeta, MaxSize, "6")
		})
	}
}

func (w *environment) discovered() {
	if w.Version != clusterv1.GroupVersion.Version {
		w.t.Errorf("the preferred version is %s", w.Version)
	}
	for _, resource := range []string{"machines", "machinesets", "machinesets/scale", "machinedeployments", "machinedeployments/scale"} {
		if !slices.Contains(w.Resources, resource) {
			w.t.Errorf("%s are not served", resource)
		}
	}
}

func (w *environment) apart() {
	w.await("both pools to be node groups", func() (string, error) {
		groups, err := w.Groups(w.ctx)
		var ids []string
		for _, each := range groups {
			ids = append(ids, each.ID)
		}
		return cmp.Diff([]string{"MachineDeployment/default/" + others, "MachineDeployment/default/" + workers}, ids), err
	})
	w.awaitRunning(workers, 2)
	w.awaitRunning(others, 1)
	for _, deployment := range []string{workers, others} {
		for _, id := range w.running(deployment) {
			of, err := w.GroupOf(w.ctx, id)
			w.must(err)
			if of == nil || of.ID != w.pool(deployment).ID {
				w.t.Errorf("%s is of %v, want %s", id, of, deployment)
			}
		}
	}
}

func (w *environment) up() {
	w.must(w.pool(workers).Increase(w.ctx, 3))
	w.awaitRunning(workers, 5)
	if err := w.pool(workers).Increase(w.ctx, 2); err == nil {
		w.t.Error("more than the maximum was requested")
	}
}

// named waits until every Node has what the autoscaler reads of it.
func (w *environment) named() {
	w.await("Nodes to have their owner", func() (string, error) {
		for _, node := range w.Registered() {
			known, err := w.HasInstance(node)
			if err != nil || !known {
				return node.Name + " has no Machine", err
			}
			machine, err := w.machine(node.Spec.ProviderID)
			if err != nil {
				return "", err
			}
			want := map[string]string{
				clusterv1.MachineAnnotation: machine.GetName(), clusterv1.ClusterNamespaceAnnotation: w.Namespace, clusterv1.ClusterNameAnnotation: w.Cluster,
				clusterv1.OwnerKindAnnotation: "MachineSet", clusterv1.OwnerNameAnnotation: owner(machine, "MachineSet"),
			}
			got := map[string]string{}
			for key := range want {
				got[key] = node.Annotations[key]
			}
			if diff := cmp.Diff(want, got); diff != "" {
				return node.Name + diff, nil
			}
		}
		return "", nil
	})
}

// down chooses two of five; a choice by chance would be right one time in ten.
func (w *environment) down() {
	ids := w.running(workers)
	w.must(w.pool(workers).Delete(w.ctx, ids[1], ids[3]))
	w.awaitRunning(workers, 3)
	w.remain(workers, ids[0], ids[2], ids[4])
	w.awaitNodes(4)
}

// remain fails unless exactly these are left.
func (w *environment) remain(deployment string, want ...string) {
	w.t.Helper()
	slices.Sort(want)
	if diff := cmp.Diff(want, w.running(deployment)); diff != "" {
		w.t.Errorf("other machines are left in %s:\n%s", deployment, diff)
	}
}

// awaitNodes waits until the Nodes of deleted machines are gone as well.
func (w *environment) awaitNodes(n int) {
	w.t.Helper()
	w.await(fmt.Sprintf("%d Nodes in all", n), func() (string, error) {
		var names []string
		for _, node := range w.Registered() {
			names = append(names, fmt.Sprintf("%s (%s, since %s)", node.Name, node.Spec.ProviderID, node.CreationTimestamp.Format(time.TimeOnly)))
		}
		return missing(len(names) == n, strings.Join(names, ", ")), nil
	})
}

// downWhileRolling begins a rollout that cannot end, as its machines never join.
func (w *environment) downWhileRolling() {
	broken := &infrav1.SimMachineTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: w.Namespace, Name: "demo-broken"}}
	broken.Spec.Template.Spec.Faults.NeverJoins = ptr.To(true)
	w.must(w.Stack.ManagementClient.Create(w.ctx, broken))
	w.change(workers, func(md *clusterv1.MachineDeployment) { md.Spec.Template.Spec.InfrastructureRef.Name = broken.Name })
	w.await("a machine that does not join", func() (string, error) {
		return missing(len(w.pending(workers)) == 1, "none is pending"), nil
	})
	w.await("the autoscaler to see a rollout", func() (string, error) {
		rolling, err := w.pool(workers).RollingOut()
		return missing(rolling, "it sees none"), err
	})
	ids := w.running(workers)
	w.must(w.pool(workers).Delete(w.ctx, ids[1]))
	w.awaitNodes(3)
	w.remain(workers, ids[0], ids[2])
}

func (w *environment) pending(deployment string) []string {
	var ids []string
	for _, instance := range w.instances(deployment) {
		if instance.State == Creating {
			ids = append(ids, instance.ID)
		}
	}
	return ids
}

// downPending makes a machine that does not become a Node, because its cloud is away, and
// does what the autoscaler does when that has lasted for too long.
func (w *environment) downPending() {
	ids := w.running(others)
	cloud := w.manager("infra-sim")
	cloud.AllowExit(true)
	cloud.Stop()
	w.must(w.pool(others).Increase(w.ctx, 1))
	w.await("a machine that does not join", func() (string, error) {
		return missing(len(w.pending(others)) == 1, "none is pending"), nil
	})
	// A Machine that is still being written refuses the autoscaler's write, which then tries again.
	w.await("the machine to be marked", func() (string, error) {
		err := w.pool(others).Delete(w.ctx, w.pending(others)[0])
		if apierrors.IsConflict(err) {
			return err.Error(), nil
		}
		return "", err
	})
	w.must(cloud.Start())
	cloud.AllowExit(false)
	w.await("the machine to be gone", func() (string, error) {
		return missing(len(w.instances(others)) == 1, fmt.Sprint(w.instances(others))), nil
	})
	w.remain(others, ids...)
}

// rolled rolls to a template that works, and looks for the end of the rollout.
func (w *environment) rolled() {
	w.change(workers, func(md *clusterv1.MachineDeployment) {
		metav1.SetMetaDataAnnotation(&md.ObjectMeta, "drover.io/revision-history-limit", "5")
	})
	before := w.running(workers)
	w.must(w.Roll(w.ctx, "medium"))
	w.await("every machine to be replaced", func() (string, error) {
		ids := w.running(workers)
		old := slices.ContainsFunc(ids, func(id string) bool { return slices.Contains(before, id) })
		return missing(!old && len(ids) == 2 && len(w.instances(workers)) == 2, fmt.Sprint(ids)), nil
	})
	w.await("the rollout to be over", func() (string, error) {
		rolling, err := w.pool(workers).RollingOut()
		return missing(!rolling, "it is not"), err
	})
	sets, err := w.sets(w.Namespace, workers)
	w.must(err)
	if len(sets) < 2 {
		w.t.Errorf("%d MachineSets are kept, want the superseded one too", len(sets))
	}
	w.awaitNodes(3)
}

// pausedPool pauses a pool, which then is none for the autoscaler, and for Drover neither.
func (w *environment) pausedPool() {
	w.change(others, func(md *clusterv1.MachineDeployment) { metav1.SetMetaDataAnnotation(&md.ObjectMeta, paused, "") })
	md := w.MachineDeployment()
	md.Name = others
	w.must(w.AwaitCondition(w.ctx, md, clusterv1.PausedCondition, metav1.ConditionTrue, ""))
	w.await("the pool to be none", func() (string, error) {
		groups, err := w.Groups(w.ctx)
		return missing(len(groups) == 1, fmt.Sprintf("%d groups", len(groups))), err
	})
	w.change(others, func(md *clusterv1.MachineDeployment) {
		md.Spec.Replicas = ptr.To[int32](2)
		md.Annotations = without(md.Annotations, paused)
	})
	w.awaitRunning(others, 2)
}

// none scales a pool to zero with the autoscaler, and from zero by the template's capacity.
func (w *environment) none() {
	w.change(workers, func(md *clusterv1.MachineDeployment) {
		md.Spec.Template.Spec.Taints = []clusterv1.MachineTaint{{
			Key: "dedicated", Value: "x", Effect: corev1.TaintEffectNoSchedule, Propagation: clusterv1.MachineTaintPropagationAlways,
		}}
	})
	w.must(w.pool(workers).Delete(w.ctx, w.running(workers)...))
	w.awaitNodes(2)
	w.awaitRunning(workers, 0)
	want := Template{
		Capacity: map[corev1.ResourceName]string{corev1.ResourceCPU: "4", corev1.ResourceMemory: "8Gi", corev1.ResourceEphemeralStorage: "100Gi", corev1.ResourcePods: "110"},
		Labels: map[string]string{
			corev1.LabelArchStable: "amd64", corev1.LabelOSStable: "linux", "node-role.kubernetes.io/worker": "",
		},
		Taints: []corev1.Taint{{Key: "dedicated", Value: "x", Effect: corev1.TaintEffectNoSchedule}},
	}
	w.await("the Node that is imagined to be right", func() (string, error) {
		template, err := w.pool(workers).Template(w.ctx)
		return cmp.Diff(want, template), err
	})
	w.must(w.pool(workers).Increase(w.ctx, 1))
	w.awaitRunning(workers, 1)
	w.awaitNodes(3)
}

// inOrder looks back at every Machine: first created, then running, then deleted, no state
// twice, none failed, and no providerID of two Machines.
func (w *environment) inOrder() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for uid, life := range w.lives {
		if !slices.IsSortedFunc(life, func(a, b State) int { return order(a) - order(b) }) || slices.Contains(life, Failed) || life[0] != Creating {
			w.t.Errorf("Machine %s went through %v", uid, life)
		}
	}
	for id, uids := range w.identities {
		if len(uids) > 1 {
			w.t.Errorf("providerID %s was of several Machines: %v", id, uids)
		}
	}
}

func order(s State) int { return slices.Index([]State{Creating, Running, Deleting}, s) }

func missing(there bool, otherwise string) string {
	if there {
		return ""
	}
	return otherwise
}

func without(annotations map[string]string, key string) map[string]string {
	delete(annotations, key)
	return annotations
}
