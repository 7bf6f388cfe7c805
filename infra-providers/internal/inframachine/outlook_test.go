// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package inframachine

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"drover.io/infra-providers/internal/throttle"
)

func TestChoose(t *testing.T) {
	t.Parallel()
	type choice struct {
		Choice int
		Rest   time.Duration
	}
	for name, test := range map[string]struct {
		stored int
		quiet  bool
		left   []time.Duration
		want   choice
	}{
		"asks for the first":                                    {0, true, []time.Duration{0, 0, 0}, choice{0, 0}},
		"stays with what it chose":                              {1, true, []time.Duration{0, 0, 0}, choice{1, 0}},
		"goes on to the next":                                   {0, true, []time.Duration{9, 0, 0}, choice{1, 0}},
		"passes over what is full too":                          {0, true, []time.Duration{9, 9, 0}, choice{2, 0}},
		"prefers the order of the user":                         {2, true, []time.Duration{0, 0, 9}, choice{0, 0}},
		"waits for the first to come back":                      {2, true, []time.Duration{9, 3, 8}, choice{1, 3}},
		"waits for the earliest in order where they are level":  {1, true, []time.Duration{9, 9, 9}, choice{0, 9}},
		"waits where there is no choice":                        {0, true, []time.Duration{9}, choice{0, 9}},
		"asks again while an answer is missing, wherever it is": {1, false, []time.Duration{0, 9, 0}, choice{1, 0}},
		"asks again though everything is full":                  {0, false, []time.Duration{9, 9}, choice{0, 0}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			look := outlook{stored: test.stored, quiet: test.quiet}
			for _, left := range test.left {
				look.shortages = append(look.shortages, throttle.Shortage{Left: left})
			}
			got := choice{}
			got.Choice, got.Rest = look.choose()
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("choice (-want +got):\n%s", diff)
			}
		})
	}
}
