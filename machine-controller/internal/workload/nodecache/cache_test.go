// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package nodecache

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// events records the calls of an Observer.
type events struct {
	Changed   []string
	Unchanged int
}

func (t *events) observer() Observer {
	return Observer{
		Changed: func(n *corev1.Node) {
			t.Changed = append(t.Changed, n.Name+" "+n.Spec.ProviderID+" "+n.ResourceVersion)
		},
		Unchanged: func() { t.Unchanged++ },
	}
}

func node(name, providerID, resourceVersion string) *corev1.Node {
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, ResourceVersion: resourceVersion},
		Spec:       corev1.NodeSpec{ProviderID: providerID},
	}
}

func cordoned(n *corev1.Node) *corev1.Node {
	n.Spec.Unschedulable = true
	return n
}

// filled returns a cache that announces and holds nodes, and a clean record.
func filled(t *testing.T, nodes ...any) (*Cache, *events) {
	t.Helper()
	record := &events{}
	c := New(record.observer(), nil, "")
	c.Announce(nil)
	must(t, c.Replace(nodes, "1"))
	*record = events{}
	return c, record
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func names(nodes []*corev1.Node) []string {
	var all []string
	for _, n := range nodes {
		all = append(all, n.Name)
	}
	return all
}

func TestCacheAnnouncesOnlyRelevantChanges(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		do   func(*Cache) error
		want events
	}{
		"notifies of a new Node":               {func(c *Cache) error { return c.Add(node("b", "p2", "2")) }, events{Changed: []string{"b p2 2"}}},
		"notifies of a changed Node":           {func(c *Cache) error { return c.Update(cordoned(node("a", "p1", "2"))) }, events{Changed: []string{"a p1 2"}}},
		"counts a heartbeat":                   {func(c *Cache) error { return c.Update(node("a", "p1", "2")) }, events{Unchanged: 1}},
		"notifies of a deleted Node":           {func(c *Cache) error { return c.Delete(node("a", "p1", "2")) }, events{Changed: []string{"a p1 1"}}},
		"ignores an unknown deletion":          {func(c *Cache) error { return c.Delete(node("z", "p9", "2")) }, events{}},
		"notifies of both IDs when it changes": {func(c *Cache) error { return c.Update(node("a", "p3", "2")) }, events{Changed: []string{"a p1 1", "a p3 2"}}},
		"notifies of what a new list changes": {func(c *Cache) error {
			return c.Replace([]any{node("a", "p1", "5"), node("c", "p3", "6")}, "6")
		}, events{Changed: []string{"c p3 6"}}},
		"notifies of what a new list lacks": {func(c *Cache) error { return c.Replace(nil, "6") }, events{Changed: []string{"a p1 1"}}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, record := filled(t, node("a", "p1", "1"))
			must(t, test.do(c))
			if diff := cmp.Diff(test.want, *record); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func TestCacheKeepsTheLatestVersionOfAHeartbeat(t *testing.T) {
	t.Parallel()
	c, _ := filled(t, node("a", "p1", "1"))
	must(t, c.Update(node("a", "p1", "2")))
	got, found := c.Node("a")
	if !found || got.ResourceVersion != "2" {
		t.Errorf("got %v, %v", got, found)
	}
	if byID := c.ByProviderID("p1"); len(byID) != 1 || byID[0] != got {
		t.Errorf("the index holds %v", byID)
	}
}

func TestCacheFindsByProviderID(t *testing.T) {
	t.Parallel()
	c, _ := filled(t, node("b", "p1", "1"), node("a", "p1", "1"), node("c", "p2", "1"), node("d", "", "1"))
	held := c.ByProviderID("p1")
	must(t, c.Delete(node("b", "p1", "2")))
	must(t, c.Update(node("c", "p4", "2")))
	must(t, c.Add(node("e", "p1", "2")))

	got := map[string][]string{}
	for _, id := range []string{"p1", "p2", "p4", ""} {
		got[id] = names(c.ByProviderID(id))
	}
	want := map[string][]string{"p1": {"a", "e"}, "p2": nil, "p4": {"c"}, "": nil}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if diff := cmp.Diff([]string{"a", "b"}, names(held)); diff != "" {
		t.Errorf("what a caller held was changed: -want +got:\n%s", diff)
	}
	if c.Len() != 4 {
		t.Errorf("holds %d Nodes", c.Len())
	}
}

func TestAnnounceIsForChangesSinceThePreviousCache(t *testing.T) {
	t.Parallel()
	previous, _ := filled(t, node("same", "p1", "1"), node("gone", "p2", "1"), node("cordoned", "p3", "1"))
	record := &events{}
	next := New(record.observer(), nil, "")
	must(t, next.Replace([]any{node("same", "p1", "9"), cordoned(node("cordoned", "p3", "9")), node("new", "p4", "9")}, "9"))
	must(t, next.Update(node("new", "p4", "10")))
	if diff := cmp.Diff(events{}, *record); diff != "" {
		t.Fatalf("notified before Announce: -want +got:\n%s", diff)
	}

	next.Announce(previous)
	want := events{Changed: []string{"cordoned p3 9", "gone p2 1", "new p4 10"}}
	if diff := cmp.Diff(want, *record); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestCacheIsSyncedAfterTheFirstList(t *testing.T) {
	t.Parallel()
	c := New(Observer{}, nil, "")
	must(t, c.Add(node("a", "p1", "1")))
	select {
	case <-c.Synced():
		t.Fatal("synced before the first list")
	default:
	}
	must(t, c.Replace(nil, "1"))
	must(t, c.Replace(nil, "2"))
	<-c.Synced()
}

func TestCacheRefusesOtherObjects(t *testing.T) {
	t.Parallel()
	c, _ := filled(t)
	for name, err := range map[string]error{
		"Add": c.Add(&corev1.Pod{}), "Delete": c.Delete(&corev1.Pod{}), "Replace": c.Replace([]any{&corev1.Pod{}}, ""),
	} {
		if err == nil {
			t.Errorf("%s took a Pod", name)
		}
	}
}
