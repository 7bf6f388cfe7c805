// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"cmp"
	"errors"
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"drover.io/machine-controller/internal/annotation"
	"drover.io/machine-controller/internal/rollout/revision"
)

// Observation is what the controller has read. Nothing in it is changed.
type Observation struct {
	Deployment *clusterv1.MachineDeployment
	// Sets are the MachineSets that Deployment controls.
	Sets []*clusterv1.MachineSet
	// Machines are at least the Machines that Sets control.
	Machines []*clusterv1.Machine
	// Unseen names the MachineSets whose last write the cache does not show yet.
	Unseen []string
	// Blocked is why nothing may be replaced now; empty if nothing blocks it.
	Blocked string
	// HistoryLimit is how many empty old MachineSets are kept after a rollout.
	HistoryLimit int32
	// Now is compared with spec.rollout.after.
	Now time.Time
}

// Observe makes a State. An error names the field that is invalid.
func Observe(o Observation) (State, error) {
	md := o.Deployment
	if md.Spec.Replicas == nil {
		_, err := annotation.DefaultReplicas(md, LastDesiredReplicas(o.Sets))
		return State{}, cmp.Or(err, errors.New("spec.replicas is not set yet"))
	}
	limits, err := ResolveLimits(md.Spec.Rollout.Strategy, *md.Spec.Replicas)
	if err != nil {
		return State{}, err
	}
	state := State{
		Replicas:     *md.Spec.Replicas,
		Strategy:     md.Spec.Rollout.Strategy.Type,
		Limits:       limits,
		Paused:       md.Spec.Paused != nil && *md.Spec.Paused,
		Blocked:      o.Blocked,
		Deleting:     !md.DeletionTimestamp.IsZero(),
		HistoryLimit: o.HistoryLimit,
		Unseen:       o.Unseen,
	}
	machines := map[types.UID][]*clusterv1.Machine{}
	for _, m := range o.Machines {
		if owner := metav1.GetControllerOfNoCopy(m); owner != nil {
			machines[owner.UID] = append(machines[owner.UID], m)
		}
	}
	current, _ := revision.FindNewMachineSet(md, o.Sets, o.Now)
	for _, ms := range o.Sets {
		set := observeSet(ms, machines[ms.UID])
		set.Current = ms == current
		state.Sets = append(state.Sets, set)
	}
	return state, nil
}

func observeSet(ms *clusterv1.MachineSet, machines []*clusterv1.Machine) Set {
	set := Set{
		Name:           ms.Name,
		Created:        ms.CreationTimestamp.Time,
		Revision:       revision.Of(ms),
		Replicas:       ptr.Deref(ms.Spec.Replicas, 0),
		Recorded:       sizeAnnotationsOf(ms),
		CreateDisabled: annotation.IsTrue(ms, clusterv1.DisableMachineCreateAnnotation),
		Terminating:    !ms.DeletionTimestamp.IsZero(),
		Unobserved:     ms.Status.ObservedGeneration < ms.Generation,
	}
	for _, m := range machines {
		set.count(m)
	}
	if ms.Status.Replicas != nil {
		set.Reported = *ms.Status.Replicas
	}
	return set
}

func (s *Set) count(m *clusterv1.Machine) {
	s.Machines++
	if !m.DeletionTimestamp.IsZero() {
		s.Deleting++
		return
	}
	if meta.IsStatusConditionTrue(m.Status.Conditions, clusterv1.MachineAvailableCondition) {
		s.Available++
	}
	if meta.IsStatusConditionFalse(m.Status.Conditions, clusterv1.MachineHealthCheckSucceededCondition) ||
		meta.IsStatusConditionFalse(m.Status.Conditions, clusterv1.MachineNodeHealthyCondition) {
		s.Unhealthy++
	}
	if annotation.Present(m, clusterv1.DeleteMachineAnnotation) {
		s.DeleteAnnotated++
	}
}

// LastDesiredReplicas is what spec.replicas of the MachineDeployment was when its newest MachineSet with replicas was last written, or
// its newest one if none has any: by the annotations, or by the sizes of the MachineSets together where none has annotations. It is
// nil without MachineSets. An empty MachineSet is not written when the size changes, and may become the newest one again.
func LastDesiredReplicas(sets []*clusterv1.MachineSet) *int32 {
	var newest *clusterv1.MachineSet
	var last, sum int32
	for _, ms := range sets {
		sum += ptr.Deref(ms.Spec.Replicas, 0)
		if annotations, valid := parseSizeAnnotations(ms); valid && (newest == nil || hasLaterSize(ms, newest)) {
			newest, last = ms, annotations.Desired
		}
	}
	switch {
	case len(sets) == 0:
		return nil
	case newest == nil:
		return &sum
	}
	return &last
}

// hasLaterSize reports whether the size annotations of a were written later than those of b, as far as that is known.
func hasLaterSize(a, b *clusterv1.MachineSet) bool {
	if writtenA, writtenB := isSized(a), isSized(b); writtenA != writtenB {
		return writtenA
	}
	return revision.Of(a) > revision.Of(b)
}

// isSized reports whether the size annotations of a MachineSet are written whenever the size changes.
func isSized(ms *clusterv1.MachineSet) bool {
	return ptr.Deref(ms.Spec.Replicas, 0) > 0 && ms.DeletionTimestamp.IsZero()
}

// sizeAnnotationsOf reads the size annotations of a MachineSet; an invalid number counts as absent.
func sizeAnnotationsOf(ms *clusterv1.MachineSet) SizeAnnotations {
	annotations, _ := parseSizeAnnotations(ms)
	return annotations
}

// parseSizeAnnotations reads the size annotations of a MachineSet. Those of size 0 are the zero value, too.
func parseSizeAnnotations(ms *clusterv1.MachineSet) (annotations SizeAnnotations, valid bool) {
	desired, err := strconv.ParseInt(ms.Annotations[clusterv1.DesiredReplicasAnnotation], 10, 32)
	if err != nil {
		return SizeAnnotations{}, false
	}
	limit, err := strconv.ParseInt(ms.Annotations[clusterv1.MaxReplicasAnnotation], 10, 32)
	if err != nil {
		return SizeAnnotations{}, false
	}
	return SizeAnnotations{Desired: int32(desired), Max: int32(limit)}, true
}

// Annotations returns them as they are written into a MachineSet.
func (s SizeAnnotations) Annotations() map[string]string {
	return map[string]string{
		clusterv1.DesiredReplicasAnnotation: strconv.Itoa(int(s.Desired)),
		clusterv1.MaxReplicasAnnotation:     strconv.Itoa(int(s.Max)),
	}
}
