// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Package alerts has a real Prometheus scrape real managers, injects faults, and compares the alerts that fire with those
// that must. `make e2e-alerts` runs it; the tests of the rules alone are in test/monitoring.
package alerts

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"drover.io/test/process"
)

// faster is how many times shorter all times of the rules are in this test: a minute is a second.
const faster = 60

var (
	times      = regexp.MustCompile(`(for: |\[)(\d+)([mh])`)
	thresholds = regexp.MustCompile(`> (\d{3,})`)
)

// shorten divides all times of the rules: how long alerts wait, ranges, and thresholds in seconds. Ranges are at least ten
// seconds, in which there are ten scrapes.
func shorten(rules string) string {
	rules = times.ReplaceAllStringFunc(rules, func(text string) string {
		match := times.FindStringSubmatch(text)
		n, _ := strconv.Atoi(match[2])
		seconds := n * map[string]int{"m": 60, "h": 3600}[match[3]] / faster
		if match[1] == "[" {
			seconds = max(seconds, 10)
		}
		return fmt.Sprintf("%s%ds", match[1], seconds)
	})
	return thresholds.ReplaceAllStringFunc(rules, func(text string) string {
		n, _ := strconv.Atoi(thresholds.FindStringSubmatch(text)[1])
		return fmt.Sprintf("> %d", n/faster)
	})
}

// prometheus is one that runs.
type prometheus struct {
	process *process.Process
	url     string
	log     string
}

// startPrometheus starts Prometheus with the rules of a release, which scrapes the addresses once per second.
func startPrometheus(program, dir, rules, address string, targets map[string]string) (*prometheus, error) {
	config := strings.Builder{}
	config.WriteString("global: {scrape_interval: 1s, scrape_timeout: 1s, evaluation_interval: 1s}\nrule_files: [alerts.yaml]\nscrape_configs:\n")
	for job, target := range targets {
		fmt.Fprintf(&config, "- {job_name: %s, honor_labels: true, static_configs: [{targets: [%q]}]}\n", job, target)
	}
	for name, content := range map[string]string{"prometheus.yaml": config.String(), "alerts.yaml": shorten(rules)} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			return nil, err
		}
	}
	p := &prometheus{url: "http://" + address, log: filepath.Join(dir, "prometheus.log")}
	var err error
	p.process, err = process.Start(process.Command{Path: program, Log: p.log, Args: []string{
		"--config.file=" + filepath.Join(dir, "prometheus.yaml"), "--storage.tsdb.path=" + filepath.Join(dir, "data"),
		"--web.listen-address=" + address, "--log.level=warn",
	}})
	return p, err
}

// firing are the names of the alerts that fire, each once.
func (p *prometheus) firing(ctx context.Context) ([]string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, p.url+"/api/v1/alerts", nil)
	if err != nil {
		return nil, err
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer func() { _ = answer.Body.Close() }()
	var content struct {
		Data struct {
			Alerts []struct {
				State  string
				Labels map[string]string
			}
		}
	}
	if err := json.NewDecoder(answer.Body).Decode(&content); err != nil {
		return nil, err
	}
	var names []string
	for _, alert := range content.Data.Alerts {
		if name := alert.Labels["alertname"]; alert.State == "firing" && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names, nil
}

// await waits until exactly these alerts fire, and have fired for a while.
func (p *prometheus) await(ctx context.Context, want ...string) error {
	slices.Sort(want)
	const steady = 10 * time.Second
	since := time.Time{}
	var got []string
	for {
		var err error
		got, err = p.firing(ctx)
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
