// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package vsphere_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/vmware/govmomi/object"
	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25/types"

	infrav1 "drover.io/api/infrastructure/v1alpha1"
	"drover.io/infra-providers/driver"
	"drover.io/infra-providers/vsphere"
	"drover.io/infra-providers/vsphere/vcenter"
)

// clone is a task of vCenter that lasts until the test ends it, in place of the next clone.
type clone struct {
	end  chan types.BaseMethodFault
	task *simulator.Task
	// answer is what the next clone gets.
	answer *rule
}

// holdClone answers the next clone with a task that the test holds. Nothing is cloned.
func (w *env) holdClone() *clone {
	w.t.Helper()
	held := &clone{end: make(chan types.BaseMethodFault)}
	// vcsim locks what a task is about, so this one is about a virtual machine that that does not exist.
	bystander := types.ManagedObjectReference{Type: "VirtualMachine", Value: "vm-bystander"}
	held.task = simulator.CreateTask(bystander, "clone", func(*simulator.Task) (types.AnyType, types.BaseMethodFault) {
		return nil, <-held.end
	})
	ref := held.task.Run(w.model.Service.Context)
	const body = `<?xml version="1.0" encoding="UTF-8"?><soapenv:Envelope xmlns:soapenv="http://schemas.xmlsoap.org/soap/envelope/" xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance"><soapenv:Body><CloneVM_TaskResponse xmlns="urn:vim25"><returnval type="Task">%s</returnval></CloneVM_TaskResponse></soapenv:Body></soapenv:Envelope>`
	held.answer = &rule{methods: []string{"CloneVM_Task"}, answer: &answer{status: http.StatusOK, body: fmt.Sprintf(body, ref.Value)}}
	w.wire.add(held.answer)
	return held
}

// fail ends the clone with a fault.
func (c *clone) fail(fault types.BaseMethodFault) {
	c.end <- fault
	c.task.Wait()
}

// TestPendingClone: while vCenter clones, the machine is pending, is listed and has its provider ID, and no call returns
// NotFound.
func TestPendingClone(t *testing.T) {
	t.Parallel()
	w := newEnv(t)
	d, id := w.connect(), identity("1")
	held := w.holdClone()
	made, err := d.Create(t.Context(), req(w, id))
	if err != nil {
		t.Fatal(err)
	}
	if made.State != driver.Pending || made.ProviderID != "vsphere://"+string(id.UID) {
		t.Errorf("made %+v", made)
	}
	id.ProviderID = made.ProviderID
	for verb, call := range map[string]func() (driver.Instance, error){
		"get":    func() (driver.Instance, error) { return d.Get(t.Context(), id) },
		"create": func() (driver.Instance, error) { return d.Create(t.Context(), req(w, id)) },
	} {
		if found, err := call(); err != nil || found.State != driver.Pending || !found.Created.Equal(made.Created) {
			t.Errorf("%s: got %+v and %v", verb, found, err)
		}
	}
	if got := w.wire.count("CloneVM_Task"); got != 1 {
		t.Errorf("%d clones were asked for, want 1", got)
	}
	listed := 0
	for found, err := range d.List(t.Context(), id.Owner) {
		if err != nil || found.ProviderID != made.ProviderID {
			t.Errorf("listed %+v and %v", found, err)
		}
		listed++
	}
	if listed != 1 {
		t.Errorf("listed %d, want 1", listed)
	}
	held.fail(&types.RequestCanceled{})
}

// TestRestartDuringAClone: another process has no record of the clone that is under way, so it must not return NotFound.
func TestRestartDuringAClone(t *testing.T) {
	t.Parallel()
	w := newEnv(t)
	id := identity("1")
	held := w.holdClone()
	if _, err := w.connect().Create(t.Context(), req(w, id)); err != nil {
		t.Fatal(err)
	}
	restarted := w.restart()
	if _, err := restarted.Get(t.Context(), id); err == nil || driver.IsNotFound(err) {
		t.Errorf("reading: got %v, want a passing error", err)
	}
	if err := restarted.Delete(t.Context(), id); err == nil {
		t.Error("deleting succeeded before it was certain what exists")
	}
	held.fail(&types.RequestCanceled{})
	if _, err := restarted.Get(t.Context(), id); !driver.IsNotFound(err) {
		t.Errorf("reading after the clone ended: got %v, want a NotFoundError", err)
	}
	if err := restarted.Delete(t.Context(), id); err != nil {
		t.Errorf("deleting after the clone ended: %v", err)
	}
}

// TestCloneThatEndsDuringARead: the virtual machine does not exist when it is read, and its task has ended when that is
// read.
func TestCloneThatEndsDuringARead(t *testing.T) {
	t.Parallel()
	for verb, look := range map[string]func(*vsphere.Driver, driver.Identity) error{
		"get": func(d *vsphere.Driver, id driver.Identity) error {
			_, err := d.Get(t.Context(), id)
			return err
		},
		"delete": func(d *vsphere.Driver, id driver.Identity) error {
			if err := d.Delete(t.Context(), id); err != nil {
				return err
			}
			if found, err := d.Get(t.Context(), id); !driver.IsNotFound(err) && found.State != driver.Stopping {
				return fmt.Errorf("got %+v and %w, want it to be stopping", found, err)
			}
			return nil
		},
	} {
		t.Run(verb, func(t *testing.T) {
			t.Parallel()
			w := newEnv(t)
			before, id := w.connect(), identity("1")
			w.wire.add(&rule{methods: []string{"CurrentTime"}, before: func() {
				if _, err := before.Create(t.Context(), req(w, id)); err != nil {
					t.Error(err)
				}
			}})
			if err := look(w.restart(), id); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestCloneWithALostAnswer: its task is not known, so that reads fail until it has ended.
func TestCloneWithALostAnswer(t *testing.T) {
	t.Parallel()
	w := newEnv(t)
	d, id, other := w.connect(), identity("1"), identity("2")
	if _, err := d.Get(t.Context(), other); !driver.IsNotFound(err) {
		t.Fatalf("got %v, want a NotFoundError", err)
	}
	held := w.holdClone()
	held.answer.lost = true
	if _, err := d.Create(t.Context(), req(w, id)); err == nil {
		t.Fatal("the answer was not lost")
	}
	if _, err := d.Get(t.Context(), id); err == nil || driver.IsNotFound(err) {
		t.Errorf("reading: got %v, want a passing error", err)
	}
	if err := d.Delete(t.Context(), id); err == nil {
		t.Error("deleting succeeded before it was certain what exists")
	}
	held.fail(&types.RequestCanceled{})
	if _, err := d.Get(t.Context(), id); !driver.IsNotFound(err) {
		t.Errorf("reading after the clone ended: got %v, want a NotFoundError", err)
	}
}

// TestKnownCloneOfAnotherMachine: it is another machine's.
func TestKnownCloneOfAnotherMachine(t *testing.T) {
	t.Parallel()
	w := newEnv(t)
	d := w.connect()
	held := w.holdClone()
	if _, err := d.Create(t.Context(), req(w, identity("1"))); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if _, err := d.Get(t.Context(), identity("2")); !driver.IsNotFound(err) {
			t.Errorf("got %v, want a NotFoundError", err)
		}
	}
	if got := w.wire.count("CurrentTime"); got != 1 {
		t.Errorf("clones under way were read %d times, want once", got)
	}
	held.fail(&types.RequestCanceled{})
}

// TestFailedCloneIsRepeated by Provision: Create is not called again once there is a provider ID.
func TestFailedCloneIsRepeated(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		fault types.BaseMethodFault
		is    func(error) bool
	}{
		"for lack of memory": {&types.InsufficientMemoryResourcesFault{}, driver.IsInsufficientCapacity},
		"as a refusal":       {&types.InvalidArgument{InvalidProperty: "spec.location"}, driver.IsInvalidConfiguration},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newEnv(t)
			w.stopClock()
			d, id := w.connect(), identity("1")
			held := w.holdClone()
			made, err := d.Create(t.Context(), req(w, id))
			if err != nil {
				t.Fatal(err)
			}
			id.ProviderID = made.ProviderID
			held.fail(test.fault)
			for range 2 {
				if _, err := d.Get(t.Context(), id); !test.is(err) {
					t.Errorf("got %v, want the kind of the failure", err)
				}
			}
			if got := w.wire.count("CloneVM_Task"); got != 1 {
				t.Errorf("%d clones were asked for before the pause was over, want 1", got)
			}
			w.ahead.Add(int64(time.Minute))
			if found, err := d.Get(t.Context(), id); err != nil || found.State != driver.Pending || !found.StepDue {
				t.Errorf("after the pause: got %+v and %v, want it to be Pending with a step due", found, err)
			}
			if got := w.wire.count("CloneVM_Task"); got != 1 {
				t.Errorf("%d clones were asked for by reading, want 1", got)
			}
			await(t, d, id, driver.Running)
			if got := w.wire.count("CloneVM_Task"); got != 2 {
				t.Errorf("%d clones were asked for, want 2", got)
			}
		})
	}
}

// TestFailedCloneIsNotListed: the inventory answers from lists, and only a read returns the failure.
func TestFailedCloneIsNotListed(t *testing.T) {
	t.Parallel()
	w := newEnv(t)
	d, id := w.connect(), identity("1")
	held := w.holdClone()
	if _, err := d.Create(t.Context(), req(w, id)); err != nil {
		t.Fatal(err)
	}
	if found := listed(t, d, string(id.UID)); found.State != driver.Pending || found.StepDue {
		t.Errorf("listed as %+v while the clone is under way, want it to be Pending with no step due", found)
	}
	held.fail(&types.InsufficientMemoryResourcesFault{})
	if found := listed(t, d, string(id.UID)); found.ID != "" {
		t.Errorf("listed as %+v after the clone failed, want nothing", found)
	}
	if _, err := d.Get(t.Context(), id); !driver.IsInsufficientCapacity(err) {
		t.Errorf("got %v, want an InsufficientCapacityError", err)
	}
}

// TestDeleteDuringAClone cancels it, where vCenter permits that, and does not repeat it.
func TestDeleteDuringAClone(t *testing.T) {
	t.Parallel()
	for _, cancelable := range []bool{true, false} {
		t.Run(fmt.Sprintf("cancelable %t", cancelable), func(t *testing.T) {
			t.Parallel()
			w := newEnv(t)
			d, id := w.connect(), identity("1")
			held := w.holdClone()
			held.task.Info.Cancelable = cancelable
			if _, err := d.Create(t.Context(), req(w, id)); err != nil {
				t.Fatal(err)
			}
			for range 2 {
				if err := d.Delete(t.Context(), id); err != nil {
					t.Fatal(err)
				}
			}
			want := 0
			if cancelable {
				want = 1
			} else if found, err := d.Get(t.Context(), id); err != nil || found.State != driver.Stopping {
				t.Errorf("got %+v and %v, want it to be stopping", found, err)
			}
			if got := w.wire.count("CancelTask"); got != want {
				t.Errorf("the clone was cancelled %d times, want %d", got, want)
			}
			held.fail(&types.RequestCanceled{})
			await(t, d, id, driver.Terminated)
			if got := w.wire.count("CloneVM_Task"); got != 1 {
				t.Errorf("%d clones were asked for, want 1", got)
			}
		})
	}
}

// TestForeignVirtualMachineOfTheSameName: the folder holds a virtual machine of that name that is not ours.
func TestForeignVirtualMachineOfTheSameName(t *testing.T) {
	t.Parallel()
	w := newEnv(t)
	d, id := w.connect(), identity("1")
	source := w.find(template)
	pool, err := source.ResourcePool(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	folder, err := w.finder.DefaultFolder(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ref := pool.Reference()
	w.do(source.Clone(t.Context(), folder, id.Name, types.VirtualMachineCloneSpec{Location: types.VirtualMachineRelocateSpec{Pool: &ref}}))
	if _, err := d.Create(t.Context(), req(w, id)); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Get(t.Context(), id); !driver.IsNotOwned(err) {
		t.Errorf("reading: got %v, want a NotOwnedError", err)
	}
	if err := d.Delete(t.Context(), id); err != nil {
		t.Errorf("deleting: %v", err)
	}
	await(t, d, id, driver.Terminated)
	if _, err := w.finder.VirtualMachine(t.Context(), id.Name); err != nil {
		t.Errorf("the foreign virtual machine: %v", err)
	}
}

// TestProvisionByAnotherProcess takes each step with another process.
func TestProvisionByAnotherProcess(t *testing.T) {
	t.Parallel()
	w := newEnv(t)
	id := identity("1")
	if _, err := w.connect().Create(t.Context(), req(w, id)); err != nil {
		t.Fatal(err)
	}
	id.ProviderID = "vsphere://" + string(id.UID)
	steps := 0
	for ; steps < 20; steps++ {
		found, err := w.restart().Provision(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		if found.State == driver.Running && option(w.machine("worker-1"), "drover.plan") == "" {
			break
		}
	}
	if steps == 0 || steps == 20 {
		t.Errorf("it took %d steps", steps)
	}
	if got := w.wire.count("CloneVM_Task"); got != 1 {
		t.Errorf("%d clones were asked for, want 1", got)
	}
	for range 20 {
		if err := w.restart().Delete(t.Context(), id); err != nil {
			t.Fatal(err)
		}
	}
	if left := w.leftovers(); len(left) > 0 {
		t.Errorf("the cloud still has %q", left)
	}
}

// TestReadsTakeNoStep: only Provision changes a virtual machine that is not finished.
func TestReadsTakeNoStep(t *testing.T) {
	t.Parallel()
	w := newEnv(t)
	d, id := w.connect(), identity("1")
	if _, err := d.Create(t.Context(), req(w, id)); err != nil {
		t.Fatal(err)
	}
	before := w.wire.changes()
	for range 10 {
		if found := listed(t, d, string(id.UID)); found.State != driver.Pending || !found.StepDue {
			t.Fatalf("listed as %+v, want it to be Pending with a step due", found)
		}
		if found, err := d.Get(t.Context(), id); err != nil || found.State != driver.Pending || !found.StepDue {
			t.Fatalf("got %+v and %v, want it to be Pending with a step due", found, err)
		}
	}
	if got := w.wire.changes() - before; got != 0 {
		t.Errorf("reading made %d changes, want none", got)
	}
	await(t, d, id, driver.Running)
	until(t, "the end of the plan", func() bool { return option(w.machine("worker-1"), "drover.plan") == "" })
	listed(t, d, string(id.UID)) // which reads the task of the last step once
	w.wire.reset()
	listed(t, d, string(id.UID))
	if got := w.wire.total(); got != 3 {
		t.Errorf("a list of settled machines costs %d calls, want 3: view, page, end of the view", got)
	}
}

// TestOwnDisksAreDeleted: only what others attached is taken off first.
func TestOwnDisksAreDeleted(t *testing.T) {
	t.Parallel()
	w := newEnv(t)
	d, id := w.connect(), identity("1")
	config := w.config("", func(spec *infrav1.VSphereMachineSpec) { spec.Disks = []infrav1.VSphereDisk{{SizeGiB: 1}, {SizeGiB: 2}} })
	if _, err := d.Create(t.Context(), driver.CreateRequest[vsphere.InstanceConfig]{Identity: id, Config: config}); err != nil {
		t.Fatal(err)
	}
	await(t, d, id, driver.Running)
	if got := strings.Count(option(w.machine("worker-1"), vcenter.DisksKey), ","); got != 2 {
		t.Errorf("%d disks are written down, want 3", got+1)
	}
	w.wire.reset()
	for range 10 {
		if err := d.Delete(t.Context(), id); err != nil {
			t.Fatal(err)
		}
	}
	if got := len(w.ours()); got != 0 {
		t.Errorf("%d virtual machines are left", got)
	}
	if got := w.wire.count("ReconfigVM_Task"); got != 0 {
		t.Errorf("%d changes before the end, want none", got)
	}
}

// TestFailedStepIsRepeated: the machine stays pending with the cause, and the step is repeated later.
func TestFailedStepIsRepeated(t *testing.T) {
	t.Parallel()
	w := newEnv(t)
	w.stopClock()
	d, id := w.connect(), identity("1")
	if _, err := d.Create(t.Context(), req(w, id)); err != nil {
		t.Fatal(err)
	}
	w.wire.add(&rule{methods: []string{"PowerOnVM_Task"}, answer: fault("InsufficientFailoverResourcesFault"), forever: true})
	message := ""
	for range 10 {
		found, err := d.Provision(t.Context(), id)
		if err != nil || found.State != driver.Pending {
			t.Fatalf("got %+v and %v, want Pending", found, err)
		}
		message = found.Message
	}
	if message == "" {
		t.Error("the instance has no message about the failure")
	}
	if got := w.wire.count("PowerOnVM_Task"); got != 1 {
		t.Errorf("%d attempts before the pause was over, want 1", got)
	}
	w.wire.clear()
	w.ahead.Add(int64(time.Minute))
	if got := await(t, d, id, driver.Running); got.Message != "" {
		t.Errorf("it still has the message %q", got.Message)
	}
}

// TestStoppedMachineIsNotStarted is not started again: only what never ran is.
func TestStoppedMachineIsNotStarted(t *testing.T) {
	t.Parallel()
	w := newEnv(t)
	d, id := w.connect(), identity("1")
	if _, err := d.Create(t.Context(), req(w, id)); err != nil {
		t.Fatal(err)
	}
	await(t, d, id, driver.Running)
	w.do(w.find("worker-1").PowerOff(t.Context()))
	for range 3 {
		if found, err := d.Get(t.Context(), id); err != nil || found.State != driver.Stopped {
			t.Errorf("got %+v and %v, want Stopped", found, err)
		}
	}
}

// TestWrongUUIDIsCorrected: the virtual machine must have the UUID of its provider ID before it boots.
func TestWrongUUIDIsCorrected(t *testing.T) {
	t.Parallel()
	w := newEnv(t)
	d, id := w.connect(), identity("1")
	if _, err := d.Create(t.Context(), req(w, id)); err != nil {
		t.Fatal(err)
	}
	machine := object.NewVirtualMachine(w.admin.Client, w.machine("worker-1").Self)
	w.do(machine.Reconfigure(t.Context(), types.VirtualMachineConfigSpec{Uuid: "11111111-2222-4333-8444-555555555555"}))
	await(t, d, id, driver.Running)
	if got := w.machine("worker-1").Config.Uuid; got != string(id.UID) {
		t.Errorf("the BIOS UUID is %q", got)
	}
}
