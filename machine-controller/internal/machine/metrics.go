// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package machine

import (
	"fmt"
	"strings"
)

// operation is what a phase or step is called in metrics: the name of its type.
func operation(stage any) string {
	return strings.TrimPrefix(fmt.Sprintf("%T", stage), "*")
}
