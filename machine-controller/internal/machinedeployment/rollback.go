// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package machinedeployment

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"drover.io/machine-controller/internal/patch"
	"drover.io/machine-controller/internal/rollout"
)

const (
	// RollbackAnnotation asks for the template of an earlier revision: its number, or
	// "previous". It is taken away once it has been followed, or cannot be.
	RollbackAnnotation = "drover.io/rollback-to"
	previousRevision           = "previous"

	// revisionsAnnotation lists the revisions that a MachineSet has been before, as upstream
	// wrote it while it kept a history.
	revisionsAnnotation = "machinedeployment.clusters.x-k8s.io/revision-history"
)

// rollBack goes back to an earlier revision, if an annotation asks for it. What cannot be followed,
// or what the API server refuses, is told; the annotation goes either way.
func (r *Reconciler) rollBack(ctx context.Context, s *state) error {
	md := s.deployment
	if _, asked := md.Annotations[RollbackAnnotation]; !asked {
		return nil
	}
	wanted := md.DeepCopy()
	said, why := restoreRevision(wanted, s.sets)
	reason := RevisionNotKeptReason
	if why == nil {
		err := patch.Main(ctx, r.Client, md, wanted)
		if err == nil {
			*md = *wanted
			rolledBack(r.Events, md, said)
			return nil
		}
		if !permanentlyRefused(err) {
			return fmt.Errorf("rolling MachineDeployment back: %w", err)
		}
		why, reason = fmt.Errorf("the API server refuses the template of that revision: %w", err), RollbackRefusedReason
	}
	return r.reportRollbackFailed(ctx, md, reason, why)
}

// reportRollbackFailed says in a condition why the deployment was not rolled back, and only then takes the
// annotation away: a crash in between repeats the attempt rather than losing the answer.
func (r *Reconciler) reportRollbackFailed(ctx context.Context, md *clusterv1.MachineDeployment, reason string, why error) error {
	before := md.DeepCopy()
	setNotRolledBack(md, reason, why)
	if err := patch.Status(ctx, r.Client, before, md); err != nil {
		return fmt.Errorf("patching the status of MachineDeployment: %w", err)
	}
	before = md.DeepCopy()
	delete(md.Annotations, RollbackAnnotation)
	if err := patch.Main(ctx, r.Client, before, md); err != nil {
		return fmt.Errorf("patching MachineDeployment: %w", err)
	}
	notRolledBack(r.Events, md, why)
	return nil
}

// permanentlyRefused tells an answer that will be the same every time from a failure to get one.
func permanentlyRefused(err error) bool {
	return apierrors.IsInvalid(err) || apierrors.IsForbidden(err) || apierrors.IsBadRequest(err)
}

// restoreRevision puts the template of an earlier revision into the deployment, if an annotation asks
// for it. The caller writes both at once, so that it happens once.
func restoreRevision(md *clusterv1.MachineDeployment, sets []*clusterv1.MachineSet) (said string, err error) {
	wanted, asked := md.Annotations[RollbackAnnotation]
	if !asked {
		return "", nil
	}
	delete(md.Annotations, RollbackAnnotation)
	set, err := findRevision(md, sets, strings.TrimSpace(wanted))
	if err != nil {
		return "", err
	}
	template := set.Spec.Template.DeepCopy()
	copyInPlaceFields(template, &md.Spec.Template) // these belong to no revision: every MachineSet has those of today
	md.Spec.Template = *template
	return fmt.Sprintf("Rolled the template back to revision %d, of MachineSet %s", rollout.Revision(set), set.Name), nil
}

// findRevision is the MachineSet of a revision; the error says which there are.
func findRevision(md *clusterv1.MachineDeployment, sets []*clusterv1.MachineSet, wanted string) (*clusterv1.MachineSet, error) {
	var earlier []*clusterv1.MachineSet
	for _, set := range sets {
		same, _ := rollout.EqualTemplate(&set.Spec.Template, &md.Spec.Template)
		if set.DeletionTimestamp.IsZero() && !same && rollout.Revision(set) > 0 {
			earlier = append(earlier, set)
		}
	}
	slices.SortFunc(earlier, func(a, b *clusterv1.MachineSet) int { return cmp.Compare(rollout.Revision(b), rollout.Revision(a)) })
	if len(earlier) == 0 {
		return nil, fmt.Errorf("no earlier revision is kept: the annotation %s says how many are", HistoryAnnotation)
	}
	if wanted == previousRevision {
		return earlier[0], nil
	}
	var kept []string
	for _, set := range earlier {
		if strconv.FormatInt(rollout.Revision(set), 10) == wanted || slices.Contains(pastRevisions(set), wanted) {
			return set, nil
		}
		kept = append(kept, strconv.FormatInt(rollout.Revision(set), 10))
	}
	return nil, fmt.Errorf("%s is %q, but what is kept is %s: name one of these, or %q", RollbackAnnotation, wanted, strings.Join(kept, ", "), previousRevision)
}

// setRevision gives the current MachineSet its revision, and remembers the one that it had: a
// MachineSet that is gone back to becomes the newest.
func setRevision(set *clusterv1.MachineSet, revision string) {
	had := set.Annotations[clusterv1.RevisionAnnotation]
	if had == revision {
		return
	}
	if had != "" {
		set.Annotations[revisionsAnnotation] = strings.Join(append(pastRevisions(set), had), ",")
	}
	set.Annotations[clusterv1.RevisionAnnotation] = revision
}

// pastRevisions are those that a MachineSet has been before.
func pastRevisions(set *clusterv1.MachineSet) []string {
	if set.Annotations[revisionsAnnotation] == "" {
		return nil
	}
	return strings.Split(set.Annotations[revisionsAnnotation], ",")
}
