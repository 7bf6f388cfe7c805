// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package driver_test

import (
	"errors"
	"net/http"
	"testing"
	"time"

	"drover.io/infra-providers/driver"
)

func TestParseRetryAfter(t *testing.T) {
	now := time.Date(2026, 11, 25, 12, 0, 0, 0, time.UTC)
	tests := map[string]struct {
		value string
		want  time.Duration
		found bool
	}{
		"no header":                        {"", 0, false},
		"seconds":                          {"20", 20 * time.Second, true},
		"zero":                             {"0", 0, true},
		"a day is bounded":                 {"86400", driver.MaxRetryAfter, true},
		"seconds that a duration overflow": {"4294967295", driver.MaxRetryAfter, true},
		"a negative number":                {"-5", 0, false},
		"a time":                           {"Wed, 25 Nov 2026 12:00:30 GMT", 30 * time.Second, true},
		"a time of the past":               {"Wed, 25 Nov 2026 11:00:00 GMT", 0, true},
		"a time of another year":           {"Thu, 25 Nov 2027 12:00:00 GMT", driver.MaxRetryAfter, true},
		"words":                            {"soon", 0, false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got, found := driver.ParseRetryAfter(http.Header{"Retry-After": {test.value}}, now)
			if got != test.want || found != test.found {
				t.Errorf("got %s, %t; want %s, %t", got, found, test.want, test.found)
			}
		})
	}
}

func TestWithoutInvalidConfiguration(t *testing.T) {
	invalid := &driver.InvalidConfigurationError{Field: "spec.image", Err: errors.New("unknown")}
	if err := driver.WithoutInvalidConfiguration(invalid); driver.IsInvalidConfiguration(err) || err.Error() != invalid.Error() {
		t.Errorf("got %#v, want an error of no kind with the text %q", err, invalid)
	}
	denied := &driver.UnauthorizedError{Err: errors.New("denied")}
	if err := driver.WithoutInvalidConfiguration(denied); !driver.IsUnauthorized(err) {
		t.Errorf("got %#v, want an UnauthorizedError", err)
	}
	if err := driver.WithoutInvalidConfiguration(nil); err != nil {
		t.Errorf("got %v, want none", err)
	}
}
