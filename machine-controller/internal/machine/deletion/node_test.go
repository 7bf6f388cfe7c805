// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package deletion

import (
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	testingclock "k8s.io/utils/clock/testing"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"drover.io/machine-controller/internal/workload"
)

func TestNodeStepGivesUpAfterItsTimeout(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		seconds *int32
		given   time.Duration // zero is never
	}{
		"of 10s by default": {nil, 10 * time.Second},
		"of the Machine":    {new(int32(60)), time.Minute},
		"or never":          {new(int32(0)), 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			clk := testingclock.NewFakePassiveClock(epoch)
			recorded := events.NewFakeRecorder(10)
			step := &nodeStep{workloads: workload.New(workload.Options{}), events: &recorder{recorded}, clock: clk}
			s := deleting(func(s *State) { s.Machine.Spec.Deletion.NodeDeletionTimeoutSeconds = test.seconds })
			var progress Progress
			run := func() bool {
				var err error
				progress, err = step.run(t.Context(), s)
				if err != nil || (!progress.Done && progress.RequeueAfter != nodeDeletionRetry) {
					t.Fatalf("progress %+v, error %v", progress, err)
				}
				return progress.Done
			}
			if run() {
				t.Fatal("gave up at once")
			}
			if progress.Reason != clusterv1.MachineDeletingDeletingNodeReason || !strings.Contains(progress.Message, "n") {
				t.Errorf("progress is %+v", progress)
			}
			if test.given == 0 {
				clk.SetTime(epoch.Add(1000 * time.Hour))
				if run() {
					t.Error("gave up although the timeout is 0")
				}
				return
			}
			clk.SetTime(epoch.Add(test.given - time.Nanosecond))
			if run() {
				t.Error("gave up too early")
			}
			clk.SetTime(epoch.Add(test.given))
			if !run() {
				t.Fatal("did not give up")
			}
			if event := <-recorded.Events; !strings.Contains(event, "kubectl delete node n") {
				t.Errorf("the event does not name the command: %s", event)
			}
			if step.startTimes.Len() != 0 {
				t.Errorf("%d start times are left", step.startTimes.Len())
			}
		})
	}
}

// TestNodeStepDescribesEachResetAlike has an API server that resets the connection of each deletion: the message is in a condition.
func TestNodeStepDescribesEachResetAlike(t *testing.T) {
	t.Parallel()
	e := newEnvironment(t)
	e.behind(func(response http.ResponseWriter, request *http.Request) bool {
		if request.Method != http.MethodDelete {
			return true
		}
		connection, _, err := http.NewResponseController(response).Hijack()
		if err != nil {
			t.Error(err)
			return false
		}
		tcp := connection.(*tls.Conn).NetConn().(*net.TCPConn)
		if err := errors.Join(tcp.SetLinger(0), tcp.Close()); err != nil {
			t.Error(err)
		}
		return false
	})
	step := &nodeStep{machines: e.client, workloads: e.workloads, events: &recorder{e.events}, clock: e.clock}
	var messages []string
	for range 2 {
		progress, err := step.run(t.Context(), e.state)
		if progress.Done || err != nil {
			t.Fatalf("progress %+v, error %v", progress, err)
		}
		messages = append(messages, progress.Message)
	}
	if messages[0] != messages[1] || strings.Contains(messages[0], "127.0.0.1") {
		t.Errorf("the messages are %q", messages)
	}
}

// TestNodeStepKeepsItsTimeoutUntilAnAttemptToConnectHasEnded: after a restart that can take longer than the timeout.
func TestNodeStepKeepsItsTimeoutUntilAnAttemptToConnectHasEnded(t *testing.T) {
	t.Parallel()
	clk := testingclock.NewFakePassiveClock(epoch)
	step := &nodeStep{workloads: workload.New(workload.Options{}), events: &recorder{events.NewFakeRecorder(10)}, clock: clk}
	s := deleting(func(s *State) { s.Connecting = true })
	run := func(want bool) {
		t.Helper()
		progress, err := step.run(t.Context(), s)
		if err != nil || progress.Done != want || !want && progress.RequeueAfter != nodeDeletionRetry {
			t.Fatalf("progress %+v, error %v", progress, err)
		}
	}
	run(false)
	clk.SetTime(epoch.Add(time.Minute))
	run(false)
	s.Connecting = false
	run(false)
	clk.SetTime(epoch.Add(time.Minute + defaultNodeDeletionSeconds*time.Second))
	run(true)
}

func TestNodeStepIsDone(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*State){
		"when there never was a Node":                     func(s *State) { s.Machine.Status.NodeRef.Name, s.Node, s.NodeErr = "", nil, notFound },
		"when the providerID is another Machine's":        func(s *State) { s.ProviderIDConflict = true },
		"when the Node is deleted with the control plane": func(s *State) { s.ControlPlaneDeleting = true },
		"when the Cluster is gone": func(s *State) {
			s.Cluster = &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "c", DeletionTimestamp: new(metav1.NewTime(epoch))}}
			s.Machine.Spec.Deletion.NodeDeletionTimeoutSeconds = new(int32(0))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			step := &nodeStep{workloads: workload.New(workload.Options{}), events: &recorder{events.NewFakeRecorder(1)}, clock: testingclock.NewFakePassiveClock(epoch)}
			progress, err := step.run(t.Context(), deleting(change))
			if progress != done || err != nil {
				t.Errorf("progress %+v, error %v", progress, err)
			}
		})
	}
}
