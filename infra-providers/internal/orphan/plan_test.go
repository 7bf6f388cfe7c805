// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package orphan

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"

	"drover.io/infra-providers/driver"
)

func TestPlan(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_000_000, 0)
	owner := func(name string) driver.Owner {
		return driver.Owner{UID: types.UID(name + "-uid"), Namespace: "team", Name: name}
	}
	of := func(id, machine, cluster string, changes ...func(*Resource)) Resource {
		found := Resource{Kind: instance, ID: id, Created: now.Add(-time.Hour), Identity: driver.Identity{
			UID: types.UID(machine + "-uid"), Name: machine, ProviderID: id, Owner: owner(cluster),
		}, ProviderID: id, Instances: []string{id}}
		for _, change := range changes {
			change(&found)
		}
		return found
	}
	disk := func(f *Resource) { f.Kind, f.Identity.ProviderID, f.ProviderID, f.Instances = "disk", "", "", nil }
	earlier := func(f *Resource) { f.Identity.UID = "earlier" }
	sibling := func(id string) func(*Resource) { return func(f *Resource) { f.Instances = append(f.Instances, id) } }
	long, short := now.Add(-30*time.Minute), now.Add(-time.Minute)
	known := func(ids ...string) map[string]time.Time {
		all := map[string]time.Time{}
		for _, id := range ids {
			all[" instance/"+id], all[" disk/"+id] = long, long
		}
		return all
	}
	for name, test := range map[string]struct {
		found    []Resource
		suspects map[string]time.Time
		cap      int
		want     []Class
	}{
		"keeps what a machine owns by UID":                   {[]Resource{of("a", "making", "home")}, known("a"), 5, []Class{ClassOwned}},
		"keeps what a machine owns by UID from before":       {[]Resource{of("a", "moved", "home", func(f *Resource) { f.Identity.UID = "before" })}, known("a"), 5, []Class{ClassOwned}},
		"keeps what a machine owns by provider ID":           {[]Resource{of("made-id", "made", "home", func(f *Resource) { f.Identity.UID = "another" })}, known("made-id"), 5, []Class{ClassOwned}},
		"keeps a disk of what a machine owns by provider ID": {[]Resource{of("a", "made", "home", disk, func(f *Resource) { f.Identity.UID, f.Instances = "another", []string{"made-id"} })}, known("a"), 5, []Class{ClassOwned}},
		"keeps a disk of a machine":                          {[]Resource{of("a", "made", "home", disk)}, known("a"), 5, []Class{ClassOwned}},
		"keeps a machine's of a Cluster that moved":          {[]Resource{of("made-id", "made", "home", func(f *Resource) { f.Identity.Owner.UID = "old" })}, known("made-id"), 5, []Class{ClassOwned}},
		"keeps what a Machine refers to":                     {[]Resource{of("referred", "lost", "home")}, known("referred"), 5, []Class{ClassOwned}},
		"keeps a disk of what a Machine refers to":           {[]Resource{of("a", "lost", "home", disk, func(f *Resource) { f.Instances = []string{"referred"} })}, known("a"), 5, []Class{ClassOwned}},
		"believes no Machine of another Cluster":             {[]Resource{of("referred", "lost", "away")}, known("referred"), 5, []Class{ClassClusterMissing}},
		"reports what has no known owner":                    {[]Resource{of("a", "lost", "home", func(f *Resource) { f.Identity.Owner = driver.UnknownOwner })}, known("a"), 5, []Class{ClassClusterMissing}},
		"believes no machine of another name":                {[]Resource{of("a", "lost", "home", func(f *Resource) { f.Identity.UID = "making-uid" })}, known("a"), 5, []Class{ClassOrphaned}},
		"believes no machine of another namespace":           {[]Resource{of("made-id", "made", "home", func(f *Resource) { f.Identity.Owner.Namespace = "other" })}, known("made-id"), 5, []Class{ClassClusterMissing}},
		"reports a machine's second instance":                {[]Resource{of("a", "made", "home")}, known("a"), 5, []Class{ClassDuplicate}},
		"reports what would go with a machine's own":         {[]Resource{of("a", "made", "home", earlier, sibling("made-id")), of("made-id", "made", "home", earlier, sibling("a"))}, known("a", "made-id"), 5, []Class{ClassDuplicate, ClassOwned}},
		"reports what a Machine's would go with":             {[]Resource{of("a", "lost", "home", sibling("referred")), of("referred", "lost", "home", sibling("a"))}, known("a", "referred"), 5, []Class{ClassDuplicate, ClassOwned}},
		"reports it too where the machine has another":       {[]Resource{of("a", "made", "home", earlier, sibling("referred")), of("referred", "made", "home", earlier, sibling("a"))}, known("a", "referred"), 5, []Class{ClassDuplicate, ClassOwned}},
		"condemns what an earlier machine of the name left":  {[]Resource{of("a", "made", "home", earlier)}, known("a"), 5, []Class{ClassOrphaned}},
		"reports a copy of a disk of a machine":              {[]Resource{of("a", "made", "home", disk, func(f *Resource) { f.Copy = true })}, known("a"), 5, []Class{ClassDuplicate}},
		"reports a copy of a disk of no machine":             {[]Resource{of("a", "lost", "home", disk, func(f *Resource) { f.Copy = true })}, known("a"), 5, []Class{ClassDuplicate}},
		"reports a copy of a disk of a Cluster not here":     {[]Resource{of("a", "lost", "away", disk, func(f *Resource) { f.Copy = true })}, known("a"), 5, []Class{ClassDuplicate}},
		"takes neither for extra before one is known":        {[]Resource{of("a", "making", "home"), of("b", "making", "home")}, known("a", "b"), 5, []Class{ClassOwned, ClassOwned}},
		"reports what belongs to a Cluster not here":         {[]Resource{of("a", "lost", "away")}, known("a"), 5, []Class{ClassClusterMissing}},
		"reports what names a Cluster by another UID":        {[]Resource{of("a", "lost", "home", func(f *Resource) { f.Identity.Owner.UID = "x" })}, known("a"), 5, []Class{ClassClusterMissing}},
		"keeps what has no cluster":                          {[]Resource{of("a", "lost", "home", func(f *Resource) { f.Identity.Owner = driver.Owner{} })}, known("a"), 5, []Class{ClassForeign}},
		"keeps what has no Cluster's UID":                    {[]Resource{of("a", "made", "home", func(f *Resource) { f.Identity.Owner.UID = "" })}, known("a"), 5, []Class{ClassForeign}},
		"keeps what has no machine's name":                   {[]Resource{of("a", "lost", "home", func(f *Resource) { f.Identity.Name = "" })}, known("a"), 5, []Class{ClassForeign}},
		"keeps what has no UID":                              {[]Resource{of("a", "lost", "home", func(f *Resource) { f.Identity.UID = "" })}, known("a"), 5, []Class{ClassForeign}},
		"keeps what another management cluster created":      {[]Resource{of("a", "lost", "home", func(f *Resource) { f.Elsewhere = true })}, known("a"), 5, []Class{ClassForeign}},
		"keeps what is in another provider's Cluster":        {[]Resource{of("a", "lost", "theirs")}, known("a"), 5, []Class{ClassForeign}},
		"keeps what is young":                                {[]Resource{of("a", "lost", "home", func(f *Resource) { f.Created = short })}, known("a"), 5, []Class{ClassGracePeriod}},
		"keeps what has no age":                              {[]Resource{of("a", "lost", "home", func(f *Resource) { f.Created = time.Time{} })}, known("a"), 5, []Class{ClassGracePeriod}},
		"keeps everything while frozen":                      {[]Resource{of("a", "lost", "frozen")}, known("a"), 5, []Class{ClassFrozen}},
		"suspects at first sight":                            {[]Resource{of("a", "lost", "home")}, nil, 5, []Class{ClassSuspected}},
		"suspects for a whole grace period":                  {[]Resource{of("a", "lost", "home")}, map[string]time.Time{" instance/a": short}, 5, []Class{ClassSuspected}},
		"suspects what would take a young one with it":       {[]Resource{of("a", "lost", "home"), of("b", "lost", "home", func(f *Resource) { f.Created = short })}, known("a", "b"), 5, []Class{ClassSuspected, ClassGracePeriod}},
		"suspects what would take a newly found one with it": {[]Resource{of("a", "lost", "home"), of("b", "lost", "home", disk)}, known("a"), 5, []Class{ClassSuspected, ClassSuspected}},
		"condemns beside what has no age":                    {[]Resource{of("a", "lost", "home"), of("b", "lost", "home", disk, func(f *Resource) { f.Created = time.Time{} })}, known("a"), 5, []Class{ClassGracePeriod, ClassOrphaned}},
		"condemns beside a tenant's with its UID": {[]Resource{of("a", "lost", "home"), of("b", "lost", "home", disk, func(f *Resource) {
			f.Identity.Owner = driver.Owner{UID: "tenant-uid", Namespace: "tenant", Name: "home"}
		}), of("c", "lost", "home", disk, func(f *Resource) { f.Identity.Name = "other" })}, known("a"), 5, []Class{ClassSuspected, ClassSuspected, ClassOrphaned}},
		"condemns beside another's":     {[]Resource{of("a", "lost", "home"), of("b", "found", "home", disk)}, known("a"), 5, []Class{ClassSuspected, ClassOrphaned}},
		"condemns at second sight":      {[]Resource{of("a", "lost", "home")}, known("a"), 5, []Class{ClassOrphaned}},
		"condemns no more than the cap": {[]Resource{of("a", "lost", "home"), of("b", "lost", "home"), of("c", "lost", "home")}, known("a", "b", "c"), 2, []Class{ClassOrphaned, ClassOrphaned, ClassOverLimit}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			classified := Plan(Input{
				Now:       now,
				Resources: test.found,
				Claims: map[types.NamespacedName]Claim{
					{Namespace: "team", Name: "making"}: {UIDs: []types.UID{"making-uid"}},
					{Namespace: "team", Name: "made"}:   {UIDs: []types.UID{"made-uid"}, ProviderID: "made-id"},
					{Namespace: "team", Name: "moved"}:  {UIDs: []types.UID{"now", "before"}},
				},
				References: map[Reference]bool{{"team", "home", "referred"}: true},
				Clusters:   map[driver.Owner]ClusterState{owner("home"): {}, {UID: "tenant-uid", Namespace: "tenant", Name: "home"}: {}, owner("frozen"): {Frozen: true}, owner("theirs"): {Foreign: true}},
				Suspects:   test.suspects,
				Grace:      20 * time.Minute,
				Cap:        test.cap,
			})
			var got []Class
			for _, j := range classified {
				got = append(got, j.Class)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("verdicts (-want +got):\n%s", diff)
			}
		})
	}
}

// TestClusterOutsideTheWatchedNamespace where a provider watches one namespace.
func TestClusterOutsideTheWatchedNamespace(t *testing.T) {
	t.Parallel()
	for namespace, want := range map[string]Class{"": ClassClusterMissing, "team": ClassClusterMissing, "other": ClassForeign} {
		found := Resource{Kind: instance, ID: "a", Identity: driver.Identity{
			UID: "u", Name: "lost", ProviderID: "a", Owner: driver.Owner{UID: "c", Namespace: "team", Name: "away"},
		}}
		if got := Plan(Input{Resources: []Resource{found}, Namespace: namespace})[0].Class; got != want {
			t.Errorf("watching %q: got %s, want %s", namespace, got, want)
		}
		found.Kind, found.Copy = "disk", true
		if got := Plan(Input{Resources: []Resource{found}, Namespace: namespace})[0].Class; (got == ClassForeign) != (want == ClassForeign) {
			t.Errorf("a copy, watching %q: got %s", namespace, got)
		}
	}
	for _, owner := range []driver.Owner{driver.UnknownOwner, {UID: driver.UnknownOwner.UID, Namespace: "team", Name: driver.UnknownOwner.Name}} {
		found := Resource{Kind: instance, ID: "a", Identity: driver.Identity{UID: "u", Name: "?", ProviderID: "a", Owner: owner}}
		if got := Plan(Input{Resources: []Resource{found}, Namespace: "team"})[0].Class; got != ClassForeign {
			t.Errorf("owner %+v, which may be in another namespace: got %s, want %s", owner, got, ClassForeign)
		}
	}
}

// TestCapIsSharedByNamespaces: neither the older orphans of another namespace nor those that never go use up the cap.
func TestCapIsSharedByNamespaces(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_000_000, 0)
	in := Input{Now: now, Grace: time.Minute, Cap: 2, Clusters: map[driver.Owner]ClusterState{}, Suspects: map[string]time.Time{}, Tried: map[string]bool{}}
	add := func(account, namespace, id string, age time.Duration) {
		owner := driver.Owner{UID: "c", Namespace: namespace, Name: "c"}
		thing := Resource{Account: account, Kind: instance, ID: id, Created: now.Add(-age), Identity: driver.Identity{UID: "u", Name: id, Owner: owner, ProviderID: id}}
		in.Resources, in.Clusters[owner], in.Suspects[thing.key()] = append(in.Resources, thing), ClusterState{}, now.Add(-time.Hour)
		in.Tried[thing.key()] = strings.HasPrefix(id, "stays")
	}
	add("own", "greedy", "g1", 9*time.Hour)
	add("own", "greedy", "g2", 8*time.Hour)
	add("own", "modest", "stays", 7*time.Hour)
	add("own", "modest", "m", 6*time.Hour)
	add("theirs", "greedy", "g1", 5*time.Hour)
	changed := in.Resources[0]
	changed.Account = "news" // of whose thing with this ID nothing was suspected yet
	in.Resources = append(in.Resources, changed)
	got := map[string]Class{}
	for _, thing := range Plan(in) {
		got[thing.Account+" "+thing.ID] = thing.Class
	}
	want := map[string]Class{"own g1": ClassOrphaned, "own g2": ClassOverLimit, "own stays": ClassOverLimit, "own m": ClassOrphaned, "theirs g1": ClassOrphaned, "news g1": ClassSuspected}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
