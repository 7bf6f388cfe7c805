// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"drover.io/test/bench/audit"
	"drover.io/test/bench/report"
	"drover.io/test/controlplane/binaries"
	"drover.io/test/framework"
)

// idlePeriod is the time without requests after which a phase ends.
const idlePeriod = 3 * time.Second

// meter measures the cost of each phase: requests by the audit logs of both clusters, processor and memory
// by the operating system, and reconciles by the core's own metrics.
type meter struct {
	core    core
	stack   *framework.Stack
	metrics string

	management, workload audit.Log
	usage, server        framework.Usage
	reconciles           float64
}

func newMeter(core core, stack *framework.Stack, port int) *meter {
	return &meter{
		core: core, stack: stack, metrics: fmt.Sprintf("http://127.0.0.1:%d/metrics", port),
		management: audit.Log{Path: stack.Management.AuditLog()},
		workload:   audit.Log{Path: stack.Workload.AuditLog()},
	}
}

// settle waits until there were no requests for a while.
func (m *meter) settle(ctx context.Context) error {
	var last int64
	since := time.Now()
	for {
		size, err := m.size()
		if err != nil {
			return err
		}
		if size != last {
			last, since = size, time.Now()
		}
		if time.Since(since) > idlePeriod {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting for the core to be done: %w", ctx.Err())
		case <-time.After(look):
		}
	}
}

func (m *meter) size() (int64, error) {
	management, err := m.management.Size()
	if err != nil {
		return 0, err
	}
	workload, err := m.workload.Size()
	return management + workload, err
}

// measure does what a phase is and returns what it cost. The wall time ends when done returns; what
// the core does afterwards by itself still counts.
func (m *meter) measure(ctx context.Context, name string, do func(context.Context) error) (report.Phase, error) {
	phase := report.Phase{Name: name}
	began := time.Now()
	if err := do(ctx); err != nil {
		return phase, fmt.Errorf("%s: %w", name, err)
	}
	phase.Wall = time.Since(began).Seconds()
	if err := m.settle(ctx); err != nil {
		return phase, fmt.Errorf("%s: %w", name, err)
	}
	if err := m.use(&phase); err != nil {
		return phase, err
	}
	if err := m.count(&phase); err != nil {
		return phase, err
	}
	reconciles, err := m.reconciled(ctx)
	if err != nil {
		return phase, err
	}
	if phase.Reconciles = reconciles - m.reconciles; phase.Reconciles < 0 { // it was restarted
		phase.Reconciles = reconciles
	}
	m.reconciles = reconciles
	return phase, nil
}

// use reads processor and memory.
func (m *meter) use(phase *report.Phase) error {
	for _, manager := range m.stack.Managers() {
		if manager.Name != m.core.manager {
			continue
		}
		now, err := manager.Usage()
		if err != nil {
			return err
		}
		phase.CPU = now.Since(m.usage).CPU.Seconds()
		phase.RSS, phase.PeakRSS = mib(now.RSS), mib(now.PeakRSS)
		m.usage = now
	}
	for _, process := range m.stack.Management.Processes() {
		if process.Name != binaries.APIServer {
			continue
		}
		now, err := framework.UsageOf(process.PID)
		if err != nil {
			return err
		}
		phase.ServerCPU = now.Since(m.server).CPU.Seconds()
		m.server = now
	}
	return nil
}

func mib(bytes int64) float64 { return float64(bytes) / (1 << 20) }

// count reads the requests.
func (m *meter) count(phase *report.Phase) error {
	management, err := m.management.Read()
	if err != nil {
		return err
	}
	workload, err := m.workload.Read()
	if err != nil {
		return err
	}
	phase.Calls = map[string]int{}
	for call, n := range management {
		if call.User != m.core.account {
			phase.Others += written(call, n)
			continue
		}
		name := "management " + call.Verb + " " + call.Resource
		if call.Refused {
			name += ", refused"
			phase.Refused += n
		}
		phase.Calls[name] += n
		switch {
		case call.Event():
			phase.Events += n
		case call.Write():
			phase.Writes += n
		case call.Verb != "watch":
			phase.Reads += n
		}
	}
	for call, n := range workload {
		phase.Calls["workload "+call.Verb+" "+call.Resource] += n
		if call.Write() {
			phase.WorkloadWrites += n
		} else if call.Verb != "watch" {
			phase.WorkloadReads += n
		}
	}
	return nil
}

func written(call audit.Call, n int) int {
	if call.Write() && !call.Event() {
		return n
	}
	return 0
}

// reconciled reads the number of reconciles from the core's metrics.
func (m *meter) reconciled(ctx context.Context) (float64, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, m.metrics, nil)
	if err != nil {
		return 0, err
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, fmt.Errorf("reading the core's metrics: %w", err)
	}
	defer answer.Body.Close() //nolint:errcheck // read only
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(answer.Body)
	if err != nil {
		return 0, fmt.Errorf("reading the core's metrics: %w", err)
	}
	var total float64
	for name, family := range families {
		if !strings.HasPrefix(name, "controller_runtime_reconcile_total") {
			continue
		}
		for _, metric := range family.GetMetric() {
			total += metric.GetCounter().GetValue()
		}
	}
	return total, nil
}
