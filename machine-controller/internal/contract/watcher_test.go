// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	testingclock "k8s.io/utils/clock/testing"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"drover.io/runtime/predicates"
)

// api answers lists with an error, or nothing, and gets with an object.
type api struct {
	client.Reader
	err   error
	mu    sync.Mutex
	lists int
	// list is called with the kind of each list; it may be nil.
	list   func(kind string)
	labels map[string]string
	// shared means that objects belong to no namespace.
	shared bool
}

func (a *api) List(_ context.Context, list client.ObjectList, _ ...client.ListOption) error {
	a.mu.Lock()
	a.lists++
	a.mu.Unlock()
	if a.list != nil {
		a.list(list.GetObjectKind().GroupVersionKind().Kind)
	}
	return a.err
}

func (a *api) Get(_ context.Context, key client.ObjectKey, into client.Object, _ ...client.GetOption) error {
	if key.Name == "absent" {
		return apierrors.NewNotFound(schema.GroupResource{Group: "g", Resource: "things"}, key.Name)
	}
	if !a.shared {
		into.SetNamespace(key.Namespace)
	}
	into.SetName(key.Name)
	into.SetLabels(a.labels)
	return nil
}

// starter counts the watches that were started.
type starter struct {
	mu      sync.Mutex
	started int
	err     error
}

func (s *starter) Watch(source.Source) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.started++
	return s.err
}

var thing = schema.GroupVersionKind{Group: "g", Version: "v1", Kind: "Thing"}

func TestEnsureWatchesOnce(t *testing.T) {
	t.Parallel()
	live, controller := &api{}, &starter{}
	w := &Watcher{Live: live, Controller: controller, Clock: testingclock.NewFakePassiveClock(time.Unix(0, 0))}
	for range 3 {
		if err := w.Ensure(t.Context(), thing); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Ensure(t.Context(), thing.GroupKind().WithVersion("v2")); err != nil {
		t.Fatal(err)
	}
	if live.lists != 2 || controller.started != 2 {
		t.Errorf("requested %d times and started %d watches for two versions, want 2 of each", live.lists, controller.started)
	}
}

func TestEnsureDoesNotRetryARefusedKind(t *testing.T) {
	t.Parallel()
	boom := errors.New("boom")
	resource := schema.GroupResource{Group: "g", Resource: "things"}
	forbidden := func(err error) bool {
		e := (*ForbiddenError)(nil)
		return errors.As(err, &e) && e.GroupKind == thing.GroupKind()
	}
	missing := func(err error) bool {
		e := (*MissingCRDError)(nil)
		return errors.As(err, &e) && e.CRDName == "things.g"
	}
	for name, test := range map[string]struct {
		err      error
		reported func(error) bool
	}{
		"reports that a permission is missing": {apierrors.NewForbidden(resource, "", boom), forbidden},
		"reports that a CRD is missing":        {apierrors.NewNotFound(resource, ""), missing},
		"reports that a kind is not served":    {&meta.NoKindMatchError{GroupKind: thing.GroupKind()}, missing},
		"reports other errors":                 {boom, func(err error) bool { return errors.Is(err, boom) && !IsMisconfigured(err) }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			clk := testingclock.NewFakePassiveClock(time.Unix(0, 0))
			live, controller := &api{err: test.err}, &starter{}
			w := &Watcher{Live: live, Controller: controller, Clock: clk}
			for range 3 {
				if err := w.Ensure(t.Context(), thing); !test.reported(err) {
					t.Fatalf("the error is %v", err)
				}
			}
			if live.lists != 1 || controller.started != 0 {
				t.Errorf("requested %d times and started %d watches, want once and none", live.lists, controller.started)
			}
			live.err = nil
			clk.SetTime(time.Unix(0, 0).Add(refusalMemory))
			if err := w.Ensure(t.Context(), thing); err != nil || controller.started != 1 {
				t.Errorf("after it was mended: %v, %d watches", err, controller.started)
			}
		})
	}
}

// TestEnsureRemembersABoundedNumberOfKinds names kinds that do not exist, as references can in any number.
func TestEnsureRemembersABoundedNumberOfKinds(t *testing.T) {
	t.Parallel()
	w := &Watcher{
		Live: &api{err: &meta.NoKindMatchError{}}, Controller: &starter{}, Clock: testingclock.NewFakePassiveClock(time.Unix(0, 0)),
	}
	for i := range 2 * maxRefusals {
		if err := w.Ensure(t.Context(), schema.GroupVersionKind{Group: "g", Version: "v1", Kind: fmt.Sprint("Thing", i)}); err == nil {
			t.Fatal("a kind that does not exist is watched")
		}
	}
	if n := w.refused.Len(); n > maxRefusals {
		t.Errorf("%d kinds are stored", n)
	}
}

// TestEnsureWaitsForNoOtherKind has a list of one kind that is not answered while another kind is read.
func TestEnsureWaitsForNoOtherKind(t *testing.T) {
	t.Parallel()
	requested, answer := make(chan struct{}), make(chan struct{})
	live := &api{list: func(kind string) {
		if kind == "SlowList" {
			close(requested)
			<-answer
		}
	}}
	w := &Watcher{Live: live, Controller: &starter{}, Clock: testingclock.NewFakePassiveClock(time.Unix(0, 0))}
	slow := make(chan error)
	go func() {
		slow <- w.Ensure(t.Context(), schema.GroupVersionKind{Group: "g", Version: "v1", Kind: "Slow"})
	}()
	<-requested
	if err := w.Ensure(t.Context(), thing); err != nil {
		t.Error(err)
	}
	close(answer)
	if err := <-slow; err != nil {
		t.Error(err)
	}
}

func TestEnsureRetriesAWatchThatDidNotStart(t *testing.T) {
	t.Parallel()
	boom := errors.New("boom")
	controller := &starter{err: boom}
	w := &Watcher{Live: &api{}, Controller: controller, Clock: testingclock.NewFakePassiveClock(time.Unix(0, 0))}
	if err := w.Ensure(t.Context(), thing); !errors.Is(err, boom) {
		t.Fatalf("the error is %v", err)
	}
	controller.err = nil
	if err := w.Ensure(t.Context(), thing); err != nil || controller.started != 2 {
		t.Errorf("the second time: %v, %d attempts", err, controller.started)
	}
}

func TestReader(t *testing.T) {
	t.Parallel()
	newReader := func(live *api) *Reader {
		return &Reader{
			Resolver: &Resolver{Reader: crds{labels: map[string]map[string]string{"things.g": {"cluster.x-k8s.io/v1beta1": "v1"}}}},
			Cached:   live,
			Watcher:  &Watcher{Live: live, Controller: &starter{}, Clock: testingclock.NewFakePassiveClock(time.Unix(0, 0))},
		}
	}
	ref := func(kind, name string) clusterv1.ContractVersionedObjectReference {
		return clusterv1.ContractVersionedObjectReference{APIGroup: "g", Kind: kind, Name: name}
	}
	object, err := newReader(&api{}).Get(t.Context(), "ns", ref("Thing", "t"))
	if err != nil {
		t.Fatal(err)
	}
	want := &unstructured.Unstructured{}
	want.SetGroupVersionKind(thing)
	want.SetNamespace("ns")
	want.SetName("t")
	if object.Contract != V1Beta1 || object.GroupVersionKind() != thing || client.ObjectKeyFromObject(object) != client.ObjectKeyFromObject(want) {
		t.Errorf("it has read %v by contract %s", object.Unstructured, object.Contract)
	}
	for name, test := range map[string]struct {
		live *api
		ref  clusterv1.ContractVersionedObjectReference
		is   func(error) bool
	}{
		"finds no object": {&api{}, ref("Thing", "absent"), apierrors.IsNotFound},
		"finds no CRD":    {&api{}, ref("Other", "t"), func(err error) bool { e := (*MissingCRDError)(nil); return errors.As(err, &e) }},
		"may not look":    {&api{err: apierrors.NewForbidden(schema.GroupResource{}, "", nil)}, ref("Thing", "t"), func(err error) bool { e := (*ForbiddenError)(nil); return errors.As(err, &e) }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newReader(test.live)
			_, infra := r.InfraMachine(t.Context(), "ns", test.ref)
			_, config := r.BootstrapConfig(t.Context(), "ns", test.ref)
			_, shared := r.InfraCluster(t.Context(), "ns", test.ref)
			_, plane := r.ControlPlane(t.Context(), "ns", test.ref)
			for _, err := range []error{infra, config, shared, plane} {
				if !test.is(err) {
					t.Errorf("the error is %v", err)
				}
			}
		})
	}
}

// TestReaderRefusesWhatBelongsToNoNamespace reads an object of a cluster-scoped kind, which all tenants share.
func TestReaderRefusesWhatBelongsToNoNamespace(t *testing.T) {
	t.Parallel()
	live := &api{shared: true}
	resolver := &Resolver{Reader: crds{labels: map[string]map[string]string{
		"things.g": {"cluster.x-k8s.io/v1beta1": "v1"}, "thingtemplates.g": {"cluster.x-k8s.io/v1beta1": "v1"},
	}}}
	reader := &Reader{
		Resolver: resolver, Cached: live,
		Watcher: &Watcher{Live: live, Controller: &starter{}, Clock: testingclock.NewFakePassiveClock(time.Unix(0, 0))},
	}
	templates := &Templates{Resolver: resolver, Live: live}
	ref := clusterv1.ContractVersionedObjectReference{APIGroup: "g", Kind: "Thing", Name: "t"}
	_, infra := reader.InfraMachine(t.Context(), "ns", ref)
	_, instance := templates.Instance(t.Context(), "ns", ref)
	ref.Kind = "ThingTemplate"
	_, template := templates.Get(t.Context(), "ns", ref)
	_, metadata := reader.TemplateMetadata(t.Context(), "ns", ref)
	for _, err := range []error{infra, instance, template, metadata} {
		if !IsInvalidReference(err) {
			t.Errorf("the error is %v", err)
		}
	}
}

// TestReaderRefusesWhatIsAnothers reads an object that is labelled for another manager.
func TestReaderRefusesWhatIsAnothers(t *testing.T) {
	t.Parallel()
	live := &api{labels: map[string]string{clusterv1.WatchLabel: "other"}}
	r := &Reader{
		Resolver: &Resolver{Reader: crds{labels: map[string]map[string]string{"things.g": {"cluster.x-k8s.io/v1beta1": "v1"}}}},
		Cached:   live,
		Watcher:  &Watcher{Live: live, Controller: &starter{}, Clock: testingclock.NewFakePassiveClock(time.Unix(0, 0))},
		Watch:    "own",
	}
	ref := clusterv1.ContractVersionedObjectReference{APIGroup: "g", Kind: "Thing", Name: "t"}
	_, err := r.InfraMachine(t.Context(), "ns", ref)
	if _, is := errors.AsType[*predicates.ForeignError](err); !is || !IsMisconfigured(err) {
		t.Errorf("the error is %v", err)
	}
	r.Watch = "other"
	if _, err := r.InfraMachine(t.Context(), "ns", ref); err != nil {
		t.Errorf("its own manager is refused: %v", err)
	}
}
