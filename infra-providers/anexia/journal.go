// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package anexia

import (
	"context"
	"encoding/json"
	"errors"
	"net/netip"
	"slices"
	"time"

	"drover.io/infra-providers/driver"
)

// The journal of a machine is written before and after each request that makes something:
//
//	nothing ─► addresses ─► attempt ─(request)─► task ─► virtual machine ─(request)─► removal
//	             │ expire      │ no answer                  │ failed
//	             ▼             ▼                            ▼
//	          reserved      looked for by name until     looked for by name, then forgotten
//	          again         provisioningTime is over
const (
	// provisioningTime is how long a virtual machine may take to appear after its request. An absence counts only after it.
	provisioningTime = time.Hour
	// settleTime is how long one that a finished task names may take to be readable, and one that a failed task left to be
	// listed.
	settleTime = 15 * time.Minute
	// reservationTime is how long the cloud keeps an address that no virtual machine has yet, and reservationRest the part of it
	// that must be left for a request.
	reservationTime, reservationRest = 30 * time.Minute, 10 * time.Minute
)

// record is the entry of one machine.
type record struct {
	// Host is the host name; an entry with another one was copied from another object.
	Host string `json:"host"`
	// Addresses are reserved for it.
	Addresses []address `json:"addresses,omitempty"`
	// Attempt names the request for the virtual machine, Requested is when it was about to be sent.
	Attempt   string    `json:"attempt,omitempty"`
	Requested time.Time `json:"requested,omitzero"`
	// Task is the identifier of the provisioning.
	Task string `json:"task,omitempty"`
	// Failed is when the provisioning was found to have failed, and Reason why.
	Failed time.Time `json:"failed,omitzero"`
	Reason string    `json:"reason,omitempty"`
	// VM is the identifier of the virtual machine, and Known since when it is known, until it was read once.
	VM    string    `json:"vm,omitempty"`
	Known time.Time `json:"known,omitzero"`
	// Removal is the identifier of the deprovisioning, and Removed when it was requested.
	Removal string    `json:"removal,omitempty"`
	Removed time.Time `json:"removed,omitzero"`
}

// address is one that is reserved, for a network and from a prefix.
type address struct {
	Network int       `json:"network"`
	Prefix  string    `json:"prefix,omitempty"`
	ID      string    `json:"id,omitempty"`
	IP      string    `json:"ip"`
	Until   time.Time `json:"until,omitzero"`
}

var (
	errNoJournal = errors.New("the driver has no journal")
	errDamaged   = errors.New("the journal of the machine, the annotation infrastructure.drover.io/journal, is damaged")
	errCopied    = errors.New("the journal of the machine is that of another one: remove the annotation infrastructure.drover.io/journal")
	errOther     = errors.New("the journal of the machine has a request under its other UID: correct or remove the annotation infrastructure.drover.io/identity")
)

// page is the journal of one machine while a call lasts.
type page struct {
	record
	entry driver.Entry
	// missing is true where there is no object that could have a journal, copied where the entry is another machine's, and other,
	// too, where it is that of the machine's other UID, so that nothing was requested under this one.
	missing, copied, other bool
}

// load reads the journal of a machine.
func (d *Driver) load(ctx context.Context, id driver.Identity) (*page, error) {
	host, ok := hostName(id)
	if !ok {
		return &page{missing: true}, nil
	}
	if d.journal == nil {
		return nil, errNoJournal
	}
	entry, err := d.journal.Read(ctx, id)
	switch {
	case driver.IsNotFound(err):
		return &page{missing: true}, nil
	case err != nil:
		return nil, err
	}
	p := &page{entry: entry}
	if entry.Data == "" {
		p.Host = host
		if sent, ok := d.sent.Get(host); ok {
			p.record = sent // somebody has removed the annotation
			return p, d.store(ctx, id, p)
		}
		return p, nil
	}
	if err := p.parse(entry.Data); err != nil {
		return nil, err
	}
	if known, ok := parseName(p.Host); !ok || known.uid != id.UID || !known.of(id) {
		return &page{copied: true, other: ok && known.uid == entry.OtherUID && known.of(id)}, nil
	}
	return p, nil
}

// parse reads the text of an entry. The error of one that is none has no part of its text, which a user may have written.
func (p *page) parse(text string) error {
	if text == "" {
		return nil
	}
	if err := json.Unmarshal([]byte(text), &p.record); err != nil {
		return errDamaged
	}
	return nil
}

// store writes the journal of a machine. Where there is no object any more, nothing needs it.
func (d *Driver) store(ctx context.Context, id driver.Identity, p *page) error {
	switch {
	case p.missing:
		return nil
	case p.copied:
		return p.refusal()
	}
	text, err := json.Marshal(p.record)
	if err != nil {
		return err
	}
	entry, err := d.journal.Write(ctx, id, p.entry, string(text))
	if err == nil {
		p.entry = entry
	}
	return err
}

// refusal is why an entry of another one is not replaced.
func (p *page) refusal() error {
	if p.other {
		return errOther
	}
	return errCopied
}

// forget returns to a machine for which nothing was requested.
func (p *page) forget() { p.record = record{Host: p.Host} }

// known records the virtual machine of a machine.
func (p *page) known(vm string, now time.Time) { p.VM, p.Known = vm, now }

// learn records the virtual machine of a machine that is known now.
func (d *Driver) learn(ctx context.Context, id driver.Identity, p *page, vm string) error {
	if p.VM == vm || p.copied {
		return nil
	}
	p.known(vm, d.now())
	return d.store(ctx, id, p)
}

// checked returns a virtual machine that was read if it is the machine's own, and records that it was: from then on it is gone
// when it is missing. The next read repeats a write that failed.
func (d *Driver) checked(ctx context.Context, id driver.Identity, p *page, read *info) (driver.Instance, error) {
	shown := d.toInstance(read, id, p.record)
	d.remember(read, shown)
	found, err := id.Checked(shown)
	if known := p.Known; err == nil && read.Identifier == p.VM && !known.IsZero() {
		p.Known = time.Time{}
		if d.store(ctx, id, p) != nil {
			p.Known = known
		}
	}
	return found, err
}

// isEnding reports whether the provisioning has failed, or the removal was requested.
func (r record) isEnding() bool { return !r.Failed.IsZero() || r.Removal != "" }

// hasIP reports whether an address was reserved for the machine, in whichever form it is written.
func (r record) hasIP(ip netip.Addr) bool {
	return slices.ContainsFunc(r.Addresses, func(reserved address) bool {
		parsed, err := netip.ParseAddr(reserved.IP)
		return err == nil && parsed == ip
	})
}

// now is the time with the precision of the journal.
func (d *Driver) now() time.Time { return d.clock.Now().UTC().Truncate(time.Second) }
