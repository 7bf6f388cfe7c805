// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Package selectorcache keeps the compiled label selectors of objects: to compile one, whose author may give it a thousand
// values, takes much longer than to compare it with the labels of an object. Packages health and policy, and the machineset
// controller use it.
package selectorcache

import (
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
)

// maxTerms is how many requirements and values the selectors that are kept may have together; each takes some 100 bytes.
const maxTerms = 500_000

// Cache has the compiled selectors of objects, of each that of one generation. Where they would exceed maxTerms it begins
// anew. The zero value is ready to use, by any number of workers.
type Cache struct {
	mu       sync.Mutex
	compiled map[types.UID]compiled
	terms    int
}

// compiled is the selector of a generation of an object, or why it cannot be used.
type compiled struct {
	generation int64
	selector   labels.Selector
	err        error
	terms      int
}

// Get returns the selector in the spec of an object, or its error, which compile makes once for each generation. That of an object
// without a UID is not kept.
func (c *Cache) Get(object metav1.Object, compile func() (labels.Selector, error)) (labels.Selector, error) {
	if kept, known := c.known(object); known {
		return kept.selector, kept.err
	}
	selector, err := compile()
	if err != nil {
		selector = nil
	}
	if object.GetUID() != "" {
		c.keep(object.GetUID(), compiled{object.GetGeneration(), selector, err, Terms(selector)})
	}
	return selector, err
}

// Known returns the selector of an object if it is kept; nil where it cannot be used.
func (c *Cache) Known(object metav1.Object) (selector labels.Selector, known bool) {
	kept, known := c.known(object)
	return kept.selector, known
}

func (c *Cache) known(object metav1.Object) (compiled, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	kept, found := c.compiled[object.GetUID()]
	return kept, found && kept.generation == object.GetGeneration()
}

func (c *Cache) keep(uid types.UID, next compiled) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.terms += next.terms - c.compiled[uid].terms
	if c.terms > maxTerms || c.compiled == nil {
		c.compiled, c.terms = map[types.UID]compiled{}, next.terms
	}
	c.compiled[uid] = next
}

// Terms is how many requirements and values a selector has, which is what a comparison with labels costs at most.
func Terms(selector labels.Selector) int {
	if selector == nil {
		return 1
	}
	requirements, _ := selector.Requirements()
	terms := 1
	for i := range requirements {
		terms += 1 + len(requirements[i].ValuesUnsorted())
	}
	return terms
}
