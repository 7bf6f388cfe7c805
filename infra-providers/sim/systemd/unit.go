// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Package systemd parses service units as systemd does: drop-ins in order, line continuation, environment files and
// variables, up to the words of the command line. It starts nothing. The simulated kubelet reads its own command line with
// it.
package systemd

import (
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
)

// searchPath has the folders of units, by precedence.
var searchPath = []string{"/etc/systemd/system", "/run/systemd/system", "/usr/local/lib/systemd/system", "/usr/lib/systemd/system", "/lib/systemd/system"}

// Command returns the words of a service's last ExecStart, with variables replaced. There is one at least.
func Command(files map[string][]byte, service string) ([]string, error) {
	unit, err := load(files, service)
	if err != nil {
		return nil, err
	}
	last := ""
	if len(unit.start) > 0 {
		last = unit.start[len(unit.start)-1]
	}
	words, err := split(last)
	if err != nil {
		return nil, fmt.Errorf("unit %q: %w", service, err)
	}
	if words = expand(words, unit.environment); len(words) == 0 {
		return nil, fmt.Errorf("unit %q has no ExecStart", service)
	}
	return words, nil
}

type unit struct {
	start       []string
	environment map[string]string
}

func load(files map[string][]byte, service string) (*unit, error) {
	at := slices.IndexFunc(searchPath, func(dir string) bool { _, ok := files[path.Join(dir, service)]; return ok })
	if at < 0 {
		return nil, fmt.Errorf("there is no unit %s", path.Join(searchPath[0], service))
	}
	u := &unit{environment: map[string]string{}}
	sources := append([]string{path.Join(searchPath[at], service)}, dropIns(files, service)...)
	for _, name := range sources {
		if err := u.read(files, name); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
	}
	return u, nil
}

// dropIns lists the drop-ins in the order of their names; of two with one name that with precedence counts.
func dropIns(files map[string][]byte, service string) []string {
	chosen := map[string]string{}
	for _, dir := range slices.Backward(searchPath) {
		for name := range files {
			if path.Dir(name) == path.Join(dir, service+".d") && strings.HasSuffix(name, ".conf") {
				chosen[path.Base(name)] = name
			}
		}
	}
	var ordered []string
	for _, name := range chosen {
		ordered = append(ordered, name)
	}
	slices.SortFunc(ordered, func(a, b string) int { return strings.Compare(path.Base(a), path.Base(b)) })
	return ordered
}

func (u *unit) read(files map[string][]byte, name string) error {
	section := ""
	text := strings.ReplaceAll(string(files[name]), "\\\n", " ")
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' || line[0] == ';' {
			continue
		}
		if line[0] == '[' {
			section = line
			continue
		}
		key, value, ok := strings.Cut(line, "=")
		if !ok {
			return fmt.Errorf("line %q is not an assignment", line)
		}
		if section != "[Service]" {
			continue
		}
		if err := u.set(files, strings.TrimSpace(key), strings.TrimSpace(value)); err != nil {
			return err
		}
	}
	return nil
}

func (u *unit) set(files map[string][]byte, key, value string) error {
	switch key {
	case "ExecStart":
		if value == "" {
			u.start = nil
			return nil
		}
		u.start = append(u.start, strings.TrimLeft(value, "@-:+!"))
	case "Environment":
		return u.assign(value)
	case "EnvironmentFile":
		optional := strings.HasPrefix(value, "-")
		content, ok := files[strings.TrimPrefix(value, "-")]
		if !ok && !optional {
			return fmt.Errorf("EnvironmentFile %q does not exist", value)
		}
		for line := range strings.Lines(string(content)) {
			line = strings.TrimSpace(line)
			if name, text, ok := strings.Cut(line, "="); ok && line[0] != '#' {
				u.environment[strings.TrimSpace(name)] = strings.Trim(strings.TrimSpace(text), `"'`)
			}
		}
	}
	return nil
}

func (u *unit) assign(value string) error {
	words, err := split(value)
	if err != nil {
		return err
	}
	for _, word := range words {
		name, text, ok := strings.Cut(word, "=")
		if !ok {
			return fmt.Errorf("environment %q is not an assignment", word)
		}
		u.environment[name] = text
	}
	return nil
}

// split splits a line into words at white space outside quotes.
func split(line string) ([]string, error) {
	var words []string
	var word strings.Builder
	started, quote := false, rune(0)
	for _, r := range line {
		switch {
		case quote != 0 && r == quote:
			quote = 0
		case quote != 0:
			word.WriteRune(r)
		case r == '"' || r == '\'':
			quote, started = r, true
		case r == ' ' || r == '\t':
			if started {
				words = append(words, word.String())
			}
			word.Reset()
			started = false
		default:
			word.WriteRune(r)
			started = true
		}
	}
	if quote != 0 {
		return nil, fmt.Errorf("quote %q is not closed", quote)
	}
	if started {
		words = append(words, word.String())
	}
	return words, nil
}

// reference is where a variable is referred to inside a word. Values are not searched for more: they could refer to each other.
var reference = regexp.MustCompile(`\$\{[^{}]*\}`)

// expand replaces variables: a word that is $NAME becomes the words of its value, ${NAME} stays in its word.
func expand(words []string, environment map[string]string) []string {
	var out []string
	for _, word := range words {
		if name, ok := strings.CutPrefix(word, "$"); ok && name != "" && name[0] != '{' {
			out = append(out, strings.Fields(environment[name])...)
			continue
		}
		out = append(out, reference.ReplaceAllStringFunc(word, func(found string) string {
			if value, known := environment[found[len("${"):len(found)-1]]; known {
				return value
			}
			return found
		}))
	}
	return out
}
