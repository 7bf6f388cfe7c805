// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package lease

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlfake "sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

// TestRenewFailsWhereAnotherProcessWrote has one that writes between the read and the write of this one, to a Lease that exists and
// to one that does not: what it wrote stays.
func TestRenewFailsWhereAnotherProcessWrote(t *testing.T) {
	t.Parallel()
	for _, exists := range []bool{true, false} {
		c := ctrlfake.NewClientBuilder().Build()
		clk := clocktesting.NewFakePassiveClock(time.Unix(1000, 0))
		by := func(holder string, meanwhile func()) error {
			return Renew(t.Context(), c, clk, key, holder, func(*coordinationv1.Lease) error { meanwhile(); return nil })
		}
		if exists {
			if err := by("first", func() {}); err != nil {
				t.Fatal(err)
			}
		}
		err := by("slow", func() {
			if err := by("fast", func() {}); err != nil {
				t.Error(err)
			}
		})
		if exists && !apierrors.IsConflict(err) || !exists && !apierrors.IsAlreadyExists(err) || !strings.HasPrefix(err.Error(), "writing Lease: ") {
			t.Errorf("it exists: %t, error %v", exists, err)
		}
		stored := &coordinationv1.Lease{}
		if err := c.Get(t.Context(), key, stored); err != nil || *stored.Spec.HolderIdentity != "fast" {
			t.Errorf("it exists: %t, stored %+v, error %v", exists, stored.Spec, err)
		}
	}
}

// TestRenewNeedsAnAnswer has an API server that does not tell whether there is a Lease: nothing is written, and each request has
// an end.
func TestRenewNeedsAnAnswer(t *testing.T) {
	t.Parallel()
	unavailable := apierrors.NewServiceUnavailable("etcd")
	refuse := func(context.Context, client.WithWatch, client.Object) error {
		t.Error("a Lease was written")
		return nil
	}
	c := ctrlfake.NewClientBuilder().WithInterceptorFuncs(interceptor.Funcs{
		Get: func(ctx context.Context, _ client.WithWatch, _ client.ObjectKey, _ client.Object, _ ...client.GetOption) error {
			if _, bounded := ctx.Deadline(); !bounded {
				t.Error("the request has no deadline")
			}
			return unavailable
		},
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, _ ...client.CreateOption) error {
			return refuse(ctx, c, o)
		},
		Update: func(ctx context.Context, c client.WithWatch, o client.Object, _ ...client.UpdateOption) error {
			return refuse(ctx, c, o)
		},
	}).Build()
	err := Renew(t.Context(), c, clocktesting.NewFakePassiveClock(time.Unix(0, 0)), key, "a", func(*coordinationv1.Lease) error {
		t.Error("a Lease that was not read is changed")
		return nil
	})
	if !errors.Is(err, unavailable) || !strings.HasPrefix(err.Error(), "reading Lease: ") {
		t.Errorf("error %v", err)
	}
}
