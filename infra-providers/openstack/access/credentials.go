// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Package access turns credentials into the clients of the services that the driver asks: Nova, Neutron,
// Glance and, where there is one, Cinder. It owns where credentials come from and when a login happens,
// and knows nothing of machines.
package access

import (
	"bytes"
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/config/clouds"
	"sigs.k8s.io/yaml"

	"drover.io/infra-providers/driver"
)

// Keys of a Secret besides the OS_* variables.
const (
	// CloudsKey holds a clouds.yaml.
	CloudsKey = "clouds.yaml"
	// CloudKey names one of its clouds; it may be left out where there is only one.
	CloudKey = "cloud"
	// AuthorityKey holds the certificates of the authority that signed the services' own, in PEM.
	AuthorityKey = "cacert"
)

// login is all that is needed to log in.
type login struct {
	auth     gophercloud.AuthOptions
	endpoint gophercloud.EndpointOpts
	tls      *tls.Config
}

// read finds out how to log in: from a Secret, or without one from the environment.
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
		found, err = fromVariables(func(name string) string { return string(secret[name]) })
	}
	if err != nil {
		return login{}, err
	}
	found.endpoint.Region = cmp.Or(account.Region, found.endpoint.Region)
	found.auth.AllowReauth = true
	if authority := secret[AuthorityKey]; len(authority) > 0 {
		if found.tls == nil {
			found.tls = &tls.Config{MinVersion: tls.VersionTLS12}
		}
		found.tls.RootCAs = x509.NewCertPool()
		if !found.tls.RootCAs.AppendCertsFromPEM(authority) {
			return login{}, fmt.Errorf("the key %q holds no certificate in PEM", AuthorityKey)
		}
	}
	return found, nil
}

// fromClouds reads a clouds.yaml. It is handed over by a tenant, so it may not name files of this host.
func fromClouds(secret driver.Credentials) (login, error) {
	var named clouds.Clouds
	if err := yaml.Unmarshal(secret[CloudsKey], &named); err != nil {
		return login{}, fmt.Errorf("the key %q is not YAML", CloudsKey)
	}
	name := string(secret[CloudKey])
	for only := range named.Clouds {
		if name == "" && len(named.Clouds) == 1 {
			name = only
		}
	}
	chosen, ok := named.Clouds[name]
	switch {
	case !ok && name == "":
		return login{}, fmt.Errorf("the key %q names several clouds or none: choose one with the key %q", CloudsKey, CloudKey)
	case !ok:
		return login{}, fmt.Errorf("the key %q has no cloud %q", CloudsKey, name)
	case chosen.AuthInfo == nil:
		return login{}, fmt.Errorf("the cloud %q has no auth", name)
	case chosen.CACertFile != "" || chosen.ClientCertFile != "" || chosen.ClientKeyFile != "":
		return login{}, fmt.Errorf("the cloud %q names certificate files, which the provider does not have: put the authority's certificate into the key %q", name, AuthorityKey)
	case chosen.Profile != "" || chosen.Cloud != "":
		return login{}, fmt.Errorf("the cloud %q refers to a profile, which the provider does not have: write out its auth_url", name)
	}
	var found login
	var err error
	found.auth, found.endpoint, found.tls, err = clouds.Parse(
		clouds.WithCloudName(name),
		clouds.WithCloudsYAML(bytes.NewReader(secret[CloudsKey])),
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

// fromVariables reads what an openrc file sets.
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

// scope is the project of a user; an application credential brings its own.
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
