// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"drover.io/runtime/logtest"
)

func TestLog(t *testing.T) {
	t.Parallel()
	nothing := func(*clusterv1.Cluster) {}
	provisioned := func(c *clusterv1.Cluster) { c.Status.Initialization.InfrastructureProvisioned = new(true) }
	initialized := func(c *clusterv1.Cluster) { c.Status.Initialization.ControlPlaneInitialized = new(true) }
	finalizer := func(c *clusterv1.Cluster) { c.Finalizers = []string{clusterv1.ClusterFinalizer} }
	for name, test := range map[string]struct {
		before, after func(*clusterv1.Cluster)
		want          []string
	}{
		"logs nothing without a change":      {provisioned, provisioned, nil},
		"logs nothing for a finalizer added": {nothing, finalizer, nil},
		"logs the endpoint": {nothing, func(c *clusterv1.Cluster) { c.Spec.ControlPlaneEndpoint = clusterv1.APIEndpoint{Host: "h", Port: 1} },
			[]string{"set controlPlaneEndpoint endpoint=h:1"}},
		"logs the deletion":                                {finalizer, nothing, []string{"deleted Cluster"}},
		"logs that infrastructure is provisioned":          {nothing, provisioned, []string{"Cluster infrastructure provisioned"}},
		"logs that the control plane is initialized, once": {nothing, initialized, []string{"Cluster control plane initialized"}},
		"logs nothing while the control plane stays so":    {initialized, initialized, nil},
		"logs nothing for a control plane that is not":     {nothing, func(c *clusterv1.Cluster) { c.Status.Initialization.ControlPlaneInitialized = new(false) }, nil},
		"logs the phase": {nothing, func(c *clusterv1.Cluster) { c.Status.Phase = "Provisioned" },
			[]string{"Cluster phase changed phase=Provisioned previousPhase="}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			before, after, recorder := &clusterv1.Cluster{}, &clusterv1.Cluster{}, &logtest.TextRecorder{}
			test.before(before)
			test.after(after)
			logWritten(recorder.Context(t.Context()), before, after)
			logStatusWritten(recorder.Context(t.Context()), before, after)
			if diff := cmp.Diff(test.want, recorder.Lines("")); diff != "" {
				t.Error(diff)
			}
		})
	}
}
