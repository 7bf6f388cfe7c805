// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package safety

import (
	"drover.io/machine-controller/internal/safety/budget"
	"drover.io/runtime/metric"
)

const (
	creation    = "create"
	replacement = "replace"
)

var (
	denials = metric.NewCounter(metric.Options{
		Name: "machine_controller_budget_denials_total", Stability: metric.Alpha,
		Help: "Decisions by which Machines were not created or not replaced, by the limit. While a limit holds, it is decided again every 10 seconds for each MachineSet.",
		Labels: []metric.Label{metric.Fixed("operation", creation, replacement), metric.Fixed("reason",
			budget.ReasonFrozen, budget.ReasonUnreachable, budget.ReasonNotClaimed, budget.ReasonOvershoot, budget.ReasonMaxPending,
			budget.ReasonTooManyUnhealthy, budget.ReasonFailureDomainDown, budget.ReasonBudgetUsed)},
	})
	probes = metric.NewCounter(metric.Options{
		Name: "machine_controller_management_probes_total", Stability: metric.Alpha,
		Help:   "Probes of the API server of the management cluster, by result.",
		Labels: []metric.Label{metric.Fixed("result", "answered", "unanswered")},
	})
)

// denied counts each reason of a decision once.
func denied(operation string, refusals map[string]*budget.Refusal) {
	reasons := map[string]bool{}
	for _, refusal := range refusals {
		if refusal != nil && !reasons[refusal.Reason] {
			reasons[refusal.Reason] = true
			denials.Inc(operation, refusal.Reason)
		}
	}
}
