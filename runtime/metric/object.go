// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package metric

import (
	"cmp"
	"slices"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	// MaxObjects is how many objects of a kind have series in one namespace.
	MaxObjects = 1000
	// maxAll is how many objects of a kind have series in all namespaces.
	maxAll = 5000
)

// Bounded returns the objects of a kind that have series, and how many have none. Of each namespace these are the
// MaxObjects oldest, so that whoever makes more in a namespace takes the series of no older object and of no other
// namespace. Where all namespaces have too many, each has fewer.
func Bounded[T client.Object](objects []T) (kept []T, left int) {
	counts := map[string]int{}
	for _, object := range objects {
		counts[object.GetNamespace()]++
	}
	limit := limitOf(counts)
	if !slices.ContainsFunc(objects, func(o T) bool { return counts[o.GetNamespace()] > limit }) {
		return objects, 0
	}
	sorted := slices.Clone(objects)
	slices.SortFunc(sorted, func(a, b T) int {
		return cmp.Or(a.GetCreationTimestamp().Compare(b.GetCreationTimestamp().Time), cmp.Compare(a.GetName(), b.GetName()))
	})
	clear(counts)
	for _, object := range sorted {
		if counts[object.GetNamespace()]++; counts[object.GetNamespace()] <= limit {
			kept = append(kept, object)
		}
	}
	return kept, len(objects) - len(kept)
}

// limitOf is how many objects of each namespace have series.
func limitOf(counts map[string]int) int {
	for limit := MaxObjects; limit > 1; limit /= 2 {
		sum := 0
		for _, n := range counts {
			sum += min(n, limit)
		}
		if sum <= maxAll {
			return limit
		}
	}
	return 1
}

// objects are those that have series of one metric.
type objects struct {
	mu    sync.Mutex
	known map[client.ObjectKey]struct{}
	// counts are how many are known of each namespace.
	counts map[string]int
	vec    *prometheus.MetricVec
	// nameLabel is the label with the name of the object; "namespace" is that with its namespace.
	nameLabel string
}

// record writes to the series of an object that has some, or may have. Meanwhile none end, so that none is left which is not known.
func (o *objects) record(key client.ObjectKey, write func()) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.admit(key) {
		write()
	}
}

// admit reports whether an object has or may have series. The caller holds the lock.
func (o *objects) admit(key client.ObjectKey) bool {
	if _, has := o.known[key]; has {
		return true
	}
	if o.counts[key.Namespace] >= MaxObjects || len(o.known) >= maxAll {
		return false
	}
	if o.known == nil {
		o.known, o.counts = map[client.ObjectKey]struct{}{}, map[string]int{}
	}
	o.known[key] = struct{}{}
	o.counts[key.Namespace]++
	return true
}

// retain deletes the series of objects that do not exist.
func (o *objects) retain(exists func(client.ObjectKey) bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for key := range o.known {
		if !exists(key) {
			delete(o.known, key)
			if o.counts[key.Namespace]--; o.counts[key.Namespace] == 0 {
				delete(o.counts, key.Namespace)
			}
			o.vec.DeletePartialMatch(prometheus.Labels{"namespace": key.Namespace, o.nameLabel: key.Name})
		}
	}
}

// ObjectCounter counts for each of many objects. It is for a collector, which knows the objects that exist. The label
// "namespace" has the namespace of the object, and another its name.
type ObjectCounter struct {
	vec     *prometheus.CounterVec
	objects objects
}

// NewObjectCounter declares a counter whose objects are named by a label.
func NewObjectCounter(nameLabel string, o Options) *ObjectCounter {
	declare(declaration{o, "counter", nil})
	vec := prometheus.NewCounterVec(prometheus.CounterOpts{Name: o.Name, Help: o.help()}, o.labelNames())
	return &ObjectCounter{vec: vec, objects: objects{vec: vec.MetricVec, nameLabel: nameLabel}}
}

// Start begins the series of an object at 0, as [Counter.Start] does. The values are those of all labels.
func (c *ObjectCounter) Start(object client.ObjectKey, values ...string) {
	c.objects.record(object, func() { c.vec.WithLabelValues(values...) })
}

// Inc adds one for an object. The values are those of all labels.
func (c *ObjectCounter) Inc(object client.ObjectKey, values ...string) {
	c.objects.record(object, func() { c.vec.WithLabelValues(values...).Inc() })
}

// Describe is for the collector.
func (c *ObjectCounter) Describe(to chan<- *prometheus.Desc) { c.vec.Describe(to) }

// Send sends the series of the objects that exist, and forgets the others.
func (c *ObjectCounter) Send(to chan<- prometheus.Metric, exists func(client.ObjectKey) bool) {
	c.objects.retain(exists)
	c.vec.Collect(to)
}

// ObjectHistogram is a Histogram for each of many objects, as [ObjectCounter] is a Counter.
type ObjectHistogram struct {
	vec     *prometheus.HistogramVec
	objects objects
}

// NewObjectHistogram declares a histogram whose objects are named by a label.
func NewObjectHistogram(nameLabel string, o Options) *ObjectHistogram {
	declare(declaration{o, "histogram", nil})
	vec := newHistogramVec(o)
	return &ObjectHistogram{vec: vec, objects: objects{vec: vec.MetricVec, nameLabel: nameLabel}}
}

// Observe counts a value for an object. The values are those of all labels.
func (h *ObjectHistogram) Observe(value float64, object client.ObjectKey, values ...string) {
	h.objects.record(object, func() { h.vec.WithLabelValues(values...).Observe(value) })
}

// Describe is for the collector.
func (h *ObjectHistogram) Describe(to chan<- *prometheus.Desc) { h.vec.Describe(to) }

// Send sends the series of the objects that exist, and forgets the others.
func (h *ObjectHistogram) Send(to chan<- prometheus.Metric, exists func(client.ObjectKey) bool) {
	h.objects.retain(exists)
	h.vec.Collect(to)
}
