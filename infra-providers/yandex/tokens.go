// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package yandex

import (
	"context"
	"sync"
	"time"
)

const (
	// maxToken is how many bytes a token, and the answer with one, may have.
	maxToken = 64 << 10
	// tokenMargin is how long before its end a token is replaced.
	tokenMargin = 5 * time.Minute
	// tokenLifetime is how long a token is used at most. IAM tokens live for twelve hours, and Yandex Cloud recommends a new one
	// every hour.
	tokenLifetime = time.Hour
)

// tokenSource has the tokens of an account.
type tokenSource interface {
	// token returns a token, and may request one. It ends with the context.
	token(ctx context.Context) (string, error)
	// refused reports that the API does not accept a token any more.
	refused(token string)
}

// staticToken is a token that its user replaces.
type staticToken string

func (s staticToken) token(context.Context) (string, error) { return string(s), nil }
func (s staticToken) refused(string)                        {}

// cachedTokens requests a token when the one before is about to end.
type cachedTokens struct {
	request func(ctx context.Context) (token string, expires time.Time, err error)
	// requesting has room for one caller that requests a token.
	requesting chan struct{}

	mu      sync.Mutex
	current string
	until   time.Time
}

func newCachedTokens(request func(context.Context) (string, time.Time, error)) *cachedTokens {
	return &cachedTokens{request: request, requesting: make(chan struct{}, 1)}
}

// token implements tokenSource.
func (c *cachedTokens) token(ctx context.Context) (string, error) {
	if token, ok := c.cached(); ok {
		return token, nil
	}
	select {
	case <-ctx.Done():
		return "", ctx.Err()
	case c.requesting <- struct{}{}:
		defer func() { <-c.requesting }()
	}
	if token, ok := c.cached(); ok { // of the caller before
		return token, nil
	}
	token, expires, err := c.request(ctx)
	if err != nil {
		return "", err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.current, c.until = token, time.Now().Add(min(tokenLifetime, max(time.Until(expires)-tokenMargin, time.Second)))
	return token, nil
}

func (c *cachedTokens) cached() (string, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.current, c.current != "" && time.Now().Before(c.until)
}

// refused implements tokenSource.
func (c *cachedTokens) refused(token string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.current == token {
		c.current = ""
	}
}
