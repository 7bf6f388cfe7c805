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
	if o.metricsAddress != ":8085" || o.probeAddress != ":9440" || o.pprofAddress != "" || !o.leaderElect || o.namespace != "" || o.watchFilter != "" ||
		o.workers != 20 || o.syncPeriod != 10*time.Minute || o.remoteGrace != 5*time.Minute || len(o.syncLabels)+len(o.syncAnnotations) != 0 {
		t.Errorf("defaults are %+v", o)
	}
	o, err = parseOptions([]string{
		"--worker-count=3", "--namespace=ns", "--leader-elect=false", "--remote-conditions-grace-period=2m", "-v=2",
		"--additional-sync-machine-labels=^a$,b.*", "--additional-sync-machine-annotations=.*",
	})
	if err != nil {
		t.Fatal(err)
	}
	if o.workers != 3 || o.namespace != "ns" || o.leaderElect || o.remoteGrace != 2*time.Minute {
		t.Errorf("options are %+v", o)
	}
	if len(o.syncLabels) != 2 || !o.syncLabels[1].MatchString("bc") || len(o.syncAnnotations) != 1 {
		t.Errorf("expressions are %v and %v", o.syncLabels, o.syncAnnotations)
	}
}

func TestBadOptionsAreNamed(t *testing.T) {
	t.Parallel()
	for flag, value := range map[string]string{
		"--worker-count": "0", "--remote-conditions-grace-period": "1m59s", "--sync-period": "soon",
		"--additional-sync-machine-labels": "(", "--additional-sync-machine-annotations": "a[", "--no-such-flag": "x",
	} {
		t.Run(flag, func(t *testing.T) {
			t.Parallel()
			if _, err := parseOptions([]string{flag + "=" + value}); err == nil || !strings.Contains(err.Error(), strings.TrimPrefix(flag, "--")) {
				t.Errorf("error is %v, want one that names %s", err, flag)
			}
		})
	}
}
