// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package index

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

// indexer registers indexes with a client that is yet to be built.
type indexer struct {
	*fake.ClientBuilder
	err error
}

func (i indexer) IndexField(_ context.Context, object client.Object, field string, extract client.IndexerFunc) error {
	if i.err == nil {
		i.WithIndex(object, field, extract)
	}
	return i.err
}

func member(namespace, name, owner string) metav1.ObjectMeta {
	m := metav1.ObjectMeta{Namespace: namespace, Name: name}
	if owner != "" {
		m.OwnerReferences = []metav1.OwnerReference{
			{Kind: "Cluster", Name: "c", UID: "not-the-controller"}, {Kind: "Owner", Name: owner, UID: types.UID("uid-of-" + owner), Controller: new(true)},
		}
	}
	return m
}

func newReader(t *testing.T, objects ...client.Object) client.WithWatch {
	t.Helper()
	s := runtime.NewScheme()
	if err := clusterv1.AddToScheme(s); err != nil {
		t.Fatal(err)
	}
	builder := fake.NewClientBuilder().WithScheme(s).WithObjects(objects...)
	if err := Register(t.Context(), indexer{ClientBuilder: builder}); err != nil {
		t.Fatal(err)
	}
	return builder.Build()
}

// informers is a cache that nobody fills but the test.
type informers struct {
	cache.Informers
	of map[reflect.Type]toolscache.SharedIndexInformer
}

func (i informers) GetInformer(_ context.Context, object client.Object, _ ...cache.InformerGetOption) (cache.Informer, error) {
	kind := reflect.TypeOf(object)
	if i.of[kind] == nil {
		i.of[kind] = toolscache.NewSharedIndexInformer(&toolscache.ListWatch{}, object, 0, toolscache.Indexers{})
	}
	return i.of[kind], nil
}

func (i informers) IndexField(context.Context, client.Object, string, client.IndexerFunc) error {
	return nil
}

// newShared is a client like that of a manager.
func newShared(t *testing.T, objects ...client.Object) client.Client {
	t.Helper()
	known := informers{of: map[reflect.Type]toolscache.SharedIndexInformer{}}
	if err := Register(t.Context(), known); err != nil {
		t.Fatal(err)
	}
	for _, object := range objects {
		if err := known.of[reflect.TypeOf(object)].GetIndexer().Add(object); err != nil {
			t.Fatal(err)
		}
	}
	return &indexed{informers: known}
}

func namesOf[T client.Object](found []T, err error) ([]string, error) {
	names := make([]string, 0, len(found))
	for _, each := range found {
		names = append(names, each.GetNamespace()+"/"+each.GetName())
	}
	slices.Sort(names)
	return names, err
}

func TestLookups(t *testing.T) {
	t.Parallel()
	machine := func(meta metav1.ObjectMeta, cluster, id string) client.Object {
		return &clusterv1.Machine{ObjectMeta: meta, Spec: clusterv1.MachineSpec{ClusterName: cluster, ProviderID: id}}
	}
	set := func(meta metav1.ObjectMeta, cluster string) client.Object {
		return &clusterv1.MachineSet{ObjectMeta: meta, Spec: clusterv1.MachineSetSpec{ClusterName: cluster}}
	}
	deployment := func(meta metav1.ObjectMeta, cluster string) client.Object {
		return &clusterv1.MachineDeployment{ObjectMeta: meta, Spec: clusterv1.MachineDeploymentSpec{ClusterName: cluster}}
	}
	objects := []client.Object{
		machine(member("a", "owned", "o"), "c", "id-1"), machine(member("a", "alone", ""), "c", ""), machine(member("a", "other", ""), "d", "id-2"),
		machine(member("b", "owned", "o"), "c", "id-1"),
		set(member("a", "owned", "o"), "c"), set(member("a", "alone", ""), "d"), set(member("b", "alone", ""), "c"),
		deployment(member("a", "one", ""), "c"), deployment(member("a", "two", ""), "d"), deployment(member("b", "one", ""), "c"),
	}
	for of, c := range map[string]client.Reader{"a list": newReader(t, objects...), "a shared cache": newShared(t, objects...)} {
		t.Run(of, func(t *testing.T) {
			t.Parallel()
			lookups(t, c)
		})
	}
}

func lookups(t *testing.T, c client.Reader) {
	cluster := client.ObjectKey{Namespace: "a", Name: "c"}
	for name, test := range map[string]struct {
		look func(context.Context) ([]string, error)
		want []string
	}{
		"finds the Machines of an owner": {func(ctx context.Context) ([]string, error) { return namesOf(MachinesOf(ctx, c, "a", "uid-of-o")) }, []string{"a/owned"}},
		"takes no owner that does not control": {func(ctx context.Context) ([]string, error) {
			return namesOf(MachinesOf(ctx, c, "a", "not-the-controller"))
		}, []string{}},
		"finds the Machines without an owner": {func(ctx context.Context) ([]string, error) { return namesOf(MachinesWithoutController(ctx, c, "a")) }, []string{"a/alone", "a/other"}},
		"finds the Machines of a Cluster":     {func(ctx context.Context) ([]string, error) { return namesOf(MachinesOfCluster(ctx, c, cluster)) }, []string{"a/alone", "a/owned"}},
		"finds Machines by ID in any cluster": {func(ctx context.Context) ([]string, error) { return namesOf(MachinesByProviderID(ctx, c, "id-1")) }, []string{"a/owned", "b/owned"}},
		"finds none by an ID that nobody has": {func(ctx context.Context) ([]string, error) { return namesOf(MachinesByProviderID(ctx, c, "")) }, []string{}},
		"finds the MachineSets of an owner":   {func(ctx context.Context) ([]string, error) { return namesOf(MachineSetsOf(ctx, c, "a", "uid-of-o")) }, []string{"a/owned"}},
		"finds the MachineSets without one":   {func(ctx context.Context) ([]string, error) { return namesOf(MachineSetsWithoutController(ctx, c, "a")) }, []string{"a/alone"}},
		"finds the MachineSets of a Cluster":  {func(ctx context.Context) ([]string, error) { return namesOf(MachineSetsOfCluster(ctx, c, cluster)) }, []string{"a/owned"}},
		"finds the MachineDeployments of it": {func(ctx context.Context) ([]string, error) {
			return namesOf(MachineDeploymentsOfCluster(ctx, c, cluster))
		}, []string{"a/one"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := test.look(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestErrorsAreTold(t *testing.T) {
	t.Parallel()
	boom := errors.New("boom")
	if err := Register(t.Context(), indexer{ClientBuilder: fake.NewClientBuilder(), err: boom}); !errors.Is(err, boom) {
		t.Errorf("registering says %v", err)
	}
	c := interceptor.NewClient(newReader(t), interceptor.Funcs{
		List: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error { return boom },
	})
	_, machines := MachinesByProviderID(t.Context(), c, "id")
	_, sets := MachineSetsWithoutController(t.Context(), c, "a")
	_, deployments := MachineDeploymentsOfCluster(t.Context(), c, client.ObjectKey{})
	for _, err := range []error{machines, sets, deployments} {
		if !errors.Is(err, boom) {
			t.Errorf("listing says %v", err)
		}
	}
}
