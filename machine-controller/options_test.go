// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"testing"
	"time"
)

func TestParseOptions(t *testing.T) {
	t.Parallel()
	o, err := parseOptions(nil)
	if err != nil {
		t.Fatal(err)
	}
	if o.WorkerCount != 20 || o.remoteGrace != 5*time.Minute || len(o.syncLabels)+len(o.syncAnnotations) != 0 {
		t.Errorf("defaults are %+v", o)
	}
	o, err = parseOptions([]string{
		"--worker-count=3", "--namespace=ns", "--leader-elect=false", "--remote-conditions-grace-period=2m", "-v=2",
		"--additional-sync-machine-labels=^a$,b.*", "--additional-sync-machine-annotations=.*",
	})
	if err != nil {
		t.Fatal(err)
	}
	if o.WorkerCount != 3 || o.Namespace != "ns" || o.LeaderElect || o.remoteGrace != 2*time.Minute {
		t.Errorf("options are %+v", o)
	}
	if len(o.syncLabels) != 2 || !o.syncLabels[1].MatchString("bc") || len(o.syncAnnotations) != 1 {
		t.Errorf("expressions are %v and %v", o.syncLabels, o.syncAnnotations)
	}
}

func TestBadOptionsAreNamed(t *testing.T) {
	t.Parallel()
	for flag, value := range map[string]string{
		"--namespace": "Bad_NS", "--safety-up": "-1", "--safety-down": "-1", "--node-memory-per-namespace": "128",
		"--machine-safety-overshooting-period": "-1s", "--machine-safety-apiserver-statuscheck-period": "0s", "--machine-safety-apiserver-statuscheck-timeout": "-1s",
		"--remote-conditions-grace-period": "1m59s",
		"--additional-sync-machine-labels": "(", "--additional-sync-machine-annotations": "a[", "--no-such-flag": "x",
	} {
		t.Run(flag, func(t *testing.T) {
			t.Parallel()
			_, err := parseOptions([]string{flag + "=" + value})
			if err == nil || !strings.Contains(err.Error(), strings.TrimPrefix(flag, "--")) || strings.Contains(err.Error(), "\n") {
				t.Errorf("error is %v, want one line that names %s", err, flag)
			}
		})
	}
}
