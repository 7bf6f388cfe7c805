// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package claim

import (
	"context"
	"errors"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	testingclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	record "drover.io/runtime/claim"
	"drover.io/runtime/lease"
	"drover.io/runtime/logtest"
)

// TestStart stores a mark at once, one each Period, and after a failure sooner.
func TestStart(t *testing.T) {
	t.Parallel()
	writes, fail := make(chan struct{}, 10), make(chan error, 10)
	write := func() error {
		writes <- struct{}{}
		return <-fail
	}
	c := interceptor.NewClient(nil, interceptor.Funcs{
		Get: func(context.Context, client.WithWatch, client.ObjectKey, client.Object, ...client.GetOption) error {
			return apierrors.NewNotFound(coordinationv1.Resource("leases"), record.HistoryLeaseName)
		},
		Create: func(context.Context, client.WithWatch, client.Object, ...client.CreateOption) error { return write() },
	})
	clock, log := testingclock.NewFakeClock(time.Unix(0, 0)), &logtest.TextRecorder{}
	history := &History{Client: c, Namespace: "ns", Holder: "a", Clock: clock}
	ctx, cancel := context.WithCancel(log.Context(t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- history.Start(ctx) }()
	for _, step := range []struct {
		err   error
		after time.Duration
	}{{nil, lease.Period}, {errors.New("boom"), lease.AttemptTimeout}, {nil, lease.Period}} {
		<-writes
		fail <- step.err
		for !clock.HasWaiters() {
			time.Sleep(time.Millisecond)
		}
		if clock.Step(step.after - time.Nanosecond); !clock.HasWaiters() {
			t.Errorf("the next attempt comes before %s", step.after)
		}
		clock.Step(time.Nanosecond)
	}
	<-writes
	cancel()
	fail <- nil
	if err := <-ended; err != nil {
		t.Errorf("it ends with %v", err)
	}
	if lines := log.Lines("Lease=ns/" + record.HistoryLeaseName); len(lines) != 1 {
		t.Errorf("log %v, want one failure", log.Lines(""))
	}
}

func TestContains(t *testing.T) {
	t.Parallel()
	history := &History{history: []record.Mark{{Holder: "a", Sequence: 3}, {Holder: "b", Sequence: 7}}}
	for name, test := range map[string]struct {
		mark record.Mark
		want bool
	}{
		"an earlier mark of a holder":     {record.Mark{Holder: "a", Sequence: 2}, true},
		"the last mark of a holder":       {record.Mark{Holder: "a", Sequence: 3}, true},
		"not a later mark of a holder":    {record.Mark{Holder: "a", Sequence: 4}, false},
		"not by the sequence of another":  {record.Mark{Holder: "a", Sequence: 7}, false},
		"the last mark":                   {record.Mark{Holder: "b", Sequence: 7}, true},
		"not a later mark than the last":  {record.Mark{Holder: "b", Sequence: 8}, false},
		"not a mark of an unknown holder": {record.Mark{Holder: "c", Sequence: 1}, false},
		"not the zero mark":               {record.Mark{}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := history.Contains(test.mark); got != test.want {
				t.Errorf("contains %+v is %t", test.mark, got)
			}
		})
	}
}

func TestAdvanceMovesAHolderThatContinuesToTheEnd(t *testing.T) {
	t.Parallel()
	before := []record.Mark{{Holder: "a", Sequence: 1}, {Holder: "b", Sequence: 2}}
	after := advance(before, "a")
	if len(after) != 2 || after[0] != (record.Mark{Holder: "b", Sequence: 2}) || after[1] != (record.Mark{Holder: "a", Sequence: 3}) {
		t.Errorf("history %+v", after)
	}
	if before[0] != (record.Mark{Holder: "a", Sequence: 1}) || before[1] != (record.Mark{Holder: "b", Sequence: 2}) {
		t.Errorf("the history before was changed: %+v", before)
	}
}
