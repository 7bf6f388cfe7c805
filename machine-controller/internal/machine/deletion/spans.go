// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package deletion

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/attribute"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"

	"drover.io/runtime/tracing"
)

// spanNames are those of the spans of the steps, in order.
var spanNames = namesOfSpans()

func namesOfSpans() []string {
	names := make([]string, len(stepNames))
	for i, step := range stepNames {
		names[i] = tracing.DeleteMachine + "." + step
	}
	return names
}

// emitStep emits a step that is over, with what it waited for last.
func emitStep(t tracing.Trace, step int, began, now time.Time, s *State) {
	span := tracing.Span{Name: spanNames[step], Parent: tracing.DeleteMachine, Start: began, End: now}
	if last := conditions.Get(s.Machine, clusterv1.MachineDeletingCondition); last != nil && last.Reason == stepReasons[step] {
		span.Attributes = []attribute.KeyValue{tracing.WaitReason.String(last.Reason), tracing.WaitMessage.String(last.Message)}
	}
	t.Phase(span)
}

// emitCall emits a call that acted on the Node.
func emitCall(ctx context.Context, name, node string, start, end time.Time, err error) {
	t := tracing.FromContext(ctx)
	if !t.On() {
		return
	}
	t.Call(tracing.Span{Name: name, Start: start, End: end, Error: tracing.ErrorType(err), Attributes: []attribute.KeyValue{tracing.NodeName.String(node)}})
}

// began is when a step began that an earlier process was at: as the objects show it, or else the end of what is known to be
// before it.
func (s *State) began(step int) time.Time {
	status := s.Machine.Status.Deletion
	if status == nil {
		status = &clusterv1.MachineDeletionStatus{}
	}
	known := []*metav1.Time{
		&status.WaitForPreDrainHookStartTime, &status.NodeDrainStartTime, &status.WaitForNodeVolumeDetachStartTime, &status.WaitForPreTerminateHookStartTime,
		s.Infrastructure.deletionTime(), s.Bootstrap.deletionTime(), nil,
	}
	latest := s.Machine.DeletionTimestamp
	for _, at := range known[:step+1] {
		if !at.IsZero() && (latest == nil || at.After(latest.Time)) {
			latest = at
		}
	}
	if latest == nil {
		return time.Time{}
	}
	return latest.Time
}

// deletionTime is when the deletion of an object was requested; nil where that is not known.
func (o Object) deletionTime() *metav1.Time {
	if o.Unstructured == nil {
		return nil
	}
	return o.GetDeletionTimestamp()
}
