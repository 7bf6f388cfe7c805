// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package digitaloceanfake

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"time"

	"drover.io/infra-providers/driver"
)

const (
	// perHour and perMinute are the limits of a token.
	perHour, perMinute = 5000, 250
	// keyListsPerMinute and ipsPerMinute are those of lists of SSH keys, and of new reserved IPs.
	keyListsPerMinute, ipsPerMinute = 10, 12
	// hiddenRequests is for how many requests a hidden Droplet is missing from lists.
	hiddenRequests = 40
)

// faults are the failures of the next requests.
type faults struct {
	// next are the answers to the next requests.
	next []*refusal
	// operations has the answers to the next request of an operation.
	operations map[string]*refusal
	// losing is what the next request has to be whose answer is lost; empty for none.
	losing string
	hiding bool
	// full and soldOut are the state of the account and of the sizes, from a refused creation to the next one.
	full, soldOut bool
	shortage      string
	// held is the request that is carried out later.
	held *held
}

func (f *faults) refuse(operation string) *refusal {
	if len(f.next) > 0 {
		next := f.next[0]
		f.next = slices.Delete(f.next, 0, 1)
		return next
	}
	next := f.operations[operation]
	delete(f.operations, operation)
	return next
}

// refuseCreation refuses the creation of a Droplet for lack of something. Until the next one the account shows that.
func (f *faults) refuseCreation() *refusal {
	shortage := f.shortage
	f.shortage, f.full, f.soldOut = "", shortage == "full", shortage == "sold out"
	switch {
	case f.full:
		return unprocessable("creating this/these droplet(s) will exceed your droplet limit")
	case f.soldOut:
		return unprocessable("Size is not available in this region.")
	default:
		return nil
	}
}

// anyChange is each request that changes something; the others are operations.
const anyChange = "any"

func (f *faults) lose(operation string) bool {
	lost := f.losing == operation || f.losing == anyChange && !strings.HasPrefix(operation, http.MethodGet)
	if lost {
		f.losing = ""
	}
	return lost
}

// change runs a function that changes the faults.
func (c *Cloud) change(do func(*faults)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	do(&c.faults)
}

// Refuse answers the next request with a code.
func (c *Cloud) Refuse(status int, code string) {
	c.change(func(f *faults) {
		f.next = append(f.next, &refusal{status: status, code: code, message: "injected error"})
	})
}

// RefuseOperation answers the next request of an operation, such as POST /v2/droplets, with a code.
func (c *Cloud) RefuseOperation(operation string, status int, code string) {
	c.change(func(f *faults) {
		if f.operations == nil {
			f.operations = map[string]*refusal{}
		}
		f.operations[operation] = &refusal{status: status, code: code, message: "injected error"}
	})
}

// SellOut makes the next creation of a Droplet find its size sold out.
func (c *Cloud) SellOut() { c.change(func(f *faults) { f.shortage = "sold out" }) }

// Fill makes the next creation of a Droplet find the limit of Droplets reached.
func (c *Cloud) Fill() { c.change(func(f *faults) { f.shortage = "full" }) }

// Lose loses the answer of the next request that changes something, after it took effect.
func (c *Cloud) Lose() { c.change(func(f *faults) { f.losing = anyChange }) }

// LoseOperation loses the answer of the next request of an operation.
func (c *Cloud) LoseOperation(operation string) { c.change(func(f *faults) { f.losing = operation }) }

// Hide omits the next Droplet from lists by its tags for a while.
func (c *Cloud) Hide() { c.change(func(f *faults) { f.hiding = true }) }

// SetLimits sets the limits of Droplets and volumes.
func (c *Cloud) SetLimits(droplets, volumes int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.dropletLimit, c.volumeLimit = droplets, volumes
}

// Stop powers off all Droplets immediately, as an operator would.
func (c *Cloud) Stop() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, created := range c.droplets {
		created.Status, created.busy, created.next = "off", 0, ""
	}
}

// Remove deletes a Droplet immediately, as another client of the team would.
func (c *Cloud) Remove(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, created := range c.sorted() {
		if created.Name == name {
			c.remove(created)
		}
	}
}

// AddDroplet creates a Droplet without tags, as another client of the team would.
func (c *Cloud) AddDroplet(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	created := &droplet{
		ID: newID(), Name: name, Status: "active", Region: "nyc3", Size: "s-2vcpu-4gb", Image: ImageUbuntu,
		Created: c.options.Now().UTC().Truncate(time.Second), Request: map[string]any{},
	}
	c.droplets[created.ID] = created
}

// prefixes begin the tags of keys.
var prefixes = map[string]string{
	driver.TagMachineUID: "drover-machine-uid:", driver.TagMachine: "drover-machine:", driver.TagClusterUID: "drover-cluster-uid:",
	driver.TagClusterNamespace: "drover-cluster-namespace:", driver.TagCluster: "drover-cluster:",
}

// Untag removes tags from a Droplet and from its volumes, and returns a function that reports whether all of it still exists
// and then removes it.
func (c *Cloud) Untag(id int, keys ...string) func() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	of := func(tag string) bool {
		return slices.ContainsFunc(keys, func(key string) bool { return strings.HasPrefix(tag, prefixes[key]) })
	}
	found := c.droplets[id]
	found.Tags = slices.DeleteFunc(found.Tags, of)
	disks := c.volumesOf(id)
	for _, disk := range disks {
		disk.Tags = slices.DeleteFunc(disk.Tags, of)
	}
	return func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		there := c.droplets[id] == found
		c.remove(found)
		for _, disk := range disks {
			there = there && c.volumes[disk.ID] == disk
			delete(c.volumes, disk.ID)
		}
		for address, ip := range c.reservedIPs {
			if ip.Droplet == 0 {
				delete(c.reservedIPs, address)
			}
		}
		return there
	}
}

// sent has when requests were sent.
type sent struct{ all, keyLists, ips []time.Time }

// reset returns when the oldest request of the hour expires.
func (s *sent) reset(now time.Time) time.Time {
	if len(s.all) == 0 {
		return now.Add(time.Hour)
	}
	return s.all[0].Add(time.Hour)
}

// within drops what was sent before a period, and returns the number of the others.
func within(times *[]time.Time, now time.Time, period time.Duration) int {
	at := 0
	for at < len(*times) && now.Sub((*times)[at]) >= period {
		at++
	}
	*times = (*times)[at:]
	return len(*times)
}

// throttle refuses a request beyond the limits. The limit of a minute has a hint of its own, that of an hour has not.
func (c *Cloud) throttle(operation string) *refusal {
	if !c.options.Limited {
		return nil
	}
	now := c.options.Now()
	minute := 0
	for i := len(c.sent.all) - 1; i >= 0 && now.Sub(c.sent.all[i]) < time.Minute; i-- {
		minute++
	}
	burst := minute >= perMinute
	switch operation {
	case "GET /v2/account/keys":
		burst = burst || within(&c.sent.keyLists, now, time.Minute) >= keyListsPerMinute
	case "POST /v2/reserved_ips":
		burst = burst || within(&c.sent.ips, now, time.Minute) >= ipsPerMinute
	}
	switch {
	case burst:
		return &refusal{status: http.StatusTooManyRequests, code: "too_many_requests", message: "Too many requests", header: map[string]string{"Retry-After": "20"}}
	case within(&c.sent.all, now, time.Hour) >= perHour:
		return &refusal{status: http.StatusTooManyRequests, code: "too_many_requests", message: "API Rate limit exceeded.", header: map[string]string{
			"RateLimit-Reset": strconv.FormatInt(c.sent.reset(now).Unix(), 10)}}
	}
	c.sent.all = append(c.sent.all, now)
	switch operation {
	case "GET /v2/account/keys":
		c.sent.keyLists = append(c.sent.keyLists, now)
	case "POST /v2/reserved_ips":
		c.sent.ips = append(c.sent.ips, now)
	}
	return nil
}

// held is a request whose connection was closed before it was carried out.
type held struct {
	operation string
	request   *http.Request
	body      []byte
}

// keep closes the connection without an answer.
func (h *held) keep(r *http.Request) {
	if h.request == nil {
		// A body that cannot be read violates the description.
		h.body, _ = io.ReadAll(r.Body)
		h.request = r.Clone(context.Background())
	}
	panic(http.ErrAbortHandler)
}

// Hold leaves the next request of an operation without an answer, and returns a function that carries it out and returns the
// cloud's refusal, if it refuses it. Until stopped, further requests of that operation have no answer either.
func (c *Cloud) Hold(operation string) (stop func(), release func() error) {
	next := &held{operation: operation}
	c.change(func(f *faults) { f.held = next })
	stop = func() { c.change(func(f *faults) { f.held = nil }) }
	return stop, func() error {
		stop()
		if next.request == nil {
			return errors.New("nothing was held")
		}
		next.request.Body = io.NopCloser(bytes.NewReader(next.body))
		answer := httptest.NewRecorder()
		c.ServeHTTP(answer, next.request)
		if answer.Code >= http.StatusBadRequest {
			return fmt.Errorf("%s: %s", operation, answer.Body)
		}
		return nil
	}
}
