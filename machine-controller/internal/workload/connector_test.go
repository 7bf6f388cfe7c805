// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/rest"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"drover.io/machine-controller/internal/workload/nodecache"
)

var epoch = time.Date(2026, 1, 2, 3, 0, 0, 0, time.UTC)

// connectorTest runs a connector step by step, without its goroutines, and writes down
// one line per step.
type connectorTest struct {
	t        *testing.T
	clock    *clocktesting.FakeClock
	k        *connector
	enqueued int
	lines    []string
}

func newConnectorTest(t *testing.T) *connectorTest {
	t.Helper()
	clock := clocktesting.NewFakeClock(epoch)
	options := Options{Clock: clock, Jitter: func() float64 { return 0 }}.withDefaults()
	s := &connectorTest{t: t, clock: clock}
	s.k = &connector{
		options: &options,
		log:     logr.Discard(),
		changed: func() { s.enqueued++ },
		// The test sets the answers.
		dial:  func(context.Context, dialRequest) dialResult { return dialResult{} },
		probe: func(context.Context, *Connection) *failure { return nil },
		claim: func(context.Context, *Connection) *Claim { return nil },
	}
	s.k.initialize()
	// A connection that is replaced closes without grace.
	closed := make(chan struct{})
	close(closed)
	s.k.done = closed
	t.Cleanup(s.k.closing.Wait)
	return s
}

// connection is one that leads nowhere.
func (s *connectorTest) connection(content string) *Connection {
	s.t.Helper()
	c, failure := newDialer(s.k.options).open(&rest.Config{Host: "https://127.0.0.1:1"}, dialRequest{observer: nodecache.Observer{}})
	if failure != nil {
		s.t.Fatal(failure)
	}
	c.content = content
	return c
}

// step advances the time until something is due (or not at all), begins what is
// due, does what happened, and writes down what comes of it.
func (s *connectorTest) step(name string, do func()) {
	s.t.Helper()
	s.clock.Step(s.k.untilNext())
	dialing, probing := s.k.dialing, s.k.probing
	s.k.launch(s.t.Context())
	var began []string
	if s.k.dialing && !dialing {
		<-s.k.dialResults
		began = append(began, "dials")
	}
	if s.k.probing && !probing {
		<-s.k.probeResults
		began = append(began, "probes")
	}
	enqueued := s.enqueued
	do()
	s.k.publish()
	v := s.k.view.Load()
	line := fmt.Sprintf("+%-5s %s | %s:", s.clock.Since(epoch), strings.Join(began, " and "), name)
	if v.connection != nil {
		line += " connected by " + v.connection.content
	}
	if v.state.Connected != (v.connection != nil) {
		line += " BUT STATE DISAGREES"
	}
	if v.state.Reason != "" {
		line += " " + string(v.state.Reason)
	}
	if s.enqueued > enqueued {
		line += " (enqueues)"
	}
	s.lines = append(s.lines, line)
}

func (s *connectorTest) refused(reason Reason) func() {
	return func() { s.k.onDialResult(dialResult{failure: failed(reason, "x"), secretVersion: "1"}) }
}

func (s *connectorTest) connected(content, version string) func() {
	return func() { s.k.onDialResult(dialResult{connection: s.connection(content), secretVersion: version}) }
}

func (s *connectorTest) unchanged(version string) func() {
	return func() { s.k.onDialResult(dialResult{secretVersion: version}) }
}

func (s *connectorTest) probed(f *failure) func() {
	return func() { s.k.onProbeResult(probeResult{connection: s.k.connection, failure: f}) }
}

func (s *connectorTest) secret(version string) func() {
	return func() { s.k.secretSeen(version); s.k.onSecret() }
}

func (s *connectorTest) nothing() {}

func (s *connectorTest) want(lines ...string) {
	s.t.Helper()
	if diff := cmp.Diff(lines, s.lines); diff != "" {
		s.t.Errorf("-want +got:\n%s", diff)
	}
}

func TestConnectorBacksOff(t *testing.T) {
	t.Parallel()
	s := newConnectorTest(t)
	for range 8 {
		s.step("fails", s.refused(ReasonUnreachable))
	}
	s.step("connects", s.connected("A", "1"))
	s.want(
		"+0s    dials | fails: Unreachable (enqueues)",
		"+500ms dials | fails: Unreachable",
		"+1.5s  dials | fails: Unreachable",
		"+3.5s  dials | fails: Unreachable",
		"+7.5s  dials | fails: Unreachable",
		"+15.5s dials | fails: Unreachable",
		"+30.5s dials | fails: Unreachable",
		"+45.5s dials | fails: Unreachable",
		"+1m0.5s dials | connects: connected by A (enqueues)",
	)
}

func TestConnectorDisconnectsAfterFiveFailedProbes(t *testing.T) {
	t.Parallel()
	s := newConnectorTest(t)
	down := failed(ReasonUnreachable, "x")
	s.step("connects", s.connected("A", "1"))
	for range 4 {
		s.step("fails", s.probed(down))
	}
	s.step("recovers", s.probed(nil))
	for range 5 {
		s.step("fails", s.probed(down))
	}
	s.step("fails to connect", s.refused(ReasonUnreachable))
	s.step("connects", s.connected("A", "1"))
	s.want(
		"+0s    dials | connects: connected by A (enqueues)",
		"+10s   probes | fails: connected by A Unreachable (enqueues)",
		"+20s   probes | fails: connected by A Unreachable",
		"+30s   probes | fails: connected by A Unreachable",
		"+40s   probes | fails: connected by A Unreachable",
		"+50s   probes | recovers: connected by A (enqueues)",
		"+1m0s  probes | fails: connected by A Unreachable (enqueues)",
		"+1m10s probes | fails: connected by A Unreachable",
		"+1m20s probes | fails: connected by A Unreachable",
		"+1m30s probes | fails: connected by A Unreachable",
		"+1m40s probes | fails: Unreachable (enqueues)",
		"+1m40s dials | fails to connect: Unreachable",
		"+1m40.5s dials | connects: connected by A (enqueues)",
	)
}

func TestConnectorReadsTheKubeconfigAgainWhenUnauthorized(t *testing.T) {
	t.Parallel()
	s := newConnectorTest(t)
	refused := failed(ReasonUnauthorized, "x")
	s.step("connects", s.connected("A", "1"))
	s.step("is refused", s.probed(refused))
	s.step("has a new kubeconfig", s.connected("B", "2"))
	s.step("is refused", s.probed(refused))
	s.step("is refused again", s.refused(ReasonUnauthorized))
	s.step("connects", s.connected("C", "3"))
	s.want(
		"+0s    dials | connects: connected by A (enqueues)",
		"+10s   probes | is refused: connected by A Unauthorized (enqueues)",
		"+10s   dials | has a new kubeconfig: connected by B (enqueues)",
		"+20s   probes | is refused: connected by B Unauthorized (enqueues)",
		"+20s   dials | is refused again: Unauthorized (enqueues)",
		"+20.5s dials | connects: connected by C (enqueues)",
	)
}

func TestConnectorFollowsTheSecret(t *testing.T) {
	t.Parallel()
	s := newConnectorTest(t)
	s.step("is missing", func() { s.k.onDialResult(dialResult{failure: failed(ReasonKubeconfigMissing, "x")}) })
	s.step("is missing", func() { s.k.onDialResult(dialResult{failure: failed(ReasonKubeconfigMissing, "x")}) })
	s.clock.SetTime(epoch.Add(time.Second))
	s.step("begins", s.nothing)
	s.step("appears meanwhile", s.secret("1"))
	s.step("was read too early", func() { s.k.onDialResult(dialResult{failure: failed(ReasonKubeconfigMissing, "x")}) })
	s.step("connects", s.connected("A", "1"))
	s.step("is seen as used", s.secret("1"))
	s.step("gets a label", s.secret("2"))
	s.step("is the same", s.unchanged("2"))
	s.step("is rotated", s.secret("3"))
	s.step("is broken", func() {
		s.k.onDialResult(dialResult{failure: failed(ReasonKubeconfigInvalid, "x"), secretVersion: "3"})
	})
	s.step("is rotated", s.secret("4"))
	s.step("works", s.connected("B", "4"))
	s.want(
		"+0s    dials | is missing: KubeconfigMissing (enqueues)",
		"+500ms dials | is missing: KubeconfigMissing",
		"+1.5s  dials | begins: KubeconfigMissing",
		"+1h0m1.5s  | appears meanwhile: KubeconfigMissing",
		"+2h0m1.5s  | was read too early: KubeconfigMissing",
		"+2h0m1.5s dials | connects: connected by A (enqueues)",
		"+2h0m11.5s probes | is seen as used: connected by A",
		"+3h0m11.5s  | gets a label: connected by A",
		"+3h0m11.5s dials | is the same: connected by A",
		"+4h0m11.5s  | is rotated: connected by A",
		"+4h0m11.5s dials | is broken: connected by A KubeconfigInvalid (enqueues)",
		"+4h0m12s dials | is rotated: connected by A KubeconfigInvalid",
		"+5h0m12s  | works: connected by B (enqueues)",
	)
}

func TestConnectorListsWithoutStreamAfterOneThatNeverEnds(t *testing.T) {
	t.Parallel()
	s := newConnectorTest(t)
	late := failed(ReasonUnreachable, "x")
	late.late = true
	requests := []bool{}
	s.k.dial = func(_ context.Context, c dialRequest) dialResult {
		requests = append(requests, c.plainList)
		return dialResult{}
	}
	lates := []bool{}
	dial := s.k.dial
	s.k.dial = func(ctx context.Context, c dialRequest) dialResult {
		lates = append(lates, c.late)
		return dial(ctx, c)
	}
	for range 3 {
		s.step("is late", func() { s.k.onDialResult(dialResult{failure: late}) })
	}
	if diff := cmp.Diff([]bool{false, true, false}, requests); diff != "" {
		t.Errorf("plain lists: -want +got:\n%s", diff)
	}
	if diff := cmp.Diff([]bool{false, true, true}, lates); diff != "" {
		t.Errorf("dials as one that was late: -want +got:\n%s", diff)
	}
}

func TestConnectorKeepsTimes(t *testing.T) {
	t.Parallel()
	s := newConnectorTest(t)
	down := failed(ReasonUnreachable, "the wire is cut")
	s.step("fails", s.refused(ReasonUnreachable))
	s.step("connects", s.connected("A", "1"))
	s.step("is rotated", s.secret("2"))
	s.step("is rotated", s.connected("B", "2"))
	s.step("fails", s.probed(down))
	at := func(d time.Duration) time.Time { return epoch.Add(d) }
	want := State{
		Connected: true, ConnectedSince: at(500 * time.Millisecond),
		LastProbe: s.clock.Now(), LastProbeSuccess: s.k.state.LastProbeSuccess, ConsecutiveFailures: 1,
		Reason: ReasonUnreachable, Message: "the wire is cut",
	}
	if diff := cmp.Diff(want, s.k.view.Load().state); diff != "" {
		t.Errorf("while connected: -want +got:\n%s", diff)
	}
	success := s.k.state.LastProbeSuccess
	for range 4 {
		s.step("fails", s.probed(down))
	}
	want = State{
		DisconnectedSince: s.clock.Now(), LastProbe: s.clock.Now(), LastProbeSuccess: success, ConsecutiveFailures: 5,
		Reason: ReasonUnreachable, Message: "the wire is cut",
	}
	if diff := cmp.Diff(want, s.k.view.Load().state); diff != "" {
		t.Errorf("after that: -want +got:\n%s", diff)
	}
	if success.IsZero() || !success.After(at(0)) {
		t.Errorf("last success is %s", success)
	}
}

func TestConnectorIgnoresTheProbeOfAReplacedConnection(t *testing.T) {
	t.Parallel()
	s := newConnectorTest(t)
	s.step("connects", s.connected("A", "1"))
	old := s.k.connection
	s.step("is rotated", s.connected("B", "2"))
	s.step("late result", func() { s.k.onProbeResult(probeResult{connection: old, failure: failed(ReasonUnauthorized, "x")}) })
	s.want(
		"+0s    dials | connects: connected by A (enqueues)",
		"+10s   probes | is rotated: connected by B (enqueues)",
		"+1h0m10s  | late result: connected by B",
	)
}

func TestConnectorRenewsTheClaimOnceAMinuteAndRetriesAtEachProbe(t *testing.T) {
	t.Parallel()
	s := newConnectorTest(t)
	held, foreign := &Claim{Status: ClaimHeld}, &Claim{Status: ClaimForeign, Message: "m"}
	var requests []string
	s.k.claim = func(context.Context, *Connection) *Claim {
		requests = append(requests, s.clock.Since(epoch).String())
		return nil
	}
	claimed := func(c *Claim) func() {
		return func() { s.k.onProbeResult(probeResult{connection: s.k.connection, claim: c}) }
	}
	s.step("connects without an answer to its claim", s.connected("A", "1"))
	s.step("is refused", claimed(foreign))
	s.step("holds the claim", claimed(held))
	for range 7 {
		s.step("probes", s.probed(nil))
	}
	if got := s.k.view.Load().state.Claim; got != *held {
		t.Errorf("no answer changed the claim to %+v", got)
	}
	s.step("loses the claim", claimed(foreign))
	s.step("probes", s.probed(nil))
	if diff := cmp.Diff([]string{"10s", "20s", "1m20s", "1m30s", "1m40s", "1m50s"}, requests); diff != "" {
		t.Errorf("requests at: -want +got:\n%s", diff)
	}
	down := failed(ReasonUnreachable, "x")
	for range 5 {
		s.step("fails", s.probed(down))
	}
	if got := s.k.view.Load().state; got.Connected || got.Claim != *foreign {
		t.Errorf("after the connection is given up: %+v", got)
	}
}

// releasing is a Claimer that counts the claims that it gives up.
type releasing struct {
	unclaimed
	released int
}

func (r *releasing) Release(context.Context, client.Client, client.ObjectKey) error {
	r.released++
	return nil
}

func TestConnectorReleasesAClaimThatWasMadeWhileItsClusterWasDeleted(t *testing.T) {
	t.Parallel()
	s, claimer := newConnectorTest(t), &releasing{}
	s.k.options.Claimer = claimer
	s.k.dialing = true
	s.k.dialResults <- dialResult{connection: s.connection("A"), claim: &Claim{Status: ClaimHeld}}
	s.k.released.Store(true)
	s.k.end()
	if claimer.released != 1 {
		t.Errorf("released %d claims", claimer.released)
	}
}
