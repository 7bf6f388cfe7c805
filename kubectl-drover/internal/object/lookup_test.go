// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package object_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	infrav1 "drover.io/api/infrastructure/v1alpha1"
	"drover.io/kubectl-drover/internal/object"
	"drover.io/kubectl-drover/internal/object/objecttest"
)

func machine(namespace, name string, labels map[string]string) *clusterv1.Machine {
	return &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: labels}}
}

// TestGetOffersANameOfTheNamespace has a name that is nearer in another namespace, and one that is in no namespace.
func TestGetOffersANameOfTheNamespace(t *testing.T) {
	t.Parallel()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "ip-10-0-1-7"}}
	r := objecttest.Reader(t, interceptor.Funcs{}, machine("n", "web-abcde", nil), machine("other", "web-abcdf", nil), machine("a", "twice", nil), machine("b", "twice", nil), node)
	for name, test := range map[string]struct {
		kind object.Kind
		key  client.ObjectKey
		into client.Object
		want object.NotFoundError
		text string
	}{
		"of the namespace": {
			object.Machine, client.ObjectKey{Namespace: "n", Name: "web-abcdf"}, &clusterv1.Machine{},
			object.NotFoundError{Kind: "Machine", Key: client.ObjectKey{Namespace: "n", Name: "web-abcdf"}, Near: "web-abcde"},
			`there is no Machine "web-abcdf" in namespace "n"; did you mean "web-abcde"?`,
		},
		"the same in another": {
			object.Machine, client.ObjectKey{Namespace: "empty", Name: "web-abcdf"}, &clusterv1.Machine{},
			object.NotFoundError{Kind: "Machine", Key: client.ObjectKey{Namespace: "empty", Name: "web-abcdf"}, Elsewhere: "other"},
			`there is no Machine "web-abcdf" in namespace "empty"; there is one in namespace "other"`,
		},
		"of another, where several have it": {
			object.Machine, client.ObjectKey{Namespace: "empty", Name: "twice"}, &clusterv1.Machine{},
			object.NotFoundError{Kind: "Machine", Key: client.ObjectKey{Namespace: "empty", Name: "twice"}},
			`there is no Machine "twice" in namespace "empty"`,
		},
		"that begins with it": {
			object.Machine, client.ObjectKey{Namespace: "n", Name: "web"}, &clusterv1.Machine{},
			object.NotFoundError{Kind: "Machine", Key: client.ObjectKey{Namespace: "n", Name: "web"}, Near: "web-abcde"},
			`there is no Machine "web" in namespace "n"; did you mean "web-abcde"?`,
		},
		"without a namespace": {
			object.Node, client.ObjectKey{Name: "ip-10-0-1-8"}, &corev1.Node{},
			object.NotFoundError{Kind: "Node", Key: client.ObjectKey{Name: "ip-10-0-1-8"}, Near: "ip-10-0-1-7"},
			`there is no Node "ip-10-0-1-8"; did you mean "ip-10-0-1-7"?`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := r.Get(t.Context(), test.kind, test.key, test.into)
			missing, is := errors.AsType[*object.NotFoundError](err)
			if !is || !object.IsNotFound(err) || object.IsForbidden(err) || err.Error() != test.text {
				t.Fatalf("error %v", err)
			}
			if diff := cmp.Diff(test.want, *missing); diff != "" {
				t.Errorf("error (-want +got):\n%s", diff)
			}
			if wrapped := fmt.Errorf("reading: %w", err); !object.IsNotFound(wrapped) {
				t.Errorf("it is not recognized in %v", wrapped)
			}
		})
	}
	if err := r.Get(t.Context(), object.Machine, client.ObjectKey{Namespace: "n", Name: "web-abcde"}, &clusterv1.Machine{}); err != nil {
		t.Error(err)
	}
}

// TestNearestNameIsAnOffer has a list that fails in each way: the answer is that the object does not exist.
func TestNearestNameIsAnOffer(t *testing.T) {
	t.Parallel()
	for _, refusal := range []error{apierrors.NewForbidden(schema.GroupResource{}, "", nil), apierrors.NewInternalError(errors.New("etcd")), context.DeadlineExceeded} {
		asked := 0
		r := objecttest.Reader(t, interceptor.Funcs{List: func(_ context.Context, _ client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
			asked++
			given := &client.ListOptions{}
			given.ApplyOptions(options)
			if _, is := list.(*metav1.PartialObjectMetadataList); !is || given.Limit != 500 || given.Namespace != "n" {
				t.Errorf("asked for %T with %+v", list, given)
			}
			return refusal
		}}, machine("n", "web", nil))
		err := r.Get(t.Context(), object.Machine, client.ObjectKey{Namespace: "n", Name: "wep"}, &clusterv1.Machine{})
		if !object.IsNotFound(err) || strings.Contains(err.Error(), "did you mean") || asked != 1 {
			t.Errorf("%v: error %v after %d lists", refusal, err, asked)
		}
	}
}

// TestReferencedReadsThePreferredVersion has a reference, which names no version, and a kind that the API server has in two.
func TestReferencedReadsThePreferredVersion(t *testing.T) {
	t.Parallel()
	infra := &infrav1.SimMachine{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "i", Labels: map[string]string{"a": "b"}}}
	r := objecttest.Reader(t, interceptor.Funcs{}, infra)
	ref := clusterv1.ContractVersionedObjectReference{APIGroup: infrav1.GroupVersion.Group, Kind: "SimMachine", Name: "i"}
	found, err := r.Referenced(t.Context(), "n", ref)
	if err != nil || found.GetName() != "i" || found.GetLabels()["a"] != "b" || found.GroupVersionKind().Version != "v1alpha1" {
		t.Errorf("got %v, error %v", found, err)
	}
	if none, err := r.Referenced(t.Context(), "n", clusterv1.ContractVersionedObjectReference{}); none != nil || err != nil {
		t.Errorf("without a reference: %v, error %v", none, err)
	}
	ref.Name = "j"
	if _, err := r.Referenced(t.Context(), "n", ref); !object.IsNotFound(err) || !strings.Contains(err.Error(), `did you mean "i"?`) {
		t.Errorf("another name: error %v", err)
	}
	ref.Kind = "GoneMachine"
	if _, err := r.Referenced(t.Context(), "n", ref); !meta.IsNoMatchError(err) {
		t.Errorf("another kind: error %v", err)
	}
}

// TestMachinesOfOneCluster has Machines of two Clusters and two namespaces.
func TestMachinesOfOneCluster(t *testing.T) {
	t.Parallel()
	of := func(cluster string) map[string]string { return map[string]string{clusterv1.ClusterNameLabel: cluster} }
	r := objecttest.Reader(t, interceptor.Funcs{}, machine("n", "a", of("c")), machine("n", "b", of("d")), machine("n", "x", nil), machine("o", "a", of("c")))
	for name, test := range map[string]struct{ namespace, cluster, want string }{
		"of a Cluster":              {"n", "c", "n/a"},
		"of a namespace":            {"n", "", "n/a n/b n/x"},
		"of all namespaces":         {"", "", "n/a n/b n/x o/a"},
		"of a name in each of them": {"", "c", "n/a o/a"},
		"of no Cluster":             {"n", "none", ""},
	} {
		var got []string
		err := r.Machines(t.Context(), test.namespace, test.cluster, func(page []clusterv1.Machine) error {
			for i := range page {
				got = append(got, page[i].Namespace+"/"+page[i].Name)
			}
			return nil
		})
		if err != nil || strings.Join(got, " ") != test.want {
			t.Errorf("%s: got %q, error %v", name, got, err)
		}
	}
}

// TestEachReportsTheChunkThatFails has a list whose second chunk is refused: nothing is taken for the whole.
func TestEachReportsTheChunkThatFails(t *testing.T) {
	t.Parallel()
	pages := 0
	r := objecttest.Reader(t, interceptor.Funcs{List: func(_ context.Context, _ client.WithWatch, list client.ObjectList, _ ...client.ListOption) error {
		if pages++; pages == 2 {
			return apierrors.NewResourceExpired("the continue token is too old")
		}
		list.SetContinue("more")
		return nil
	}})
	visited := 0
	err := r.Machines(t.Context(), "n", "c", func([]clusterv1.Machine) error { visited++; return nil })
	if !apierrors.IsResourceExpired(err) || visited != 1 || pages != 2 {
		t.Errorf("error %v after %d chunks, of %d", err, visited, pages)
	}
}

// TestKindsOfProvidersAreLookedUp has the words for a kind that the commands do not know.
func TestKindsOfProvidersAreLookedUp(t *testing.T) {
	t.Parallel()
	known := infrav1.GroupVersion.WithKind("SimMachine")
	mapper := meta.NewDefaultRESTMapper([]schema.GroupVersion{infrav1.GroupVersion})
	mapper.Add(known, meta.RESTScopeNamespace)
	for _, word := range []string{"simmachine", "SimMachine", "simmachines", "simmachines.infrastructure.drover.io"} {
		kind, err := object.KindOf(word, mapper)
		if err != nil || kind.GroupVersionKind != known || kind.Title() != "SimMachine" {
			t.Errorf("%s: got %+v, error %v", word, kind, err)
		}
	}
	for word, want := range map[string]string{
		"simmachine.example.org": `there is no kind "simmachine.example.org"; try one of cluster, machinedeployment, `,
		"clustr":                 `there is no kind "clustr"; did you mean "cluster"?`,
		"MACHINESETT":            `there is no kind "MACHINESETT"; did you mean "machineset"?`,
	} {
		if _, err := object.KindOf(word, mapper); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%q: error %v", word, err)
		}
	}
	broken := errors.New("discovery is away")
	if _, err := object.KindOf("simmachine", brokenMapper{mapper, broken}); !errors.Is(err, broken) {
		t.Errorf("error %v", err)
	}
}

// brokenMapper cannot look up a kind.
type brokenMapper struct {
	meta.RESTMapper
	err error
}

// KindFor implements [meta.RESTMapper].
func (m brokenMapper) KindFor(schema.GroupVersionResource) (schema.GroupVersionKind, error) {
	return schema.GroupVersionKind{}, m.err
}

// TestConditionsOfANode keeps their order and times.
func TestConditionsOfANode(t *testing.T) {
	t.Parallel()
	at := metav1.Unix(1_700_000_000, 0)
	node := &corev1.Node{}
	node.Status.Conditions = []corev1.NodeCondition{
		{Type: corev1.NodeReady, Status: corev1.ConditionUnknown, Reason: "NodeStatusUnknown", Message: "Kubelet stopped", LastTransitionTime: at, LastHeartbeatTime: metav1.Unix(1, 0)},
		{Type: corev1.NodeDiskPressure, Status: corev1.ConditionFalse},
	}
	want := []metav1.Condition{
		{Type: "Ready", Status: metav1.ConditionUnknown, Reason: "NodeStatusUnknown", Message: "Kubelet stopped", LastTransitionTime: at},
		{Type: "DiskPressure", Status: metav1.ConditionFalse},
	}
	if diff := cmp.Diff(want, object.NodeConditions(node)); diff != "" {
		t.Errorf("conditions (-want +got):\n%s", diff)
	}
}
