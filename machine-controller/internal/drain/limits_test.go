// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package drain

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"drover.io/machine-controller/internal/paging"
	"drover.io/runtime/drainplan"
)

func TestDrainNodeEvictsSoManyPerPass(t *testing.T) {
	t.Parallel()
	s := newTestNode(t)
	s.pod("a", withPriority(0))
	s.pod("b")
	s.pod("c")
	s.pod("d")
	s.pod("e")
	d, req := &Drainer{MaxEvictions: 2, PageSize: 2}, s.request()
	counted := counting(s)
	req.Client = counted

	result := s.pass(d, req)
	s.wantPods("a! b! c d e")
	s.wantMessage(result.Progress,
		"* Pods app/a, app/b: being deleted, waiting for the kubelet to end them",
		"* Pods app/c, app/d, app/e: next, limited per pass",
	)
	if result.RequeueAfter != soonest {
		t.Errorf("goes on after %s, want %s", result.RequeueAfter, soonest)
	}
	want := map[string]int{"list Pod": 3, "list PodDisruptionBudget": 1, "evict": 2}
	if diff := cmp.Diff(want, counted.counts()); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
	s.pass(d, req)
	s.pass(d, req)
	s.wantPods("a! b! c! d! e!")
}

func TestEvictsOtherPodsWhileOneEvictionHangs(t *testing.T) {
	t.Parallel()
	s := newTestNode(t)
	s.pod("a")
	s.pod("b")
	var tried []string
	req := s.request()
	req.Client = faulty(s, func(ctx context.Context, verb, name string) error {
		if verb != "evict" {
			return nil
		}
		tried = append(tried, name)
		if name == "a" {
			<-ctx.Done()
			return fmt.Errorf("waiting for a webhook: %w", ctx.Err())
		}
		return nil
	})
	d := &Drainer{PassTime: 8 * time.Second}

	result := s.pass(d, req)
	s.wantPods("a b!")
	s.wantMessage(result.Progress,
		"* Pod app/a: eviction was refused: no answer in time",
		"* Pod app/b: being deleted, waiting for the kubelet to end them",
	)
	s.pod("c")
	s.pass(d, req)
	if diff := cmp.Diff([]string{"a", "b", "c", "a"}, tried); diff != "" {
		t.Errorf("tried (-want +got):\n%s", diff)
	}
}

func TestDrainNodeWithoutPermissionToReadBudgets(t *testing.T) {
	t.Parallel()
	s := newTestNode(t)
	s.pod("a")
	s.pod("b", labelled("app", "free"))
	s.budget("web", "web", 0)
	req := s.request()
	req.Client = faulty(s, func(_ context.Context, verb, _ string) error {
		if verb == "list PodDisruptionBudget" {
			return apierrors.NewForbidden(schema.GroupResource{Group: "policy", Resource: "poddisruptionbudgets"}, "", nil)
		}
		return nil
	})
	result := s.pass(&Drainer{}, req)
	s.wantPods("a b!")
	s.wantMessage(result.Progress,
		"* Pod app/a: a PodDisruptionBudget allows no disruption now",
		"* Pod app/b: being deleted, waiting for the kubelet to end them",
	)
}

func TestDrainNodePausesForAnOverloadedAPIServer(t *testing.T) {
	t.Parallel()
	s := newTestNode(t)
	s.pod("a")
	s.pod("b")
	req := s.request()
	wire := faulty(s, func(_ context.Context, verb, _ string) error {
		if verb == "evict" {
			return apierrors.NewTooManyRequests("slow down", 7)
		}
		return nil
	})
	req.Client = wire
	result := s.pass(&Drainer{}, req)
	s.wantMessage(result.Progress, "* Pods app/a, app/b: next, limited per pass")
	if result.RequeueAfter != 7*time.Second || wire.counts()["evict"] != 1 {
		t.Errorf("got %s after %d evictions, want 7s after one", result.RequeueAfter, wire.counts()["evict"])
	}
}

// TestDrainNodeEvictsOthersWhenAWebhookRefusesWithTooManyRequests: an admission webhook that migrates the workload itself answers 429 without a PodDisruptionBudget.
func TestDrainNodeEvictsOthersWhenAWebhookRefusesWithTooManyRequests(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		refused    []string
		retryAfter int
		passes     int
		message    []string
	}{
		"one Pod, in the same pass": {[]string{"a"}, 0, 1, []string{
			"* Pod app/a: eviction was refused: being migrated",
			"* Pods app/c, app/d: being deleted, waiting for the kubelet to end them",
		}},
		"two Pods, which pause a pass": {[]string{"a", "b"}, 0, 2, []string{
			"* Pods app/a, app/b: eviction was refused: being migrated",
			"* Pods app/c, app/d: being deleted, waiting for the kubelet to end them",
		}},
		"two Pods, each of which pauses a pass": {[]string{"a", "b"}, 7, 3, []string{
			"* Pods app/c, app/d: being deleted, waiting for the kubelet to end them",
			"* Pods app/a, app/b: next, limited per pass",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newTestNode(t)
			want := "c! d!"
			for _, each := range test.refused {
				s.pod(each)
			}
			s.pod("c")
			s.pod("d")
			req := s.request()
			req.Client = faulty(s, func(_ context.Context, verb, name string) error {
				if verb == "evict" && slices.Contains(test.refused, name) {
					return apierrors.NewTooManyRequests("being migrated", test.retryAfter)
				}
				return nil
			})
			d := &Drainer{}
			var result Result
			for range test.passes {
				result = s.pass(d, req)
			}
			s.wantPods(strings.Join(append(test.refused, want), " "))
			s.wantMessage(result.Progress, test.message...)
		})
	}
}

// Whatever request gets no answer, the error is returned, nothing is lost, and the next pass continues.
func TestDrainRetriesLostRequests(t *testing.T) {
	t.Parallel()
	lost := errors.New("connection reset")
	tests := map[string]struct{ verb, pods, want string }{
		"of the list of Pods":       {verb: "list Pod", pods: "agent db web"},
		"for a DaemonSet":           {verb: "get DaemonSet", pods: "agent db web"},
		"for the budgets":           {verb: "list PodDisruptionBudget", pods: "agent db web", want: "* Pods app/agent, app/db, app/web: next, limited per pass"},
		"for an eviction":           {verb: "evict", pods: "agent db web", want: "* Pods app/agent, app/db, app/web: next, limited per pass"},
		"for a VolumeAttachment":    {verb: "list VolumeAttachment", pods: "agent db web", want: "* Pods app/agent, app/db, app/web: next, limited per pass"},
		"for a Namespace's labels ": {verb: "get Namespace", pods: "agent db web"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newTestNode(t)
			s.pod("agent", ownedBy("apps/v1", "DaemonSet"))
			s.pod("db", withClaim("data"))
			s.pod("web")
			req := s.request()
			req.SerialVolumes = true
			req.Rules = selectingNamespaces()
			req.Client = faulty(s, func(_ context.Context, verb, _ string) error {
				if verb == test.verb {
					return lost
				}
				return nil
			})
			d := &Drainer{}
			result, err := d.DrainNode(t.Context(), req)
			if !errors.Is(err, lost) || result.Done {
				t.Fatalf("got done %t and error %v, want the error that was lost", result.Done, err)
			}
			s.wantPods(test.pods)
			if test.want == "" {
				s.wantMessage(result.Progress)
			} else {
				s.wantMessage(result.Progress, test.want)
			}
			req.Client = s
			s.pass(d, req)
			s.wantPods("agent! db! web!")
		})
	}
}

// The answer to an eviction is lost, its effect is not.
func TestDrainRetriesALostResponse(t *testing.T) {
	t.Parallel()
	s := newTestNode(t)
	pod := s.pod("web")
	req := s.request()
	req.Client = faulty(s, func(ctx context.Context, verb, _ string) error {
		if verb != "evict" {
			return nil
		}
		if err := evict(ctx, s, drainplan.Decision{Pod: pod}); err != nil {
			return err
		}
		return errors.New("connection reset")
	})
	d := &Drainer{}
	if _, err := d.DrainNode(t.Context(), req); err == nil {
		t.Fatal("got no error")
	}
	req.Client = s
	if result := s.pass(d, req); len(result.Removed) > 0 || !result.Progress.Has(Terminating) {
		t.Errorf("got %+v, want to wait for the Pod", result)
	}
}

// TestFailsOnEndlessPodList reads from an API server that always has another page.
func TestFailsOnEndlessPodList(t *testing.T) {
	t.Parallel()
	s := newTestNode(t)
	req := s.request()
	req.Client = interceptor.NewClient(s, interceptor.Funcs{
		List: func(_ context.Context, _ client.WithWatch, list client.ObjectList, _ ...client.ListOption) error {
			list.SetContinue("more")
			return nil
		},
	})
	if _, err := (&Drainer{}).DrainNode(t.Context(), req); !errors.Is(err, paging.ErrEndless) {
		t.Errorf("got %v, want the error of a list without end", err)
	}
}

// TestRefusalsAreBounded: the workload cluster chooses the UIDs of its Node and of its Pods. Those of a Machine that is gone before its
// Node was drained are dropped after a while.
func TestRefusalsAreBounded(t *testing.T) {
	t.Parallel()
	s := newTestNode(t)
	s.pod("a")
	d, clock := &Drainer{}, clocktesting.NewFakePassiveClock(time.Now())
	d.refused.Clock = clock
	for n := range 3 {
		req := s.request()
		req.Machine, req.Node = "machine", req.Node.DeepCopy()
		req.Node.UID = types.UID(fmt.Sprint("node", n))
		req.Client = faulty(s, func(_ context.Context, verb, _ string) error {
			if verb == "evict" {
				return apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "a", errors.New("being migrated"))
			}
			return nil
		})
		s.pass(d, req)
		if kept := d.refused.Len(); kept != 1 {
			t.Errorf("after %d passes the refusals of %d Nodes are kept of one Machine", n+1, kept)
		}
	}
	clock.SetTime(time.Now().Add(rememberedFor))
	if kept := d.refused.Len(); kept != 0 {
		t.Errorf("the refusals of %d Machines are kept for more than %s", kept, rememberedFor)
	}
	all := refusals{}
	all.add(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: types.UID(strings.Repeat("x", 1<<20))}})
	for n := range 1000 {
		all.add(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: types.UID(fmt.Sprint(n))}})
	}
	if len(all) != maxRefusals || !all["0"] {
		t.Errorf("%d Pods are kept", len(all))
	}
}
