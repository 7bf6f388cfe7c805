// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package drain

import (
	"drover.io/runtime/drainplan"
	"drover.io/runtime/metric"
)

// What becomes of an attempt to remove a Pod.
const (
	evicted             = "evicted"
	deleted             = "deleted"
	gone                = "gone"
	awaitsBudget        = "budget"
	tooManyRequests     = "too_many_requests"
	refusedByServer     = "refused"
	changed             = "changed"
	namespaceTerminates = "namespace_terminating"
	unanswered          = "unanswered"
	failed              = "error"
)

var evictions = metric.NewCounter(metric.Options{
	Name: "machine_controller_evictions_total", Stability: metric.Alpha,
	Help: "Attempts to remove Pods from Nodes of Machines that are deleted, by outcome: evicted, deleted because of the force deadline, gone already, held back by a PodDisruptionBudget, " +
		"answered with 429 without one, refused, changed meanwhile, in a Namespace that is being deleted, without an answer in time, or an error. A Pod that stays is tried again.",
	Labels: []metric.Label{metric.Fixed("outcome", evicted, deleted, gone, awaitsBudget, tooManyRequests, refusedByServer, changed, namespaceTerminates, unanswered, failed)},
})

// label is the outcome of an attempt in metrics.
func (o outcome) label(action drainplan.Action) string {
	switch {
	case o.err != nil:
		return failed
	case o.gone:
		return gone
	case o.tooMany:
		return tooManyRequests
	case o.cause.Kind == BudgetExhausted:
		return awaitsBudget
	case o.cause.Kind == NextPass:
		return changed
	case o.cause.Kind == NamespaceTerminating:
		return namespaceTerminates
	case o.cause.Kind == Terminating && action == drainplan.Delete:
		return deleted
	case o.cause.Kind == Terminating:
		return evicted
	}
	return refusedByServer
}
