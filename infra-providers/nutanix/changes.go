// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package nutanix

import (
	"context"
	"errors"
	"fmt"
	"time"

	tasks "github.com/nutanix/ntnx-api-golang-clients/prism-go-client/v4/models/prism/v4/config"

	"drover.io/infra-providers/driver"
	"drover.io/infra-providers/nutanix/prism"
)

// failure is why a change failed, and until when it is not tried again.
type failure struct {
	reason string
	until  time.Time
}

// retryPause is how long a change that has failed is not tried again, unless Prism Central says that the failure passes.
const retryPause = time.Minute

// isChanging reports whether a task that this process started still deletes or detaches something. One that has failed, or that
// is not known any more, is forgotten, so that it is started again; the reason is kept.
func (d *Driver) isChanging(ctx context.Context, what string) (bool, error) {
	task, err := d.changeOf(ctx, what)
	return task != nil, err
}

// listedChanges is isChanging for the entries of one list: it reads a task that was read or begun retryPause ago or earlier, and
// otherwise reports what is remembered, as it does for the rest of a list where a task could not be read.
type listedChanges struct {
	driver     *Driver
	unreadable bool
}

func (c *listedChanges) has(ctx context.Context, what string) bool {
	d := c.driver
	if !d.changes.Has(what) {
		return false
	}
	if c.unreadable || !d.asked.Allow(what) {
		return true
	}
	_, err := d.isChanging(ctx, what)
	c.unreadable = err != nil
	return c.unreadable || d.changes.Has(what)
}

// begin records the task that deletes or detaches something.
func (d *Driver) begin(what string, task prism.Begun) {
	d.asked.Mark(what)
	d.changes.Set(what, task.TaskID)
}

// changeOf returns the task that this process started to delete or detach something, or nil.
func (d *Driver) changeOf(ctx context.Context, what string) (*tasks.Task, error) {
	taskID, ok := d.changes.Get(what)
	if !ok {
		return nil, nil
	}
	d.asked.Mark(what)
	task, err := d.readTask(ctx, taskID)
	if err != nil {
		return nil, err
	}
	switch {
	case hasSucceeded(task):
		d.failures.Delete(what)
	case task == nil:
		d.changes.Delete(what)
	case hasEnded(task):
		if !d.forget(what, taskID) { // another caller has read it too, and begun the next one
			return d.changeOf(ctx, what)
		}
		failed := failure{reason: driver.Brief(errors.New(taskReason(task))).Error()} // a Secret names the server
		if !isRetryable(task) {
			failed.until = d.clock.Now().Add(retryPause)
		}
		d.failures.Set(what, failed)
		return nil, nil
	}
	return task, nil
}

// forget forgets a task that deletes or detaches something, and reports whether no other one has begun since it was read.
func (d *Driver) forget(what, taskID string) (last bool) {
	d.changes.Update(what, func(current string, found bool) (string, bool) {
		last = !found || current == taskID
		return current, !last
	})
	return last
}

// hasFailed reports whether a change failed so short a time ago that it is not tried again yet.
func (d *Driver) hasFailed(what string) bool {
	failed, ok := d.failures.Get(what)
	return ok && d.clock.Now().Before(failed.until)
}

// attachment is the key of the changes of a volume group that is attached to a virtual machine.
func attachment(group, vmID string) string { return group + "/" + vmID }

// removalFailure is why the last attempt to delete a virtual machine, or to detach its volume groups before, has failed; empty if
// none has.
func (d *Driver) removalFailure(vm virtualMachine) string {
	if failed, ok := d.failures.Get(vm.instance.ID); ok {
		return "the last attempt to delete the virtual machine failed: " + failed.reason
	}
	for _, group := range vm.groups {
		if failed, ok := d.failures.Get(attachment(group, vm.instance.ID)); ok {
			return fmt.Sprintf("the last attempt to detach the volume group %q failed: %s", group, failed.reason)
		}
	}
	return ""
}
