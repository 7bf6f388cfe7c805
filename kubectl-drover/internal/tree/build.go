// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package tree

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"drover.io/kubectl-drover/internal/object"
	"drover.io/kubectl-drover/internal/why"
	"drover.io/runtime/quantity"
)

// Builder makes trees of what it reads.
type Builder struct {
	*object.Reader
	// History shows MachineSets without Machines too.
	History bool
}

// workers are the MachineSets and Machines of a Cluster or MachineDeployment, by their owners.
type workers struct {
	sets     map[types.UID][]*clusterv1.MachineSet
	machines map[types.UID]*group
	// alone are Machines without a MachineSet that was read.
	alone group
}

// Cluster is the tree of a Cluster.
func (b *Builder) Cluster(ctx context.Context, key client.ObjectKey) (*Item, error) {
	cluster := &clusterv1.Cluster{}
	if err := b.Get(ctx, object.Cluster, key, cluster); err != nil {
		return nil, err
	}
	item := &Item{Kind: "Cluster", Names: []string{cluster.Name}, State: cluster.Status.Phase, Problem: problem(why.ClusterProblem(cluster))}
	w, err := b.workers(ctx, key.Namespace, cluster.Name)
	if err != nil {
		return nil, err
	}
	err = object.Each(ctx, b.Reader, object.MachineDeployment, &clusterv1.MachineDeploymentList{}, func(page *clusterv1.MachineDeploymentList) error {
		for i := range page.Items {
			if md := &page.Items[i]; md.Spec.ClusterName == cluster.Name {
				item.Children = append(item.Children, b.deployment(md, w))
				delete(w.sets, md.UID)
			}
		}
		return nil
	}, client.InNamespace(key.Namespace))
	if err != nil {
		return nil, err
	}
	// The others have no MachineDeployment, or one that is gone: deleted, or restored with another UID.
	item.Children = append(item.Children, b.sets(slices.Concat(slices.Collect(maps.Values(w.sets))...), w)...)
	item.Children = append(item.Children, w.alone.sorted()...)
	return item, nil
}

// Deployment is the tree of a MachineDeployment.
func (b *Builder) Deployment(ctx context.Context, key client.ObjectKey) (*Item, error) {
	md := &clusterv1.MachineDeployment{}
	if err := b.Get(ctx, object.MachineDeployment, key, md); err != nil {
		return nil, err
	}
	w, err := b.workers(ctx, key.Namespace, md.Spec.ClusterName)
	if err != nil {
		return nil, err
	}
	return b.deployment(md, w), nil
}

func (b *Builder) deployment(md *clusterv1.MachineDeployment, w *workers) *Item {
	s := md.Status
	state := fmt.Sprintf("%s: %d ready, %d available, %d up to date",
		quantity.Of(ptr.Deref(md.Spec.Replicas, 0), "replica"), ptr.Deref(s.ReadyReplicas, 0), ptr.Deref(s.AvailableReplicas, 0), ptr.Deref(s.UpToDateReplicas, 0))
	return &Item{
		Kind: "MachineDeployment", Names: []string{md.Name}, State: state, Problem: problem(why.DeploymentProblem(md)),
		Children: b.sets(w.sets[md.UID], w),
	}
}

func (b *Builder) sets(sets []*clusterv1.MachineSet, w *workers) []*Item {
	var items []*Item
	slices.SortFunc(sets, func(a, b *clusterv1.MachineSet) int { return strings.Compare(a.Name, b.Name) })
	for _, set := range sets {
		machines := w.machines[set.UID]
		if machines == nil && !b.History && ptr.Deref(set.Spec.Replicas, 0) == 0 {
			continue
		}
		item := &Item{
			Kind: "MachineSet", Names: []string{set.Name}, Problem: problem(why.SetProblem(set)),
			State: fmt.Sprintf("%d of %s ready", ptr.Deref(set.Status.ReadyReplicas, 0), quantity.Of(ptr.Deref(set.Spec.Replicas, 0), "replica")),
		}
		if revision := set.Annotations[clusterv1.RevisionAnnotation]; revision != "" {
			item.State = "revision " + revision + ", " + item.State
		}
		if machines != nil {
			item.Children = machines.sorted()
		}
		items = append(items, item)
	}
	return items
}

func (b *Builder) workers(ctx context.Context, namespace, cluster string) (*workers, error) {
	w := &workers{sets: map[types.UID][]*clusterv1.MachineSet{}, machines: map[types.UID]*group{}}
	known := map[types.UID]bool{}
	err := object.Each(ctx, b.Reader, object.MachineSet, &clusterv1.MachineSetList{}, func(page *clusterv1.MachineSetList) error {
		for i := range page.Items {
			set := &page.Items[i]
			if set.Spec.ClusterName != cluster {
				continue
			}
			owner := controller(set, "MachineDeployment")
			known[set.UID] = true
			w.sets[owner] = append(w.sets[owner], set)
		}
		return nil
	}, client.InNamespace(namespace))
	if err != nil {
		return nil, err
	}
	err = b.Machines(ctx, namespace, cluster, func(page []clusterv1.Machine) error {
		for i := range page {
			m := &page[i]
			owner := controller(m, "MachineSet")
			if !known[owner] {
				w.alone.add(m)
				continue
			}
			if w.machines[owner] == nil {
				w.machines[owner] = &group{}
			}
			w.machines[owner].add(m)
		}
		return nil
	})
	return w, err
}

func controller(o metav1.Object, kind string) types.UID {
	if owner := metav1.GetControllerOfNoCopy(o); owner != nil && owner.Kind == kind {
		return owner.UID
	}
	return ""
}
