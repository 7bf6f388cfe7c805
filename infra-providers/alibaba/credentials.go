// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package alibaba

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync"
	"time"

	"drover.io/infra-providers/driver"
	"drover.io/runtime/egress"
	"drover.io/runtime/httplimit"
)

// The keys of a Secret, and the environment of the provider, as the clients of Alibaba Cloud have it.
const (
	idVariable     = "ALIBABA_CLOUD_ACCESS_KEY_ID"
	secretVariable = "ALIBABA_CLOUD_ACCESS_KEY_SECRET" //nolint:gosec // it is a name
	tokenVariable  = "ALIBABA_CLOUD_SECURITY_TOKEN"    //nolint:gosec // it is a name
)

// The environment of a ServiceAccount with a RAM role, and what names or disables the RAM role of the host.
const (
	roleVariable         = "ALIBABA_CLOUD_ROLE_ARN"
	oidcProviderVariable = "ALIBABA_CLOUD_OIDC_PROVIDER_ARN"
	oidcTokenVariable    = "ALIBABA_CLOUD_OIDC_TOKEN_FILE" //nolint:gosec // it is a name
	sessionVariable      = "ALIBABA_CLOUD_ROLE_SESSION_NAME"
	hostRoleVariable     = "ALIBABA_CLOUD_ECS_METADATA"
	hostDisabledVariable = "ALIBABA_CLOUD_ECS_METADATA_DISABLED"
)

const (
	// defaultMetadata is the address of the metadata service.
	defaultMetadata = "http://100.100.100.200"
	// metadataTimeout bounds one request to it.
	metadataTimeout = 5 * time.Second
	// maxKey is how many bytes the answer with an access key may have.
	maxKey = 64 << 10
	// keyMargin is how long before its end an access key is replaced.
	keyMargin = 5 * time.Minute
)

// accessKey is what requests are signed with. A temporary one has a token.
type accessKey struct{ id, secret, token string }

// keySource has the access keys of an account.
type keySource interface {
	// key returns an access key, and may request one. It ends with the context.
	key(ctx context.Context) (accessKey, error)
	// refused reports that the API does not accept a key any more.
	refused(key accessKey)
}

// newKeys returns the access keys of an account: that in its Secret, or the provider's own. It makes no call.
func newKeys(c *client, account driver.Account, secret driver.Credentials) (keySource, error) {
	if account.SecretName == "" {
		request, err := ownKeys(c)
		if err != nil {
			return nil, err
		}
		return &refreshedKeys{request: request, account: c.accountOf, requesting: make(chan struct{}, 1)}, nil
	}
	key := accessKey{strings.TrimSpace(string(secret[idVariable])), strings.TrimSpace(string(secret[secretVariable])), strings.TrimSpace(string(secret[tokenVariable]))}
	for name, value := range map[string]string{idVariable: key.id, secretVariable: key.secret} {
		if value == "" {
			return nil, &driver.UnauthorizedError{Err: fmt.Errorf("the key %q of the Secret %q is missing or empty", name, account.SecretName)}
		}
	}
	for name, value := range map[string]string{idVariable: key.id, tokenVariable: key.token} {
		if !isHeader(value) {
			return nil, &driver.UnauthorizedError{Err: fmt.Errorf("the key %q of the Secret %q has spaces or control characters", name, account.SecretName)}
		}
	}
	return staticKey(key), nil
}

// isHeader reports whether a text can be a part of a header.
func isHeader(text string) bool {
	return !strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r > '~' })
}

// requestKey requests an access key, which is valid until a time; zero for ever.
type requestKey func(ctx context.Context) (key accessKey, expires time.Time, err error)

// ownKeys returns the access keys of the provider itself: of its environment, of the RAM role of its ServiceAccount, or of that
// of the instance that it runs on.
func ownKeys(c *client) (requestKey, error) {
	key := accessKey{os.Getenv(idVariable), os.Getenv(secretVariable), os.Getenv(tokenVariable)}
	switch {
	case key.id != "" && key.secret != "" && isHeader(key.id) && isHeader(key.token):
		return func(context.Context) (accessKey, time.Time, error) { return key, time.Time{}, nil }, nil
	case key.id != "" || key.secret != "":
		return nil, &driver.UnauthorizedError{Err: errors.New("set both " + idVariable + " and " + secretVariable + ", without spaces")}
	case os.Getenv(roleVariable) != "" && os.Getenv(oidcTokenVariable) != "":
		return c.serviceAccountKey, nil
	case strings.EqualFold(os.Getenv(hostDisabledVariable), "true"):
		return nil, errNoOwnKeys
	default:
		return c.hostKey, nil
	}
}

var errNoOwnKeys = &driver.UnauthorizedError{Err: errors.New(
	"the provider has no credentials of its own: set " + idVariable + " and " + secretVariable + ", give its ServiceAccount a RAM role, or the instance that it runs on")}

// serviceAccountKey requests an access key for the token of the provider's ServiceAccount.
func (c *client) serviceAccountKey(ctx context.Context) (accessKey, time.Time, error) {
	token, err := os.ReadFile(os.Getenv(oidcTokenVariable)) //nolint:gosec // the operator names it
	if err != nil {
		return accessKey{}, time.Time{}, &driver.UnauthorizedError{Err: fmt.Errorf("%s: %w", oidcTokenVariable, err)}
	}
	answer := struct{ Credentials keyAnswer }{}
	err = c.callSTS(ctx, accessKey{}, "AssumeRoleWithOIDC", map[string]string{
		"OIDCProviderArn": os.Getenv(oidcProviderVariable), "RoleArn": os.Getenv(roleVariable),
		"OIDCToken": strings.TrimSpace(string(token)), "RoleSessionName": cmp.Or(os.Getenv(sessionVariable), "drover"),
	}, &answer)
	if err != nil {
		return accessKey{}, time.Time{}, fmt.Errorf("assuming the RAM role of the ServiceAccount: %w", err)
	}
	return answer.Credentials.key()
}

// keyAnswer is an access key as the services write it.
type keyAnswer struct {
	AccessKeyID     string `json:"AccessKeyId"`
	AccessKeySecret string `json:"AccessKeySecret"`
	SecurityToken   string `json:"SecurityToken"`
	Expiration      string `json:"Expiration"`
}

func (a keyAnswer) key() (accessKey, time.Time, error) {
	expires, err := time.Parse(time.RFC3339, a.Expiration)
	if err != nil || a.AccessKeyID == "" || a.AccessKeySecret == "" || a.SecurityToken == "" || !isHeader(a.AccessKeyID) || !isHeader(a.SecurityToken) {
		return accessKey{}, time.Time{}, errors.New("the answer has no access key")
	}
	return accessKey{a.AccessKeyID, a.AccessKeySecret, a.SecurityToken}, expires, nil
}

// hostKey requests an access key of the RAM role of the instance that the provider runs on.
func (c *client) hostKey(ctx context.Context) (accessKey, time.Time, error) {
	token, err := c.metadata(ctx, http.MethodPut, "/latest/api/token", "")
	if err != nil {
		return accessKey{}, time.Time{}, err
	}
	const roles = "/latest/meta-data/ram/security-credentials/"
	role := os.Getenv(hostRoleVariable)
	if role == "" {
		if role, err = c.metadata(ctx, http.MethodGet, roles, token); err != nil {
			return accessKey{}, time.Time{}, err
		}
	}
	content, err := c.metadata(ctx, http.MethodGet, roles+url.PathEscape(strings.TrimSpace(role)), token)
	if err != nil {
		return accessKey{}, time.Time{}, err
	}
	answer := keyAnswer{}
	if json.Unmarshal([]byte(content), &answer) != nil { // whose error would have parts of the key
		return accessKey{}, time.Time{}, errNoOwnKeys
	}
	return answer.key()
}

// metadata reads from the metadata service. Without a token it requests one.
func (c *client) metadata(ctx context.Context, method, path, token string) (string, error) {
	request, err := http.NewRequestWithContext(ctx, method, cmp.Or(c.options.MetadataEndpoint, defaultMetadata)+path, nil)
	if err != nil {
		return "", errNoOwnKeys
	}
	if token == "" {
		request.Header.Set("X-Aliyun-Ecs-Metadata-Token-Ttl-Seconds", "60")
	} else {
		request.Header.Set("X-Aliyun-Ecs-Metadata-Token", token)
	}
	direct := &http.Client{Timeout: metadataTimeout, Transport: httplimit.Wrap(&http.Transport{DisableKeepAlives: true}, maxKey), CheckRedirect: egress.NoRedirects}
	answer, err := direct.Do(request)
	if err != nil {
		if ctx.Err() != nil {
			return "", ctx.Err()
		}
		return "", errNoOwnKeys
	}
	defer answer.Body.Close() //nolint:errcheck // it is read to its end
	content, err := io.ReadAll(answer.Body)
	switch {
	case answer.StatusCode >= http.StatusInternalServerError || answer.StatusCode == http.StatusTooManyRequests:
		return "", fmt.Errorf("the metadata service answered %d", answer.StatusCode)
	case answer.StatusCode != http.StatusOK || err != nil || len(content) == 0:
		return "", errNoOwnKeys
	}
	return string(content), nil
}

// staticKey is a key that its user replaces.
type staticKey accessKey

func (s staticKey) key(context.Context) (accessKey, error) { return accessKey(s), nil }
func (s staticKey) refused(accessKey)                      {}

// refreshedKeys requests a key when the one before is about to end. Each new key is used only once it was found to be of the
// same account as the first one: in another account no instance would be found, and each would count as missing.
type refreshedKeys struct {
	request requestKey
	// account returns the account of a key.
	account func(context.Context, accessKey) (string, error)
	// requesting has room for one caller that requests a key.
	requesting chan struct{}

	mu      sync.Mutex
	current accessKey
	until   time.Time
	known   string
	// moved is the error of every call after a key was found to be of another account.
	moved error
}

// key implements keySource.
func (r *refreshedKeys) key(ctx context.Context) (accessKey, error) {
	if key, ok, err := r.cached(); ok || err != nil {
		return key, err
	}
	select {
	case <-ctx.Done():
		return accessKey{}, ctx.Err()
	case r.requesting <- struct{}{}:
		defer func() { <-r.requesting }()
	}
	if key, ok, err := r.cached(); ok || err != nil { // of the caller before
		return key, err
	}
	key, expires, err := r.request(ctx)
	if err != nil {
		return accessKey{}, err
	}
	account, err := r.account(ctx, key)
	if err != nil {
		return accessKey{}, err
	}
	return r.set(key, expires, account)
}

// set uses a key from now on, unless it is of another account.
func (r *refreshedKeys) set(key accessKey, expires time.Time, account string) (accessKey, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.known != "" && r.known != account {
		r.moved = &driver.AccountMismatchError{Pinned: r.known, Connected: account, Source: "a refresh of the provider's own credentials"}
		return accessKey{}, r.moved
	}
	r.known, r.current, r.until = account, key, time.Time{}
	if !expires.IsZero() {
		r.until = time.Now().Add(max(time.Until(expires)-keyMargin, time.Second))
	}
	return key, nil
}

func (r *refreshedKeys) cached() (accessKey, bool, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.current, r.moved == nil && r.current.id != "" && (r.until.IsZero() || time.Now().Before(r.until)), r.moved
}

// refused implements keySource.
func (r *refreshedKeys) refused(key accessKey) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.current == key {
		r.current = accessKey{}
	}
}
