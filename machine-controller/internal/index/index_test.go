// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package index

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"drover.io/machine-controller/internal/testenv"
	"drover.io/runtime/envtest"
)

// refusing takes no index.
type refusing struct{ err error }

func (r refusing) IndexField(context.Context, client.Object, string, client.IndexerFunc) error {
	return r.err
}

func member(namespace, name, owner string) metav1.ObjectMeta {
	m := metav1.ObjectMeta{Namespace: namespace, Name: name}
	if owner != "" {
		m.OwnerReferences = []metav1.OwnerReference{
			{APIVersion: "g/v1", Kind: "Cluster", Name: "c", UID: "not-the-controller"},
			{APIVersion: "g/v1", Kind: "Owner", Name: owner, UID: types.UID("uid-of-" + owner), Controller: new(true)},
		}
	}
	return m
}

// newCache is the cache of a manager, with the manager's indexes, and holds what the API server has.
func newCache(t *testing.T) (cache.Cache, *rest.Config, *runtime.Scheme) {
	t.Helper()
	config, err := server.Start()
	if err != nil {
		t.Fatal(err)
	}
	scheme, err := envtest.Scheme()
	if err != nil {
		t.Fatal(err)
	}
	known, err := cache.New(config, cache.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	if err := Register(t.Context(), known); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	ctx, cancel := context.WithCancel(context.Background())
	go func() { done <- known.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("running the cache: %v", err)
		}
	})
	if !known.WaitForCacheSync(t.Context()) {
		t.Fatal("the cache was not filled")
	}
	return known, config, scheme
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
	selector := metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}}
	template := func(cluster string) clusterv1.MachineTemplateSpec {
		spec := testenv.TemplateSpec()
		spec.ClusterName = cluster
		return clusterv1.MachineTemplateSpec{ObjectMeta: clusterv1.ObjectMeta{Labels: selector.MatchLabels}, Spec: spec}
	}
	machine := func(meta metav1.ObjectMeta, cluster, id string) client.Object {
		spec := testenv.MachineSpec()
		spec.ClusterName, spec.ProviderID = cluster, id
		return &clusterv1.Machine{ObjectMeta: meta, Spec: spec}
	}
	set := func(meta metav1.ObjectMeta, cluster string) client.Object {
		return &clusterv1.MachineSet{ObjectMeta: meta, Spec: clusterv1.MachineSetSpec{ClusterName: cluster, Selector: selector, Template: template(cluster)}}
	}
	deployment := func(meta metav1.ObjectMeta, cluster string) client.Object {
		return &clusterv1.MachineDeployment{ObjectMeta: meta, Spec: clusterv1.MachineDeploymentSpec{ClusterName: cluster, Selector: selector, Template: template(cluster)}}
	}
	check := func(meta metav1.ObjectMeta, cluster string) client.Object {
		return &clusterv1.MachineHealthCheck{ObjectMeta: meta, Spec: clusterv1.MachineHealthCheckSpec{ClusterName: cluster, Selector: selector}}
	}
	objects := []client.Object{
		check(member("a", "one", ""), "c"), check(member("a", "two", ""), "d"), check(member("b", "one", ""), "c"),
		machine(member("a", "owned", "o"), "c", "id-1"), machine(member("a", "alone", ""), "c", ""), machine(member("a", "other", ""), "d", "id-2"),
		machine(member("b", "owned", "o"), "c", "id-1"),
		set(member("a", "owned", "o"), "c"), set(member("a", "alone", ""), "d"), set(member("b", "alone", ""), "c"),
		deployment(member("a", "one", ""), "c"), deployment(member("a", "two", ""), "d"), deployment(member("b", "one", ""), "c"),
	}
	api := server.Client(t)
	for _, namespace := range []string{"a", "b"} {
		objects = append([]client.Object{&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}}, objects...)
	}
	for _, object := range objects {
		if err := api.Create(t.Context(), object); err != nil {
			t.Fatal(err)
		}
	}
	known, config, scheme := newCache(t)
	shared, err := NewClient(config, client.Options{Scheme: scheme, Cache: &client.CacheOptions{Reader: known}})
	if err != nil {
		t.Fatal(err)
	}
	for of, c := range map[string]client.Reader{"a list": known, "a shared cache": shared} {
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
		"finds the Machines without an owner":     {func(ctx context.Context) ([]string, error) { return namesOf(MachinesWithoutController(ctx, c, "a")) }, []string{"a/alone", "a/other"}},
		"finds the Machines of a Cluster":         {func(ctx context.Context) ([]string, error) { return namesOf(MachinesOfCluster(ctx, c, cluster)) }, []string{"a/alone", "a/owned"}},
		"finds Machines by ID in any cluster":     {func(ctx context.Context) ([]string, error) { return namesOf(MachinesByProviderID(ctx, c, "id-1")) }, []string{"a/owned", "b/owned"}},
		"finds none by an ID that no Machine has": {func(ctx context.Context) ([]string, error) { return namesOf(MachinesByProviderID(ctx, c, "")) }, []string{}},
		"finds the MachineSets of an owner":       {func(ctx context.Context) ([]string, error) { return namesOf(MachineSetsOf(ctx, c, "a", "uid-of-o")) }, []string{"a/owned"}},
		"finds the MachineSets without one":       {func(ctx context.Context) ([]string, error) { return namesOf(MachineSetsWithoutController(ctx, c, "a")) }, []string{"a/alone"}},
		"finds the MachineSets of a Cluster":      {func(ctx context.Context) ([]string, error) { return namesOf(MachineSetsOfCluster(ctx, c, cluster)) }, []string{"a/owned"}},
		"finds the MachineDeployments of it": {func(ctx context.Context) ([]string, error) {
			return namesOf(MachineDeploymentsOfCluster(ctx, c, cluster))
		}, []string{"a/one"}},
		"finds the MachineSets of a template": {func(ctx context.Context) ([]string, error) {
			return namesOf(MachineSetsOfTemplate(ctx, c, "a", testenv.TemplateSpec().InfrastructureRef))
		}, []string{"a/alone", "a/owned"}},
		"finds the MachineDeployments of a template": {func(ctx context.Context) ([]string, error) {
			return namesOf(MachineDeploymentsOfTemplate(ctx, c, "b", testenv.TemplateSpec().InfrastructureRef))
		}, []string{"b/one"}},
		"finds none of another kind of its name": {func(ctx context.Context) ([]string, error) {
			return namesOf(MachineDeploymentsOfTemplate(ctx, c, "b", testenv.MachineSpec().InfrastructureRef))
		}, []string{}},
		"finds the MachineHealthChecks of it": {func(ctx context.Context) ([]string, error) {
			return namesOf(MachineHealthChecksOfCluster(ctx, c, cluster))
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

func TestErrorMessages(t *testing.T) {
	t.Parallel()
	boom := errors.New("boom")
	if err := Register(t.Context(), refusing{boom}); !errors.Is(err, boom) {
		t.Errorf("the error of registering is %v", err)
	}
	c := interceptor.NewClient(server.Client(t), interceptor.Funcs{
		List: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error { return boom },
	})
	_, machines := MachinesByProviderID(t.Context(), c, "id")
	_, sets := MachineSetsWithoutController(t.Context(), c, "a")
	_, deployments := MachineDeploymentsOfCluster(t.Context(), c, client.ObjectKey{})
	_, checks := MachineHealthChecksOfCluster(t.Context(), c, client.ObjectKey{})
	for _, err := range []error{machines, sets, deployments, checks} {
		if !errors.Is(err, boom) {
			t.Errorf("the error of listing is %v", err)
		}
	}
}
