// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package hetzner_test

import (
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	infrav1 "drover.io/api/infrastructure/v1alpha1"
	"drover.io/infra-providers/driver"
	"drover.io/infra-providers/hetzner"
	"drover.io/infra-providers/hetzner/catalog"
	"drover.io/infra-providers/hetzner/hetznerfake"
)

func TestCredentials(t *testing.T) {
	cloud := newEnv(t, hetznerfake.Options{})
	t.Setenv("HCLOUD_ENDPOINT", cloud.Endpoint)
	for name, test := range map[string]struct {
		environment, secretName string
		credentials             driver.Credentials
		connects, accepted      bool
	}{
		"uses the Secret":                                  {"", "hcloud", driver.Credentials{"token": []byte(hetznerfake.Token)}, true, true},
		"trims a line break":                               {"", "hcloud", driver.Credentials{"token": []byte(hetznerfake.Token + "\n")}, true, true},
		"prefers the Secret":                               {hetznerfake.Token, "hcloud", driver.Credentials{"token": []byte("wrong")}, true, false},
		"uses the environment without a Secret":            {hetznerfake.Token, "", nil, true, true},
		"does not use the environment for an empty Secret": {hetznerfake.Token, "hcloud", nil, false, false},
		"fails with a wrong token":                         {"wrong", "", nil, true, false},
		"needs a token":                                    {"", "", nil, false, false},
		"needs a token without spaces":                     {"a b", "", nil, false, false},
		"needs a token of plain letters":                   {"", "hcloud", driver.Credentials{"token": []byte("tökèn")}, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("HCLOUD_TOKEN", test.environment)
			connected, err := hetzner.Cloud(hetzner.Options{}).Connect(t.Context(), driver.Account{SecretName: test.secretName}, test.credentials)
			if (err == nil) != test.connects || err != nil && !driver.IsUnauthorized(err) {
				t.Fatalf("connecting: %v", err)
			}
			if err != nil {
				return
			}
			id := identity("m")
			id.ProviderID = "hcloud://1"
			_, err = connected.Get(t.Context(), id)
			if driver.IsNotFound(err) != test.accepted || driver.IsUnauthorized(err) == test.accepted {
				t.Errorf("reading: %v", err)
			}
		})
	}
}

func TestAccountNeedsNoValidation(t *testing.T) {
	t.Parallel()
	machine := &infrav1.HetznerMachine{Spec: infrav1.HetznerMachineSpec{CredentialsSecretName: "hcloud"}}
	if diff := cmp.Diff(driver.Account{SecretName: "hcloud"}, hetzner.Cloud(hetzner.Options{}).Account(machine)); diff != "" {
		t.Errorf("account (-want +got):\n%s", diff)
	}
}

// TestAccountIDIsTheProject: all tokens and processes find the same group, also after lost answers and stale lists.
func TestAccountIDIsTheProject(t *testing.T) {
	t.Parallel()
	cloud := newEnv(t, hetznerfake.Options{})
	cloud.Lose()
	if _, err := connect(cloud).AccountID(t.Context()); err == nil {
		t.Error("the answer was not lost")
	}
	want, err := connect(cloud).AccountID(t.Context())
	if err != nil || !strings.HasPrefix(want, "hetzner/") {
		t.Fatalf("got account %q and %v", want, err)
	}
	cloud.HidePlacementGroups(1)
	if got, err := connect(cloud).AccountID(t.Context()); err != nil || got != want {
		t.Errorf("with one stale list: got account %q and %v, want %q", got, err, want)
	}
	cloud.HidePlacementGroups(2)
	if got, err := connect(cloud).AccountID(t.Context()); err == nil || driver.IsInvalidConfiguration(err) || driver.IsUnauthorized(err) {
		t.Errorf("with two stale lists: got account %q and %v, want a transient error", got, err)
	}
	if diff := cmp.Diff([]string{"spread-1", "spread-2", catalog.MarkerName}, cloud.PlacementGroups()); diff != "" {
		t.Errorf("placement groups (-want +got):\n%s", diff)
	}
	other, err := connect(newEnv(t, hetznerfake.Options{})).AccountID(t.Context())
	if err != nil || other == want {
		t.Errorf("another project has account %q and %v", other, err)
	}
}

// TestConcurrentCallersAgreeOnTheAccountID: processes of several management clusters start at the same time.
func TestConcurrentCallersAgreeOnTheAccountID(t *testing.T) {
	t.Parallel()
	cloud := newEnv(t, hetznerfake.Options{})
	var wait sync.WaitGroup
	ids := make([]string, 8)
	for i := range ids {
		wait.Go(func() { ids[i], _ = connect(cloud).AccountID(t.Context()) })
	}
	wait.Wait()
	if slices.Sort(ids); ids[0] == "" || ids[0] != ids[len(ids)-1] {
		t.Errorf("got accounts %q, want one", ids)
	}
}

// TestMarkerHasNoServers: a group with servers cannot be deleted.
func TestMarkerHasNoServers(t *testing.T) {
	t.Parallel()
	cloud := newEnv(t, hetznerfake.Options{})
	if _, err := connect(cloud).AccountID(t.Context()); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*infrav1.HetznerMachineSpec){
		"a selector that it fits": func(s *infrav1.HetznerMachineSpec) { s.PlacementGroupSelector = "!pool" },
		"its name":                func(s *infrav1.HetznerMachineSpec) { s.PlacementGroup = catalog.MarkerName },
	} {
		spec := newSpec()
		change(&spec)
		if _, err := connect(cloud).Create(t.Context(), newRequest(t, "m", spec)); !driver.IsInvalidConfiguration(err) {
			t.Errorf("with %s: got %v, want an InvalidConfigurationError", name, err)
		}
	}
	wantNoLeftovers(t, cloud)
}

func TestReadOnlyTokenIsUnauthorized(t *testing.T) {
	t.Parallel()
	cloud := newEnv(t, hetznerfake.Options{ReadOnly: true})
	if _, err := connect(cloud).AccountID(t.Context()); !driver.IsUnauthorized(err) {
		t.Errorf("got %v, want an UnauthorizedError", err)
	}
}

// TestAccountIDIsNotQuotaExceeded: a quota of placement groups is independent of the configuration of a machine, so no
// alternative of it may be tried.
func TestAccountIDIsNotQuotaExceeded(t *testing.T) {
	t.Parallel()
	cloud := newEnv(t, hetznerfake.Options{})
	cloud.Refuse(http.StatusForbidden, "resource_limit_exceeded")
	if _, err := connect(cloud).AccountID(t.Context()); err == nil || driver.IsQuotaExceeded(err) {
		t.Errorf("got %v, want a transient error", err)
	}
}
