// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package guides

import (
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var relabels = regexp.MustCompile(`(?m)^kubectl label --overwrite (\S+) (.*)cluster\.x-k8s\.io/watch-filter=new$`)

// TestMovingToAnotherInstallation checks that the commands that move a Cluster relabel each kind that has the label, between a
// pause and its end, and the Cluster last: its new installation refuses what has the label of the old one.
func TestMovingToAnotherInstallation(t *testing.T) {
	t.Parallel()
	root, _ := repository(t)
	var commands string
	for _, b := range blocks(text(t, filepath.Join(root, "docs", "explanation", "installations.md"))) {
		if strings.Contains(b.text, "watch-filter=") {
			commands += b.text
		}
	}
	lines := strings.Split(strings.TrimSpace(commands), "\n")
	if first, last := lines[0], lines[len(lines)-1]; !strings.Contains(first, `"paused":true`) || !strings.Contains(last, `"paused":false`) {
		t.Errorf("the Cluster is not paused during the move: %q, %q", first, last)
	}
	var kinds []string
	for _, found := range relabels.FindAllStringSubmatch(commands, -1) {
		kinds = append(kinds, strings.Split(found[1], ",")...)
	}
	if len(kinds) == 0 || kinds[len(kinds)-1] != "cluster" {
		t.Fatalf("the Cluster is not relabelled last: %q", kinds)
	}
	// Clusters refer to kinds of other projects, of which these are examples.
	want := []string{"awsclusters", "kubeadmcontrolplanes"}
	crds, err := filepath.Glob(filepath.Join(root, "api", "crds", "bases", "*.yaml"))
	if err != nil || len(crds) == 0 {
		t.Fatalf("%d CustomResourceDefinitions, error %v", len(crds), err)
	}
	for _, crd := range crds {
		_, kind, _ := strings.Cut(strings.TrimSuffix(filepath.Base(crd), ".yaml"), "_")
		switch {
		case kind == "clusters", kind == "machinepools", kind == "machinedrainrules": // last, not served, need no label
		case strings.HasPrefix(filepath.Base(crd), "infrastructure.drover.io_") && !strings.HasPrefix(kind, "hetzner") && strings.Contains(kind, "machine"): // another cloud's
		default:
			want = append(want, kind)
		}
	}
	for _, kind := range want {
		if !slices.Contains(kinds, kind) {
			t.Errorf("%s keep the label of the old installation", kind)
		}
	}
}
