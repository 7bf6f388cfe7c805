// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package cell

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// await polls until nothing is missing or ctx is done; the error then has what was
// counts last. Errors of the API servers only delay; a manager that has ended does not.
func (w *Environment) await(ctx context.Context, what string, missing func(context.Context) (string, error)) error {
	var last string
	err := wait.PollUntilContextCancel(ctx, look, true, func(ctx context.Context) (bool, error) {
		for _, m := range w.Stack.Managers() {
			if err := m.Err(); err != nil && !m.ExitAllowed() {
				return false, err
			}
		}
		seen, err := missing(ctx)
		if err != nil {
			seen = err.Error()
		}
		if ctx.Err() == nil {
			last = seen
		}
		if w.Hopeless != "" && strings.Contains(seen, w.Hopeless) {
			return false, errors.New("it never will")
		}
		return seen == "", nil
	})
	if err != nil {
		return fmt.Errorf("waiting for %s: %w (%s)", what, err, last)
	}
	return nil
}

// running waits until exactly so many workers run, every one up to date and available and on
// a Node of its own with its providerID.
func (w *Environment) running(replicas int) func(context.Context) error {
	return func(ctx context.Context) error {
		return w.await(ctx, fmt.Sprintf("%d workers to run", replicas), func(ctx context.Context) (string, error) {
			return w.lacking(ctx, replicas)
		})
	}
}

func (w *Environment) lacking(ctx context.Context, replicas int) (string, error) {
	md := &clusterv1.MachineDeployment{}
	if err := w.Stack.ManagementClient.Get(ctx, key(cluster+"-workers"), md); err != nil {
		return "", err
	}
	machines, err := w.workers(ctx)
	if err != nil {
		return "", err
	}
	nodes, err := w.work.nodes(ctx)
	if err != nil {
		return "", err
	}
	for i := range machines {
		if lacks := missing(&machines[i], nodes); lacks != "" {
			return fmt.Sprintf("Machine %s %s%s", machines[i].Name, lacks, w.consoles()), nil
		}
	}
	status := md.Status
	if status.ObservedGeneration != md.Generation || len(machines) != replicas || len(nodes) != replicas ||
		count(status.Replicas) != replicas || count(status.UpToDateReplicas) != replicas || count(status.AvailableReplicas) != replicas {
		return fmt.Sprintf("%d Machines, %d Nodes; MachineDeployment counts %d, %d up to date, %d available: %s", len(machines), len(nodes),
			count(status.Replicas), count(status.UpToDateReplicas), count(status.AvailableReplicas), failingConditions(md)), nil
	}
	return "", nil
}

// missing describes what a machine still lacks, with the conditions that have the reason.
func missing(m *clusterv1.Machine, nodes map[string]*corev1.Node) string {
	node := nodes[m.Status.NodeRef.Name]
	switch {
	case m.Status.Phase != string(clusterv1.MachinePhaseRunning), !conditions.IsTrue(m, clusterv1.MachineAvailableCondition),
		!conditions.IsTrue(m, clusterv1.MachineUpToDateCondition):
		return "is " + m.Status.Phase + ": " + failingConditions(m)
	case node == nil:
		return "has no Node"
	case node.Spec.ProviderID != m.Spec.ProviderID:
		return fmt.Sprintf("has providerID %q, its Node %q", m.Spec.ProviderID, node.Spec.ProviderID)
	}
	return ""
}

// failingConditions are the conditions that report a problem, with their messages.
func failingConditions(object conditions.Getter) string {
	var all []string
	for _, c := range object.GetConditions() {
		if c.Message != "" && c.Type != clusterv1.ReadyCondition {
			all = append(all, fmt.Sprintf("%s %s %s: %s", c.Type, c.Status, c.Reason, strings.ReplaceAll(c.Message, "\n", " ")))
		}
	}
	return strings.Join(all, "; ")
}

// workers are the Machines that are not of the control plane.
func (w *Environment) workers(ctx context.Context) ([]clusterv1.Machine, error) {
	list := &clusterv1.MachineList{}
	if err := w.Stack.ManagementClient.List(ctx, list, client.InNamespace(namespace)); err != nil {
		return nil, err
	}
	var workers []clusterv1.Machine
	for _, m := range list.Items {
		if _, plane := m.Labels[clusterv1.MachineControlPlaneLabel]; !plane {
			workers = append(workers, m)
		}
	}
	return workers, nil
}

// awaitNothingLeft waits until no object, Node, data Secret or host is left of the Cluster.
func (w *Environment) awaitNothingLeft(ctx context.Context) error {
	return w.await(ctx, "nothing to be left", func(ctx context.Context) (string, error) {
		left, err := w.left(ctx)
		return strings.Join(left, ", "), err
	})
}

func (w *Environment) left(ctx context.Context) ([]string, error) {
	left, err := w.objects(ctx)
	if err != nil || w.Infrastructure == InMemory {
		return left, err // the workload cluster is gone too
	}
	hosts, err := w.hosts()
	if err != nil || w.Core == Upstream {
		return append(left, hosts...), err // upstream leaves the Nodes of a Cluster that is deleted
	}
	nodes, err := w.work.nodes(ctx)
	for name := range nodes {
		left = append(left, "Node "+name)
	}
	return append(left, hosts...), err
}

// objects are what is left in the management cluster.
func (w *Environment) objects(ctx context.Context) ([]string, error) {
	kinds := []schema.GroupVersionKind{
		clusterv1.GroupVersion.WithKind("Cluster"), clusterv1.GroupVersion.WithKind("MachineDeployment"),
		clusterv1.GroupVersion.WithKind("MachineSet"), clusterv1.GroupVersion.WithKind("Machine"),
	}
	var left []string
	for _, kind := range append(kinds, w.providerKinds()...) {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
		if err := w.Stack.ManagementClient.List(ctx, list, client.InNamespace(namespace)); err != nil && !meta.IsNoMatchError(err) {
			return nil, err
		}
		for _, item := range list.Items {
			left = append(left, kind.Kind+" "+item.GetName())
		}
	}
	secrets := &corev1.SecretList{}
	if err := w.Stack.ManagementClient.List(ctx, secrets, client.InNamespace(namespace), client.MatchingLabels{clusterv1.ClusterNameLabel: cluster}); err != nil {
		return nil, err
	}
	for _, secret := range secrets.Items {
		if !providedByUser(secret.Name) {
			left = append(left, "Secret "+secret.Name)
		}
	}
	return left, nil
}

// providedByUser reports whether a Secret is one of the cluster, which the user provides, and not of a machine.
func providedByUser(secret string) bool {
	for _, suffix := range []string{"kubeconfig", "ca", "etcd"} {
		if secret == cluster+"-"+suffix {
			return true
		}
	}
	return false
}

// hosts names the instances of the simulated cloud.
func (w *Environment) hosts() ([]string, error) {
	entries, err := os.ReadDir(w.Stack.InstanceDir())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	var names []string
	for _, entry := range entries {
		if entry.IsDir() {
			names = append(names, "host "+entry.Name())
		}
	}
	return names, nil
}

// consoles is the end of the console logs of the simulated cloud's hosts.
func (w *Environment) consoles() string {
	hosts, err := w.hosts()
	if err != nil {
		return ""
	}
	var output strings.Builder
	for _, host := range hosts {
		console, err := os.ReadFile(filepath.Join(w.Stack.InstanceDir(), strings.TrimPrefix(host, "host "), "console.log"))
		if err == nil {
			lines := strings.Split(strings.TrimSpace(string(console)), "\n")
			fmt.Fprintf(&output, "; console of %s: %s", host, lines[len(lines)-1])
		}
	}
	return output.String()
}

func count(n *int32) int {
	if n == nil {
		return 0
	}
	return int(*n)
}
