// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package attachments

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/ports"
	"k8s.io/apimachinery/pkg/types"

	"drover.io/infra-providers/driver"
)

// ClaimTTL is how long a claim is valid after it was written. It is longer than any call of the services may take, so a
// server that was requested under the claim is listed, or will never be, when another caller takes over.
const ClaimTTL = 5 * time.Minute

const (
	claimPrefix = "claimed by "
	claimTime   = " at "
)

// Claim is the right to create the server of a machine. One caller has it at a time.
//
// Nova has no request that creates a server at most once, and two callers that list no server would both create one. So
// each caller first creates a port of its own with index 0, writes a claim of the machine into its description, and lists
// the claims of others:
//
//	no claim ──► create own port ──► write claim ──► list again ──► no other claim ──► the server may be created
//	   │ another claim                                   │ another claim
//	   └────────────────────────► ErrBusy ◄──────────────┘ (own port is deleted: both may do so, and neither continues)
//
// Of two callers at least one lists after both have written their claims, and withdraws. This requires of Neutron only
// that a list includes what an earlier response has confirmed. Neutron's conditional update (If-Match) is not a lock: under load on
// MariaDB updates that waited for each other are repeated without their condition, and five callers succeeded at once.
//
// After a caller ended without a result its claim blocks the machine until it expires.
//
// A request for a server that arrives after its claim expired and was taken over finds its port deleted, and is refused.
// If the clocks of the provider and of Neutron differ by more than ClaimTTL, there may be two servers: the driver keeps
// the older one and deletes the other.
type Claim struct {
	Ports Ports
	// Holder is the name of the caller. Calls with one name for one machine must not overlap, and after a call with an
	// unknown result the name must not be used again.
	Holder string
	Now    func() time.Time
}

// EnsurePorts claims a machine, creates the missing ports, deletes surplus ones and returns one per index. It fails with ErrBusy
// while another caller's claim is valid.
func (c Claim) EnsurePorts(ctx context.Context, id driver.Identity, wanted []ports.CreateOptsBuilder) ([]ports.Port, error) {
	have, err := c.Ports.owned(ctx, id)
	if err != nil {
		return nil, err
	}
	own, err := c.findOwnPort(id.UID, have)
	if err != nil {
		return nil, err
	}
	if own, err = c.claimPort(ctx, own, wanted[0]); err != nil {
		return nil, err
	}
	have, err = c.Ports.Ensure(ctx, id, wanted)
	if err == nil && c.isContested(id.UID, have, own) {
		err = fmt.Errorf("another caller claimed the machine too, or created its server: %w", ErrBusy)
	}
	if errors.Is(err, ErrBusy) {
		if err := c.Ports.delete(ctx, own); err != nil {
			return nil, err
		}
	}
	if err != nil {
		return nil, err
	}
	return c.deleteSurplus(ctx, id.UID, have, own)
}

// isContested reports whether another caller claims the machine, or has created its server.
func (c Claim) isContested(uid types.UID, have []ports.Port, own string) bool {
	return slices.ContainsFunc(have, func(port ports.Port) bool {
		return port.ID != own && portIndex(port, uid) == 0 && (c.isForeign(port) || port.DeviceID != "")
	})
}

// findOwnPort returns the port of an earlier claim of this caller; empty for none. It fails while another claim is valid.
func (c Claim) findOwnPort(uid types.UID, have []ports.Port) (id string, err error) {
	for _, port := range have {
		switch {
		case portIndex(port, uid) != 0:
		case port.DeviceID != "":
			return "", fmt.Errorf("port %q belongs to server %q, which is not listed: %w", port.ID, port.DeviceID, ErrBusy)
		case c.isForeign(port):
			return "", fmt.Errorf("port %q is %s: %w", port.ID, port.Description, ErrBusy)
		case id == "" && holder(port) == c.Holder:
			id = port.ID
		}
	}
	return id, nil
}

// claimPort claims the machine by the port of this caller, which it creates if there is none. An existing port without a
// claim is not used: another caller may be about to claim it.
func (c Claim) claimPort(ctx context.Context, own string, options ports.CreateOptsBuilder) (string, error) {
	if own == "" {
		created, err := ports.Create(ctx, c.Ports.Client, options).Extract()
		if err != nil {
			return "", &CreationError{"port 0", err}
		}
		logr.FromContextOrDiscard(ctx).Info("created port", "port", created.ID)
		own = created.ID
	}
	// The time makes the description unique, so Neutron updates the time of the change.
	description := claimPrefix + c.Holder + claimTime + c.Now().UTC().Format(time.RFC3339Nano)
	_, err := ports.Update(ctx, c.Ports.Client, own, ports.UpdateOpts{Description: &description}).Extract()
	if gophercloud.ResponseCodeIs(err, http.StatusNotFound) {
		return "", fmt.Errorf("the claimed port was deleted meanwhile: %w", ErrBusy)
	}
	if err != nil {
		return "", fmt.Errorf("claiming port: %w", err)
	}
	return own, nil
}

// holder returns the name of the caller that claims a machine by a port; empty for none.
func holder(port ports.Port) string {
	claim, claimed := strings.CutPrefix(port.Description, claimPrefix)
	if !claimed {
		return ""
	}
	name, _, _ := strings.Cut(claim, claimTime)
	return name
}

// isForeign reports whether a port has a valid claim of another caller.
func (c Claim) isForeign(port ports.Port) bool {
	by := holder(port)
	return by != "" && by != c.Holder && c.Now().Sub(port.UpdatedAt) < ClaimTTL
}

// deleteSurplus deletes all but one port per index. Only the holder of the claim does so.
func (c Claim) deleteSurplus(ctx context.Context, uid types.UID, have []ports.Port, own string) ([]ports.Port, error) {
	var kept []ports.Port
	found := false
	for _, port := range have {
		at := portIndex(port, uid)
		found = found || port.ID == own
		if at == 0 && port.ID != own || len(kept) > 0 && portIndex(kept[len(kept)-1], uid) == at {
			if err := c.Ports.delete(ctx, port.ID); err != nil {
				return nil, err
			}
			continue
		}
		kept = append(kept, port)
	}
	if !found {
		return nil, fmt.Errorf("the claimed port was deleted meanwhile: %w", ErrBusy)
	}
	return kept, nil
}
