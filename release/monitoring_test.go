// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"testing"
)

func TestMonitoringIsPartOfARelease(t *testing.T) {
	t.Parallel()
	j := imageJob{root: "..", folder: t.TempDir()}
	if err := writeMonitoring(j); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]bool{
		"monitoring/alerts.yaml": true, "monitoring/kube-state-metrics.yaml": true, "monitoring/dashboards/drover-fleet.json": true,
		"monitoring/docs/runbooks/DroverFrozen.md": true, "monitoring/alerts_test.yaml": false,
	} {
		if _, err := os.Stat(filepath.Join(j.folder, name)); (err == nil) != want {
			t.Errorf("%s: %v", name, err)
		}
	}
}
