// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Package prometheus runs a real Prometheus that scrapes managers, for the tests of the alerts and the pictures of the
// dashboards.
package prometheus

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/api"
	promv1 "github.com/prometheus/client_golang/api/prometheus/v1"

	"drover.io/test/process"
)

// stopTimeout is how long Prometheus may take to end.
const stopTimeout = 10 * time.Second

// Options configure a Prometheus.
type Options struct {
	// Program is the path of the binary, Dir an existing folder for its configuration, log and data.
	Program, Dir string
	// Rules are the content of a file of rules, or empty.
	Rules string
	// Targets are the addresses to scrape, by job.
	Targets map[string]string
}

// Server is a Prometheus that runs. It scrapes and evaluates rules once per second.
type Server struct {
	promv1.API
	process *process.Process
}

// Start starts a Prometheus on an address of the loopback interface. It may not answer yet.
func Start(o Options) (*Server, error) {
	address, err := process.FreeAddress()
	if err != nil {
		return nil, err
	}
	config := filepath.Join(o.Dir, "prometheus.yaml")
	for path, content := range map[string]string{config: o.config(), filepath.Join(o.Dir, "rules.yaml"): o.Rules} {
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			return nil, err
		}
	}
	answering, err := api.NewClient(api.Config{Address: "http://" + address})
	if err != nil {
		return nil, err
	}
	running, err := process.Start(process.Command{Path: o.Program, Log: filepath.Join(o.Dir, "prometheus.log"), Args: []string{
		"--config.file=" + config, "--storage.tsdb.path=" + filepath.Join(o.Dir, "data"),
		"--web.listen-address=" + address, "--log.level=warn",
	}})
	if err != nil {
		return nil, err
	}
	return &Server{API: promv1.NewAPI(answering), process: running}, nil
}

// Stop ends the process.
func (s *Server) Stop() { s.process.End(stopTimeout) }

func (o Options) config() string {
	var config strings.Builder
	config.WriteString("global: {scrape_interval: 1s, scrape_timeout: 1s, evaluation_interval: 1s}\nrule_files: [rules.yaml]\nscrape_configs:\n")
	for _, job := range slices.Sorted(maps.Keys(o.Targets)) {
		fmt.Fprintf(&config, "- {job_name: %s, honor_labels: true, static_configs: [{targets: [%q]}]}\n", job, o.Targets[job])
	}
	return config.String()
}
