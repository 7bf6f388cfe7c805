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

// computeMicroversion is the version of the Nova API in use: 2.52 has tags in the creation, 2.61 the extra specs of a
// flavor, 2.64 one policy of a server group. Rocky (2018) has it.
const computeMicroversion = "2.64"

// userAgent is that of the driver's requests.
const userAgent = "drover-infra-openstack"

// callTimeout bounds one call of a service, also without a deadline of the caller.
const callTimeout = time.Minute

// What an answer may have of a service that a Secret names: several times what a page of 500 servers, or a list of 1000
// volumes, has. Each element becomes some KiB in memory.
const (
	maxNamedAnswer   = 8 << 20
	maxNamedElements = 100_000
)

// maxKept is how many bytes the addresses of the services and the name of the account may have together.
const maxKept = 16 << 10

// Session logs in at the first use and again when the token has expired. It is safe for concurrent use.
type Session struct {
	login     login
	transport http.RoundTripper

	// loggingIn is held during a login; unlike a mutex it can be awaited together with a context.
	loggingIn chan struct{}
	services  atomic.Pointer[Services]
}

// Services are the clients of one project in one region. Volume is nil where there is no Cinder.
type Services struct {
	Compute, Network, Image, Volume *gophercloud.ServiceClient
	// Account identifies the project in its cloud: the host of the identity service, the ID of the project, and the
	// region, because resources of one region are not found in another.
	Account string
	// Region is the region of the services.
	Region string
}

// Open reads credentials and makes no call. A nil transport means the default. Long answers of services that a Secret
// names take seats; nil means seats of its own. It fails with UnauthorizedError.
func Open(account driver.Account, secret driver.Credentials, transport http.RoundTripper, long *httplimit.Seats) (*Session, error) {
	found, err := read(account, secret)
	if err != nil {
		where := "the environment"
		if account.SecretName != "" {
			where = fmt.Sprintf("Secret %q", account.SecretName)
		}
		return nil, &driver.UnauthorizedError{Err: fmt.Errorf("reading credentials of %s: %w", where, err)}
	}
	if transport == nil {
		base := http.DefaultTransport.(*http.Transport).Clone()
		base.TLSClientConfig = found.tls
		base.MaxIdleConnsPerHost = 16
		if account.SecretName != "" {
			egress.Restrict(base, net.Dialer{Timeout: 30 * time.Second, KeepAlive: 30 * time.Second})
		}
		transport = base
	}
	limited := httplimit.Wrap(transport, httplimit.MaxCloudAnswer)
	if account.SecretName != "" {
		if long == nil {
			long = httplimit.NewCloudSeats()
		}
		limited = budgeted{long.WrapShared(httplimit.WrapDocuments(transport, httplimit.JSON, maxNamedAnswer, maxNamedElements))}
	}
	return &Session{login: found, transport: limited, loggingIn: make(chan struct{}, 1)}, nil
}

// Services returns the clients, after a login if there was none yet.
func (s *Session) Services(ctx context.Context) (*Services, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if known := s.services.Load(); known != nil {
		return known, nil
	}
	select {
	case s.loggingIn <- struct{}{}:
		defer func() { <-s.loggingIn }()
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

// logIn returns a client with a new token, its catalog and all else of the answer.
func (s *Session) logIn(ctx context.Context) (*gophercloud.ProviderClient, error) {
	provider, err := openstack.NewClient(s.login.auth.IdentityEndpoint)
	if err != nil {
		return nil, fmt.Errorf("reading the identity endpoint: %w", err)
	}
	provider.HTTPClient = http.Client{Transport: s.transport, Timeout: callTimeout, CheckRedirect: egress.NoRedirects}
	provider.UserAgent.Prepend(userAgent)
	if err := openstack.Authenticate(ctx, provider, s.login.auth); err != nil {
		return nil, fmt.Errorf("logging in: %w", err)
	}
	return provider, nil
}

func (s *Session) open(ctx context.Context) (*Services, error) {
	provider, err := s.logIn(ctx)
	if err != nil {
		return nil, err
	}
	// The SDK reads the versions of the endpoints without a context.
	provider.HTTPClient.Transport = contextTransport{ctx, s.transport}
	defer func() { provider.HTTPClient.Transport = s.transport }()
	endpoint, err := s.endpoint(provider)
	if err != nil {
		return nil, err
	}
	found, err := findServices(provider, endpoint)
	if err != nil {
		return nil, err
	}
	if found.Account, err = accountOf(provider, endpoint.Region); err != nil {
		return nil, err
	}
	if err := found.checkLength(); err != nil {
		return nil, err
	}
	provider.ReauthFunc = s.renewal(provider, found)
	// A session keeps its token and the addresses of the services, and nothing else of a catalog, whose length the
	// service chooses.
	provider.EndpointLocator = nil
	return found, provider.SetTokenAndAuthResult(token(provider.Token()))
}

// token is an authentication result that has nothing but a token.
type token string

// ExtractTokenID implements gophercloud.AuthResult.
func (t token) ExtractTokenID() (string, error) { return string(t), nil }

var errTooLong = errors.New("the answer to the login has an address or a name that is too long")

// checkLength fails where what a session keeps of a login is longer than any cloud has it.
func (s *Services) checkLength() error {
	length := len(s.Account)
	for _, client := range []*gophercloud.ServiceClient{s.Compute, s.Network, s.Image, s.Volume} {
		if client != nil {
			length += len(client.Endpoint) + len(client.ResourceBase)
		}
	}
	if length > maxKept {
		return errTooLong
	}
	return nil
}

// endpoint returns where the services are looked up. The region is part of the account, so where neither the machine nor
// the credentials name one, the catalog must have only one: otherwise its order would decide.
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

// renewal returns the function that logs in again when the token has expired. It fails unless the new token is for the same
// project: credentials that have the name of the project, or use the user's default, may lead to another one then, where no
// resource of this one is found.
func (s *Session) renewal(provider *gophercloud.ProviderClient, found *Services) func(context.Context) error {
	return func(ctx context.Context) error {
		fresh, err := s.logIn(ctx)
		if err != nil {
			return err
		}
		now, err := accountOf(fresh, found.Region)
		if err == nil && now != found.Account {
			err = &driver.AccountMismatchError{Pinned: found.Account, Connected: now, Source: "a new login"}
		}
		if err != nil {
			return err
		}
		return provider.SetTokenAndAuthResult(token(fresh.Token()))
	}
}

// accountOf returns the account of the token. The names of projects may change, their IDs do not.
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

// contextTransport is a transport whose requests end with a context.
type contextTransport struct {
	ctx context.Context
	http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (t contextTransport) RoundTrip(request *http.Request) (*http.Response, error) {
	return t.RoundTripper.RoundTrip(request.WithContext(t.ctx))
}

// findServices finds the services in the catalog.
func findServices(provider *gophercloud.ProviderClient, endpoint gophercloud.EndpointOpts) (*Services, error) {
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
		_, missing := errors.AsType[*gophercloud.ErrEndpointNotFound](err)
		if missing && service.optional {
			continue
		}
		if err != nil {
			where := "the catalog"
			if endpoint.Region != "" {
				where = fmt.Sprintf("region %q of the catalog", endpoint.Region)
			}
			err = fmt.Errorf("finding the %s service in %s: %w", service.name, where, err)
		}
		if missing {
			return nil, &driver.InvalidConfigurationError{Field: "spec.region", Err: err}
		}
		if err != nil { // the service was asked for its versions, and the answer was none of its own
			return nil, err
		}
		*service.into = client
	}
	found.Compute.Microversion = computeMicroversion
	return found, nil
}
