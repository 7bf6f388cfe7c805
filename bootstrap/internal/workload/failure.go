// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package workload

import "drover.io/runtime/workload"

// Classify returns the Failure that the error of a call to the workload cluster shows. A permission that is missing is
// explained by what to apply.
func (c *Connection) Classify(err error) workload.Failure {
	failure := workload.Classify(c.Server.URL, err)
	if failure.Kind == workload.Forbidden {
		failure.Message += ": apply config/workload of the bootstrap controller there as its administrator"
	}
	return failure
}
