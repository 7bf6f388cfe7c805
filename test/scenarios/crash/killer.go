// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package crash

import (
	"fmt"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"

	"drover.io/test/framework"
)

// crashPoint is a write of the manager, counted from 1, and whether the manager is killed before or after it.
type crashPoint struct {
	write int
	// after means that the API server has executed the request, and the manager does not get the answer.
	after bool
}

// String implements fmt.Stringer.
func (m crashPoint) String() string {
	if m.after {
		return fmt.Sprintf("after write %d", m.write)
	}
	return fmt.Sprintf("before write %d", m.write)
}

// killer counts the writes of a manager and kills it at the given crash points.
type killer struct {
	manager *framework.Manager

	processes atomic.Int64

	mu sync.Mutex
	// writes are the methods and paths of the writes, in order.
	writes []string
	due    []crashPoint
	killed []crashPoint
	err    error
}

// reset removes what was counted.
func (r *killer) reset(due []crashPoint) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.writes, r.killed, r.due = nil, nil, due
}

// count forwards a write, unless the manager that sent it is killed before. Writes are handled one
// after another, so that none slips by while the manager is being killed. One that the API
// server refuses has changed nothing and does not count: a manager that was killed then would
// only try the same again.
func (r *killer) count(request *http.Request, forward func() (accepted bool)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if process, _ := request.Context().Value(processKey{}).(int64); process != r.process() {
		return // the manager that sent it has ended
	}
	r.writes = append(r.writes, request.Method+" "+request.URL.Path)
	before, after := crashPoint{write: len(r.writes)}, crashPoint{write: len(r.writes), after: true}
	if slices.Contains(r.due, before) {
		r.kill(before)
		return
	}
	if !forward() {
		r.writes = r.writes[:len(r.writes)-1]
		return
	}
	if slices.Contains(r.due, after) {
		r.kill(after)
	}
}

// kill kills the manager and starts it again. The caller holds the lock.
func (r *killer) kill(at crashPoint) {
	r.manager.Kill()
	r.processes.Add(1)
	r.killed = append(r.killed, at)
	if err := r.manager.Start(); err != nil {
		r.err = err
	}
}

// process is the number of the manager's process.
func (r *killer) process() int64 { return r.processes.Load() }

// report returns the writes, the crash points, and the error of a restart.
func (r *killer) report() (writes []string, killed []crashPoint, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.writes), slices.Clone(r.killed), r.err
}
