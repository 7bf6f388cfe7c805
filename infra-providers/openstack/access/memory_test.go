// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package access

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"

	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"
)

// TestCloudsOfASecretTakeLittleMemory has Secrets of less than 1 MiB, which an API server accepts.
func TestCloudsOfASecretTakeLittleMemory(t *testing.T) {
	const most = 8 << 20
	cloud := "auth: {auth_url: https://x/v3, username: u, password: p}"
	aliases := "clouds:\n  x: &x {}\n  a: {regions: [" + strings.Repeat("~,", 2_000) + "]}\n  y: {regions: &y [" + strings.Repeat("{values: *x},", 400) + "]}\n"
	for n := range 200 {
		aliases += fmt.Sprintf("  a%d: {regions: *y}\n", n)
	}
	for name, content := range map[string]string{
		"clouds of nothing": "clouds: {" + strings.Repeat("a: {},", 150_000) + "}",
		"null regions":      "clouds: {a: {" + cloud + ", regions: [" + strings.Repeat("~,", 400_000) + "]}}",
		"lists":             "x: [" + strings.Repeat("[],", 300_000) + "]",
		"nested lists":      "x: " + strings.Repeat("[", 9_000) + strings.Repeat("]", 9_000),
		"aliases":           aliases,
	} {
		t.Run(name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			_, err := read(fromSecret, credentials(map[string]string{CloudsKey: content, CloudKey: "a"}))
			runtime.ReadMemStats(&after)
			if err == nil {
				t.Error("it is accepted")
			}
			if took := after.TotalAlloc - before.TotalAlloc; took > most {
				t.Errorf("%d bytes take %d KiB: %v", len(content), took>>10, err)
			}
		})
	}
}

// TestCloudsThatPeopleWriteAreAccepted: passwords have any characters, and what is usual is far from the bounds.
func TestCloudsThatPeopleWriteAreAccepted(t *testing.T) {
	t.Parallel()
	const password = "*a&b -*c ,*d: [*e"
	content := "clouds:\n"
	for n := range 100 {
		content += fmt.Sprintf("  c%d:\n    auth: {auth_url: https://x/v3, username: u, password: %q, project_name: team}\n    region_name: R%d\n", n, password, n)
	}
	got, err := read(fromSecret, credentials(map[string]string{CloudsKey: content, CloudKey: "c9"}))
	if err != nil || got.auth.Password != password || got.endpoint.Region != "R9" {
		t.Errorf("got region %q, %v", got.endpoint.Region, err)
	}
}

// TestSessionsOfAServiceTakeLittleMemory: a namespace may have a session in each of many regions and with each of its
// Secrets, and the identity service that a Secret names chooses the length of its answers.
func TestSessionsOfAServiceTakeLittleMemory(t *testing.T) {
	const most = 8 << 20
	logins, refuse := 0, false
	mux := http.NewServeMux()
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	mux.HandleFunc("/v3/auth/tokens", func(w http.ResponseWriter, _ *http.Request) {
		logins++
		w.Header().Set("X-Subject-Token", fmt.Sprint("token", logins))
		w.WriteHeader(http.StatusCreated)
		var services []string
		for kind, path := range map[string]string{"compute": "/compute/v2.1/", "network": "/network/", "image": "/image/"} {
			services = append(services, fmt.Sprintf(`{"type":%q,"endpoints":[{"interface":"public","region":"R","region_id":"R","url":%q}]}`, kind, server.URL+path))
		}
		for n := range 2_000 {
			services = append(services, fmt.Sprintf(`{"type":"other%d","name":%q}`, n, strings.Repeat("x", 1<<10)))
		}
		_, _ = fmt.Fprintf(w, `{"token":{"expires_at":"2036-01-01T00:00:00.000000Z","project":{"id":"p","name":"p"},"catalog":[%s]}}`, strings.Join(services, ","))
	})
	for path, version := range map[string]string{
		"/compute/v2.1/{$}": `{"version":{"id":"v2.1","status":"CURRENT","version":"2.93","min_version":"2.1"}}`,
		"/network/{$}":      `{"versions":[{"id":"v2.0","status":"CURRENT"}]}`,
		"/image/{$}":        `{"versions":[{"id":"v2.15","status":"CURRENT"}]}`,
	} {
		mux.HandleFunc(path, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, version) })
	}
	mux.HandleFunc("/compute/v2.1/servers/x", func(w http.ResponseWriter, r *http.Request) {
		if refuse && r.Header.Get("X-Auth-Token") != fmt.Sprint("token", logins) || r.Header.Get("X-Auth-Token") == "" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		if refuse {
			refuse = false
		}
		_, _ = io.WriteString(w, `{"server":{"id":"x"}}`)
	})
	var sessions []*Session
	before := heap()
	for range 4 {
		session, err := Open(fromSecret, credentials(map[string]string{
			"OS_AUTH_URL": server.URL + "/v3", "OS_USERNAME": "u", "OS_PASSWORD": "p", "OS_PROJECT_ID": "p", "OS_REGION_NAME": "R",
		}), nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		services, err := session.Services(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for range 2 { // the second call is after the end of the token
			if _, err := servers.Get(t.Context(), services.Compute, "x").Extract(); err != nil {
				t.Fatal(err)
			}
			logins, refuse = logins+1, true
		}
		refuse = false
		sessions = append(sessions, session)
	}
	if took := heap() - before; took > most {
		t.Errorf("%d sessions take %d KiB", len(sessions), took>>10)
	}
	runtime.KeepAlive(sessions)
}

// heap is how many bytes are in use.
func heap() int64 {
	var now runtime.MemStats
	runtime.GC()
	runtime.GC() // what pools hold is freed by the second one
	runtime.ReadMemStats(&now)
	return int64(now.HeapAlloc)
}
