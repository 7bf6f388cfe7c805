// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package drain

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"drover.io/runtime/tracing"
	"drover.io/runtime/tracing/tracingtest"
)

func TestPassIsASpanWithEvictions(t *testing.T) {
	t.Parallel()
	tracer, recorded := tracingtest.New(t)
	ctx := tracing.NewContext(t.Context(), tracer.Trace(&clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{UID: "u"}}))
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "app", Name: "web"}}
	for _, outcomes := range [][]string{
		{}, {evicted, awaitsBudget}, {awaitsBudget}, {awaitsBudget, tooManyRequests}, {tooManyRequests}, {deleted},
	} {
		pass := newPassSpan(ctx)
		for _, outcome := range outcomes {
			pass.add(pod, outcome)
		}
		pass.emit("n")
	}
	var got []string
	for _, span := range recorded.Spans() {
		line := span.Name
		for _, event := range span.Events {
			for _, attribute := range event.Attributes {
				line += " " + attribute.Value.String()
			}
		}
		got = append(got, line)
	}
	want := []string{
		"node.drain_pass app web evicted app web budget", "node.drain_pass app web budget", // the same refusal is not emitted again
		"node.drain_pass app web too_many_requests", "node.drain_pass app web deleted",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("spans (-want +got):\n%s", diff)
	}
}

func TestPassThatIsNotTracedAllocatesNothing(t *testing.T) {
	pod, ctx := &corev1.Pod{}, t.Context()
	if n := testing.AllocsPerRun(100, func() {
		pass := newPassSpan(ctx)
		pass.add(pod, evicted)
		pass.emit("n")
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
