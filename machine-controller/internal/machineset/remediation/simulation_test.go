// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package remediation

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"drover.io/machine-controller/internal/goldentest"
	"drover.io/machine-controller/internal/health"
)

const (
	tick     = 30 * time.Second
	replicas = 50
	joinTime = 2 * time.Minute
	goneTime = time.Minute
)

// simulation is a set of Machines, spread over three zones, whose Nodes come and go in
// simulated time. Health check and MachineSet decide by their own functions; the API server and the cloud are simulated.
type simulation struct {
	now         time.Time
	set         *clusterv1.MachineSet
	machines    []*clusterv1.Machine
	nodes       map[string]*corev1.Node
	created     int
	deleted     []string
	joinable    bool
	decision    health.Decision
	limit       int
	maxReplaced int
}

func newSimulation() *simulation {
	w := &simulation{now: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC), set: &clusterv1.MachineSet{}, nodes: map[string]*corev1.Node{}, joinable: true}
	w.limit, _ = health.Limit(nil, replicas)
	for range replicas {
		w.join(w.create(w.now.Add(-24 * time.Hour)))
	}
	return w
}

func (w *simulation) create(at time.Time) *clusterv1.Machine {
	w.created++
	m := &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{
		// Those of the beginning are a second apart, so that the newest of them is known.
		Name: fmt.Sprintf("m-%02d", w.created), CreationTimestamp: metav1.NewTime(at.Add(time.Duration(w.created) * time.Second)),
	}}
	m.Status.FailureDomain = string(rune('a' + w.created%3))
	w.machines = append(w.machines, m)
	return m
}

func (w *simulation) join(m *clusterv1.Machine) {
	m.Status.NodeRef.Name = m.Name
	w.nodes[m.Name] = &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: m.Name, CreationTimestamp: metav1.NewTime(w.now)}}
	w.ready(m.Name, corev1.ConditionTrue)
}

func (w *simulation) ready(name string, status corev1.ConditionStatus) {
	if node := w.nodes[name]; node != nil {
		node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: status, LastTransitionTime: metav1.NewTime(w.now)}}
	}
}

func (w *simulation) setCondition(m *clusterv1.Machine, kind string, status metav1.ConditionStatus) {
	meta.SetStatusCondition(&m.Status.Conditions, metav1.Condition{Type: kind, Status: status, Reason: "Test", LastTransitionTime: metav1.NewTime(w.now)})
}

// updateMachines completes deletions and adds Nodes.
func (w *simulation) updateMachines() {
	w.machines = slices.DeleteFunc(w.machines, func(m *clusterv1.Machine) bool {
		gone := m.DeletionTimestamp != nil && w.now.Sub(m.DeletionTimestamp.Time) >= goneTime
		if gone {
			delete(w.nodes, m.Name)
		}
		return gone
	})
	for _, m := range w.machines {
		if m.Status.NodeRef.Name == "" && w.joinable && w.now.Sub(m.CreationTimestamp.Time) >= joinTime {
			w.join(m)
		}
	}
}

// runHealthCheck does what the machinehealthcheck controller does.
func (w *simulation) runHealthCheck() {
	cluster := &clusterv1.Cluster{}
	for _, kind := range []string{clusterv1.ClusterInfrastructureReadyCondition, clusterv1.ClusterControlPlaneInitializedCondition} {
		cluster.Status.Conditions = append(cluster.Status.Conditions, metav1.Condition{Type: kind, Status: metav1.ConditionTrue})
	}
	checks := clusterv1.MachineHealthCheckChecks{UnhealthyNodeConditions: []clusterv1.UnhealthyNodeCondition{
		{Type: corev1.NodeReady, Status: corev1.ConditionUnknown, TimeoutSeconds: new(int32(300))},
	}}
	situation := health.PlanInput{Trigger: health.Trigger{Most: -1}, Now: w.now, Groups: map[string]health.Group{
		"md": {Limit: w.limit, InFlight: health.InFlight(w.machines, health.InFlightReplacements(w.set))},
	}}
	for _, m := range w.machines {
		var nodes []*corev1.Node
		if node := w.nodes[m.Name]; node != nil {
			nodes = append(nodes, node)
		}
		finding := health.Evaluate(health.Input{Machine: m, Cluster: cluster, Nodes: nodes, Since: w.now.Add(-25 * time.Hour), Checks: checks, Now: w.now})
		situation.Targets = append(situation.Targets, health.Target{
			Name: m.Name, Finding: finding, Zone: m.Status.FailureDomain, Group: "md", Marked: health.MarkedForOwner(m), Holds: health.Holds(m),
			NotBefore: health.NotBefore(m, w.now), Created: m.CreationTimestamp.Time,
		})
	}
	w.decision = health.Plan(situation)
	for i, m := range w.machines {
		switch situation.Targets[i].Finding.State {
		case health.Healthy:
			w.setCondition(m, clusterv1.MachineHealthCheckSucceededCondition, metav1.ConditionTrue)
		case health.Unhealthy:
			w.setCondition(m, clusterv1.MachineHealthCheckSucceededCondition, metav1.ConditionFalse)
		case health.Deleting, health.Unevaluated:
			continue
		}
		if w.decision.Remediate[m.Name] {
			w.setCondition(m, clusterv1.MachineOwnerRemediatedCondition, metav1.ConditionFalse)
		} else {
			meta.RemoveStatusCondition(&m.Status.Conditions, clusterv1.MachineOwnerRemediatedCondition)
		}
	}
}

// runMachineSet does what the machineset controller does.
func (w *simulation) runMachineSet() {
	for m, replacement := range Replacements(w.machines, health.InFlightReplacements(w.set)) {
		health.SetReplacement(m, replacement)
	}
	for _, m := range w.machines {
		if at := health.SettlesAt(m); !at.IsZero() && !w.now.Before(at) {
			replacement, _ := health.ReplacementOf(m)
			replacement.Settled = true
			health.SetReplacement(m, replacement)
		}
	}
	inFlight := StillNeeded(health.InFlightReplacements(w.set), w.machines, replicas)
	now, _ := WithinBudget(Candidates(w.machines), w.machines, inFlight, w.limit)
	newest := slices.MaxFunc(w.machines, func(a, b *clusterv1.Machine) int {
		return a.CreationTimestamp.Compare(b.CreationTimestamp.Time)
	}).CreationTimestamp
	for _, m := range now {
		inFlight = append(inFlight, health.InFlightReplacement{Machine: m.Name, Attempt: health.NextAttempt(m, w.now), Newest: newest})
		m.DeletionTimestamp = new(metav1.NewTime(w.now))
		w.deleted = append(w.deleted, m.Name)
	}
	health.SetInFlightReplacements(w.set, inFlight)
	for range replicas - len(w.machines) {
		w.create(w.now)
	}
	w.maxReplaced = max(w.maxReplaced, health.Busy(w.machines, health.InFlightReplacements(w.set)))
}

// run runs the simulation and describes the changes in each tick.
func (w *simulation) run(length time.Duration, events map[string]func(*simulation)) string {
	var text strings.Builder
	last := ""
	for end := w.now.Add(length); w.now.Before(end); w.now = w.now.Add(tick) {
		clock := w.now.Format("15:04:05")
		if event := events[clock]; event != nil {
			event(w)
		}
		before := len(w.deleted)
		w.updateMachines()
		w.runHealthCheck()
		w.runMachineSet()
		line := fmt.Sprintf("healthy %d, unhealthy %d, being replaced %d of %d", w.decision.Healthy, w.decision.Unhealthy,
			health.InFlight(w.machines, health.InFlightReplacements(w.set)), w.limit)
		if len(w.decision.Zones) > 0 {
			line += ", zones down " + strings.Join(w.decision.Zones, " ")
		}
		if deleted := w.deleted[before:]; len(deleted) > 0 {
			line += ", deleted " + strings.Join(deleted, " ")
		}
		if line != last {
			fmt.Fprintf(&text, "%s %s\n", clock, line)
		}
		last = line
	}
	fmt.Fprintf(&text, "deleted %d in all, at most %d at once\n", len(w.deleted), w.maxReplaced)
	return text.String()
}

// makeUnreachable makes the Nodes unreachable that the predicate selects by number.
func makeUnreachable(which func(n int) bool) func(*simulation) {
	return func(w *simulation) {
		for _, m := range w.machines {
			var n int
			if _, err := fmt.Sscanf(m.Name, "m-%d", &n); err == nil && which(n) {
				w.ready(m.Name, corev1.ConditionUnknown)
			}
		}
	}
}

func makeAllReady(w *simulation) {
	w.joinable = true
	for name := range w.nodes {
		w.ready(name, corev1.ConditionTrue)
	}
}

// TestNodeOutages has most Nodes unreachable from 12:05 for ten minutes, by a failure of the network, and one from 13:30
// for good.
func TestNodeOutages(t *testing.T) {
	t.Parallel()
	four := func(n int) bool { return n%5 != 0 }
	death := makeUnreachable(func(n int) bool { return n == 7 })
	tests := map[string]map[string]func(*simulation){
		"most-nodes-unreachable": {
			"12:05:00": func(w *simulation) { makeUnreachable(four)(w); w.joinable = false }, "12:15:00": makeAllReady, "13:30:00": death,
		},
		"most-nodes-unreachable-but-new-ones-join": {"12:05:00": makeUnreachable(four), "12:15:00": makeAllReady, "13:30:00": death},
		"two-zones-unreachable": {
			"12:05:00": makeUnreachable(func(n int) bool { return n%3 != 0 }), "12:15:00": makeAllReady, "13:30:00": death,
		},
		"one-node-fails-and-so-do-its-replacements": {
			"12:05:00": func(w *simulation) { makeUnreachable(func(n int) bool { return n == 7 })(w); w.joinable = false },
		},
	}
	for name, events := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newSimulation()
			text := w.run(3*time.Hour, events)
			if w.maxReplaced > w.limit {
				t.Errorf("%d Machines were being replaced at once, at most %d may", w.maxReplaced, w.limit)
			}
			goldentest.Compare(t, name, text)
		})
	}
}

// TestOutageDeletesNoMoreThanTheBudget checks the limit independently of the golden files.
func TestOutageDeletesNoMoreThanTheBudget(t *testing.T) {
	t.Parallel()
	for _, joinable := range []bool{true, false} {
		w := newSimulation()
		w.run(80*time.Minute, map[string]func(*simulation){
			"12:05:00": func(w *simulation) { makeUnreachable(func(n int) bool { return n%5 != 0 })(w); w.joinable = joinable },
			"12:15:00": makeAllReady,
		})
		if len(w.deleted) > w.limit {
			t.Errorf("%d Machines were deleted in ten minutes without contact, with a budget of %d", len(w.deleted), w.limit)
		}
		w.deleted = nil
		w.run(30*time.Minute, map[string]func(*simulation){"13:30:00": makeUnreachable(func(n int) bool { return n == 7 })})
		if diff := cmp.Diff([]string{"m-07"}, w.deleted); diff != "" {
			t.Errorf("after one real death (-want +got):\n%s", diff)
		}
	}
}

// TestReplacementsThatFailDoNotStopAShrunkBudget has two Machines whose replacements fail for good. Then the budget shrinks
// to one, as by a decrease of the replicas, and new Machines join again.
func TestReplacementsThatFailDoNotStopAShrunkBudget(t *testing.T) {
	t.Parallel()
	w := newSimulation()
	w.run(6*time.Hour, map[string]func(*simulation){
		"12:05:00": func(w *simulation) {
			makeUnreachable(func(n int) bool { return n == 7 || n == 8 })(w)
			w.joinable = false
		},
		"12:15:00": func(w *simulation) { w.limit = 1 },
		"12:40:00": func(w *simulation) {
			w.joinable = true
			for _, m := range w.machines {
				m.Status.NodeRef.Name = m.Name // the Nodes of those that have not joined are gone
			}
		},
	})
	if w.decision.Healthy != replicas {
		t.Errorf("%d of %d Machines are healthy after hours: %v", w.decision.Healthy, replicas, w.decision.Held)
	}
}
