// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package inframachine_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"drover.io/infra-providers/driver"
	"drover.io/infra-providers/driver/fake"
	"drover.io/runtime/tracing/tracingtest"
)

// traced gives the fixture a reconciler with a Tracer.
func (r *fixture) traced() *tracingtest.Recorder {
	r.t.Helper()
	tracer, recorded := tracingtest.New(r.t)
	r.tracer = tracer
	r.restart()
	return recorded
}

// wantSpans compares spans without their durations.
func wantSpans(t *testing.T, recorded *tracingtest.Recorder, want ...string) {
	t.Helper()
	var got []string
	for _, line := range recorded.Lines() {
		var words []string
		for i, word := range strings.Fields(line) {
			if duration := i == 1 || i == 3; !duration || word == "of" {
				words = append(words, word)
			}
		}
		got = append(got, strings.Join(words, " "))
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("spans (-want +got):\n%s", diff)
	}
}

// TestMachineIsTracedByItsOwner follows a machine whose reconciler is another process for its deletion.
func TestMachineIsTracedByItsOwner(t *testing.T) {
	t.Parallel()
	r := newFixture(t, fake.Options{BootReads: 2})
	recorded := r.traced()
	machine, owner := r.machine("traced")
	r.settle(machine)
	r.settle(machine)
	id := machine.Spec.ProviderID
	wantSpans(t, recorded,
		"inframachine.create of another drover.cloud=fake drover.provider_id="+id,
		"cloud.create of inframachine.create drover.cloud=fake",
	)
	for _, span := range recorded.Spans() {
		if got := span.SpanContext.TraceID().String(); got != strings.ReplaceAll(string(owner.UID), "-", "") {
			t.Errorf("%s is in the trace %s, and the UID of the Machine is %s", span.Name, got, owner.UID)
		}
	}
	r.settle(machine) // nothing changes
	recorded.Reset()
	r.restart()
	r.delete(machine)
	r.settle(machine)
	r.wantGone(machine)
	lines := recorded.Lines()
	if len(lines) < 2 || !strings.HasPrefix(lines[0], "inframachine.delete of another") || !strings.HasPrefix(lines[1], "cloud.delete of inframachine.delete") {
		t.Errorf("spans of the deletion are %q", lines)
	}
}

// TestFailedCallIsTracedOnceByItsKind creates where there is a quota, and where an error quotes a secret.
func TestFailedCallIsTracedOnceByItsKind(t *testing.T) {
	t.Parallel()
	r := newFixture(t, fake.Options{})
	r.faults = func(call fake.Call) fake.Fault {
		if call.Operation != "create" {
			return fake.Fault{}
		}
		return fake.Fault{Err: &driver.QuotaExceededError{Err: errors.New("token s3cr3t")}}
	}
	recorded := r.traced()
	machine, _ := r.machine("refused")
	for range 5 {
		_, _ = r.reconcile(machine)
	}
	wantSpans(t, recorded, "cloud.create of another drover.cloud=fake error.type=quota_exceeded")
}

// TestForeignOwnerIsNotTraced has an owner reference with the UID of another Machine.
func TestForeignOwnerIsNotTraced(t *testing.T) {
	t.Parallel()
	r := newFixture(t, fake.Options{})
	recorded := r.traced()
	_, victim := r.machine("victim")
	machine, _ := r.machine("forger")
	r.update(machine, func() { machine.OwnerReferences[0].UID = victim.UID })
	r.settle(machine)
	if spans := recorded.Lines(); len(spans) > 0 {
		t.Errorf("got %q", spans)
	}
}
