// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"drover.io/runtime/metric"
)

var oldest = metric.NewCollected(metric.Options{
	Name: namespace + "oldest_machine_seconds", Stability: metric.Alpha,
	Help: "Seconds since the oldest Machine of a namespace in a phase was created, or, in the phase Deleting, since its deletion was requested. It tells what is stuck from what is many. There are series of 1000 namespaces at most.",
	Labels: []metric.Label{metric.Named("namespace", "the Machine's"), metric.Fixed("phase",
		clusterv1.MachinePhasePending, clusterv1.MachinePhaseProvisioning, clusterv1.MachinePhaseProvisioned, clusterv1.MachinePhaseDeleting)},
})

// place is a phase in a namespace.
type place struct{ namespace, phase string }

// ages finds the oldest Machine of each place.
type ages map[place]time.Time

func (a ages) add(m *clusterv1.Machine) {
	since := m.CreationTimestamp.Time
	phase := phaseOf(m)
	switch clusterv1.MachinePhase(phase) {
	case clusterv1.MachinePhaseDeleting:
		if m.DeletionTimestamp.IsZero() {
			return
		}
		since = m.DeletionTimestamp.Time
	case clusterv1.MachinePhasePending, clusterv1.MachinePhaseProvisioning, clusterv1.MachinePhaseProvisioned:
	default:
		return
	}
	at := place{m.Namespace, phase}
	if known, is := a[at]; !is || since.Before(known) {
		a[at] = since
	}
}

// send sends those of the namespaces with the oldest Machines.
func (a ages) send(to chan<- prometheus.Metric, now time.Time) {
	places := slices.SortedFunc(maps.Keys(a), func(x, y place) int {
		return cmp.Or(a[x].Compare(a[y]), cmp.Compare(x.namespace, y.namespace), cmp.Compare(x.phase, y.phase))
	})
	namespaces := map[string]bool{}
	for _, at := range places {
		if !namespaces[at.namespace] && len(namespaces) == metric.MaxObjects {
			continue
		}
		namespaces[at.namespace] = true
		oldest.Send(to, now.Sub(a[at]).Seconds(), at.namespace, at.phase)
	}
}
