// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package metric_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"drover.io/runtime/metric"
	"drover.io/runtime/metric/metrictest"
)

var (
	counter = metric.NewCounter(metric.Options{
		Name: "test_things_total", Help: "Things.", Stability: metric.Alpha, Labels: []metric.Label{metric.Fixed("kind", "a", "b")},
	})
	gauge = metric.NewGauge(metric.Options{
		Name: "test_size", Help: "Size.", Stability: metric.Stable, Labels: []metric.Label{metric.Fixed("kind", "a"), metric.Named("namespace", "the Namespace")},
	})
)

func TestValuesOfALabelAreBounded(t *testing.T) {
	t.Parallel()
	counter.Inc("a")
	for i := range 100 {
		counter.Inc(fmt.Sprint("value of a tenant ", i))
	}
	gauge.Set(7, "x", "y")
	want := map[string]float64{"test_things_total kind=a": 1, "test_things_total kind=b": 0, "test_things_total kind=other": 100, "test_size kind=other namespace=y": 7}
	if diff := cmp.Diff(want, metrictest.Samples(t, metrictest.Of(t, counter, gauge))); diff != "" {
		t.Errorf("samples (-want +got):\n%s", diff)
	}
}

func TestCountersStartAtZero(t *testing.T) {
	t.Parallel()
	values := make([]string, 101)
	for i := range values {
		values[i] = fmt.Sprint(i)
	}
	fixed := metric.NewCounter(metric.Options{Name: "test_fixed_total", Labels: []metric.Label{metric.Fixed("kind", "a", "b"), metric.Fixed("result", "good", "bad")}})
	many := metric.NewCounter(metric.Options{Name: "test_many_total", Labels: []metric.Label{metric.Fixed("kind", values...)}})
	none := metric.NewCounter(metric.Options{Name: "test_plain_total"})
	named := metric.NewCounter(metric.Options{Name: "test_named_total", Labels: []metric.Label{metric.Fixed("kind", "a", "b"), metric.Named("cloud", "c")}})
	want := map[string]float64{
		"test_fixed_total kind=a result=good": 0, "test_fixed_total kind=a result=bad": 0,
		"test_fixed_total kind=b result=good": 0, "test_fixed_total kind=b result=bad": 0, "test_plain_total": 0,
	}
	if diff := cmp.Diff(want, metrictest.Samples(t, metrictest.Of(t, fixed, many, none, named))); diff != "" {
		t.Errorf("samples (-want +got):\n%s", diff)
	}
	named.Inc("a", "sim")
	named.Start("sim")
	want = map[string]float64{"test_named_total cloud=sim kind=a": 1, "test_named_total cloud=sim kind=b": 0}
	if diff := cmp.Diff(want, metrictest.Samples(t, metrictest.Of(t, named))); diff != "" {
		t.Errorf("samples of an object (-want +got):\n%s", diff)
	}
}

func TestWriteReference(t *testing.T) {
	t.Parallel()
	page := &strings.Builder{}
	if err := metric.WriteReference(page); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"| `test_size` | gauge | STABLE | `kind`: `a`; `namespace`: the Namespace | Size. |\n",
		"| `test_things_total` | counter | ALPHA | `kind`: `a`, `b` | Things. |\n",
	} {
		if !strings.Contains(page.String(), want) {
			t.Errorf("no line %q in\n%s", want, page)
		}
	}
}

func TestHelpHasTheStability(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewRegistry()
	if err := metric.Register(registry); err != nil {
		t.Fatal(err)
	}
	gauge.Set(1, "a", "n")
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		if family.GetName() == "test_size" && family.GetHelp() != "[STABLE] Size." {
			t.Errorf("the help is %q", family.GetHelp())
		}
	}
}

func TestTwoMetricsHaveNoCommonName(t *testing.T) {
	t.Parallel()
	defer func() {
		if recover() == nil {
			t.Error("a second metric of the same name was declared")
		}
	}()
	metric.NewCounter(metric.Options{Name: "test_things_total"})
}

var (
	perObject = metric.NewObjectCounter("name", metric.Options{
		Name: "test_object_things_total", Help: "Things.", Stability: metric.Alpha, Labels: []metric.Label{metric.Named("namespace", "n"), metric.Named("name", "n")},
	})
	perObjectSeconds = metric.NewObjectHistogram("name", metric.Options{
		Name: "test_object_seconds", Help: "Time.", Stability: metric.Alpha, Buckets: []float64{1},
		Labels: []metric.Label{metric.Named("namespace", "n"), metric.Named("name", "n"), metric.Named("cluster", "c")},
	})
)

// sender collects what exists.
type sender struct {
	exists func(client.ObjectKey) bool
	of     interface {
		Describe(chan<- *prometheus.Desc)
		Send(chan<- prometheus.Metric, func(client.ObjectKey) bool)
	}
}

func (s sender) Describe(to chan<- *prometheus.Desc) { s.of.Describe(to) }
func (s sender) Collect(to chan<- prometheus.Metric) { s.of.Send(to, s.exists) }

func TestSeriesEndWithTheirObject(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"kept", "deleted"} {
		perObjectSeconds.Observe(2, client.ObjectKey{Namespace: "n", Name: name}, "n", name, "c")
	}
	all := func(client.ObjectKey) bool { return true }
	if got := metrictest.Samples(t, metrictest.Of(t, sender{all, perObjectSeconds})); len(got) != 2 {
		t.Fatalf("got %v", got)
	}
	kept := func(key client.ObjectKey) bool { return key.Name == "kept" }
	want := map[string]float64{"test_object_seconds cluster=c name=kept namespace=n": 2}
	for _, exists := range []func(client.ObjectKey) bool{kept, all} { // they do not come back
		if diff := cmp.Diff(want, metrictest.Samples(t, metrictest.Of(t, sender{exists, perObjectSeconds}))); diff != "" {
			t.Errorf("samples (-want +got):\n%s", diff)
		}
	}
}

func TestObjectsWithSeriesAreBounded(t *testing.T) {
	t.Parallel()
	key := func(namespace string, i int) client.ObjectKey {
		return client.ObjectKey{Namespace: namespace, Name: fmt.Sprint(i)}
	}
	for i := range 10_000 {
		perObject.Inc(key("tenant", i), "tenant", fmt.Sprint(i))
	}
	perObject.Inc(key("other", 1), "other", "1")
	all := func(client.ObjectKey) bool { return true }
	got := metrictest.Samples(t, metrictest.Of(t, sender{all, perObject}))
	if len(got) != metric.MaxObjects+1 || got["test_object_things_total name=1 namespace=other"] != 1 {
		t.Errorf("%d series", len(got))
	}
	// Those that are gone make room.
	none := func(client.ObjectKey) bool { return false }
	if got := metrictest.Samples(t, metrictest.Of(t, sender{none, perObject})); len(got) != 0 {
		t.Errorf("%d series without objects", len(got))
	}
	perObject.Inc(key("tenant", 9_999), "tenant", "9999")
	if got := metrictest.Samples(t, metrictest.Of(t, sender{all, perObject})); len(got) != 1 {
		t.Errorf("got %v", got)
	}
}

func TestBoundedKeepsTheOldestObjectsOfEachNamespace(t *testing.T) {
	t.Parallel()
	at := func(namespace string, i, age int) *metav1.PartialObjectMetadata {
		o := &metav1.PartialObjectMetadata{}
		o.Namespace, o.Name, o.CreationTimestamp = namespace, fmt.Sprint(i), metav1.NewTime(time.Unix(int64(100-age), 0))
		return o
	}
	few := []*metav1.PartialObjectMetadata{at("a", 1, 0), at("a", 2, 9)}
	if kept, left := metric.Bounded(few); left != 0 || len(kept) != 2 {
		t.Errorf("kept %d, left %d of a few", len(kept), left)
	}
	many := []*metav1.PartialObjectMetadata{at("victim", 1, 0)}
	for i := range 10_000 {
		many = append(many, at("tenant", i, 1))
	}
	many = append(many, at("tenant", 20_000, 50))
	kept, left := metric.Bounded(many)
	names := map[string]bool{}
	for _, o := range kept {
		names[o.Namespace+"/"+o.Name] = true
	}
	if len(kept) != metric.MaxObjects+1 || left != len(many)-len(kept) || !names["victim/1"] || !names["tenant/20000"] {
		t.Errorf("kept %d, left %d; the one of another namespace %t, the oldest %t", len(kept), left, names["victim/1"], names["tenant/20000"])
	}
	for n := range 20 { // twenty namespaces are too many together
		for i := range metric.MaxObjects {
			many = append(many, at(fmt.Sprint("tenant", n), i, 1))
		}
	}
	if kept, _ := metric.Bounded(many); len(kept) > 5*metric.MaxObjects || len(kept) < 2*metric.MaxObjects {
		t.Errorf("kept %d of all namespaces", len(kept))
	}
}

func TestTransitions(t *testing.T) {
	t.Parallel()
	condition := func(kind, status, reason string) metav1.Condition {
		return metav1.Condition{Type: kind, Status: metav1.ConditionStatus(status), Reason: reason}
	}
	before := []metav1.Condition{condition("Same", "True", ""), condition("Worse", "True", ""), condition("Gone", "True", "")}
	after := []metav1.Condition{
		condition("Same", "True", "Another"), condition("Worse", "False", "Why"), condition("New", "True", "Is"), condition("NewAndBad", "False", ""),
	}
	want := []metric.Transition{{"Worse", "False", "Why"}, {"New", "True", "Is"}, {Condition: "Gone", Status: metric.Removed}}
	if diff := cmp.Diff(want, metric.Transitions(before, after)); diff != "" {
		t.Errorf("transitions (-want +got):\n%s", diff)
	}
}
