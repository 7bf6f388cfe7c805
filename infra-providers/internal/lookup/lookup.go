// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Package lookup caches what drivers look up in a cloud, such as images and instance types. Each driver
// sets how long an answer is kept.
package lookup

import (
	"encoding/json"

	"drover.io/runtime/expiring"
)

// Cached returns the cached answer of a query of a kind, or reads it and caches it if that succeeds. Two callers may read at the
// same time. All answers of a kind have the same type, and queries are compared as JSON.
func Cached[T any](answers *expiring.Map[string, any], kind string, query any, read func() (T, error)) (T, error) {
	key, err := keyOf(kind, query)
	if err != nil {
		return *new(T), err
	}
	if known, ok := answers.Get(key); ok {
		return known.(T), nil
	}
	value, err := read()
	if err == nil {
		answers.Set(key, value)
	}
	return value, err
}

// Store replaces the cached answer of a query.
func Store[T any](answers *expiring.Map[string, any], kind string, query any, value T) {
	if key, err := keyOf(kind, query); err == nil {
		answers.Set(key, value)
	}
}

// Forget deletes the cached answer of a query, which has proven to be out of date.
func Forget(answers *expiring.Map[string, any], kind string, query any) {
	if key, err := keyOf(kind, query); err == nil {
		answers.Delete(key)
	}
}

func keyOf(kind string, query any) (string, error) {
	text, err := json.Marshal(query)
	return kind + string(text), err
}
