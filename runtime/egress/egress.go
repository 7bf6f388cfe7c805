// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Package egress bounds where a manager connects to where tenants name the server: in a kubeconfig, or in a Secret with
// credentials of a cloud.
package egress

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"syscall"
	"time"
)

// ErrRedirected means that a server redirects. Following would make the manager send requests to any host, and without TLS.
var ErrRedirected = errors.New("the server redirects, which is not followed: name the address that it redirects to")

// NoRedirects is the CheckRedirect of a client that follows none.
func NoRedirects(*http.Request, []*http.Request) error { return ErrRedirected }

// ForbiddenError means that a server has an address that is never that of a server.
type ForbiddenError struct{ Address string }

func (e *ForbiddenError) Error() string {
	return fmt.Sprintf("connection to %s refused: link-local, multicast, unspecified and metadata addresses are not allowed", e.Address)
}

// Control is the Control of a [net.Dialer] that connects to no link-local, multicast or unspecified address, whatever
// name led there. On link-local addresses the metadata service of the manager's own host answers, with its credentials.
func Control(_, address string, _ syscall.RawConn) error {
	at, err := netip.ParseAddrPort(address)
	if err != nil {
		return fmt.Errorf("reading the address to connect to: %w", err)
	}
	ip := at.Addr().Unmap().WithZone("")
	if forbidden(ip) {
		return &ForbiddenError{ip.String()}
	}
	return nil
}

// Forbidden reports whether Control connects to no server of this address.
func Forbidden(ip netip.Addr) bool { return forbidden(ip.Unmap().WithZone("")) }

func forbidden(ip netip.Addr) bool {
	return special(ip) || special(embedded(ip))
}

func special(ip netip.Addr) bool {
	return ip.IsLinkLocalUnicast() || ip.IsMulticast() || ip.IsUnspecified() || slices.Contains(metadata, ip)
}

// embedded returns the IPv4 address that an IPv6 address contains; the zero Addr where it contains none.
func embedded(ip netip.Addr) netip.Addr {
	for prefix, at := range embedding {
		if prefix.Contains(ip) {
			of := ip.As16()
			return netip.AddrFrom4([4]byte(of[at : at+4]))
		}
	}
	return netip.Addr{}
}

// embedding has the prefixes of IPv6 addresses that contain an IPv4 address, and at which byte.
var embedding = map[netip.Prefix]int{
	netip.MustParsePrefix("::/96"):           12, // IPv4-compatible, RFC 4291
	netip.MustParsePrefix("::ffff:0:0:0/96"): 12, // IPv4-translated, RFC 2765
	netip.MustParsePrefix("64:ff9b::/96"):    12, // NAT64, RFC 6052
	netip.MustParsePrefix("64:ff9b:1::/48"):  12, // NAT64 of a site, RFC 8215, with a prefix of 96 bits
	netip.MustParsePrefix("2002::/16"):       2,  // 6to4, RFC 3056
}

// metadata is where metadata services answer that are not link-local.
var metadata = []netip.Addr{
	netip.MustParseAddr("fd00:ec2::254"),      // EC2
	netip.MustParseAddr("fd00:ec2::23"),       // EKS Pod Identity
	netip.MustParseAddr("fd20:ce::254"),       // Google Cloud
	netip.MustParseAddr("fd00:c1::a9fe:a9fe"), // Oracle Cloud
	netip.MustParseAddr("192.0.0.192"),        // Oracle Cloud
	netip.MustParseAddr("fd00:42::42"),        // Scaleway
	netip.MustParseAddr("168.63.129.16"),      // the host of an Azure machine
	netip.MustParseAddr("100.100.100.200"),    // Alibaba Cloud
}

// Proxy is the Proxy of a transport whose server a tenant names: through a proxy, Dial gets only the address of the proxy.
// It refuses addresses that Dial refuses, however they are written, and names that this host resolves to such addresses. A
// name that only the proxy resolves is for the proxy to restrict. A nil next is no proxy.
func Proxy(next func(*http.Request) (*url.URL, error)) func(*http.Request) (*url.URL, error) {
	return func(request *http.Request) (*url.URL, error) {
		if next == nil {
			return nil, nil
		}
		proxy, err := next(request)
		if err != nil || proxy == nil {
			return proxy, err
		}
		return proxy, checkHost(request.Context(), request.URL.Hostname())
	}
}

// lookUp bounds the look-up of a name that is requested from a proxy.
const lookUp = 2 * time.Second

func checkHost(ctx context.Context, host string) error {
	if ip, err := netip.ParseAddr(host); err == nil {
		if ip = ip.Unmap().WithZone(""); forbidden(ip) {
			return &ForbiddenError{ip.String()}
		}
		return nil
	}
	// 2852039166, 0xa9fea9fe and 0251.0376.0251.0376 are addresses for some proxies, and no names.
	labels := strings.Split(strings.TrimSuffix(host, "."), ".")
	if last := labels[len(labels)-1]; last == "" || strings.Trim(last, "0123456789") == "" || strings.HasPrefix(strings.ToLower(last), "0x") {
		return &ForbiddenError{host}
	}
	ctx, cancel := context.WithTimeout(ctx, lookUp)
	defer cancel()
	found, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	if err != nil {
		return nil // behind a proxy, names are often resolved only by it
	}
	for _, ip := range found {
		if ip = ip.Unmap(); forbidden(ip) {
			return &ForbiddenError{ip.String()}
		}
	}
	return nil
}

// MaxHeaders is how many bytes the headers of an answer may have of a server that a tenant names. Go's default of 10 MiB takes
// more than ten times as much memory when they are parsed. Those of API servers and clouds have some hundreds.
const MaxHeaders = 64 << 10

// Restrict bounds a transport whose server a tenant names: where it connects to, also through its proxy, and the headers of
// an answer.
func Restrict(transport *http.Transport, dialer net.Dialer) {
	transport.Proxy = Proxy(transport.Proxy)
	transport.DialContext = Dial(dialer)
	transport.MaxResponseHeaderBytes = MaxHeaders
}

// Dial is the DialContext of a transport whose server a tenant names.
func Dial(dialer net.Dialer) func(ctx context.Context, network, address string) (net.Conn, error) {
	dialer.Control = Control
	return dialer.DialContext
}
