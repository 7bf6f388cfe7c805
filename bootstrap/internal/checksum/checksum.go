// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Package checksum reads the SHA-256 checksum of a file from the checksum file that is published beside it. Tenants name
// the server, so that it is asked for little and connected to within limits.
package checksum

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"path"
	"regexp"
	"time"

	"drover.io/runtime/egress"
	"drover.io/runtime/keysize"
)

const (
	// timeout bounds a request with all its redirects.
	timeout = 15 * time.Second

	// maxSize bounds a checksum file. Those of releases with many files have some 10 KiB.
	maxSize = 256 << 10

	// maxRedirects is how many are followed. Those who publish releases redirect once or twice to where the files are.
	maxRedirects = 5
)

// Read returns the checksum of a file, by its URL, as the file at checksumURL has it. It trusts the authorities of the host
// and those in PEM. Errors have nothing of what the server returned, since tenants read them.
func Read(ctx context.Context, checksumURL, fileURL, authorities string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	if err := Check(checksumURL, authorities); err != nil {
		return "", err
	}
	client, err := newClient(authorities)
	if err != nil {
		return "", err
	}
	defer client.CloseIdleConnections()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, checksumURL, nil)
	if err != nil {
		return "", errURL
	}
	response, err := client.Do(request)
	if err != nil {
		return "", describe(err)
	}
	defer response.Body.Close() //nolint:errcheck // read only
	if response.StatusCode != http.StatusOK {
		return "", fmt.Errorf("%s answers %d", request.URL.Host, response.StatusCode)
	}
	content, err := io.ReadAll(io.LimitReader(response.Body, maxSize+1))
	if err != nil {
		return "", describe(err)
	}
	if len(content) > maxSize {
		return "", fmt.Errorf("it has more than %d bytes", maxSize)
	}
	return parse(content, fileName(fileURL))
}

var errURL = errors.New("its URL cannot be parsed")

// Check fails for what Read refuses before it connects to a server.
func Check(checksumURL, authorities string) error {
	if err := keysize.CheckCertificates([]byte(authorities)); err != nil {
		return fmt.Errorf("the authorities that are to be trusted are refused: %w", err)
	}
	parsed, err := url.Parse(checksumURL)
	if err != nil {
		return errURL
	}
	if parsed.Scheme != "https" {
		return errors.New("its URL is not https")
	}
	if ip, err := netip.ParseAddr(parsed.Hostname()); err == nil && egress.Forbidden(ip) {
		return errForbidden
	}
	return nil
}

func newClient(authorities string) (*http.Client, error) {
	roots, err := x509.SystemCertPool()
	if err != nil {
		return nil, fmt.Errorf("reading the authorities of the host: %w", err)
	}
	roots.AppendCertsFromPEM([]byte(authorities))
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.TLSClientConfig = &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}
	transport.ForceAttemptHTTP2 = false // by HTTP/2, a server can have 4 MiB of an answer kept before it is read
	egress.Restrict(transport, net.Dialer{Timeout: timeout})
	return &http.Client{Transport: transport, CheckRedirect: checkRedirect}, nil
}

var (
	errInsecure  = errors.New("the server redirects to a URL that is not https")
	errRedirects = errors.New("the server redirects too often")
)

func checkRedirect(next *http.Request, before []*http.Request) error {
	if next.URL.Scheme != "https" {
		return errInsecure
	}
	if len(before) > maxRedirects {
		return errRedirects
	}
	return nil
}

func fileName(fileURL string) string {
	parsed, err := url.Parse(fileURL)
	if err != nil {
		return ""
	}
	return path.Base(parsed.Path)
}

var (
	// alone matches a file that is one checksum, line a line that sha256sum writes.
	alone = regexp.MustCompile(`^\s*([0-9a-fA-F]{64})\s*$`)
	line  = regexp.MustCompile(`^([0-9a-fA-F]{64})[ \t]+\*?(\S+)\s*$`)
)

// parse returns the checksum of a file by its name.
func parse(content []byte, name string) (string, error) {
	if match := alone.FindSubmatch(content); match != nil {
		return lower(match[1]), nil
	}
	var found string
	lines := bufio.NewScanner(bytes.NewReader(content))
	lines.Buffer(nil, maxSize+1)
	for lines.Scan() {
		match := line.FindSubmatch(lines.Bytes())
		if match == nil || path.Base(string(match[2])) != name {
			continue
		}
		if sum := lower(match[1]); found != "" && found != sum {
			return "", fmt.Errorf("it has two checksums for %s", name)
		} else {
			found = sum
		}
	}
	if found == "" {
		return "", fmt.Errorf("it has no SHA-256 checksum for %s", name)
	}
	return found, nil
}

func lower(digits []byte) string { return string(bytes.ToLower(digits)) }
