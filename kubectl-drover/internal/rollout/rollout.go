// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Package rollout describes the rollout of a MachineDeployment: how far it is, and which revisions are kept. It changes
// nothing.
package rollout

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	droverpolicyv1 "drover.io/api/policy/v1alpha1"
	"drover.io/kubectl-drover/internal/escape"
	"drover.io/kubectl-drover/internal/object"
)

// RollbackAnnotation requests the template of an earlier revision. The controller removes it once it has restored the template, or
// has reported in the condition RolledBack that it cannot.
const RollbackAnnotation = "drover.io/rollback-to"

// State is how far a rollout is.
type State struct {
	Text string
	// Complete means that no Machine of an older template is left, and as many as wanted are available.
	Complete bool
	// Failed means that there was no progress for longer than the policy permits, or that a rollback was refused.
	Failed bool
}

// StateOf returns the state of a MachineDeployment.
func StateOf(md *clusterv1.MachineDeployment) State {
	s := md.Status
	desired, updated, available := ptr.Deref(md.Spec.Replicas, 0), ptr.Deref(s.UpToDateReplicas, 0), ptr.Deref(s.AvailableReplicas, 0)
	counts := fmt.Sprintf("%d of %d Machines are up to date, %d available", updated, desired, available)
	progress := meta.FindStatusCondition(s.Conditions, droverpolicyv1.ProgressingCondition)
	paused := meta.FindStatusCondition(s.Conditions, clusterv1.PausedCondition)
	rolledBack := meta.FindStatusCondition(s.Conditions, droverpolicyv1.RolledBackCondition)
	_, rollback := md.Annotations[RollbackAnnotation]
	switch rolling := meta.FindStatusCondition(s.Conditions, clusterv1.MachineDeploymentRollingOutCondition); {
	case paused != nil && paused.Status == metav1.ConditionTrue:
		return State{Text: counts + ": nothing is done while it is paused: " + escape.Line(paused.Message)}
	case rollback:
		return State{Text: "Waiting for the template of the earlier revision to be restored"}
	case s.ObservedGeneration < md.Generation:
		return State{Text: "Waiting for the newest spec to be observed"}
	case rolledBack != nil && rolledBack.Status == metav1.ConditionFalse:
		return State{Text: counts + ": " + escape.Line(rolledBack.Message), Failed: true}
	case progress != nil && progress.Status == metav1.ConditionFalse:
		return State{Text: counts + ": " + escape.Line(progress.Message), Failed: true}
	case rolling != nil && rolling.Status == metav1.ConditionTrue:
		return State{Text: counts + ": " + escape.Line(rolling.Message)}
	case updated < desired || available < desired || ptr.Deref(s.Replicas, 0) != desired:
		return State{Text: counts}
	}
	return State{Text: fmt.Sprintf("MachineDeployment %s is rolled out: %s", md.Name, counts), Complete: true}
}

// Revision is a template that is kept.
type Revision struct {
	Revision   int64  `json:"revision"`
	MachineSet string `json:"machineSet"`
	Replicas   int32  `json:"replicas"`
	// Current means that it is the newest one with the template of the MachineDeployment. None is as long as the rollout of a
	// changed template has not begun, as while that is paused or blocked.
	Current        bool        `json:"current,omitempty"`
	Version        string      `json:"version,omitempty"`
	Infrastructure string      `json:"infrastructure"`
	Bootstrap      string      `json:"bootstrap,omitempty"`
	Created        metav1.Time `json:"created"`
	// Earlier are revisions that it had before.
	Earlier []string `json:"earlier,omitempty"`

	// same means that it has the template of the MachineDeployment, so that nothing would be restored, and deleting that its
	// MachineSet is being deleted, so that it is not restored.
	same, deleting bool
	// available is how many of its Machines are.
	available int32
}

// Revisions are those of a MachineDeployment, the newest first.
type Revisions struct {
	Deployment string
	Revisions  []Revision
}

// historyAnnotation lists the revisions that a MachineSet had before.
const historyAnnotation = "machinedeployment.clusters.x-k8s.io/revision-history"

// History reads the revisions of a MachineDeployment.
func History(ctx context.Context, r *object.Reader, md *clusterv1.MachineDeployment) (Revisions, error) {
	found := Revisions{Deployment: md.Name, Revisions: []Revision{}}
	current, _ := strconv.ParseInt(md.Annotations[clusterv1.RevisionAnnotation], 10, 64)
	err := object.Each(ctx, r, object.MachineSet, &clusterv1.MachineSetList{}, func(page *clusterv1.MachineSetList) error {
		for i := range page.Items {
			set := &page.Items[i]
			if owner := metav1.GetControllerOfNoCopy(set); owner == nil || owner.UID != md.UID {
				continue
			}
			found.Revisions = append(found.Revisions, revisionOf(set, md, current))
		}
		return nil
	}, client.InNamespace(md.Namespace))
	slices.SortFunc(found.Revisions, func(a, b Revision) int { return int(b.Revision - a.Revision) })
	return found, err
}

func revisionOf(set *clusterv1.MachineSet, md *clusterv1.MachineDeployment, current int64) Revision {
	number, _ := strconv.ParseInt(set.Annotations[clusterv1.RevisionAnnotation], 10, 64)
	spec, same := set.Spec.Template.Spec, len(replacing(&set.Spec.Template, &md.Spec.Template)) == 0
	r := Revision{
		Revision: number, MachineSet: set.Name, Replicas: ptr.Deref(set.Status.Replicas, 0), Current: same && number == current, Version: spec.Version,
		Infrastructure: spec.InfrastructureRef.Kind + "/" + spec.InfrastructureRef.Name, Created: set.CreationTimestamp,
		same: same, deleting: !set.DeletionTimestamp.IsZero(), available: ptr.Deref(set.Status.AvailableReplicas, 0),
	}
	if spec.Bootstrap.ConfigRef.IsDefined() {
		r.Bootstrap = spec.Bootstrap.ConfigRef.Kind + "/" + spec.Bootstrap.ConfigRef.Name
	}
	if earlier := set.Annotations[historyAnnotation]; earlier != "" {
		r.Earlier = strings.Split(earlier, ",")
	}
	return r
}

func (r Revision) restorable() bool { return !r.same && !r.deleting && r.Revision > 0 }

// Available is how many Machines of the current revision are available.
func (r Revisions) Available() int32 {
	for _, each := range r.Revisions {
		if each.Current {
			return each.available
		}
	}
	return 0
}

// WithdrawsTemplate reports whether a rollback to the revision before the current one ends the rollout of a new template: most
// Machines that are left to replace have the template that would be restored. Otherwise it would begin another rollout: while a
// rollback is under way, to the template that was rolled back; during a restart, to a template that no Machine has.
func (r Revisions) WithdrawsTemplate() bool {
	var previous *Revision
	for i := range r.Revisions {
		each := &r.Revisions[i]
		switch {
		case each.Current && len(each.Earlier) > 0: // its template has been restored
			return false
		case !each.restorable():
		case previous == nil:
			previous = each
		case each.Replicas > previous.Replicas:
			return false
		}
	}
	return previous != nil && previous.Replicas > 0
}

// CannotRestore is why a revision, or with 0 the one before the current one, cannot be restored; empty if it can. As the controller
// does, it looks at templates and not at which revision is current: a template whose rollout has not begun has none.
func (r Revisions) CannotRestore(revision int64) string {
	var kept []string
	newest := int64(0)
	for _, each := range r.Revisions {
		newest = max(newest, each.Revision)
		switch {
		case each.same && each.Revision == revision && revision > 0:
			return fmt.Sprintf("revision %d has the current template", revision)
		case !each.restorable():
		case revision == 0, each.Revision == revision, slices.Contains(each.Earlier, strconv.FormatInt(revision, 10)):
			return ""
		default:
			kept = append(kept, strconv.FormatInt(each.Revision, 10))
		}
	}
	if revision > newest && newest > 0 {
		text := fmt.Sprintf("MachineDeployment %s has never had a revision %d: its newest is %d", r.Deployment, revision, newest)
		if len(kept) > 0 {
			text += "; kept: " + strings.Join(kept, ", ")
		}
		return text
	}
	if len(kept) == 0 {
		return fmt.Sprintf("MachineDeployment %s has no earlier revision: the annotation drover.io/revision-history-limit sets how many are kept", r.Deployment)
	}
	return fmt.Sprintf("there is no revision %d; kept: %s", revision, strings.Join(kept, ", "))
}

// Text is a table.
func (r Revisions) Text(now time.Time) string {
	var out strings.Builder
	w := tabwriter.NewWriter(&out, 0, 8, 2, ' ', 0)
	fmt.Fprintln(w, "REVISION\tMACHINES\tVERSION\tINFRASTRUCTURE\tBOOTSTRAP\tAGE\tMACHINESET")
	for _, each := range r.Revisions {
		revision := strconv.FormatInt(each.Revision, 10)
		if each.Current {
			revision += " (current)"
		}
		fmt.Fprintf(w, "%s\t%d\t%s\t%s\t%s\t%s\t%s\n", revision, each.Replicas, orNone(each.Version), each.Infrastructure, orNone(each.Bootstrap),
			duration.HumanDuration(max(now.Sub(each.Created.Time), 0)), each.MachineSet)
	}
	_ = w.Flush() // a strings.Builder takes everything
	return out.String()
}

func orNone(text string) string {
	if text == "" {
		return "<none>"
	}
	return text
}
