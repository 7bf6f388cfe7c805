// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package openstack

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/flavors"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/keypairs"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/limits"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"

	"drover.io/infra-providers/driver"
	"drover.io/infra-providers/internal/errorreason"
	"drover.io/infra-providers/openstack/access"
	"drover.io/infra-providers/openstack/attachments"
	"drover.io/infra-providers/openstack/lookup"
)

// answer is what a service said no with, without what changes from call to call.
type answer struct {
	status int
	// kind is Neutron's name of the error; other services have none.
	errorType string
	message   string
	// own is true for an answer of Nova, Cinder or Neutron. Any proxy answers 400 and 404 too.
	own bool
	// retryAfter is the service's hint; hinted tells whether there was one.
	retryAfter time.Duration
	hinted     bool
	// overLimit is true where Cinder says that a limit is reached, which is a quota or a rate.
	overLimit bool
}

func (a *answer) Error() string {
	if a.message == "" {
		return fmt.Sprintf("%d %s", a.status, http.StatusText(a.status))
	}
	return fmt.Sprintf("%d %s: %s", a.status, http.StatusText(a.status), a.message)
}

// toError turns an error of the SDK into the kind that it is: one switch, by status and by Neutron's and
// Cinder's own words for it, never by text. The place is what an error about room is about.
func toError(err error, flavor, zone string) error {
	said := read(err)
	switch {
	case err == nil:
		return nil
	case moved(err) != nil:
		return moved(err)
	case driver.IsUnfinished(err):
		return err
	case said == nil:
		return unreached(err)
	case said.status == http.StatusUnauthorized, said.status == http.StatusForbidden:
		return wrap(err, &driver.UnauthorizedError{Err: said})
	case said.errorType == "OverQuota", said.overLimit && said.hinted && said.retryAfter == 0:
		return wrap(err, &driver.QuotaExceededError{Err: said})
	case said.errorType == "IpAddressGenerationFailure":
		return wrap(err, &driver.InsufficientCapacityError{InstanceType: flavor, Zone: zone, OfRequest: true, Err: said})
	case said.status == http.StatusTooManyRequests, said.status == http.StatusRequestEntityTooLarge:
		return wrap(err, &driver.RateLimitedError{RetryAfter: said.retryAfter, Err: said})
	default:
		return wrap(err, said)
	}
}

// moved returns the error of a new login that led to another project; nil for any other.
func moved(err error) error {
	if again, ok := errors.AsType[*gophercloud.ErrUnableToReauthenticate](err); ok && driver.IsAccountMismatch(again.ErrReauth) {
		return again.ErrReauth
	}
	return nil
}

// refused is kind for calls that create: what a service itself calls a bad request there will never be a good one.
func refused(field string, err error, config Config) error {
	said := read(err)
	creation, creating := errors.AsType[*attachments.CreationError](err)
	if creating && said != nil && said.own && (said.status == http.StatusBadRequest || said.status == http.StatusNotFound) {
		return &driver.InvalidConfigurationError{Field: field, Err: fmt.Errorf("creating %s: %w", creation.What, said)}
	}
	return toError(err, config.Spec.Flavor, config.Zone)
}

// errUnanswered means that nobody knows whether a server was made.
var errUnanswered = errors.New("the answer was lost")

// unanswered is true when a call may still be at work: nobody answered, or only a proxy did.
func unanswered(err error) bool {
	if err == nil {
		return false
	}
	said := read(err)
	return said == nil || said.status == http.StatusBadGateway || said.status == http.StatusServiceUnavailable || said.status == http.StatusGatewayTimeout
}

// read returns what a service answered; nil when none did.
func read(err error) *answer {
	if again, ok := errors.AsType[*gophercloud.ErrUnableToReauthenticate](err); ok {
		err = again.ErrReauth
	}
	if again, ok := errors.AsType[*gophercloud.ErrErrorAfterReauthentication](err); ok {
		err = again.ErrOriginal
	}
	unexpected, ok := errors.AsType[gophercloud.ErrUnexpectedResponseCode](err)
	if !ok {
		return nil
	}
	said := &answer{status: unexpected.Actual}
	if seconds, err := strconv.Atoi(unexpected.ResponseHeader.Get("Retry-After")); err == nil {
		said.retryAfter, said.hinted = time.Duration(max(seconds, 0))*time.Second, true
	}
	var body map[string]json.RawMessage
	if json.Unmarshal(unexpected.Body, &body) != nil {
		return said
	}
	for name, content := range body {
		var inner struct {
			Message string `json:"message"`
			Type    string `json:"type"`
		}
		if json.Unmarshal(content, &inner) == nil && inner.Message != "" {
			said.message, said.errorType = strings.TrimSpace(inner.Message), inner.Type
			said.overLimit = name == "overLimit"
			said.own = name == "badRequest" || name == "itemNotFound" || name == "NeutronError"
		}
	}
	return said
}

// wrap keeps the words that were put before an SDK's error and replaces the error itself.
func wrap(outer, inner error) error {
	for cause := outer; cause != nil; cause = errors.Unwrap(cause) {
		if fromSDK(cause) {
			return fmt.Errorf("%s%w", strings.TrimSuffix(outer.Error(), cause.Error()), inner)
		}
	}
	return inner
}

// fromSDK looks at one error of a chain, not at what it wraps.
func fromSDK(cause error) bool {
	switch cause.(type) { //nolint:errorlint // the chain is walked by the caller
	case gophercloud.ErrUnexpectedResponseCode, *gophercloud.ErrUnableToReauthenticate, *gophercloud.ErrErrorAfterReauthentication:
		return true
	}
	return false
}

// unreached cuts what changes from call to call out of an error of the network: addresses and ports.
func unreached(err error) error {
	if errors.Is(err, context.Canceled) {
		return context.Canceled
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return context.DeadlineExceeded
	}
	if failed, ok := errors.AsType[*net.OpError](err); ok {
		return fmt.Errorf("reaching OpenStack: %s: %w", failed.Op, failed.Err)
	}
	if failed, ok := errors.AsType[*url.Error](err); ok {
		return fmt.Errorf("reaching OpenStack: %w", failed.Err)
	}
	return err
}

// refusal finds out what is wrong with a server that Nova refused to make.
func (c creation) refusal(ctx context.Context, plan lookup.Plan, err error) error {
	config := c.request.Config
	judged := refused("spec", err, config)
	if !driver.IsInvalidConfiguration(judged) {
		judged = c.forbidden(ctx, plan, judged)
		if driver.IsUnauthorized(judged) && plan.Flavor.Disk == 0 && config.Spec.RootVolume.SizeGiB == 0 {
			return &driver.InvalidConfigurationError{Field: "spec.rootVolume", Err: fmt.Errorf("flavor %q has no disk, and without a rootVolume the cloud says: %w", config.Spec.Flavor, read(err))}
		}
		return judged
	}
	if config.Spec.ServerGroup.Policy != "" {
		// The last other machine of the group may have taken it away.
		if exists, err := (attachments.Groups{Client: c.services.Compute}).Exists(ctx, plan.GroupID); err == nil && !exists {
			return fmt.Errorf("the server group is gone again: %w", attachments.ErrBusy)
		}
	}
	if config.Spec.KeyPair != "" {
		_, err := keypairs.Get(ctx, c.services.Compute, config.Spec.KeyPair, nil).Extract()
		if access.Missing(err) {
			return &driver.InvalidConfigurationError{Field: "spec.keyPair", Err: fmt.Errorf("there is no key pair %q of the user that logs in", config.Spec.KeyPair)}
		}
	}
	if zones, err := lookup.Zones(ctx, c.services); err == nil && config.Zone != "" && !slices.Contains(zones, config.Zone) {
		return &driver.InvalidConfigurationError{Field: "spec.availabilityZone", Err: fmt.Errorf("%q is not one of the zones %q", config.Zone, zones)}
	}
	return judged
}

// forbidden tells a quota from a missing permission: Nova says 403 to both. The limits know better.
func (c creation) forbidden(ctx context.Context, plan lookup.Plan, judged error) error {
	denied, ok := errors.AsType[*driver.UnauthorizedError](judged)
	if !ok {
		return judged
	}
	has, err := limits.Get(ctx, c.services.Compute, nil).Extract()
	if err != nil || !full(has.Absolute, plan.Flavor) && !c.crowded(ctx, plan, has.Absolute.MaxServerGroupMembers) {
		return judged
	}
	// Not judged itself: an error has one kind.
	return wrap(judged, &driver.QuotaExceededError{Err: denied.Err})
}

// crowded reports whether the server group may have no more members. Below zero is no limit.
func (c creation) crowded(ctx context.Context, plan lookup.Plan, limit int) bool {
	if plan.GroupID == "" || limit < 0 {
		return false
	}
	members, err := attachments.Groups{Client: c.services.Compute}.Members(ctx, plan.GroupID)
	return err == nil && members >= limit
}

// full reports whether a limit leaves no room for one more server of a flavor. Below zero is no limit.
func full(has limits.Absolute, flavor flavors.Flavor) bool {
	exceeds := func(used, more, limit int) bool { return limit >= 0 && used+more > limit }
	return exceeds(has.TotalInstancesUsed, 1, has.MaxTotalInstances) ||
		exceeds(has.TotalCoresUsed, flavor.VCPUs, has.MaxTotalCores) ||
		exceeds(has.TotalRAMUsed, flavor.RAM, has.MaxTotalRAMSize) ||
		exceeds(has.TotalServerGroupsUsed, 1, has.MaxServerGroups)
}

// asideFor is how long a flavor in a zone counts as short after a server found no host.
const asideFor = 5 * time.Minute

const (
	// mostKept is how many places, and how many faults, are kept of an account. The cloud chooses what its lists show,
	// and the cloud is whichever a Secret names.
	mostKept = 1000
	// longestKey is how many bytes an ID and the names of a flavor and of a zone may have together to be kept. Nova has
	// at most 255 in each.
	longestKey = 1 << 10
)

// shortages remembers where Nova found no host. It says so only after it accepted a server, when there is
// nothing to refuse any more; the next machine that asks for the same is refused instead of failing alike.
type shortages struct {
	mu sync.Mutex
	// faults are why servers failed, by ID, as far as lists do not say so.
	faults map[string]servers.Fault
	// since is when a flavor in a zone was short, for each namespace: whether a host takes a server may depend on what only
	// the machines of that namespace ask for, such as an image.
	since map[shortPlace]time.Time
}

// shortPlace is a flavor in a zone for the machines of a namespace.
type shortPlace struct{ namespace, flavor, zone string }

// explain completes a listed server that failed with why it did. Nova's lists leave that out for a server
// that no host ever had; a read of the server itself has it, and one is enough.
func (s *shortages) explain(ctx context.Context, services *access.Services, server *servers.Server) {
	if server.Status != "ERROR" || server.Fault.Code != 0 {
		return
	}
	s.mu.Lock()
	known, ok := s.faults[server.ID]
	s.mu.Unlock()
	if ok {
		server.Fault = known
		return
	}
	// Whatever goes wrong here, the next list asks again.
	if read, err := servers.Get(ctx, services.Compute, server.ID).Extract(); err == nil && read.Fault.Code != 0 {
		server.Fault = servers.Fault{Code: read.Fault.Code, Created: read.Fault.Created, Message: strings.Clone(errorreason.Truncate(read.Fault.Message))}
		s.keep(server.ID, server.Fault)
	}
}

// keep remembers why a server failed. What does not fit is read again with the next list.
func (s *shortages) keep(id string, fault servers.Fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.faults == nil || len(s.faults) >= mostKept {
		s.faults = map[string]servers.Fault{}
	}
	if len(id) <= longestKey {
		s.faults[id] = fault
	}
}

// forget forgets why a server failed.
func (s *shortages) forget(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.faults, id)
}

// notice takes note of a server that found no host a moment ago.
func (s *shortages) notice(server servers.Server, now time.Time) {
	id, _ := attachments.Identity(server.Metadata)
	at := shortPlace{id.Owner.Namespace, server.Metadata[flavorKey], server.Metadata[zoneKey]}
	if !shortOf(server) || now.Sub(server.Fault.Created) >= asideFor || len(at.namespace)+len(at.flavor)+len(at.zone) > longestKey {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.since == nil {
		s.since = map[shortPlace]time.Time{}
	}
	maps.DeleteFunc(s.since, func(_ shortPlace, since time.Time) bool { return now.Sub(since) >= asideFor })
	since, known := s.since[at]
	if (known || len(s.since) < mostKept) && since.Before(server.Fault.Created) {
		s.since[at] = server.Fault.Created
	}
}

// short refuses what was short a moment ago.
func (s *shortages) short(namespace string, config Config, now time.Time) error {
	flavor, zone := place(config)
	s.mu.Lock()
	defer s.mu.Unlock()
	since, known := s.since[shortPlace{namespace, flavor, zone}]
	if !known || now.Sub(since) >= asideFor {
		return nil
	}
	return &driver.InsufficientCapacityError{InstanceType: flavor, Zone: zone, Err: errors.New("a server of this flavor found no host a moment ago")}
}
