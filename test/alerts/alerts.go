// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Package alerts has a real Prometheus scrape real managers, injects faults, and compares the alerts that fire with those
// that must. `make e2e-alerts` runs it; the tests of the rules alone are in test/monitoring.
package alerts

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"time"

	promv1 "github.com/prometheus/client_golang/api/prometheus/v1"
	"github.com/prometheus/common/model"

	"drover.io/test/prometheus"
)

// machines is the size of the fleet.
const machines = 3

// faster is how many times shorter all times of the rules are in this test: a minute is a second.
const faster = 60

var (
	times      = regexp.MustCompile(`(for: |\[|:)(\d+)([mhd])`)
	thresholds = regexp.MustCompile(`> (\d{3,})`)
)

// shorten divides all times of the rules: how long alerts wait, ranges, steps, and thresholds in seconds. Ranges are at least 45
// seconds, in which a refused eviction is repeated.
func shorten(rules string) string {
	rules = times.ReplaceAllStringFunc(rules, func(text string) string {
		match := times.FindStringSubmatch(text)
		n, _ := strconv.Atoi(match[2])
		seconds := n * map[string]int{"m": 60, "h": 3600, "d": 86400}[match[3]] / faster
		if match[1] == "[" {
			seconds = max(seconds, 45)
		}
		return fmt.Sprintf("%s%ds", match[1], seconds)
	})
	return thresholds.ReplaceAllStringFunc(rules, func(text string) string {
		n, _ := strconv.Atoi(thresholds.FindStringSubmatch(text)[1])
		return fmt.Sprintf("> %d", n/faster)
	})
}

// firing are the names of the alerts that fire, each once.
func firing(ctx context.Context, server *prometheus.Server) ([]string, error) {
	answer, err := server.Alerts(ctx)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, alert := range answer.Alerts {
		if name := string(alert.Labels[model.AlertNameLabel]); alert.State == promv1.AlertStateFiring {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names), nil
}

// await waits until exactly these alerts fire, and have fired for a while.
func await(ctx context.Context, server *prometheus.Server, want ...string) error {
	slices.Sort(want)
	const steady = 10 * time.Second
	since := time.Time{}
	var got []string
	for {
		var err error
		got, err = firing(ctx, server)
		switch {
		case err != nil || !slices.Equal(got, want):
			since = time.Time{}
		case since.IsZero():
			since = time.Now()
		case time.Since(since) > steady:
			return nil
		}
		select {
		case <-ctx.Done():
			return errors.Join(fmt.Errorf("waiting for the alerts %q: %q fire", want, got), err)
		case <-time.After(time.Second):
		}
	}
}
