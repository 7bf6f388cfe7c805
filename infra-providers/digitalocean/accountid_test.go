// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package digitalocean_test

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	infrav1 "drover.io/api/infrastructure/v1alpha1"
	"drover.io/infra-providers/digitalocean"
	"drover.io/infra-providers/digitalocean/digitaloceanfake"
	"drover.io/infra-providers/driver"
	"drover.io/infra-providers/driver/drivertest"
)

func TestCredentials(t *testing.T) {
	cloud := newEnv(t, digitaloceanfake.Options{})
	t.Setenv("DIGITALOCEAN_API_URL", cloud.Endpoint)
	for name, test := range map[string]struct {
		environment, secretName string
		credentials             driver.Credentials
		connects, accepted      bool
	}{
		"uses the Secret":                                  {"", "do", driver.Credentials{"token": []byte(digitaloceanfake.Token)}, true, true},
		"trims a line break":                               {"", "do", driver.Credentials{"token": []byte(digitaloceanfake.Token + "\n")}, true, true},
		"prefers the Secret":                               {digitaloceanfake.Token, "do", driver.Credentials{"token": []byte("wrong")}, true, false},
		"uses the environment without a Secret":            {digitaloceanfake.Token, "", nil, true, true},
		"does not use the environment for an empty Secret": {digitaloceanfake.Token, "do", nil, false, false},
		"fails with a wrong token":                         {"wrong", "", nil, true, false},
		"needs a token":                                    {"", "", nil, false, false},
		"needs a token without spaces":                     {"a b", "", nil, false, false},
		"needs a token of plain letters":                   {"", "do", driver.Credentials{"token": []byte("tökèn")}, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("DIGITALOCEAN_TOKEN", test.environment)
			connected, err := digitalocean.Cloud(digitalocean.Options{}).Connect(t.Context(), driver.Account{SecretName: test.secretName}, test.credentials)
			if (err == nil) != test.connects || err != nil && !driver.IsUnauthorized(err) {
				t.Fatalf("connecting: %v", err)
			}
			if err != nil {
				return
			}
			id := identity("m")
			id.ProviderID = "digitalocean://1"
			_, err = connected.Get(t.Context(), id)
			if driver.IsNotFound(err) != test.accepted || driver.IsUnauthorized(err) == test.accepted {
				t.Errorf("reading: %v", err)
			}
		})
	}
}

func TestAccountNeedsNoValidation(t *testing.T) {
	t.Parallel()
	machine := &infrav1.DigitalOceanMachine{Spec: infrav1.DigitalOceanMachineSpec{CredentialsSecretName: "do"}}
	if diff := cmp.Diff(driver.Account{SecretName: "do"}, digitalocean.Cloud(digitalocean.Options{}).Account(machine)); diff != "" {
		t.Errorf("account (-want +got):\n%s", diff)
	}
}

// TestAccountIDIsTheTeam: tokens of several users of a team lead to the same Droplets.
func TestAccountIDIsTheTeam(t *testing.T) {
	t.Parallel()
	got, err := connect(t, newEnv(t, digitaloceanfake.Options{})).AccountID(t.Context())
	if want := "digitalocean/" + digitaloceanfake.Team; err != nil || got != want {
		t.Errorf("got %q and %v, want %q", got, err, want)
	}
}

func TestCapacityIsThatOfTheSize(t *testing.T) {
	t.Parallel()
	cloud := newEnv(t, digitaloceanfake.Options{})
	d := connect(t, cloud)
	for range 2 {
		got, err := d.Capacity(t.Context(), newConfig(t, minimalSpec()))
		if err != nil {
			t.Fatal(err)
		}
		found := map[corev1.ResourceName]string{}
		for name, quantity := range got.Capacity {
			found[name] = quantity.String()
		}
		want := map[corev1.ResourceName]string{"cpu": "2", "memory": "4Gi", "ephemeral-storage": "80Gi"}
		if diff := cmp.Diff(want, found); diff != "" || got.Architecture != "amd64" || got.OperatingSystem != "linux" {
			t.Errorf("capacity (-want +got):\n%s\n%s %s", diff, got.Architecture, got.OperatingSystem)
		}
	}
	if lists := count(cloud, "GET /v2/sizes"); lists != 1 {
		t.Errorf("sizes were listed %d times, want once in ten minutes", lists)
	}
	unknown := newConfig(t, minimalSpec())
	unknown.Size = "huge"
	if _, err := d.Capacity(t.Context(), unknown); !driver.IsInvalidConfiguration(err) {
		t.Errorf("got %v, want an InvalidConfigurationError", err)
	}
}

// TestRedirectIsNotFollowed: the token is for one server.
func TestRedirectIsNotFollowed(t *testing.T) {
	t.Parallel()
	requests := 0
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { requests++ }))
	t.Cleanup(elsewhere.Close)
	here := httptest.NewServer(http.RedirectHandler(elsewhere.URL, http.StatusTemporaryRedirect))
	t.Cleanup(here.Close)
	client, err := digitalocean.NewClient("token", here.URL, http.DefaultTransport)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := digitalocean.New(client, drivertest.ClockFunc(time.Now)).AccountID(t.Context()); err == nil || driver.IsUnauthorized(err) {
		t.Errorf("got %v, want a transient error", err)
	}
	if requests > 0 {
		t.Errorf("the other server got %d requests", requests)
	}
}
