// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package access

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack"

	"drover.io/infra-providers/driver"
)

// computeMicroversion is the Nova API that the driver is written for: 2.52 takes tags with the creation,
// 2.61 shows what a flavor demands, 2.64 gives a server group one policy. Rocky (2018) has it.
const computeMicroversion = "2.64"

// userAgent is how the driver introduces itself.
const userAgent = "drover-infra-openstack"

// patience bounds one call of a service, however patient the caller is.
const patience = time.Minute

// Session logs in when it is first needed and again when the token ran out. It is safe for concurrent use.
type Session struct {
	login     login
	transport http.RoundTripper

	// turn is held while logging in; unlike a mutex it can be waited for together with a context.
	turn     chan struct{}
	services atomic.Pointer[Services]
}

// Services are the clients of one project in one region. Volume is nil where there is no Cinder.
type Services struct {
	Compute, Network, Image, Volume *gophercloud.ServiceClient
	// Region is the region that the services are in; empty when nobody named one.
	Region string
}

// Open reads credentials and asks nobody. A nil transport is the usual one. It fails with UnauthorizedError.
func Open(account driver.Account, secret driver.Credentials, transport http.RoundTripper) (*Session, error) {
	found, err := read(account, secret)
	if err != nil {
		where := "the environment"
		if account.SecretName != "" {
			where = fmt.Sprintf("Secret %q", account.SecretName)
		}
		return nil, &driver.UnauthorizedError{Err: fmt.Errorf("reading credentials of %s: %w", where, err)}
	}
	if transport == nil {
		usual := http.DefaultTransport.(*http.Transport).Clone()
		usual.TLSClientConfig = found.tls
		usual.MaxIdleConnsPerHost = 16
		transport = usual
	}
	return &Session{login: found, transport: transport, turn: make(chan struct{}, 1)}, nil
}

// Services returns the clients, after a login if there was none.
func (s *Session) Services(ctx context.Context) (*Services, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if known := s.services.Load(); known != nil {
		return known, nil
	}
	select {
	case s.turn <- struct{}{}:
		defer func() { <-s.turn }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if known := s.services.Load(); known != nil {
		return known, nil
	}
	found, err := s.open(ctx)
	if err != nil {
		return nil, err
	}
	s.services.Store(found)
	return found, nil
}

func (s *Session) open(ctx context.Context) (*Services, error) {
	provider, err := openstack.NewClient(s.login.auth.IdentityEndpoint)
	if err != nil {
		return nil, fmt.Errorf("reading the identity endpoint: %w", err)
	}
	provider.HTTPClient = http.Client{Transport: s.transport, Timeout: patience}
	provider.UserAgent.Prepend(userAgent)
	if err := openstack.Authenticate(ctx, provider, s.login.auth); err != nil {
		return nil, fmt.Errorf("logging in: %w", err)
	}
	// The SDK asks the endpoints for their versions without a context.
	provider.HTTPClient.Transport = bound{ctx, s.transport}
	defer func() { provider.HTTPClient.Transport = s.transport }()
	return s.locate(provider)
}

// bound is a transport whose requests end with a context.
type bound struct {
	ctx context.Context
	http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (b bound) RoundTrip(request *http.Request) (*http.Response, error) {
	return b.RoundTripper.RoundTrip(request.WithContext(b.ctx))
}

// locate finds the services in the catalog.
func (s *Session) locate(provider *gophercloud.ProviderClient) (*Services, error) {
	found := &Services{Region: s.login.endpoint.Region}
	for _, service := range []struct {
		name     string
		open     func(*gophercloud.ProviderClient, gophercloud.EndpointOpts) (*gophercloud.ServiceClient, error)
		into     **gophercloud.ServiceClient
		optional bool
	}{
		{"compute", openstack.NewComputeV2, &found.Compute, false},
		{"network", openstack.NewNetworkV2, &found.Network, false},
		{"image", openstack.NewImageV2, &found.Image, false},
		{"volume", openstack.NewBlockStorageV3, &found.Volume, true},
	} {
		client, err := service.open(provider, s.login.endpoint)
		if _, missing := errors.AsType[*gophercloud.ErrEndpointNotFound](err); missing && service.optional {
			continue
		}
		if err != nil {
			where := "the catalog"
			if s.login.endpoint.Region != "" {
				where = fmt.Sprintf("region %q of the catalog", s.login.endpoint.Region)
			}
			return nil, &driver.InvalidConfigurationError{Field: "spec.region", Err: fmt.Errorf("finding the %s service in %s: %w", service.name, where, err)}
		}
		*service.into = client
	}
	found.Compute.Microversion = computeMicroversion
	return found, nil
}
