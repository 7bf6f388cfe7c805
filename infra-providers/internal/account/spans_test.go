// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package account

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"drover.io/infra-providers/driver"
	"drover.io/runtime/tracing"
	"drover.io/runtime/tracing/tracingtest"
)

func TestCallsThatReadAreEmittedWhereTheyFail(t *testing.T) {
	t.Parallel()
	tracer, recorded := tracingtest.New(t)
	ctx := tracing.NewContext(t.Context(), tracer.Trace(&clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{UID: "u"}}))
	for _, operation := range operations {
		emitCall(ctx, "fake", operation, time.Now(), nil)
	}
	emitCall(ctx, "fake", "get", time.Now(), &driver.NotFoundError{})
	emitCall(ctx, "fake", "get", time.Now(), errors.New("refused"))
	emitCall(t.Context(), "fake", "create", time.Now(), nil) // of no Machine
	var got []string
	for _, span := range recorded.Spans() {
		got = append(got, span.Name)
	}
	want := []string{"cloud.create", "cloud.delete", "cloud.provision", "cloud.tag", "cloud.restart", "cloud.console", "cloud.get"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("spans (-want +got):\n%s", diff)
	}
}

func TestCallThatIsNotTracedAllocatesNothing(t *testing.T) {
	start, err := time.Now(), errors.New("refused")
	ctx := t.Context()
	if n := testing.AllocsPerRun(100, func() { emitCall(ctx, "fake", "create", start, err) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
