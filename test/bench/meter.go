// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"drover.io/test/kit"
)

// call is a kind of request: who sent it, and what it did to what.
type call struct {
	manager, verb, resource string
}

// writes are the verbs that change something.
var writes = []string{"create", "update", "patch", "delete", "deletecollection"}

// sample is what one phase cost.
type sample struct {
	phase string
	wall  time.Duration
	calls map[call]int
	usage map[string]kit.Usage
}

// meter reads the audit log and the managers' use of the processor after every phase.
type meter struct {
	stack   *kit.Stack
	offset  int64
	usage   map[string]kit.Usage
	samples []sample
}

func newMeter(stack *kit.Stack) *meter { return &meter{stack: stack, usage: map[string]kit.Usage{}} }

func (m *meter) measure(ctx context.Context, p phase) error {
	began := time.Now()
	for _, step := range p.steps {
		if err := step(ctx); err != nil {
			return err
		}
	}
	s := sample{phase: p.name, wall: time.Since(began), usage: map[string]kit.Usage{}}
	var err error
	if s.calls, err = m.read(); err != nil {
		return err
	}
	for _, manager := range m.stack.Managers() {
		now, err := manager.Usage()
		if err != nil {
			return err
		}
		s.usage[manager.Name] = now.Since(m.usage[manager.Name])
		m.usage[manager.Name] = now
	}
	m.samples = append(m.samples, s)
	return nil
}

// read counts the requests that the audit log has gained.
func (m *meter) read() (map[call]int, error) {
	file, err := os.Open(m.stack.Management.AuditLog())
	if err != nil {
		return nil, err
	}
	defer file.Close() //nolint:errcheck // read only
	if _, err := file.Seek(m.offset, io.SeekStart); err != nil {
		return nil, err
	}
	calls := map[call]int{}
	lines := bufio.NewReader(file)
	for {
		line, err := lines.ReadBytes('\n')
		if err == io.EOF { // a last line without its end is not complete yet
			return calls, nil
		}
		if err != nil {
			return nil, err
		}
		m.offset += int64(len(line))
		if err := count(calls, line); err != nil {
			return nil, err
		}
	}
}

func count(calls map[call]int, line []byte) error {
	var event struct {
		Verb string
		User struct{ Username string }

		ObjectRef struct{ Resource, Subresource string }
	}
	if err := json.Unmarshal(line, &event); err != nil {
		return fmt.Errorf("reading the audit log: %w", err)
	}
	manager := event.User.Username[strings.LastIndex(event.User.Username, ":")+1:]
	resource := event.ObjectRef.Resource
	if event.ObjectRef.Subresource != "" {
		resource += "/" + event.ObjectRef.Subresource
	}
	calls[call{manager, event.Verb, resource}]++
	return nil
}

// report prints requests per machine, by manager, and then what they were.
func (m *meter) report(out io.Writer, machines int) error {
	table := tabwriter.NewWriter(out, 0, 4, 2, ' ', 0)
	fmt.Fprintf(table, "%d machines\tmanager\twrites/machine\tof these events\treads/machine\tCPU ms/machine\tpeak MiB\twall s\n", machines)
	for _, s := range m.samples {
		for _, manager := range m.stack.Managers() {
			account := "drover-" + manager.Name
			sent := s.sum(account, func(c call) bool { return slices.Contains(writes, c.verb) })
			events := s.sum(account, func(c call) bool { return c.resource == "events" })
			reads := s.sum(account, func(c call) bool { return c.verb == "get" || c.verb == "list" })
			usage := s.usage[manager.Name]
			fmt.Fprintf(table, "%s\t%s\t%.2f\t%.2f\t%.2f\t%.1f\t%d\t%.1f\n", s.phase, manager.Name,
				per(sent, machines), per(events, machines), per(reads, machines),
				float64(usage.CPU.Milliseconds())/float64(machines), usage.PeakRSS>>20, s.wall.Seconds())
		}
	}
	fmt.Fprintln(table)
	for _, s := range m.samples {
		for _, c := range s.sorted() {
			fmt.Fprintf(table, "%s\t%s\t%s %s\t%.2f\n", s.phase, c.manager, c.verb, c.resource, per(s.calls[c], machines))
		}
	}
	return table.Flush()
}

func (s sample) sum(manager string, counts func(call) bool) int {
	total := 0
	for c, n := range s.calls {
		if c.manager == manager && counts(c) {
			total += n
		}
	}
	return total
}

// sorted are the kinds of writes of a phase, most frequent first.
func (s sample) sorted() []call {
	return slices.SortedFunc(maps.Keys(s.writesOnly()), func(a, b call) int {
		return cmp.Or(cmp.Compare(a.manager, b.manager), cmp.Compare(s.calls[b], s.calls[a]), cmp.Compare(a.resource, b.resource), cmp.Compare(a.verb, b.verb))
	})
}

func (s sample) writesOnly() map[call]int {
	only := map[call]int{}
	for c, n := range s.calls {
		if slices.Contains(writes, c.verb) {
			only[c] = n
		}
	}
	return only
}

func per(n, machines int) float64 { return float64(n) / float64(machines) }
