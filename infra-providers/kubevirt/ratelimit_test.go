// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package kubevirt_test

import (
	"net/http"
	"testing"
	"time"

	"drover.io/infra-providers/driver"
	"drover.io/infra-providers/kubevirt"
)

// TestPauseOfTheInfrastructureCluster: the calls of an account wait for as long as the API server requests, whether it answers
// with text, as it does when too many requests are in progress, or with a Status, as proxies before it do. No call waits itself.
func TestPauseOfTheInfrastructureCluster(t *testing.T) {
	t.Parallel()
	status := `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"TooManyRequests","code":429}`
	for name, test := range map[string]struct {
		header, kind, body string
		want               time.Duration
	}{
		"with text":              {"7", "text/plain", "Too many requests, please try again later.", 7 * time.Second},
		"with a Status":          {"7", "application/json", status, 7 * time.Second},
		"for longer than a call": {"300", "application/json", status, 5 * time.Minute},
		"for more than a day":    {"100000", "application/json", status, driver.MaxRetryAfter},
		"for no known time":      {"", "application/json", status, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := connectTo(t, func(w http.ResponseWriter, _ *http.Request) {
				if test.header != "" {
					w.Header().Set("Retry-After", test.header)
				}
				w.Header().Set("Content-Type", test.kind)
				w.WriteHeader(http.StatusTooManyRequests)
				_, _ = w.Write([]byte(test.body))
			})("workers")
			id := driver.Identity{UID: "1", Name: "a", Owner: driver.Owner{UID: "c", Namespace: "n", Name: "c"}}
			_, read := d.Get(t.Context(), id)
			_, created := d.Create(t.Context(), driver.CreateRequest[kubevirt.InstanceConfig]{Identity: id})
			for call, err := range map[string]error{"Get": read, "Create": created, "Delete": d.Delete(t.Context(), id), "List": listAll(t.Context(), d)} {
				if !driver.IsRateLimited(err) || driver.RetryAfter(err) != test.want {
					t.Errorf("%s: got %T %v with a pause of %s, want %s", call, err, err, driver.RetryAfter(err), test.want)
				}
			}
		})
	}
}
