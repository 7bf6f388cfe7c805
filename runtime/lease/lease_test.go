// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package lease

import (
	"context"
	"errors"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlfake "sigs.k8s.io/controller-runtime/pkg/client/fake"

	"drover.io/runtime/logtest"
)

var key = client.ObjectKey{Namespace: "ns", Name: "l"}

func TestRenew(t *testing.T) {
	t.Parallel()
	c := ctrlfake.NewClientBuilder().Build()
	clk := clocktesting.NewFakePassiveClock(time.Unix(1000, 0))
	var seen []string
	renew := func(holder string) error {
		return Renew(t.Context(), c, clk, key, holder, func(lease *coordinationv1.Lease) error {
			before := ""
			if lease.Spec.HolderIdentity != nil {
				before = *lease.Spec.HolderIdentity
			}
			seen = append(seen, before)
			lease.Labels = map[string]string{"by": holder}
			return nil
		})
	}
	for _, holder := range []string{"a", "b"} {
		if err := renew(holder); err != nil {
			t.Fatal(err)
		}
		stored := &coordinationv1.Lease{}
		if err := c.Get(t.Context(), key, stored); err != nil {
			t.Fatal(err)
		}
		if *stored.Spec.HolderIdentity != holder || stored.Labels["by"] != holder || !stored.Spec.RenewTime.Time.Equal(clk.Now()) {
			t.Errorf("%s: stored %+v", holder, stored)
		}
		clk.SetTime(clk.Now().Add(time.Minute))
	}
	if len(seen) != 2 || seen[0] != "" || seen[1] != "a" {
		t.Errorf("holders before: %q", seen)
	}
}

func TestRenewWritesNothingAfterAnError(t *testing.T) {
	t.Parallel()
	c, boom := ctrlfake.NewClientBuilder().Build(), errors.New("boom")
	err := Renew(t.Context(), c, clocktesting.NewFakePassiveClock(time.Unix(0, 0)), key, "a", func(*coordinationv1.Lease) error { return boom })
	if !errors.Is(err, boom) {
		t.Errorf("error %v", err)
	}
	if err := c.Get(t.Context(), key, &coordinationv1.Lease{}); client.IgnoreNotFound(err) != nil || err == nil {
		t.Errorf("a Lease was written: %v", err)
	}
}

func TestKeepRenewsSoonerAfterAFailure(t *testing.T) {
	t.Parallel()
	clk, log := clocktesting.NewFakeClock(time.Unix(0, 0)), &logtest.TextRecorder{}
	ctx, cancel := context.WithCancel(log.Context(t.Context()))
	renewed, answers, ended := make(chan struct{}), make(chan error), make(chan error)
	go func() {
		ended <- Keep(ctx, clk, key, "renewing", func(context.Context) error {
			renewed <- struct{}{}
			return <-answers
		})
	}()
	for _, step := range []struct {
		err   error
		pause time.Duration
	}{{nil, Period}, {errors.New("boom"), AttemptTimeout}, {nil, Period}} {
		<-renewed
		answers <- step.err
		for !clk.HasWaiters() {
			time.Sleep(time.Millisecond)
		}
		clk.Step(step.pause - 1)
		if !clk.HasWaiters() {
			t.Errorf("after %v it is renewed before %s", step.err, step.pause)
		}
		clk.Step(1)
	}
	<-renewed
	cancel()
	answers <- ctx.Err()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if lines := log.Lines("Lease=ns/l"); len(lines) != 1 {
		t.Errorf("log %q, want one failure", lines)
	}
}
