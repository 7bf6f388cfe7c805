// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package autoscaler

import (
	"context"
	_ "embed"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/tools/clientcmd"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"drover.io/test/framework"
	"drover.io/test/workflow"
)

//go:embed rbac.yaml
var rbac []byte

// timeout bounds a workflow; it does not measure how long one takes.
const timeout = 15 * time.Minute

// environment is a workflow with an autoscaler.
type environment struct {
	*workflow.Workflow
	*Provider
	t   *testing.T
	ctx context.Context

	mu sync.Mutex
	// lives are the states of each Machine in order, by UID.
	lives map[string][]State
	// identities are the providerIDs that were ever seen, with the UIDs that had them.
	identities map[string][]string
}

// start starts a stack and an autoscaler with permissions of its own.
func start(t *testing.T) *environment {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), timeout)
	t.Cleanup(cancel)
	stack, err := framework.Start(ctx, framework.Options{Progress: func(step string) { t.Log(step) }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			for _, m := range stack.Managers() {
				t.Log(m.Tail())
			}
		}
		if err := stack.Stop(); err != nil {
			t.Error(err)
		}
	})
	w := &environment{Workflow: &workflow.Workflow{Stack: stack, Namespace: "default", Cluster: "demo"}, t: t, ctx: ctx}
	w.lives, w.identities = map[string][]State{}, map[string][]string{}
	w.must(framework.Apply(ctx, stack.ManagementClient, rbac))
	kubeconfig, err := stack.Management.ServiceAccountKubeconfig(ctx, "kube-system", "cluster-autoscaler")
	w.must(err)
	config, err := clientcmd.RESTConfigFromKubeConfig(kubeconfig)
	w.must(err)
	config.QPS, config.Burst = 100, 200 // as with the autoscaler's flags
	w.Provider, err = Start(ctx, config, stack.Workload.AdminConfig())
	w.must(err)
	w.must(w.OnMachine(w.record))
	return w
}

// record notes what becomes of a Machine.
func (w *environment) record(machine *unstructured.Unstructured, instance Instance) {
	w.mu.Lock()
	defer w.mu.Unlock()
	uid := string(machine.GetUID())
	if life := w.lives[uid]; len(life) == 0 || life[len(life)-1] != instance.State {
		w.lives[uid] = append(life, instance.State)
	}
	id, _, _ := unstructured.NestedString(machine.Object, "spec", "providerID")
	if id != "" && !slices.Contains(w.identities[normalize(id)], uid) {
		w.identities[normalize(id)] = append(w.identities[normalize(id)], uid)
	}
}

func (w *environment) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// await looks until nothing is missing any more.
func (w *environment) await(what string, missing func() (string, error)) {
	w.t.Helper()
	var last string
	err := wait.PollUntilContextCancel(w.ctx, 50*time.Millisecond, true, func(context.Context) (bool, error) {
		for _, m := range w.Stack.Managers() {
			if err := m.Err(); err != nil && !m.ExitAllowed() {
				return false, err
			}
		}
		var err error
		last, err = missing()
		return last == "" && err == nil, err
	})
	if err != nil {
		w.t.Fatalf("waiting for %s: %v (%s)", what, err, last)
	}
}

// pool is the node group of a MachineDeployment, as it is once the informers show one.
func (w *environment) pool(deployment string) *Group {
	w.t.Helper()
	var found *Group
	w.await(deployment+" to be a node group", func() (string, error) {
		groups, err := w.Groups(w.ctx)
		if err != nil {
			return "", err
		}
		i := slices.IndexFunc(groups, func(g *Group) bool { return g.ID == "MachineDeployment/"+w.Namespace+"/"+deployment })
		if i < 0 {
			return fmt.Sprintf("there are %d", len(groups)), nil
		}
		found = groups[i]
		return "", nil
	})
	return found
}

// instances of a pool.
func (w *environment) instances(deployment string) []Instance {
	w.t.Helper()
	instances, err := w.pool(deployment).Instances()
	w.must(err)
	return instances
}

// awaitRunning waits until the pool has exactly so many instances, all of them Nodes.
func (w *environment) awaitRunning(deployment string, n int) {
	w.t.Helper()
	w.await(fmt.Sprintf("%d Nodes in %s", n, deployment), func() (string, error) {
		instances := w.instances(deployment)
		registered := 0
		for _, instance := range instances {
			if instance.State == Running && w.registered(instance.ID) {
				registered++
			}
		}
		if len(instances) != n || registered != n {
			return fmt.Sprint(instances), nil
		}
		return "", nil
	})
}

// registered compares an identity with those of the Nodes as they are, not normalized.
func (w *environment) registered(id string) bool {
	return slices.ContainsFunc(w.Registered(), func(n *corev1.Node) bool { return n.Spec.ProviderID == id })
}

// running are the identities of the pool's Nodes.
func (w *environment) running(deployment string) []string {
	w.t.Helper()
	var ids []string
	for _, instance := range w.instances(deployment) {
		if instance.State == Running {
			ids = append(ids, instance.ID)
		}
	}
	return ids
}

// change changes a MachineDeployment as a user would.
func (w *environment) change(deployment string, do func(*clusterv1.MachineDeployment)) {
	w.t.Helper()
	md := &clusterv1.MachineDeployment{}
	w.must(w.Stack.ManagementClient.Get(w.ctx, client.ObjectKey{Namespace: w.Namespace, Name: deployment}, md))
	before := md.DeepCopy()
	do(md)
	w.must(w.Stack.ManagementClient.Patch(w.ctx, md, client.MergeFrom(before)))
}

// manager is one of the stack's managers.
func (w *environment) manager(name string) *framework.Manager {
	w.t.Helper()
	for _, m := range w.Stack.Managers() {
		if m.Name == name {
			return m
		}
	}
	w.t.Fatalf("no manager is called %q", name)
	return nil
}
