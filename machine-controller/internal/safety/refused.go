// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package safety

import (
	"context"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"drover.io/runtime/results"
)

// RetryRefused decides when to reconcile again after an error of writes. One that the API server refuses is logged, and tried again
// after RetryPeriod however often it has failed: nothing shows when a person removes the cause. Any other is returned, for the
// back-off.
func RetryRefused(ctx context.Context, err error) (reconcile.Result, error) {
	if results.Refusal(err) == "" {
		return reconcile.Result{}, err
	}
	ctrl.LoggerFrom(ctx).Error(err, "the API server refused a request", "after", RetryPeriod)
	return reconcile.Result{RequeueAfter: RetryPeriod}, nil
}
