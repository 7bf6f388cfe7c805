// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Package quantity writes a number with its noun.
package quantity

import "fmt"

// Of is a number with a noun that is plural unless the number is 1, as "1 pod" and "2 pods".
func Of[N int | int32](n N, noun string) string {
	if n == 1 {
		return fmt.Sprintf("%d %s", n, noun)
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
