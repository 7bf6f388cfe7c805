// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"drover.io/runtime/metric"
	"drover.io/runtime/metric/metrictest"
)

// scraped are the samples of a collector with what a cache holds.
func scraped(t testing.TB, cache held) map[string]float64 {
	t.Helper()
	leading := make(chan struct{})
	close(leading)
	return metrictest.Counts(t, metrictest.Of(t, &Collector{Leading: leading, Workers: 20, Reader: cache}))
}

// fleet has so many MachineDeployments of so many Machines, in ten namespaces.
func fleet(deployments, machines int) held {
	cache := held{}
	for i := range deployments {
		md := clusterv1.MachineDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: fmt.Sprint("team-", i%10), Name: fmt.Sprint("md-", i)}}
		md.Spec.Replicas, md.Status.AvailableReplicas = new(int32(machines)), new(int32(machines))
		cache.deployments = append(cache.deployments, md)
		for j := range machines {
			m := clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: md.Namespace, Name: fmt.Sprint(md.Name, "-", j)}}
			m.Spec.InfrastructureRef.Kind, m.Status.Phase = "SimMachine", string(clusterv1.MachinePhaseRunning)
			cache.machines = append(cache.machines, m)
		}
	}
	return cache
}

func TestMachinesHaveNoSeriesOfTheirOwn(t *testing.T) {
	t.Parallel()
	few, many := scraped(t, fleet(50, 1)), scraped(t, fleet(50, 100)) // 5,000 Machines
	if len(few) != len(many) {
		t.Errorf("50 Machines have %d series, 5000 have %d", len(few), len(many))
	}
	if got := many["machine_controller_machines_total phase=Running provider=SimMachine"]; got != 5000 {
		t.Errorf("%v Machines are counted", got)
	}
	for sample := range many {
		if strings.Contains(sample, "md-1-") {
			t.Errorf("a Machine has the series %s", sample)
		}
	}
}

// TestTenantWithManyMachineDeployments has one that creates 10,000.
func TestTenantWithManyMachineDeployments(t *testing.T) {
	t.Parallel()
	cache := held{}
	add := func(namespace string, n int, age time.Duration) {
		for i := range n {
			md := clusterv1.MachineDeployment{ObjectMeta: metav1.ObjectMeta{
				Namespace: namespace, Name: fmt.Sprint("md-", i), CreationTimestamp: metav1.NewTime(time.Unix(1_000_000, 0).Add(-age)),
			}}
			md.Spec.Replicas = new(int32(1))
			cache.deployments = append(cache.deployments, md)
		}
	}
	add("tenant", 10_000, 0)
	add("victim", 3, 0)
	got := scraped(t, cache)
	victims, tenants := 0, 0
	for sample := range got {
		if strings.HasPrefix(sample, "machine_controller_machine_deployment_replicas") {
			victims += strings.Count(sample, "namespace=victim")
			tenants += strings.Count(sample, "namespace=tenant")
		}
	}
	if victims != 3 || tenants != metric.MaxObjects {
		t.Errorf("%d MachineDeployments of others and %d of the tenant have series", victims, tenants)
	}
	if left := got["machine_controller_objects_without_series kind=MachineDeployment"]; left != 9_000 {
		t.Errorf("%v MachineDeployments are reported as without series", left)
	}
}

// TestTenantWithManyKinds has one that creates Machines of 10,000 kinds of infrastructure.
func TestTenantWithManyKinds(t *testing.T) {
	t.Parallel()
	cache := fleet(1, 5)
	for i := range 10_000 {
		m := clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: "tenant", Name: fmt.Sprint(i)}}
		m.Spec.InfrastructureRef.Kind, m.Status.Phase = fmt.Sprintf("A%dMachine", i), string(clusterv1.MachinePhasePending)
		cache.machines = append(cache.machines, m)
	}
	n, all := 0, 0.0
	got := scraped(t, cache)
	for sample, value := range got {
		if strings.HasPrefix(sample, "machine_controller_machines_total") {
			n++
			all += value
		}
	}
	if n > 2*maxProviders || all != 10_005 || got["machine_controller_machines_total phase=Running provider=SimMachine"] != 5 {
		t.Errorf("%d series count %v Machines", n, all)
	}
}

// It runs alone, as the histogram is shared by the process.
func TestSeriesEndWithTheirMachineDeployment(t *testing.T) {
	cache := fleet(2, 1)
	for i := range cache.deployments {
		ObserveReady(&cache.deployments[i], time.Minute)
	}
	of := func(name string, cache held) (n int) {
		for sample := range scraped(t, cache) {
			if strings.Contains(sample, "name="+name+" ") {
				n++
			}
		}
		return n
	}
	if got := of("md-1", cache); got != 3 { // desired, available and the histogram
		t.Errorf("%d series", got)
	}
	left := held{deployments: cache.deployments[:1]}
	if gone, kept := of("md-1", left), of("md-0", left); gone != 0 || kept != 3 {
		t.Errorf("%d series of the deleted MachineDeployment, %d of the other", gone, kept)
	}
	if again := scraped(t, cache)["machine_controller_machine_deployment_ready_duration_seconds cluster= name=md-1 namespace=team-1"]; again != 0 {
		t.Errorf("the histogram of the deleted MachineDeployment came back with %v", again)
	}
}

// BenchmarkScrape is a scrape at 5,000 Machines of 500 MachineDeployments.
func BenchmarkScrape(b *testing.B) {
	leading := make(chan struct{})
	close(leading)
	registry := prometheus.NewRegistry()
	registry.MustRegister(&Collector{Leading: leading, Workers: 20, Reader: fleet(500, 10)})
	for b.Loop() {
		if _, err := registry.Gather(); err != nil {
			b.Fatal(err)
		}
	}
}
