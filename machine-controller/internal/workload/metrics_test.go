// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/onsi/gomega"

	"drover.io/runtime/metric"
)

// series reads one gauge or counter per label value.
func (w *environment) series(name, label string) map[string]float64 {
	w.Helper()
	families, err := w.registry.Gather()
	if err != nil {
		w.Fatal(err)
	}
	values := map[string]float64{}
	for _, family := range families {
		if family.GetName() != name {
			continue
		}
		for _, metric := range family.GetMetric() {
			for _, pair := range metric.GetLabel() {
				if pair.GetName() == label {
					values[pair.GetValue()] = metric.GetGauge().GetValue() + metric.GetCounter().GetValue()
				}
			}
		}
	}
	return values
}

func TestMetricsFollowTheClusters(t *testing.T) {
	t.Parallel()
	a := apiServer(t, "a")
	w := newEnvironment(t, asIs)
	if err := metric.Register(w.registry); err != nil {
		t.Fatal(err)
	}
	before := w.series("machine_controller_workload_dials_total", "result")
	w.cluster("a", kubeconfigOf(t, a))
	w.cluster("b", "not a kubeconfig")
	w.connected("a")
	w.refused("b", ReasonKubeconfigInvalid)

	connected := func() map[string]float64 { return w.series("machine_controller_workload_connected", "cluster") }
	if diff := cmp.Diff(map[string]float64{"a": 1, "b": 0}, connected()); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	dials := w.series("machine_controller_workload_dials_total", "result")
	if dials["Connected"] <= before["Connected"] || dials["KubeconfigInvalid"] <= before["KubeconfigInvalid"] {
		t.Errorf("dials: %v", dials)
	}
	w.Eventually(func() float64 {
		return w.series("machine_controller_workload_probes_total", "result")["Succeeded"]
	}).Should(gomega.BeNumerically(">", 1))

	w.deleteCluster("a")
	w.Eventually(connected).Should(gomega.Equal(map[string]float64{"b": 0}))
}
