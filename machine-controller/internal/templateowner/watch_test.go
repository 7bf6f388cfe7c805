// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package templateowner

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"drover.io/machine-controller/internal/coalesce"
	"drover.io/machine-controller/internal/testenv"
	"drover.io/runtime/predicates"
)

// TestTemplatesWithoutMachinesAreOwned follows the templates of a pool that scales from zero: they get the Cluster as owner,
// again when it was removed, and again when a template was replaced under its name, with one write each time.
func TestTemplatesWithoutMachinesAreOwned(t *testing.T) {
	t.Parallel()
	for name, pool := range map[string]func(*environment, string) client.Object{
		"MachineDeployment": func(e *environment, template string) client.Object { return e.deployment(template) },
		"MachineSet":        func(e *environment, template string) client.Object { return e.set(template) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newEnvironment(t)
			e.start("")
			infra, bootstrap := e.templates("small")
			e.create(pool(e, "small"))
			e.awaitOwner(infra, bootstrap)

			e.patch(infra, `{"metadata":{"ownerReferences":null}}`)
			e.awaitOwner(infra)
			e.Expect(e.client.Delete(t.Context(), bootstrap)).To(gomega.Succeed())
			bootstrap = e.template(bootstrapTemplate, "small")
			e.create(bootstrap)
			e.awaitOwner(bootstrap)

			// What does not change the owner is not written again.
			e.patch(infra, `{"metadata":{"annotations":{"example.com/note":"1"}},"spec":{"more":true}}`)
			later := e.template(infraTemplate, "later")
			e.create(later)
			other := e.set("later")
			other.Name = "other"
			e.create(other)
			e.awaitOwner(later)
			e.writes.expect(t, map[string]int{"ThingMachineTemplate small": 2, "ThingConfigTemplate small": 2, "ThingMachineTemplate later": 1})
		})
	}
}

// TestTemplateIsOwnedOnceItMayBe has what keeps a Cluster from becoming an owner, and ends.
func TestTemplateIsOwnedOnceItMayBe(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		before func(*environment, *clusterv1.MachineDeployment)
		after  func(*environment, *clusterv1.MachineDeployment)
	}{
		"a Cluster is paused": {
			func(e *environment, _ *clusterv1.MachineDeployment) { e.patch(e.cluster, `{"spec":{"paused":true}}`) },
			func(e *environment, _ *clusterv1.MachineDeployment) { e.patch(e.cluster, `{"spec":{"paused":false}}`) },
		},
		"a Cluster has the annotation that pauses it": {
			func(e *environment, _ *clusterv1.MachineDeployment) {
				e.patch(e.cluster, `{"metadata":{"annotations":{"cluster.x-k8s.io/paused":""}}}`)
			},
			func(e *environment, _ *clusterv1.MachineDeployment) {
				e.patch(e.cluster, `{"metadata":{"annotations":null}}`)
			},
		},
		"a MachineDeployment is paused": {
			func(_ *environment, md *clusterv1.MachineDeployment) {
				md.Annotations = map[string]string{clusterv1.PausedAnnotation: ""}
			},
			func(e *environment, md *clusterv1.MachineDeployment) {
				e.patch(md, `{"metadata":{"annotations":null}}`)
			},
		},
		"a MachineDeployment is another manager's": {
			func(_ *environment, md *clusterv1.MachineDeployment) { md.Labels[clusterv1.WatchLabel] = "other" },
			func(e *environment, md *clusterv1.MachineDeployment) {
				e.patch(md, `{"metadata":{"labels":{"cluster.x-k8s.io/watch-filter":"own"}}}`)
			},
		},
		"a MachineDeployment refers to another template": {
			func(_ *environment, md *clusterv1.MachineDeployment) {
				md.Spec.Template.Spec.InfrastructureRef.Name = "other"
			},
			func(e *environment, md *clusterv1.MachineDeployment) {
				e.patch(md, `{"spec":{"template":{"spec":{"infrastructureRef":{"name":"small"}}}}}`)
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newEnvironment(t)
			md := e.deployment("small")
			md.Labels = map[string]string{clusterv1.WatchLabel: "own"}
			infra, _ := e.templates("small")
			test.before(e, md)
			e.create(md)
			e.reconcile("own", e.cluster)
			if owners := e.owners(infra); owners != nil {
				t.Fatalf("owners %v", owners)
			}
			e.start("own")
			e.awaitOther("own")
			test.after(e, md)
			e.awaitOwner(infra)
		})
	}
}

// awaitOther waits until the controller has made another Cluster an owner, and so has reconciled what existed when it was started.
func (e *environment) awaitOther(watch string) {
	e.Helper()
	other, infra, set := testenv.Cluster(e.cluster.Namespace), e.template(infraTemplate, "other"), e.set("other")
	other.Name, set.Name, set.Labels = "other", "other", map[string]string{clusterv1.WatchLabel: watch}
	set.Spec.ClusterName, set.Spec.Template.Spec.ClusterName = "other", "other"
	e.create(other, infra, set)
	e.Eventually(func() []metav1.OwnerReference { return e.owners(infra) }).Should(gomega.ContainElement(ownedBy(other)[0]))
}

// TestTemplateThatIsHandedOverIsOwned relabels a template of another manager.
func TestTemplateThatIsHandedOverIsOwned(t *testing.T) {
	t.Parallel()
	e := newEnvironment(t)
	infra := e.template(infraTemplate, "small")
	infra.SetLabels(map[string]string{clusterv1.WatchLabel: "other"})
	bootstrap := e.template(bootstrapTemplate, "small")
	md := e.deployment("small")
	md.Labels = map[string]string{clusterv1.WatchLabel: "own"}
	e.create(infra, bootstrap, md)
	e.start("own")
	e.awaitOwner(bootstrap)
	e.patch(infra, `{"metadata":{"labels":{"cluster.x-k8s.io/watch-filter":"own"}}}`)
	e.awaitOwner(infra)
	e.writes.expect(t, map[string]int{"ThingMachineTemplate small": 1, "ThingConfigTemplate small": 1})
}

// TestWhatAPoolRefersTo has the changes of a MachineDeployment and of a MachineSet that trigger a reconcile of their Cluster.
func TestWhatAPoolRefersTo(t *testing.T) {
	t.Parallel()
	at := metav1.Now()
	changes := map[string]struct {
		change func(client.Object, *clusterv1.MachineSpec)
		want   bool
	}{
		"is another template for machines":  {func(_ client.Object, spec *clusterv1.MachineSpec) { spec.InfrastructureRef.Name = "other" }, true},
		"is another kind of template":       {func(_ client.Object, spec *clusterv1.MachineSpec) { spec.InfrastructureRef.Kind = "Other" }, true},
		"is another template for bootstrap": {func(_ client.Object, spec *clusterv1.MachineSpec) { spec.Bootstrap.ConfigRef.Name = "other" }, true},
		"is no matter while it is paused": {func(o client.Object, _ *clusterv1.MachineSpec) {
			o.SetAnnotations(map[string]string{clusterv1.PausedAnnotation: ""})
		}, true},
		"is no matter once it is deleted": {func(o client.Object, _ *clusterv1.MachineSpec) { o.SetDeletionTimestamp(&at) }, true},
		"is another manager's matter": {func(o client.Object, _ *clusterv1.MachineSpec) {
			o.SetLabels(map[string]string{clusterv1.WatchLabel: "other"})
		}, true},
		"is the same with another label":   {func(o client.Object, _ *clusterv1.MachineSpec) { o.SetLabels(map[string]string{"a": "b"}) }, false},
		"is the same with another version": {func(_ client.Object, spec *clusterv1.MachineSpec) { spec.Version = "v1.36.3" }, false},
	}
	e := &environment{cluster: testenv.Cluster("ns")}
	for name, test := range changes {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			md, set := e.deployment("small"), e.set("small")
			test.change(md, &md.Spec.Template.Spec)
			test.change(set, &set.Spec.Template.Spec)
			if (referenceOf(md) != referenceOf(e.deployment("small"))) != test.want || (referenceOf(set) != referenceOf(e.set("small"))) != test.want {
				t.Errorf("got %+v and %+v", referenceOf(md), referenceOf(set))
			}
		})
	}
}

// queue notes the requests that are added to be due after the window; any other use of it is a nil dereference.
type queue struct {
	workqueue.TypedRateLimitingInterface[reconcile.Request]
	added []string
}

func (q *queue) AddAfter(request reconcile.Request, after time.Duration) {
	if after == coalesce.Window {
		q.added = append(q.added, request.Name)
	}
}

// TestTemplateTriggersTheClustersThatUseIt has two Clusters with one template, one of which has a MachineSet that refers to it.
func TestTemplateTriggersTheClustersThatUseIt(t *testing.T) {
	t.Parallel()
	e := newEnvironment(t)
	set, other := e.set("small"), e.deployment("other")
	set.Spec.ClusterName, set.Spec.Template.Spec.ClusterName = "d", "d"
	other.Name, other.Spec.ClusterName, other.Spec.Template.Spec.ClusterName = "other", "f", "f"
	e.create(e.deployment("small"), set, other)
	template := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: e.cluster.Namespace, Name: "small"}}
	template.SetGroupVersionKind(infraTemplate)
	owned, changed := template.DeepCopy(), template.DeepCopy()
	owned.OwnerReferences = ownedBy(e.cluster)
	changed.Annotations = map[string]string{"a": "b"}
	handler := e.reconciler("", e.client).templateEvents()
	for name, test := range map[string]struct {
		happen func(*queue)
		want   []string
	}{
		"when it is created": {func(q *queue) {
			handler.Create(t.Context(), event.TypedCreateEvent[*metav1.PartialObjectMetadata]{Object: template}, q)
		}, []string{"c", "d"}},
		"when it loses an owner": {func(q *queue) {
			handler.Update(t.Context(), event.TypedUpdateEvent[*metav1.PartialObjectMetadata]{ObjectOld: owned, ObjectNew: template}, q)
		}, []string{"c", "d"}},
		"not when it gets an owner": {func(q *queue) {
			handler.Update(t.Context(), event.TypedUpdateEvent[*metav1.PartialObjectMetadata]{ObjectOld: template, ObjectNew: owned}, q)
		}, nil},
		"not when something else changes": {func(q *queue) {
			handler.Update(t.Context(), event.TypedUpdateEvent[*metav1.PartialObjectMetadata]{ObjectOld: template, ObjectNew: changed}, q)
		}, nil},
		"not when it is deleted": {func(q *queue) {
			handler.Delete(t.Context(), event.TypedDeleteEvent[*metav1.PartialObjectMetadata]{Object: template}, q)
		}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			q := &queue{}
			test.happen(q)
			if diff := cmp.Diff(test.want, q.added); diff != "" {
				t.Errorf("Clusters (-want +got):\n%s", diff)
			}
		})
	}
}

// TestClusterThatMayBecomeAnOwner has the changes of a Cluster that trigger a reconcile.
func TestClusterThatMayBecomeAnOwner(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		change func(*clusterv1.Cluster)
		want   bool
	}{
		"is paused":         {func(c *clusterv1.Cluster) { c.Spec.Paused = new(true) }, true},
		"is annotated so":   {func(c *clusterv1.Cluster) { c.Annotations = map[string]string{clusterv1.PausedAnnotation: ""} }, true},
		"was replaced":      {func(c *clusterv1.Cluster) { c.UID = "2" }, true},
		"has another label": {func(c *clusterv1.Cluster) { c.Labels = map[string]string{"a": "b"} }, false},
		"becomes usable":    {func(c *clusterv1.Cluster) { c.Status.Initialization.ControlPlaneInitialized = new(true) }, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			before := testenv.Cluster("ns")
			before.UID = "1"
			after := before.DeepCopy()
			test.change(after)
			if got := predicates.Changed(stateOfCluster).Update(event.UpdateEvent{ObjectOld: before, ObjectNew: after}); got != test.want {
				t.Errorf("got %t", got)
			}
		})
	}
}

// TestLosesOwner has the changes of a template that may be about its owner.
func TestLosesOwner(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		change func(*metav1.PartialObjectMetadata)
		want   bool
	}{
		"is another object":           {func(o *metav1.PartialObjectMetadata) { o.UID = "2" }, true},
		"has another owner":           {func(o *metav1.PartialObjectMetadata) { o.OwnerReferences[0].UID = "d" }, true},
		"has no owner":                {func(o *metav1.PartialObjectMetadata) { o.OwnerReferences = nil }, true},
		"has an empty list of owners": {func(o *metav1.PartialObjectMetadata) { o.OwnerReferences = []metav1.OwnerReference{} }, true},
		"has one more owner": {func(o *metav1.PartialObjectMetadata) {
			o.OwnerReferences = append(o.OwnerReferences, metav1.OwnerReference{UID: "d"})
		}, false},
		"has the owner by another version": {func(o *metav1.PartialObjectMetadata) { o.OwnerReferences[0].APIVersion = "v2" }, false},
		"has another manager":              {func(o *metav1.PartialObjectMetadata) { o.Labels[clusterv1.WatchLabel] = "other" }, true},
		"has another label":                {func(o *metav1.PartialObjectMetadata) { o.Labels["a"] = "b" }, false},
		"has another version":              {func(o *metav1.PartialObjectMetadata) { o.ResourceVersion, o.Generation = "2", 2 }, false},
		"has not changed":                  {func(*metav1.PartialObjectMetadata) {}, false},
		"has an empty list now":            {func(o *metav1.PartialObjectMetadata) { o.Finalizers = []string{} }, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			before := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
				UID: "1", ResourceVersion: "1", Labels: map[string]string{"a": "a"}, OwnerReferences: []metav1.OwnerReference{{UID: types.UID("c")}},
			}}
			after := before.DeepCopy()
			test.change(after)
			if got := losesOwner(before, after); got != test.want {
				t.Errorf("got %t", got)
			}
		})
	}
}

// TestTemplateWithoutOwnersLosesNone, however an empty list is decoded, and when it gets the first.
func TestTemplateWithoutOwnersLosesNone(t *testing.T) {
	t.Parallel()
	lists := [][]metav1.OwnerReference{nil, {}, {{UID: "c"}}}
	for _, before := range lists[:2] {
		for _, after := range lists {
			if losesOwner(
				&metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{OwnerReferences: before}},
				&metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{OwnerReferences: after}},
			) {
				t.Errorf("%#v after %#v", after, before)
			}
		}
	}
}
