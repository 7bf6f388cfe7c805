// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package hetzner_test

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/hetznercloud/hcloud-go/v2/hcloud"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"

	infrav1 "drover.io/api/infrastructure/v1alpha1"
	"drover.io/infra-providers/driver"
	"drover.io/infra-providers/hetzner"
	"drover.io/infra-providers/hetzner/hetznerfake"
	"drover.io/infra-providers/internal/inflight"
)

// refusing is a transport that refuses one action of every server.
type refusing struct {
	action, code string
	status       int
	refused      *int
}

func (r refusing) RoundTrip(request *http.Request) (*http.Response, error) {
	if !strings.HasSuffix(request.URL.Path, "/actions/"+r.action) {
		return http.DefaultTransport.RoundTrip(request)
	}
	*r.refused++
	body := `{"error":{"code":"` + r.code + `","message":"no"}}`
	return &http.Response{
		StatusCode: r.status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: http.Header{"Content-Type": {"application/json"}},
		Body: io.NopCloser(strings.NewReader(body)), ContentLength: int64(len(body)), Request: request,
	}, nil
}

// TestRefusalOfAnExistingServerIsTransient: the caller requests another server after a shortage.
func TestRefusalOfAnExistingServerIsTransient(t *testing.T) {
	t.Parallel()
	for action, test := range map[string]struct {
		code   string
		status int
	}{
		"poweron":           {"resource_unavailable", http.StatusPreconditionFailed},
		"attach_to_network": {"resource_limit_exceeded", http.StatusForbidden},
		"enable_backup":     {"resource_limit_exceeded", http.StatusForbidden},
	} {
		t.Run(action, func(t *testing.T) {
			t.Parallel()
			cloud := newEnv(t, hetznerfake.Options{})
			spec := newSpec()
			spec.Volumes, spec.Backups = nil, ptr.To(true)
			spec.Networks = []infrav1.HetznerNetwork{{Name: "private", IP: "10.0.0.77"}}
			refused := 0
			d := hetzner.New(hcloud.NewClient(
				hcloud.WithEndpoint(cloud.Endpoint), hcloud.WithToken(hetznerfake.Token), hcloud.WithRetryOpts(hcloud.RetryOpts{MaxRetries: 0}),
				hcloud.WithHTTPClient(&http.Client{Transport: refusing{action, test.code, test.status, &refused}}),
			), clocktesting.NewFakePassiveClock(time.Now().Add(-inflight.Window)))
			for range 50 {
				_, err := d.Create(t.Context(), newRequest(t, "m", spec))
				if err == nil || driver.IsQuotaExceeded(err) || driver.IsInsufficientCapacity(err) {
					t.Fatalf("with %d servers: got %v", len(cloud.CreatedServers()), err)
				}
			}
			if refused == 0 || len(cloud.CreatedServers()) != 1 {
				t.Errorf("%d refusals and %d servers, want one server that is refused something", refused, len(cloud.CreatedServers()))
			}
		})
	}
}
