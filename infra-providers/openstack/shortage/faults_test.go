// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package shortage_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"path"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"
	clocktesting "k8s.io/utils/clock/testing"

	"drover.io/infra-providers/openstack/shortage"
)

// A project has 1100 servers in ERROR, those of a MachineSet whose flavor finds no host. Every list (each minute, and
// each five seconds while anything starts) would read all of them, because each new entry evicts the next one needed.
func TestListsOfFailedServersDoNotReadEachAgain(t *testing.T) {
	t.Parallel()
	var reads atomic.Int64
	nova := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		reads.Add(1)
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"server":{"id":%q,"status":"ERROR","fault":{"code":500,"created":"2026-11-24T00:00:00Z","message":"No valid host was found."}}}`, path.Base(r.URL.Path))
	}))
	t.Cleanup(nova.Close)
	compute := &gophercloud.ServiceClient{ProviderClient: &gophercloud.ProviderClient{}, Endpoint: nova.URL + "/"}
	const failed = shortage.MaxEntries + 100
	c := shortage.New(clocktesting.NewFakePassiveClock(time.Now()))
	list := func() int64 {
		before := reads.Load()
		for i := range failed {
			c.AddFault(t.Context(), compute, &servers.Server{ID: fmt.Sprintf("s-%d", i), Status: "ERROR"})
		}
		return reads.Load() - before
	}
	list()
	if again := list(); again > 200 {
		t.Errorf("the second list of %d failed servers reads %d of them again", failed, again)
	}
}
