// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Package lease renews Leases in which a leader records that it runs, and what it did. They are not for leader election,
// which has Leases of its own.
package lease

import (
	"context"
	"fmt"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	// Period is the time between two renewals.
	Period = time.Minute
	// AttemptTimeout bounds one renewal, and is the pause after one that failed.
	AttemptTimeout = 10 * time.Second
)

// Keep renews at once, and then every Period, until ctx is done. A failure is logged with the message. A manager calls it
// while it leads.
func Keep(ctx context.Context, clk clock.Clock, key client.ObjectKey, message string, renew func(context.Context) error) error {
	for {
		pause := Period
		if err := renew(ctx); err != nil && ctx.Err() == nil {
			ctrl.LoggerFrom(ctx).Error(err, message, "Lease", klog.KRef(key.Namespace, key.Name))
			pause = AttemptTimeout
		}
		timer := clk.NewTimer(pause)
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil
		case <-timer.C():
		}
	}
}

// Renew writes the holder and the time into a Lease, which it creates if it does not exist, and what change makes of the
// Lease that it has read. It fails where another process has written since. The client reads and writes without a cache.
func Renew(ctx context.Context, c client.Client, clk clock.PassiveClock, key client.ObjectKey, holder string, change func(*coordinationv1.Lease) error) error {
	ctx, cancel := context.WithTimeout(ctx, AttemptTimeout)
	defer cancel()
	lease := &coordinationv1.Lease{}
	err := c.Get(ctx, key, lease)
	missing := apierrors.IsNotFound(err)
	if err != nil && !missing {
		return fmt.Errorf("reading Lease: %w", err)
	}
	if err := change(lease); err != nil {
		return err
	}
	at := metav1.NewMicroTime(clk.Now())
	lease.Namespace, lease.Name = key.Namespace, key.Name
	lease.Spec.HolderIdentity, lease.Spec.RenewTime = &holder, &at
	if missing {
		err = c.Create(ctx, lease)
	} else {
		err = c.Update(ctx, lease)
	}
	if err != nil {
		return fmt.Errorf("writing Lease: %w", err)
	}
	return nil
}
