// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Package health decides which Machines are unhealthy and which of those may be replaced
// now. Evaluate evaluates one Machine; Plan applies the trigger of a MachineHealthCheck, the zones
// and the replacement budgets to all its targets. The annotations that record replacements are read
// and written here. It has no client and no clock; the machinehealthcheck controller uses it to
// decide what to mark, the machineset controller what to delete.
//
//	                  too many unhealthy, zone down, budget used up, too soon after the last
//	               ┌────────────────────────────────┐
//	               ▼                                │
//	Healthy ─▶ Suspect ─▶ Unhealthy ─────────────▶ held
//	   ▲          (timeouts)  │ marked: one place in the budget
//	   │                      ▼
//	   │                   deleted ─▶ unfilled ─▶ replacement, open ─▶ settled: the place is free
//	   └──────────────────────────────────────────────┘ (healthy for 10 minutes)
package health
