// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	policyv1 "drover.io/api/policy/v1alpha1"
)

var (
	setReplicas = prometheus.NewDesc(namespace+"_machine_set_replicas",
		"Replicas of each MachineSet that are desired, ready, available or up to date, or exist (current).",
		[]string{"namespace", "name", "cluster", "state"}, nil)
	checked = prometheus.NewDesc(namespace+"_machine_health_check_machines",
		"Machines that each MachineHealthCheck expects, finds healthy, or could have replaced now (remediations-allowed).",
		[]string{"namespace", "name", "cluster", "state"}, nil)
	abnormal = prometheus.NewDesc(namespace+"_condition_abnormal",
		"1 while a condition of a MachineDeployment, MachineSet or MachineHealthCheck has an abnormal status, by condition.",
		[]string{"kind", "namespace", "name", "cluster", "condition"}, nil)

	replaced = prometheus.NewCounterVec(prometheus.CounterOpts{
		Namespace: namespace, Name: "replacements_total", Help: "Machines deleted because a health check had marked them, by their MachineSet's Cluster.",
	}, []string{"namespace", "cluster"})
)

// Replaced counts a Machine that was deleted because it was unhealthy.
func Replaced(cluster client.ObjectKey) {
	replaced.WithLabelValues(cluster.Namespace, cluster.Name).Inc()
}

// count is a number under the name of what it counts.
type count struct {
	state string
	n     *int32
}

// object is what every series of an object is labelled with.
type object struct{ namespace, name, cluster string }

func (o object) send(to chan<- prometheus.Metric, desc *prometheus.Desc, counts ...count) {
	for _, c := range counts {
		if c.n != nil {
			to <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, float64(*c.n), o.namespace, o.name, o.cluster, c.state)
		}
	}
}

// sendConditions sends the conditions with an abnormal status.
func (o object) sendConditions(to chan<- prometheus.Metric, kind string, of conditions.Getter, bad map[string]metav1.ConditionStatus) {
	for _, c := range of.GetConditions() {
		if c.Status == bad[c.Type] {
			to <- prometheus.MustNewConstMetric(abnormal, prometheus.GaugeValue, 1, kind, o.namespace, o.name, o.cluster, c.Type)
		}
	}
}

func (c *Collector) collectSets(to chan<- prometheus.Metric) {
	list := &clusterv1.MachineSetList{}
	if err := c.Reader.List(context.Background(), list, client.UnsafeDisableDeepCopy); err != nil {
		return
	}
	for i := range list.Items {
		set := &list.Items[i]
		if !c.Watch.Matches(set) {
			continue
		}
		o := object{set.Namespace, set.Name, set.Spec.ClusterName}
		o.send(to, setReplicas, count{"desired", set.Spec.Replicas}, count{"current", set.Status.Replicas}, count{"ready", set.Status.ReadyReplicas},
			count{"available", set.Status.AvailableReplicas}, count{"up-to-date", set.Status.UpToDateReplicas})
		o.sendConditions(to, "MachineSet", set, map[string]metav1.ConditionStatus{policyv1.FrozenCondition: metav1.ConditionTrue})
	}
}

func (c *Collector) collectChecks(to chan<- prometheus.Metric) {
	list := &clusterv1.MachineHealthCheckList{}
	if err := c.Reader.List(context.Background(), list, client.UnsafeDisableDeepCopy); err != nil {
		return
	}
	for i := range list.Items {
		check := &list.Items[i]
		if !c.Watch.Matches(check) {
			continue
		}
		o := object{check.Namespace, check.Name, check.Spec.ClusterName}
		o.send(to, checked, count{"expected", check.Status.ExpectedMachines}, count{"healthy", check.Status.CurrentHealthy},
			count{"remediations-allowed", check.Status.RemediationsAllowed})
		o.sendConditions(to, "MachineHealthCheck", check, map[string]metav1.ConditionStatus{
			clusterv1.MachineHealthCheckRemediationAllowedCondition: metav1.ConditionFalse,
			"FailureDomainsHealthy":                                 metav1.ConditionFalse,
		})
	}
}
