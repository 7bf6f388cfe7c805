// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package openstack_test

import (
	"maps"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/onsi/gomega"

	infrav1 "drover.io/api/infrastructure/v1alpha1"
	"drover.io/infra-providers/driver"
)

// counter is a transport that counts requests by method and path.
type counter struct {
	http.RoundTripper
	mu    sync.Mutex
	calls map[string]int
}

func counting(transport http.RoundTripper) *counter {
	return &counter{RoundTripper: transport, calls: map[string]int{}}
}

var (
	anID      = regexp.MustCompile(`/[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f-]{22,}`)
	aRoot     = regexp.MustCompile(`^.*/v(2\.0|2\.1|2|3)/([0-9a-f]{32}/)?`)
	inventory = "GET servers/detail of all"
)

// RoundTrip implements http.RoundTripper.
func (c *counter) RoundTrip(request *http.Request) (*http.Response, error) {
	what := request.Method + " " + aRoot.ReplaceAllString(anID.ReplaceAllString(request.URL.Path, "/{id}"), "")
	if request.URL.Query().Get("tags") == "drover" {
		what += " of all"
	}
	c.mu.Lock()
	c.calls[what]++
	c.mu.Unlock()
	return c.RoundTripper.RoundTrip(request)
}

// taken returns the calls since the last time.
func (c *counter) taken() map[string]int {
	c.mu.Lock()
	defer c.mu.Unlock()
	calls := c.calls
	c.calls = map[string]int{}
	return calls
}

// seen is how often something was called since they were taken.
func (c *counter) seen(what string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.calls[what]
}

// TestRequestsPerMachine counts the requests of a machine, without its share of lists.
func TestRequestsPerMachine(t *testing.T) {
	t.Parallel()
	r := newEnv(t)
	counted := counting(r.faults)
	d := connect(t, counted, driver.Account{SecretName: "cloud"}, r.secret)
	if _, err := d.Get(t.Context(), worker); !driver.IsNotFound(err) {
		t.Fatal(err)
	}
	counted.taken() // the login
	created := mustCreate(t, d, newRequest(t, minimalSpec()))
	want := map[string]int{
		"GET flavors/detail": 1, "GET images": 1, "GET networks": 1, // what the names mean
		"GET ports": 3, "POST ports": 1, "PUT ports/{id}/tags": 1, "PUT ports/{id}": 1, // the port and the claim
		"GET servers/detail": 1, "POST servers": 1, "GET servers/{id}": 1,
	}
	if diff := cmp.Diff(want, counted.taken()); diff != "" {
		t.Errorf("creation (-want +got):\n%s", diff)
	}
	id := worker
	id.ProviderID = created.ProviderID
	if err := d.Delete(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	want = map[string]int{
		"GET servers/detail": 1, "DELETE servers/{id}": 1,
		"GET floatingips": 1, "GET ports": 1, "DELETE ports/{id}": 1, "GET volumes/detail": 1,
	}
	if diff := cmp.Diff(want, counted.taken()); diff != "" {
		t.Errorf("deletion (-want +got):\n%s", diff)
	}
}

// TestRealRequestsPerMachine counts the requests of machines to real services, during and between changes.
func TestRealRequestsPerMachine(t *testing.T) {
	real(t)
	counted := counting(http.DefaultTransport)
	s := serve(t, counted, nil)
	s.SetDefaultEventuallyTimeout(2 * realTimeout)
	const many = 8
	var machines []*infrav1.OpenStackMachine
	for n := range many {
		machines = append(machines, newMachine(strings.Repeat("x", n+1), realSpec()))
		s.CreateMachine(machines[n], "")
	}
	for _, machine := range machines {
		s.WaitForReason(machine, infrav1.InstanceRunningReason)
	}
	created := counted.taken()
	t.Logf("%d machines were created with %d calls each: %v", many, sum(created)/many, created)

	// Each machine is looked at every minute, and so is the inventory: three lists are three rounds.
	began := time.Now()
	s.Eventually(func() int { return counted.seen(inventory) }, 2*realTimeout, time.Second).Should(gomega.BeNumerically(">=", 3))
	idle := counted.taken()
	t.Logf("%d machines that ran took %v in %s", many, idle, time.Since(began).Round(time.Second))
	if diff := cmp.Diff(map[string]int{inventory: idle[inventory]}, idle); diff != "" {
		t.Errorf("while nothing happened (-want +got):\n%s", diff)
	}
	for _, machine := range machines {
		s.Delete(machine)
	}
	gone := counted.taken()
	t.Logf("%d machines were removed with %d calls each: %v", many, sum(gone)/many, gone)
}

func sum(calls map[string]int) (all int) {
	for count := range maps.Values(calls) {
		all += count
	}
	return all
}
