// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Package token keeps bootstrap tokens: one per Machine, a Secret bootstrap-token-<id> in the kube-system
// namespace of the workload cluster, and what its holder may do there. Tokens are random, short-lived and
// marked with the UID of their Machine. Package bootstrapconfig, the only caller, decides when to create, renew or
// delete one.
package token

import (
	"crypto/rand"
	"fmt"
	"io"
	"regexp"
)

// Token is a bootstrap token.
type Token struct {
	ID, Secret string
}

const alphabet = "abcdefghijklmnopqrstuvwxyz0123456789"

var form = regexp.MustCompile(`^([a-z0-9]{6})\.([a-z0-9]{16})$`)

// New makes a random token.
func New() (Token, error) { return read(rand.Reader) }

func read(random io.Reader) (Token, error) {
	word := make([]byte, 0, 22)
	buffer := make([]byte, 32)
	for len(word) < cap(word) {
		if _, err := io.ReadFull(random, buffer); err != nil {
			return Token{}, fmt.Errorf("reading random bytes: %w", err)
		}
		for _, b := range buffer {
			// 252 is the largest multiple of 36 below 256: dropping the rest keeps all letters equally likely.
			if b < 252 && len(word) < cap(word) {
				word = append(word, alphabet[int(b)%len(alphabet)])
			}
		}
	}
	return Token{ID: string(word[:6]), Secret: string(word[6:])}, nil
}

// Parse reads a token of the form id.secret.
func Parse(s string) (Token, bool) {
	match := form.FindStringSubmatch(s)
	if match == nil {
		return Token{}, false
	}
	return Token{ID: match[1], Secret: match[2]}, true
}

// Value is the token as a host presents it. It is a secret: it belongs into bootstrap data and nowhere else.
func (t Token) Value() string { return t.ID + "." + t.Secret }

// String hides the token, so that it cannot get into a log by accident.
func (t Token) String() string { return "<bootstrap token>" }

// GoString hides the token.
func (t Token) GoString() string { return t.String() }
