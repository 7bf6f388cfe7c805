// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"

	droverpolicyv1 "drover.io/api/policy/v1alpha1"
	"drover.io/runtime/metric"
)

var (
	replicas = metric.NewCollected(metric.Options{
		Name: namespace + "machine_deployment_replicas", Help: "Replicas of each MachineDeployment that are desired, ready, available or up to date, or exist (current).",
		Stability: metric.Stable, Labels: append(named("MachineDeployment"), replicaStates),
	})
	setReplicas = metric.NewCollected(metric.Options{
		Name: namespace + "machine_set_replicas", Help: "Replicas of each MachineSet that are desired, ready, available or up to date, or exist (current).",
		Stability: metric.Alpha, Labels: append(named("MachineSet"), replicaStates),
	})
	checked = metric.NewCollected(metric.Options{
		Name: namespace + "machine_health_check_machines", Help: "Machines that each MachineHealthCheck expects, finds healthy, or could have replaced now (remediations-allowed).",
		Stability: metric.Alpha, Labels: append(named("MachineHealthCheck"), metric.Fixed("state", "expected", "healthy", "remediations-allowed")),
	})
	abnormal = metric.NewCollected(metric.Options{
		Name: namespace + "condition_abnormal", Help: "1 while a condition of a MachineDeployment, MachineSet or MachineHealthCheck reports a problem.",
		Stability: metric.Alpha, Labels: append(append([]metric.Label{metric.Fixed("kind", "MachineDeployment", "MachineSet", "MachineHealthCheck")}, named("object")...),
			metric.Fixed("condition", droverpolicyv1.FrozenCondition, droverpolicyv1.ProgressingCondition, clusterv1.MachineDeploymentAvailableCondition,
				clusterv1.MachineHealthCheckRemediationAllowedCondition, failureDomainsHealthy)),
	})
)

var replicaStates = metric.Fixed("state", "desired", "current", "ready", "available", "up-to-date")

// named are the labels of an object's own series.
func named(kind string) []metric.Label {
	return []metric.Label{metric.Named("namespace", "the "+kind+"'s"), metric.Named("name", "the "+kind), metric.Named("cluster", "its Cluster")}
}

// count is a number under the name of what it counts.
type count struct {
	state string
	n     *int32
}

// object is what every series of an object is labelled with.
type object struct{ namespace, name, cluster string }

func (o object) send(to chan<- prometheus.Metric, of *metric.Collected, counts ...count) {
	for _, c := range counts {
		if c.n != nil {
			of.Send(to, float64(*c.n), o.namespace, o.name, o.cluster, c.state)
		}
	}
}

// sendConditions sends the conditions with an abnormal status.
func (o object) sendConditions(to chan<- prometheus.Metric, kind string, of conditions.Getter, bad map[string]metav1.ConditionStatus) {
	for _, c := range of.GetConditions() {
		if c.Status == bad[c.Type] {
			abnormal.Send(to, 1, kind, o.namespace, o.name, o.cluster, c.Type)
		}
	}
}

func (c *Collector) collectSets(to chan<- prometheus.Metric) {
	list := &clusterv1.MachineSetList{}
	if !c.list(list) {
		return
	}
	for _, set := range ours(to, c, "MachineSet", pointers(list.Items)) {
		o := object{set.Namespace, set.Name, set.Spec.ClusterName}
		o.send(to, setReplicas, count{"desired", set.Spec.Replicas}, count{"current", set.Status.Replicas}, count{"ready", set.Status.ReadyReplicas},
			count{"available", set.Status.AvailableReplicas}, count{"up-to-date", set.Status.UpToDateReplicas})
		o.sendConditions(to, "MachineSet", set, map[string]metav1.ConditionStatus{droverpolicyv1.FrozenCondition: metav1.ConditionTrue})
	}
}

func (c *Collector) collectChecks(to chan<- prometheus.Metric) {
	list := &clusterv1.MachineHealthCheckList{}
	if !c.list(list) {
		return
	}
	for _, check := range ours(to, c, "MachineHealthCheck", pointers(list.Items)) {
		o := object{check.Namespace, check.Name, check.Spec.ClusterName}
		o.send(to, checked, count{"expected", check.Status.ExpectedMachines}, count{"healthy", check.Status.CurrentHealthy},
			count{"remediations-allowed", check.Status.RemediationsAllowed})
		o.sendConditions(to, "MachineHealthCheck", check, map[string]metav1.ConditionStatus{
			clusterv1.MachineHealthCheckRemediationAllowedCondition: metav1.ConditionFalse,
			failureDomainsHealthy: metav1.ConditionFalse,
		})
	}
}
