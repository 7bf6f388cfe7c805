// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package logtest

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	ctrl "sigs.k8s.io/controller-runtime"
)

func TestRecorder(t *testing.T) {
	t.Parallel()
	for verbosity, want := range map[int][]string{
		0: {`"level"=0 "msg"="created Machine" "Cluster"="c" "count"=2`, `"msg"="reading Machine" "error"="boom" "Cluster"="c"`},
		1: {`"level"=0 "msg"="created Machine" "Cluster"="c" "count"=2`, `"level"=1 "msg"="waiting for the Node" "Cluster"="c"`, `"msg"="reading Machine" "error"="boom" "Cluster"="c"`},
	} {
		r := &Recorder{Verbosity: verbosity}
		log := ctrl.LoggerFrom(r.Context(t.Context())).WithValues("Cluster", "c")
		log.Info("created Machine", "count", 2)
		log.V(1).Info("waiting for the Node")
		log.V(2).Info("detail")
		log.Error(errors.New("boom"), "reading Machine")
		if diff := cmp.Diff(want, r.Lines("")); diff != "" {
			t.Errorf("verbosity %d (-want +got):\n%s", verbosity, diff)
		}
		if diff := cmp.Diff(want[:1], r.Lines("created")); diff != "" {
			t.Errorf("verbosity %d, of one text (-want +got):\n%s", verbosity, diff)
		}
		if diff := cmp.Diff(want, r.Take()); diff != "" {
			t.Errorf("verbosity %d, taken (-want +got):\n%s", verbosity, diff)
		}
		if again := r.Take(); len(again) != 0 {
			t.Errorf("verbosity %d: taken twice: %q", verbosity, again)
		}
	}
}
