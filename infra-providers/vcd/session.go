// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package vcd

import (
	"context"
	"encoding/xml"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/vmware/go-vcloud-director/v3/types/v56"

	"drover.io/infra-providers/driver"
)

// apiVersions are the versions of the API that the driver knows, the newest first: those of Cloud Director 10.6 to 10.4.
var apiVersions = []string{"39.1", "39.0", "38.1", "38.0", "37.3", "37.2", "37.1", "37.0"}

const (
	// tokenHeader has the token of a session that was created by a password.
	tokenHeader = "X-Vmware-Vcloud-Access-Token"
	// versionTime is how long a session is kept although a request was refused that names the version of the API.
	versionTime = time.Minute
	// maxToken is how many bytes a token may have that is kept: the server of a Secret chooses it. Those of VMware have one or two KiB.
	maxToken = 16 << 10
	// tokenMargin is how long before its end a token is replaced.
	tokenMargin = time.Minute
	// refusalPause is how long credentials that were refused are not tried again: an organization may lock a user after some
	// attempts.
	refusalPause = time.Minute
)

// token authorizes requests.
type token struct {
	text, version string
	// until is when it ends; zero if that is not known.
	until time.Time
	// begun is when it was created, and fresh is true for the request that caused the login.
	begun time.Time
	fresh bool
}

// session logs in at the first use and again when the token has ended. It is safe for concurrent use.
type session struct {
	client *client
	now    func() time.Time
	// loggingIn is held during a login; unlike a mutex it can be awaited together with a context.
	loggingIn chan struct{}

	mu      sync.Mutex
	current token
	// refused is the error of a login that was refused, until when it is returned without another.
	refused error
	retry   time.Time
}

// token returns the token that is valid now, after a login if there is none.
func (s *session) token(ctx context.Context) (token, error) {
	if err := ctx.Err(); err != nil {
		return token{}, err
	}
	if known, err := s.known(); known.text != "" || err != nil {
		return known, err
	}
	select {
	case <-ctx.Done():
		return token{}, ctx.Err()
	case s.loggingIn <- struct{}{}:
		defer func() { <-s.loggingIn }()
	}
	if known, err := s.known(); known.text != "" || err != nil { // of the caller before
		return known, err
	}
	created, err := s.client.logIn(ctx, s.now)
	s.mu.Lock()
	defer s.mu.Unlock()
	if driver.IsUnauthorized(err) {
		err = driver.Brief(err)
		s.refused, s.retry = err, s.now().Add(refusalPause)
	}
	if err != nil {
		return token{}, err
	}
	created.begun = s.now()
	s.current, s.refused = created, nil
	created.fresh = true
	return created, nil
}

func (s *session) known() (token, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.refused != nil && s.now().Before(s.retry) {
		return token{}, s.refused
	}
	if !s.current.until.IsZero() && !s.now().Before(s.current.until) {
		s.current = token{}
	}
	return s.current, nil
}

// forget drops a token that was not accepted.
func (s *session) forget(used token) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.current.text == used.text {
		s.current = token{}
	}
}

// logIn returns a token: one for an API token of the user, or that of a session that the password creates.
func (c *client) logIn(ctx context.Context, now func() time.Time) (token, error) {
	version, err := c.findVersion(ctx)
	if err != nil {
		return token{}, err
	}
	if c.login.apiToken != "" {
		return c.exchange(ctx, version, now)
	}
	header, err := c.send(ctx, request{method: http.MethodPost, path: "/cloudapi/1.0.0/sessions", json: true, version: version, authorize: func(header http.Header) {
		sent := http.Request{Header: header}
		sent.SetBasicAuth(c.login.username+"@"+c.login.organization, c.login.password)
	}}, nil)
	if err != nil {
		return token{}, fmt.Errorf("logging in: %w", toLoginError(err))
	}
	text := header.Get(tokenHeader)
	if err := checkToken(text); err != nil {
		return token{}, fmt.Errorf("logging in: %w", err)
	}
	return token{text: strings.Clone(text), version: version}, nil
}

// exchange returns a token for the API token of the user.
func (c *client) exchange(ctx context.Context, version string, now func() time.Time) (token, error) {
	form := url.Values{"grant_type": {"refresh_token"}, "refresh_token": {c.login.apiToken}}
	var answer types.ApiTokenRefresh
	_, err := c.send(ctx, request{
		method: http.MethodPost, path: "/oauth/tenant/" + c.login.organization + "/token", json: true, version: version,
		contentType: "application/x-www-form-urlencoded", body: []byte(form.Encode()),
	}, &answer)
	if err != nil {
		return token{}, fmt.Errorf("logging in by API token: %w", toLoginError(err))
	}
	if err := checkToken(answer.AccessToken); err != nil {
		return token{}, fmt.Errorf("logging in by API token: %w", err)
	}
	created := token{text: answer.AccessToken, version: version}
	if answer.ExpiresIn > 0 {
		created.until = now().Add(max(time.Duration(answer.ExpiresIn)*time.Second-tokenMargin, time.Second))
	}
	return created, nil
}

// checkToken checks that there is a token, and that it may be kept.
func checkToken(text string) error {
	switch {
	case text == "":
		return errIncomplete
	case len(text) > maxToken:
		return errTooMany
	}
	return nil
}

// findVersion returns the newest version of the API that the server and the driver have in common.
func (c *client) findVersion(ctx context.Context) (string, error) {
	var supported struct {
		XMLName     xml.Name `xml:"SupportedVersions"`
		VersionInfo []struct{ Version string }
	}
	if _, err := c.send(ctx, request{method: http.MethodGet, path: "/api/versions"}, &supported); err != nil {
		return "", fmt.Errorf("reading the versions of the API: %w", toError(err))
	}
	for _, version := range apiVersions {
		if slices.ContainsFunc(supported.VersionInfo, func(info struct{ Version string }) bool { return info.Version == version }) {
			return version, nil
		}
	}
	return "", fmt.Errorf("the server has none of the versions of the API that this provider has: %s", strings.Join(apiVersions, ", "))
}
