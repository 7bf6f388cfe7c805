// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package bootstrapconfig

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	testingclock "k8s.io/utils/clock/testing"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	bootstrapv1 "drover.io/api/bootstrap/v1alpha1"
	"drover.io/runtime/tracing"
	"drover.io/runtime/tracing/tracingtest"
)

func TestCreationOfDataIsASpan(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_000_000, 0)
	tracer, recorded := tracingtest.New(t)
	r := &Reconciler{Tracer: tracer, Clock: testingclock.NewFakePassiveClock(now)}
	config := configWith()
	config.CreationTimestamp = metav1.NewTime(now.Add(-time.Minute))
	s := &state{config: &config, machine: &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{UID: "u"}}}
	ctx := tracing.NewContext(t.Context(), r.trace(s))
	emitCall(ctx, "checksums.read", now.Add(-30*time.Second), now.Add(-20*time.Second), releaseUnavailable("p", errSecret, time.Minute))
	emitCall(ctx, "token.create", now.Add(-10*time.Second), now, nil)
	r.emitCreation(s, &bootstrapv1.BootstrapConfigStatus{})
	config.Status.Initialization.DataSecretCreated = new(true)
	r.emitCreation(s, &bootstrapv1.BootstrapConfigStatus{})
	r.emitCreation(s, config.Status.DeepCopy())
	want := []string{
		"bootstrapconfig.create of another 1m0s",
		"checksums.read of bootstrapconfig.create 10s error.type=ReleaseUnavailable",
		"token.create of bootstrapconfig.create 10s",
	}
	if diff := cmp.Diff(want, recorded.Lines()); diff != "" {
		t.Errorf("spans (-want +got):\n%s", diff)
	}
}

// secretError is an error whose text must be in no span.
type secretError struct{}

func (secretError) Error() string { return "https://user:password@mirror.example" }

var errSecret = secretError{}

func TestSpansThatAreOffAllocateNothing(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	config := configWith()
	r, s := &Reconciler{}, &state{config: &config, machine: &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{UID: "u"}}}
	before, ctx := &bootstrapv1.BootstrapConfigStatus{}, t.Context()
	if n := testing.AllocsPerRun(100, func() {
		emitCall(tracing.NewContext(ctx, r.trace(s)), "token.create", now, now, nil)
		r.emitCreation(s, before)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
