// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	testingclock "k8s.io/utils/clock/testing"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"drover.io/machine-controller/internal/contract"
	"drover.io/machine-controller/internal/ownership"
	"drover.io/machine-controller/internal/workload"
	"drover.io/runtime/logtest"
)

// provider is an API server with the object of a provider, whose CRD keeps the contract.
type provider struct {
	object   map[string]any
	owners   []metav1.OwnerReference
	readErr  error
	patchErr error
	patches  int
}

func (p *provider) Watch(source.Source) error { return nil }

func (p *provider) client() client.WithWatch {
	return interceptor.NewClient(nil, interceptor.Funcs{
		List: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error { return nil },
		Get: func(_ context.Context, _ client.WithWatch, key client.ObjectKey, object client.Object, _ ...client.GetOption) error {
			into, isObject := object.(*unstructured.Unstructured)
			if !isObject { // the CRD
				object.SetLabels(map[string]string{"cluster.x-k8s.io/v1beta2": "v1"})
				return nil
			}
			gvk := into.GroupVersionKind()
			into.Object = map[string]any{}
			for field, value := range p.object {
				into.Object[field] = value
			}
			into.SetGroupVersionKind(gvk)
			into.SetNamespace(key.Namespace)
			into.SetName(key.Name)
			into.SetOwnerReferences(p.owners)
			return p.readErr
		},
		Patch: func(context.Context, client.WithWatch, client.Object, client.Patch, ...client.PatchOption) error {
			p.patches++
			return p.patchErr
		},
	})
}

func (p *provider) reader() *contract.Reader {
	c := p.client()
	return &contract.Reader{Resolver: &contract.Resolver{Reader: c}, Cached: c, Watcher: &contract.Watcher{
		Live: c, Controller: p, Clock: testingclock.NewFakePassiveClock(time.Unix(0, 0)),
	}}
}

func fields(initialization string, done bool) map[string]any {
	return map[string]any{
		"spec": map[string]any{"controlPlaneEndpoint": map[string]any{"host": "h", "port": int64(6443)}},
		"status": map[string]any{
			"initialization": map[string]any{initialization: done},
			"failureDomains": []any{map[string]any{"name": "z", "controlPlane": true}},
		},
	}
}

func TestInfrastructurePhase(t *testing.T) {
	t.Parallel()
	conflict := apierrors.NewConflict(schema.GroupResource{Resource: "i"}, "i", errors.New("modified"))
	foreign := []metav1.OwnerReference{{APIVersion: clusterv1.GroupVersion.String(), Kind: "Cluster", Name: "other", UID: "other"}}
	for name, test := range map[string]struct {
		provider      provider
		endpoint      string
		wantEndpoint  string
		provisioned   bool
		domains       int
		after         time.Duration
		fails         bool
		refused       bool
		adoptionTried bool
	}{
		"copies endpoint and failure domains":     {provider: provider{object: fields("provisioned", true)}, wantEndpoint: "h", provisioned: true, domains: 1, adoptionTried: true},
		"keeps the endpoint that is set":          {provider: provider{object: fields("provisioned", true)}, endpoint: "mine", wantEndpoint: "mine", provisioned: true, domains: 1, adoptionTried: true},
		"copies nothing before it is provisioned": {provider: provider{object: fields("provisioned", false)}, adoptionTried: true},
		"waits for an object that does not exist": {provider: provider{readErr: notFound}, after: ownership.RetryPeriod},
		"returns an error of the API server":      {provider: provider{readErr: errors.New("boom")}, fails: true},
		"copies nothing of another Cluster's":     {provider: provider{object: fields("provisioned", true), owners: foreign}, after: ownership.RetryPeriod, refused: true},
		"adopts again after a conflict":           {provider: provider{object: fields("provisioned", true), patchErr: conflict}, after: time.Second, adoptionTried: true},
		"returns an error of the adoption":        {provider: provider{object: fields("provisioned", true), patchErr: errors.New("boom")}, fails: true, adoptionTried: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, log := test.provider, &logtest.TextRecorder{}
			s := &state{cluster: &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "c", UID: "c"}}}
			s.cluster.Spec.InfrastructureRef, s.cluster.Spec.ControlPlaneEndpoint.Host = infraRef, test.endpoint
			result, err := infrastructure{adopter{p.client(), unchanged{}}, p.reader()}.run(log.Context(t.Context()), s)
			if result.RequeueAfter != test.after || (err != nil) != test.fails || ownership.IsRefused(s.infraErr) != test.refused {
				t.Errorf("result %v, error %v, read error %v", result, err, s.infraErr)
			}
			provisioned := s.cluster.Status.Initialization.InfrastructureProvisioned
			if got := s.cluster.Spec.ControlPlaneEndpoint.Host; (provisioned != nil && *provisioned) != test.provisioned || test.provisioned && got != test.wantEndpoint {
				t.Errorf("provisioned %v, endpoint %q", provisioned, got)
			}
			if len(s.cluster.Status.FailureDomains) != test.domains || (p.patches > 0) != test.adoptionTried {
				t.Errorf("failure domains %v, %d patches", s.cluster.Status.FailureDomains, p.patches)
			}
			adopted := test.adoptionTried && test.provider.patchErr == nil
			if logged := log.Lines("adopted provider object I=ns/i"); len(logged) == 1 != adopted {
				t.Errorf("log %v", logged)
			}
		})
	}
}

func TestInfrastructureCountsAsProvisionedWithoutAReference(t *testing.T) {
	t.Parallel()
	s := &state{cluster: &clusterv1.Cluster{}}
	result, err := infrastructure{}.run(t.Context(), s)
	if provisioned := s.cluster.Status.Initialization.InfrastructureProvisioned; err != nil || result.RequeueAfter != 0 || provisioned == nil || !*provisioned {
		t.Errorf("provisioned %v, result %v, error %v", provisioned, result, err)
	}
}

func TestControlPlanePhase(t *testing.T) {
	t.Parallel()
	foreign := []metav1.OwnerReference{{APIVersion: "v1", Kind: "X", Name: "x", UID: "x", Controller: new(true)}}
	for name, test := range map[string]struct {
		provider    provider
		ref         bool
		connected   bool
		initialized bool
		endpoint    clusterv1.APIEndpoint
		after       time.Duration
		fails       bool
	}{
		"is initialized by the first connection without a reference":       {connected: true, initialized: true},
		"is not initialized before a connection without a reference":       {},
		"is initialized by its object":                                     {provider: provider{object: fields("controlPlaneInitialized", true)}, ref: true, initialized: true, endpoint: clusterv1.APIEndpoint{Host: "h", Port: 6443}},
		"copies the endpoint before it is initialized":                     {provider: provider{object: fields("controlPlaneInitialized", false)}, ref: true, endpoint: clusterv1.APIEndpoint{Host: "h", Port: 6443}},
		"is not initialized by a connection when its object reports false": {provider: provider{object: fields("controlPlaneInitialized", false)}, ref: true, connected: true, endpoint: clusterv1.APIEndpoint{Host: "h", Port: 6443}},
		"waits for an object that does not exist":                          {provider: provider{readErr: notFound}, ref: true, after: ownership.RetryPeriod},
		"copies nothing of an object that another controller owns":         {provider: provider{object: fields("controlPlaneInitialized", true), owners: foreign}, ref: true, after: ownership.RetryPeriod},
		"returns an error of the API server":                               {provider: provider{readErr: errors.New("boom")}, ref: true, fails: true},
		"returns an error of the adoption, and is initialized next time":   {provider: provider{object: fields("controlPlaneInitialized", true), patchErr: errors.New("boom")}, ref: true, fails: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := test.provider
			s := &state{cluster: &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "c", UID: "c"}}, connection: workload.State{Connected: test.connected}}
			if test.ref {
				s.cluster.Spec.ControlPlaneRef = planeRef
			}
			result, err := controlPlane{adopter{p.client(), unchanged{}}, p.reader()}.run(t.Context(), s)
			if result.RequeueAfter != test.after || (err != nil) != test.fails {
				t.Errorf("result %v, error %v", result, err)
			}
			initialized := s.cluster.Status.Initialization.ControlPlaneInitialized
			if (initialized != nil && *initialized) != test.initialized {
				t.Errorf("initialized %v", initialized)
			}
			if diff := cmp.Diff(test.endpoint, s.cluster.Spec.ControlPlaneEndpoint); diff != "" {
				t.Errorf("endpoint (-want +got):\n%s", diff)
			}
		})
	}
}

func TestDeletionRequiresTheUIDThatWasRead(t *testing.T) {
	t.Parallel()
	var preconditions []*metav1.Preconditions
	log := &logtest.TextRecorder{}
	c := interceptor.NewClient(nil, interceptor.Funcs{
		Delete: func(_ context.Context, _ client.WithWatch, o client.Object, options ...client.DeleteOption) error {
			preconditions = append(preconditions, (&client.DeleteOptions{}).ApplyOptions(options).Preconditions)
			if o.GetName() == "gone" {
				return notFound
			}
			return nil
		},
	})
	for _, name := range []string{"m", "gone"} {
		m := &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: "uid"}}
		if err := (deletion{client: c}).delete(log.Context(t.Context()), "Machine", m); err != nil {
			t.Fatal(err)
		}
	}
	for _, each := range preconditions {
		if each == nil || each.UID == nil || *each.UID != "uid" {
			t.Errorf("preconditions %+v", each)
		}
	}
	if diff := cmp.Diff([]string{"deleted Machine Machine=ns/m"}, log.Lines("")); diff != "" {
		t.Errorf("log (-want +got):\n%s", diff)
	}
}

func TestPhasesComeInOrder(t *testing.T) {
	t.Parallel()
	r := &Reconciler{}
	r.setPhases("")
	want := []phase{infrastructure{}, controlPlane{}, deletion{}}
	if len(r.phases) != len(want) {
		t.Fatalf("%d phases", len(r.phases))
	}
	for i := range want {
		if r.phases[i] != want[i] {
			t.Errorf("phase %d is %T, want %T", i, r.phases[i], want[i])
		}
	}
}
