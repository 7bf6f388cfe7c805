// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package safety

import (
	"context"
	"errors"
	"time"

	kerrors "k8s.io/apimachinery/pkg/util/errors"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"drover.io/runtime/results"
)

// refusedInterval is how much later each further refused write of a reconcile makes the next attempt, so that an object with a
// thousand of them costs the API server no more than ten a second.
const refusedInterval = time.Second / 10

// RetryRefused decides when to reconcile again after an error of writes. Those that the API server refuses are logged, and tried again
// after RetryPeriod, or later where they are many, however often they have failed: nothing shows when a person removes the cause. Any
// other error is returned, for the back-off.
func RetryRefused(ctx context.Context, err error) (reconcile.Result, error) {
	if results.Refusal(err) == "" {
		return reconcile.Result{}, err
	}
	after := RetryPeriod
	if all, are := errors.AsType[kerrors.Aggregate](err); are {
		after = max(after, time.Duration(len(kerrors.Flatten(all).Errors()))*refusedInterval)
	}
	ctrl.LoggerFrom(ctx).Error(err, "the API server refused a request", "after", after)
	return reconcile.Result{RequeueAfter: after}, nil
}
