// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package vcd

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/vmware/go-vcloud-director/v3/types/v56"

	"drover.io/infra-providers/driver"
)

// Delete implements driver.Driver. Each call does one step: it switches the virtual machine off or discards its memory, detaches
// each independent disk, which would be in an inconsistent state otherwise, and deletes the virtual machine with its own disks.
func (d *Driver) Delete(ctx context.Context, id driver.Identity) error {
	found, err := d.find(ctx, id)
	if err != nil {
		return err
	}
	if len(found) == 0 {
		d.forget(id)
		d.creations.Delete(id)
		return nil
	}
	if err := id.Check(found[0].identity); err != nil {
		return err
	}
	for _, m := range found {
		if id.Check(m.identity) != nil {
			continue
		}
		if err := d.remove(ctx, m); err != nil && !driver.IsUnfinished(err) { // busy: the caller reads it and repeats the call
			return err
		}
	}
	return nil
}

// remove does the next step of a deletion.
func (d *Driver) remove(ctx context.Context, m machine) error {
	path := vmPath(m.id)
	if m.isBusy() {
		return nil
	}
	if err := d.awaitRemoval(ctx, m); err != nil {
		return err
	}
	disks := attached(m.vm)
	switch {
	// What was switched off inside the guest may be deployed, too.
	case m.vm.Deployed || m.vm.Status == statusOn:
		request := &types.UndeployVAppParams{Xmlns: types.XMLNamespaceVCloud, UndeployPowerAction: "powerOff"}
		return d.removeBy(ctx, m, "switching the virtual machine off", http.MethodPost, path+"/action/undeploy", types.MimeUndeployVappParams, request)
	// The end of a runtime lease leaves this. It cannot be undeployed again, and its disks cannot be detached.
	case isSuspended(m.vm.Status):
		return d.removeBy(ctx, m, discarding, http.MethodPost, path+discardAction, "", nil)
	case len(disks) > 0:
		request := &types.DiskAttachOrDetachParams{Xmlns: types.XMLNamespaceVCloud, Disk: &types.Reference{HREF: disks[0].HREF}}
		return d.removeBy(ctx, m, "detaching the independent disk "+idOf(disks[0].HREF), http.MethodPost, path+"/disk/action/detach", types.MimeDiskAttachOrDetachParams, request)
	}
	return d.removeBy(ctx, m, "deleting the virtual machine", http.MethodDelete, path, "", nil)
}

// awaitRemoval fails while the task of the last step of a deletion is in progress, and once if it failed.
func (d *Driver) awaitRemoval(ctx context.Context, m machine) error {
	last, _ := d.deleting.Get(m.id)
	if last.task == "" {
		return nil
	}
	_, err := d.outcome(ctx, last)
	if _, failed := errors.AsType[*taskError](err); failed {
		d.deleting.Set(m.id, step{})
	}
	return err
}

// removeBy starts a task of a deletion. One that has ended without effect is reported before it is started again.
func (d *Driver) removeBy(ctx context.Context, m machine, what, method, path, contentType string, body any) error {
	switch last, _ := d.deleting.Get(m.id); {
	case last.what == what && last.task != "": // it may have ended after the virtual machine was read
		d.deleting.Set(m.id, step{what: what})
		return nil
	case last.what == what:
		d.deleting.Set(m.id, step{})
		return fmt.Errorf("%s: %w", what, errIneffective)
	}
	task, err := d.client.start(ctx, method, path, contentType, body)
	switch {
	case isAbsent(err):
		return d.confirm(ctx, m.id, fmt.Errorf("%s: %w", what, err))
	case err != nil:
		return fmt.Errorf("%s: %w", what, err)
	}
	d.deleting.Set(m.id, step{task: idOf(task.HREF), what: what})
	return nil
}
