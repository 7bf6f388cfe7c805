// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package kubeversion

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

func TestNormalize(t *testing.T) {
	t.Parallel()
	for given, want := range map[string]string{"": "", "1.36.3": "v1.36.3", "v1.36.3": "v1.36.3", "1.36.3+k3s1": "v1.36.3+k3s1"} {
		if got := Normalize(given); got != want {
			t.Errorf("%q becomes %q, want %q", given, got, want)
		}
	}
}

func TestUpgrades(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		from, to string
		want     bool
	}{
		"to a newer patch":    {"v1.36.2", "v1.36.3", true},
		"without the prefix":  {"1.36.2", "v1.36.3", true},
		"to the same":         {"v1.36.3", "1.36.3", false},
		"to an older":         {"v1.36.4", "v1.36.3", false},
		"to the tenth minor":  {"v1.9.9", "v1.10.0", true},
		"from a candidate":    {"v1.36.0-rc.1", "v1.36.0", true},
		"to a newer build":    {"v1.36.3+rke2r1", "v1.36.3+rke2r2", true},
		"to an older build":   {"v1.36.3+2", "v1.36.3+1", false},
		"to an unlike build":  {"v1.36.3+alpha", "v1.36.3+beta", true},
		"to no version alone": {"v1.36", "v1.36.0", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			from, err := Parse(test.from)
			if err != nil {
				t.Fatal(err)
			}
			to, err := Parse(test.to)
			if err != nil {
				t.Fatal(err)
			}
			if got := Upgrades(from, to); got != test.want {
				t.Errorf("got %t, want %t", got, test.want)
			}
		})
	}
}

func TestCount(t *testing.T) {
	t.Parallel()
	got := Count([]clusterv1.StatusVersion{
		{Version: "none", Replicas: 1}, {Version: "v1.10.0", Replicas: 2}, {Version: "v1.9.0", Replicas: 1}, {Replicas: 4},
		{Version: "v1.10.0", Replicas: 3}, {Version: "v1.10.0-rc.1", Replicas: 1}, {Version: "also none", Replicas: 1},
	}, MaxOfOwner)
	want := []clusterv1.StatusVersion{
		{Version: "v1.9.0", Replicas: 1}, {Version: "v1.10.0-rc.1", Replicas: 1}, {Version: "v1.10.0", Replicas: 5},
		{Version: "also none", Replicas: 1}, {Version: "none", Replicas: 1},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	many := []clusterv1.StatusVersion{{Version: "v1.36.0-" + strings.Repeat("x", 300), Replicas: 2}, {Version: "zzz", Replicas: 3}}
	for i := range 200 {
		many = append(many, clusterv1.StatusVersion{Version: fmt.Sprintf("v1.36.0-%d", i), Replicas: 1})
	}
	got = Count(many, MaxOfOwner)
	if len(got) != 100 || len(got[98].Version) != 256 || got[99].Version != "zzz" {
		t.Errorf("counted %d versions, ending in %v", len(got), got[len(got)-2:])
	}
	if got := Count(many, MaxOfCluster); len(got) != 32 {
		t.Errorf("counted %d versions for a Cluster", len(got))
	}
	if Count(nil, MaxOfOwner) != nil {
		t.Error("nothing is counted as something, which the API refuses")
	}
}
