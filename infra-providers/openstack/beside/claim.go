// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package beside

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/ports"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
)

// claimFor is how long a claim counts. It is longer than any call of the services may take, so that a
// server that was asked for under the claim is listed, or will never be, when somebody else takes over.
const claimFor = 5 * time.Minute

const claimPrefix = "claimed by "

// Claim is the right to make the server of a machine, which one caller has at a time.
//
// Nova cannot be asked to make a server only once, and two callers that list nothing would both create.
// Neutron, however, can compare and swap: an update with If-Match fails if the port changed meanwhile. So
// the first port of a machine carries the claim in its description:
//
//	ports exist ─► swap in my name ─► list again ─► alone? ─► the server may be made
//	                    │ 412                          │ another port of that place is claimed
//	                    └──────────► not mine ◄────────┘ (I withdraw: both may, neither goes on)
//
// Ports have no unique names, so two callers may have made one each. Whoever claims lists afterwards; of
// two that claim different ports at least one lists after both claimed, and withdraws. A caller that died
// holds the machine up until its claim has aged.
//
// Should a server be asked for under a claim that aged and was taken over all the same, or should this clock
// and Neutron's differ by more than the age of a claim, both servers ask for the same port. Nova refuses it
// to the second on one host, takes it from the first while it cleans up, and may grant it on the next host:
// a port is no lock. The driver then keeps the older server and removes the other. The same happens where
// Neutron grants the swap to several: on MariaDB a busy one answered five that waited for each other with 200.
type Claim struct {
	Ports Ports
	// Holder names the caller. Calls under one name for one machine must not overlap, and one whose server
	// may or may not come must not be followed by another.
	Holder string
	Now    func() time.Time
}

// Take claims a machine by its ports, as Ports.Ensure returned them, removes those that are too many and
// returns one per place. It fails with ErrBusy when another caller is at it.
func (c Claim) Take(ctx context.Context, uid types.UID, have []ports.Port) ([]ports.Port, error) {
	anchor, err := c.anchor(uid, have)
	if err != nil {
		return nil, err
	}
	update := ports.UpdateOpts{Description: ptr.To(claimPrefix + c.Holder), RevisionNumber: &anchor.RevisionNumber}
	_, err = ports.Update(ctx, c.Ports.Client, anchor.ID, update).Extract()
	switch {
	case gophercloud.ResponseCodeIs(err, http.StatusPreconditionFailed), gophercloud.ResponseCodeIs(err, http.StatusNotFound):
		return nil, fmt.Errorf("another caller claimed the machine first: %w", ErrBusy)
	case err != nil:
		return nil, fmt.Errorf("claiming port: %w", err)
	}
	if have, err = c.Ports.Find(ctx, uid); err != nil {
		return nil, fmt.Errorf("listing ports: %w", err)
	}
	for _, port := range have {
		if port.ID != anchor.ID && place(port, uid) == 0 && c.foreign(port) {
			if err := c.Ports.remove(ctx, anchor.ID); err != nil {
				return nil, err
			}
			return nil, fmt.Errorf("another caller claimed the machine too: %w", ErrBusy)
		}
	}
	return c.tidy(ctx, uid, have, anchor.ID)
}

// anchor chooses the port that carries the claim.
func (c Claim) anchor(uid types.UID, have []ports.Port) (ports.Port, error) {
	var chosen *ports.Port
	for at, port := range have {
		switch {
		case place(port, uid) != 0:
		case port.DeviceID != "":
			return ports.Port{}, fmt.Errorf("port %q belongs to server %q, which is not listed: %w", port.ID, port.DeviceID, ErrBusy)
		case c.foreign(port):
			return ports.Port{}, fmt.Errorf("port %q is %s: %w", port.ID, port.Description, ErrBusy)
		case chosen == nil:
			chosen = &have[at]
		}
	}
	if chosen == nil {
		return ports.Port{}, fmt.Errorf("the first port is gone again: %w", ErrBusy)
	}
	return *chosen, nil
}

// foreign reports whether somebody else's claim on a port still counts.
func (c Claim) foreign(port ports.Port) bool {
	holder, claimed := strings.CutPrefix(port.Description, claimPrefix)
	return claimed && holder != c.Holder && c.Now().Sub(port.UpdatedAt) < claimFor
}

// tidy removes all but one port per place. Only the holder of the claim does so.
func (c Claim) tidy(ctx context.Context, uid types.UID, have []ports.Port, anchor string) ([]ports.Port, error) {
	var kept []ports.Port
	found := false
	for _, port := range have {
		at := place(port, uid)
		found = found || port.ID == anchor
		if at == 0 && port.ID != anchor || len(kept) > 0 && place(kept[len(kept)-1], uid) == at {
			if err := c.Ports.remove(ctx, port.ID); err != nil {
				return nil, err
			}
			continue
		}
		kept = append(kept, port)
	}
	if !found {
		return nil, fmt.Errorf("the first port is gone again: %w", ErrBusy)
	}
	return kept, nil
}
