// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package label_test

import (
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"

	"drover.io/infra-providers/driver"
	"drover.io/infra-providers/internal/label"
)

var permitted = regexp.MustCompile(`^[a-z0-9_-]{0,63}$`)

func TestIdentityIsRecovered(t *testing.T) {
	t.Parallel()
	for name, id := range map[string]driver.Identity{
		"of a usual machine":        {UID: "0a1b2c3d-0000-4000-8000-000000000001", Name: "worker-1", Owner: driver.Owner{UID: "c", Namespace: "team", Name: "home"}},
		"with dots":                 {UID: "u", Name: "w", Owner: driver.Owner{UID: "c", Namespace: "team", Name: "home.example.org"}},
		"with upper case":           {UID: "Ümläute_", Name: "w", Owner: driver.Owner{UID: "C", Namespace: "team", Name: "home"}},
		"with a name of 253":        {UID: "u", Name: "w", Owner: driver.Owner{UID: "c", Namespace: "team", Name: strings.Repeat("a.", 126) + "b"}},
		"with a name of 63":         {UID: "u", Name: strings.Repeat("w", 63), Owner: driver.Owner{UID: "c", Namespace: "team", Name: "home"}},
		"without the Cluster's UID": {UID: "u", Name: "w", Owner: driver.Owner{Namespace: "team", Name: "home"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			labels := label.Encode(id)
			for key, value := range labels {
				if !permitted.MatchString(key) || !permitted.MatchString(value) {
					t.Errorf("no cloud permits the label %q=%q", key, value)
				}
			}
			if diff := cmp.Diff(id, label.Decode(labels)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if !label.Holds(labels, id) {
				t.Error("the labels do not hold what they were made of")
			}
		})
	}
}

// TestForgedLabelsNameNobody: an escape that Drover does not write is not another way to write a name.
func TestForgedLabelsNameNobody(t *testing.T) {
	t.Parallel()
	id := driver.Identity{UID: "u", Name: "worker", Owner: driver.Owner{UID: "c", Namespace: "team", Name: "home"}}
	for name, value := range map[string]string{
		"an escaped letter": "_74eam", "upper case digits": "te_2E", "half an escape": "team_2", "no digits": "team_zz", "nothing": "",
	} {
		labels := label.Encode(id)
		labels["drover-cluster-namespace"] = value
		if err := id.Check(label.Decode(labels)); !driver.IsNotOwned(err) {
			t.Errorf("%s: got %v, want a NotOwnedError", name, err)
		}
	}
}

func TestMergeKeepsLabelsOfTheUser(t *testing.T) {
	t.Parallel()
	before := driver.Identity{UID: "u", Name: "w", Owner: driver.Owner{UID: types.UID(strings.Repeat("a", 70)), Namespace: "team", Name: "home"}}
	after := before
	after.Owner.UID = "b"
	labels := label.Merge(map[string]string{"cost-center": "x"}, before)
	want := label.Encode(after)
	want["cost-center"] = "x"
	if diff := cmp.Diff(want, label.Merge(labels, after)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
