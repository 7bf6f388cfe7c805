// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package metalstackfake

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
)

// faults are the failures of the next requests.
type faults struct {
	// next are the answers to the next requests.
	next []*refusal
	// operations has the answers to the next requests of an operation.
	operations map[string][]*refusal
	// losing are the operations of which the next request loses its answer.
	losing []string
	// shortage is what the next allocation lacks; soldOut is the state of the partitions until the one after.
	shortage string
	soldOut  bool
	// allocation is what happens to the next allocation after its addresses were attached.
	allocation string
	// held is the request that is carried out later.
	held *held
}

const (
	breakOff    = "break off"
	conflicting = "conflict"
)

func (f *faults) refuse(operation string) *refusal {
	if len(f.next) > 0 {
		next := f.next[0]
		f.next = f.next[1:]
		return next
	}
	if of := f.operations[operation]; len(of) > 0 {
		f.operations[operation] = of[1:]
		return of[0]
	}
	return nil
}

func (f *faults) lose(operation string) bool {
	lost := slices.Contains(f.losing, operation)
	if lost {
		f.losing = nil
	}
	return lost
}

// shortageOfAllocation returns what an allocation lacks. Until the next one the API shows that.
func (f *faults) shortageOfAllocation() (full, soldOut bool) {
	full, f.soldOut = f.shortage == "full", f.shortage == "sold out"
	f.shortage = ""
	return full, f.soldOut
}

// change runs a function that changes the faults.
func (c *Cloud) change(do func(*faults)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	do(&c.faults)
}

// Refuse answers the next request with a status.
func (c *Cloud) Refuse(status int) {
	c.change(func(f *faults) { f.next = append(f.next, &refusal{status, "injected error"}) })
}

// RefuseOperation answers the next request of an operation with a status.
func (c *Cloud) RefuseOperation(operation string, status int, message string) {
	c.change(func(f *faults) {
		if f.operations == nil {
			f.operations = map[string][]*refusal{}
		}
		f.operations[operation] = append(f.operations[operation], &refusal{status, message})
	})
}

// Lose loses the answer of the next request of one of several operations, after it took effect.
func (c *Cloud) Lose(operations ...string) { c.change(func(f *faults) { f.losing = operations }) }

// SellOut makes the next allocation find no machine of its size.
func (c *Cloud) SellOut() { c.change(func(f *faults) { f.shortage = "sold out" }) }

// Fill makes the next allocation find the quota of the project used up.
func (c *Cloud) Fill() { c.change(func(f *faults) { f.shortage = "full" }) }

// BreakOff makes the API end in the next allocation, after it has attached the addresses, so that nothing undoes that.
func (c *Cloud) BreakOff() { c.change(func(f *faults) { f.allocation = breakOff }) }

// Conflict refuses the next allocation after it has attached the addresses, which are released some time later.
func (c *Cloud) Conflict() { c.change(func(f *faults) { f.allocation = conflicting }) }

// held is a request whose connection was closed before it was carried out.
type held struct {
	operation string
	request   *http.Request
	body      []byte
}

// keep closes the connection without an answer.
func (h *held) keep(r *http.Request) {
	if h.request == nil {
		h.body, _ = io.ReadAll(r.Body) // a body that cannot be read violates the description
		h.request = r.Clone(context.Background())
	}
	panic(http.ErrAbortHandler)
}

// Hold leaves the next request of an operation without an answer, and returns a function that carries it out and returns the
// API's refusal, if it refuses it. Until stopped, further requests of that operation have no answer either.
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

// with runs a function on a machine that is allocated.
func (c *Cloud) with(id string, do func(*server)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if m := c.machine(id); m != nil && m.allocation != nil {
		do(m)
	}
}

// Untag removes tags from a machine and from its addresses, and returns a function that reports whether it is still allocated
// as it was, and then frees it.
func (c *Cloud) Untag(id string, keys ...string) func() bool {
	of := func(tag string) bool {
		return slices.ContainsFunc(keys, func(key string) bool { return strings.HasPrefix(tag, key+"=") })
	}
	var was *allocation
	c.with(id, func(m *server) {
		was = m.allocation
		was.tags = slices.DeleteFunc(was.tags, of)
		for _, text := range was.ips {
			ip := c.ips[netip.MustParseAddr(text)]
			ip.Tags = slices.DeleteFunc(ip.Tags, of)
		}
	})
	return func() (there bool) {
		c.with(id, func(m *server) {
			there = m.allocation == was
			c.free(m)
		})
		return there
	}
}

// Retag replaces the tags and the description of a machine, as an administrator would.
func (c *Cloud) Retag(id, description string, tags ...string) {
	c.with(id, func(m *server) { m.allocation.description, m.allocation.tags = description, tags })
}

// SetState changes what the API shows of an allocated machine.
func (c *Cloud) SetState(id string, locked, crashLoop bool, liveliness string) {
	c.with(id, func(m *server) {
		m.Locked, m.allocation.crashLoop, m.allocation.liveliness = locked, crashLoop, liveliness
	})
}

// Reallocate frees a machine and allocates its hardware immediately for somebody else, with tags, as no installation does so
// soon.
func (c *Cloud) Reallocate(id, project, role string, tags ...string) {
	c.with(id, func(m *server) {
		c.free(m)
		m.allocation = &allocation{
			uuid: c.uuid(), name: "another", hostname: "another", description: "of somebody else", project: project, image: NewestImage, role: role, layout: Layout,
			tags: tags, created: c.options.Now(), liveliness: "Alive",
		}
	})
}

// Replace deploys the installation anew at the same address and with the same credentials. It has no project and no allocation, as
// its hardware is not known yet.
func (c *Cloud) Replace() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.replaced = true
	for _, m := range c.machines {
		m.allocation = nil
	}
	clear(c.ips)
}

// Free frees a machine, as its operator would.
func (c *Cloud) Free(id string) { c.with(id, c.free) }

// ImageOf returns the image that a machine was allocated with.
func (c *Cloud) ImageOf(id string) string { return c.Machine(id).Image }
