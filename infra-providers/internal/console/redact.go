// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package console

import (
	"regexp"
	"slices"
	"strings"
)

// removed stands for what is secret.
const removed = "[removed]"

// everyWord in the list of a bootstrap provider stands for all words.
const everyWord = "*"

// credentials are what looks like a secret, whatever a bootstrap provider says: bootstrap tokens, tokens of the web, passwords
// in URLs and assignments, and keys in PEM.
var credentials = []*regexp.Regexp{
	regexp.MustCompile(`\b[a-z0-9]{6}\.[a-z0-9]{16}\b`),
	regexp.MustCompile(`\beyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_.-]+`),
	regexp.MustCompile(`://[^/@\s]+@`),
	regexp.MustCompile(`(?i)\b(?:basic|bearer) +[A-Za-z0-9._~+/=-]{8,}`),
	regexp.MustCompile(`(?i)\b[a-z0-9_-]*(?:passwd|password|secret|token|api_?key|access_?key|private_?key|activationkey)["']? *[=:] *["']?[^\s"',;]+`),
	regexp.MustCompile(`-----BEGIN [A-Z ]*PRIVATE KEY-----.*`),
	regexp.MustCompile(`\b(?:AKIA|ASIA)[A-Z0-9]{16}\b`),
	regexp.MustCompile(`^[A-Za-z0-9+/]{60,}={0,2}$`),
}

// redactor removes secrets from the lines of a console.
type redactor struct {
	// words are the secrets that the bootstrap provider names, the longest first.
	words []string
	// all is true where nothing may be quoted.
	all bool
}

// newRedactor reads the words of a bootstrap provider, one in each line.
func newRedactor(list []byte) redactor {
	words := strings.FieldsFunc(string(list), func(c rune) bool { return c == '\n' })
	slices.SortFunc(words, func(a, b string) int { return len(b) - len(a) })
	return redactor{words: words, all: slices.Contains(words, everyWord)}
}

// lines returns lines without secrets; none where nothing may be quoted.
func (r redactor) lines(lines []string) []string {
	if r.all {
		return nil
	}
	safe := make([]string, 0, len(lines))
	for _, line := range lines {
		for _, word := range r.words {
			line = strings.ReplaceAll(line, word, removed)
		}
		for _, pattern := range credentials {
			line = pattern.ReplaceAllStringFunc(line, redactMatch)
		}
		safe = append(safe, truncate(line))
	}
	return safe
}

// redactMatch keeps the name of an assignment, and the punctuation of a URL.
func redactMatch(match string) string {
	switch {
	case strings.HasPrefix(match, "://"):
		return "://" + removed + "@"
	case strings.ContainsAny(match, "=:") && !strings.HasPrefix(match, "-----"):
		if i := strings.IndexAny(match, "=:"); i > 0 && i < len(match)-2 {
			return match[:i+1] + removed
		}
	}
	return removed
}
