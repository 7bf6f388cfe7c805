// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// clockTick is the unit of processor time in /proc, the same on every Linux that Go runs on.
const clockTick = 10 * time.Millisecond

// Usage is what a process has used so far.
type Usage struct {
	// PID distinguishes a process from its successor.
	PID int
	// CPU is processor time, of user and kernel.
	CPU time.Duration
	// RSS is the memory it holds, and PeakRSS the most it ever held, in bytes.
	RSS, PeakRSS int64
}

// Since is the usage after an earlier reading. A process that has been restarted since
// then counts from its start.
func (u Usage) Since(before Usage) Usage {
	if u.PID == before.PID {
		u.CPU -= before.CPU
	}
	return u
}

// Usage reads what the manager's process has used.
func (m *Manager) Usage() (Usage, error) { return UsageOf(m.current().PID) }

// UsageOf reads what a process has used, from /proc.
func UsageOf(pid int) (Usage, error) {
	usage := Usage{PID: pid}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", usage.PID))
	if err != nil {
		return Usage{}, err
	}
	// The second field, the name in parentheses, may hold spaces; what follows may not.
	fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
	const user, kernel = 11, 12
	for _, field := range []int{user, kernel} {
		ticks, err := strconv.ParseInt(fields[field], 10, 64)
		if err != nil {
			return Usage{}, err
		}
		usage.CPU += time.Duration(ticks) * clockTick
	}
	usage.RSS, usage.PeakRSS, err = memory(usage.PID)
	return usage, err
}

func memory(pid int) (now, peak int64, err error) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, 0, err
	}
	found := map[string]int64{}
	for line := range strings.Lines(string(status)) {
		name, text, _ := strings.Cut(line, ":")
		if name != "VmRSS" && name != "VmHWM" {
			continue
		}
		kib, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(text), " kB"), 10, 64)
		if err != nil {
			return 0, 0, err
		}
		found[name] = kib << 10
	}
	if len(found) != 2 {
		return 0, 0, fmt.Errorf("no VmRSS and VmHWM in the status of process %d", pid)
	}
	return found["VmRSS"], found["VmHWM"], nil
}
