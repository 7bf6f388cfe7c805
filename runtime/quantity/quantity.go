// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Package quantity writes a number with its noun, and the verb that fits, for messages.
package quantity

import "fmt"

// Number is what counts objects.
type Number interface{ ~int | ~int32 | ~int64 }

// Of is a number with a noun that is plural unless the number is 1, as "1 pod" and "2 pods".
func Of[N Number](n N, noun string) string {
	if n == 1 {
		return fmt.Sprintf("%d %s", n, noun)
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// Are is a number with a noun and "is" or "are", as "1 pod is" and "2 pods are".
func Are[N Number](n N, noun string) string { return Of(n, noun) + " " + Verb(n, "is", "are") }

// Verb is the form of a verb that fits a number: the first for 1, the second for any other.
func Verb[N Number](n N, singular, plural string) string {
	if n == 1 {
		return singular
	}
	return plural
}
