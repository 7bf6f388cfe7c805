// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package account

import (
	"fmt"
	"testing"
	"time"

	"drover.io/infra-providers/driver"
)

// TestSlowAccounts: an account is slow from the moment on when a call takes long, until a while after it ended.
func TestSlowAccounts(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_000_000, 0)
	g := newGate(9, func() time.Time { return now })
	slowOne, other := key{namespace: "a", Account: driver.Account{SecretName: "slow"}}, key{namespace: "a", Account: driver.Account{SecretName: "other"}}
	// most is how many calls get a worker; they end at once.
	most := func(k key) (got int) {
		t.Helper()
		var leave []func()
		for range 9 {
			if end, err := g.enter(k, k.namespace); err == nil {
				leave = append(leave, end)
			} else if !driver.IsBusy(err) {
				t.Fatal(err)
			}
		}
		for _, end := range leave {
			end()
			end() // counts once
		}
		return len(leave)
	}
	want := func(when string, k key, want int) {
		t.Helper()
		if got := most(k); got != want {
			t.Errorf("%s: %d calls get a worker, want %d", when, got, want)
		}
	}
	want("at first", slowOne, 5)
	end, err := g.enter(slowOne, slowOne.namespace)
	if err != nil {
		t.Fatal(err)
	}
	now = now.Add(slow - time.Nanosecond)
	want("while a call is not yet slow", slowOne, 4)
	now = now.Add(time.Nanosecond)
	want("while a call is slow", slowOne, 2)
	want("while another account of the namespace is slow", other, 4)
	end()
	want("after a slow call", slowOne, 2)
	now = now.Add(slowFor - time.Nanosecond)
	want("before it is forgotten", slowOne, 2)
	now = now.Add(time.Nanosecond)
	want("when it is forgotten", slowOne, 5)
	if len(g.accounts) > 0 {
		t.Errorf("%d accounts are remembered", len(g.accounts))
	}
}

// TestNamespacesShareAnAccount: of the provider's own credentials, which several namespaces use.
func TestNamespacesShareAnAccount(t *testing.T) {
	t.Parallel()
	g := newGate(10, time.Now)
	// most is how many calls of a namespace get a worker. They do not end before the test does.
	most := func(namespace string) (got int) {
		for range 10 {
			leave, err := g.enter(key{}, namespace)
			if err == nil {
				got++
				t.Cleanup(leave)
			}
		}
		return got
	}
	if first := most("a"); first != 3 {
		t.Errorf("one namespace gets %d workers, want 3 of the 5 of the account", first)
	}
	if second := most("b"); second < 1 {
		t.Error("another namespace gets no worker")
	}
	if leave, err := g.enter(key{Account: driver.Account{Region: "other"}}, "a"); err != nil {
		t.Errorf("another account: %v", err)
	} else {
		leave()
	}
}

// TestSlowCallsOfOneNamespaceLeaveTheAccountToOthers: in an account of the provider's own credentials, the look-ups of one
// namespace take long, such as those of a pattern in a large vCenter.
func TestSlowCallsOfOneNamespaceLeaveTheAccountToOthers(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_000_000, 0)
	g := newGate(20, func() time.Time { return now })
	// most is how many calls of a namespace get a worker, and how to end them.
	most := func(namespace string) (leave []func()) {
		for range 20 {
			if end, err := g.enter(key{}, namespace); err == nil {
				leave = append(leave, end)
			}
		}
		return leave
	}
	for _, end := range most("slow") {
		now = now.Add(slow)
		end()
	}
	again := most("slow")
	if len(again) != 3 {
		t.Errorf("a namespace that is slow gets %d workers, want 3 of the 6 of all that are", len(again))
	}
	other := most("other")
	if len(other) < 2 {
		t.Errorf("another namespace gets %d workers", len(other))
	}
	// The whole account is slow: all its namespaces have the seats of what is slow.
	for _, end := range append(again, other...) {
		now = now.Add(slow)
		end()
	}
	all := append(most("slow"), most("other")...)
	if len(all) > 6 {
		t.Errorf("an account that is slow for all namespaces gets %d workers, want 6 at most", len(all))
	}
	for _, end := range all {
		end()
	}
	now = now.Add(slowFor)
	if end, err := g.enter(key{}, "slow"); err != nil {
		t.Error(err)
	} else {
		end()
	}
	if len(g.accounts) > 0 {
		t.Errorf("%d accounts are remembered", len(g.accounts))
	}
}

// TestRegionsOfOneNamespaceLeaveWorkersToOthers: a namespace uses the provider's own credentials in many regions, which may
// not answer, such as those that a firewall of the provider drops.
func TestRegionsOfOneNamespaceLeaveWorkersToOthers(t *testing.T) {
	t.Parallel()
	g := newGate(20, time.Now)
	// most is how many calls of a namespace get a worker, one in each region. They do not end before the test does.
	most := func(namespace string) (got int) {
		for n := range 40 {
			leave, err := g.enter(key{Account: driver.Account{Region: fmt.Sprint(n)}}, namespace)
			if err == nil {
				got++
				t.Cleanup(leave)
			}
		}
		return got
	}
	if first := most("a"); first != 10 {
		t.Errorf("one namespace gets %d workers, want half of 20", first)
	}
	if leave, err := g.enter(key{namespace: "a", Account: driver.Account{SecretName: "own"}}, "a"); err == nil {
		t.Error("it gets more workers by a Secret")
		t.Cleanup(leave)
	}
	if second := most("b"); second < 3 {
		t.Errorf("another namespace gets %d workers", second)
	}
}
