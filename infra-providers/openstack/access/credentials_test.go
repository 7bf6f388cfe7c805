// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package access

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/gophercloud/gophercloud/v2"

	"drover.io/infra-providers/driver"
)

const twoClouds = `
clouds:
  one:
    auth: {auth_url: https://one/v3, application_credential_id: id, application_credential_secret: s}
    region_name: R1
  two:
    auth: {auth_url: https://two/v3, username: u, password: p, project_name: team, user_domain_name: D, project_domain_name: E}
    interface: internal
`

const oneCloud = `
clouds:
  only:
    auth: {auth_url: https://only/v3, application_credential_id: id, application_credential_secret: s}
`

var fromSecret = driver.Account{SecretName: "cloud"}

func TestCredentialsOfASecret(t *testing.T) {
	t.Parallel()
	byID := gophercloud.AuthOptions{IdentityEndpoint: "https://x/v3", ApplicationCredentialID: "id", ApplicationCredentialSecret: "s", AllowReauth: true}
	for name, test := range map[string]struct {
		account driver.Account
		secret  map[string]string
		auth    gophercloud.AuthOptions
		region  string
		reach   gophercloud.Availability
	}{
		"takes the cloud that is named": {
			fromSecret, map[string]string{CloudsKey: twoClouds, CloudKey: "one"},
			gophercloud.AuthOptions{IdentityEndpoint: "https://one/v3", ApplicationCredentialID: "id", ApplicationCredentialSecret: "s", AllowReauth: true}, "R1", "public",
		},
		"takes a user with project and domains": {
			fromSecret, map[string]string{CloudsKey: twoClouds, CloudKey: "two"},
			gophercloud.AuthOptions{
				IdentityEndpoint: "https://two/v3", Username: "u", Password: "p", DomainName: "D", TenantName: "team", AllowReauth: true,
				Scope: &gophercloud.AuthScope{ProjectName: "team", DomainName: "E"},
			}, "", "internal",
		},
		"takes the only cloud": {
			fromSecret, map[string]string{CloudsKey: oneCloud},
			gophercloud.AuthOptions{IdentityEndpoint: "https://only/v3", ApplicationCredentialID: "id", ApplicationCredentialSecret: "s", AllowReauth: true}, "", "public",
		},
		"prefers the machine's region": {
			driver.Account{SecretName: "cloud", Region: "R9"}, map[string]string{CloudsKey: twoClouds, CloudKey: "one"},
			gophercloud.AuthOptions{IdentityEndpoint: "https://one/v3", ApplicationCredentialID: "id", ApplicationCredentialSecret: "s", AllowReauth: true}, "R9", "public",
		},
		"takes an application credential": {
			fromSecret, map[string]string{"OS_AUTH_URL": "https://x/v3", "OS_APPLICATION_CREDENTIAL_ID": "id", "OS_APPLICATION_CREDENTIAL_SECRET": "s", "OS_REGION_NAME": "R", "OS_INTERFACE": "internalURL"},
			byID, "R", "internal",
		},
		"takes an openrc file": {
			fromSecret, map[string]string{"OS_AUTH_URL": "https://x/v3", "OS_USERNAME": "u", "OS_PASSWORD": "p", "OS_PROJECT_NAME": "team", "OS_USER_DOMAIN_NAME": "D", "OS_PROJECT_DOMAIN_ID": "e"},
			gophercloud.AuthOptions{IdentityEndpoint: "https://x/v3", Username: "u", Password: "p", DomainName: "D", AllowReauth: true, Scope: &gophercloud.AuthScope{ProjectName: "team", DomainID: "e"}}, "", "public",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := read(test.account, credentials(test.secret))
			if err != nil {
				t.Fatal(err)
			}
			want := gophercloud.EndpointOpts{Region: test.region, Availability: test.reach}
			if diff := cmp.Diff(test.auth, got.auth) + cmp.Diff(want, got.endpoint); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestCredentialsThatCannotWork(t *testing.T) {
	t.Parallel()
	for name, secret := range map[string]map[string]string{
		"an empty Secret":           {},
		"no secret":                 {"OS_AUTH_URL": "https://x", "OS_APPLICATION_CREDENTIAL_ID": "id"},
		"no password":               {"OS_AUTH_URL": "https://x", "OS_USERNAME": "u"},
		"nobody":                    {"OS_AUTH_URL": "https://x"},
		"several clouds to choose":  {CloudsKey: twoClouds},
		"a cloud that is not there": {CloudsKey: twoClouds, CloudKey: "three"},
		"no YAML":                   {CloudsKey: "{"},
		"a cloud without auth":      {CloudsKey: "clouds: {x: {region_name: R}}"},
		"a file of the provider":    {CloudsKey: "clouds: {x: {auth: {auth_url: https://x}, cacert: /etc/passwd}}"},
		"a profile":                 {CloudsKey: "clouds: {x: {auth: {auth_url: https://x}, profile: vendor}}"},
		"no certificate":            {CloudsKey: oneCloud, AuthorityKey: "nonsense"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if _, err := Open(fromSecret, credentials(secret), nil); !driver.IsUnauthorized(err) {
				t.Errorf("got %v", err)
			}
		})
	}
}

// TestCredentialsOfTheEnvironment cannot run in parallel: the environment is the process's.
func TestCredentialsOfTheEnvironment(t *testing.T) {
	for _, name := range []string{"OS_CLOUD", "OS_AUTH_URL", "OS_USERNAME", "OS_PASSWORD", "OS_PROJECT_NAME", "OS_REGION_NAME", "OS_INTERFACE"} {
		t.Setenv(name, "")
	}
	if _, err := Open(driver.Account{}, nil, nil); !driver.IsUnauthorized(err) {
		t.Errorf("an empty environment: %v", err)
	}
	t.Setenv("OS_AUTH_URL", "https://env/v3")
	t.Setenv("OS_USERNAME", "u")
	t.Setenv("OS_PASSWORD", "p")
	if got, err := read(driver.Account{}, nil); err != nil || got.auth.IdentityEndpoint != "https://env/v3" {
		t.Errorf("got %+v, %v", got.auth, err)
	}
	file := filepath.Join(t.TempDir(), "clouds.yaml")
	if err := os.WriteFile(file, []byte(twoClouds), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("OS_CLIENT_CONFIG_FILE", file)
	t.Setenv("OS_CLOUD", "one")
	if got, err := read(driver.Account{}, nil); err != nil || got.auth.IdentityEndpoint != "https://one/v3" {
		t.Errorf("got %+v, %v", got.auth, err)
	}
	t.Setenv("OS_REGION_NAME", "env")
	t.Setenv("OS_INTERFACE", "admin")
	got, err := read(fromSecret, credentials(map[string]string{CloudsKey: oneCloud}))
	if err != nil || got.endpoint.Region != "" || got.endpoint.Availability != gophercloud.AvailabilityPublic {
		t.Errorf("the environment reached into a Secret: %+v, %v", got.endpoint, err)
	}
	// A Secret never mixes with the environment.
	if _, err := read(fromSecret, driver.Credentials{}); err == nil {
		t.Error("an empty Secret took the environment's credentials")
	}
}

func credentials(plain map[string]string) driver.Credentials {
	all := driver.Credentials{}
	for key, value := range plain {
		all[key] = []byte(value)
	}
	return all
}
