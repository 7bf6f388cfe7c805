// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package anexia

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"drover.io/infra-providers/driver"
)

// Delete implements driver.Driver. A virtual machine that is being provisioned cannot be deprovisioned, so its deletion waits.
// Its disks and its addresses go with it; an address that no virtual machine got cannot be released, and expires.
func (d *Driver) Delete(ctx context.Context, id driver.Identity) error {
	return driver.WithoutInvalidConfiguration(toError(d.delete(ctx, id)))
}

func (d *Driver) delete(ctx context.Context, id driver.Identity) error {
	p, err := d.load(ctx, id)
	if err != nil {
		return err
	}
	target := cmp.Or(parseProviderID(id.ProviderID), p.VM)
	if target == "" {
		vm, err := d.outcome(ctx, id, p)
		if err != nil || vm == "" {
			return err
		}
		target = vm
		if err := d.learn(ctx, id, p, target); err != nil {
			return err
		}
	}
	over, err := d.removalIsOver(ctx, p)
	if err != nil {
		return err
	}
	listed, err := d.readOrList(ctx, id, p, target)
	if err != nil || listed == nil {
		return err
	}
	if target, err = d.ownTarget(ctx, id, p, *listed); err != nil {
		return err
	}
	if p.Removal != "" && p.VM == target && !over {
		return nil
	}
	return d.deprovision(ctx, id, p, target)
}

// ownTarget returns the identifier of the virtual machine to delete, which must be the machine's own. Where the journal, which a user
// may have changed, names another one's, it is the machine's own by its name: what the journal names else does not count, but that
// there was a request.
func (d *Driver) ownTarget(ctx context.Context, id driver.Identity, p *page, listed vm) (string, error) {
	_, refused := id.Checked(d.toListed(listed, id, p.record))
	if refused == nil || id.ProviderID != "" || p.VM == "" {
		return listed.Identifier, refused
	}
	p.record = record{Host: p.Host, Attempt: p.Attempt, Requested: p.Requested}
	own, err := d.findByName(ctx, id, p)
	if err == nil && own == "" {
		err = refused
	}
	return own, err
}

// readOrList returns a virtual machine by a direct read, or from the list of all where that does not show it or fails: another one
// of the machine, too, which a request without an answer may have left. It is nil if there is none.
func (d *Driver) readOrList(ctx context.Context, id driver.Identity, p *page, target string) (*vm, error) {
	read, unread := d.client.info(ctx, target)
	if unread != nil && (!isFailure(unread) || !p.isEnding() && !d.hasFailedBefore(target)) { // one failure may pass
		return nil, unread
	}
	if read != nil {
		return &read.vm, nil
	}
	for listed, err := range d.all(ctx) {
		if err != nil {
			return nil, err
		}
		if parsed, ok := parseName(listed.Name); listed.Identifier == target || ok && parsed.uid == id.UID && parsed.of(id) {
			return &listed, nil
		}
	}
	return nil, unread // what cannot be read is not gone
}

// hasFailedBefore records that the Engine failed to read a virtual machine, and reports whether that is not the first time.
func (d *Driver) hasFailedBefore(vm string) bool {
	_, before := d.unread.GetOrSet(vm, struct{}{})
	return before
}

// deprovision requests the removal of a virtual machine whose name was checked, and records it.
func (d *Driver) deprovision(ctx context.Context, id driver.Identity, p *page, target string) error {
	d.infos.Delete(target)
	if task, ok := d.removals.Get(target); ok && p.Removal != task {
		return d.recordRemoval(ctx, id, p, target, task) // it could not be recorded before
	}
	answer, err := d.client.deprovision(ctx, target)
	switch {
	case isNotFound(err):
		return nil
	case isConflict(err): // its removal was requested before by a call whose answer was lost, or another task runs
		d.conflicts.Set(target, "its removal is under way, or not possible now: "+err.Error())
		return nil
	case err != nil:
		return fmt.Errorf("deprovisioning virtual machine %s: %w", target, err)
	case answer.Identifier == "":
		return answer.unnamed()
	}
	d.conflicts.Delete(target)
	d.removals.Set(target, answer.Identifier)
	return d.recordRemoval(ctx, id, p, target, answer.Identifier)
}

func (d *Driver) recordRemoval(ctx context.Context, id driver.Identity, p *page, target, task string) error {
	p.VM, p.Known = target, time.Time{}
	p.Removal, p.Removed = task, d.now()
	return d.store(ctx, id, p)
}

// removalIsOver reports whether there is a task of a removal that is over, however it ended, or is not known any more. It is
// read before the virtual machine, which a task that ended successfully does not leave.
func (d *Driver) removalIsOver(ctx context.Context, p *page) (bool, error) {
	if p.Removal == "" {
		return false, nil
	}
	progress, err := d.client.progress(ctx, p.Removal)
	switch {
	case isNotFound(err):
		return d.clock.Since(p.Removed) > settleTime, nil
	case err != nil:
		return false, fmt.Errorf("reading the progress of the removal: %w", err)
	default:
		return progress.failed() || progress.Progress >= complete || d.clock.Since(p.Removed) > provisioningTime, nil
	}
}
