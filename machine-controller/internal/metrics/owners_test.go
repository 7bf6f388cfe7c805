// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	droverpolicyv1 "drover.io/api/policy/v1alpha1"
)

// held is a cache that holds what a test puts there.
type held struct {
	client.Reader
	machines    []clusterv1.Machine
	clusters    []clusterv1.Cluster
	deployments []clusterv1.MachineDeployment
	sets        []clusterv1.MachineSet
	checks      []clusterv1.MachineHealthCheck
}

func (h held) List(_ context.Context, into client.ObjectList, _ ...client.ListOption) error {
	switch list := into.(type) {
	case *clusterv1.MachineList:
		list.Items = h.machines
	case *clusterv1.ClusterList:
		list.Items = h.clusters
	case *clusterv1.MachineDeploymentList:
		list.Items = h.deployments
	case *clusterv1.MachineSetList:
		list.Items = h.sets
	case *clusterv1.MachineHealthCheckList:
		list.Items = h.checks
	}
	return nil
}

func meta(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Namespace: "ns", Name: name} }

func TestCollectReplicasHealthChecksAndConditions(t *testing.T) {
	t.Parallel()
	md := clusterv1.MachineDeployment{ObjectMeta: meta("md"), Spec: clusterv1.MachineDeploymentSpec{ClusterName: "c", Replicas: new(int32(3))}}
	md.Status.AvailableReplicas = new(int32(2))
	md.Status.Conditions = []metav1.Condition{
		{Type: droverpolicyv1.ProgressingCondition, Status: metav1.ConditionFalse},
		{Type: droverpolicyv1.FrozenCondition, Status: metav1.ConditionTrue},
		{Type: clusterv1.MachineDeploymentAvailableCondition, Status: metav1.ConditionTrue},
	}
	set := clusterv1.MachineSet{ObjectMeta: meta("set"), Spec: clusterv1.MachineSetSpec{ClusterName: "c", Replicas: new(int32(1))}}
	set.Status.Replicas = new(int32(0))
	check := clusterv1.MachineHealthCheck{ObjectMeta: meta("check"), Spec: clusterv1.MachineHealthCheckSpec{ClusterName: "c"}}
	check.Status.ExpectedMachines, check.Status.CurrentHealthy, check.Status.RemediationsAllowed = new(int32(4)), new(int32(1)), new(int32(0))
	check.Status.Conditions = []metav1.Condition{{Type: clusterv1.MachineHealthCheckRemediationAllowedCondition, Status: metav1.ConditionFalse}}
	leading := make(chan struct{})
	close(leading)
	collector := &Collector{Leading: leading, Workers: 20, Reader: held{
		deployments: []clusterv1.MachineDeployment{md}, sets: []clusterv1.MachineSet{set}, checks: []clusterv1.MachineHealthCheck{check},
	}}
	registry := prometheus.NewRegistry()
	registry.MustRegister(collector)
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			line := strings.TrimPrefix(family.GetName(), namespace)
			for _, label := range metric.GetLabel() {
				line += " " + label.GetValue()
			}
			got = append(got, fmt.Sprint(line, " ", metric.GetGauge().GetValue()))
		}
	}
	want := []string{ // labels are in the order of their names
		"condition_abnormal c Frozen MachineDeployment md ns 1",
		"condition_abnormal c Progressing MachineDeployment md ns 1",
		"condition_abnormal c RemediationAllowed MachineHealthCheck check ns 1",
		"machine_deployment_replicas c md ns available 2",
		"machine_deployment_replicas c md ns desired 3",
		"machine_health_check_machines c check ns expected 4",
		"machine_health_check_machines c check ns healthy 1",
		"machine_health_check_machines c check ns remediations-allowed 0",
		"machine_set_replicas c set ns current 0",
		"machine_set_replicas c set ns desired 1",
		"objects_without_series MachineDeployment 0",
		"objects_without_series MachineHealthCheck 0",
		"objects_without_series MachineSet 0",
		"workers_running 20",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
