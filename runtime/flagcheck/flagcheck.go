// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Package flagcheck refuses values of flags that a manager could only misunderstand, all in the
// same words: one line with the flag, what it may be, and what it is. It defines no flags.
package flagcheck

import (
	"cmp"
	"fmt"
	"net"
	"net/url"
	"path/filepath"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
)

// AtLeast accepts a number or a duration not below the least.
func AtLeast[T cmp.Ordered](flag string, value, least T) error {
	if value >= least {
		return nil
	}
	return fmt.Errorf("%s must be at least %v, not %v", flag, least, value)
}

// AtMost accepts a number or a duration not above the most.
func AtMost[T cmp.Ordered](flag string, value, most T) error {
	if value <= most {
		return nil
	}
	return fmt.Errorf("%s must be at most %v, not %v", flag, most, value)
}

// OffOrAtLeast accepts zero, which turns something off, or a value not below the least.
func OffOrAtLeast[T cmp.Ordered](flag string, value, least T) error {
	var off T
	if value == off || value >= least {
		return nil
	}
	return fmt.Errorf("%s must be 0 or at least %v, not %v", flag, least, value)
}

// Namespace accepts the name of a namespace, or nothing.
func Namespace(flag, value string) error {
	if value == "" || len(validation.IsDNS1123Label(value)) == 0 {
		return nil
	}
	return fmt.Errorf("%s must be the name of a namespace, with at most 63 lower-case letters, digits and inner dashes, not %q", flag, value)
}

// Namespaces accepts names of namespaces, or "*" for all.
func Namespaces(flag string, values []string) error {
	for _, value := range values {
		if value != "*" && (value == "" || Namespace(flag, value) != nil) {
			return fmt.Errorf(`%s must be names of namespaces with commas, or "*" for all, not %q`, flag, strings.Join(values, ","))
		}
	}
	return nil
}

// URL accepts an absolute URL of HTTP or HTTPS without credentials, query and fragment, or nothing.
func URL(flag, value string) error {
	if value == "" {
		return nil
	}
	parsed, err := url.Parse(value)
	if err == nil && (parsed.Scheme == "https" || parsed.Scheme == "http") && isHost(parsed.Hostname()) && parsed.Hostname() != "" &&
		(parsed.Port() == "" || isPort(parsed.Port())) && parsed.User == nil && !strings.ContainsAny(value, "?#") {
		return nil
	}
	return fmt.Errorf("%s must be a URL such as https://api.example.org, without credentials and query, not %q", flag, value)
}

// Folder accepts an absolute path: a relative one would be below the folder in which the program happens to be started.
func Folder(flag, value string) error {
	if filepath.IsAbs(value) {
		return nil
	}
	return fmt.Errorf("%s must be the absolute path of a folder, not %q", flag, value)
}

// LabelValue accepts the value of a label, or nothing.
func LabelValue(flag, value string) error {
	if len(validation.IsValidLabelValue(value)) == 0 {
		return nil
	}
	return fmt.Errorf("%s must be the value of a label, with at most 63 letters, digits and inner dashes, underscores and dots, not %q", flag, value)
}

// Address accepts host:port, with any host or none, or 0 for no listener.
func Address(flag, value string) error {
	if value == "0" {
		return nil
	}
	if host, port, err := net.SplitHostPort(value); err == nil && isPort(port) && isHost(host) {
		return nil
	}
	return fmt.Errorf(`%s must be an address such as ":8080" or "127.0.0.1:8080" with a port up to 65535, or "0" to turn it off, not %q`, flag, value)
}

func isPort(port string) bool {
	_, err := strconv.ParseUint(port, 10, 16)
	return err == nil
}

func isHost(host string) bool {
	bare, _, _ := strings.Cut(host, "%") // an address may have a zone
	return host == "" || net.ParseIP(bare) != nil || len(validation.IsDNS1123Subdomain(strings.ToLower(host))) == 0
}

// NoArguments accepts only flags.
func NoArguments(arguments []string) error {
	if len(arguments) == 0 {
		return nil
	}
	return fmt.Errorf("%q is no flag: only flags may be given, each as --name=value", arguments[0])
}
