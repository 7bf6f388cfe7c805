// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Package check tells whether an installation is well: one check per line, each with what was found and, if it is not well,
// what helps. It only reads.
package check

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/version"

	"drover.io/kubectl-drover/internal/escape"
	"drover.io/kubectl-drover/internal/object"
	"drover.io/runtime/quantity"
)

// Level is how a check ended.
type Level string

// The levels.
const (
	// OK means that it is as it should be.
	OK Level = "ok"
	// Warning means that it works, and needs attention.
	Warning Level = "warning"
	// Failed means that it does not work.
	Failed Level = "failed"
	// Unknown means that it could not be checked, for want of a permission.
	Unknown Level = "unknown"
)

// Result is what a check found.
type Result struct {
	Name    string `json:"name"`
	Level   Level  `json:"level"`
	Message string `json:"message"`
	// Help is what to do; empty if there is nothing to do.
	Help string `json:"help,omitempty"`
}

// Checker checks an installation.
type Checker struct {
	*object.Reader
	Now time.Time
	// ManagerNamespace is the namespace of the managers.
	ManagerNamespace string
	// Namespace limits the checks of Clusters and their objects; empty is all namespaces.
	Namespace string
	// Release is the version of this plugin, with whose roles the installed ones are compared.
	Release string
	// Version asks the API server for its version.
	Version func() (*version.Info, error)
}

// Run runs all checks. After the first, which is whether the API server answers and has the kinds, each runs whatever came out
// of those before it.
func (c *Checker) Run(ctx context.Context) []Result {
	results := c.server(ctx)
	for _, r := range results {
		if r.Level == Failed {
			return results
		}
	}
	for _, check := range []func(context.Context) []Result{
		c.roles,
		c.managers,
		c.leases,
		c.clusters,
		c.kubeconfigs,
		c.credentials,
		c.frozen,
		c.orphans,
	} {
		results = append(results, check(ctx)...)
	}
	return results
}

// NoneFailed reports whether no check has failed.
func NoneFailed(results []Result) bool {
	for _, r := range results {
		if r.Level == Failed {
			return false
		}
	}
	return true
}

// Text is a line for each check, and one for what helps.
func Text(results []Result) string {
	var out strings.Builder
	counts := map[Level]int{}
	for _, r := range results {
		counts[r.Level]++
		fmt.Fprintf(&out, "%-8s %s: %s\n", r.Level, r.Name, escape.Line(r.Message))
		if r.Help != "" {
			fmt.Fprintf(&out, "         %s\n", escape.Line(r.Help))
		}
	}
	fmt.Fprintf(&out, "\n%d ok, %s, %d failed, %d not checked\n", counts[OK], quantity.Of(counts[Warning], "warning"), counts[Failed], counts[Unknown])
	return out.String()
}

func ok(name, format string, args ...any) []Result {
	return []Result{{name, OK, fmt.Sprintf(format, args...), ""}}
}

func failed(name, help, format string, args ...any) Result {
	return Result{name, Failed, fmt.Sprintf(format, args...), help}
}

func warning(name, help, format string, args ...any) Result {
	return Result{name, Warning, fmt.Sprintf(format, args...), help}
}

// unread is the result of a check that could not read what it needs.
func unread(name string, err error) []Result {
	if object.IsForbidden(err) {
		return []Result{{name, Unknown, err.Error(), ""}}
	}
	return []Result{{name, Failed, err.Error(), ""}}
}

// sorted are results by their message, so that the same state gives the same output.
func sorted(results []Result) []Result {
	slices.SortFunc(results, func(a, b Result) int { return strings.Compare(a.Message, b.Message) })
	return results
}
