// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package access

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/tokens"

	"drover.io/infra-providers/driver"
	"drover.io/runtime/egress"
	"drover.io/runtime/httplimit"
)

// computeMicroversion is the Nova API that the driver is written for: 2.52 takes tags with the creation,
// 2.61 shows what a flavor demands, 2.64 gives a server group one policy. Rocky (2018) has it.
const computeMicroversion = "2.64"

// userAgent is how the driver introduces itself.
const userAgent = "drover-infra-openstack"

// patience bounds one call of a service, however patient the caller is.
const patience = time.Minute

// maxAnswer is how many bytes one answer of a service may have.
const maxAnswer = 64 << 20

// What an answer may have of a service that a Secret names: several times what a page of 500 servers, or a list of 1000
// volumes, has. Each element becomes some KiB in memory.
const (
	maxNamedAnswer   = 8 << 20
	maxNamedElements = 100_000
)

// NewLongAnswers returns what bounds how many answers of more than 16 KiB are read at the same time, of all services that
// Secrets name. One namespace alone gets half of them.
func NewLongAnswers() *httplimit.Places { return httplimit.NewPlaces(8, 16<<10) }

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
	// Account names the project in its cloud: the host of the identity service, the ID of the project, and the region,
	// because what is in one region is found in no other.
	Account string
	// Region is the region that the services are in.
	Region string
}

// Open reads credentials and asks nobody. A nil transport is the usual one. Long answers of services that a Secret names
// take places; nil is places of its own. It fails with UnauthorizedError.
func Open(account driver.Account, secret driver.Credentials, transport http.RoundTripper, long *httplimit.Places) (*Session, error) {
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
		if account.SecretName != "" {
			usual.Proxy = egress.Proxy(usual.Proxy)
			usual.DialContext = egress.Dial(net.Dialer{Timeout: 30 * time.Second, KeepAlive: 30 * time.Second})
		}
		transport = usual
	}
	limited := httplimit.Wrap(transport, maxAnswer)
	if account.SecretName != "" {
		if long == nil {
			long = NewLongAnswers()
		}
		limited = long.WrapShared(httplimit.WrapDocuments(transport, httplimit.JSON, maxNamedAnswer, maxNamedElements))
	}
	return &Session{login: found, transport: limited, turn: make(chan struct{}, 1)}, nil
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
	provider.HTTPClient = http.Client{Transport: s.transport, Timeout: patience, CheckRedirect: egress.NoRedirects}
	provider.UserAgent.Prepend(userAgent)
	if err := openstack.Authenticate(ctx, provider, s.login.auth); err != nil {
		return nil, fmt.Errorf("logging in: %w", err)
	}
	// The SDK asks the endpoints for their versions without a context.
	provider.HTTPClient.Transport = bound{ctx, s.transport}
	defer func() { provider.HTTPClient.Transport = s.transport }()
	endpoint, err := s.endpoint(provider)
	if err != nil {
		return nil, err
	}
	found, err := locate(provider, endpoint)
	if err != nil {
		return nil, err
	}
	if found.Account, err = accountOf(provider, endpoint.Region); err != nil {
		return nil, err
	}
	stay(provider, found)
	return found, nil
}

// endpoint is where the services are looked for. The region is part of the account, so where nobody names one the catalog
// must have only one: otherwise its order would decide.
func (s *Session) endpoint(provider *gophercloud.ProviderClient) (gophercloud.EndpointOpts, error) {
	endpoint := s.login.endpoint
	token, ok := provider.GetAuthResult().(tokens.CreateResult)
	if endpoint.Region != "" || !ok {
		return endpoint, nil
	}
	catalog, err := token.ExtractServiceCatalog()
	if err != nil {
		return endpoint, fmt.Errorf("reading the catalog: %w", err)
	}
	regions := map[string]bool{}
	for _, service := range catalog.Entries {
		for _, at := range service.Endpoints {
			if service.Type == "compute" {
				regions[cmp.Or(at.RegionID, at.Region)] = true
			}
		}
	}
	all := slices.Sorted(maps.Keys(regions))
	switch len(all) {
	case 0:
	case 1:
		endpoint.Region = all[0]
	default:
		return endpoint, &driver.InvalidConfigurationError{Field: "spec.region", Err: fmt.Errorf("the cloud has the regions %s: name one here or in the credentials", strings.Join(all, ", "))}
	}
	return endpoint, nil
}

// stay has every new token lead to the same project: credentials that name it by its name, or leave it to the user's
// default, may lead to another one when the old token runs out, where nothing of this one is found.
func stay(provider *gophercloud.ProviderClient, found *Services) {
	again := provider.ReauthFunc
	if again == nil {
		return
	}
	provider.ReauthFunc = func(ctx context.Context) error {
		if err := again(ctx); err != nil {
			return err
		}
		now, err := accountOf(provider, found.Region)
		if err == nil && now != found.Account {
			err = &driver.AccountMismatchError{Pinned: found.Account, Connected: now, Source: "a new login"}
		}
		if err != nil {
			provider.SetToken("") // so that nobody uses it
		}
		return err
	}
}

// accountOf reads from the token which project it is for. Names of projects change, and their IDs do not.
func accountOf(provider *gophercloud.ProviderClient, region string) (string, error) {
	token, ok := provider.GetAuthResult().(tokens.CreateResult)
	if !ok {
		return "", errors.New("the identity service gave a token of an unknown kind")
	}
	project, err := token.ExtractProject()
	if err != nil || project == nil || project.ID == "" {
		return "", errors.Join(errors.New("the token names no project: name one in the credentials"), err)
	}
	identity, err := url.Parse(provider.IdentityEndpoint)
	if err != nil || identity.Hostname() == "" {
		return "", fmt.Errorf("the identity endpoint %q names no host", provider.IdentityEndpoint)
	}
	return strings.ToLower(identity.Hostname()) + "/" + project.ID + "/" + region, nil
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
func locate(provider *gophercloud.ProviderClient, endpoint gophercloud.EndpointOpts) (*Services, error) {
	found := &Services{Region: endpoint.Region}
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
		client, err := service.open(provider, endpoint)
		if _, missing := errors.AsType[*gophercloud.ErrEndpointNotFound](err); missing && service.optional {
			continue
		}
		if err != nil {
			where := "the catalog"
			if endpoint.Region != "" {
				where = fmt.Sprintf("region %q of the catalog", endpoint.Region)
			}
			return nil, &driver.InvalidConfigurationError{Field: "spec.region", Err: fmt.Errorf("finding the %s service in %s: %w", service.name, where, err)}
		}
		*service.into = client
	}
	found.Compute.Microversion = computeMicroversion
	return found, nil
}
