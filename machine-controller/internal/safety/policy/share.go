// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"fmt"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/intstr"
)

// IntOrPercent is a number of Machines, or a percentage of some.
type IntOrPercent struct {
	n       int
	percent bool
}

// Number returns an absolute number.
func Number(n int) IntOrPercent { return IntOrPercent{n: n} }

// Percent returns a percentage.
func Percent(n int) IntOrPercent { return IntOrPercent{n: n, percent: true} }

// ParseIntOrPercent reads a number of at least 0, or a percentage such as 10%.
func ParseIntOrPercent(value intstr.IntOrString) (IntOrPercent, error) {
	share := IntOrPercent{n: value.IntValue()}
	if value.Type == intstr.String {
		digits, isPercent := strings.CutSuffix(value.StrVal, "%")
		n, err := strconv.Atoi(digits)
		if err != nil || !isPercent || n > 100 {
			return IntOrPercent{}, fmt.Errorf("%q is neither a number nor a percentage such as %q", value.String(), "10%")
		}
		share = Percent(n)
	}
	if share.n < 0 {
		return IntOrPercent{}, fmt.Errorf("%q is negative; the least is 0", value.String())
	}
	return share, nil
}

// Of returns the share of that many: rounded down, but at least 1 unless the share is 0.
func (s IntOrPercent) Of(all int) int {
	if !s.percent || s.n == 0 {
		return s.n
	}
	return max(1, all*s.n/100)
}

// String returns the form in which the user writes it.
func (s IntOrPercent) String() string {
	if s.percent {
		return fmt.Sprintf("%d%%", s.n)
	}
	return strconv.Itoa(s.n)
}
