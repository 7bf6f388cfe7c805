// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package vcd

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"regexp"
	"strings"

	"drover.io/infra-providers/driver"
	"drover.io/runtime/keysize"
)

// login is how to log in.
type login struct {
	// server is the URL of Cloud Director, without a path.
	server       *url.URL
	organization string
	// apiToken is a token of a user; without it the user logs in by password.
	apiToken, username, password string
	tls                          *tls.Config
	ofSecret                     bool
}

// maxCredential is how many bytes each part of the credentials may have.
const maxCredential = 64 << 10

// organizationPattern is what the name of an organization may be, which is a part of paths.
var organizationPattern = regexp.MustCompile(`^[0-9A-Za-z_.-]{1,128}$`)

// variables are the environment variables of the parts of the credentials, by the key in a Secret.
var variables = map[string]string{
	"url": "VCD_URL", "organization": "VCD_ORG", "apiToken": "VCD_API_TOKEN", "username": "VCD_USER", "password": "VCD_PASSWORD", "ca.crt": "VCD_CA_CERT",
}

// readLogin reads the credentials of a Secret, or of the environment without one. The two are never combined. It fails with
// UnauthorizedError.
func readLogin(account driver.Account, secret driver.Credentials, getenv func(string) string) (login, error) {
	source := fmt.Sprintf("Secret %q", account.SecretName)
	read := func(key string) string { return strings.TrimSpace(string(secret[key])) }
	if account.SecretName == "" {
		source = "the environment"
		read = func(key string) string { return strings.TrimSpace(getenv(variables[key])) }
	}
	found, err := parseLogin(read)
	found.ofSecret = account.SecretName != ""
	if err != nil {
		return found, &driver.UnauthorizedError{Err: fmt.Errorf("reading credentials of %s: %w", source, err)}
	}
	return found, nil
}

func parseLogin(read func(key string) string) (found login, err error) {
	for key := range variables {
		if len(read(key)) > maxCredential {
			return found, fmt.Errorf("%s has more than %d KiB", key, maxCredential>>10)
		}
	}
	found.organization, found.apiToken, found.username, found.password = read("organization"), read("apiToken"), read("username"), read("password")
	switch {
	case !organizationPattern.MatchString(found.organization):
		return found, errors.New("organization must be the name of the organization")
	case found.apiToken == "" && (found.username == "" || found.password == ""):
		return found, errors.New("neither apiToken nor username and password are set")
	case found.apiToken != "" && cmp.Or(found.username, found.password) != "":
		return found, errors.New("both apiToken and username or password are set: keep one of them")
	}
	if found.server, err = parseServer(read("url")); err != nil {
		return found, err
	}
	found.tls, err = trusted(read("ca.crt"))
	return found, err
}

// parseServer reads the URL of Cloud Director. The credentials are sent over TLS only, except to this host.
func parseServer(text string) (*url.URL, error) {
	found, err := url.Parse(text)
	if err != nil || found.Host == "" || found.User != nil || found.RawQuery != "" || found.Fragment != "" {
		return nil, errors.New("url must be that of Cloud Director, such as https://vcd.example.com")
	}
	if path := strings.Trim(found.Path, "/"); path != "" && path != "api" {
		return nil, errors.New("url must have no path: the name of the organization is in organization")
	}
	found.Path = ""
	if found.Scheme != "https" && (found.Scheme != "http" || !isLoopback(found.Hostname())) {
		return nil, errors.New("url must begin with https: the credentials would be sent in the clear")
	}
	return found, nil
}

func isLoopback(host string) bool {
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.IsLoopback()
}

// trusted returns the TLS configuration that trusts the certificates in PEM beside those of the host; nil without any.
func trusted(certificates string) (*tls.Config, error) {
	if certificates == "" {
		return nil, nil
	}
	if err := keysize.CheckCertificates([]byte(certificates)); err != nil {
		return nil, fmt.Errorf("ca.crt is refused: %w", err)
	}
	pool, err := x509.SystemCertPool()
	if err != nil {
		pool = x509.NewCertPool()
	}
	if !pool.AppendCertsFromPEM([]byte(certificates)) {
		return nil, errors.New("ca.crt has no certificate in PEM; a file is not read")
	}
	return &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: pool}, nil
}
