// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package deletion

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	testingclock "k8s.io/utils/clock/testing"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

func TestHooks(t *testing.T) {
	t.Parallel()
	clk := testingclock.NewFakePassiveClock(epoch)
	const drainHook, endHook = clusterv1.PreDrainDeleteHookAnnotationPrefix, clusterv1.PreTerminateDeleteHookAnnotationPrefix
	for name, test := range map[string]struct {
		step        hookStep
		annotations map[string]string
		change      func(*State)
		done        bool
		message     string
	}{
		"waits for no other annotation":                            {preDrainHooks(clk), map[string]string{"other": "", endHook + "/x": ""}, nil, true, ""},
		"waits for every hook before the drain":                    {preDrainHooks(clk), map[string]string{drainHook + "/b": "", drainHook + "/a": "x"}, nil, false, "Waiting for hooks to be removed: " + drainHook + "/a, " + drainHook + "/b"},
		"waits for a hook without a name":                          {preDrainHooks(clk), map[string]string{drainHook: ""}, nil, false, "Waiting for hooks to be removed: " + drainHook},
		"does not wait where there is no drain":                    {preDrainHooks(clk), map[string]string{drainHook + "/a": ""}, func(s *State) { s.Node, s.NodeErr = nil, notFound }, true, ""},
		"waits for every hook before the instance is deleted":      {preTerminateHooks(clk), map[string]string{endHook + "/a": ""}, nil, false, "Waiting for hooks to be removed: " + endHook + "/a"},
		"waits before the instance is deleted also without a Node": {preTerminateHooks(clk), map[string]string{endHook + "/a": ""}, func(s *State) { s.Node, s.NodeErr = nil, notFound }, false, "Waiting for hooks to be removed: " + endHook + "/a"},
		"does not wait for pre-drain hooks after the drain":        {preTerminateHooks(clk), map[string]string{drainHook + "/a": ""}, nil, true, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := deleting()
			if test.change != nil {
				test.change(s)
			}
			s.Machine.Annotations = test.annotations
			progress, err := test.step.run(t.Context(), s)
			if err != nil || progress.Done != test.done || progress.RequeueAfter != 0 || progress.Message != test.message {
				t.Fatalf("progress %+v, error %v", progress, err)
			}
			if test.done {
				return
			}
			if got := *test.step.startTime(s.Machine.Status.Deletion); !got.Time.Equal(epoch) {
				t.Errorf("started at %s, want %s", got, epoch)
			}
			*test.step.startTime(s.Machine.Status.Deletion) = metav1.NewTime(epoch.Add(-time.Hour))
			if _, err := test.step.run(t.Context(), s); err != nil {
				t.Fatal(err)
			}
			if got := *test.step.startTime(s.Machine.Status.Deletion); got.Time.Equal(epoch) {
				t.Error("the start time was reset")
			}
		})
	}
}
