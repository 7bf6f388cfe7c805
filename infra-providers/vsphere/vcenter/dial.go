// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package vcenter

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"time"

	"github.com/vmware/govmomi/vim25/soap"

	"drover.io/runtime/egress"
)

// connecting is how long a connection may take to come about.
const connecting = 30 * time.Second

// Encrypted reports whether a server is reached over TLS, or is on this host, as a simulator is.
func Encrypted(server string) bool {
	at, err := soap.ParseURL(server)
	if err != nil || at == nil || at.Scheme == "https" {
		return true // what cannot be read is refused elsewhere
	}
	ip, err := netip.ParseAddr(at.Hostname())
	return at.Hostname() == "" || at.Hostname() == "localhost" || err == nil && ip.IsLoopback()
}

// guard has a client connect only where package egress allows it. The SDK connects by itself for TLS, to accept a
// thumbprint where no authority has signed the certificate; so does this.
func guard(client *soap.Client) {
	transport := client.DefaultTransport()
	egress.Restrict(transport, net.Dialer{Timeout: connecting, KeepAlive: connecting})
	dial := transport.DialContext
	transport.DialTLSContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		host, _, err := net.SplitHostPort(address)
		if err != nil {
			return nil, err
		}
		config := transport.TLSClientConfig.Clone()
		config.ServerName = host
		connection, err := handshake(ctx, dial, network, address, config)
		thumbprint := client.Thumbprint(address)
		if err == nil || thumbprint == "" || !soap.IsCertificateUntrusted(err) {
			return connection, err
		}
		config.InsecureSkipVerify = true // the thumbprint is what is verified
		config.VerifyConnection = func(state tls.ConnectionState) error {
			certificate := state.PeerCertificates[0]
			if strings.EqualFold(thumbprint, soap.ThumbprintSHA1(certificate)) || strings.EqualFold(thumbprint, soap.ThumbprintSHA256(certificate)) {
				return nil
			}
			return fmt.Errorf("host %q thumbprint does not match %q", address, thumbprint)
		}
		return handshake(ctx, dial, network, address, config)
	}
}

// handshake returns a connection whose TLS handshake is over.
func handshake(ctx context.Context, dial func(context.Context, string, string) (net.Conn, error), network, address string, config *tls.Config) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, connecting)
	defer cancel()
	raw, err := dial(ctx, network, address)
	if err != nil {
		return nil, err
	}
	secured := tls.Client(raw, config)
	if err := secured.HandshakeContext(ctx); err != nil {
		_ = raw.Close() // the handshake's failure is what counts
		return nil, err
	}
	return secured, nil
}
