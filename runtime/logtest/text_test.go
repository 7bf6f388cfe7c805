// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package logtest

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
)

func TestTextRecorder(t *testing.T) {
	t.Parallel()
	r := &TextRecorder{}
	log := ctrl.LoggerFrom(r.Context(t.Context())).WithValues("Cluster", klog.KRef("ns", "c")).WithName("x")
	log.Info("created Machine", "Machine", klog.KRef("ns", "m"), "count", 2)
	log.V(1).Info("waiting for the Node")
	log.Error(errors.New("boom"), "reading Machine")
	want := []string{"created Machine Cluster=ns/c Machine=ns/m count=2", "error: reading Machine Cluster=ns/c err=boom"}
	if diff := cmp.Diff(want, r.Lines("")); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(want[:1], r.Lines("Machine=ns/m")); diff != "" {
		t.Error(diff)
	}
}

func TestTakeReturnsTheTextOnce(t *testing.T) {
	t.Parallel()
	r := &TextRecorder{Verbosity: 1}
	log := r.Logger()
	log.V(1).Info("waiting for the Node")
	log.V(2).Info("read Node")
	log.Info("created Machine")
	if diff := cmp.Diff([]string{"created Machine", "waiting for the Node"}, r.Take()); diff != "" {
		t.Error(diff)
	}
	if again := r.Take(); len(again) > 0 {
		t.Errorf("the lines are returned again: %q", again)
	}
}
