// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package orphan

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"

	"drover.io/infra-providers/driver"
)

func TestPlan(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_000_000, 0)
	old := func(id, uid, cluster string) Found {
		return Found{Kind: "instance", ID: id, Created: now.Add(-time.Hour), Identity: driver.Identity{UID: types.UID(uid), ProviderID: id, Owner: driver.Owner{UID: types.UID(cluster)}}}
	}
	young := old("young", "lost", "home")
	young.Created = now.Add(-time.Minute)
	undated := old("undated", "lost", "home")
	undated.Created = time.Time{}
	long, short := now.Add(-30*time.Minute), now.Add(-time.Minute)
	for name, test := range map[string]struct {
		found    []Found
		suspects map[string]time.Time
		cap      int
		want     []Verdict
	}{
		"keeps what a machine owns by UID":             {[]Found{old("a", "wanted-uid", "home")}, map[string]time.Time{"instance/a": long}, 5, []Verdict{Wanted}},
		"keeps what a machine owns by provider ID":     {[]Found{old("wanted-id", "lost", "home")}, map[string]time.Time{"instance/wanted-id": long}, 5, []Verdict{Wanted}},
		"keeps what belongs to a cluster it knows not": {[]Found{old("a", "lost", "away")}, map[string]time.Time{"instance/a": long}, 5, []Verdict{Foreign}},
		"keeps what has no cluster":                    {[]Found{old("a", "lost", "")}, map[string]time.Time{"instance/a": long}, 5, []Verdict{Foreign}},
		"keeps what is young":                          {[]Found{young}, map[string]time.Time{"instance/young": long}, 5, []Verdict{Young}},
		"keeps what has no age":                        {[]Found{undated}, map[string]time.Time{"instance/undated": long}, 5, []Verdict{Young}},
		"keeps everything while frozen":                {[]Found{old("a", "lost", "frozen")}, map[string]time.Time{"instance/a": long}, 5, []Verdict{Frozen}},
		"suspects at first sight":                      {[]Found{old("a", "lost", "home")}, nil, 5, []Verdict{Suspected}},
		"suspects for a whole grace period":            {[]Found{old("a", "lost", "home")}, map[string]time.Time{"instance/a": short}, 5, []Verdict{Suspected}},
		"condemns at second sight":                     {[]Found{old("a", "lost", "home")}, map[string]time.Time{"instance/a": long}, 5, []Verdict{Orphaned}},
		"condemns no more than the cap":                {[]Found{old("a", "lost", "home"), old("b", "lost", "home"), old("c", "lost", "home")}, map[string]time.Time{"instance/a": long, "instance/b": long, "instance/c": long}, 2, []Verdict{Orphaned, Orphaned, Spared}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			judged := Plan(Input{
				Now:      now,
				Found:    test.found,
				Wanted:   map[string]bool{"wanted-uid": true, "wanted-id": true},
				Clusters: map[types.UID]bool{"home": false, "frozen": true},
				Suspects: test.suspects,
				Grace:    20 * time.Minute,
				Cap:      test.cap,
			})
			var got []Verdict
			for _, j := range judged {
				got = append(got, j.Verdict)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("verdicts (-want +got):\n%s", diff)
			}
		})
	}
}
