// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package nodecache

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	toolscache "k8s.io/client-go/tools/cache"
)

// Observer has what is called for each Node that arrives. Its functions are
// called without the cache's lock held, from the goroutine that fills the
// cache, and must not block.
type Observer struct {
	// Changed is called with a Node that was added, changed in a kept field or
	// deleted (then with its last known state). A Node whose providerID changed
	// is passed twice, first as it was.
	Changed func(*corev1.Node)

	// Unchanged is called for each update that changed no kept field.
	Unchanged func()

	// Full is called when a Node is left out because the memory limit is reached. The cache is
	// then no longer what the cluster has.
	Full func()
}

// Cache holds the slim Nodes of one workload cluster. It is filled through the
// toolscache.ReflectorStore methods. It keeps its content when the watch that
// fills it breaks. Nodes that it returns are shared and must not be changed.
type Cache struct {
	observer  Observer
	memory    *MemoryLimit
	namespace string
	synced    chan struct{}

	mu           sync.RWMutex
	announcing   bool
	filled       bool
	released     bool
	nodes        map[string]*corev1.Node
	byProviderID map[string][]*corev1.Node
	// held and arriving are how much memory the Nodes here take, and those of a list that is
	// not complete yet.
	held, arriving int64
}

var _ toolscache.TransformingStore = &Cache{}

// New returns an empty cache, whose Nodes count against the memory limit of a namespace until Release. It does not call
// its observer before Announce.
func New(observer Observer, memory *MemoryLimit, namespace string) *Cache {
	return &Cache{
		observer:     observer,
		memory:       memory,
		namespace:    namespace,
		synced:       make(chan struct{}),
		nodes:        map[string]*corev1.Node{},
		byProviderID: map[string][]*corev1.Node{},
	}
}

// Synced is closed once the first complete list of Nodes is in the cache.
func (c *Cache) Synced() <-chan struct{} { return c.synced }

// Node returns the Node with this name.
func (c *Cache) Node(name string) (*corev1.Node, bool) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	node, found := c.nodes[name]
	return node, found
}

// ByProviderID returns the Nodes with this providerID, in the order of their
// names. More than one is a misconfiguration. An empty ID finds none.
func (c *Cache) ByProviderID(id string) []*corev1.Node {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.byProviderID[id]
}

// Len returns the number of Nodes held.
func (c *Cache) Len() int {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return len(c.nodes)
}

// Announce makes the cache call its observer for changes from now on,
// beginning with every Node that differs from what previous last held. A nil
// previous held nothing.
func (c *Cache) Announce(previous *Cache) {
	before := map[string]*corev1.Node{}
	if previous != nil {
		before = previous.snapshot()
	}

	c.mu.Lock()
	c.announcing = true
	changed := differences(before, c.nodes)
	c.mu.Unlock()
	c.announce(changed)
}

// Add takes a Node from the watch.
func (c *Cache) Add(obj any) error { return c.Update(obj) }

// Update takes a Node from the watch.
func (c *Cache) Update(obj any) error {
	node, err := slimNode(obj)
	if err != nil {
		return err
	}
	if !isName(node.Name) {
		return nil
	}
	c.mu.Lock()
	before := c.nodes[node.Name]
	unchanged := before != nil && same(before, node)
	if unchanged {
		node = renewed(before, node)
	}
	fits := c.resize(c.held+size(node)-sizeOf(before), c.arriving)
	if fits {
		c.unindex(before)
		c.index(node)
	}
	announcing := c.announcing
	c.mu.Unlock()

	switch {
	case !fits:
		c.observer.Full()
		return ErrFull
	case !announcing:
	case unchanged:
		c.observer.Unchanged()
	default:
		c.announce(pair(before, node))
	}
	return nil
}

// Delete takes the last state of a deleted Node from the watch.
func (c *Cache) Delete(obj any) error {
	node, err := slimNode(obj)
	if err != nil {
		return err
	}
	c.mu.Lock()
	before := c.nodes[node.Name]
	c.resize(c.held-sizeOf(before), c.arriving)
	c.unindex(before)
	announcing := c.announcing
	c.mu.Unlock()

	if announcing && before != nil {
		c.observer.Changed(before)
	}
	return nil
}

// Replace takes a complete list of Nodes.
func (c *Cache) Replace(list []any, _ string) error {
	arrived, sum := make([]*corev1.Node, 0, len(list)), int64(0)
	for _, obj := range list {
		node, err := slimNode(obj)
		if err != nil {
			return err
		}
		if isName(node.Name) {
			arrived, sum = append(arrived, node), sum+size(node)
		}
	}

	c.mu.Lock()
	if !c.resize(sum, 0) {
		c.mu.Unlock()
		c.observer.Full()
		return ErrFull
	}
	before := c.nodes
	c.nodes = make(map[string]*corev1.Node, len(arrived))
	c.byProviderID = make(map[string][]*corev1.Node, len(arrived))
	for _, node := range arrived {
		if old := before[node.Name]; old != nil && same(old, node) {
			node = renewed(old, node)
		}
		c.nodes[node.Name] = node
		if id := node.Spec.ProviderID; id != "" {
			c.byProviderID[id] = append(c.byProviderID[id], node)
		}
	}
	for id, nodes := range c.byProviderID {
		slices.SortFunc(nodes, byName)
		c.byProviderID[id] = slices.Clip(nodes)
	}
	var changed []*corev1.Node
	if c.announcing {
		changed = differences(before, c.nodes)
	}
	if !c.filled {
		c.filled = true
		close(c.synced)
	}
	c.mu.Unlock()
	c.announce(changed)
	return nil
}

// Resync has nothing to do: readers of the cache get the latest state.
func (c *Cache) Resync() error { return nil }

// Transformer makes the Reflector cut Nodes down one by one while a list arrives, instead of
// holding all of them whole first.
func (c *Cache) Transformer() toolscache.TransformFunc {
	c.Begin()
	return func(obj any) (any, error) {
		node, isNode := obj.(*corev1.Node)
		if !isNode {
			return obj, nil
		}
		return c.Arrive(node)
	}
}

// Begin begins a new list: the memory of one that was not completed is released.
func (c *Cache) Begin() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.resize(c.held, 0)
}

// Arrive cuts down a Node of a list that is not complete yet, and counts it against the memory limit.
func (c *Cache) Arrive(node *corev1.Node) (*corev1.Node, error) {
	slim := Slim(node)
	c.mu.Lock()
	fits := c.resize(c.held, c.arriving+size(slim))
	c.mu.Unlock()
	if !fits {
		c.observer.Full()
		return nil, ErrFull
	}
	return slim, nil
}

// Release releases the memory that the Nodes take. It is for a cache whose watch has ended, and
// that is not read any more.
func (c *Cache) Release() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.resize(0, 0)
	c.released = true
}

// resize takes memory of the limit, or releases it, so that it is as much as the Nodes here and those that
// arrive take. It reports whether there is, and changes nothing otherwise.
func (c *Cache) resize(held, arriving int64) bool {
	if c.released {
		return true
	}
	if !c.memory.change(c.namespace, held+arriving-c.held-c.arriving) {
		return false
	}
	c.held, c.arriving = held, arriving
	return true
}

// sizeOf is the size of a Node that may be nil.
func sizeOf(node *corev1.Node) int64 {
	if node == nil {
		return 0
	}
	return size(node)
}

func (c *Cache) snapshot() map[string]*corev1.Node {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return maps.Clone(c.nodes)
}

func (c *Cache) announce(changed []*corev1.Node) {
	for _, node := range changed {
		c.observer.Changed(node)
	}
}

func (c *Cache) index(node *corev1.Node) {
	c.nodes[node.Name] = node
	id := node.Spec.ProviderID
	if id == "" {
		return
	}
	// A clipped copy, because callers hold the slices that they were given.
	nodes := c.byProviderID[id]
	at, _ := slices.BinarySearchFunc(nodes, node, byName)
	c.byProviderID[id] = slices.Insert(slices.Clip(nodes), at, node)
}

func (c *Cache) unindex(node *corev1.Node) {
	if node == nil {
		return
	}
	delete(c.nodes, node.Name)
	id := node.Spec.ProviderID
	rest := slices.DeleteFunc(slices.Clone(c.byProviderID[id]), func(n *corev1.Node) bool { return n.Name == node.Name })
	if len(rest) == 0 {
		delete(c.byProviderID, id)
		return
	}
	c.byProviderID[id] = slices.Clip(rest)
}

// isName reports whether a Node can have the name: only an API server that is not Kubernetes' own answers with another, to
// which no Machine could refer.
func isName(name string) bool { return len(validation.IsDNS1123Subdomain(name)) == 0 }

func slimNode(obj any) (*corev1.Node, error) {
	node, isNode := obj.(*corev1.Node)
	if !isNode {
		return nil, fmt.Errorf("caching Nodes: got a %T", obj)
	}
	return Slim(node), nil
}

// renewed returns old with the resourceVersion of next, sharing the rest of
// old, so that thousands of heartbeats leave one copy of each field.
func renewed(old, next *corev1.Node) *corev1.Node {
	node := *old
	node.ResourceVersion = next.ResourceVersion
	return &node
}

// differences lists the Nodes that were added, changed or removed between two
// states, in the order of their names.
func differences(before, after map[string]*corev1.Node) []*corev1.Node {
	var changed []*corev1.Node
	for name, node := range after {
		if old := before[name]; old == nil || !same(old, node) {
			changed = append(changed, pair(old, node)...)
		}
	}
	for name, node := range before {
		if after[name] == nil {
			changed = append(changed, node)
		}
	}
	slices.SortStableFunc(changed, byName)
	return changed
}

// pair returns what to announce of a change from before (nil: new) to after.
func pair(before, after *corev1.Node) []*corev1.Node {
	if before != nil && before.Spec.ProviderID != "" && before.Spec.ProviderID != after.Spec.ProviderID {
		return []*corev1.Node{before, after}
	}
	return []*corev1.Node{after}
}

func byName(a, b *corev1.Node) int { return strings.Compare(a.Name, b.Name) }
