// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Package vcenter is the client of one vCenter: it keeps one session per account, logs in again when that ends, and reads
// what the driver needs in few calls. It returns the SDK's errors, its own ReferenceError and BusyError, and
// AccountMismatchError if another vCenter answers; the driver decides what the others mean for a machine.
package vcenter

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"reflect"
	"sync"
	"time"

	"github.com/vmware/govmomi/fault"
	"github.com/vmware/govmomi/session"
	"github.com/vmware/govmomi/session/keepalive"
	"github.com/vmware/govmomi/vapi/rest"
	"github.com/vmware/govmomi/vim25"
	"github.com/vmware/govmomi/vim25/methods"
	"github.com/vmware/govmomi/vim25/soap"
	"github.com/vmware/govmomi/vim25/types"

	"drover.io/infra-providers/driver"
	"drover.io/infra-providers/internal/panicerror"
	"drover.io/runtime/egress"
	"drover.io/runtime/expiring"
	"drover.io/runtime/httplimit"
)

const (
	// keepAlive is the pause after which a session is used to keep it: vCenter ends it after half an hour.
	keepAlive = 10 * time.Minute
	// unusedTimeout is how long a session is kept that is not used.
	unusedTimeout = time.Hour
	// touchTimeout bounds the call that keeps a session.
	touchTimeout = time.Minute
	// callTimeout bounds one call, whatever the deadline of the caller.
	callTimeout = time.Minute
	// cleanupTimeout bounds the call that ends a view after the caller's deadline.
	cleanupTimeout = 10 * time.Second
	// maxNamedAnswer and maxNamedElements are what one answer may have of a server that a Secret names: several times what
	// a page of virtual machines has. Each element becomes about a KiB in memory.
	maxNamedAnswer, maxNamedElements = 8 << 20, 150_000
	// maxDescription is how many bytes the description of a server may have, which each session keeps, and maxSessionID
	// those of the ID of a session. Those of vCenter have some KiB, and some dozens.
	maxDescription, maxSessionID = 64 << 10, 4 << 10
)

// Account is how to log in to a vCenter.
type Account struct {
	// Server is a host with an optional port, or a URL.
	Server   string
	Username string
	Password string
	// CA are PEM certificates to trust instead of the system's.
	CA string
	// Thumbprint is the certificate to trust without a CA that signed it.
	Thumbprint string
	// Insecure trusts any certificate.
	Insecure bool
	// OfSecret is true for credentials of a Secret, whose writer chooses the server.
	OfSecret bool
	// Datacenter is the name or path of the datacenter; empty for the only one.
	Datacenter string
}

// Session is a session that logs in when it is first used and again whenever it ended.
type Session struct {
	account   Account
	transport func(http.RoundTripper) http.RoundTripper
	// long is what long answers take seats of.
	long *httplimit.Seats
	// turn is held while logging in.
	turn chan struct{}
	now  func() time.Time
	// refusals are those of the pool.
	refusals *expiring.Map[credentials, refusal]

	mu     sync.Mutex
	bare   *vim25.Client
	client *vim25.Client
	// login counts the logins, so that a call can detect whether there was one since.
	login int
	rest  *rest.Client
	// datacenter is where lists and names start.
	datacenter types.ManagedObjectReference
	// number is that of the session in its pool. places and folders are those of the pool, readable the objects that
	// the user may read.
	number   int
	places   *expiring.Map[placeKey, Placement]
	folders  *expiring.Map[location, types.ManagedObjectReference]
	readable expiring.Map[types.ManagedObjectReference, struct{}]
	used     time.Time
	ended    bool
	// moved is why the session is not used any more: another vCenter answers.
	moved error
}

var (
	errEnded  = errors.New("the session was closed")
	errUnused = errors.New("the session is not used")

	errDescription = errors.New("the description of the server is too long to be that of a vCenter")
	errSessionID   = errors.New("the ID of the session is too long to be that of a vCenter")
)

// Client returns a client that is logged in.
func (s *Session) Client(ctx context.Context) (*vim25.Client, error) {
	client, _, err := s.current()
	if client != nil || err != nil {
		return client, err
	}
	if err := s.renew(ctx, 0); err != nil {
		return nil, err
	}
	client, _, err = s.current()
	return client, err
}

func (s *Session) current() (*vim25.Client, int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		return nil, 0, errEnded
	}
	if s.moved != nil {
		return nil, 0, s.moved
	}
	return s.client, s.login, nil
}

// renew logs in, unless another caller did since the login of that number.
func (s *Session) renew(ctx context.Context, number int) error {
	select {
	case s.turn <- struct{}{}:
		defer func() { <-s.turn }()
	case <-ctx.Done():
		return ctx.Err()
	}
	_, now, err := s.current()
	if err != nil || now != number {
		return err
	}
	s.mu.Lock()
	connected := s.bare != nil
	s.mu.Unlock()
	bare, err := s.connect(ctx)
	if err == nil && connected {
		err = s.verify(ctx, bare)
	}
	if err != nil {
		return err
	}
	manager := session.NewManager(bare)
	if err := s.logIn(func() error { return manager.Login(ctx, url.UserPassword(s.account.Username, s.account.Password)) }); err != nil {
		return fmt.Errorf("logging in to %s: %w", s.account.Server, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.login++
	if s.client != nil {
		return nil
	}
	client := *bare
	client.RoundTripper = &loginTransport{next: bare.RoundTripper, session: s}
	s.client = &client
	return nil
}

// verify fails with AccountMismatchError, from then on for every call, if another vCenter answers than the one that the
// session was opened with: what is in the one is not found in the other. Whoever opens a session anew gets another one.
func (s *Session) verify(ctx context.Context, bare *vim25.Client) error {
	now, err := methods.GetServiceContent(ctx, bare)
	if err != nil {
		return fmt.Errorf("identifying %s: %w", s.account.Server, err)
	}
	was := bare.ServiceContent.About.InstanceUuid
	if now.About.InstanceUuid == was {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.moved = &driver.AccountMismatchError{Pinned: ID(was), Connected: ID(now.About.InstanceUuid), Source: "a new login"}
	return s.moved
}

// ID names a vCenter among all by its instance UUID.
func ID(instanceUUID string) string { return "vcenter/" + instanceUUID }

// open reports whether the session can be used.
func (s *Session) open() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.moved == nil
}

// connect returns a client that is not logged in.
func (s *Session) connect(ctx context.Context) (*vim25.Client, error) {
	s.mu.Lock()
	known := s.bare
	s.mu.Unlock()
	if known != nil {
		return known, nil
	}
	at, err := soap.ParseURL(s.account.Server)
	if err != nil || at == nil || at.Host == "" {
		return nil, fmt.Errorf("server %q is not a host or URL", s.account.Server)
	}
	at.User = nil
	transport := soap.NewClient(at, s.account.Insecure)
	if s.account.Thumbprint != "" {
		transport.SetThumbprint(at.Host, s.account.Thumbprint)
	}
	if s.account.CA != "" {
		pool := x509.NewCertPool()
		if !pool.AppendCertsFromPEM([]byte(s.account.CA)) {
			return nil, errors.New("ca.crt holds no PEM certificate")
		}
		transport.DefaultTransport().TLSClientConfig.RootCAs = pool
	}
	if s.account.OfSecret {
		guard(transport)
	}
	s.bound(transport, httplimit.XML)
	bare, err := vim25.NewClient(ctx, transport)
	if err != nil {
		return nil, fmt.Errorf("connecting to %s: %w", s.account.Server, err)
	}
	if size, err := sizeOf(bare.ServiceContent); err != nil || size > maxDescription {
		return nil, errors.Join(fmt.Errorf("connecting to %s: %w", s.account.Server, errDescription), err)
	}
	bare.UserAgent = "drover"
	plain := *bare
	bare.RoundTripper = keepalive.NewHandlerSOAP(bare.RoundTripper, keepAlive, func() error { return s.touch(&plain) })
	s.mu.Lock()
	defer s.mu.Unlock()
	s.bare = bare
	return bare, nil
}

// touch keeps the session from ending, unless it is not used any more. The SDK calls it in a goroutine of its own, where a
// panic at an answer would end the process.
func (s *Session) touch(plain *vim25.Client) error {
	if s.unused(time.Now()) > unusedTimeout {
		return errUnused
	}
	ctx, cancel := context.WithTimeout(context.Background(), touchTimeout)
	defer cancel()
	return panicerror.Call(func() error {
		_, err := methods.GetCurrentTime(ctx, plain)
		return err
	})
}

// use records that the session was used.
func (s *Session) use(now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.used = now
}

// unused is how long the session was not used.
func (s *Session) unused(now time.Time) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return now.Sub(s.used)
}

// bound limits how long a call of a client may take and how much it may answer. Each API has a client of its own,
// which takes over neither from another.
func (s *Session) bound(client *soap.Client, format httplimit.Format) {
	next := client.Client.Transport
	if s.transport != nil {
		next = s.transport(next)
	}
	limited := httplimit.Wrap(next, httplimit.MaxCloudAnswer)
	if s.account.OfSecret {
		limited = s.long.WrapShared(httplimit.WrapDocuments(next, format, maxNamedAnswer, maxNamedElements))
	}
	client.Client.Transport = busy{limited}
	client.Client.Jar = newJar(client.Client.Jar.Cookies(client.URL()))
	client.Client.Timeout = callTimeout
	client.Client.CheckRedirect = egress.NoRedirects
}

// Close logs out. What is still called fails.
func (s *Session) Close(ctx context.Context) error {
	s.mu.Lock()
	bare, in, other := s.bare, s.client != nil, s.rest
	if s.moved != nil {
		in, other = false, nil // the vCenter of the session does not answer
	}
	s.ended = true
	s.mu.Unlock()
	var errs []error
	if other != nil {
		errs = append(errs, other.Logout(ctx))
	}
	if in {
		errs = append(errs, session.NewManager(bare).Logout(ctx))
	}
	return errors.Join(errs...)
}

// loginTransport logs in again when the server has ended the session, and then repeats the call, which was not
// executed.
type loginTransport struct {
	next    soap.RoundTripper
	session *Session
}

// RoundTrip implements soap.RoundTripper.
func (r *loginTransport) RoundTrip(ctx context.Context, req, res soap.HasFault) error {
	_, number, err := r.session.current()
	if err != nil {
		return err
	}
	r.session.mu.Lock()
	r.session.used = time.Now()
	r.session.mu.Unlock()
	if err = r.next.RoundTrip(ctx, req, res); !fault.Is(err, &types.NotAuthenticated{}) {
		return err
	}
	if err := r.session.renew(ctx, number); err != nil {
		return err
	}
	reflect.ValueOf(res).Elem().SetZero()
	return r.next.RoundTrip(ctx, req, res)
}

// Answered reports whether an error is an answer of the REST API with a status. The SDK looks at an error
// itself, not at what it wraps.
func Answered(err error, status int) bool {
	for ; err != nil; err = errors.Unwrap(err) {
		if rest.IsStatusError(err, status) {
			return true
		}
	}
	return false
}

// Rest calls a function with a client of the REST API that is logged in, and once more when the server
// has ended that session.
func (s *Session) Rest(ctx context.Context, call func(*rest.Client) error) error {
	client, err := s.Client(ctx)
	if err != nil {
		return err
	}
	s.mu.Lock()
	known := s.rest
	s.mu.Unlock()
	if known != nil {
		if err := call(known); !Answered(err, http.StatusUnauthorized) {
			return err
		}
		if err := s.verify(ctx, client); err != nil {
			return err
		}
	}
	fresh := rest.NewClient(client)
	s.bound(fresh.Client, httplimit.JSON)
	if err := s.logIn(func() error { return fresh.Login(ctx, url.UserPassword(s.account.Username, s.account.Password)) }); err != nil {
		return fmt.Errorf("logging in to the REST API of %s: %w", s.account.Server, err)
	}
	if len(fresh.SessionID()) > maxSessionID {
		return fmt.Errorf("logging in to the REST API of %s: %w", s.account.Server, errSessionID)
	}
	s.mu.Lock()
	s.rest = fresh
	s.mu.Unlock()
	return call(fresh)
}
