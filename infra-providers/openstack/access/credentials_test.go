// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package access

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/gophercloud/gophercloud/v2"

	"drover.io/infra-providers/driver"
	"drover.io/runtime/keysize/keysizetest"
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
	byID := gophercloud.AuthOptions{IdentityEndpoint: "https://x/v3", ApplicationCredentialID: "id", ApplicationCredentialSecret: "s"}
	for name, test := range map[string]struct {
		account driver.Account
		secret  map[string]string
		auth    gophercloud.AuthOptions
		region  string
		reach   gophercloud.Availability
	}{
		"uses the cloud of the key": {
			fromSecret, map[string]string{CloudsKey: twoClouds, CloudKey: "one"},
			gophercloud.AuthOptions{IdentityEndpoint: "https://one/v3", ApplicationCredentialID: "id", ApplicationCredentialSecret: "s"}, "R1", "public",
		},
		"reads a user with project and domains": {
			fromSecret, map[string]string{CloudsKey: twoClouds, CloudKey: "two"},
			gophercloud.AuthOptions{
				IdentityEndpoint: "https://two/v3", Username: "u", Password: "p", DomainName: "D", TenantName: "team",
				Scope: &gophercloud.AuthScope{ProjectName: "team", DomainName: "E"},
			}, "", "internal",
		},
		"uses the only cloud": {
			fromSecret, map[string]string{CloudsKey: oneCloud},
			gophercloud.AuthOptions{IdentityEndpoint: "https://only/v3", ApplicationCredentialID: "id", ApplicationCredentialSecret: "s"}, "", "public",
		},
		"prefers the machine's region": {
			driver.Account{SecretName: "cloud", Region: "R9"}, map[string]string{CloudsKey: twoClouds, CloudKey: "one"},
			gophercloud.AuthOptions{IdentityEndpoint: "https://one/v3", ApplicationCredentialID: "id", ApplicationCredentialSecret: "s"}, "R9", "public",
		},
		"reads an application credential": {
			fromSecret, map[string]string{"OS_AUTH_URL": "https://x/v3", "OS_APPLICATION_CREDENTIAL_ID": "id", "OS_APPLICATION_CREDENTIAL_SECRET": "s", "OS_REGION_NAME": "R", "OS_INTERFACE": "internalURL"},
			byID, "R", "internal",
		},
		"reads the variables of an openrc file": {
			fromSecret, map[string]string{"OS_AUTH_URL": "https://x/v3", "OS_USERNAME": "u", "OS_PASSWORD": "p", "OS_PROJECT_NAME": "team", "OS_USER_DOMAIN_NAME": "D", "OS_PROJECT_DOMAIN_ID": "e"},
			gophercloud.AuthOptions{IdentityEndpoint: "https://x/v3", Username: "u", Password: "p", DomainName: "D", Scope: &gophercloud.AuthScope{ProjectName: "team", DomainID: "e"}}, "", "public",
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

func TestInvalidCredentials(t *testing.T) {
	t.Parallel()
	for name, secret := range map[string]map[string]string{
		"an empty Secret":          {},
		"no secret":                {"OS_AUTH_URL": "https://x", "OS_APPLICATION_CREDENTIAL_ID": "id"},
		"no password":              {"OS_AUTH_URL": "https://x", "OS_USERNAME": "u"},
		"no user":                  {"OS_AUTH_URL": "https://x"},
		"several clouds to choose": {CloudsKey: twoClouds},
		"an unknown cloud":         {CloudsKey: twoClouds, CloudKey: "three"},
		"no YAML":                  {CloudsKey: "{"},
		"a cloud without auth":     {CloudsKey: "clouds: {x: {region_name: R}}"},
		"a file of the provider":   {CloudsKey: "clouds: {x: {auth: {auth_url: https://x}, cacert: /etc/passwd}}"},
		"a profile":                {CloudsKey: "clouds: {x: {auth: {auth_url: https://x}, profile: vendor}}"},
		"no certificate":           {CloudsKey: oneCloud, AuthorityKey: "nonsense"},
		"a large key":              {CloudsKey: oneCloud, AuthorityKey: string(keysizetest.Certificate(t, 16384))},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if _, err := Open(fromSecret, credentials(secret), nil, nil); !driver.IsUnauthorized(err) {
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
	if _, err := Open(driver.Account{}, nil, nil, nil); !driver.IsUnauthorized(err) {
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

// TestSecretCannotNameFilesOfTheHost has a Secret name files of the host in every possible way. The error has the key;
// content that another parser reads differently is used only as the check read it.
func TestSecretCannotNameFilesOfTheHost(t *testing.T) {
	folder := t.TempDir()
	t.Setenv("HOME", folder)
	t.Setenv("XDG_CONFIG_HOME", folder)
	if err := os.Mkdir(filepath.Join(folder, "openstack"), 0o700); err != nil {
		t.Fatal(err)
	}
	public := "public-clouds: {vendor: {auth: {username: host, password: host}}}"
	if err := os.WriteFile(filepath.Join(folder, "openstack", "clouds-public.yaml"), []byte(public), 0o600); err != nil {
		t.Fatal(err)
	}
	const auth = "auth: {auth_url: https://x/v3, username: u, password: p, project_name: team}"
	for name, test := range map[string]struct {
		secret map[string]string
		key    string
	}{
		"an authority":          {map[string]string{CloudsKey: "clouds: {x: {" + auth + ", cacert: /etc/passwd}}"}, "cacert"},
		"a certificate":         {map[string]string{CloudsKey: "clouds: {x: {" + auth + ", cert: /etc/passwd}}"}, "cert"},
		"a key":                 {map[string]string{CloudsKey: "clouds: {x: {" + auth + ", key: /etc/passwd}}"}, "key"},
		"a profile":             {map[string]string{CloudsKey: "clouds: {x: {" + auth + ", profile: vendor}}"}, "profile"},
		"a cloud of a vendor":   {map[string]string{CloudsKey: "clouds: {x: {" + auth + ", cloud: vendor}}"}, "cloud"},
		"a merged authority":    {map[string]string{CloudsKey: "a: &a {cacert: /etc/passwd}\nclouds: {x: {<<: *a, " + auth + "}}"}, "clouds.yaml"},
		"an unknown login":      {map[string]string{CloudsKey: "clouds: {x: {auth_type: v3oidcaccesstoken, " + auth + "}}"}, "auth_type"},
		"a variable for a file": {map[string]string{"OS_AUTH_URL": "https://x/v3", "OS_USERNAME": "u", "OS_PASSWORD": "p", "OS_CACERT": "/etc/passwd"}, "OS_CACERT"},
		"a client certificate":  {map[string]string{"OS_AUTH_URL": "https://x/v3", "OS_USERNAME": "u", "OS_PASSWORD": "p", "OS_CERT": "/etc/passwd"}, "OS_CERT"},
		"a client key":          {map[string]string{"OS_AUTH_URL": "https://x/v3", "OS_USERNAME": "u", "OS_PASSWORD": "p", "OS_KEY": "/etc/passwd"}, "OS_KEY"},
		"a cloud of the host":   {map[string]string{"OS_CLOUD": "vendor"}, "OS_CLOUD"},
		"a file of clouds":      {map[string]string{"OS_CLIENT_CONFIG_FILE": "/etc/passwd"}, "OS_CLIENT_CONFIG_FILE"},
		"a login of a variable": {map[string]string{"OS_AUTH_URL": "https://x/v3", "OS_USERNAME": "u", "OS_PASSWORD": "p", "OS_AUTH_TYPE": "v3oidcaccesstoken"}, "OS_AUTH_TYPE"},
	} {
		_, err := Open(fromSecret, credentials(test.secret), nil, nil)
		if !driver.IsUnauthorized(err) || !strings.Contains(err.Error(), fmt.Sprintf("%q", test.key)) {
			t.Errorf("%s: got %v, want an UnauthorizedError that names %q", name, err, test.key)
		}
	}
	for name, text := range map[string]string{
		// U+017F is another s, and U+212A another k, where letters are compared whatever their case.
		"another s":   "clouds: {x: {" + auth + ", cacert: /nonexistent}}\ncloud\u017f: {x: {" + auth + "}}\n",
		"another k":   "clouds: {x: {" + auth + ", key: /nonexistent, cert: /nonexistent, CERT: '', \u212aey: ''}}\n",
		"capitals":    "clouds: {x: {" + auth + ", profile: vendor, PROFILE: ''}}\n",
		"two entries": "clouds: {x: {" + auth + ", cacert: /nonexistent}, x: {" + auth + "}}\n",
	} {
		got, err := read(fromSecret, credentials(map[string]string{CloudsKey: text}))
		if err != nil && (strings.Contains(err.Error(), "no such file") || strings.Contains(err.Error(), "tls")) {
			t.Errorf("%s: a file of the host was looked for: %v", name, err)
		}
		if err == nil && got.auth.Username != "u" {
			t.Errorf("%s: the host's credentials are used: %q", name, got.auth.Username)
		}
	}
}

// TestPasswordIsNotConverted: a password of digits stays text.
func TestPasswordIsNotConverted(t *testing.T) {
	t.Parallel()
	for _, password := range []string{"0123", "1e10", "yes", "12345678901234567890123", "'no: {'", "0x1F"} {
		text := "clouds: {x: {auth: {auth_url: https://x/v3, username: u, password: " + password + ", project_name: team}}}"
		got, err := read(fromSecret, credentials(map[string]string{CloudsKey: text}))
		if want := strings.Trim(password, "'"); err != nil || got.auth.Password != want {
			t.Errorf("password %s: got %q and %v", password, got.auth.Password, err)
		}
	}
}
