// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package throttle

import "drover.io/runtime/metric"

// Why a call is prevented.
const (
	preventedByRate  = "rate"
	preventedByPause = "pause"
)

var prevented = metric.NewCounter(metric.Options{
	Name: "drover_infra_cloud_calls_prevented_total", Stability: metric.Alpha,
	Help:   "Calls of a cloud that were not made, because the account's rate is used up, or because the cloud requested a pause or did not answer.",
	Labels: []metric.Label{metric.Named("cloud", "the provider"), metric.Fixed("cause", preventedByRate, preventedByPause)},
})
