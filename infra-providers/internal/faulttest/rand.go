// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package faulttest

import (
	"math/rand/v2"
	"sync"
	"time"
)

// Fault is the fault of one request to a simulated cloud.
type Fault string

// The faults that a simulated cloud can show.
const (
	// None: nothing goes wrong.
	None Fault = ""
	// Lost: the request takes effect and its answer never arrives.
	Lost Fault = "lost"
	// Broken: the request fails without an effect.
	Broken Fault = "broken"
	// Throttled: the account sends too many requests.
	Throttled Fault = "throttled"
	// Short: there is no capacity. Only a request for what does not exist yet can have it.
	Short Fault = "short"
	// Stale: what is shown is behind.
	Stale Fault = "stale"
)

// Rand decides which faults happen, from a seed.
type Rand struct {
	mu     sync.Mutex
	random *rand.Rand
	calm   bool
	thrown map[Fault]int
}

func newRand(seed uint64) *Rand {
	return &Rand{random: rand.New(rand.NewPCG(seed, seed)), thrown: map[Fault]int{}}
}

// Fault decides about one request. Only one that changes something can lose its answer to any effect.
func (d *Rand) Fault(changes bool) Fault {
	switch {
	case changes && d.happens(6, Lost):
		return Lost
	case d.happens(5, Broken):
		return Broken
	case d.happens(1, Throttled):
		return Throttled
	default:
		return None
	}
}

// happens reports whether a fault happens, with a probability in percent.
func (d *Rand) happens(percent int, fault Fault) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.calm || d.random.IntN(100) >= percent {
		return false
	}
	d.thrown[fault]++
	return true
}

// UpTo returns a number from zero to below n.
func (d *Rand) UpTo(n int) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.random.IntN(n)
}

// seconds returns a time from one second to n.
func (d *Rand) seconds(n int) time.Duration { return time.Duration(1+d.UpTo(n)) * time.Second }

// rest runs a function without faults.
func (d *Rand) rest(do func()) {
	set := func(calm bool) {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.calm = calm
	}
	set(true)
	defer set(false)
	do()
}
