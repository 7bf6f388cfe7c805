// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package token

import "drover.io/runtime/metric"

// What is decided about a token.
const (
	created  = "created"
	renewed  = "renewed"
	deleted  = "deleted"
	idTaken  = "id_taken"
	notFound = "not_bootstrap_token"
)

var decisions = metric.NewCounter(metric.Options{
	Name: "drover_bootstrap_tokens_total", Stability: metric.Alpha,
	Help:   "Decisions about bootstrap tokens: created, renewed, deleted, not created because another token has the same id, or left alone because a Secret with the label of a Machine is no token.",
	Labels: []metric.Label{metric.Fixed("decision", created, renewed, deleted, idTaken, notFound)},
})
