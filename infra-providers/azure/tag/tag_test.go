// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package tag_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/utils/ptr"

	"drover.io/infra-providers/azure/tag"
	"drover.io/infra-providers/driver"
)

var identity = driver.Identity{UID: "0a1b", Name: strings.Repeat("n", 253), Owner: driver.Owner{UID: "c", Namespace: "team", Name: "home"}}

func TestTagsReadBackTheSame(t *testing.T) {
	t.Parallel()
	tags := tag.Encode(identity)
	for name, value := range tags {
		if strings.ContainsAny(name, `<>%&\?/`) || len(*value) > 256 {
			t.Errorf("Azure refuses %s=%s", name, *value)
		}
	}
	if diff := cmp.Diff(identity, tag.Decode(tags)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestNamesInAnyCase: Azure may return the name of a tag in another case than it was given.
func TestNamesInAnyCase(t *testing.T) {
	t.Parallel()
	upper := map[string]*string{}
	for name, value := range tag.Encode(identity) {
		upper[strings.ToUpper(name)] = value
	}
	if diff := cmp.Diff(identity, tag.Decode(upper)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if !tag.Holds(upper, identity) {
		t.Error("the tags do not hold the identity")
	}
}

func TestMergeKeepsTheTagsOfOthers(t *testing.T) {
	t.Parallel()
	moved := identity
	moved.Owner.UID = "d"
	tags := tag.Encode(identity)
	tags["cost-center"], tags["DROVER-OLD"] = ptr.To("edge"), ptr.To("x")
	merged := tag.Merge(tags, moved)
	if got := tag.Decode(merged); got != moved {
		t.Errorf("got %+v, want %+v", got, moved)
	}
	if merged["cost-center"] == nil || merged["DROVER-OLD"] != nil {
		t.Errorf("got %v", merged)
	}
	if tag.Holds(tags, moved) || !tag.Holds(merged, moved) {
		t.Error("only the merged tags hold the identity")
	}
}

func TestTagsOfOthersAreNoIdentity(t *testing.T) {
	t.Parallel()
	for _, tags := range []map[string]*string{nil, {"drover-machine": ptr.To("x")}, {"drover-machine-uid": nil}, {"drover-machine-uid": ptr.To("")}} {
		if got := tag.Decode(tags); got.Tagged() {
			t.Errorf("got %+v", got)
		}
	}
}
