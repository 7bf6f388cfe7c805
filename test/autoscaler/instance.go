// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package autoscaler

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"
)

// State is what the autoscaler takes a machine for.
type State string

// The states of an instance.
const (
	Creating State = "Creating"
	Running  State = "Running"
	Deleting State = "Deleting"
	Failed   State = "Failed"
)

// The prefixes of the identities that stand for machines that are no Nodes.
const (
	pendingPrefix  = "pending-machine-"
	deletingPrefix = "deleting-machine-"
	failedPrefix   = "failed-machine-"
)

// Instance is a machine as the autoscaler's core counts it. ID is compared with the
// providerID of Nodes, character by character.
type Instance struct {
	ID    string
	State State
}

// Instances lists the instances of the group by ID.
func (g *Group) Instances() ([]Instance, error) {
	selector, found, err := unstructured.NestedMap(g.object.Object, "spec", "selector")
	if err != nil || !found {
		return nil, fmt.Errorf("%s has no spec.selector: %w", g.ID, err)
	}
	typed := &metav1.LabelSelector{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(selector, typed); err != nil {
		return nil, err
	}
	matches, err := metav1.LabelSelectorAsSelector(typed)
	if err != nil {
		return nil, err
	}
	machines, err := g.p.informer("machines").Lister().ByNamespace(g.object.GetNamespace()).List(matches)
	if err != nil {
		return nil, err
	}
	var all []Instance
	for _, each := range machines {
		machine, _ := each.(*unstructured.Unstructured)
		if clusterOf(machine) == clusterOf(g.object) {
			all = append(all, g.p.instance(machine))
		}
	}
	slices.SortFunc(all, func(a, b Instance) int { return strings.Compare(a.ID, b.ID) })
	return all, nil
}

// instance applies the autoscaler's tests in their order.
func (p *Provider) instance(machine *unstructured.Unstructured) Instance {
	name := machine.GetNamespace() + "_" + machine.GetName()
	if _, failed, _ := unstructured.NestedString(machine.Object, "status", "failureMessage"); failed {
		return Instance{failedPrefix + name, Failed}
	}
	if machine.GetDeletionTimestamp() != nil {
		return Instance{deletingPrefix + name, Deleting}
	}
	reference, found, _ := unstructured.NestedMap(machine.Object, "status", "nodeRef")
	if !found {
		return Instance{pendingPrefix + name, Creating}
	}
	id, _, _ := unstructured.NestedString(machine.Object, "spec", "providerID")
	if id == "" {
		if node := p.Node(fmt.Sprint(reference["name"])); node != nil {
			id = node.Spec.ProviderID
		}
	}
	return Instance{id, Running}
}

// GroupOf is the group that an instance, or the Node with that providerID, belongs to; nil
// if to none.
func (p *Provider) GroupOf(ctx context.Context, id string) (*Group, error) {
	machine, err := p.machine(id)
	if err != nil || machine == nil {
		return nil, err
	}
	set, err := p.find("machinesets", machine.GetNamespace(), owner(machine, "MachineSet"))
	if err != nil || set == nil {
		return nil, err
	}
	deployment, err := p.find("machinedeployments", set.GetNamespace(), owner(set, "MachineDeployment"))
	if err != nil || deployment == nil {
		return p.group(ctx, set)
	}
	return p.group(ctx, deployment)
}

// HasInstance reports whether a Node has a Machine, by its providerID or its annotations.
func (p *Provider) HasInstance(node *corev1.Node) (bool, error) {
	if machine, err := p.machine(node.Spec.ProviderID); err != nil || machine != nil {
		return machine != nil, err
	}
	machine, err := p.find("machines", node.Annotations["cluster.x-k8s.io/cluster-namespace"], node.Annotations["cluster.x-k8s.io/machine"])
	return machine != nil, err
}

// machine finds a Machine by the providerID of its Node, or by an identity that stands for one.
func (p *Provider) machine(id string) (*unstructured.Unstructured, error) {
	found, err := p.machines.GetIndexer().ByIndex(byProviderID, normalize(id))
	if err != nil {
		return nil, err
	}
	if len(found) > 1 {
		return nil, fmt.Errorf("%d Machines have a providerID that ends as %q does", len(found), id)
	}
	if len(found) == 1 {
		machine, _ := found[0].(*unstructured.Unstructured)
		return machine, nil
	}
	for _, prefix := range []string{pendingPrefix, deletingPrefix, failedPrefix} {
		if name, ok := strings.CutPrefix(id, prefix); ok {
			namespace, name, _ := strings.Cut(name, "_")
			return p.find("machines", namespace, name)
		}
	}
	return nil, nil
}

// find looks an object up in an informer; it is nil if there is none.
func (p *Provider) find(resource, namespace, name string) (*unstructured.Unstructured, error) {
	found, exists, err := p.informer(resource).Informer().GetStore().GetByKey(namespace + "/" + name)
	if err != nil || !exists {
		return nil, err
	}
	object, _ := found.(*unstructured.Unstructured)
	return object, nil
}

// Node finds a Node by name; it is nil if there is none.
func (p *Provider) Node(name string) *corev1.Node {
	found, exists, err := p.nodes.GetStore().GetByKey(name)
	if err != nil || !exists {
		return nil
	}
	node, _ := found.(*corev1.Node)
	return node
}

// Registered are all Nodes of the workload cluster.
func (p *Provider) Registered() []*corev1.Node {
	var nodes []*corev1.Node
	for _, object := range p.nodes.GetStore().List() {
		node, _ := object.(*corev1.Node)
		nodes = append(nodes, node)
	}
	return nodes
}

// OnMachine calls back with every Machine as it changes, one after the other.
func (p *Provider) OnMachine(do func(*unstructured.Unstructured, Instance)) error {
	see := func(object any) {
		if machine, ok := object.(*unstructured.Unstructured); ok {
			do(machine, p.instance(machine))
		}
	}
	_, err := p.machines.AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: see, UpdateFunc: func(_, now any) { see(now) }})
	return err
}

// sets are the MachineSets of a deployment.
func (p *Provider) sets(namespace, deployment string) ([]*unstructured.Unstructured, error) {
	found, err := p.informer("machinesets").Lister().ByNamespace(namespace).List(labels.SelectorFromSet(labels.Set{deploymentName: deployment}))
	var sets []*unstructured.Unstructured
	for _, each := range found {
		set, _ := each.(*unstructured.Unstructured)
		sets = append(sets, set)
	}
	return sets, err
}

// clusterOf is the cluster of a Machine or a group.
func clusterOf(object *unstructured.Unstructured) string {
	name, found, _ := unstructured.NestedString(object.Object, "spec", "clusterName")
	if !found {
		name = object.GetLabels()["cluster.x-k8s.io/cluster-name"]
	}
	return name
}
