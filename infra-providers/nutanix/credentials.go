// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package nutanix

import (
	"cmp"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"strings"
	"time"

	"drover.io/infra-providers/driver"
	"drover.io/infra-providers/nutanix/prism"
	"drover.io/runtime/httplimit"
	"drover.io/runtime/keysize"
)

// The keys of a Secret, and the environment of the provider.
const (
	endpointKey = "NUTANIX_ENDPOINT"
	portKey     = "NUTANIX_PORT"
	userKey     = "NUTANIX_USER"
	passwordKey = "NUTANIX_PASSWORD" //nolint:gosec // it is a name
	apiKeyKey   = "NUTANIX_API_KEY"  //nolint:gosec // it is a name
	bundleKey   = "NUTANIX_CA_BUNDLE"
	insecureKey = "NUTANIX_INSECURE"
)

// bundleFileVariable names a file with the CA bundle, for the provider's own login only.
const bundleFileVariable = "NUTANIX_CA_FILE"

// defaultPort is that of Prism Central.
const defaultPort = "9440"

// The limits of answers of a Prism Central that a Secret names, many times what a page of 100 virtual machines has.
const (
	maxAnswer   = 8 << 20
	maxElements = 200_000
)

// answering bounds the time until an answer begins.
const answering = 30 * time.Second

// login is how to reach a Prism Central.
type login struct {
	prism.Login
	tls *tls.Config
	// ofTenant is true where a Secret names the Prism Central.
	ofTenant bool
}

// newLogin returns the login of an account: that in its Secret, or the provider's own. Values of the two are never combined. It
// makes no call.
func newLogin(account driver.Account, secret driver.Credentials) (login, error) {
	where := "the environment of the provider"
	read := os.Getenv
	if account.SecretName != "" {
		where = fmt.Sprintf("the Secret %q", account.SecretName)
		read = func(key string) string { return string(secret[key]) }
	}
	found, err := readLogin(func(key string) string { return strings.TrimSpace(read(key)) }, account.SecretName != "")
	if err != nil {
		return login{}, &driver.UnauthorizedError{Err: fmt.Errorf("%s: %w", where, err)}
	}
	return found, nil
}

func readLogin(read func(key string) string, ofTenant bool) (login, error) {
	endpoint, err := parseEndpoint(read(endpointKey), read(portKey))
	if err != nil {
		return login{}, err
	}
	found := login{Login: prism.Login{Endpoint: endpoint, User: read(userKey), Password: read(passwordKey), APIKey: read(apiKeyKey)}, ofTenant: ofTenant}
	byUser := found.User != "" || found.Password != ""
	switch {
	case found.APIKey != "" && byUser:
		return login{}, fmt.Errorf("%s is set beside %s or %s: only one of the two may be", apiKeyKey, userKey, passwordKey)
	case strings.ContainsFunc(found.APIKey, func(r rune) bool { return r <= ' ' || r > '~' }):
		return login{}, errors.New(apiKeyKey + " has spaces or control characters")
	case found.APIKey == "" && (found.User == "" || found.Password == ""):
		return login{}, fmt.Errorf("set %s and %s, or %s", userKey, passwordKey, apiKeyKey)
	case strings.Contains(found.User, ":"):
		return login{}, errors.New(userKey + " has a colon, which no user may have")
	}
	found.tls, err = readTLS(read, ofTenant)
	return found, err
}

// parseEndpoint returns the URL of a host, or of a URL with https.
func parseEndpoint(endpoint, port string) (*url.URL, error) {
	if endpoint == "" {
		return nil, errors.New(endpointKey + " is missing: it is the host of Prism Central")
	}
	if !strings.Contains(endpoint, "://") {
		endpoint = "https://" + endpoint
	}
	parsed, err := url.Parse(endpoint)
	if err != nil || parsed.Scheme != "https" || parsed.Hostname() == "" || strings.Trim(parsed.Path, "/") != "" || parsed.User != nil || parsed.RawQuery != "" {
		return nil, errors.New(endpointKey + " must be a host, or a URL with https and without a path")
	}
	port = cmp.Or(parsed.Port(), port, defaultPort)
	target := &url.URL{Scheme: "https", Host: net.JoinHostPort(parsed.Hostname(), port)}
	if _, err := url.Parse(target.String()); err != nil {
		return nil, errors.New(portKey + " is no port")
	}
	return target, nil
}

// readTLS returns how the certificate of Prism Central is verified.
func readTLS(read func(key string) string, ofTenant bool) (*tls.Config, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	switch read(insecureKey) {
	case "", "false":
	case "true":
		config.InsecureSkipVerify = true // its author has said so
	default:
		return nil, errors.New(insecureKey + " must be true or false")
	}
	bundle := []byte(read(bundleKey))
	if file := read(bundleFileVariable); file != "" && !ofTenant {
		content, err := os.ReadFile(file) //nolint:gosec // the operator names it
		if err != nil {
			return nil, fmt.Errorf("%s: %w", bundleFileVariable, err)
		}
		bundle = content
	}
	if len(bundle) == 0 {
		return config, nil
	}
	pool, err := keysize.NewCertPool(bundle)
	if err != nil {
		return nil, fmt.Errorf("%s %w", bundleKey, err)
	}
	config.RootCAs = pool
	return config, nil
}

// server returns where Prism Central is.
func (l login) server(long *httplimit.Seats) driver.Server {
	return driver.Server{
		OfTenant: l.ofTenant, TLS: l.tls, Timeout: answering, LongAnswers: long, Limit: driver.LimitJSON(maxAnswer, maxElements),
	}
}
