// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package hetzner_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	infrav1 "drover.io/api/infrastructure/v1alpha1"
	"drover.io/infra-providers/driver"
	"drover.io/infra-providers/hetzner"
	"drover.io/infra-providers/hetzner/hetznerfake"
)

func TestCredentials(t *testing.T) {
	cloud := start(t, hetznerfake.Options{})
	t.Setenv("HCLOUD_ENDPOINT", cloud.Endpoint)
	for name, test := range map[string]struct {
		environment, secretName string
		credentials             driver.Credentials
		connects, accepted      bool
	}{
		"takes the Secret":                     {"", "hcloud", driver.Credentials{"token": []byte(hetznerfake.Token)}, true, true},
		"takes a Secret with a line break":     {"", "hcloud", driver.Credentials{"token": []byte(hetznerfake.Token + "\n")}, true, true},
		"prefers the Secret":                   {hetznerfake.Token, "hcloud", driver.Credentials{"token": []byte("wrong")}, true, false},
		"takes the environment":                {hetznerfake.Token, "", nil, true, true},
		"does not take it for an empty Secret": {hetznerfake.Token, "hcloud", nil, false, false},
		"is refused a wrong token":             {"wrong", "", nil, true, false},
		"needs a token":                        {"", "", nil, false, false},
		"needs a token without spaces":         {"a b", "", nil, false, false},
		"needs a token of plain letters":       {"", "hcloud", driver.Credentials{"token": []byte("tökèn")}, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("HCLOUD_TOKEN", test.environment)
			connected, err := hetzner.Cloud().Connect(t.Context(), driver.Account{SecretName: test.secretName}, test.credentials)
			if (err == nil) != test.connects || err != nil && !driver.IsUnauthorized(err) {
				t.Fatalf("connecting: %v", err)
			}
			if err != nil {
				return
			}
			_, err = connected.Get(t.Context(), identity("m"))
			if driver.IsNotFound(err) != test.accepted || driver.IsUnauthorized(err) == test.accepted {
				t.Errorf("reading: %v", err)
			}
		})
	}
}

func TestTheAccountIsFoundWithoutValidation(t *testing.T) {
	t.Parallel()
	machine := &infrav1.HetznerMachine{Spec: infrav1.HetznerMachineSpec{CredentialsSecretName: "hcloud"}}
	if diff := cmp.Diff(driver.Account{SecretName: "hcloud"}, hetzner.Cloud().Account(machine)); diff != "" {
		t.Errorf("account (-want +got):\n%s", diff)
	}
}
