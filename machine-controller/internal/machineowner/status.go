// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package machineowner

import (
	"context"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/events"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	droverpolicyv1 "drover.io/api/policy/v1alpha1"
	"drover.io/machine-controller/internal/annotation"
	"drover.io/machine-controller/internal/statuswriter"
	"drover.io/runtime/results"
)

// Status is one status to be written.
type Status struct {
	Before, After Object
	// Urgent reports whether it cannot wait.
	Urgent   func() bool
	Machines []*clusterv1.Machine
	// Rules are those of the annotations that are read from the object.
	Rules []annotation.Rule
}

// Write writes a status with the conditions that sum up the Machines, unless it can wait: only when it cannot are the
// Machines summed up, which is most of the work. It reports whether the API server has a new status.
func Write(ctx context.Context, writer *statuswriter.Writer, recorder events.EventRecorder, s Status) (written bool, result reconcile.Result, err error) {
	if message := annotation.Validate(s.After, s.Rules...); message != "" {
		recorder.Eventf(s.After, nil, corev1.EventTypeWarning, "InvalidAnnotation", "ReadAnnotation", "%s", message)
	}
	version := s.After.GetResourceVersion()
	result, err = writer.WriteSummary(ctx, s.Before, s.After, s.Urgent(), statuswriter.Summary{Machines: len(s.Machines), Set: func() {
		conditions.Set(s.After, aggregateReady(s.Machines, clusterv1.MachinesReadyCondition))
		conditions.Set(s.After, aggregateUpToDate(s.Machines, clusterv1.MachinesUpToDateCondition))
	}})
	return s.After.GetResourceVersion() != version, result, results.IgnoreNotFoundOrConflict(err)
}

// Urgent reports whether another component waits for a status: for its generation to be observed, for its Machines to be
// complete, or for one of the conditions.
func Urgent(generationChanged bool, counts, next statuswriter.Counts, before, after Object, types ...string) bool {
	return generationChanged || counts.Urgent(next) ||
		statuswriter.ConditionsChanged(before, after, append(types, clusterv1.PausedCondition, clusterv1.DeletingCondition, droverpolicyv1.FrozenCondition, droverpolicyv1.AnnotationsValidCondition)...)
}

// ConditionTrueTransition reports whether a condition became True, and whether it was True and is no longer.
func ConditionTrueTransition(before, after conditions.Getter, condition string) (began, ended bool) {
	was, is := conditions.IsTrue(before, condition), conditions.IsTrue(after, condition)
	return is && !was, was && !is
}

// LogFreeze logs that a freeze of the object began or ended, by the change of the condition Frozen.
func LogFreeze(log logr.Logger, before, after Object, replicas int32, desired int) {
	kind := kindOf(after)
	switch began, ended := ConditionTrueTransition(before, after, droverpolicyv1.FrozenCondition); {
	case began:
		condition := conditions.Get(after, droverpolicyv1.FrozenCondition)
		log.Info("froze "+kind, "reason", condition.Reason, "message", condition.Message, "count", replicas, "replicas", desired)
	case ended:
		log.Info("unfroze "+kind, "reason", conditions.GetReason(before, droverpolicyv1.FrozenCondition), "count", replicas, "replicas", desired)
	}
}
