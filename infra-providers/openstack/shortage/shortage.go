// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Package shortage caches where Nova found no host for a server. Nova reports that only after it accepted the server,
// when there is nothing to refuse any more, so the next machine that needs the same flavor in the same zone is refused
// before its server is created. The openstack driver calls it.
package shortage

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"
	"k8s.io/utils/clock"

	"drover.io/infra-providers/driver"
	"drover.io/infra-providers/internal/errorreason"
	"drover.io/runtime/expiring"
)

// Window is how long a flavor in a zone lacks capacity after a server found no host.
const Window = 5 * time.Minute

const (
	// MaxEntries bounds the offerings, and the faults, of an account. Lists come from the cloud, and a Secret chooses the
	// cloud.
	MaxEntries = 1000
	// maxKey is the maximum length in bytes of an ID, and of the names of an offering together, to be cached.
	// Nova has at most 255 in each.
	maxKey = 1 << 10
	// maxReadsWhenFull is how many faults are read in a minute while as many as allowed are cached: each one that is added
	// evicts another, which the next list would read again.
	maxReadsWhenFull = 100
)

// Cache has the shortages of one account. It is safe for concurrent use.
type Cache struct {
	clock clock.PassiveClock
	// faults are the causes of failed servers, by their IDs, as far as lists do not have them.
	faults    expiring.Map[string, servers.Fault]
	offerings expiring.Map[Offering, time.Time]

	mu sync.Mutex
	// reads are those since a time while the cache of faults was full.
	reads int
	since time.Time
}

// Offering is a flavor in a zone for the machines of a namespace. Whether a host accepts a server may depend on what only
// their requests have, such as an image, so namespaces that share an account do not share shortages.
type Offering struct{ Namespace, Flavor, Zone string }

// New returns an empty cache.
func New(clock clock.PassiveClock) *Cache {
	c := &Cache{clock: clock}
	c.faults.Clock, c.faults.Max = clock, MaxEntries
	c.offerings.Clock, c.offerings.Max = clock, MaxEntries
	return c
}

// AddFault adds the cause to a failed server of a list. Nova's lists do not have the cause of a server that never had a
// host; a read of the server has it, and one read is enough.
func (c *Cache) AddFault(ctx context.Context, compute *gophercloud.ServiceClient, server *servers.Server) {
	if server.Status != "ERROR" || server.Fault.Code != 0 {
		return
	}
	if known, ok := c.faults.Get(server.ID); ok {
		server.Fault = known
		return
	}
	if c.faults.Len() >= MaxEntries && !c.mayRead() {
		return
	}
	// After a failure the next list reads it again.
	read, err := servers.Get(ctx, compute, server.ID).Extract()
	if err != nil || read.Fault.Code == 0 {
		return
	}
	server.Fault = servers.Fault{Code: read.Fault.Code, Created: read.Fault.Created, Message: strings.Clone(errorreason.Truncate(read.Fault.Message))}
	if len(server.ID) <= maxKey {
		c.faults.Set(server.ID, server.Fault)
	}
}

// mayRead counts a read while the cache of faults is full, and reports whether it is still allowed.
func (c *Cache) mayRead() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if now := c.clock.Now(); now.Sub(c.since) >= time.Minute {
		c.reads, c.since = 0, now
	}
	c.reads++
	return c.reads <= maxReadsWhenFull
}

// DeleteFault deletes the cause of a failed server.
func (c *Cache) DeleteFault(serverID string) { c.faults.Delete(serverID) }

// Observe records that a server with a flavor in a zone found no host within the window.
func (c *Cache) Observe(server servers.Server, at Offering) {
	if !HasNoHost(server) || len(at.Namespace)+len(at.Flavor)+len(at.Zone) > maxKey {
		return
	}
	at = Offering{strings.Clone(at.Namespace), strings.Clone(at.Flavor), strings.Clone(at.Zone)}
	if since, known := c.offerings.Get(at); !known || since.Before(server.Fault.Created) {
		c.offerings.SetUntil(at, server.Fault.Created, server.Fault.Created.Add(Window))
	}
}

// Check fails with InsufficientCapacityError for a flavor in a zone for which a server found no host within the window.
func (c *Cache) Check(at Offering) error {
	if !c.offerings.Has(at) {
		return nil
	}
	return &driver.InsufficientCapacityError{InstanceType: at.Flavor, Zone: at.Zone, Err: errors.New("a server of this flavor found no host a moment ago")}
}

// HasNoHost reports whether the scheduler found no host for a server. Nova accepts a server first and schedules it
// afterwards; it has no error code for a lack of capacity. Such a server failed with the scheduler's status, without a
// host and without a start.
func HasNoHost(server servers.Server) bool {
	return server.Status == "ERROR" && server.HostID == "" && server.LaunchedAt.IsZero() && server.Fault.Code == http.StatusInternalServerError
}
