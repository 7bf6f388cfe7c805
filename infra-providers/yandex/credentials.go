// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package yandex

import (
	"cmp"
	"context"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/yandex-cloud/go-genproto/yandex/cloud/iam/v1"
	"google.golang.org/grpc"

	"drover.io/infra-providers/driver"
	"drover.io/runtime/egress"
	"drover.io/runtime/httplimit"
	"drover.io/runtime/keysize"
)

// The keys of a Secret.
const (
	keyKey   = "key.json"
	tokenKey = "iam-token"
)

// The environment of the provider, as the clients of Yandex Cloud have it.
const (
	keyFileVariable  = "YC_SERVICE_ACCOUNT_KEY_FILE"
	tokenVariable    = "YC_IAM_TOKEN"
	metadataVariable = "YC_METADATA_ADDR"
)

// defaultMetadata is the address of the metadata service.
const defaultMetadata = "169.254.169.254"

// authorizedKey is what is read of an authorized key of a service account, as `yc iam key create` writes it.
type authorizedKey struct {
	ID               string `json:"id"`
	ServiceAccountID string `json:"service_account_id"`
	PrivateKey       string `json:"private_key"`
}

// newTokens returns the tokens of an account: the key or token in its Secret, or the provider's own identity. It makes no call.
func newTokens(options Options, account driver.Account, secret driver.Credentials) (func(iam *grpc.ClientConn) tokenSource, error) {
	if account.SecretName == "" {
		return ownCredentials(options)
	}
	key, token := secret[keyKey], strings.TrimSpace(string(secret[tokenKey]))
	refuse := func(name string, err error) error {
		return &driver.UnauthorizedError{Err: fmt.Errorf("the key %q of the Secret %q: %w", name, account.SecretName, err)}
	}
	switch {
	case len(key) > 0 && token != "":
		return nil, refuse(tokenKey, fmt.Errorf("only one of it and %q may be set", keyKey))
	case token != "":
		tokens, err := fixedToken(token)
		if err != nil {
			return nil, refuse(tokenKey, err)
		}
		return tokens, nil
	default:
		tokens, err := keyTokens(options, key)
		if err != nil {
			return nil, refuse(keyKey, err)
		}
		return tokens, nil
	}
}

// ownCredentials returns the tokens of the provider itself: of its environment, or of the service account of the instance that
// it runs on.
func ownCredentials(options Options) (func(*grpc.ClientConn) tokenSource, error) {
	if file := os.Getenv(keyFileVariable); file != "" {
		content, err := os.ReadFile(file) //nolint:gosec // the operator names it
		if err != nil {
			return nil, &driver.UnauthorizedError{Err: fmt.Errorf("%s: %w", keyFileVariable, err)}
		}
		tokens, err := keyTokens(options, content)
		if err != nil {
			return nil, &driver.UnauthorizedError{Err: fmt.Errorf("%s: %w", keyFileVariable, err)}
		}
		return tokens, nil
	}
	if token := strings.TrimSpace(os.Getenv(tokenVariable)); token != "" {
		tokens, err := fixedToken(token)
		if err != nil {
			return nil, &driver.UnauthorizedError{Err: fmt.Errorf("%s: %w", tokenVariable, err)}
		}
		return tokens, nil
	}
	return func(*grpc.ClientConn) tokenSource { return newCachedTokens(metadataToken) }, nil
}

// fixedToken refuses what no header can have.
func fixedToken(token string) (func(*grpc.ClientConn) tokenSource, error) {
	if len(token) > maxToken || strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return nil, errors.New("it is no IAM token")
	}
	return func(*grpc.ClientConn) tokenSource { return staticToken(token) }, nil
}

// keyTokens returns tokens that are requested with an authorized key.
func keyTokens(options Options, content []byte) (func(*grpc.ClientConn) tokenSource, error) {
	key, private, err := parseKey(content)
	if err != nil {
		return nil, err
	}
	audience := "https://iam." + cmp.Or(options.Domain, defaultDomain) + "/iam/v1/tokens"
	return func(connection *grpc.ClientConn) tokenSource {
		client := iam.NewIamTokenServiceClient(connection)
		return newCachedTokens(func(ctx context.Context) (string, time.Time, error) {
			signed, err := sign(key, private, audience)
			if err != nil {
				return "", time.Time{}, err
			}
			answer, err := client.Create(ctx, &iam.CreateIamTokenRequest{Identity: &iam.CreateIamTokenRequest_Jwt{Jwt: signed}})
			if err != nil {
				return "", time.Time{}, toTokenError(err)
			}
			return answer.IamToken, answer.ExpiresAt.AsTime(), nil
		})
	}, nil
}

// sign returns the token with which a service account proves that it has the key.
func sign(key authorizedKey, private *rsa.PrivateKey, audience string) (string, error) {
	now := time.Now()
	token := jwt.NewWithClaims(jwt.SigningMethodPS256, jwt.RegisteredClaims{
		Issuer: key.ServiceAccountID, Audience: jwt.ClaimStrings{audience}, IssuedAt: jwt.NewNumericDate(now), ExpiresAt: jwt.NewNumericDate(now.Add(time.Hour)),
	})
	token.Header["kid"] = key.ID
	signed, err := token.SignedString(private)
	if err != nil {
		return "", fmt.Errorf("signing with the authorized key: %w", err)
	}
	return signed, nil
}

// parseKey reads an authorized key.
func parseKey(content []byte) (key authorizedKey, private *rsa.PrivateKey, err error) {
	switch {
	case len(content) == 0:
		return key, nil, errors.New("it is missing or empty")
	case json.Unmarshal(content, &key) != nil: // whose error would have parts of the key
		return key, nil, errors.New("it is no authorized key in JSON, as yc iam key create writes it")
	case key.ID == "" || key.ServiceAccountID == "" || key.PrivateKey == "":
		return key, nil, errors.New("id, service_account_id or private_key is missing")
	}
	private, err = parsePrivateKey([]byte(key.PrivateKey))
	return key, private, err
}

// parsePrivateKey refuses what is no RSA key, and keys with which each signature takes seconds to hours. A line of text may
// precede the PEM block.
func parsePrivateKey(content []byte) (*rsa.PrivateKey, error) {
	block, _ := pem.Decode(content)
	if block == nil {
		return nil, errNoKey
	}
	if err := keysize.CheckPrivateKey(pem.EncodeToMemory(block)); err != nil {
		return nil, err
	}
	parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		parsed, err = x509.ParsePKCS1PrivateKey(block.Bytes)
	}
	key, ok := parsed.(*rsa.PrivateKey)
	if err != nil || !ok {
		return nil, errNoKey
	}
	if key.N.BitLen() > keysize.MaxRSA {
		return nil, fmt.Errorf("the private key has %d bits, and %d are the most", key.N.BitLen(), keysize.MaxRSA)
	}
	return key, nil
}

var errNoKey = errors.New("private_key is no RSA key in PEM")

// metadataToken reads a token of the service account of the instance that the provider runs on.
func metadataToken(ctx context.Context) (string, time.Time, error) {
	url := "http://" + cmp.Or(os.Getenv(metadataVariable), defaultMetadata) + "/computeMetadata/v1/instance/service-accounts/default/token"
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return "", time.Time{}, errNoOwnCredentials
	}
	request.Header.Set("Metadata-Flavor", "Google")
	client := &http.Client{Timeout: callTimeout, Transport: httplimit.Wrap(&http.Transport{DisableKeepAlives: true}, maxToken), CheckRedirect: egress.NoRedirects}
	answer, err := client.Do(request)
	if err != nil {
		if ctx.Err() != nil {
			return "", time.Time{}, ctx.Err()
		}
		return "", time.Time{}, errNoOwnCredentials
	}
	defer answer.Body.Close() //nolint:errcheck // it is read to its end
	if answer.StatusCode >= http.StatusInternalServerError || answer.StatusCode == http.StatusTooManyRequests {
		return "", time.Time{}, fmt.Errorf("the metadata service answered %d", answer.StatusCode)
	}
	body := struct {
		AccessToken string `json:"access_token"`
		ExpiresIn   int64  `json:"expires_in"`
	}{}
	if answer.StatusCode != http.StatusOK || json.NewDecoder(answer.Body).Decode(&body) != nil || body.AccessToken == "" {
		return "", time.Time{}, errNoOwnCredentials
	}
	return body.AccessToken, time.Now().Add(time.Duration(body.ExpiresIn) * time.Second), nil
}

var errNoOwnCredentials = &driver.UnauthorizedError{Err: errors.New(
	"the provider has no credentials of its own: set " + keyFileVariable + " or " + tokenVariable + ", or give the instance that it runs on a service account")}
