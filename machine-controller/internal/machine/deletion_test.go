// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package machine

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/tools/events"
	testingclock "k8s.io/utils/clock/testing"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"drover.io/machine-controller/internal/coalesce"
	"drover.io/machine-controller/internal/contract"
	"drover.io/machine-controller/internal/workload"
)

// leaving is a machine that is being deleted, whose Node and InfraMachine are there.
func leaving(changes ...func(*state)) *state {
	m := &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "m", UID: "m-uid", DeletionTimestamp: new(metav1.NewTime(epoch))}}
	m.Spec.ClusterName, m.Spec.ProviderID, m.Status.NodeRef.Name = "c", "sim://1", "n"
	infra := reporting("I", nil)
	s := &state{
		machine: m,
		cluster: &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "c", UID: "c-uid"}},
		infra:   seen[contract.InfraMachine]{object: &contract.InfraMachine{Object: infra}},
		node:    seen[corev1.Node]{object: nodeWith(nil)},
	}
	for _, change := range changes {
		change(s)
	}
	return s
}

func TestGuardsNode(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		change func(*state)
		want   bool
	}{
		"guards a Node that is there":                              {func(*state) {}, true},
		"guards a Node that cannot be seen now":                    {func(s *state) { s.node = seen[corev1.Node]{err: workload.ErrNotConnected} }, true},
		"guards a Node that the reference was never written of":    {func(s *state) { s.machine.Status.NodeRef.Name = "" }, true},
		"guards while it is unknown whether the machine is there":  {func(s *state) { s.infra = seen[contract.InfraMachine]{err: errors.New("boom")} }, true},
		"has none to guard before one joined":                      {func(s *state) { s.machine.Status.NodeRef.Name, s.node.object = "", nil }, false},
		"has none to guard after it was deleted":                   {func(s *state) { s.node = seen[corev1.Node]{err: notFound} }, false},
		"does not when the whole Cluster goes":                     {func(s *state) { s.cluster.DeletionTimestamp = new(metav1.NewTime(epoch)) }, false},
		"does not when the control plane goes":                     {func(s *state) { s.planeGoes = true }, false},
		"does not when the Node is another Machine's":              {func(s *state) { s.node = seen[corev1.Node]{err: fmt.Errorf("%w: x", errRivalled)} }, false},
		"does not when the virtual machine is gone":                {func(s *state) { s.infra = seen[contract.InfraMachine]{err: notFound} }, false},
		"does not when the virtual machine is already being taken": {func(s *state) { s.infra.object.SetDeletionTimestamp(new(metav1.NewTime(epoch))) }, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := guardsNode(leaving(test.change)); got != test.want {
				t.Errorf("guards is %t, want %t", got, test.want)
			}
		})
	}
}

func TestHooks(t *testing.T) {
	t.Parallel()
	clk := testingclock.NewFakePassiveClock(epoch)
	const drainHook, endHook = clusterv1.PreDrainDeleteHookAnnotationPrefix, clusterv1.PreTerminateDeleteHookAnnotationPrefix
	for name, test := range map[string]struct {
		hooks       hooks
		annotations map[string]string
		change      func(*state)
		done        bool
		message     string
	}{
		"has nothing to wait for":                         {preDrain(clk), map[string]string{"other": "", endHook + "/x": ""}, nil, true, ""},
		"waits for every hook before the drain":           {preDrain(clk), map[string]string{drainHook + "/b": "", drainHook + "/a": "x"}, nil, false, "Waiting for hooks to be removed: " + drainHook + "/a, " + drainHook + "/b"},
		"waits for a hook without a name":                 {preDrain(clk), map[string]string{drainHook: ""}, nil, false, "Waiting for hooks to be removed: " + drainHook},
		"does not wait before a drain that will not be":   {preDrain(clk), map[string]string{drainHook + "/a": ""}, func(s *state) { s.node = seen[corev1.Node]{err: notFound} }, true, ""},
		"waits for every hook before the end":             {preTerminate(clk), map[string]string{endHook + "/a": ""}, nil, false, "Waiting for hooks to be removed: " + endHook + "/a"},
		"waits for the end also without a Node":           {preTerminate(clk), map[string]string{endHook + "/a": ""}, func(s *state) { s.node = seen[corev1.Node]{err: notFound} }, false, "Waiting for hooks to be removed: " + endHook + "/a"},
		"does not wait at the end for hooks of the drain": {preTerminate(clk), map[string]string{drainHook + "/a": ""}, nil, true, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := leaving()
			if test.change != nil {
				test.change(s)
			}
			s.machine.Annotations = test.annotations
			done, result, err := test.hooks.run(context.Background(), s)
			if err != nil || done != test.done || result != (reconcile.Result{}) || s.deletion.message != test.message {
				t.Fatalf("done %t, result %v, error %v, message %q", done, result, err, s.deletion.message)
			}
			if test.done {
				return
			}
			if got := *test.hooks.started(s.machine.Status.Deletion); !got.Time.Equal(epoch) {
				t.Errorf("started at %s, want %s", got, epoch)
			}
			*test.hooks.started(s.machine.Status.Deletion) = metav1.NewTime(epoch.Add(-time.Hour))
			if _, _, err := test.hooks.run(context.Background(), s); err != nil {
				t.Fatal(err)
			}
			if got := *test.hooks.started(s.machine.Status.Deletion); got.Time.Equal(epoch) {
				t.Error("the clock started anew")
			}
		})
	}
}

// TestNothingIsDrainedWhilePreTerminateHooksAreAwaited gives the steps nothing to work with: they would
// panic if they did any work.
func TestNothingIsDrainedWhilePreTerminateHooksAreAwaited(t *testing.T) {
	t.Parallel()
	s := leaving()
	deletionStatus(s.machine).WaitForPreTerminateHookStartTime = metav1.NewTime(epoch)
	for name, each := range map[string]step{"drain": drained{}, "volumes": detached{}} {
		if done, result, err := each.run(t.Context(), s); !done || err != nil || result != (reconcile.Result{}) {
			t.Errorf("%s: done %t, result %v, error %v", name, done, result, err)
		}
	}
}

func TestExpired(t *testing.T) {
	t.Parallel()
	started := metav1.NewTime(epoch)
	for name, test := range map[string]struct {
		started metav1.Time
		seconds *int32
		passed  time.Duration
		want    bool
		left    time.Duration
	}{
		"never without a timeout":     {started, nil, time.Hour, false, 0},
		"never with a timeout of 0":   {started, new(int32(0)), time.Hour, false, 0},
		"not before it started":       {metav1.Time{}, new(int32(5)), time.Hour, false, time.Second},
		"not before its time":         {started, new(int32(5)), 3 * time.Second, false, 2 * time.Second},
		"when its time is over":       {started, new(int32(5)), 5 * time.Second, true, time.Second},
		"no sooner than a second off": {started, new(int32(5)), 4900 * time.Millisecond, false, time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			now := epoch.Add(test.passed)
			if got := expired(test.started, test.seconds, now); got != test.want {
				t.Errorf("expired is %t, want %t", got, test.want)
			}
			if got := untilExpiry(test.started, test.seconds, now).RequeueAfter; got != test.left {
				t.Errorf("looks again after %s, want %s", got, test.left)
			}
		})
	}
}

func TestGone(t *testing.T) {
	t.Parallel()
	there := func(changes ...func(*unstructured.Unstructured)) *unstructured.Unstructured {
		o := &unstructured.Unstructured{}
		o.SetAPIVersion("v1")
		o.SetKind("ConfigMap")
		o.SetNamespace("ns")
		o.SetName("x")
		o.SetUID("x-uid")
		o.SetResourceVersion("7")
		o.SetOwnerReferences([]metav1.OwnerReference{reference("Machine", "m", new(true))})
		for _, change := range changes {
			change(o)
		}
		return o
	}
	conflict := apierrors.NewConflict(corev1.Resource("things"), "x", errors.New("another UID"))
	for name, test := range map[string]struct {
		object  *unstructured.Unstructured
		readErr error
		answer  error
		done    bool
		after   time.Duration
		deletes int
		fails   bool
	}{
		"is done when the object does not exist":          {readErr: notFound, done: true},
		"waits when it is unknown whether it exists":      {readErr: errors.New("boom"), after: absentRetry},
		"waits for an object that somebody deletes":       {object: there(func(o *unstructured.Unstructured) { o.SetDeletionTimestamp(new(metav1.NewTime(epoch))) }), after: absentRetry},
		"deletes an object that is there":                 {object: there(), deletes: 1},
		"looks again when the object has just gone":       {object: there(), answer: notFound, deletes: 1, after: time.Second},
		"looks again when another took the object's name": {object: there(), answer: conflict, deletes: 1, after: time.Second},
		"leaves an object that belongs to something else": {readErr: &foreignError{}, done: true},
		"leaves what a Machine cannot refer to":           {readErr: &contract.InvalidReferenceError{}, done: true},
		"waits until an object is the machine's":          {object: there(func(o *unstructured.Unstructured) { o.SetOwnerReferences(nil) }), after: time.Second},
		"waits where another is the controller": {object: there(func(o *unstructured.Unstructured) {
			o.SetOwnerReferences([]metav1.OwnerReference{reference("Machine", "other", new(true))})
		}), after: time.Second},
		"reports a deletion that was refused": {object: there(), answer: errors.New("refused"), deletes: 1, fails: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			deletes := 0
			c := interceptor.NewClient(shared.management.Client(t), interceptor.Funcs{
				Delete: func(_ context.Context, _ client.WithWatch, _ client.Object, options ...client.DeleteOption) error {
					deletes++
					all := (&client.DeleteOptions{}).ApplyOptions(options)
					if all.Preconditions == nil || *all.Preconditions.UID != "x-uid" || *all.Preconditions.ResourceVersion != "7" {
						t.Error("the deletion does not insist on the object as it was read")
					}
					return test.answer
				},
			})
			asked := &coalesce.Pace{Clock: testingclock.NewFakePassiveClock(epoch), Period: absentRetry}
			done, result, err := gone(context.Background(), eraser{c, asked}, adopter(), test.object, test.readErr)
			if test.object != nil {
				leave(asked, test.object)
				if accepted := test.deletes > 0 && test.answer == nil; accepted && test.object.GetDeletionTimestamp() == nil {
					t.Error("an accepted deletion is forgotten until the cache shows it")
				}
			}
			if done != test.done || result.RequeueAfter != test.after || deletes != test.deletes || (err != nil) != test.fails {
				t.Errorf("done %t, result %v, %d deletions, error %v", done, result, deletes, err)
			}
		})
	}
}

func TestNodeGoneGivesUpAfterItsTimeout(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		seconds *int32
		given   time.Duration // zero is never
	}{
		"of 10s by default":        {nil, 10 * time.Second},
		"of what the machine says": {new(int32(60)), time.Minute},
		"or never":                 {new(int32(0)), 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			clk := testingclock.NewFakePassiveClock(epoch)
			recorded := events.NewFakeRecorder(10)
			step := &nodeGone{workloads: workload.New(workload.Options{}), events: &recorder{recorded}, clock: clk}
			s := leaving(func(s *state) { s.machine.Spec.Deletion.NodeDeletionTimeoutSeconds = test.seconds })
			run := func() bool {
				done, result, err := step.run(context.Background(), s)
				if err != nil || (!done && result.RequeueAfter != nodeDeletionRetry) {
					t.Fatalf("result %v, error %v", result, err)
				}
				return done
			}
			if run() {
				t.Fatal("gave up at once")
			}
			if s.deletion.reason != clusterv1.MachineDeletingDeletingNodeReason || !strings.Contains(s.deletion.message, "n") {
				t.Errorf("says %+v", s.deletion)
			}
			if test.given == 0 {
				clk.SetTime(epoch.Add(1000 * time.Hour))
				if run() {
					t.Error("gave up though told not to")
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
				t.Errorf("the event does not say what to do: %s", event)
			}
			if len(step.since) != 0 {
				t.Errorf("remembers %v", step.since)
			}
		})
	}
}

func TestNodeGoneHasNothingToDo(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*state){
		"when there never was a Node":               func(s *state) { s.machine.Status.NodeRef.Name, s.node = "", seen[corev1.Node]{err: notFound} },
		"when the Node is another Machine's":        func(s *state) { s.node = seen[corev1.Node]{err: errRivalled} },
		"when the Node goes with the control plane": func(s *state) { s.planeGoes = true },
		"when the Cluster, and every way to reach it, is gone": func(s *state) {
			s.cluster = &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "c", DeletionTimestamp: new(metav1.NewTime(epoch))}}
			s.machine.Spec.Deletion.NodeDeletionTimeoutSeconds = new(int32(0))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			step := &nodeGone{workloads: workload.New(workload.Options{}), events: &recorder{events.NewFakeRecorder(1)}, clock: testingclock.NewFakePassiveClock(epoch)}
			done, _, err := step.run(context.Background(), leaving(change))
			if !done || err != nil {
				t.Errorf("done %t, error %v", done, err)
			}
		})
	}
}

func TestStepsComeInOrder(t *testing.T) {
	t.Parallel()
	r := &Reconciler{Clock: testingclock.NewFakePassiveClock(epoch)}
	r.arrange()
	var names []string
	for _, each := range r.steps {
		names = append(names, operation(each))
	}
	want := []string{
		"machine.hooks", "machine.drained", "machine.detached", "machine.hooks",
		"machine.infrastructureGone", "machine.bootstrapGone", "machine.nodeGone",
	}
	if diff := cmp.Diff(want, names); diff != "" {
		t.Error(diff)
	}
}

func TestUnseen(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		err  error
		want string
	}{
		"waits for Nodes that nobody has read yet":  {nil, "Waiting for the Nodes of the workload cluster to be read, to find Node n"},
		"waits for Nodes that are being read again": {workload.ErrNotConnected, "Waiting for the Nodes of the workload cluster to be read, to find Node n"},
		"names Nodes that claim to be the same":     {errDuplicateNodes, "Waiting to find Node n: more than one Node has this providerID"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := leaving(func(s *state) { s.node = seen[corev1.Node]{err: test.err} })
			if got := unseen(s); got != test.want {
				t.Errorf("it says %q, want %q", got, test.want)
			}
		})
	}
}

func TestAwaited(t *testing.T) {
	t.Parallel()
	ref := clusterv1.ContractVersionedObjectReference{APIGroup: "g", Kind: "Thing", Name: "t"}
	const plain = `Waiting for Thing "t" to be deleted`
	missing := &contract.MissingLabelError{CRDName: "things.g"}
	for name, test := range map[string]struct {
		err  error
		want string
	}{
		"waits for an object that is there":      {nil, plain},
		"keeps errors that pass to itself":       {errors.New("boom"), plain},
		"names what somebody has to mend":        {missing, plain + ", which cannot be read: " + missing.Error()},
		"names it also where it was wrapped":     {fmt.Errorf("reading: %w", missing), plain + ", which cannot be read: reading: " + missing.Error()},
		"does not miss an object that is absent": {notFound, plain},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := awaited(ref, test.err); got != test.want {
				t.Errorf("it says %q, want %q", got, test.want)
			}
		})
	}
}
