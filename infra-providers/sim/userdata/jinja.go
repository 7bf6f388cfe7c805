// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package userdata

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
)

// variables returns cloud-init's variables of templates: ds.meta_data.*, v1.*, and the keys of v1 without prefix.
func variables(meta Metadata) map[string]string {
	standard := map[string]string{
		"instance_id":       meta.InstanceID,
		"local_hostname":    meta.LocalHostname,
		"availability_zone": meta.Zone,
		"region":            meta.Zone,
		"cloud_name":        "drover-sim",
		"platform":          "drover-sim",
	}
	known := map[string]string{
		"ds.meta_data.provider_id":   meta.ProviderID,
		"ds.meta_data.hostname":      meta.LocalHostname,
		"ds.meta_data.instance_type": meta.InstanceType,
		"ds.meta_data.local_ipv4":    meta.LocalIPv4,
	}
	for key, value := range standard {
		known[key] = value
		known["v1."+key] = value
		known["ds.meta_data."+key] = value
	}
	return known
}

var (
	tag        = regexp.MustCompile(`(?s)\{\{.*?\}\}|\{%.*?%\}|\{#.*?#\}`)
	subscript  = regexp.MustCompile(`\[\s*['"]([\w-]+)['"]\s*\]`)
	expression = regexp.MustCompile(`^([\w.-]+)(?:\s*\|\s*(?:default|d)\(\s*['"]([^'"]*)['"]\s*(?:,\s*[Tt]rue\s*)?\))?$`)
	literal    = regexp.MustCompile(`^(?:'([^']*)'|"([^"]*)")$`)
	begins     = regexp.MustCompile(`^\{%-?\s*raw\s*-?%\}$`)
	ends       = regexp.MustCompile(`\{%-?\s*endraw\s*-?%\}`)
)

// render implements the part of Jinja that instance metadata needs: comments, raw blocks, string literals, variables by
// dots or subscripts, and the filter default. Anything else is an error. Like cloud-init it writes a marker for a variable
// that does not exist; those are also returned.
func render(text string, known map[string]string) (out string, missing []string, err error) {
	var b strings.Builder
	for {
		at := tag.FindStringIndex(text)
		if at == nil {
			return b.String() + text, missing, nil
		}
		b.WriteString(text[:at[0]])
		token := text[at[0]:at[1]]
		text = text[at[1]:]
		switch {
		case strings.HasPrefix(token, "{#"):
		case begins.MatchString(token):
			end := ends.FindStringIndex(text)
			if end == nil {
				return "", nil, errors.New("a raw block of the template has no end")
			}
			b.WriteString(text[:end[0]])
			text = text[end[1]:]
		case strings.HasPrefix(token, "{%"):
			return "", nil, fmt.Errorf("template statement %q is not supported by simulated hosts", token)
		default:
			value, ok, err := evaluate(token, known)
			if err != nil {
				return "", nil, err
			}
			if !ok {
				missing = append(missing, value)
				value = "CI_MISSING_JINJA_VAR/" + value
			}
			b.WriteString(value)
		}
	}
}

// evaluate returns the value of an expression, or its name and false when there is none.
func evaluate(token string, known map[string]string) (string, bool, error) {
	inner := strings.Trim(strings.TrimSuffix(strings.TrimPrefix(token, "{{"), "}}"), " \t\n-")
	if match := literal.FindStringSubmatch(inner); match != nil {
		return match[1] + match[2], true, nil
	}
	dotted := subscript.ReplaceAllString(inner, ".$1")
	match := expression.FindStringSubmatch(dotted)
	if match == nil {
		return "", false, fmt.Errorf("template expression %q is not supported by simulated hosts", token)
	}
	name := strings.ReplaceAll(match[1], "-", "_")
	if value, ok := known[name]; ok && value != "" {
		return value, true, nil
	}
	if strings.Contains(dotted, "|") {
		return match[2], true, nil
	}
	return match[1], false, nil
}
