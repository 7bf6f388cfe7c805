// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"runtime/debug"
	"testing"

	"github.com/KimMachineGun/automemlimit/memlimit"
	"github.com/prometheus/client_golang/prometheus"
	ctrl "sigs.k8s.io/controller-runtime"

	"drover.io/runtime/metric"
	"drover.io/runtime/metric/metrictest"
	"drover.io/runtime/version"
)

func TestExitStatus(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		err    error
		want   int
		stderr string
	}{
		"is 0 at the end":                       {nil, 0, ""},
		"is 0 after --help":                     {fmt.Errorf("wrapped: %w", ErrDone), 0, ""},
		"is 1 with one line why":                {errors.New("no server"), 1, "program: no server\n"},
		"is 1 with one line for several errors": {errors.Join(errors.New("no server"), errors.New("no disk")), 1, "program: no server; no disk\n"},
		"is 1 with a line for each problem":     {LinesError{errors.Join(errors.New("no server"), errors.New("no disk"))}, 1, "program: no server\nprogram: no disk\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			stderr := &bytes.Buffer{}
			if got := status(stderr, "program", test.err); got != test.want || stderr.String() != test.stderr {
				t.Errorf("got %d and %q", got, stderr)
			}
		})
	}
}

func TestHeapStaysBelowTheMemoryLimit(t *testing.T) { //nolint:paralleltest // the limit is that of the process
	before := debug.SetMemoryLimit(-1)
	defer debug.SetMemoryLimit(before)
	limitMemory(memlimit.Limit(1000 << 20))
	if got := debug.SetMemoryLimit(-1); got != 900<<20 {
		t.Errorf("got a limit of %d bytes", got)
	}
	limitMemory(func() (uint64, error) { return 0, memlimit.ErrNoLimit })
	if got := debug.SetMemoryLimit(-1); got != math.MaxInt64 {
		t.Errorf("without a limit of the container: got a limit of %d bytes", got)
	}
}

func TestManagerUsesItsFlags(t *testing.T) {
	t.Parallel()
	o, err := Parse("program", []string{
		"--namespace=ns", "--metrics-bind-address=0", "--health-probe-bind-address=0", "--leader-elect=false", "--leader-election-namespace=leases",
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	got := o.apply("name", ctrl.Options{})
	if _, limited := got.Cache.DefaultNamespaces["ns"]; !limited || len(got.Cache.DefaultNamespaces) != 1 {
		t.Errorf("the cache is of %v", got.Cache.DefaultNamespaces)
	}
	if got.Metrics.BindAddress != "0" || got.HealthProbeBindAddress != "0" || got.LeaderElection || got.LeaderElectionID != "name" ||
		got.LeaderElectionNamespace != "leases" || !got.LeaderElectionReleaseOnCancel || *got.GracefulShutdownTimeout != shutdownTimeout || *got.RetryPeriod != o.RetryPeriod {
		t.Errorf("settings are %+v", got)
	}
	if o.OwnNamespace() != "leases" {
		t.Errorf("Leases are in %q", o.OwnNamespace())
	}
	o.LeaderElectionNamespace = ""
	if outside := o.apply("name", ctrl.Options{}); outside.LeaderElectionNamespace != "kube-system" {
		t.Errorf("outside of a pod Leases are in %q", outside.LeaderElectionNamespace)
	}
	o.Namespace = ""
	if all := o.apply("name", ctrl.Options{}); all.Cache.DefaultNamespaces != nil {
		t.Errorf("without --namespace the cache is of %v", all.Cache.DefaultNamespaces)
	}
}

func TestBuildInfo(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewRegistry()
	for range 2 { // tests make several managers in one process
		setBuildInfo()
		if err := metric.Register(registry); err != nil {
			t.Fatal(err)
		}
	}
	built := version.Get()
	want := fmt.Sprintf("drover_build_info go_version=%s revision=%s version=%s", built.Go, built.Revision, built.Version)
	if samples := metrictest.Samples(t, registry); samples[want] != 1 {
		t.Errorf("there is no %s in %v", want, samples)
	}
}

func TestIdentityIsUniquePerProcess(t *testing.T) {
	t.Parallel()
	one, err := Identity()
	other, again := Identity()
	if err != nil || again != nil || one == other {
		t.Errorf("got %q and %q, %v, %v", one, other, err, again)
	}
}
