// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package nutanix_test

import (
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"drover.io/infra-providers/driver"
	"drover.io/infra-providers/driver/drivertest"
	"drover.io/infra-providers/nutanix"
	"drover.io/infra-providers/nutanix/nutanixfake"
	"drover.io/runtime/keysize/keysizetest"
)

// accountID connects with a Secret and reads the account.
func accountID(t *testing.T, account driver.Account, secret driver.Credentials) (string, error) {
	t.Helper()
	d, err := nutanix.Cloud(nutanix.Options{}).Connect(t.Context(), account, secret)
	if err != nil {
		return "", err
	}
	return d.(driver.AccountIdentifier).AccountID(t.Context())
}

func TestSecret(t *testing.T) {
	t.Parallel()
	w := newEnv(t, nutanixfake.Options{})
	host := strings.TrimPrefix(w.server.URL, "https://")
	for name, test := range map[string]struct {
		change map[string]string
		want   func(error) bool
	}{
		"a user":                    {nil, nil},
		"an API key":                {map[string]string{"NUTANIX_USER": "", "NUTANIX_PASSWORD": "", "NUTANIX_API_KEY": nutanixfake.APIKey}, nil},
		"a host with a port":        {map[string]string{"NUTANIX_ENDPOINT": host + "\n"}, nil},
		"a host beside a port":      {map[string]string{"NUTANIX_ENDPOINT": host[:strings.Index(host, ":")], "NUTANIX_PORT": host[strings.Index(host, ":")+1:]}, nil},
		"any certificate":           {map[string]string{"NUTANIX_CA_BUNDLE": "", "NUTANIX_INSECURE": "true"}, nil},
		"a wrong password":          {map[string]string{"NUTANIX_PASSWORD": "wrong"}, driver.IsUnauthorized},
		"no endpoint":               {map[string]string{"NUTANIX_ENDPOINT": ""}, driver.IsUnauthorized},
		"http":                      {map[string]string{"NUTANIX_ENDPOINT": "http://" + host}, driver.IsUnauthorized},
		"a path":                    {map[string]string{"NUTANIX_ENDPOINT": w.server.URL + "/api"}, driver.IsUnauthorized},
		"a password in a URL":       {map[string]string{"NUTANIX_ENDPOINT": "https://a:b@" + host}, driver.IsUnauthorized},
		"no password":               {map[string]string{"NUTANIX_PASSWORD": ""}, driver.IsUnauthorized},
		"a user and an API key":     {map[string]string{"NUTANIX_API_KEY": nutanixfake.APIKey}, driver.IsUnauthorized},
		"an API key of two lines":   {map[string]string{"NUTANIX_USER": "", "NUTANIX_PASSWORD": "", "NUTANIX_API_KEY": "a\r\nb: c"}, driver.IsUnauthorized},
		"a bundle that is no PEM":   {map[string]string{"NUTANIX_CA_BUNDLE": "x"}, driver.IsUnauthorized},
		"a large key":               {map[string]string{"NUTANIX_CA_BUNDLE": string(keysizetest.Certificate(t, 16384))}, driver.IsUnauthorized},
		"an unclear word":           {map[string]string{"NUTANIX_INSECURE": "yes"}, driver.IsUnauthorized},
		"an unknown certificate":    {map[string]string{"NUTANIX_CA_BUNDLE": ""}, func(err error) bool { return err != nil && !driver.IsUnauthorized(err) }},
		"a metadata service":        {map[string]string{"NUTANIX_ENDPOINT": "169.254.169.254:443"}, func(err error) bool { return err != nil && strings.Contains(err.Error(), "refused") }},
		"a file of the host is not": {map[string]string{"NUTANIX_CA_BUNDLE": "", "NUTANIX_CA_FILE": "/etc/ssl/certs/ca-certificates.crt"}, func(err error) bool { return err != nil }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			secret := maps.Clone(w.secret())
			for key, value := range test.change {
				secret[key] = []byte(value)
			}
			got, err := accountID(t, driver.Account{SecretName: "nutanix"}, secret)
			if test.want == nil && (err != nil || got != nutanixfake.ClusterID("Unnamed")) {
				t.Errorf("got %q and %v", got, err)
			}
			if test.want != nil && !test.want(err) {
				t.Errorf("got %v", err)
			}
			if err != nil && strings.Contains(err.Error(), nutanixfake.Password) {
				t.Errorf("the error has the password: %v", err)
			}
		})
	}
}

// TestEnvironment is not parallel, because it sets the environment.
func TestEnvironment(t *testing.T) {
	w := newEnv(t, nutanixfake.Options{})
	file := filepath.Join(t.TempDir(), "ca.crt")
	if err := os.WriteFile(file, w.bundle(), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := accountID(t, driver.Account{}, nil); !driver.IsUnauthorized(err) {
		t.Errorf("without credentials: got %v", err)
	}
	for key, value := range map[string]string{
		"NUTANIX_ENDPOINT": w.server.URL, "NUTANIX_USER": nutanixfake.User, "NUTANIX_PASSWORD": nutanixfake.Password, "NUTANIX_CA_FILE": file,
	} {
		t.Setenv(key, value)
	}
	if _, err := accountID(t, driver.Account{}, nil); err != nil {
		t.Errorf("got %v", err)
	}
	if _, err := accountID(t, driver.Account{SecretName: "empty"}, driver.Credentials{}); !driver.IsUnauthorized(err) {
		t.Errorf("the Secret has been combined with the environment: got %v", err)
	}
}

// TestRedirectsAreNotFollowed: credentials go to the named server only.
func TestRedirectsAreNotFollowed(t *testing.T) {
	t.Parallel()
	w := newEnv(t, nutanixfake.Options{})
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("the redirect was followed") }))
	t.Cleanup(elsewhere.Close)
	w.server.Config.Handler = http.RedirectHandler(elsewhere.URL, http.StatusFound)
	if _, err := accountID(t, driver.Account{SecretName: "nutanix"}, w.secret()); err == nil {
		t.Error("a redirect is an answer")
	}
}

// TestOldVersions: the version is negotiated, and projects need 4.1.
func TestOldVersions(t *testing.T) {
	t.Parallel()
	for version, want := range map[string]string{"v4.0": "v4.0", "v4.1": "v4.1", "v4.3": "v4.2", "none": "v4.0"} {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			w := newEnv(t, nutanixfake.Options{Version: version})
			paths := map[string]bool{}
			w.server.Config.Handler = http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
				if r.Method != http.MethodOptions {
					paths[strings.Split(r.URL.Path, "/")[3]] = true
				}
				w.cloud.ServeHTTP(rw, r)
			})
			d := w.connect(t)
			patiently(t, d, newRequest(identity, newConfig(t, unchanged)))
			if len(paths) != 1 || !paths[want] {
				t.Errorf("the versions %v were called, want %s", paths, want)
			}
			project := newConfig(t, unchanged)
			project.Spec.ProjectID = nutanixfake.Project
			id := identity
			id.UID, id.Name = "other", "worker-2"
			_, err := drivertest.Create(t, d, newRequest(id, project))
			if able := want != "v4.0"; able && err != nil || !able && (err == nil || driver.IsInvalidConfiguration(err) == (version == "none")) {
				t.Errorf("creating in a project: got %v", err)
			}
		})
	}
}
