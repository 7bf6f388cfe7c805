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
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	testingclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

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
			return apierrors.NewNotFound(coordinationv1.Resource("leases"), HistoryLeaseName)
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
	}{{nil, Period}, {errors.New("boom"), attemptTimeout}, {nil, Period}} {
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
	if lines := log.Lines("Lease=ns/" + HistoryLeaseName); len(lines) != 1 {
		t.Errorf("log %v, want one failure", log.Lines(""))
	}
}

func TestContains(t *testing.T) {
	t.Parallel()
	history := &History{history: []Mark{{Holder: "a", Sequence: 3}, {Holder: "b", Sequence: 7}}}
	for name, test := range map[string]struct {
		mark Mark
		want bool
	}{
		"an earlier mark of a holder":     {Mark{"a", 2}, true},
		"the last mark of a holder":       {Mark{"a", 3}, true},
		"not a later mark of a holder":    {Mark{"a", 4}, false},
		"not by the sequence of another":  {Mark{"a", 7}, false},
		"the last mark":                   {Mark{"b", 7}, true},
		"not a later mark than the last":  {Mark{"b", 8}, false},
		"not a mark of an unknown holder": {Mark{"c", 1}, false},
		"not the zero mark":               {Mark{}, false},
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
	before := []Mark{{Holder: "a", Sequence: 1}, {Holder: "b", Sequence: 2}}
	after := advance(before, "a")
	if len(after) != 2 || after[0] != (Mark{"b", 2}) || after[1] != (Mark{"a", 3}) {
		t.Errorf("history %+v", after)
	}
	if before[0] != (Mark{"a", 1}) || before[1] != (Mark{"b", 2}) {
		t.Errorf("the history before was changed: %+v", before)
	}
}

func TestMarkOf(t *testing.T) {
	t.Parallel()
	lease := func(holder, sequence string) *coordinationv1.Lease {
		l := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{SequenceAnnotation: sequence}}}
		if holder != "" {
			l.Spec.HolderIdentity = &holder
		}
		return l
	}
	for name, test := range map[string]struct {
		lease    *coordinationv1.Lease
		want     Mark
		readable bool
	}{
		"reads holder and sequence":     {lease("a", "5"), Mark{"a", 5}, true},
		"needs a sequence":              {lease("a", ""), Mark{"a", 0}, false},
		"needs a number":                {lease("a", "five"), Mark{"a", 0}, false},
		"needs a holder":                {lease("", "5"), Mark{"", 5}, false},
		"reads nothing of an empty one": {&coordinationv1.Lease{}, Mark{}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if mark, readable := markOf(test.lease); mark != test.want || readable != test.readable {
				t.Errorf("mark %+v, readable %t", mark, readable)
			}
		})
	}
}
