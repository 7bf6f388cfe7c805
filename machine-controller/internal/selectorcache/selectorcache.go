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
	"k8s.io/utils/lru"
)

// maxSelectors is how many compiled selectors are kept.
const maxSelectors = 4096

// Cache has the compiled selectors that were used last. The zero value is ready to use, by any number of workers.
type Cache struct {
	once     sync.Once
	compiled *lru.Cache
}

// version is a version of the spec of an object.
type version struct {
	uid        types.UID
	generation int64
}

// Get returns the selector in the spec of an object, which compile makes once for each generation; nil where that fails. The
// selector of an object without a UID is not kept.
func (c *Cache) Get(object metav1.Object, compile func() (labels.Selector, error)) labels.Selector {
	c.once.Do(func() { c.compiled = lru.New(maxSelectors) })
	key := version{object.GetUID(), object.GetGeneration()}
	if known, found := c.compiled.Get(key); found {
		selector, _ := known.(labels.Selector)
		return selector
	}
	selector, err := compile()
	if err != nil {
		selector = nil
	}
	if key.uid != "" {
		c.compiled.Add(key, selector)
	}
	return selector
}
