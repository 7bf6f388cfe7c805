// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package account

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/attribute"

	"drover.io/infra-providers/driver"
	"drover.io/runtime/tracing"
)

// emitCall emits a call for the Machine of the context, if there is one. Calls that only read are made again and again while
// something is awaited: they are emitted where they fail.
func emitCall(ctx context.Context, cloud, operation string, start time.Time, err error) {
	t := tracing.FromContext(ctx)
	if !t.On() {
		return
	}
	switch operation {
	case "create", "delete", "provision", "tag", "restart", "console":
	default:
		if err == nil || driver.IsNotFound(err) {
			return
		}
	}
	span := tracing.Span{Name: "cloud." + operation, Start: start, End: time.Now(), Attributes: []attribute.KeyValue{tracing.Cloud.String(cloud)}}
	if err != nil {
		span.Error = result(err)
	}
	t.Call(span)
}
