// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package yandex_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"drover.io/infra-providers/driver"
	"drover.io/infra-providers/driver/drivertest"
	"drover.io/infra-providers/yandex/yandexfake"
)

func (w env) connectWith(t *testing.T, secretName string, secret driver.Credentials) (string, error) {
	t.Helper()
	d, err := w.description().Connect(t.Context(), driver.Account{SecretName: secretName, Region: yandexfake.Folder}, secret)
	if err != nil {
		return "", err
	}
	return d.(driver.AccountIdentifier).AccountID(t.Context())
}

func TestSecrets(t *testing.T) {
	t.Parallel()
	w := newEnv(t, yandexfake.Options{})
	with := func(change func(map[string]any)) []byte {
		fields := map[string]any{}
		if err := json.Unmarshal(w.cloud.Key(), &fields); err != nil {
			t.Fatal(err)
		}
		change(fields)
		content, err := json.Marshal(fields)
		if err != nil {
			t.Fatal(err)
		}
		return content
	}
	for name, test := range map[string]struct {
		secret driver.Credentials
		want   string
	}{
		"an authorized key":         {driver.Credentials{"key.json": w.cloud.Key()}, ""},
		"an IAM token":              {driver.Credentials{"iam-token": []byte(w.cloud.Token() + "\n")}, ""},
		"both":                      {driver.Credentials{"key.json": w.cloud.Key(), "iam-token": []byte("t1.secret")}, "only one of it"},
		"nothing":                   {nil, "missing or empty"},
		"no JSON":                   {driver.Credentials{"key.json": []byte("{secret")}, "no authorized key"},
		"no private key":            {driver.Credentials{"key.json": with(func(f map[string]any) { delete(f, "private_key") })}, "private_key is missing"},
		"a malformed private key":   {driver.Credentials{"key.json": with(func(f map[string]any) { f["private_key"] = "secret" })}, "no RSA key"},
		"a key that is not known":   {driver.Credentials{"key.json": with(func(f map[string]any) { f["id"] = "another" })}, "refuses the credentials"},
		"another service account":   {driver.Credentials{"key.json": with(func(f map[string]any) { f["service_account_id"] = "another" })}, "refuses the credentials"},
		"a token that is no header": {driver.Credentials{"iam-token": []byte("secret\nx: y")}, "no IAM token"},
		"a token that has expired":  {driver.Credentials{"iam-token": []byte("t1.expired")}, "invalid or has expired"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			account, err := w.connectWith(t, "yandex", test.secret)
			if test.want == "" {
				if want := "api.cloud.yandex.net/" + yandexfake.Folder; err != nil || account != want {
					t.Errorf("got %q and %v, want %q", account, err, want)
				}
				return
			}
			if !driver.IsUnauthorized(err) || !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), "secret") {
				t.Errorf("got %v, want an UnauthorizedError with %q", err, test.want)
			}
		})
	}
}

// TestTokensAreReplaced: one token serves many calls, and is replaced when the API refuses it.
func TestTokensAreReplaced(t *testing.T) {
	t.Parallel()
	w := newEnv(t, yandexfake.Options{})
	d := w.connect(t)
	for range 3 {
		drivertest.ProviderIDs(t, d)
	}
	if got := w.cloud.Counts()["IamToken/Create"]; got != 1 {
		t.Errorf("%d tokens were requested, want 1", got)
	}
	w.cloud.RevokeTokens()
	if _, err := d.Get(t.Context(), identity); !driver.IsUnauthorized(err) {
		t.Errorf("got %v, want an UnauthorizedError", err)
	}
	drivertest.ProviderIDs(t, d)
}

// TestFolderThatDoesNotExist: nothing would be found in it.
func TestFolderThatDoesNotExist(t *testing.T) {
	t.Parallel()
	w := newEnv(t, yandexfake.Options{})
	d, err := w.description().Connect(t.Context(), driver.Account{SecretName: "yandex", Region: "b1gone"}, w.secret())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.(driver.AccountIdentifier).AccountID(t.Context()); !driver.IsUnauthorized(err) {
		t.Errorf("got %v, want an UnauthorizedError", err)
	}
}

// TestOwnCredentials are a file, a token or the service account of the host, in this order, and none of them is used with a
// Secret.
func TestOwnCredentials(t *testing.T) {
	w := newEnv(t, yandexfake.Options{})
	asked := atomic.Int64{}
	host := httptest.NewServer(http.HandlerFunc(func(answer http.ResponseWriter, request *http.Request) {
		asked.Add(1)
		if request.Header.Get("Metadata-Flavor") != "Google" || request.URL.Path != "/computeMetadata/v1/instance/service-accounts/default/token" {
			http.Error(answer, "no", http.StatusForbidden)
			return
		}
		_ = json.NewEncoder(answer).Encode(map[string]any{"access_token": w.cloud.Token(), "expires_in": 3600, "token_type": "Bearer"})
	}))
	t.Cleanup(host.Close)
	t.Setenv("YC_METADATA_ADDR", strings.TrimPrefix(host.URL, "http://"))
	if _, err := w.connectWith(t, "", nil); err != nil || asked.Load() != 1 {
		t.Errorf("by the metadata service: got %v after %d requests", err, asked.Load())
	}
	t.Setenv("YC_IAM_TOKEN", w.cloud.Token())
	if _, err := w.connectWith(t, "", nil); err != nil {
		t.Errorf("by a token: %v", err)
	}
	file := filepath.Join(t.TempDir(), "key.json")
	if err := os.WriteFile(file, w.cloud.Key(), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("YC_SERVICE_ACCOUNT_KEY_FILE", file)
	t.Setenv("YC_IAM_TOKEN", "t1.unused")
	if _, err := w.connectWith(t, "", nil); err != nil {
		t.Errorf("by a file: %v", err)
	}
	if _, err := w.connectWith(t, "yandex", nil); !driver.IsUnauthorized(err) {
		t.Errorf("with a Secret that is empty: got %v, want an UnauthorizedError", err)
	}
	if asked.Load() != 1 {
		t.Errorf("the metadata service got %d requests, want 1", asked.Load())
	}
}
