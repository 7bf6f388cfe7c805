// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	droverpolicyv1 "drover.io/api/policy/v1alpha1"
)

// story is what a command that follows an object prints, and what happens after each line.
type story struct {
	t     *testing.T
	lines []string
	then  []func()
}

// Write implements [io.Writer]: each line is one write.
func (s *story) Write(p []byte) (int, error) {
	s.lines = append(s.lines, strings.TrimSuffix(string(p), "\n"))
	if len(s.lines) <= len(s.then) {
		s.then[len(s.lines)-1]()
	}
	return len(p), nil
}

// follow runs a command to its end, and changes the world after each of its lines.
func follow(ctx context.Context, t *testing.T, now func() time.Time, args []string, then ...func()) (lines []string, errOut string, code int) {
	t.Helper()
	s := &story{t: t, then: then}
	var failed bytes.Buffer
	code = Run(ctx, Environment{Streams: genericiooptions.IOStreams{In: strings.NewReader(""), Out: s, ErrOut: &failed}, Now: now}, append(args, "--kubeconfig", admin(t, management)))
	return s.lines, failed.String(), code
}

func atNoon() time.Time { return noon }

// change writes the status of a MachineDeployment after a change.
func change(t *testing.T, key client.ObjectKey, to func(*clusterv1.MachineDeployment)) func() {
	t.Helper()
	return func() {
		md := deploymentOf(t, key)
		md.Status.ObservedGeneration = md.Generation
		to(md)
		writeStatus(t, md)
	}
}

// updated has so many Machines of the newest template, all of them available.
func updated(md *clusterv1.MachineDeployment, n int32) {
	md.Status.Replicas, md.Status.UpToDateReplicas, md.Status.AvailableReplicas = new(int32(6)), new(n), new(n)
	md.Status.Conditions = nil
}

func failing(condition, reason, message string) func(*clusterv1.MachineDeployment) {
	return func(md *clusterv1.MachineDeployment) {
		updated(md, 3)
		md.Status.Conditions = []metav1.Condition{{Type: condition, Status: metav1.ConditionFalse, Reason: reason, Message: message, LastTransitionTime: metav1.NewTime(noon)}}
	}
}

// TestRolloutIsFollowedToItsEnd has each end of a rollout, with both commands that follow one.
func TestRolloutIsFollowedToItsEnd(t *testing.T) {
	t.Parallel()
	const waiting = "Waiting for the newest spec to be observed"
	for name, test := range map[string]struct {
		args  []string
		then  func(*testing.T, client.ObjectKey) []func()
		lines []string
		err   string
		code  int
	}{
		"status-complete": {
			[]string{"rollout", "status", "web"},
			func(t *testing.T, key client.ObjectKey) []func() {
				t.Helper()
				return []func(){change(t, key, func(md *clusterv1.MachineDeployment) { updated(md, 3) }), change(t, key, func(md *clusterv1.MachineDeployment) { updated(md, 6) })}
			},
			[]string{waiting, "3 of 6 Machines are up to date, 3 available", "MachineDeployment web is rolled out: 6 of 6 Machines are up to date, 6 available"}, "", ExitOK,
		},
		"status-overdue": {
			[]string{"rollout", "status", "web"},
			func(t *testing.T, key client.ObjectKey) []func() {
				t.Helper()
				return []func(){change(t, key, failing(droverpolicyv1.ProgressingCondition, "ProgressDeadlineExceeded", "No progress for 10m\n* see Machine a"))}
			},
			[]string{waiting, "3 of 6 Machines are up to date, 3 available: No progress for 10m; see Machine a"}, "", ExitProblem,
		},
		"status-deleted": {
			[]string{"rollout", "status", "web"},
			func(t *testing.T, key client.ObjectKey) []func() {
				t.Helper()
				return []func(){func() {
					if err := management.Client(t).Delete(t.Context(), deploymentOf(t, key)); err != nil {
						t.Error(err)
					}
				}}
			},
			[]string{waiting}, `error: there is no MachineDeployment "web" in namespace "follow-status-deleted"` + "\n", ExitError,
		},
		"watch-complete": {
			[]string{"watch", "md/web"},
			func(t *testing.T, key client.ObjectKey) []func() {
				t.Helper()
				return []func(){change(t, key, func(md *clusterv1.MachineDeployment) { updated(md, 6) })}
			},
			[]string{waiting, "MachineDeployment web is rolled out: 6 of 6 Machines are up to date, 6 available"}, "", ExitOK,
		},
		"watch-refused-rollback": {
			[]string{"watch", "web"},
			func(t *testing.T, key client.ObjectKey) []func() {
				t.Helper()
				return []func(){change(t, key, failing(droverpolicyv1.RolledBackCondition, "RevisionNotKept", "there is no revision 9"))}
			},
			[]string{waiting, "3 of 6 Machines are up to date, 3 available: there is no revision 9"}, "", ExitProblem,
		},
		"watch-deleted": {
			[]string{"watch", "web"},
			func(t *testing.T, key client.ObjectKey) []func() {
				t.Helper()
				return []func(){func() {
					if err := management.Client(t).Delete(t.Context(), deploymentOf(t, key)); err != nil {
						t.Error(err)
					}
				}}
			},
			[]string{waiting}, `error: there is no MachineDeployment "web" in namespace "follow-watch-deleted"` + "\n", ExitError,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			key := pool(t, "follow-"+name)
			lines, errOut, code := follow(t.Context(), t, atNoon, append(test.args, "--namespace", key.Namespace), test.then(t, key)...)
			if diff := cmp.Diff(test.lines, lines); diff != "" || code != test.code || errOut != test.err {
				t.Errorf("exit code %d, error %q, lines (-want +got):\n%s", code, errOut, diff)
			}
		})
	}
}

// TestWatchEstimatesFromThePaceItHasSeen has a clock that goes on by two minutes with each Machine.
func TestWatchEstimatesFromThePaceItHasSeen(t *testing.T) {
	t.Parallel()
	key := pool(t, "follow-estimate")
	change(t, key, func(md *clusterv1.MachineDeployment) { updated(md, 2) })()
	now := noon
	step := func(n int32) func() {
		return func() {
			now = now.Add(2 * time.Minute)
			change(t, key, func(md *clusterv1.MachineDeployment) { updated(md, n) })()
		}
	}
	lines, errOut, code := follow(t.Context(), t, func() time.Time { return now }, []string{"watch", "web", "--namespace", key.Namespace}, step(3), step(6))
	want := []string{
		"2 of 6 Machines are up to date, 2 available",
		"about 6m left at this pace: 3 of 6 Machines are up to date, 3 available",
		"MachineDeployment web is rolled out: 6 of 6 Machines are up to date, 6 available",
	}
	if diff := cmp.Diff(want, lines); diff != "" || code != ExitOK {
		t.Errorf("exit code %d, error %q, lines (-want +got):\n%s", code, errOut, diff)
	}
}

// TestMachineIsWatchedUntilItIsWellOrGone has one that joins, and one that is deleted, whose finalizer is removed later.
func TestMachineIsWatchedUntilItIsWellOrGone(t *testing.T) {
	t.Parallel()
	key := pool(t, "follow-machines")
	c := management.Client(t)
	const waiting = `Provisioning: no capacity for "large" in "zone-a": sold out; wait, or use another instance type or zone; tried again at 2026-03-01T12:02:00Z`
	t.Run("well", func(t *testing.T) {
		t.Parallel()
		joins := func() {
			m := machineNamed(t, key.Namespace, "web-new-0")
			m.Status.Phase = "Running"
			m.Status.Conditions = []metav1.Condition{{Type: "Ready", Status: metav1.ConditionTrue, Reason: "Ready", LastTransitionTime: metav1.NewTime(noon)}}
			writeStatus(t, m)
		}
		lines, errOut, code := follow(t.Context(), t, atNoon, []string{"watch", "machine/web-new-0", "--namespace", key.Namespace}, joins)
		if diff := cmp.Diff([]string{"Machine web-new-0, " + waiting, "Machine web-new-0 is well"}, lines); diff != "" || code != ExitOK {
			t.Errorf("exit code %d, error %q, lines (-want +got):\n%s", code, errOut, diff)
		}
	})
	t.Run("gone", func(t *testing.T) {
		t.Parallel()
		held := machineNamed(t, key.Namespace, "web-new-1")
		held.Finalizers = []string{clusterv1.MachineFinalizer}
		if err := c.Update(t.Context(), held); err != nil {
			t.Fatal(err)
		}
		deleted := func() {
			if err := c.Delete(t.Context(), held); err != nil {
				t.Error(err)
			}
		}
		released := func() {
			m := machineNamed(t, key.Namespace, "web-new-1")
			m.Finalizers = nil
			if err := c.Update(t.Context(), m); err != nil {
				t.Error(err)
			}
		}
		lines, errOut, code := follow(t.Context(), t, atNoon, []string{"watch", "machine", "web-new-1", "--namespace", key.Namespace}, deleted, released)
		want := []string{"Machine web-new-1, " + waiting, "Machine web-new-1, Provisioning: no manager has acted on its deletion yet", "Machine web-new-1 is gone"}
		if diff := cmp.Diff(want, lines); diff != "" || code != ExitOK {
			t.Errorf("exit code %d, error %q, lines (-want +got):\n%s", code, errOut, diff)
		}
	})
	t.Run("interrupted", func(t *testing.T) {
		t.Parallel()
		for _, args := range [][]string{{"watch", "machine/web-new-2"}, {"watch", "md/web"}, {"rollout", "status", "web"}} {
			ctx, interrupt := context.WithCancel(t.Context())
			lines, errOut, code := follow(ctx, t, atNoon, append(args, "--namespace", key.Namespace), interrupt)
			if code != ExitProblem || len(lines) != 2 || lines[1] != "Gave up waiting" || errOut != "" {
				t.Errorf("%v: exit code %d, lines %q, error %q", args, code, lines, errOut)
			}
		}
	})
}

// TestWhatDoesNotChangeIsPrintedOnce has a rollout and a Machine that wait for longer than the time between two looks.
func TestWhatDoesNotChangeIsPrintedOnce(t *testing.T) {
	t.Parallel()
	key := pool(t, "follow-unchanged")
	for name, args := range map[string][]string{"status": {"rollout", "status", "web"}, "rollout": {"watch", "md/web"}, "machine": {"watch", "machine/web-new-2"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			lines, errOut, code := follow(t.Context(), t, atNoon, append(args, "--namespace", key.Namespace, "--timeout=3s"))
			if code != ExitProblem || len(lines) != 2 || lines[1] != "Gave up waiting" || errOut != "" {
				t.Errorf("exit code %d, lines %q, error %q", code, lines, errOut)
			}
		})
	}
}

// TestWatchEndsWithAnError has an API server that fails after a first answer; on a terminal the line that was replaced ends first.
func TestWatchEndsWithAnError(t *testing.T) {
	t.Parallel()
	broken := errors.New("etcd is away")
	for terminal, want := range map[bool]string{true: "\r\x1b[Kone\r\x1b[K\n", false: "one\n"} {
		var out bytes.Buffer
		s := &session{env: Environment{Streams: genericiooptions.IOStreams{Out: &out}}, raw: &out, terminal: terminal}
		looks := 0
		err := s.watch(t.Context(), func(context.Context) (observation, error) {
			if looks++; looks > 1 {
				return observation{}, broken
			}
			return observation{line: "one"}, nil
		})
		if !errors.Is(err, broken) || out.String() != want {
			t.Errorf("terminal %t: error %v, output %q, want %q", terminal, err, out.String(), want)
		}
	}
}

// TestWatchPrintsTheFailureOfARollout as its last line, on a terminal too.
func TestWatchPrintsTheFailureOfARollout(t *testing.T) {
	t.Parallel()
	for terminal, want := range map[bool]string{true: "\r\x1b[Kno progress\n", false: "no progress\n"} {
		var out bytes.Buffer
		s := &session{env: Environment{Streams: genericiooptions.IOStreams{Out: &out}}, raw: &out, terminal: terminal}
		err := s.watch(t.Context(), func(context.Context) (observation, error) { return observation{line: "no progress", failed: true}, nil })
		if !errors.Is(err, errProblemFound) || out.String() != want {
			t.Errorf("terminal %t: error %v, output %q, want %q", terminal, err, out.String(), want)
		}
	}
}

// overdueContext has a deadline in the past whose timer has not ended it yet.
type overdueContext struct{ context.Context }

// Deadline implements [context.Context].
func (overdueContext) Deadline() (time.Time, bool) { return time.Unix(0, 0), true }

// TestDeadlineBeforeItsTimer has a request that is refused between the deadline and the end of the context.
func TestDeadlineBeforeItsTimer(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	s := &session{env: Environment{Streams: genericiooptions.IOStreams{Out: &out}}}
	ctx, cancel := context.WithCancel(t.Context())
	err := s.watch(overdueContext{ctx}, func(context.Context) (observation, error) {
		time.AfterFunc(0, cancel)
		return observation{}, errors.New("rate: Wait(n=1) would exceed context deadline")
	})
	if !errors.Is(err, errProblemFound) || out.String() != "Gave up waiting\n" {
		t.Errorf("error %v, output %q", err, out.String())
	}
}

// TestTimeoutOfAFollowerIsNoFailureOfTheQuestion has a deadline that ends during a request, whose error is not the answer.
func TestTimeoutOfAFollowerIsNoFailureOfTheQuestion(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	s := &session{env: Environment{Streams: genericiooptions.IOStreams{Out: &out}}}
	ctx, cancel := context.WithCancel(t.Context())
	err := s.watch(ctx, func(context.Context) (observation, error) {
		cancel()
		return observation{}, fmt.Errorf("the request: %w", context.Canceled)
	})
	if !errors.Is(err, errProblemFound) || out.String() != "Gave up waiting\n" {
		t.Errorf("error %v, output %q", err, out.String())
	}
}
