// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package openstack_test

import (
	"bytes"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"drover.io/infra-providers/driver"
	"drover.io/infra-providers/openstack/openstackfake"
)

// TestAccountIDIsTheProject: it is known from the login, and costs no call of its own.
func TestAccountIDIsTheProject(t *testing.T) {
	t.Parallel()
	r := newEnv(t)
	counted := counting(r.faults)
	d := connect(t, counted, driver.Account{SecretName: "cloud"}, r.secret)
	first, err := any(d).(driver.AccountIdentifier).AccountID(t.Context())
	host, rest, found := strings.Cut(first, "/")
	if err != nil || !found || host == "" || rest != "0123456789abcdef0123456789abcdef/"+openstackfake.Region {
		t.Errorf("got %q and %v", first, err)
	}
	counted.taken() // the login
	again, err := any(d).(driver.AccountIdentifier).AccountID(t.Context())
	if err != nil || again != first {
		t.Errorf("it became %q, %v", again, err)
	}
	if diff := cmp.Diff(map[string]int{}, counted.taken()); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
}

// login changes what the identity service answers to a login.
type login struct {
	next   http.RoundTripper
	change func([]byte) []byte
}

// RoundTrip implements http.RoundTripper.
func (l login) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := l.next.RoundTrip(request)
	if err != nil || request.Method != http.MethodPost || !strings.HasSuffix(request.URL.Path, "/auth/tokens") {
		return response, err
	}
	content, err := io.ReadAll(response.Body)
	if err != nil {
		return nil, err
	}
	content = l.change(content)
	response.Body, response.ContentLength = io.NopCloser(bytes.NewReader(content)), int64(len(content))
	response.Header.Del("Content-Length")
	return response, nil
}

// withRegion adds another region to the catalog, at another address.
func withRegion(t *testing.T, name, address string) func([]byte) []byte {
	return func(content []byte) []byte {
		var body map[string]map[string]any
		if err := json.Unmarshal(content, &body); err != nil {
			t.Error(err)
		}
		for _, service := range body["token"]["catalog"].([]any) {
			of := service.(map[string]any)
			at := of["endpoints"].([]any)[0].(map[string]any)
			_, path, _ := strings.Cut(strings.TrimPrefix(at["url"].(string), "http://"), "/")
			of["endpoints"] = append(of["endpoints"].([]any), map[string]any{"id": "2", "interface": "public", "region": name, "region_id": name, "url": address + "/" + path})
		}
		content, err := json.Marshal(body)
		if err != nil {
			t.Error(err)
		}
		return content
	}
}

// TestAccountIDHasTheRegion: resources of one region are not found in another, with the same project.
func TestAccountIDHasTheRegion(t *testing.T) {
	t.Parallel()
	r := newEnv(t)
	other := openstackfake.New()
	server := httptest.NewServer(other)
	t.Cleanup(server.Close)
	other.Serve(server.URL)
	transport := login{r.faults, withRegion(t, "RegionTwo", server.URL)}
	account := func(region string) (string, error) {
		secret := maps.Clone(r.secret)
		secret["OS_REGION_NAME"] = []byte(region)
		return connect(t, transport, driver.Account{SecretName: "cloud"}, secret).(driver.AccountIdentifier).AccountID(t.Context())
	}
	one, err := account(openstackfake.Region)
	two, err2 := account("RegionTwo")
	if err != nil || err2 != nil || one == two {
		t.Errorf("got %q, %v and %q, %v; want two accounts", one, err, two, err2)
	}
	if got, err := account(""); !driver.IsInvalidConfiguration(err) || !strings.Contains(err.Error(), "spec.region: the cloud has the regions RegionOne, RegionTwo: name one") {
		t.Errorf("without a region: got %q and %v", got, err)
	}
	secret := maps.Clone(r.secret)
	delete(secret, "OS_REGION_NAME")
	only, err := connect(t, r.faults, driver.Account{SecretName: "cloud"}, secret).(driver.AccountIdentifier).AccountID(t.Context())
	if err != nil || only != one {
		t.Errorf("the only region: got %q and %v, want %q", only, err, one)
	}
}

// TestTokenOfAnotherProjectIsNotUsed: the project was renamed, and another one got its name.
func TestTokenOfAnotherProjectIsNotUsed(t *testing.T) {
	t.Parallel()
	r := newEnv(t)
	renamed := false
	d := connect(t, login{r.faults, func(content []byte) []byte {
		if renamed {
			return bytes.ReplaceAll(content, []byte("0123456789abcdef0123456789abcdef"), []byte("ffffffffffffffffffffffffffffffff"))
		}
		return content
	}}, driver.Account{SecretName: "cloud"}, r.secret)
	req := newRequest(t, minimalSpec())
	created := mustCreate(t, d, req)
	id := req.Identity
	id.ProviderID = created.ProviderID
	renamed = true
	r.ChangePassword(openstackfake.Password) // ends the token
	for range 2 {
		if found, err := d.Get(t.Context(), id); !driver.IsAccountMismatch(err) {
			t.Errorf("got %+v and %v, want an AccountMismatchError", found, err)
		}
	}
	if err := d.Delete(t.Context(), id); !driver.IsAccountMismatch(err) {
		t.Errorf("deleted with %v", err)
	}
	renamed = false
	if found, err := d.Get(t.Context(), id); err != nil || found.ProviderID != created.ProviderID {
		t.Errorf("in the right project again: got %+v and %v", found, err)
	}
}
