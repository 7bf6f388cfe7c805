// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Package metrics counts the objects in the manager's cache at each scrape, and keeps
// the counters that the controllers add to. It owns every metric name of this manager but
// controller-runtime's and those of the workload connections; it never reads the API server.
package metrics

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	policyv1 "drover.io/api/policy/v1alpha1"
	"drover.io/runtime/predicates"
)

const namespace = "machine_controller"

var (
	machines = prometheus.NewDesc(namespace+"_machines_total",
		"Machines that exist, by the kind of their infrastructure and their phase.", []string{"provider", "phase"}, nil)
	replicas = prometheus.NewDesc(namespace+"_machine_deployment_replicas",
		"Replicas of each MachineDeployment that are desired, ready, available or up to date, or exist (current).",
		[]string{"namespace", "name", "cluster", "state"}, nil)
	workers = prometheus.NewDesc(namespace+"_workers_running",
		"Workers that this process runs for each kind; none while another process leads.", nil, nil)

	failures = prometheus.NewCounterVec(prometheus.CounterOpts{
		Namespace: namespace, Name: "errors_total", Help: "Errors of reconciles, by what was being done.",
	}, []string{"operation"})
	phaseSeconds = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Namespace: namespace, Name: "machine_phase_duration_seconds",
		Help:    "Seconds from a Machine's creation until it reached a phase.",
		Buckets: prometheus.ExponentialBuckets(1, 2, 12),
	}, []string{"phase"})
)

// Operation is the name of a phase or step in the label "operation": the name of its type.
func Operation(step any) string {
	return strings.TrimPrefix(fmt.Sprintf("%T", step), "*")
}

// Failed counts an error of an operation; no error is not counted.
func Failed(operation string, err error) {
	if err != nil {
		failures.WithLabelValues(operation).Inc()
	}
}

// Reached records how old a Machine was when it reached a phase.
func Reached(phase clusterv1.MachinePhase, age time.Duration) {
	phaseSeconds.WithLabelValues(string(phase)).Observe(age.Seconds())
}

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
}

// Register adds the collector and the counters to a registry.
func (c *Collector) Register(registry prometheus.Registerer) error {
	for _, each := range []prometheus.Collector{c, failures, phaseSeconds, replaced} {
		if err := registry.Register(each); err != nil {
			return err
		}
	}
	return nil
}

// Describe sends the descriptions of the metrics that Collect sends.
func (c *Collector) Describe(to chan<- *prometheus.Desc) {
	to <- machines
	to <- replicas
	to <- workers
	to <- setReplicas
	to <- checked
	to <- abnormal
}

// Collect counts. What the cache cannot answer, as before it has started, is left out.
func (c *Collector) Collect(to chan<- prometheus.Metric) {
	select {
	case <-c.Leading:
		to <- prometheus.MustNewConstMetric(workers, prometheus.GaugeValue, float64(c.Workers))
	default:
		to <- prometheus.MustNewConstMetric(workers, prometheus.GaugeValue, 0)
		return
	}
	c.collectMachines(to)
	c.collectDeployments(to)
	c.collectSets(to)
	c.collectChecks(to)
}

func (c *Collector) collectMachines(to chan<- prometheus.Metric) {
	list := &clusterv1.MachineList{}
	if err := c.Reader.List(context.Background(), list, client.UnsafeDisableDeepCopy); err != nil {
		return
	}
	type key struct{ provider, phase string }
	counts := map[key]int{}
	for i := range list.Items {
		if !c.Watch.Matches(&list.Items[i]) {
			continue
		}
		counts[key{list.Items[i].Spec.InfrastructureRef.Kind, list.Items[i].Status.Phase}]++
	}
	for k, n := range counts {
		to <- prometheus.MustNewConstMetric(machines, prometheus.GaugeValue, float64(n), k.provider, k.phase)
	}
}

func (c *Collector) collectDeployments(to chan<- prometheus.Metric) {
	list := &clusterv1.MachineDeploymentList{}
	if err := c.Reader.List(context.Background(), list, client.UnsafeDisableDeepCopy); err != nil {
		return
	}
	for i := range list.Items {
		md := &list.Items[i]
		if !c.Watch.Matches(md) {
			continue
		}
		o := object{md.Namespace, md.Name, md.Spec.ClusterName}
		o.send(to, replicas, count{"desired", md.Spec.Replicas}, count{"current", md.Status.Replicas}, count{"ready", md.Status.ReadyReplicas},
			count{"available", md.Status.AvailableReplicas}, count{"up-to-date", md.Status.UpToDateReplicas})
		o.sendConditions(to, "MachineDeployment", md, map[string]metav1.ConditionStatus{
			policyv1.FrozenCondition: metav1.ConditionTrue, policyv1.ProgressingCondition: metav1.ConditionFalse,
			clusterv1.MachineDeploymentAvailableCondition: metav1.ConditionFalse,
		})
	}
}
