// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package alibaba_test

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"drover.io/infra-providers/alibaba"
	"drover.io/infra-providers/alibaba/alibabafake"
	"drover.io/infra-providers/driver"
	"drover.io/infra-providers/driver/drivertest"
)

func (w env) connectWith(t *testing.T, secretName string, secret driver.Credentials) (driver.Driver[alibaba.InstanceConfig], string, error) {
	t.Helper()
	d, err := w.description().Connect(t.Context(), driver.Account{SecretName: secretName, Region: alibabafake.Region}, secret)
	if err != nil {
		return nil, "", err
	}
	account, err := d.(driver.AccountIdentifier).AccountID(t.Context())
	return d, account, err
}

func TestSecrets(t *testing.T) {
	t.Parallel()
	w := newEnv(t, alibabafake.Options{})
	w.cloud.AddKey("STS.Known", "hidden", "session", "42")
	of := func(id, key, token string) driver.Credentials {
		return driver.Credentials{"ALIBABA_CLOUD_ACCESS_KEY_ID": []byte(id), "ALIBABA_CLOUD_ACCESS_KEY_SECRET": []byte(key), "ALIBABA_CLOUD_SECURITY_TOKEN": []byte(token)}
	}
	host := strings.TrimPrefix(w.url, "http://")
	for name, test := range map[string]struct {
		secret  driver.Credentials
		account string
		want    string
	}{
		"an access key":             {secret(), host + "/" + alibabafake.Account, ""},
		"a temporary access key":    {of("STS.Known", "hidden", "session"), host + "/42", ""},
		"another token":             {of("STS.Known", "hidden", "another"), "", "mismatch"},
		"no token":                  {of("STS.Known", "hidden", ""), "", "mismatch"},
		"another secret":            {of(alibabafake.AccessKey, "hidden", ""), "", "rejects the signature"},
		"an unknown access key":     {of("LTAIUnknown", "hidden", ""), "", "not found"},
		"no secret":                 {of(alibabafake.AccessKey, "", ""), "", "ALIBABA_CLOUD_ACCESS_KEY_SECRET"},
		"no key":                    {of("", "hidden", ""), "", "ALIBABA_CLOUD_ACCESS_KEY_ID"},
		"nothing":                   {nil, "", "missing or empty"},
		"a key that is no header":   {of("LTAI\nx: y", "hidden", ""), "", "control characters"},
		"a token that is no header": {of(alibabafake.AccessKey, "hidden", "a\nb: c"), "", "control characters"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, account, err := w.connectWith(t, "alibaba", test.secret)
			if test.want == "" {
				if err != nil || account != test.account {
					t.Errorf("got %q and %v, want %q", account, err, test.account)
				}
				return
			}
			if !driver.IsUnauthorized(err) || !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), "hidden") {
				t.Errorf("got %v, want an UnauthorizedError with %q", err, test.want)
			}
		})
	}
}

// TestRegionsThatAreNoNames: a region is a part of a host name.
func TestRegionsThatAreNoNames(t *testing.T) {
	t.Parallel()
	for _, region := range []string{"", "evil.example.org/", "a.b", "a/b", "a@b", "a:80", "EU", "-a"} {
		if _, err := alibaba.Cloud(alibaba.Options{}).Connect(t.Context(), driver.Account{SecretName: "alibaba", Region: region}, secret()); !driver.IsInvalidConfiguration(err) {
			t.Errorf("%q: got %v, want an InvalidConfigurationError", region, err)
		}
	}
}

// host is a metadata service with the access key of a RAM role.
type host struct {
	asked atomic.Int64
	key   atomic.Value
}

func (h *host) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h.asked.Add(1)
	const roles = "/latest/meta-data/ram/security-credentials/"
	switch {
	case r.Method == http.MethodPut && r.URL.Path == "/latest/api/token" && r.Header.Get("X-Aliyun-Ecs-Metadata-Token-Ttl-Seconds") != "":
		_, _ = w.Write([]byte("metadata-token"))
	case r.Header.Get("X-Aliyun-Ecs-Metadata-Token") != "metadata-token":
		http.Error(w, "no", http.StatusForbidden)
	case r.URL.Path == roles:
		_, _ = w.Write([]byte("drover\n"))
	case r.URL.Path == roles+"drover":
		_ = json.NewEncoder(w).Encode(h.key.Load())
	default:
		http.NotFound(w, r)
	}
}

func keyOf(id string, lives time.Duration) map[string]any {
	return map[string]any{
		"AccessKeyId": id, "AccessKeySecret": "host-secret", "SecurityToken": "host-token", "Expiration": time.Now().Add(lives).UTC().Format(time.RFC3339), "Code": "Success",
	}
}

func clearEnvironment(t *testing.T) {
	t.Helper()
	for _, name := range []string{
		"ALIBABA_CLOUD_ACCESS_KEY_ID", "ALIBABA_CLOUD_ACCESS_KEY_SECRET", "ALIBABA_CLOUD_SECURITY_TOKEN", "ALIBABA_CLOUD_ROLE_ARN", "ALIBABA_CLOUD_OIDC_PROVIDER_ARN",
		"ALIBABA_CLOUD_OIDC_TOKEN_FILE", "ALIBABA_CLOUD_ECS_METADATA", "ALIBABA_CLOUD_ECS_METADATA_DISABLED",
	} {
		t.Setenv(name, "")
	}
}

// TestOwnCredentials are an access key, the RAM role of the ServiceAccount or that of the host, in this order, and none of them
// is used with a Secret.
func TestOwnCredentials(t *testing.T) {
	clearEnvironment(t)
	w := newEnv(t, alibabafake.Options{})
	w.cloud.AddKey("STS.Host", "host-secret", "host-token", alibabafake.Account)
	served := &host{}
	served.key.Store(keyOf("STS.Host", time.Hour))
	server := httptest.NewServer(served)
	t.Cleanup(server.Close)
	connect := func(secretName string) error {
		cloud := alibaba.Cloud(alibaba.Options{Endpoint: w.url, MetadataEndpoint: server.URL})
		d, err := cloud.Connect(t.Context(), driver.Account{SecretName: secretName, Region: alibabafake.Region}, nil)
		if err != nil {
			return err
		}
		for range 2 {
			if _, err := d.(driver.AccountIdentifier).AccountID(t.Context()); err != nil {
				return err
			}
			drivertest.ProviderIDs(t, d)
		}
		return nil
	}
	if err := connect(""); err != nil || served.asked.Load() != 3 {
		t.Errorf("by the host: got %v after %d requests, want 3", err, served.asked.Load())
	}
	t.Setenv("ALIBABA_CLOUD_ECS_METADATA", "drover")
	if err := connect(""); err != nil || served.asked.Load() != 5 {
		t.Errorf("by a role of the host that is named: got %v after %d requests, want 5", err, served.asked.Load())
	}
	t.Setenv("ALIBABA_CLOUD_ECS_METADATA_DISABLED", "true")
	if err := connect(""); !driver.IsUnauthorized(err) {
		t.Errorf("without the host: got %v, want an UnauthorizedError", err)
	}
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte(alibabafake.OIDCToken+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("ALIBABA_CLOUD_ROLE_ARN", alibabafake.Role)
	t.Setenv("ALIBABA_CLOUD_OIDC_PROVIDER_ARN", alibabafake.OIDCProvider)
	t.Setenv("ALIBABA_CLOUD_OIDC_TOKEN_FILE", file)
	if err := connect(""); err != nil {
		t.Errorf("by a ServiceAccount: %v", err)
	}
	if err := os.WriteFile(file, []byte("another"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := connect(""); !driver.IsUnauthorized(err) {
		t.Errorf("by the token of another ServiceAccount: got %v, want an UnauthorizedError", err)
	}
	t.Setenv("ALIBABA_CLOUD_ACCESS_KEY_ID", alibabafake.AccessKey)
	if err := connect(""); !driver.IsUnauthorized(err) {
		t.Errorf("by half of an access key: got %v, want an UnauthorizedError", err)
	}
	t.Setenv("ALIBABA_CLOUD_ACCESS_KEY_SECRET", alibabafake.AccessSecret)
	if err := connect(""); err != nil {
		t.Errorf("by an access key: %v", err)
	}
	if err := connect("alibaba"); !driver.IsUnauthorized(err) {
		t.Errorf("with a Secret that is empty: got %v, want an UnauthorizedError", err)
	}
	if served.asked.Load() != 5 {
		t.Errorf("the metadata service got %d requests, want 5", served.asked.Load())
	}
}

// TestOwnKeysAreReplaced when they are refused or end, and a key of another account is never used.
func TestOwnKeysAreReplaced(t *testing.T) {
	clearEnvironment(t)
	w := newEnv(t, alibabafake.Options{})
	w.cloud.AddKey("STS.One", "host-secret", "host-token", alibabafake.Account)
	w.cloud.AddKey("STS.Two", "host-secret", "host-token", alibabafake.Account)
	w.cloud.AddKey("STS.Other", "host-secret", "host-token", "42")
	served := &host{}
	served.key.Store(keyOf("STS.One", time.Hour))
	server := httptest.NewServer(served)
	t.Cleanup(server.Close)
	cloud := alibaba.Cloud(alibaba.Options{Endpoint: w.url, MetadataEndpoint: server.URL})
	d, err := cloud.Connect(t.Context(), driver.Account{Region: alibabafake.Region}, nil)
	if err != nil {
		t.Fatal(err)
	}
	drivertest.ProviderIDs(t, d)
	w.cloud.RemoveKey("STS.One")
	served.key.Store(keyOf("STS.Two", time.Hour))
	get := func() error {
		for _, err := range d.List(t.Context(), driver.Owner{}) {
			if err != nil {
				return err
			}
		}
		return nil
	}
	if err := get(); !driver.IsUnauthorized(err) {
		t.Errorf("with a key that is refused: got %v, want an UnauthorizedError", err)
	}
	if err := get(); err != nil {
		t.Errorf("with the next key: %v", err)
	}
	w.cloud.RemoveKey("STS.Two")
	served.key.Store(keyOf("STS.Other", time.Hour))
	_ = get()
	for range 2 {
		if err := get(); !driver.IsAccountMismatch(err) {
			t.Errorf("with a key of another account: got %v, want an AccountMismatchError", err)
		}
	}
}

// TestMetadataServiceThatFails: a failure that passes is not a lack of credentials.
func TestMetadataServiceThatFails(t *testing.T) {
	clearEnvironment(t)
	for status, is := range map[int]func(error) bool{
		http.StatusServiceUnavailable: func(err error) bool { return err != nil && !driver.IsUnauthorized(err) },
		http.StatusNotFound:           driver.IsUnauthorized,
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) }))
		cloud := alibaba.Cloud(alibaba.Options{Endpoint: server.URL, MetadataEndpoint: server.URL})
		d, err := cloud.Connect(t.Context(), driver.Account{Region: alibabafake.Region}, nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := d.(driver.AccountIdentifier).AccountID(t.Context()); !is(err) {
			t.Errorf("status %d: got %v", status, err)
		}
		server.Close()
	}
}

// TestAnswersOfOtherPrograms: what a proxy answers is never taken for the absence of an instance, and has no part of the request
// in its error.
func TestAnswersOfOtherPrograms(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]func(http.ResponseWriter){
		"an empty object":          func(w http.ResponseWriter) { _, _ = w.Write([]byte(`{}`)) },
		"an answer without a list": func(w http.ResponseWriter) { _, _ = w.Write([]byte(`{"RequestId":"1"}`)) },
		"a page":                   func(w http.ResponseWriter) { _, _ = w.Write([]byte(`<html></html>`)) },
		"a list":                   func(w http.ResponseWriter) { _, _ = w.Write([]byte(`[]`)) },
		"nothing":                  func(http.ResponseWriter) {},
		"no content":               func(w http.ResponseWriter) { w.WriteHeader(http.StatusNoContent) },
		"a redirect": func(w http.ResponseWriter) {
			w.Header().Set("Location", "http://127.0.0.1:1/")
			w.WriteHeader(http.StatusFound)
		},
		"not found": func(w http.ResponseWriter) {
			w.WriteHeader(http.StatusNotFound)
			_, _ = w.Write([]byte(`{"Code":"InvalidInstanceId.NotFound"}`))
		},
		"not found, as a page": func(w http.ResponseWriter) { http.Error(w, "404 page not found", http.StatusNotFound) },
		"a code that is a list": func(w http.ResponseWriter) {
			w.WriteHeader(http.StatusBadRequest)
			_, _ = w.Write([]byte(`{"RequestId":"1","Code":["a"],"Message":{}}`))
		},
		"instances that are a number": func(w http.ResponseWriter) { _, _ = w.Write([]byte(`{"RequestId":"1","Instances":7}`)) },
		"instances that are null":     func(w http.ResponseWriter) { _, _ = w.Write([]byte(`{"RequestId":"1","Instances":null}`)) },
		"XML": func(w http.ResponseWriter) {
			w.Header().Set("Content-Type", "text/xml;charset=utf-8")
			w.WriteHeader(http.StatusBadRequest)
			_, _ = w.Write([]byte(`<Error><Code>InvalidInstanceId.NotFound</Code></Error>`))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { answer(w) }))
			t.Cleanup(server.Close)
			w := env{url: server.URL, clock: drivertest.NewClock()}
			w.clock.Advance(-time.Hour)
			d := w.connect(t)
			id := identity
			id.ProviderID = "alicloud://eu-central-1.i-gw8abc"
			for _, id := range []driver.Identity{identity, id} {
				if _, err := d.Get(t.Context(), id); err == nil || driver.IsNotFound(err) || driver.IsUnauthorized(err) {
					t.Errorf("reading: got %v", err)
				}
				if err := d.Delete(t.Context(), id); err == nil {
					t.Error("deleting: got no error")
				}
			}
			for _, err := range d.List(t.Context(), driver.Owner{}) {
				if err == nil {
					t.Error("listing: got an instance")
				}
			}
			req := newRequest(identity, newConfig(t, unchanged))
			req.UserData = []byte("a secret")
			if _, err := d.Create(t.Context(), req); err == nil || strings.Contains(err.Error(), "UserData") || driver.IsInvalidConfiguration(err) {
				t.Errorf("creating: got %v", err)
			}
		})
	}
}

// TestErrorsOfTheNetworkAreStable: they end up in conditions, and must not have the request in them.
func TestErrorsOfTheNetworkAreStable(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }))
	t.Cleanup(server.Close)
	w := env{url: server.URL, clock: drivertest.NewClock()}
	d := w.connect(t)
	var texts []string
	for range 2 {
		_, err := d.Get(t.Context(), identity)
		if err == nil || errors.Is(err, t.Context().Err()) && t.Context().Err() != nil {
			t.Fatalf("got %v", err)
		}
		texts = append(texts, err.Error())
	}
	if texts[0] != texts[1] || strings.Contains(texts[0], "127.0.0.1") || strings.Contains(texts[0], "machine-uid") {
		t.Errorf("got %q", texts)
	}
}
