// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package revision

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

const (
	// HistoryLimitAnnotation on a MachineDeployment is how many superseded MachineSets, with no replicas, are kept after a
	// rollout. Without it none are kept, as in upstream's v1beta2.
	HistoryLimitAnnotation = "drover.io/revision-history-limit"

	// RollbackAnnotation on a MachineDeployment requests the template of an earlier revision: its number, or
	// "previous". It is removed once the template is restored or cannot be.
	RollbackAnnotation = "drover.io/rollback-to"
	// Previous is the value of RollbackAnnotation for the revision before the current one.
	Previous = "previous"

	// UpstreamHistoryAnnotation lists the earlier revisions of a MachineSet, as upstream wrote it while it kept a
	// history.
	UpstreamHistoryAnnotation = "machinedeployment.clusters.x-k8s.io/revision-history"
)

// Restore puts the template of the revision that RollbackAnnotation names into the MachineDeployment, removes the
// annotation, and returns the MachineSet of that revision; nil without the annotation. The caller writes both at
// once, so that it happens once.
func Restore(md *clusterv1.MachineDeployment, sets []*clusterv1.MachineSet) (*clusterv1.MachineSet, error) {
	wanted, requested := md.Annotations[RollbackAnnotation]
	if !requested {
		return nil, nil //nolint:nilnil // nothing was requested
	}
	delete(md.Annotations, RollbackAnnotation)
	set, err := find(md, sets, strings.TrimSpace(wanted))
	if err != nil {
		return nil, err
	}
	template := set.Spec.Template.DeepCopy()
	CopyInPlaceFields(template, &md.Spec.Template) // these belong to no revision: every MachineSet has the present ones
	md.Spec.Template = *template
	return set, nil
}

// find returns the MachineSet of a revision; the error lists the revisions that exist.
func find(md *clusterv1.MachineDeployment, sets []*clusterv1.MachineSet, wanted string) (*clusterv1.MachineSet, error) {
	var earlier []*clusterv1.MachineSet
	for _, set := range sets {
		same, _ := EqualTemplate(&set.Spec.Template, &md.Spec.Template)
		if set.DeletionTimestamp.IsZero() && !same && Of(set) > 0 {
			earlier = append(earlier, set)
		}
	}
	slices.SortFunc(earlier, func(a, b *clusterv1.MachineSet) int { return cmp.Compare(Of(b), Of(a)) })
	if number, err := strconv.ParseInt(wanted, 10, 64); err == nil && number > Of(md) && len(earlier) == 0 {
		return nil, fmt.Errorf("%s is %q, but the newest revision is %d", RollbackAnnotation, wanted, Of(md))
	}
	if len(earlier) == 0 {
		return nil, fmt.Errorf("no earlier revision is kept: the annotation %s sets how many are", HistoryLimitAnnotation)
	}
	if wanted == Previous {
		return earlier[0], nil
	}
	var kept []string
	for _, set := range earlier {
		if strconv.FormatInt(Of(set), 10) == wanted || slices.Contains(pastRevisions(set), wanted) {
			return set, nil
		}
		kept = append(kept, strconv.FormatInt(Of(set), 10))
	}
	return nil, fmt.Errorf("%s is %q, but what is kept is %s: name one of these, or %q", RollbackAnnotation, wanted, strings.Join(kept, ", "), Previous)
}

// Set gives the current MachineSet its revision and adds the one that it had to its past revisions: a MachineSet whose
// template is restored becomes the newest.
func Set(set *clusterv1.MachineSet, revision string) {
	had := set.Annotations[clusterv1.RevisionAnnotation]
	if had == revision {
		return
	}
	if set.Annotations == nil {
		set.Annotations = map[string]string{}
	}
	if had != "" {
		set.Annotations[UpstreamHistoryAnnotation] = strings.Join(append(pastRevisions(set), had), ",")
	}
	set.Annotations[clusterv1.RevisionAnnotation] = revision
}

// pastRevisions are the revisions that a MachineSet had before.
func pastRevisions(set *clusterv1.MachineSet) []string {
	if set.Annotations[UpstreamHistoryAnnotation] == "" {
		return nil
	}
	return strings.Split(set.Annotations[UpstreamHistoryAnnotation], ",")
}
