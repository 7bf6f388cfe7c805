// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package digitalocean_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"k8s.io/utils/clock"

	"drover.io/infra-providers/digitalocean/digitaloceanfake"
	"drover.io/infra-providers/driver"
)

// proxy is a transport through a proxy that answers 404 with a body to the requests of a method, about a path.
type proxy struct{ method, path, body string }

func (p proxy) RoundTrip(request *http.Request) (*http.Response, error) {
	if request.Method != p.method || !strings.Contains(request.URL.Path, p.path) {
		return http.DefaultTransport.RoundTrip(request)
	}
	return &http.Response{
		StatusCode: http.StatusNotFound, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{}, Body: io.NopCloser(strings.NewReader(p.body)), Request: request,
	}, nil
}

// TestNotFoundOfAProxyIsTransient: DIGITALOCEAN_API_URL may be one, and answers so while what is behind it is moved.
func TestNotFoundOfAProxyIsTransient(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]proxy{
		"a text about a Droplet":    {http.MethodGet, "/v2/droplets/", "404 page not found\n"},
		"JSON about a Droplet":      {http.MethodGet, "/v2/droplets/", `{"message":"no Route matched with those values"}`},
		"a text about a deletion":   {http.MethodDelete, "/v2/droplets/", "404 page not found\n"},
		"a text about a claim":      {http.MethodGet, "/v2/account/keys/", "404 page not found\n"},
		"a text about what is left": {http.MethodGet, "/v2/tags/", "404 page not found\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cloud := newEnv(t, digitaloceanfake.Options{})
			created := mustCreate(t, connect(t, cloud), newRequest(t, "m", fullSpec()))
			through := connectAt(t, cloud, clock.RealClock{}, test)
			if _, err := through.Get(t.Context(), created.Identity); driver.IsNotFound(err) {
				t.Errorf("reading: got %v", err)
			}
			for range 10 {
				if err := through.Delete(t.Context(), created.Identity); driver.IsNotFound(err) {
					t.Errorf("deleting: got %v", err)
				}
			}
			wantDroplets(t, cloud, 1)
			mustDelete(t, connect(t, cloud), created.Identity)
			wantNoLeftovers(t, cloud)
		})
	}
}
