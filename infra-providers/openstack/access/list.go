// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package access

import (
	"context"
	"fmt"

	"github.com/gophercloud/gophercloud/v2/pagination"
)

// MostListed is how many elements a list may have that is kept in memory: several times what a project has of one kind.
// The server chooses how many pages a list has.
const MostListed = 20_000

// TooManyError means that a list was not read to its end.
type TooManyError struct{}

func (*TooManyError) Error() string {
	return fmt.Sprintf("the list has more than %d elements", MostListed)
}

// All returns the elements of all pages of a list. It fails with a TooManyError where there are too many.
func All[T any](ctx context.Context, list pagination.Pager, extract func(pagination.Page) ([]T, error)) ([]T, error) {
	return Select(ctx, list, extract, func(one T) (T, bool) { return one, true })
}

// Select is All for what keep returns of each element, if it returns true. Only that counts and is kept in memory.
func Select[T, K any](ctx context.Context, list pagination.Pager, extract func(pagination.Page) ([]T, error), keep func(T) (K, bool)) ([]K, error) {
	var all []K
	err := list.EachPage(WithBudget(ctx), func(_ context.Context, page pagination.Page) (bool, error) {
		more, err := extract(page)
		if err != nil {
			return false, err
		}
		for _, one := range more {
			kept, ok := keep(one)
			if !ok {
				continue
			}
			if all = append(all, kept); len(all) > MostListed {
				return false, &TooManyError{}
			}
		}
		return true, nil
	})
	if err != nil {
		return nil, err
	}
	return all, nil
}
