// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package autoscaler

import (
	"context"
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/retry"
)

// Keys that the autoscaler reads or writes.
const (
	MinSize        = "cluster.x-k8s.io/cluster-api-autoscaler-node-group-min-size"
	MaxSize        = "cluster.x-k8s.io/cluster-api-autoscaler-node-group-max-size"
	paused         = "cluster.x-k8s.io/paused"
	deploymentName = "cluster.x-k8s.io/deployment-name"
	revision       = "machinedeployment.clusters.x-k8s.io/revision"
	deleteMachine  = "cluster.x-k8s.io/delete-machine"
)

// Group is a node group: a MachineDeployment, or a MachineSet that none owns, as the informers
// showed it when the groups were listed.
type Group struct {
	// ID is Kind/namespace/name.
	ID       string
	Min, Max int

	p      *Provider
	object *unstructured.Unstructured
}

// Groups lists the node groups by ID. One group that cannot be read fails all, as it does in
// the autoscaler.
func (p *Provider) Groups(ctx context.Context) ([]*Group, error) {
	var all []*Group
	for _, resource := range []string{"machinesets", "machinedeployments"} {
		objects, err := p.informer(resource).Lister().List(labels.Everything())
		if err != nil {
			return nil, err
		}
		for _, object := range objects {
			found, err := p.group(ctx, object)
			if err != nil {
				return nil, err
			}
			if found != nil {
				all = append(all, found)
			}
		}
	}
	slices.SortFunc(all, func(a, b *Group) int { return strings.Compare(a.ID, b.ID) })
	return all, nil
}

// group is the node group of an object; nil if it is none.
func (p *Provider) group(ctx context.Context, found runtime.Object) (*Group, error) {
	object, ok := found.(*unstructured.Unstructured)
	if !ok || owner(object, "MachineDeployment") != "" {
		return nil, nil
	}
	object = object.DeepCopy()
	g := &Group{ID: path.Join(object.GetKind(), object.GetNamespace(), object.GetName()), p: p, object: object}
	var err error
	if g.Min, err = size(object, MinSize); err != nil {
		return nil, err
	}
	if g.Max, err = size(object, MaxSize); err != nil {
		return nil, err
	}
	if _, is := object.GetAnnotations()[paused]; is || g.Max == 0 {
		return nil, nil
	}
	target, err := g.Target()
	if err != nil {
		return nil, err
	}
	if target == 0 {
		if template, err := g.Template(ctx); err != nil || !template.enough() {
			return nil, err
		}
	}
	return g, nil
}

// Target is spec.replicas of the group, as the informer has it.
func (g *Group) Target() (int, error) {
	replicas, found, err := unstructured.NestedInt64(g.object.Object, "spec", "replicas")
	if err != nil || !found {
		return 0, fmt.Errorf("%s has no spec.replicas: %w", g.ID, err)
	}
	return int(replicas), nil
}

// Increase reads the scale and writes one that is larger.
func (g *Group) Increase(ctx context.Context, by int) error {
	replicas, err := g.replicas(ctx)
	if err != nil {
		return err
	}
	return g.resize(ctx, replicas+by)
}

// Delete marks the machines of the instances one by one, and lowers the scale by one for each.
func (g *Group) Delete(ctx context.Context, instances ...string) error {
	replicas, err := g.replicas(ctx)
	if err != nil {
		return err
	}
	if replicas-len(instances) < g.Min {
		return fmt.Errorf("%s has %d replicas and must keep %d", g.ID, replicas, g.Min)
	}
	for _, id := range instances {
		if of, err := g.p.GroupOf(ctx, id); err != nil || of == nil || of.ID != g.ID {
			return fmt.Errorf("instance %q is not of %s: %w", id, g.ID, err)
		}
	}
	for _, id := range instances {
		machine, err := g.p.machine(id)
		if err != nil {
			return err
		}
		if machine.GetDeletionTimestamp() != nil {
			continue
		}
		if err := g.mark(ctx, machine); err != nil {
			return err
		}
		replicas--
		if err := g.resize(ctx, replicas); err != nil {
			return err
		}
	}
	return nil
}

// mark reads the Machine and writes it back as a whole, with the annotation.
func (g *Group) mark(ctx context.Context, machine *unstructured.Unstructured) error {
	machines := g.p.dynamic.Resource(g.p.resource("machines")).Namespace(machine.GetNamespace())
	// A conflict costs the autoscaler a loop, which finds the same node unneeded again.
	return retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		fresh, err := machines.Get(ctx, machine.GetName(), metav1.GetOptions{})
		if err != nil {
			return err
		}
		annotations := fresh.GetAnnotations()
		if annotations == nil {
			annotations = map[string]string{}
		}
		annotations[deleteMachine] = metav1.Now().String()
		fresh.SetAnnotations(annotations)
		_, err = machines.Update(ctx, fresh, metav1.UpdateOptions{})
		return err
	})
}

// replicas reads the scale subresource.
func (g *Group) replicas(ctx context.Context) (int, error) {
	found, err := g.p.scales.Scales(g.object.GetNamespace()).Get(ctx, g.p.resource(g.plural()).GroupResource(), g.object.GetName(), metav1.GetOptions{})
	if err != nil {
		return 0, fmt.Errorf("reading the scale of %s: %w", g.ID, err)
	}
	return int(found.Spec.Replicas), nil
}

// resize patches the scale subresource; zero is written, not left out.
func (g *Group) resize(ctx context.Context, replicas int) error {
	if replicas < g.Min || replicas > g.Max {
		return fmt.Errorf("%s must have %d to %d replicas, not %d", g.ID, g.Min, g.Max, replicas)
	}
	patch, err := json.Marshal(map[string]any{"spec": map[string]int{"replicas": replicas}})
	if err != nil {
		return err
	}
	_, err = g.p.scales.Scales(g.object.GetNamespace()).Patch(ctx, g.p.resource(g.plural()), g.object.GetName(), types.MergePatchType, patch, metav1.PatchOptions{})
	if err != nil {
		return fmt.Errorf("patching the scale of %s: %w", g.ID, err)
	}
	return nil
}

// RollingOut reports whether a MachineSet that is not of the newest revision still has
// machines or replicas. The autoscaler takes no machine of such a group away.
func (g *Group) RollingOut() (bool, error) {
	if g.object.GetKind() != "MachineDeployment" {
		return false, nil
	}
	sets, err := g.p.informer("machinesets").Lister().ByNamespace(g.object.GetNamespace()).List(labels.SelectorFromSet(labels.Set{deploymentName: g.object.GetName()}))
	if err != nil {
		return false, err
	}
	newest := int64(0)
	revisions := map[*unstructured.Unstructured]int64{}
	for _, each := range sets {
		set, _ := each.(*unstructured.Unstructured)
		// What is no number is no revision: then no MachineSet is the newest.
		revisions[set], _ = strconv.ParseInt(set.GetAnnotations()[revision], 10, 64)
		newest = max(newest, revisions[set])
	}
	for set, n := range revisions {
		target, _, _ := unstructured.NestedInt64(set.Object, "spec", "replicas")
		has, _, _ := unstructured.NestedInt64(set.Object, "status", "replicas")
		if (n != newest || newest == 0) && target+has > 0 {
			return true, nil
		}
	}
	return false, nil
}

func (g *Group) plural() string { return strings.ToLower(g.object.GetKind()) + "s" }

func size(object *unstructured.Unstructured, annotation string) (int, error) {
	text, ok := object.GetAnnotations()[annotation]
	if !ok {
		return 0, nil
	}
	return strconv.Atoi(text)
}

// owner is the name of the owner of a kind, if any.
func owner(object *unstructured.Unstructured, kind string) string {
	for _, reference := range object.GetOwnerReferences() {
		if reference.Kind == kind {
			return reference.Name
		}
	}
	return ""
}
