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

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/ports"
	"k8s.io/apimachinery/pkg/types"

	"drover.io/infra-providers/driver"
)

// claimFor is how long a claim counts. It is longer than any call of the services may take, so that a
// server that was asked for under the claim is listed, or will never be, when somebody else takes over.
const claimFor = 5 * time.Minute

const (
	claimPrefix = "claimed by "
	claimTime   = " at "
)

// Claim is the right to make the server of a machine, which one caller has at a time.
//
// Nova cannot be asked to make a server only once, and two callers that list nothing would both create. So each
// caller first makes a port of its own in the first place, writes into its description that it claims the machine,
// and looks who else does:
//
//	nobody claims ─► make my port ─► claim by it ─► list again ─► alone? ─► the server may be made
//	      │ somebody does                                           │ somebody else claims too
//	      └─────────────────────► not mine ◄────────────────────────┘ (I withdraw my port: both may, neither goes on)
//
// Of two callers at least one lists after both have claimed, and withdraws. That asks nothing of Neutron but that
// a list shows what was answered before. Its conditional update (If-Match) is no lock: on MariaDB a busy one repeats
// updates that waited for each other without their condition, and granted one swap to five callers.
//
// A caller that died holds the machine up until its claim has aged.
//
// A request for a server that arrives after its claim aged and was taken over finds its port removed, and is
// refused. Should this clock and Neutron's differ by more than the age of a claim, there may be two servers all the
// same: the driver keeps the older and removes the other.
type Claim struct {
	Ports Ports
	// Holder names the caller. Calls under one name for one machine must not overlap, and one whose server
	// may or may not come must not be followed by another.
	Holder string
	Now    func() time.Time
}

// Take claims a machine, makes those of the wanted ports that are missing, removes those that are too many and
// returns one per place. It fails with ErrBusy when another caller is at it.
func (c Claim) Take(ctx context.Context, id driver.Identity, wanted []ports.CreateOptsBuilder) ([]ports.Port, error) {
	have, err := c.Ports.owned(ctx, id)
	if err != nil {
		return nil, err
	}
	mine, err := c.mine(id.UID, have)
	if err != nil {
		return nil, err
	}
	if mine, err = c.announce(ctx, mine, wanted[0]); err != nil {
		return nil, err
	}
	have, err = c.Ports.Ensure(ctx, id, wanted)
	if err == nil && c.contested(id.UID, have, mine) {
		err = fmt.Errorf("another caller claimed the machine too, or made its server: %w", ErrBusy)
	}
	if errors.Is(err, ErrBusy) {
		if err := c.Ports.remove(ctx, mine); err != nil {
			return nil, err
		}
	}
	if err != nil {
		return nil, err
	}
	return c.tidy(ctx, id.UID, have, mine)
}

// contested reports whether somebody else claims the machine, or has made its server.
func (c Claim) contested(uid types.UID, have []ports.Port, mine string) bool {
	return slices.ContainsFunc(have, func(port ports.Port) bool {
		return port.ID != mine && place(port, uid) == 0 && (c.foreign(port) || port.DeviceID != "")
	})
}

// mine finds the port of an earlier claim of this caller; empty for none. It fails while another's counts.
func (c Claim) mine(uid types.UID, have []ports.Port) (id string, err error) {
	for _, port := range have {
		switch {
		case place(port, uid) != 0:
		case port.DeviceID != "":
			return "", fmt.Errorf("port %q belongs to server %q, which is not listed: %w", port.ID, port.DeviceID, ErrBusy)
		case c.foreign(port):
			return "", fmt.Errorf("port %q is %s: %w", port.ID, port.Description, ErrBusy)
		case id == "" && holder(port) == c.Holder:
			id = port.ID
		}
	}
	return id, nil
}

// announce claims the machine by the port of this caller, which it makes if there is none. A port that is there
// already and nobody's may be about to be claimed by another.
func (c Claim) announce(ctx context.Context, mine string, options ports.CreateOptsBuilder) (string, error) {
	if mine == "" {
		made, err := ports.Create(ctx, c.Ports.Client, options).Extract()
		if err != nil {
			return "", &CreationError{"port 0", err}
		}
		mine = made.ID
	}
	// With the time the words are new, and Neutron notes when something changed.
	words := claimPrefix + c.Holder + claimTime + c.Now().UTC().Format(time.RFC3339Nano)
	_, err := ports.Update(ctx, c.Ports.Client, mine, ports.UpdateOpts{Description: &words}).Extract()
	if gophercloud.ResponseCodeIs(err, http.StatusNotFound) {
		return "", fmt.Errorf("the claimed port is gone again: %w", ErrBusy)
	}
	if err != nil {
		return "", fmt.Errorf("claiming port: %w", err)
	}
	return mine, nil
}

// holder is who claims a machine by a port; empty for nobody.
func holder(port ports.Port) string {
	claim, claimed := strings.CutPrefix(port.Description, claimPrefix)
	if !claimed {
		return ""
	}
	name, _, _ := strings.Cut(claim, claimTime)
	return name
}

// foreign reports whether a port carries somebody else's claim that still counts.
func (c Claim) foreign(port ports.Port) bool {
	by := holder(port)
	return by != "" && by != c.Holder && c.Now().Sub(port.UpdatedAt) < claimFor
}

// tidy removes all but one port per place. Only the holder of the claim does so.
func (c Claim) tidy(ctx context.Context, uid types.UID, have []ports.Port, mine string) ([]ports.Port, error) {
	var kept []ports.Port
	found := false
	for _, port := range have {
		at := place(port, uid)
		found = found || port.ID == mine
		if at == 0 && port.ID != mine || len(kept) > 0 && place(kept[len(kept)-1], uid) == at {
			if err := c.Ports.remove(ctx, port.ID); err != nil {
				return nil, err
			}
			continue
		}
		kept = append(kept, port)
	}
	if !found {
		return nil, fmt.Errorf("the claimed port is gone again: %w", ErrBusy)
	}
	return kept, nil
}
