// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package health

import (
	"fmt"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/intstr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

// Trigger is how many Machines must, and may, be unhealthy for any to be replaced.
type Trigger struct {
	// Least and Most bound the number; Most is -1 where nothing bounds it.
	Least, Most int
	// Text is what the user wrote.
	Text string
}

// ParseTrigger reads spec.remediation.triggerIf. A percentage is of the targets, rounded
// down. An error names the field.
func ParseTrigger(spec clusterv1.MachineHealthCheckRemediationTriggerIf, targets int) (Trigger, error) {
	const path = "spec.remediation.triggerIf."
	if spec.UnhealthyInRange != "" {
		least, most, ok := bounds(spec.UnhealthyInRange)
		if !ok {
			return Trigger{}, fmt.Errorf("%sunhealthyInRange: %q is no range such as \"[1-3]\", the smaller number first", path, spec.UnhealthyInRange)
		}
		return Trigger{Least: least, Most: most, Text: "unhealthyInRange " + spec.UnhealthyInRange}, nil
	}
	value := spec.UnhealthyLessThanOrEqualTo
	if value == nil {
		return Trigger{Most: -1}, nil
	}
	most, err := intstr.GetScaledValueFromIntOrPercent(value, targets, false)
	if err != nil || most < 0 {
		return Trigger{}, fmt.Errorf("%sunhealthyLessThanOrEqualTo: %q is neither a number nor a percentage such as \"40%%\"", path, value.String())
	}
	return Trigger{Most: most, Text: "unhealthyLessThanOrEqualTo " + value.String()}, nil
}

func bounds(text string) (least, most int, ok bool) {
	inner, opened := strings.CutPrefix(text, "[")
	inner, closed := strings.CutSuffix(inner, "]")
	low, high, found := strings.Cut(inner, "-")
	least, lowErr := strconv.Atoi(low)
	most, highErr := strconv.Atoi(high)
	return least, most, opened && closed && found && lowErr == nil && highErr == nil && least <= most
}

// permits reports whether that many unhealthy Machines allow a replacement.
func (t Trigger) permits(unhealthy int) bool {
	return unhealthy >= t.Least && (t.Most < 0 || unhealthy <= t.Most)
}
