// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package health

import (
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
)

// reading is a condition as it is, beside what the check lists as bad.
type reading struct {
	kind, bad string
	timeout   time.Duration
	// status is the condition's own; one that is absent counts as Unknown, from the moment
	// the object exists.
	status string
	absent bool
	since  time.Time
}

func nodeConditions(in Input, node *corev1.Node) Finding {
	var readings []reading
	for _, listed := range in.Checks.UnhealthyNodeConditions {
		r := reading{
			kind: string(listed.Type), bad: string(listed.Status), timeout: seconds(listed.TimeoutSeconds),
			status: string(corev1.ConditionUnknown), absent: true, since: node.CreationTimestamp.Time,
		}
		for _, condition := range node.Status.Conditions {
			if condition.Type == listed.Type {
				r.status, r.absent, r.since = string(condition.Status), false, condition.LastTransitionTime.Time
			}
		}
		readings = append(readings, r)
	}
	return evaluateReadings(in, readings, "Node", clusterv1.MachineHealthCheckUnhealthyNodeReason)
}

func machineConditions(in Input) Finding {
	var readings []reading
	for _, listed := range in.Checks.UnhealthyMachineConditions {
		r := reading{
			kind: listed.Type, bad: string(listed.Status), timeout: seconds(listed.TimeoutSeconds),
			status: string(corev1.ConditionUnknown), absent: true, since: in.Machine.CreationTimestamp.Time,
		}
		if condition := conditions.Get(in.Machine, listed.Type); condition != nil {
			r.status, r.absent, r.since = string(condition.Status), false, condition.LastTransitionTime.Time
		}
		readings = append(readings, r)
	}
	return evaluateReadings(in, readings, "Machine", clusterv1.MachineHealthCheckUnhealthyMachineReason)
}

// evaluateReadings reports whether any reading has been bad for as long as its timeout.
func evaluateReadings(in Input, readings []reading, object, reason string) Finding {
	var over, pending []string
	var until time.Time
	for _, r := range readings {
		if r.status != r.bad {
			continue
		}
		if end := later(r.since, in.Since).Add(r.timeout); in.Now.Before(end) {
			pending = append(pending, r.kind)
			until = earlier(until, end)
			continue
		}
		status := r.status
		if r.absent {
			status = "absent, which counts as Unknown,"
		}
		over = append(over, fmt.Sprintf("%s condition %s is %s for %s or longer", object, r.kind, status, r.timeout))
	}
	switch {
	case len(over) > 0:
		return Finding{State: Unhealthy, Reason: reason, Message: strings.Join(over, "; ")}
	case len(pending) > 0:
		return Finding{State: Suspect, Message: fmt.Sprintf("%s condition %s is bad", object, strings.Join(pending, ", ")), Until: until}
	}
	return Finding{State: Healthy}
}

func seconds(n *int32) time.Duration {
	if n == nil {
		return 0
	}
	return time.Duration(*n) * time.Second
}
