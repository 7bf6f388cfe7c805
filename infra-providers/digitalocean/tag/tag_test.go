// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package tag

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"

	"drover.io/infra-providers/driver"
)

// alphabet is what the cloud permits, in lower case.
var alphabet = regexp.MustCompile(`^[a-z0-9:_-]+$`)

func TestIdentityIsReadBack(t *testing.T) {
	t.Parallel()
	for name, id := range map[string]driver.Identity{
		"plain":        {UID: "00000001-0000-4000-8000-000000000001", Name: "worker-1", Owner: driver.Owner{UID: "c", Namespace: "team", Name: "home"}},
		"dots":         {UID: "u", Name: "worker.example.org", Owner: driver.Owner{UID: "c", Namespace: "team", Name: "home.lab"}},
		"upper case":   {UID: "ABC-def", Name: "m", Owner: driver.Owner{UID: "C", Namespace: "n", Name: "h"}},
		"colons":       {UID: "a:b", Name: "m:n", Owner: driver.Owner{UID: ":", Namespace: "n", Name: "h"}},
		"underscores":  {UID: "a_5f", Name: "_", Owner: driver.Owner{UID: "__", Namespace: "n", Name: "h"}},
		"other bytes":  {UID: "ü\x00", Name: "日本", Owner: driver.Owner{UID: " ", Namespace: "n", Name: "h"}},
		"no Cluster's": {UID: "u", Name: "m", Owner: driver.Owner{Namespace: "n", Name: "h"}},
	} {
		tags := Of(id)
		for _, tag := range tags {
			if !alphabet.MatchString(tag) {
				t.Errorf("%s: tag %q has characters that the cloud does not permit", name, tag)
			}
		}
		slices.Reverse(tags)
		if diff := cmp.Diff(id, Identity(append(tags, "web", "Drover-Other:x"))); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		for i := range tags {
			tags[i] = strings.ToUpper(tags[i])
		}
		if diff := cmp.Diff(id, Identity(tags)); diff != "" {
			t.Errorf("%s, in the capitalization of another tag (-want +got):\n%s", name, diff)
		}
	}
}

// TestAmbiguousTagsNameNothing: a second value of a key would choose the owner.
func TestAmbiguousTagsNameNothing(t *testing.T) {
	t.Parallel()
	id := driver.Identity{UID: "u", Name: "m", Owner: driver.Owner{UID: "c", Namespace: "n", Name: "h"}}
	for _, second := range []string{"drover-machine-uid:x", "drover-machine:x:u", "drover-cluster-namespace:x", "drover-cluster:x"} {
		if got := Identity(append(Of(id), second)); got.Tagged() {
			t.Errorf("with %s: got %+v", second, got)
		}
	}
	other := id
	other.Name = "other"
	if got := Identity(append(slices.Clone(Of(id)[:2]), Of(driver.Identity{UID: "x", Name: "other"})[2])); got.Name != "" {
		t.Errorf("the name of another UID counts: %+v", got)
	}
}

// TestMovedClusterHasAStaleTag: until it is removed the UID of the Cluster is not known, and the machine's is.
func TestMovedClusterHasAStaleTag(t *testing.T) {
	t.Parallel()
	id := driver.Identity{UID: "u", Name: "m", Owner: driver.Owner{UID: "new", Namespace: "n", Name: "h"}}
	tags := append(Of(id), Cluster("old"), "web")
	if diff := cmp.Diff([]string{"drover-cluster-uid:old"}, Stale(tags, id)); diff != "" {
		t.Errorf("stale tags (-want +got):\n%s", diff)
	}
	got := Identity(tags)
	if got.Owner.UID != "" || !got.Tagged() {
		t.Errorf("got %+v", got)
	}
}

func TestTagsAreLimited(t *testing.T) {
	t.Parallel()
	id := driver.Identity{UID: types.UID(strings.Repeat("u", 36)), Name: strings.Repeat("m", 63), Owner: driver.Owner{UID: "c", Namespace: strings.Repeat("n", 63), Name: strings.Repeat("c", 63)}}
	if err := Check(id); err != nil {
		t.Errorf("the longest names of labels do not fit: %v", err)
	}
	id.Owner.Name = strings.Repeat(".", 100)
	if err := Check(id); err == nil {
		t.Error("a tag of more than 255 characters is permitted")
	}
}

func FuzzIdentity(f *testing.F) {
	f.Add("u", "m", "c", "n", "h")
	f.Add("_", ":", "A", "", "drover")
	f.Fuzz(func(t *testing.T, uid, name, clusterUID, namespace, clusterName string) {
		id := driver.Identity{UID: types.UID(uid), Name: name, Owner: driver.Owner{UID: types.UID(clusterUID), Namespace: namespace, Name: clusterName}}
		tags := Of(id)
		for _, tag := range tags {
			if !alphabet.MatchString(tag) {
				t.Fatalf("tag %q", tag)
			}
		}
		if diff := cmp.Diff(id, Identity(tags)); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}
