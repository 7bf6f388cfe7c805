// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package yandex

import (
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/url"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

const (
	// callTimeout bounds one call of the API. An answer that takes longer counts as lost.
	callTimeout = 30 * time.Second
	// maxAnswer is how many bytes one answer may have: many times what a page of 1000 instances has.
	maxAnswer = 64 << 20
	// idleTimeout is how long an unused connection is kept.
	idleTimeout = time.Minute
	// pingAfter is how long a call is unanswered when its connection is checked, and how long that may take: one that hangs is
	// replaced before the next call.
	pingAfter = 10 * time.Second
	// defaultDomain is the domain of the services of Yandex Cloud.
	defaultDomain = "api.cloud.yandex.net"
)

// The names of the services in a domain.
const (
	computeService   = "compute"
	operationService = "operation"
	iamService       = "iam"
	folderService    = "resource-manager"
)

// connections are those of one account, by service. They connect with the first call.
type connections map[string]*grpc.ClientConn

// dial returns connections to the services whose calls have tokens, except those to the service that issues them.
func dial(options Options, tokens func(iam *grpc.ClientConn) tokenSource) (connections, error) {
	all := connections{}
	authorize := &authorizer{}
	for _, service := range []string{iamService, computeService, operationService, folderService} {
		target, transport, err := address(options, service)
		if err != nil {
			return nil, err
		}
		dialed := []grpc.DialOption{
			grpc.WithTransportCredentials(transport), grpc.WithIdleTimeout(idleTimeout), grpc.WithDisableServiceConfig(), grpc.WithDisableRetry(),
			grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: pingAfter, Timeout: pingAfter}),
			grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxAnswer)),
		}
		if service != iamService {
			dialed = append(dialed, grpc.WithUnaryInterceptor(authorize.intercept))
		}
		if all[service], err = grpc.NewClient(target, dialed...); err != nil {
			all.close()
			return nil, fmt.Errorf("configuring the client of the service %s: %w", service, err)
		}
	}
	authorize.tokens = tokens(all[iamService])
	return all, nil
}

// address returns where a service is, and how to connect to it.
func address(options Options, service string) (target string, transport credentials.TransportCredentials, err error) {
	secure := credentials.NewTLS(&tls.Config{MinVersion: tls.VersionTLS12})
	if options.Endpoint == "" {
		return net.JoinHostPort(service+"."+cmp.Or(options.Domain, defaultDomain), "443"), secure, nil
	}
	parsed, err := url.Parse(options.Endpoint)
	if err != nil {
		return "", nil, fmt.Errorf("reading the endpoint: %w", err)
	}
	if parsed.Scheme == "http" {
		return net.JoinHostPort(parsed.Hostname(), cmp.Or(parsed.Port(), "80")), insecure.NewCredentials(), nil
	}
	return net.JoinHostPort(parsed.Hostname(), cmp.Or(parsed.Port(), "443")), secure, nil
}

func (c connections) close() {
	for _, connection := range c {
		if connection != nil {
			_ = connection.Close() // there is nothing to do about it
		}
	}
}

// authorizer adds a token to each call and bounds its time.
type authorizer struct{ tokens tokenSource }

func (a *authorizer) intercept(ctx context.Context, method string, request, reply any, connection *grpc.ClientConn, invoke grpc.UnaryInvoker, options ...grpc.CallOption) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	token, err := a.tokens.token(ctx)
	if err != nil {
		return err
	}
	err = invoke(metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+token), method, request, reply, connection, options...)
	if status.Code(err) == codes.Unauthenticated {
		a.tokens.refused(token)
	}
	return err
}

// withKey adds an idempotency key to a call: repeated with the same one, it is answered with the first operation.
func withKey(ctx context.Context, key string) context.Context {
	return metadata.AppendToOutgoingContext(ctx, "idempotency-key", key)
}
