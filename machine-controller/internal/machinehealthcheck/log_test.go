// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package machinehealthcheck

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"

	"drover.io/machine-controller/internal/health"
	"drover.io/runtime/logtest"
)

func TestLogOfMachines(t *testing.T) {
	t.Parallel()
	finding := health.Finding{State: health.Unhealthy, Reason: "UnhealthyNode", Message: "Node condition Ready is False"}
	unknown := func(*clusterv1.Machine) {}
	unhealthy := func(m *clusterv1.Machine) { setUnhealthy(m, finding, "") }
	marked := func(m *clusterv1.Machine) {
		unhealthy(m)
		setWaitingForOwner(m)
	}
	markedForOthers := func(m *clusterv1.Machine) {
		unhealthy(m)
		setWaitingForExternal(m)
	}
	for name, test := range map[string]struct {
		before, after func(*clusterv1.Machine)
		want          []string
	}{
		"logs nothing when a Machine is healthy from the start": {unknown, setHealthy, nil},
		"logs nothing when a Machine stays unhealthy":           {unhealthy, unhealthy, nil},
		"logs nothing when a Machine stays marked":              {marked, marked, nil},
		"logs that a Machine became unhealthy": {setHealthy, unhealthy,
			[]string{"Machine became unhealthy Machine=ns/m reason=UnhealthyNode message=Node condition Ready is False"}},
		"logs that a Machine became healthy": {unhealthy, setHealthy, []string{"Machine became healthy Machine=ns/m"}},
		"logs the mark, and not the health besides": {setHealthy, marked,
			[]string{"marked Machine for remediation Machine=ns/m reason=UnhealthyNode message=Node condition Ready is False"}},
		"logs the mark for an external controller": {unhealthy, markedForOthers,
			[]string{"marked Machine for remediation Machine=ns/m reason=UnhealthyNode message=Node condition Ready is False"}},
		"logs that the mark was removed":                           {marked, unhealthy, []string{"unmarked Machine Machine=ns/m"}},
		"logs the removed mark of a Machine that is healthy again": {marked, setHealthy, []string{"unmarked Machine Machine=ns/m"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			before := &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "m"}}
			after, recorder := before.DeepCopy(), &logtest.TextRecorder{}
			test.before(before)
			test.after(after)
			logWritten(recorder.Context(t.Context()), before, after)
			if diff := cmp.Diff(test.want, recorder.Lines("")); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestLogOfRemediationAllowed(t *testing.T) {
	t.Parallel()
	unknown := func(*clusterv1.MachineHealthCheck) {}
	restricted := func(c *clusterv1.MachineHealthCheck) { setNotAllowed(c, NotConnectedReason, "no connection") }
	allowed := func(c *clusterv1.MachineHealthCheck) {
		conditions.Set(c, metav1.Condition{
			Type: clusterv1.MachineHealthCheckRemediationAllowedCondition, Status: metav1.ConditionTrue, Reason: clusterv1.MachineHealthCheckRemediationAllowedReason,
		})
	}
	for name, test := range map[string]struct {
		before, after func(*clusterv1.MachineHealthCheck)
		want          []string
	}{
		"logs nothing when remediation is allowed from the start": {unknown, allowed, nil},
		"logs nothing when remediation stays restricted":          {restricted, restricted, nil},
		"logs that remediation was restricted":                    {allowed, restricted, []string{"restricted remediation reason=NotConnected message=no connection"}},
		"logs that remediation is restricted from the start":      {unknown, restricted, []string{"restricted remediation reason=NotConnected message=no connection"}},
		"logs another reason": {func(c *clusterv1.MachineHealthCheck) { setNotAllowed(c, InvalidSpecReason, "x") }, restricted,
			[]string{"restricted remediation reason=NotConnected message=no connection"}},
		"logs that remediation was allowed": {restricted, allowed, []string{"allowed remediation"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			before, after, recorder := &clusterv1.MachineHealthCheck{}, &clusterv1.MachineHealthCheck{}, &logtest.TextRecorder{}
			test.before(before)
			test.after(after)
			logStatusWritten(recorder.Context(t.Context()), before, after)
			if diff := cmp.Diff(test.want, recorder.Lines("")); diff != "" {
				t.Error(diff)
			}
		})
	}
}
