// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package claim

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	droverpolicyv1 "drover.io/api/policy/v1alpha1"
	"drover.io/machine-controller/internal/testenv"
	"drover.io/machine-controller/internal/workload"
	record "drover.io/runtime/claim"
	"drover.io/runtime/envtest"
)

// server is both the management clusters, each in a namespace of its own, and the workload cluster.
var server = &envtest.Server{Project: true}

func TestMain(m *testing.M) { envtest.Main(m, server.Stop) }

// management is one management cluster, with the Cluster that it shares with its copies.
type management struct {
	t         *testing.T
	namespace string
	cluster   client.ObjectKey
}

func newManagement(t *testing.T) management {
	t.Helper()
	m := management{t: t, namespace: server.Namespace(t)}
	cluster := testenv.Cluster(m.namespace)
	if err := server.Client(t).Create(t.Context(), cluster); err != nil {
		t.Fatal(err)
	}
	m.cluster = client.ObjectKeyFromObject(cluster)
	return m
}

// copied is a second management cluster with the same history as this one has now.
func (m management) copied() management {
	m.t.Helper()
	other := management{t: m.t, namespace: server.Namespace(m.t), cluster: m.cluster}
	lease := &coordinationv1.Lease{}
	if err := server.Client(m.t).Get(m.t.Context(), client.ObjectKey{Namespace: m.namespace, Name: record.HistoryLeaseName}, lease); err != nil {
		m.t.Fatal(err)
	}
	lease.ObjectMeta = metav1.ObjectMeta{Namespace: other.namespace, Name: record.HistoryLeaseName, Annotations: lease.Annotations}
	if err := server.Client(m.t).Create(m.t.Context(), lease); err != nil {
		m.t.Fatal(err)
	}
	return other
}

// process is machine-controller, started in a management cluster.
func (m management) process(holder string) *Claimer {
	m.t.Helper()
	c := &Claimer{
		History: &History{Client: server.Client(m.t), Namespace: m.namespace, Holder: holder, Clock: clock.RealClock{}},
		// All copies share the Cluster object here.
		Clusters: server.Client(m.t), Clock: clock.RealClock{},
	}
	m.advance(c)
	return c
}

func (m management) advance(c *Claimer) {
	m.t.Helper()
	if err := c.History.Advance(m.t.Context()); err != nil {
		m.t.Fatal(err)
	}
}

// claim returns what comes of a claim.
func (m management) claim(c *Claimer) workload.ClaimStatus {
	m.t.Helper()
	got, err := c.Claim(m.t.Context(), server.Client(m.t), m.cluster)
	if err != nil {
		m.t.Fatal(err)
	}
	if (got.Status == workload.ClaimHeld) != (got.Message == "") {
		m.t.Errorf("%s with the message %q", got.Status, got.Message)
	}
	return got.Status
}

func TestOnlyARecordedClaimIsTakenOver(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		// run returns who claims last.
		run  func(m management) (management, *Claimer)
		want workload.ClaimStatus
	}{
		"is held by the first": {func(m management) (management, *Claimer) {
			return m, m.process("a")
		}, workload.ClaimHeld},
		"is renewed by the holder": {func(m management) (management, *Claimer) {
			a := m.process("a")
			m.claim(a)
			m.advance(a)
			return m, a
		}, workload.ClaimHeld},
		"gives it to the next process of the same management cluster": {func(m management) (management, *Claimer) {
			m.claim(m.process("a"))
			return m, m.process("b")
		}, workload.ClaimHeld},
		"gives it to a process that came long after the holder": {func(m management) (management, *Claimer) {
			m.claim(m.process("a"))
			m.process("b")
			m.process("c")
			return m, m.process("d")
		}, workload.ClaimHeld},
		"gives it to the one that leads after another was suspended while it led, and woke up": {func(m management) (management, *Claimer) {
			a, b := m.process("a"), m.process("b")
			m.claim(b)
			m.advance(a)
			m.claim(a)
			m.advance(b)
			return m, b
		}, workload.ClaimHeld},
		"refuses a copy, because the original went on": {func(m management) (management, *Claimer) {
			a := m.process("a")
			m.claim(a)
			other := m.copied()
			m.advance(a)
			m.claim(a)
			return other, other.process("b")
		}, workload.ClaimForeign},
		"refuses a copy, although the original was restarted": {func(m management) (management, *Claimer) {
			m.claim(m.process("a"))
			other := m.copied()
			m.claim(m.process("b"))
			return other, other.process("c")
		}, workload.ClaimForeign},
		"refuses the original after a copy of the same moment was quicker": {func(m management) (management, *Claimer) {
			a := m.process("a")
			m.claim(a)
			other := m.copied()
			other.claim(other.process("b"))
			m.advance(a)
			return m, a
		}, workload.ClaimForeign},
		"refuses a process that lost the lead without noticing": {func(m management) (management, *Claimer) {
			a := m.process("a")
			m.claim(a)
			m.claim(m.process("b"))
			return m, a
		}, workload.ClaimForeign},
		"refuses a management cluster without history": {func(m management) (management, *Claimer) {
			m.claim(m.process("a"))
			other := management{t: m.t, namespace: server.Namespace(m.t), cluster: m.cluster}
			return other, other.process("b")
		}, workload.ClaimForeign},
		"gives what was released to any management cluster": {func(m management) (management, *Claimer) {
			a := m.process("a")
			m.claim(a)
			if err := a.Release(m.t.Context(), server.Client(m.t), m.cluster); err != nil {
				m.t.Fatal(err)
			}
			other := management{t: m.t, namespace: server.Namespace(m.t), cluster: m.cluster}
			return other, other.process("b")
		}, workload.ClaimHeld},
		"keeps it when another process would release it": {func(m management) (management, *Claimer) {
			a := m.process("a")
			m.claim(a)
			other := management{t: m.t, namespace: server.Namespace(m.t), cluster: m.cluster}
			b := other.process("b")
			if err := b.Release(m.t.Context(), server.Client(m.t), m.cluster); err != nil {
				m.t.Fatal(err)
			}
			return other, b
		}, workload.ClaimForeign},
		"does not accept a claim without a sequence number": {func(m management) (management, *Claimer) {
			a := m.process("a")
			m.claim(a)
			m.edit(func(lease *coordinationv1.Lease) { delete(lease.Annotations, record.SequenceAnnotation) })
			return m, m.process("b")
		}, workload.ClaimForeign},
		"does not accept a claim without a holder": {func(m management) (management, *Claimer) {
			a := m.process("a")
			m.claim(a)
			m.edit(func(lease *coordinationv1.Lease) { lease.Spec.HolderIdentity = nil })
			return m, a
		}, workload.ClaimForeign},
		"follows an operator who names the holder": {func(m management) (management, *Claimer) {
			m.claim(m.process("a"))
			other := management{t: m.t, namespace: server.Namespace(m.t), cluster: m.cluster}
			m.takeOverFrom("a")
			return other, other.process("b")
		}, workload.ClaimHeld},
		"does not follow an operator who named another holder": {func(m management) (management, *Claimer) {
			m.claim(m.process("a"))
			other := management{t: m.t, namespace: server.Namespace(m.t), cluster: m.cluster}
			m.takeOverFrom("z")
			return other, other.process("b")
		}, workload.ClaimForeign},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if last, claimer := test.run(newManagement(t)); last.claim(claimer) != test.want {
				t.Errorf("the claim is not %s", test.want)
			}
		})
	}
}

func (m management) edit(change func(*coordinationv1.Lease)) {
	m.t.Helper()
	lease := &coordinationv1.Lease{}
	if err := server.Client(m.t).Get(m.t.Context(), record.LeaseKey(m.cluster), lease); err != nil {
		m.t.Fatal(err)
	}
	change(lease)
	if err := server.Client(m.t).Update(m.t.Context(), lease); err != nil {
		m.t.Fatal(err)
	}
}

func (m management) takeOverFrom(holder string) {
	m.t.Helper()
	cluster := testenv.Cluster(m.cluster.Namespace)
	patch := fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}}}`, droverpolicyv1.TakeOverAnnotation, holder)
	if err := server.Client(m.t).Patch(m.t.Context(), cluster, client.RawPatch("application/merge-patch+json", []byte(patch))); err != nil {
		m.t.Fatal(err)
	}
}

// TestTwoClaimersOfOneMomentNeverBothHold has a copy and its original claim at once, many times: the API server of
// the workload cluster accepts one of them.
func TestTwoClaimersOfOneMomentNeverBothHold(t *testing.T) {
	t.Parallel()
	m := newManagement(t)
	m.claim(m.process("before"))
	other := m.copied()
	a, b := m.process("a"), other.process("b")
	answers := make(chan workload.ClaimStatus, 2)
	for _, each := range []*Claimer{a, b} {
		go func() {
			claim, err := each.Claim(context.WithoutCancel(t.Context()), server.Client(t), m.cluster)
			if err != nil {
				claim.Status = workload.ClaimUnknown // a conflict: tried again with the next probe
			}
			answers <- claim.Status
		}()
	}
	<-answers
	<-answers
	if m.claim(a) == other.claim(b) {
		t.Error("both hold the claim, or neither")
	}
}

func TestAClaimNamesHolderLeaseAndWayOut(t *testing.T) {
	t.Parallel()
	m := newManagement(t)
	m.claim(m.process("their-host"))
	other := management{t: t, namespace: server.Namespace(t), cluster: m.cluster}
	got, err := other.process("b").Claim(t.Context(), server.Client(t), m.cluster)
	if err != nil {
		t.Fatal(err)
	}
	for _, word := range []string{record.LeaseKey(m.cluster).Name, `"their-host"`, droverpolicyv1.TakeOverAnnotation + "=their-host"} {
		if !strings.Contains(got.Message, word) {
			t.Errorf("%q does not contain %q", got.Message, word)
		}
	}
}

func TestAWorkloadClusterThatPermitsNoLeasesIsNotClaimed(t *testing.T) {
	t.Parallel()
	m := newManagement(t)
	config, err := server.Start()
	if err != nil {
		t.Fatal(err)
	}
	noHolder := rest.CopyConfig(config)
	noHolder.Impersonate = rest.ImpersonationConfig{UserName: "unprivileged"}
	remote, err := client.New(noHolder, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	got, err := m.process("a").Claim(t.Context(), remote, m.cluster)
	if err != nil || got.Status != workload.ClaimForbidden || !strings.Contains(got.Message, "config/workload") {
		t.Errorf("got %+v and %v", got, err)
	}
}

// TestTheShippedRoleIsEnough applies the manifest for workload clusters and claims as a member of its group.
func TestTheShippedRoleIsEnough(t *testing.T) {
	t.Parallel()
	m := newManagement(t)
	apply(t, "../../config/workload/rbac.yaml")
	config, err := server.Start()
	if err != nil {
		t.Fatal(err)
	}
	member := rest.CopyConfig(config)
	member.Impersonate = rest.ImpersonationConfig{UserName: "manager", Groups: []string{"drover:managers"}}
	remote, err := client.New(member, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	a := m.process("a")
	for range 2 {
		if got, err := a.Claim(t.Context(), remote, m.cluster); err != nil || got.Status != workload.ClaimHeld {
			t.Fatalf("got %+v and %v", got, err)
		}
	}
	if err := a.Release(t.Context(), remote, m.cluster); err != nil {
		t.Error(err)
	}
}

func TestAMarkIsStoredBeforeItIsUsed(t *testing.T) {
	t.Parallel()
	namespace := server.Namespace(t)
	history := &History{Client: server.Client(t), Namespace: namespace, Holder: "a", Clock: clock.RealClock{}}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if mark, err := history.Mark(ended); err == nil {
		t.Errorf("got the mark %+v before any was stored", mark)
	}
	for range 3 {
		if err := history.Advance(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	lease := &coordinationv1.Lease{}
	if err := server.Client(t).Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: record.HistoryLeaseName}, lease); err != nil {
		t.Fatal(err)
	}
	stored, err := record.HistoryOf(lease)
	if err != nil {
		t.Fatal(err)
	}
	mark, err := history.Mark(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]record.Mark{{Holder: "a", Sequence: 3}}, append(stored[:0:0], mark)); diff != "" || len(stored) != 1 || stored[0] != mark {
		t.Errorf("stored %+v, in use %+v", stored, mark)
	}
	if got := ptr.Deref(lease.Spec.HolderIdentity, ""); got != "a" {
		t.Errorf("the holder is %q", got)
	}
}

func TestUnreadableHistoryIsNotReplaced(t *testing.T) {
	t.Parallel()
	namespace := server.Namespace(t)
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: record.HistoryLeaseName, Annotations: map[string]string{record.HistoryAnnotation: "scribble"}}}
	if err := server.Client(t).Create(t.Context(), lease); err != nil {
		t.Fatal(err)
	}
	history := &History{Client: server.Client(t), Namespace: namespace, Holder: "a", Clock: clock.RealClock{}}
	if err := history.Advance(t.Context()); err == nil || !strings.Contains(err.Error(), record.HistoryAnnotation) {
		t.Errorf("got %v, want an error that names the annotation", err)
	}
}

func TestAHistoryHasAnEnd(t *testing.T) {
	t.Parallel()
	var history []record.Mark
	for n := range 3 * maxHolders {
		history = advance(history, fmt.Sprint("holder-", n))
	}
	if last := history[len(history)-1]; len(history) != maxHolders || last.Sequence != 3*maxHolders {
		t.Errorf("%d marks, the last is %+v", len(history), last)
	}
}

func apply(t *testing.T, file string) {
	t.Helper()
	opened, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = opened.Close() }() // it was only read
	for decoder := yaml.NewYAMLOrJSONDecoder(opened, 4096); ; {
		object := &unstructured.Unstructured{}
		if err := decoder.Decode(object); errors.Is(err, io.EOF) {
			return
		} else if err != nil {
			t.Fatal(err)
		}
		if err := server.Client(t).Create(t.Context(), object); err != nil {
			t.Fatal(err)
		}
	}
}
