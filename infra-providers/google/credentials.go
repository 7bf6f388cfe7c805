// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package google

import (
	"context"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"

	"golang.org/x/oauth2"
	"golang.org/x/oauth2/google"
	"golang.org/x/oauth2/jwt"

	"drover.io/infra-providers/driver"
	"drover.io/runtime/egress"
	"drover.io/runtime/httplimit"
	"drover.io/runtime/keysize"
)

const (
	// scope is the least that the calls of the driver need.
	scope = "https://www.googleapis.com/auth/compute"
	// secretKey is the key of a Secret with the JSON key of a service account.
	secretKey = "serviceaccount.json"
	// tokenEndpoint is Google's.
	tokenEndpoint = "https://oauth2.googleapis.com/token" //nolint:gosec // it is no credential
	// maxToken is how many bytes the answer with a token may have.
	maxToken = 1 << 20
)

// googleTokenEndpoints are what keys name that Google issued. All of them are answered by tokenEndpoint.
var googleTokenEndpoints = []string{"", tokenEndpoint, "https://accounts.google.com/o/oauth2/token", "https://www.googleapis.com/oauth2/v4/token"}

// serviceAccountKey is what is read of a JSON key. Everything else in it is ignored: credentials of other types name URLs,
// files and programs, which would be those of the provider's host.
type serviceAccountKey struct {
	Type           string `json:"type"`
	ClientEmail    string `json:"client_email"`
	PrivateKeyID   string `json:"private_key_id"`
	PrivateKey     string `json:"private_key"`
	TokenURI       string `json:"token_uri"`
	UniverseDomain string `json:"universe_domain"`
}

// newTokenSource returns the source of the tokens of an account: the key in its Secret, or the provider's own identity. It
// makes no call.
func newTokenSource(options Options, account driver.Account, secret driver.Credentials) (oauth2.TokenSource, error) {
	if account.SecretName == "" {
		return &ownTokens{}, nil
	}
	key, err := parseKey(secret[secretKey])
	if err != nil {
		return nil, &driver.UnauthorizedError{Err: fmt.Errorf("the key %q of the Secret %q: %w", secretKey, account.SecretName, err)}
	}
	config := &jwt.Config{Email: key.ClientEmail, PrivateKey: []byte(key.PrivateKey), PrivateKeyID: key.PrivateKeyID, Scopes: []string{scope}, TokenURL: tokenEndpoint}
	if options.TokenEndpoint != "" {
		config.TokenURL = options.TokenEndpoint
	}
	client := &http.Client{Timeout: callTimeout, Transport: httplimit.Wrap(driver.NewTransport(callTimeout), maxToken), CheckRedirect: egress.NoRedirects}
	return config.TokenSource(context.WithValue(context.Background(), oauth2.HTTPClient, client)), nil
}

// parseKey reads the JSON key of a service account and refuses any other kind of credentials.
func parseKey(content []byte) (serviceAccountKey, error) {
	key := serviceAccountKey{}
	switch {
	case len(content) == 0:
		return key, errors.New("it is missing or empty")
	case json.Unmarshal(content, &key) != nil: // whose error would have parts of the key
		return key, errors.New("it is no JSON key of a service account")
	case key.Type != "service_account":
		return key, errors.New("only a key of the type service_account is accepted")
	case key.ClientEmail == "" || key.PrivateKey == "":
		return key, errors.New("client_email or private_key is missing")
	case !slices.Contains(googleTokenEndpoints, key.TokenURI):
		return key, errors.New("token_uri is not Google's")
	case key.UniverseDomain != "" && key.UniverseDomain != "googleapis.com":
		return key, errors.New("universe_domain is not googleapis.com")
	}
	return key, checkPrivateKey([]byte(key.PrivateKey))
}

// checkPrivateKey refuses what is no RSA key, and keys with which each signature takes seconds to hours.
func checkPrivateKey(content []byte) error {
	if err := keysize.CheckPrivateKey(content); err != nil {
		return err
	}
	block, _ := pem.Decode(content)
	if block == nil {
		return errNoKey
	}
	parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		parsed, err = x509.ParsePKCS1PrivateKey(block.Bytes)
	}
	key, ok := parsed.(*rsa.PrivateKey)
	if err != nil || !ok {
		return errNoKey
	}
	if key.N.BitLen() > keysize.MaxRSA {
		return fmt.Errorf("the private key has %d bits, and %d are the most", key.N.BitLen(), keysize.MaxRSA)
	}
	return nil
}

var errNoKey = errors.New("private_key is no RSA key in PEM")

// ownTokens are those of the provider's own identity. It is looked for at the first call and not before, because that may
// take a request to the metadata server.
type ownTokens struct {
	mu    sync.Mutex
	found oauth2.TokenSource
}

// Token implements oauth2.TokenSource.
func (o *ownTokens) Token() (*oauth2.Token, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.found == nil {
		client := &http.Client{Timeout: callTimeout, Transport: httplimit.Wrap(driver.NewTransport(callTimeout), maxToken)}
		found, err := google.FindDefaultCredentials(context.WithValue(context.Background(), oauth2.HTTPClient, client), scope)
		if err != nil {
			return nil, errNoOwnCredentials
		}
		o.found = found.TokenSource
	}
	return o.found.Token()
}

var errNoOwnCredentials = &driver.UnauthorizedError{Err: errors.New("the provider has no credentials of its own: set GOOGLE_APPLICATION_CREDENTIALS, or give it a workload identity")}

// authorized adds a token to each request. The SDK's own transport would wait for a token after the end of the request's
// context.
type authorized struct {
	tokens oauth2.TokenSource
	next   http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (a authorized) RoundTrip(request *http.Request) (*http.Response, error) {
	token, err := a.token(request.Context())
	if err != nil {
		return nil, err
	}
	sent := request.Clone(request.Context())
	token.SetAuthHeader(sent)
	return a.next.RoundTrip(sent)
}

// token returns the cached token, or waits for a new one until the context ends.
func (a authorized) token(ctx context.Context) (*oauth2.Token, error) {
	type answer struct {
		token *oauth2.Token
		err   error
	}
	answers := make(chan answer, 1)
	go func() {
		token, err := a.tokens.Token()
		answers <- answer{token, err}
	}()
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case got := <-answers:
		return got.token, toTokenError(got.err)
	}
}

// toTokenError converts an error of the token endpoint. What is not an answer has ports and addresses in its text.
func toTokenError(err error) error {
	if err == nil {
		return nil
	}
	if known, ok := errors.AsType[*driver.UnauthorizedError](err); ok {
		return known
	}
	refused, ok := errors.AsType[*oauth2.RetrieveError](err)
	switch {
	case !ok || refused.Response == nil:
		return errNoToken
	case refused.Response.StatusCode == http.StatusTooManyRequests:
		return &driver.RateLimitedError{RetryAfter: retryAfter(refused.Response.Header), Err: errTokenLimited}
	case refused.Response.StatusCode >= http.StatusInternalServerError:
		return fmt.Errorf("the token endpoint answered %d", refused.Response.StatusCode)
	default:
		body := struct{ Error string }{}
		_ = json.Unmarshal(refused.Body, &body)                                                                                             // without a code, the status has to do
		return &driver.UnauthorizedError{Err: fmt.Errorf("Google refuses the credentials: %d %s", refused.Response.StatusCode, body.Error)} //nolint:staticcheck // it is a name
	}
}

var (
	errNoToken      = errors.New("no token could be read from Google")
	errTokenLimited = errors.New("Google limits the requests for tokens") //nolint:staticcheck // it is a name
)
