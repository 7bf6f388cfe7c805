// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package openstack_test

import (
	"maps"
	"net/http"
	"strings"
	"testing"

	"drover.io/infra-providers/driver"
)

// unfiltered is a transport to a Neutron that ignores the filters of a list.
type unfiltered struct{ http.RoundTripper }

func (u unfiltered) RoundTrip(request *http.Request) (*http.Response, error) {
	if strings.HasSuffix(request.URL.Path, "/ports") || strings.HasSuffix(request.URL.Path, "/floatingips") {
		request = request.Clone(request.Context())
		query := request.URL.Query()
		maps.DeleteFunc(query, func(filter string, _ []string) bool { return filter == "name" || filter == "description" })
		request.URL.RawQuery = query.Encode()
	}
	return u.RoundTripper.RoundTrip(request)
}

// TestIgnoredFiltersTouchNothingOfOthers: ports and floating IPs without Drover's tags are in the project.
func TestIgnoredFiltersTouchNothingOfOthers(t *testing.T) {
	t.Parallel()
	r := newEnv(t)
	d := connect(t, unfiltered{r.faults}, driver.Account{SecretName: "cloud"}, r.secret)
	others := newRequest(t, fullSpec())
	others.Identity.UID, others.Identity.Name = "aaaaaaaa-0000-4000-8000-000000000002", "worker-2"
	other := mustCreate(t, d, others)
	r.awaitStates(t)
	untouched := r.Untag(other.ID, keysOfTags()...)
	mustCreate(t, r.connect(t), newRequest(t, fullSpec()))
	for range 5 {
		if err := d.Delete(t.Context(), worker); err != nil {
			t.Error(err)
		}
		r.awaitStates(t)
	}
	if !untouched() {
		t.Error("ports or floating IPs of others were deleted")
	}
}

// keysOfTags are the keys of the ownership tags.
func keysOfTags() (keys []string) {
	for key := range (driver.Identity{}).Tags() {
		keys = append(keys, key)
	}
	return keys
}
