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

// maxWords is how many bytes a list of words may have. A longer one stands for all words.
const maxWords = 64 << 10

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
	// words are the secrets that the bootstrap provider names, each once.
	words []string
	// all is true where nothing may be quoted.
	all bool
}

// newRedactor reads the words of a bootstrap provider, one in each line. Whoever may create Secrets may write such a list.
func newRedactor(list []byte) redactor {
	if len(list) > maxWords {
		return redactor{all: true}
	}
	words := strings.FieldsFunc(string(list), func(c rune) bool { return c == '\n' })
	slices.Sort(words)
	return redactor{words: slices.Compact(words), all: slices.Contains(words, everyWord)}
}

// lines returns lines without secrets; none where nothing may be quoted.
func (r redactor) lines(lines []string) []string {
	if r.all {
		return nil
	}
	safe := make([]string, 0, len(lines))
	for _, line := range lines {
		line = r.withoutWords(line)
		for _, pattern := range credentials {
			line = pattern.ReplaceAllStringFunc(line, redactMatch)
		}
		safe = append(safe, truncate(line))
	}
	return safe
}

// withoutWords removes what any of the words covers. All are searched for in the line as it is: in what stands for a word
// that was removed, the next one would be found again, and a list could make the line longer without end.
func (r redactor) withoutWords(line string) string {
	covered := make([]bool, len(line))
	for _, word := range r.words {
		end := 0 // of the occurrence before, which may overlap
		for at := strings.Index(line, word); at >= 0; {
			for i := max(at, end); i < at+len(word); i++ {
				covered[i] = true
			}
			end = at + len(word)
			next := strings.Index(line[at+1:], word)
			if next < 0 {
				break
			}
			at += 1 + next
		}
	}
	var left strings.Builder
	for i := range len(line) {
		switch {
		case !covered[i]:
			left.WriteByte(line[i])
		case i == 0 || !covered[i-1]:
			left.WriteString(removed)
		}
	}
	return left.String()
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
