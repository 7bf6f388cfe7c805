// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package templateowner

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"drover.io/machine-controller/internal/contract"
	"drover.io/machine-controller/internal/index/indextest"
	"drover.io/runtime/logtest"
	"drover.io/runtime/predicates"
)

// ignored starts no watch.
type ignored struct{}

func (ignored) Watch(source.Source) error { return nil }

// reconciler reads what the API server has, without a cache, and writes by the client.
func (e *environment) reconciler(watch predicates.WatchFilter, c client.WithWatch) *Reconciler {
	e.Helper()
	return &Reconciler{Client: e.writes.client(indextest.NewClient(e.T, c)), Live: e.client, watch: watch, Contract: &contract.Reader{
		Resolver: &contract.Resolver{Reader: e.client}, Cached: e.client,
		Watcher: &contract.Watcher{Live: e.client, Controller: ignored{}, Clock: clock.RealClock{}},
	}}
}

// reconcile reconciles a Cluster once, as a cache may have it.
func (e *environment) reconcile(watch predicates.WatchFilter, cluster *clusterv1.Cluster) reconcile.Result {
	e.Helper()
	result, err := e.reconciler(watch, e.client).Reconcile(e.Context(), cluster)
	if err != nil {
		e.Fatal(err)
	}
	return result
}

func (e *environment) patch(object client.Object, patch string) {
	e.Helper()
	if err := e.client.Patch(e.Context(), object, client.RawPatch(types.MergePatchType, []byte(patch))); err != nil {
		e.Fatalf("patching %q: %v", object.GetName(), err)
	}
}

// TestOwnersOfATemplate has the templates of a MachineDeployment that has no Machines, and one reconcile of its Cluster.
func TestOwnersOfATemplate(t *testing.T) {
	t.Parallel()
	other := metav1.OwnerReference{APIVersion: clusterv1.GroupVersion.String(), Kind: "Cluster", Name: "other", UID: "other"}
	type objects struct {
		*environment
		md    *clusterv1.MachineDeployment
		infra *unstructured.Unstructured
	}
	for name, test := range map[string]struct {
		// prepare changes the objects that will be created.
		prepare func(objects)
		// change changes the objects in the API server; it may be nil.
		change func(objects)
		// others are owners besides the Cluster.
		others []metav1.OwnerReference
		// not means that the Cluster becomes no owner.
		not bool
	}{
		"is its Cluster": {prepare: func(objects) {}},
		"are several Clusters, if it has another one": {
			prepare: func(o objects) { o.infra.SetOwnerReferences([]metav1.OwnerReference{other}) }, others: []metav1.OwnerReference{other},
		},
		"is not a paused Cluster": {
			prepare: func(o objects) { o.patch(o.cluster, `{"spec":{"paused":true}}`) }, not: true,
		},
		"is not a Cluster that is being deleted": {
			prepare: func(o objects) { o.patch(o.cluster, `{"metadata":{"finalizers":["example.com/kept"]}}`) },
			change:  func(o objects) { o.delete(o.cluster); o.get(o.cluster) }, not: true,
		},
		"is not a Cluster whose deletion the cache does not show": {
			prepare: func(o objects) { o.patch(o.cluster, `{"metadata":{"finalizers":["example.com/kept"]}}`) },
			change:  func(o objects) { o.delete(o.cluster) }, not: true,
		},
		"is not a Cluster that is gone": {
			prepare: func(objects) {}, change: func(o objects) { o.delete(o.cluster) }, not: true,
		},
		"is not a Cluster that was replaced under its name": {
			prepare: func(objects) {},
			change: func(o objects) {
				o.delete(o.cluster)
				o.create(&clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: o.cluster.Namespace, Name: "c"}, Spec: o.cluster.Spec})
			}, not: true,
		},
		"is not the Cluster of a paused MachineDeployment": {
			prepare: func(o objects) { o.md.Annotations = map[string]string{clusterv1.PausedAnnotation: ""} }, not: true,
		},
		"is not the Cluster of a MachineDeployment that is being deleted": {
			prepare: func(o objects) { o.md.Finalizers = []string{"example.com/kept"} },
			change:  func(o objects) { o.delete(o.md) }, not: true,
		},
		"is not the Cluster of another manager's MachineDeployment": {
			prepare: func(o objects) { o.md.Labels[clusterv1.WatchLabel] = "other" }, not: true,
		},
		"is not the Cluster if another manager has the template": {
			prepare: func(o objects) { o.infra.SetLabels(map[string]string{clusterv1.WatchLabel: "other"}) }, not: true,
		},
		"is not the Cluster if the template is being deleted": {
			prepare: func(o objects) { o.infra.SetFinalizers([]string{"example.com/kept"}) },
			change:  func(o objects) { o.delete(o.infra) }, not: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newEnvironment(t)
			o := objects{e, e.deployment("small"), e.template(infraTemplate, "small")}
			o.md.Labels = map[string]string{clusterv1.WatchLabel: "own"}
			test.prepare(o)
			e.create(o.infra, o.md)
			if test.change != nil {
				test.change(o)
			}
			want, writes := test.others, map[string]int(nil)
			if !test.not {
				want, writes = append(want, ownedBy(e.cluster)...), map[string]int{"ThingMachineTemplate small": 1}
			}
			for range 2 { // the second time nothing is left to do
				if result := e.reconcile("own", e.cluster); result != (reconcile.Result{}) {
					t.Errorf("result %+v", result)
				}
			}
			if diff := cmp.Diff(want, e.owners(o.infra)); diff != "" {
				t.Errorf("owners (-want +got):\n%s", diff)
			}
			e.writes.expect(t, writes)
		})
	}
}

func (e *environment) delete(object client.Object) {
	e.Helper()
	if err := e.client.Delete(e.Context(), object); err != nil {
		e.Fatalf("deleting %q: %v", object.GetName(), err)
	}
}

func (e *environment) get(object client.Object) {
	e.Helper()
	if err := e.client.Get(e.Context(), client.ObjectKeyFromObject(object), object); err != nil {
		e.Fatalf("reading %q: %v", object.GetName(), err)
	}
}

// TestUnreadableTemplateDoesNotHoldTheOthers refers to a kind that no provider serves.
func TestUnreadableTemplateDoesNotHoldTheOthers(t *testing.T) {
	t.Parallel()
	e := newEnvironment(t)
	_, bootstrap := e.templates("small")
	md := e.deployment("small")
	md.Spec.Template.Spec.InfrastructureRef.Kind = "AbsentMachineTemplate"
	e.create(md)
	if result := e.reconcile("", e.cluster); result.RequeueAfter != kindRetry {
		t.Errorf("result %+v", result)
	}
	e.awaitOwner(bootstrap)
}

// TestOwnerIsWrittenForTheVersionThatWasRead writes a template that has changed since, and one that the API server refuses.
func TestOwnerIsWrittenForTheVersionThatWasRead(t *testing.T) {
	t.Parallel()
	conflict := apierrors.NewConflict(schema.GroupResource{Resource: "things"}, "small", errors.New("old"))
	boom := errors.New("boom")
	for name, test := range map[string]struct {
		err, want error
		again     bool
	}{
		"writes":                    {},
		"tries again on a conflict": {err: conflict, again: true},
		"returns an error":          {err: boom, want: boom},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newEnvironment(t)
			infra, _ := e.templates("small")
			md := e.deployment("small")
			md.Spec.Template.Spec.Bootstrap = clusterv1.Bootstrap{DataSecretName: new("data")}
			e.create(md)
			failing := interceptor.NewClient(e.client, interceptor.Funcs{
				Patch: func(ctx context.Context, c client.WithWatch, o client.Object, patch client.Patch, options ...client.PatchOption) error {
					data, err := patch.Data(o)
					e.Expect(err).NotTo(gomega.HaveOccurred())
					e.Expect(string(data)).To(gomega.ContainSubstring(`"resourceVersion":"` + infra.GetResourceVersion() + `"`))
					if test.err != nil {
						return test.err
					}
					return c.Patch(ctx, o, patch, options...)
				},
			})
			log := &logtest.TextRecorder{}
			result, err := e.reconciler("", failing).Reconcile(log.Context(t.Context()), e.cluster)
			if !errors.Is(err, test.want) || (result.RequeueAfter > 0) != test.again {
				t.Errorf("result %+v, error %v", result, err)
			}
			logged := log.Lines("made the Cluster an owner of the template ThingMachineTemplate=" + e.cluster.Namespace + "/small")
			if written := len(e.owners(infra)) == 1; written != (test.err == nil) || len(logged) != len(e.owners(infra)) {
				t.Errorf("owners %v, log %v", e.owners(infra), logged)
			}
		})
	}
}
