// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package revision

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

// FindNewMachineSet splits sets into the one that has the template of md and all others, the oldest first. A set that is being
// deleted is never current. Once spec.rollout.after has passed, only a set that was created since then, or for it, is
// current. If several qualify, the one with the most replicas is current, so that no Machine is replaced needlessly; then
// the one with the highest revision; then the oldest.
func FindNewMachineSet(md *clusterv1.MachineDeployment, sets []*clusterv1.MachineSet, now time.Time) (current *clusterv1.MachineSet, oldSets []*clusterv1.MachineSet) {
	for _, ms := range sets {
		if qualifies(md, ms, now) && (current == nil || preferred(ms, current) < 0) {
			current = ms
		}
	}
	for _, ms := range sets {
		if ms != current {
			oldSets = append(oldSets, ms)
		}
	}
	slices.SortFunc(oldSets, byAge)
	return current, oldSets
}

func qualifies(md *clusterv1.MachineDeployment, ms *clusterv1.MachineSet, now time.Time) bool {
	if !ms.DeletionTimestamp.IsZero() {
		return false
	}
	if equal, _ := EqualTemplate(&ms.Spec.Template, &md.Spec.Template); !equal {
		return false
	}
	return IsAfter(md, ms, now)
}

// IsAfter reports whether a set is new enough for spec.rollout.after: that has not passed, or the set was created since
// then, or for it.
func IsAfter(md *clusterv1.MachineDeployment, ms *clusterv1.MachineSet, now time.Time) bool {
	if !afterPassed(md, now) || !ms.CreationTimestamp.Time.Before(md.Spec.Rollout.After.Time) {
		return true
	}
	// The API server's clock, which sets creationTimestamp, may be behind the local one: the hash in the label includes
	// spec.rollout.after. It is not compared for the template.
	hash, _, _ := strings.Cut(ms.Labels[clusterv1.MachineDeploymentUniqueLabel], "-")
	return hash == hashOf(md, now)
}

// afterPassed reports whether spec.rollout.after requires new Machines by now.
func afterPassed(md *clusterv1.MachineDeployment, now time.Time) bool {
	after := md.Spec.Rollout.After
	return !after.IsZero() && !now.Before(after.Time)
}

func preferred(a, b *clusterv1.MachineSet) int {
	return cmp.Or(
		cmp.Compare(ptr.Deref(b.Spec.Replicas, 0), ptr.Deref(a.Spec.Replicas, 0)),
		cmp.Compare(Of(b), Of(a)),
		byAge(a, b),
	)
}

func byAge(a, b *clusterv1.MachineSet) int {
	return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
}

// Of is the number in the revision annotation of a MachineSet or a MachineDeployment; 0 if there is none or if it is not a
// number.
func Of(o metav1.Object) int64 {
	revision, err := strconv.ParseInt(o.GetAnnotations()[clusterv1.RevisionAnnotation], 10, 64)
	if err != nil {
		return 0
	}
	return revision
}

// Newest returns the set of the highest revision, of equal ones the oldest, that is not being deleted; nil if there is none.
func Newest(sets []*clusterv1.MachineSet) *clusterv1.MachineSet {
	var newest *clusterv1.MachineSet
	for _, ms := range sets {
		if ms.DeletionTimestamp.IsZero() && (newest == nil || cmp.Or(cmp.Compare(Of(newest), Of(ms)), byAge(ms, newest)) < 0) {
			newest = ms
		}
	}
	return newest
}

// Next is the revision that the current set must have: higher than any other, and never lower than the one it has.
// current is nil for a set that is about to be created.
func Next(current *clusterv1.MachineSet, oldSets []*clusterv1.MachineSet) int64 {
	next := int64(1)
	for _, ms := range oldSets {
		next = max(next, Of(ms)+1)
	}
	if current != nil {
		next = max(next, Of(current))
	}
	return next
}
