// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Package faulttest takes many machines of any cloud through their lifecycles while everything fails at random: the cloud
// refuses calls, loses answers, has no capacity, throttles and lags; writes to the API server fail or lose their answers; reads
// of it are behind, as a cache is; the reconciler is restarted. Instances of other tenants with the same names are in the
// account all the time. At the end nothing may be leaked, doubled or stuck, and nothing of the others touched.
//
// A driver's test calls Run with a simulated cloud, next to the conformance suite of package drivertest,
// whose hooks it shares. The API server is a real one. A run is a function of its seed as far as the
// simulated cloud is; DROVER_SOAK_LIFECYCLES and DROVER_SOAK_SEED make it longer or another, and no lifecycle
// begins once it took DROVER_SOAK_MINUTES.
package faulttest

import (
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"

	"drover.io/infra-providers/driver"
	"drover.io/infra-providers/driver/drivertest"
	"drover.io/infra-providers/internal/testenv"
)

const (
	// concurrentMachines is how many machines exist at the same time.
	concurrentMachines = 12
	// progressInterval is after how many lifecycles the progress is logged.
	progressInterval = 500
)

// Environment is a simulated cloud with nothing in it.
type Environment[M driver.Machine, C any] struct {
	// Cloud is the cloud as it ships, with a Connect to the simulated one.
	Cloud driver.Cloud[M, C]
	// Machine returns a machine with a spec that the cloud accepts. The test names it.
	Machine func() M
	// Secret holds the credentials that the machines name; nil without. The test sets its namespace.
	Secret *corev1.Secret
	// Hooks are those of the conformance suite over the same simulated cloud. Driver and Leftovers are
	// needed; Lose, Refuse, Interrupt and Hide are used where they are there.
	Hooks drivertest.Environment[C]
	// ReportsDoubles is true for a simulated cloud that fails the test itself if it makes a second instance of a machine beside the
	// first. There a machine may get another instance than one that was listed and never started, as in clouds where that is a
	// second step: one that cannot be started is deleted before another one is made.
	ReportsDoubles bool
	// Pass moves the clock of the simulated cloud; nil where time passes by itself or by reads.
	Pass func(time.Duration)
}

// Run takes machines through their lifecycles, in a namespace of their own, and fails the test if anything is leaked, doubled
// or stuck. A simulated cloud may use the Rand at each request, to fail in the middle of a call too.
func Run[M driver.Machine, C any](t *testing.T, cluster *testenv.Cluster, open func(t *testing.T, rand *Rand) Environment[M, C]) {
	t.Helper()
	ctrl.SetLogger(logr.Discard())
	lives, seed, limit := number(t, "DROVER_SOAK_LIFECYCLES", 40), number(t, "DROVER_SOAK_SEED", 1), number(t, "DROVER_SOAK_MINUTES", 12*60)
	rand := newRand(uint64(seed))
	s, err := newRun(t.Context(), cluster, rand, open(t, rand))
	if err != nil {
		t.Fatal(err)
	}
	end := time.Now().Add(time.Duration(limit) * time.Minute)
	err = s.run(t.Context(), func(begun int) bool {
		if begun >= lives || time.Now().After(end) {
			return false
		}
		if begun%progressInterval == progressInterval-1 {
			t.Logf("lifecycle %d begins", begun+1)
		}
		return true
	})
	t.Logf("%d lifecycles with seed %d; %d reconciles; calls of the driver: %v; faults: %v", s.lived, seed, s.steps, s.answers.calls, rand.thrown)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.checkRemaining(t.Context()); err != nil {
		t.Fatal(err)
	}
	if s.lived == 0 {
		t.Fatal("no machine completed its lifecycle, so this proves nothing")
	}
	t.Log("0 leaked, 0 doubled, 0 stuck, 0 of others touched")
}

func number(t *testing.T, name string, usual int) int {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return usual
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatalf("%s=%q is not a number", name, text)
	}
	return n
}
