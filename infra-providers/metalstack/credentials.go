// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package metalstack

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/go-openapi/runtime"
	"github.com/go-openapi/strfmt"
	"github.com/metal-stack/security"

	"drover.io/infra-providers/driver"
	"drover.io/runtime/httplimit"
	"drover.io/runtime/keysize"
)

// The keys of a Secret, and the variables of the provider's environment.
const (
	urlKey       = "METAL_API_URL"
	hmacKey      = "METAL_API_HMAC"
	authTypeKey  = "METAL_API_HMAC_AUTH_TYPE"
	tokenKey     = "METAL_API_TOKEN"
	authorityKey = "METAL_API_CA"
	// tokenFileVariable names a file with a token that is replaced before it expires, such as the token of a service account
	// that the OIDC provider of the API trusts. It is read for each call. A Secret cannot name one.
	tokenFileVariable = "METAL_API_TOKEN_FILE"
)

// defaultAuthType is the group that the metal-api gives to the holder of an HMAC: it may allocate and free machines.
const defaultAuthType = "Metal-Edit"

const (
	// maxToken is how many bytes a token or an HMAC may have.
	maxToken = 16 << 10
	// maxNamedAnswer and maxNamedElements are what one answer may have of a server that a Secret names: the machines of a project
	// are one list, each with its user data.
	maxNamedAnswer   = 32 << 20
	maxNamedElements = 400_000
)

// login is where the API is and how a call proves who makes it.
type login struct {
	url   *url.URL
	sign  runtime.ClientAuthInfoWriter
	trust *x509.CertPool
	// named is true for a server that a Secret names.
	named bool
}

// readLogin reads a login from a Secret, or without one from the environment. It makes no call. All of it is of one source.
func readLogin(account driver.Account, secret driver.Credentials) (login, error) {
	get, where := os.Getenv, "the environment"
	if account.SecretName != "" {
		get, where = func(key string) string { return string(secret[key]) }, fmt.Sprintf("Secret %q", account.SecretName)
	}
	trimmed := func(key string) string { return strings.TrimSpace(get(key)) }
	tokenFile := ""
	if account.SecretName == "" {
		tokenFile = trimmed(tokenFileVariable)
	}
	found, err := toLogin(trimmed, tokenFile)
	if err != nil {
		return login{}, &driver.UnauthorizedError{Err: fmt.Errorf("reading credentials of %s: %w", where, err)}
	}
	found.named = account.SecretName != ""
	return found, nil
}

func toLogin(get func(string) string, tokenFile string) (found login, err error) {
	if found.url, err = parseURL(get(urlKey)); err != nil {
		return found, err
	}
	if found.sign, err = signer(get(hmacKey), get(authTypeKey), get(tokenKey), tokenFile); err != nil {
		return found, err
	}
	if authority := []byte(get(authorityKey)); len(authority) > 0 {
		if found.trust, err = keysize.NewCertPool(authority); err != nil {
			return found, fmt.Errorf("%s %w", authorityKey, err)
		}
	}
	return found, nil
}

// parseURL accepts the URL of the API, such as https://api.example.org/metal.
func parseURL(text string) (*url.URL, error) {
	if text == "" {
		return nil, fmt.Errorf("%s is not set", urlKey)
	}
	parsed, err := url.Parse(text)
	if err != nil || parsed.Host == "" || parsed.Scheme != "https" && parsed.Scheme != "http" || parsed.User != nil || parsed.RawQuery != "" || parsed.Fragment != "" {
		return nil, fmt.Errorf("%s must be a URL such as https://api.example.org/metal, without a user and a query", urlKey)
	}
	return parsed, nil
}

// signer returns what proves who makes a call: exactly one of an HMAC, a token and a file with a token.
func signer(hmac, authType, token, tokenFile string) (runtime.ClientAuthInfoWriter, error) {
	set := 0
	for _, value := range []string{hmac, token, tokenFile} {
		if value != "" {
			set++
		}
	}
	if set != 1 {
		return nil, fmt.Errorf("exactly one of %s and %s must be set", hmacKey, tokenKey)
	}
	switch {
	case hmac != "":
		authType = cmp.Or(authType, defaultAuthType)
		if !isHeader(authType) || len(hmac) > maxToken {
			return nil, fmt.Errorf("%s and %s are no HMAC", hmacKey, authTypeKey)
		}
		auth := security.NewHMACAuth(authType, []byte(hmac))
		return runtime.ClientAuthInfoWriterFunc(func(request runtime.ClientRequest, _ strfmt.Registry) error {
			auth.AddAuthToClientRequest(request, time.Now())
			return nil
		}), nil
	case token != "":
		if !isHeader(token) {
			return nil, fmt.Errorf("%s is no token", tokenKey)
		}
		return bearer(func() (string, error) { return token, nil }), nil
	default:
		return bearer(func() (string, error) { return readToken(tokenFile) }), nil
	}
}

func bearer(token func() (string, error)) runtime.ClientAuthInfoWriter {
	return runtime.ClientAuthInfoWriterFunc(func(request runtime.ClientRequest, _ strfmt.Registry) error {
		current, err := token()
		if err != nil {
			return &driver.UnauthorizedError{Err: err}
		}
		security.AddUserTokenToClientRequest(request, current)
		return nil
	})
}

func readToken(file string) (string, error) {
	content, err := os.ReadFile(file) //nolint:gosec // the operator names it
	if err != nil {
		return "", fmt.Errorf("%s: %w", tokenFileVariable, errors.Unwrap(err))
	}
	token := strings.TrimSpace(string(content))
	if !isHeader(token) {
		return "", fmt.Errorf("%s: it holds no token", tokenFileVariable)
	}
	return token, nil
}

// isHeader reports whether a text may be a part of a header.
func isHeader(text string) bool {
	return text != "" && len(text) <= maxToken && !strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r > '~' })
}

// server returns where the API is. It may answer as late as the longest call may take; the others are bounded by the time-outs of
// their parameters.
func (l login) server(long *httplimit.Seats) driver.Server {
	server := driver.Server{
		OfTenant: l.named, Timeout: allocateTimeout, LongAnswers: long, Limit: driver.LimitJSON(maxNamedAnswer, maxNamedElements),
	}
	if l.trust != nil {
		server.TLS = &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: l.trust}
	}
	return server
}
