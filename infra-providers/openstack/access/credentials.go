// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Package access returns the clients of the services in use for credentials: Nova, Neutron, Glance and, where it exists,
// Cinder. It owns the sources of credentials and the logins, and is independent of machines. The openstack driver calls
// it.
package access

import (
	"bytes"
	"cmp"
	"crypto/tls"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/config/clouds"
	yamlv3 "go.yaml.in/yaml/v3"
	"gopkg.in/yaml.v2"

	"drover.io/infra-providers/driver"
	"drover.io/runtime/keysize"
	"drover.io/runtime/yamllimit"
)

// Keys of a Secret besides the OS_* variables.
const (
	// CloudsKey holds a clouds.yaml.
	CloudsKey = "clouds.yaml"
	// CloudKey names one of its clouds; it is optional if there is only one.
	CloudKey = "cloud"
	// AuthorityKey holds the certificates of the authority that signed the services' own, in PEM.
	AuthorityKey = "cacert"
)

// login is the data of a login.
type login struct {
	auth     gophercloud.AuthOptions
	endpoint gophercloud.EndpointOpts
	tls      *tls.Config
}

// read reads a login from a Secret, or without one from the environment.
func read(account driver.Account, secret driver.Credentials) (login, error) {
	var found login
	var err error
	switch {
	case account.SecretName == "" && os.Getenv("OS_CLOUD") != "":
		found.auth, found.endpoint, found.tls, err = clouds.Parse()
	case account.SecretName == "":
		found, err = fromVariables(os.Getenv)
	case len(secret[CloudsKey]) > 0:
		found, err = fromClouds(secret)
	default:
		found, err = fromSecretVariables(secret)
	}
	if err != nil {
		return login{}, err
	}
	found.endpoint.Region = cmp.Or(account.Region, found.endpoint.Region)
	found.auth.AllowReauth = false // Session logs in again itself
	if authority := secret[AuthorityKey]; len(authority) > 0 {
		if found.tls == nil {
			found.tls = &tls.Config{MinVersion: tls.VersionTLS12}
		}
		if found.tls.RootCAs, err = keysize.NewCertPool(authority); err != nil {
			return login{}, fmt.Errorf("the key %q %w", AuthorityKey, err)
		}
	}
	return found, nil
}

// fromClouds reads a clouds.yaml. It comes from a tenant, so it must not name files of this host.
func fromClouds(secret driver.Credentials) (login, error) {
	name, chosen, err := chooseCloud(secret)
	if err != nil {
		return login{}, err
	}
	// The checked content is written again for the SDK, so that it reads nothing else.
	checked, err := yaml.Marshal(clouds.Clouds{Clouds: map[string]clouds.Cloud{name: chosen}})
	if err != nil {
		return login{}, fmt.Errorf("the cloud %q of the key %q cannot be used", name, CloudsKey)
	}
	var found login
	found.auth, found.endpoint, found.tls, err = clouds.Parse(
		clouds.WithCloudName(name),
		clouds.WithCloudsYAML(bytes.NewReader(checked)),
		clouds.WithSecureYAML(bytes.NewReader([]byte("{}"))),
		// The environment is the provider's, not the tenant's.
		clouds.WithRegion(chosen.RegionName),
		clouds.WithEndpointType(cmp.Or(chosen.EndpointType, chosen.Interface)),
	)
	if err == nil {
		found.tls = &tls.Config{MinVersion: tls.VersionTLS12, InsecureSkipVerify: found.tls.InsecureSkipVerify} //nolint:gosec // the tenant's own choice
	}
	return found, err
}

// chooseCloud returns the cloud of a clouds.yaml that a Secret names, reduced to the fields in use. It fails for one that
// needs files of this host.
func chooseCloud(secret driver.Credentials) (name string, chosen clouds.Cloud, err error) {
	if err := checkSize(secret[CloudsKey]); err != nil {
		return "", chosen, fmt.Errorf("the key %q is refused: %w", CloudsKey, err)
	}
	var named clouds.Clouds
	// It is the SDK's own parser, because another one may read the same text differently.
	if err := yaml.Unmarshal(secret[CloudsKey], &named); err != nil {
		return "", chosen, fmt.Errorf("the key %q is not YAML", CloudsKey)
	}
	name = string(secret[CloudKey])
	for only := range named.Clouds {
		if name == "" && len(named.Clouds) == 1 {
			name = only
		}
	}
	found, ok := named.Clouds[name]
	switch {
	case !ok && name == "":
		return "", chosen, fmt.Errorf("the key %q names several clouds or none: choose one with the key %q", CloudsKey, CloudKey)
	case !ok:
		return "", chosen, fmt.Errorf("the key %q has no cloud %q", CloudsKey, name)
	case found.AuthInfo == nil:
		return "", chosen, fmt.Errorf("the cloud %q has no auth", name)
	case !isSupportedAuth(string(found.AuthType)):
		return "", chosen, fmt.Errorf("the cloud %q has the %q %q, which the provider does not support: use a password or an application credential", name, "auth_type", found.AuthType)
	}
	for _, refers := range [][2]string{{"profile", found.Profile}, {"cloud", found.Cloud}} {
		if refers[1] != "" {
			return "", chosen, fmt.Errorf("the cloud %q refers by %q to a profile, which the provider does not have: set its auth_url", name, refers[0])
		}
	}
	for _, file := range [][2]string{{"cacert", found.CACertFile}, {"cert", found.ClientCertFile}, {"key", found.ClientKeyFile}} {
		if file[1] != "" {
			return "", chosen, namesFile(file[0])
		}
	}
	return name, clouds.Cloud{
		AuthInfo: found.AuthInfo, AuthType: found.AuthType, RegionName: found.RegionName,
		EndpointType: found.EndpointType, Interface: found.Interface, Verify: found.Verify,
	}, nil
}

var errAliases = errors.New("it has aliases of YAML (*name), which are not supported: write the values in full")

// checkSize refuses content whose parsing takes much memory, before it is parsed. Aliases are found by a parser that does
// not replace them by what they stand for: a password may look like one.
func checkSize(content []byte) error {
	if err := yamllimit.Check(content); err != nil || !yamllimit.MayHaveAliases(content) {
		return err
	}
	var document yamlv3.Node
	if err := yamlv3.Unmarshal(content, &document); err != nil || hasAlias(&document) {
		return errAliases
	}
	return nil
}

func hasAlias(node *yamlv3.Node) bool {
	return node.Kind == yamlv3.AliasNode || slices.ContainsFunc(node.Content, hasAlias)
}

// namesFile returns the error for a key that names a file of the provider's host. None is read for a Secret.
func namesFile(key string) error {
	return fmt.Errorf("%q names a file, and the provider reads none for a Secret: remove it, and put the certificate of the authority into the key %q", key, AuthorityKey)
}

// isSupportedAuth reports whether the SDK supports a type of authentication.
func isSupportedAuth(kind string) bool {
	switch clouds.AuthType(kind) {
	case "", clouds.AuthPassword, clouds.AuthToken, clouds.AuthV2Password, clouds.AuthV2Token, clouds.AuthV3Password, clouds.AuthV3Token, clouds.AuthV3ApplicationCredential:
		return true
	}
	return false
}

// fromSecretVariables reads the variables of an openrc file from a Secret. None of them may name a file of this host.
func fromSecretVariables(secret driver.Credentials) (login, error) {
	for _, key := range []string{"OS_CACERT", "OS_CERT", "OS_KEY"} {
		if len(secret[key]) > 0 {
			return login{}, namesFile(key)
		}
	}
	for _, key := range []string{"OS_CLOUD", "OS_CLIENT_CONFIG_FILE"} {
		if len(secret[key]) > 0 {
			return login{}, fmt.Errorf("%q refers to files of the provider, which reads none for a Secret: put the file into the key %q", key, CloudsKey)
		}
	}
	if kind := string(secret["OS_AUTH_TYPE"]); !isSupportedAuth(kind) {
		return login{}, fmt.Errorf("%q is %q, which the provider does not support: use a password or an application credential", "OS_AUTH_TYPE", kind)
	}
	return fromVariables(func(name string) string { return string(secret[name]) })
}

// fromVariables reads the variables of an openrc file.
func fromVariables(get func(string) string) (login, error) {
	id, named, secret := get("OS_APPLICATION_CREDENTIAL_ID"), get("OS_APPLICATION_CREDENTIAL_NAME"), get("OS_APPLICATION_CREDENTIAL_SECRET")
	auth := gophercloud.AuthOptions{
		IdentityEndpoint:            get("OS_AUTH_URL"),
		UserID:                      cmp.Or(get("OS_USER_ID"), get("OS_USERID")),
		Username:                    get("OS_USERNAME"),
		Password:                    get("OS_PASSWORD"),
		ApplicationCredentialID:     id,
		ApplicationCredentialName:   named,
		ApplicationCredentialSecret: secret,
	}
	if auth.UserID == "" && id == "" {
		auth.DomainID = cmp.Or(get("OS_USER_DOMAIN_ID"), get("OS_DOMAIN_ID"))
		if auth.DomainID == "" {
			auth.DomainName = cmp.Or(get("OS_USER_DOMAIN_NAME"), get("OS_DOMAIN_NAME"), "Default")
		}
	}
	switch {
	case auth.IdentityEndpoint == "":
		return login{}, fmt.Errorf("there is no OS_AUTH_URL and no %s", CloudsKey)
	case id == "" && auth.Username == "" && auth.UserID == "":
		return login{}, errors.New("there is neither OS_APPLICATION_CREDENTIAL_ID nor OS_USERNAME")
	case id+named != "" && secret == "":
		return login{}, errors.New("there is no OS_APPLICATION_CREDENTIAL_SECRET")
	case id+named == "" && auth.Password == "":
		return login{}, errors.New("there is no OS_PASSWORD")
	case id+named == "":
		auth.Scope = scope(get)
	}
	return login{auth: auth, endpoint: gophercloud.EndpointOpts{
		Region:       get("OS_REGION_NAME"),
		Availability: gophercloud.Availability(strings.TrimSuffix(cmp.Or(get("OS_INTERFACE"), "public"), "URL")),
	}}, nil
}

// scope returns the project of a user; an application credential has its own.
func scope(get func(string) string) *gophercloud.AuthScope {
	if id := cmp.Or(get("OS_PROJECT_ID"), get("OS_TENANT_ID")); id != "" {
		return &gophercloud.AuthScope{ProjectID: id}
	}
	wanted := &gophercloud.AuthScope{ProjectName: cmp.Or(get("OS_PROJECT_NAME"), get("OS_TENANT_NAME"))}
	if wanted.ProjectName == "" {
		return nil
	}
	if wanted.DomainID = cmp.Or(get("OS_PROJECT_DOMAIN_ID"), get("OS_DOMAIN_ID")); wanted.DomainID == "" {
		wanted.DomainName = cmp.Or(get("OS_PROJECT_DOMAIN_NAME"), get("OS_DOMAIN_NAME"), "Default")
	}
	return wanted
}
