// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	droverpolicyv1 "drover.io/api/policy/v1alpha1"
	"drover.io/runtime/metric"
	"drover.io/runtime/predicates"
)

// maxProviders is how many kinds of infrastructure have series of their own: whoever creates a Machine names one.
const maxProviders = 50

var (
	machines = metric.NewCollected(metric.Options{
		Name: namespace + "machines_total", Help: "Machines that exist, by the kind of their infrastructure and their phase.", Stability: metric.Stable,
		Labels: []metric.Label{metric.Named("provider", "the kind, of the 50 with the most Machines, else `other`"), phases},
	})
	workers = metric.NewCollected(metric.Options{
		Name: namespace + "workers_running", Help: "Workers that this process runs for each kind; none while another process leads.", Stability: metric.Stable,
	})
	withoutSeries = metric.NewCollected(metric.Options{
		Name: namespace + "objects_without_series", Stability: metric.Alpha,
		Help:   "Objects that have no series of their own, because their namespace, or all together, have too many of them. The oldest 1000 of a namespace have series, of all namespaces 5000 at most.",
		Labels: []metric.Label{kinds},
	})
)

// Collector answers a scrape from the manager's cache.
type Collector struct {
	// Reader is the manager's cached client.
	Reader client.Reader
	// Leading is closed once this process leads.
	Leading <-chan struct{}
	// Watch selects the objects of this manager.
	Watch predicates.WatchFilter
	// Workers is how many reconciles of a kind run at once.
	Workers int
	// Clock is clock.RealClock if it is nil.
	Clock clock.PassiveClock
}

// Describe sends the descriptions of the metrics that Collect sends.
func (c *Collector) Describe(to chan<- *prometheus.Desc) {
	for _, each := range []*metric.Collected{machines, replicas, workers, setReplicas, checked, abnormal, withoutSeries, oldest} {
		each.Describe(to)
	}
	remediations.Describe(to)
	readySeconds.Describe(to)
}

// Collect counts. What the cache cannot answer, as before it has started, is left out.
func (c *Collector) Collect(to chan<- prometheus.Metric) {
	select {
	case <-c.Leading:
		workers.Send(to, float64(c.Workers))
	default:
		workers.Send(to, 0)
		return
	}
	c.collectMachines(to)
	c.collectClusters(to)
	c.collectDeployments(to)
	c.collectSets(to)
	c.collectChecks(to)
}

func (c *Collector) list(into client.ObjectList) bool {
	return c.Reader.List(context.Background(), into, client.UnsafeDisableDeepCopy) == nil
}

// phaseOf is the phase of a Machine: Pending while it has none.
func phaseOf(m *clusterv1.Machine) string {
	return cmp.Or(m.Status.Phase, string(clusterv1.MachinePhasePending))
}

func (c *Collector) collectMachines(to chan<- prometheus.Metric) {
	list := &clusterv1.MachineList{}
	if !c.list(list) {
		return
	}
	counts, ages := map[string]map[string]int{}, ages{}
	for i := range list.Items {
		m := &list.Items[i]
		if !c.Watch.Matches(m) {
			continue
		}
		provider := m.Spec.InfrastructureRef.Kind
		if counts[provider] == nil {
			counts[provider] = map[string]int{}
		}
		counts[provider][phaseOf(m)]++
		ages.add(m)
	}
	ages.send(to, c.now())
	for provider, phases := range bounded(counts) {
		for phase, n := range phases {
			machines.Send(to, float64(n), provider, phase)
		}
	}
}

func (c *Collector) now() time.Time {
	if c.Clock == nil {
		return time.Now()
	}
	return c.Clock.Now()
}

// bounded adds up the counts of all providers but those with the most Machines.
func bounded(counts map[string]map[string]int) map[string]map[string]int {
	if len(counts) <= maxProviders {
		return counts
	}
	total := func(provider string) int {
		n := 0
		for _, each := range counts[provider] {
			n += each
		}
		return n
	}
	providers := slices.SortedFunc(maps.Keys(counts), func(a, b string) int { return cmp.Or(total(b)-total(a), cmp.Compare(a, b)) })
	others := maps.Clone(counts[metric.Other])
	if others == nil {
		others = map[string]int{}
	}
	kept := map[string]map[string]int{}
	for i, provider := range providers {
		switch {
		case provider == metric.Other:
		case i < maxProviders:
			kept[provider] = counts[provider]
		default:
			for phase, n := range counts[provider] {
				others[phase] += n
			}
		}
	}
	kept[metric.Other] = others
	return kept
}

func (c *Collector) collectClusters(to chan<- prometheus.Metric) {
	list := &clusterv1.ClusterList{}
	if !c.list(list) {
		return
	}
	all := pointers(list.Items)
	for _, cluster := range all {
		if c.Watch.Matches(cluster) {
			remediations.Start(client.ObjectKeyFromObject(cluster), cluster.Namespace, cluster.Name)
		}
	}
	remediations.Send(to, isListed(all))
}

func (c *Collector) collectDeployments(to chan<- prometheus.Metric) {
	list := &clusterv1.MachineDeploymentList{}
	if !c.list(list) {
		return
	}
	all := pointers(list.Items)
	readySeconds.Send(to, isListed(all))
	for _, md := range ours(to, c, "MachineDeployment", all) {
		o := object{md.Namespace, md.Name, md.Spec.ClusterName}
		o.send(to, replicas, count{"desired", md.Spec.Replicas}, count{"current", md.Status.Replicas}, count{"ready", md.Status.ReadyReplicas},
			count{"available", md.Status.AvailableReplicas}, count{"up-to-date", md.Status.UpToDateReplicas})
		o.sendConditions(to, "MachineDeployment", md, map[string]metav1.ConditionStatus{
			droverpolicyv1.FrozenCondition: metav1.ConditionTrue, droverpolicyv1.ProgressingCondition: metav1.ConditionFalse,
			clusterv1.MachineDeploymentAvailableCondition: metav1.ConditionFalse,
		})
	}
}

// ours are the objects of this manager that have series.
func ours[T client.Object](to chan<- prometheus.Metric, c *Collector, kind string, all []T) []T {
	kept, left := metric.Bounded(slices.DeleteFunc(all, func(o T) bool { return !c.Watch.Matches(o) }))
	withoutSeries.Send(to, float64(left), kind)
	return kept
}

// isListed reports which objects are in a list.
func isListed[T client.Object](all []T) func(client.ObjectKey) bool {
	keys := make(map[client.ObjectKey]struct{}, len(all))
	for _, object := range all {
		keys[client.ObjectKeyFromObject(object)] = struct{}{}
	}
	return func(key client.ObjectKey) bool {
		_, exists := keys[key]
		return exists
	}
}

func pointers[T any](items []T) []*T {
	all := make([]*T, len(items))
	for i := range items {
		all[i] = &items[i]
	}
	return all
}
