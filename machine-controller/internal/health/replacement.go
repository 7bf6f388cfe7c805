// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package health

import (
	"encoding/json"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
)

// The annotations that record replacements across restarts. A value that is not valid counts as
// absent.
const (
	// InFlightReplacementsAnnotation, on a MachineSet, lists the Machines that were deleted because
	// they were unhealthy and that are not replaced yet.
	InFlightReplacementsAnnotation = "drover.io/replacements-in-flight"
	// ReplacesAnnotation, on a Machine, names the Machine that it has replaced.
	ReplacesAnnotation = "drover.io/replaces"
)

const (
	// Settle is how long a replacement must have been healthy to free its place in the
	// budget. A transient failure, such as that of a network, ends sooner than Machines
	// are replaced one after another.
	Settle = 10 * time.Minute
	// soon is the age up to which the failure of a replacement counts as the next in a row.
	soon = time.Hour
	// firstWait doubles with each replacement in a row that fails soon, up to maxWait.
	firstWait = 10 * time.Minute
	maxWait   = 4 * time.Hour
)

// InFlightReplacement is the replacement of one Machine that is, or is about to be, deleted as unhealthy.
type InFlightReplacement struct {
	Machine string `json:"machine"`
	// Attempt is the number of replacements in a row that this one makes.
	Attempt int `json:"attempt"`
	// Newest is when the newest Machine of the set at that time was created: a Machine created later is a
	// replacement. Both times are the API server's.
	Newest metav1.Time `json:"newest"`
}

// Replacement records which Machine was replaced.
type Replacement struct {
	Machine string `json:"machine"`
	Attempt int    `json:"attempt"`
	// Settled means that it has been healthy for long enough.
	Settled bool `json:"settled,omitempty"`
}

// InFlightReplacements reads the annotation of a MachineSet.
func InFlightReplacements(set *clusterv1.MachineSet) []InFlightReplacement {
	var all []InFlightReplacement
	if json.Unmarshal([]byte(set.Annotations[InFlightReplacementsAnnotation]), &all) != nil {
		return nil
	}
	return all
}

// SetInFlightReplacements writes the annotation of a MachineSet, or removes it.
func SetInFlightReplacements(set *clusterv1.MachineSet, all []InFlightReplacement) {
	if len(all) == 0 {
		delete(set.Annotations, InFlightReplacementsAnnotation)
		return
	}
	annotate(set, InFlightReplacementsAnnotation, all)
}

// ReplacementOf reads the annotation of a Machine.
func ReplacementOf(m *clusterv1.Machine) (Replacement, bool) {
	var r Replacement
	if json.Unmarshal([]byte(m.Annotations[ReplacesAnnotation]), &r) != nil {
		return Replacement{}, false
	}
	return r, true
}

// SetReplacement writes the annotation of a Machine.
func SetReplacement(m *clusterv1.Machine, r Replacement) { annotate(m, ReplacesAnnotation, r) }

func annotate(object metav1.Object, key string, value any) {
	text, err := json.Marshal(value)
	if err != nil {
		return // numbers, strings and times always have a form
	}
	annotations := object.GetAnnotations()
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[key] = string(text)
	object.SetAnnotations(annotations)
}

// Unsettled reports whether the Machine is a replacement that has not settled. One that was
// taken out of health checks never will, and must not keep its place in the budget for that.
func Unsettled(m *clusterv1.Machine) bool {
	r, replaces := ReplacementOf(m)
	return replaces && !r.Settled && !unchecked(m)
}

// unchecked reports whether an annotation excludes the Machine from health checks.
func unchecked(m *clusterv1.Machine) bool {
	_, paused := m.Annotations[clusterv1.PausedAnnotation]
	_, skipped := m.Annotations[clusterv1.MachineSkipRemediationAnnotation]
	return paused || skipped
}

// SettlesAt is when an open replacement will have settled; zero while it is not healthy. One without the
// condition of a health check settles by being available, if no health check selects it any more.
func SettlesAt(m *clusterv1.Machine) time.Time {
	healthy := conditions.Get(m, clusterv1.MachineHealthCheckSucceededCondition)
	if healthy == nil {
		healthy = conditions.Get(m, clusterv1.AvailableCondition)
	}
	if !Unsettled(m) || healthy == nil || healthy.Status != metav1.ConditionTrue {
		return time.Time{}
	}
	return healthy.LastTransitionTime.Add(Settle)
}

// Unfilled are the replacements in flight whose Machine is deleted and not replaced yet.
func Unfilled(machines []*clusterv1.Machine, inFlight []InFlightReplacement) []InFlightReplacement {
	settled := map[string]bool{}
	for _, m := range machines {
		settled[m.Name] = true
		if r, replaces := ReplacementOf(m); replaces {
			settled[r.Machine] = true
		}
	}
	var unfilled []InFlightReplacement
	for _, r := range inFlight {
		if !settled[r.Machine] {
			unfilled = append(unfilled, r)
		}
	}
	return unfilled
}

// NextAttempt is the number in a row that a replacement of the Machine would make.
func NextAttempt(m *clusterv1.Machine, now time.Time) int { return failedSoon(m, now) + 1 }

// NotBefore is when the Machine may be replaced: a replacement that fails soon waits from
// its creation, ever longer with each one in a row. Zero is at once.
func NotBefore(m *clusterv1.Machine, now time.Time) time.Time {
	attempt := failedSoon(m, now)
	if attempt == 0 {
		return time.Time{}
	}
	wait := firstWait
	for range attempt - 1 {
		if wait = min(2*wait, maxWait); wait == maxWait {
			break
		}
	}
	return m.CreationTimestamp.Add(wait)
}

// failedSoon is the Machine's number among replacements in a row, 0 for one that lived long
// enough, or that replaced none.
func failedSoon(m *clusterv1.Machine, now time.Time) int {
	r, replaces := ReplacementOf(m)
	failed := now
	if succeeded := conditions.Get(m, clusterv1.MachineHealthCheckSucceededCondition); succeeded != nil && succeeded.Status == metav1.ConditionFalse {
		failed = succeeded.LastTransitionTime.Time
	}
	if !replaces || failed.Sub(m.CreationTimestamp.Time) > soon {
		return 0
	}
	return r.Attempt
}
