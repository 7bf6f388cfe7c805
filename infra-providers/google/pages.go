// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package google

import (
	"errors"
	"iter"
	"slices"
	"strings"

	"drover.io/infra-providers/google/request"
)

// noResults is the code of the warning of a zone that has nothing on a page. Any other code is about what could not be listed,
// such as UNREACHABLE, PARTIAL_SUCCESS or LIST_OVERHEAD_QUOTA_EXCEED.
const noResults = "NO_RESULTS_ON_PAGE"

// isPartial reports whether a list with a warning of a code may lack something.
func isPartial(warning string) bool { return warning != "" && warning != noResults }

// incompleteError is the last element of a list that lacks what is in some zones; without scopes it is not known in which.
type incompleteError struct{ scopes []string }

func (e *incompleteError) Error() string {
	if len(e.scopes) == 0 {
		return "Compute Engine could not list everything"
	}
	return "Compute Engine could not list " + strings.Join(slices.Compact(slices.Sorted(slices.Values(e.scopes))), ", ")
}

// isIncomplete reports whether a list lacks what is in other zones than these, and nothing else.
func isIncomplete(err error, has ...string) bool {
	incomplete, ok := errors.AsType[*incompleteError](err)
	if ok && len(incomplete.scopes) == 0 {
		return len(has) == 0
	}
	return ok && !slices.ContainsFunc(incomplete.scopes, func(scope string) bool {
		scope = request.Last(scope) // a zone, or a region
		return slices.ContainsFunc(has, func(zone string) bool { return zone == scope || strings.HasPrefix(zone, scope+"-") })
	})
}

// page is a page of a list over all zones.
type page[T any] struct {
	found []T
	// unreachable are the zones that it lacks.
	unreachable []string
	// partial is true for one that lacks something, of these zones or of others.
	partial bool
	next    string
}

// add adds what was found in a zone, with the code of its warning.
func (p *page[T]) add(scope, warning string, found []T) {
	if isPartial(warning) {
		p.unreachable = append(p.unreachable, scope)
	}
	p.found = append(p.found, found...)
}

// allPages yields what is on all pages of a list, and a failure last.
func allPages[T any](read func(token string) (page[T], error)) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		incomplete, partial := &incompleteError{}, false
		for token := ""; ; {
			p, err := read(token)
			if err != nil {
				yield(*new(T), toError(err))
				return
			}
			incomplete.scopes, partial = append(incomplete.scopes, p.unreachable...), partial || p.partial
			for _, found := range p.found {
				if !yield(found, nil) {
					return
				}
			}
			if token = p.next; token == "" {
				break
			}
		}
		if partial || len(incomplete.scopes) > 0 {
			yield(*new(T), incomplete)
		}
	}
}
