// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Package digitaloceanfake is a fake of a DigitalOcean team: the part of the HTTP API that Drover uses, with state, served on
// loopback to the real SDK. Every request and every answer is checked against the cloud's own OpenAPI description. Actions
// may take time and lock a Droplet, tags may follow a creation, lists may be late, requests may be refused and throttled, and
// answers lost. Time is counted in requests, so tests do not wait; limits count by a clock.
package digitaloceanfake

import (
	"cmp"
	"fmt"
	"maps"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/getkin/kin-openapi/routers"
)

// Token is the API token of the team.
const Token = "dop_v1_fake"

// Team is the UUID of the team.
const Team = "5df3e3004a17e242b7c20ca6c9fc25b701a47ece"

// Options configure the fake.
type Options struct {
	// ActionDelay is the number of requests until an action completes. Its Droplet is locked until then.
	ActionDelay int
	// TagDelay is the number of requests until a new Droplet has its tags.
	TagDelay int
	// ListDelay is the number of requests until a new Droplet is listed by its tags.
	ListDelay int
	// Limited enforces the limits of requests.
	Limited bool
	// Now is the clock; nil is the real one.
	Now func() time.Time
}

// Cloud is a running team.
type Cloud struct {
	// Endpoint is the URL of the API.
	Endpoint string

	options Options
	http    *httptest.Server
	router  routers.Router

	mu         sync.Mutex
	requests   int
	calls      []string
	violations []string
	restarts   int
	faults     faults
	sent       sent

	droplets    map[int]*droplet
	volumes     map[string]*volume
	keys        map[int]*key
	reservedIPs map[string]*reservedIP
	// tags are the canonical names of the tags, by their names in lower case.
	tags map[string]string

	sizes   []size
	regions []region
	images  []image
	vpcs    []vpc
	// dropletLimit, volumeLimit and ipLimit are those of the account.
	dropletLimit, volumeLimit, ipLimit int
}

// droplet is a Droplet with its pending action.
type droplet struct {
	ID      int
	Name    string
	Status  string
	Region  string
	Size    string
	Image   int
	VPC     string
	Tags    []string
	Created time.Time
	// Request is the body of the request that created it.
	Request map[string]any
	// waiting are the volumes that are attached when it is active.
	waiting []string
	// busy is the request at which the pending action completes; next is the status then.
	busy int
	next string
	// taggedAt and listedAt are the requests from which on it has its tags, and is listed by them.
	taggedAt, listedAt int
}

func (d *droplet) locked() bool { return d.busy > 0 }

// volume is a volume with its pending action.
type volume struct {
	ID, Name, Region, Filesystem, Description string
	Size                                      int
	Droplet                                   int
	Tags                                      []string
	Created                                   time.Time
	busy                                      int
}

type key struct {
	ID                           int
	Name, PublicKey, Fingerprint string
}

type reservedIP struct {
	IP, Region string
	Droplet    int
}

// Start serves a team with the default resources.
func Start(options Options) (*Cloud, error) {
	if options.Now == nil {
		options.Now = time.Now
	}
	c := &Cloud{
		options: options, droplets: map[int]*droplet{}, volumes: map[string]*volume{}, keys: map[int]*key{},
		reservedIPs: map[string]*reservedIP{}, tags: map[string]string{},
		dropletLimit: 1000, volumeLimit: 1000, ipLimit: 1000,
	}
	c.addDefaults()
	c.http = httptest.NewServer(c)
	c.Endpoint = c.http.URL
	router, err := newRouter(c.Endpoint)
	if err != nil {
		c.Close()
		return nil, err
	}
	c.router = router
	return c, nil
}

// Close stops the server.
func (c *Cloud) Close() { c.http.Close() }

// Calls returns the requests so far, as method and path without IDs.
func (c *Cloud) Calls() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.calls)
}

// Violations returns the requests and answers that violate the description.
func (c *Cloud) Violations() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.violations)
}

// Leftovers returns everything that was created: Droplets, volumes, reserved IPs and claims.
func (c *Cloud) Leftovers() (left []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, created := range c.droplets {
		left = append(left, fmt.Sprintf("Droplet %s %d", created.Name, created.ID))
	}
	for _, created := range c.volumes {
		left = append(left, "volume "+created.Name)
	}
	for _, created := range c.reservedIPs {
		left = append(left, "reserved IP "+created.IP)
	}
	for _, created := range c.keys {
		if created.ID != KeyAlice {
			left = append(left, "SSH key "+created.Fingerprint)
		}
	}
	slices.Sort(left)
	return left
}

// Tags returns the tags that exist.
func (c *Cloud) Tags() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Sorted(maps.Values(c.tags))
}

// CreatedDroplet is a Droplet with the request that created it.
type CreatedDroplet struct {
	ID      int
	Name    string
	Status  string
	Tags    []string
	Request map[string]any
	// Volumes and ReservedIPs are those that it has.
	Volumes, ReservedIPs []string
}

// Droplets returns the Droplets that exist, in the order of their creation.
func (c *Cloud) Droplets() (all []CreatedDroplet) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, created := range c.sorted() {
		found := CreatedDroplet{ID: created.ID, Name: created.Name, Status: created.Status, Tags: created.Tags, Request: created.Request}
		for _, attached := range c.volumesOf(created.ID) {
			found.Volumes = append(found.Volumes, attached.Name)
		}
		for _, ip := range c.reservedIPs {
			if ip.Droplet == created.ID {
				found.ReservedIPs = append(found.ReservedIPs, ip.IP)
			}
		}
		all = append(all, found)
	}
	return all
}

// ImageOf returns the ID of the image that a Droplet was created from.
func (c *Cloud) ImageOf(id string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, known := range c.droplets {
		if strconv.Itoa(known.ID) == id {
			return strconv.Itoa(known.Image)
		}
	}
	return ""
}

// Restarts returns the number of power cycles.
func (c *Cloud) Restarts() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.restarts
}

func (c *Cloud) sorted() []*droplet {
	return slices.SortedFunc(maps.Values(c.droplets), func(a, b *droplet) int { return cmp.Compare(a.ID, b.ID) })
}

func (c *Cloud) volumesOf(id int) (attached []*volume) {
	for _, known := range slices.Sorted(maps.Keys(c.volumes)) {
		if c.volumes[known].Droplet == id {
			attached = append(attached, c.volumes[known])
		}
	}
	return attached
}

// lastID is shared by all teams: IDs are unique over all of the cloud.
var lastID atomic.Int64

func newID() int { return 400000 + int(lastID.Add(1)) }

// finishActions completes the actions that are due.
func (c *Cloud) finishActions() {
	for _, created := range c.sorted() {
		if created.busy == 0 || created.busy > c.requests {
			continue
		}
		created.busy = 0
		switch {
		case created.next == "deleted":
			c.remove(created)
		case created.next != "":
			created.Status = created.next
		}
		created.next = ""
		for _, id := range created.waiting {
			if disk := c.volumes[id]; disk != nil && created.Status == "active" {
				disk.Droplet = created.ID
			}
		}
		created.waiting = nil
	}
	for _, disk := range c.volumes {
		if disk.busy > 0 && disk.busy <= c.requests {
			disk.busy, disk.Droplet = 0, 0
		}
	}
}

// start begins an action on a Droplet and sets its status after it; an empty status is no change.
func (c *Cloud) start(on *droplet, then string) {
	on.busy, on.next = max(c.requests+c.options.ActionDelay, 1), then
	c.finishActions()
}

// remove deletes a Droplet and detaches what it has.
func (c *Cloud) remove(deleted *droplet) {
	delete(c.droplets, deleted.ID)
	for _, disk := range c.volumesOf(deleted.ID) {
		disk.Droplet, disk.busy = 0, 0
	}
	for _, ip := range c.reservedIPs {
		if ip.Droplet == deleted.ID {
			ip.Droplet = 0
		}
	}
}

// withoutIDs returns the name of an operation.
func withoutIDs(method, path string) string {
	parts := strings.Split(path, "/")
	for i := 3; i < len(parts); i++ {
		switch parts[i] {
		case "actions", "resources", "keys":
		default:
			parts[i] = "{id}"
		}
	}
	return method + " " + strings.Join(parts, "/")
}
