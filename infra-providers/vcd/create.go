// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package vcd

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/xml"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"

	"github.com/vmware/go-vcloud-director/v3/types/v56"

	"drover.io/infra-providers/driver"
)

// step is a task that was started for a creation or a deletion, what it does, and for a creation a hash of its request.
type step struct {
	task, what string
	request    [sha256.Size]byte
	// doubted is true once a read has shown no effect of a step that was successful.
	doubted bool
}

// stepKey returns what stays the same of an identity.
func stepKey(id driver.Identity) driver.Identity {
	id.ProviderID, id.Owner.UID = "", ""
	return id
}

// Create implements driver.Driver. Each call starts one task at most, and the next one starts the next when that has ended: the
// virtual machine is added to the vApp, gets its hardware and its bootstrap data, is marked with metadata and started. All of it
// derives from what Director has, so another process continues.
func (d *Driver) Create(ctx context.Context, req driver.CreateRequest[InstanceConfig]) (driver.Instance, error) {
	if err := d.await(ctx, req.Identity); err != nil {
		return driver.Instance{}, err
	}
	id := req.Identity
	id.ProviderID = ""
	found, vApp, err := d.findNamed(ctx, id)
	if err != nil {
		return driver.Instance{}, invalidVApp(err)
	}
	if len(found) == 0 && vApp == nil {
		_, err := describe(id)
		return driver.Instance{}, cmp.Or(err, errIncomplete)
	}
	if len(found) == 0 {
		return driver.Instance{}, d.add(ctx, req, vApp)
	}
	if err := id.Check(found[0].identity); err != nil {
		return driver.Instance{}, err
	}
	d.creations.Delete(id)
	if err := d.prepare(ctx, req, found[0]); err != nil {
		return driver.Instance{}, err
	}
	d.forget(id)
	return d.toInstance(found[0]), nil
}

// forget deletes the steps of a creation.
func (d *Driver) forget(id driver.Identity) {
	d.steps.Delete(stepKey(id))
	d.ended.Delete(stepKey(id))
}

// await fails while the task of the last step is in progress, and once if it failed.
func (d *Driver) await(ctx context.Context, id driver.Identity) error {
	last, ok := d.steps.Get(stepKey(id))
	if !ok {
		return nil
	}
	known, err := d.outcome(ctx, last)
	if _, failed := errors.AsType[*taskError](err); err == nil || failed {
		d.forget(id)
	}
	if known && err == nil {
		d.ended.Set(stepKey(id), last)
	}
	return err
}

// hadNoEffect reports whether a step was successful with the same request that is due again.
func (d *Driver) hadNoEffect(id driver.Identity, what string, request any) bool {
	ended, ok := d.ended.Get(stepKey(id))
	return ok && ended.what == what && ended.request == hash(request)
}

// set starts a step that is due because of what was read. If that step has ended without effect, a first read may be behind; after
// a second one it is started once more, in case what ignored it has changed, and fails with ignored until a read shows an effect: a
// request that is accepted is no progress then. One that is refused leaves that as it is, and one without an answer may have an effect.
func (d *Driver) set(ctx context.Context, id driver.Identity, ignored error, what, method, path, contentType string, body any) error {
	key := stepKey(id)
	ended, _ := d.ended.Get(key)
	switch {
	case !d.hadNoEffect(id, what, body):
		return d.start(ctx, id, what, method, path, contentType, body)
	case !ended.doubted:
		ended.doubted = true
		d.ended.Set(key, ended)
		return &driver.UnfinishedError{Err: errors.New(what)}
	}
	err := d.start(ctx, id, what, method, path, contentType, body)
	started, accepted := d.steps.Get(key)
	if !accepted {
		ended.doubted = !isUnanswered(err)
		d.ended.Set(key, ended)
		return err
	}
	started.doubted = true
	d.steps.Set(key, started)
	return ignored
}

// hash returns the hash of a request.
func hash(request any) [sha256.Size]byte {
	text, _ := xml.Marshal(request) // nil and the types of the SDK can be written
	return sha256.Sum256(text)
}

// taskError means that a task has failed, and why.
type taskError struct {
	what string
	err  error
}

func (e *taskError) Error() string { return fmt.Sprintf("%s: %v", e.what, e.err) }

// Unwrap returns the cause.
func (e *taskError) Unwrap() error { return e.err }

// outcome returns nil for a task that was successful or is not kept any more, which is not known then; UnfinishedError for one that
// is in progress, and taskError for one that has failed.
func (d *Driver) outcome(ctx context.Context, last step) (known bool, err error) {
	var task types.Task
	err = d.client.get(ctx, "/task/"+last.task, nil, &task)
	switch {
	case isAbsent(err): // tasks are kept for some time only
		return false, nil
	case err != nil:
		return false, err
	case isActive(task.Status):
		return true, &driver.UnfinishedError{Err: errors.New(last.what)}
	}
	if task.Status == "success" {
		return true, nil
	}
	failed := &apiError{code: task.Status}
	if task.Error != nil {
		failed.code, failed.message = task.Error.MinorErrorCode, task.Error.Message
	}
	return true, &taskError{last.what, toError(failed)}
}

// begin does as start does, but a task that had no effect is reported before it is started again.
func (d *Driver) begin(ctx context.Context, id driver.Identity, what, method, path, contentType string, body any) error {
	if d.hadNoEffect(id, what, body) {
		d.ended.Delete(stepKey(id))
		return fmt.Errorf("%s: %w", what, errIneffective)
	}
	return d.start(ctx, id, what, method, path, contentType, body)
}

// start starts a task for a creation and fails with UnfinishedError once Director has accepted it. What ended before counts no more.
func (d *Driver) start(ctx context.Context, id driver.Identity, what, method, path, contentType string, body any) error {
	d.ended.Delete(stepKey(id))
	task, err := d.client.start(ctx, method, path, contentType, body)
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	d.steps.Set(stepKey(id), step{task: idOf(task.HREF), what: what, request: hash(body)})
	return &driver.UnfinishedError{Err: errors.New(what)}
}

// add adds the virtual machine to the vApp. That is refused while anything else is in progress on the vApp, so it is not tried then.
func (d *Driver) add(ctx context.Context, req driver.CreateRequest[InstanceConfig], vApp *types.VApp) error {
	if len(active(vApp.Tasks)) > 0 {
		return &driver.UnfinishedError{Err: errBusy}
	}
	if err := checkNetworks(vApp, req.Config.Spec.Networks); err != nil {
		return err
	}
	if _, err := guestProperties(req); err != nil {
		return err
	}
	refs, err := d.resolve(ctx, req.Config)
	if err != nil {
		return err
	}
	request, err := recomposition(vApp, req, refs)
	if err != nil {
		return err
	}
	const what = "adding the virtual machine to the vApp"
	path := "/vApp/vapp-" + idOf(vApp.HREF) + "/action/recomposeVApp"
	err = d.begin(ctx, req.Identity, what, http.MethodPost, path, types.MimeRecomposeVappParams, request)
	switch {
	case isTaken(err):
		// An earlier request was late, or another process was faster.
		found, _, findErr := d.findNamed(ctx, driver.Identity{UID: req.Identity.UID})
		if findErr == nil && len(found) > 0 {
			return &driver.UnfinishedError{Err: errors.New(what)}
		}
	case isUnanswered(err) && !errors.Is(err, errIneffective):
		d.creations.AddUnanswered(req.Identity, "")
	}
	return err
}

// resolve looks up what the names of a configuration mean.
func (d *Driver) resolve(ctx context.Context, config InstanceConfig) (refs references, err error) {
	spec := config.Spec
	if refs.template, err = d.template(ctx, spec); err != nil {
		return refs, err
	}
	if refs.profile, err = d.storageProfile(ctx, spec.StorageProfile); err != nil {
		return refs, err
	}
	if refs.sizing, err = d.policy(ctx, "spec.sizingPolicy", spec.SizingPolicy, true); err != nil {
		return refs, err
	}
	field := "spec.placementPolicy"
	if config.Zone != "" {
		field = "the failure domain of the Machine"
	}
	refs.placement, err = d.policy(ctx, field, spec.PlacementPolicy, false)
	refs.policies = d.client.login.server.String() + "/cloudapi/1.0.0/vdcComputePolicies/"
	return refs, err
}

// What a creation does and compares with what it did before, and what it does as a deletion does.
const (
	settingHardware = "setting the virtual hardware"
	settingData     = "setting the bootstrap data"
	discarding      = "discarding the memory of the suspended virtual machine"

	discardAction = "/action/discardSuspendedState"
)

// prepare does the next step of a virtual machine that is in the vApp. It returns nil once that runs with all that it needs.
func (d *Driver) prepare(ctx context.Context, req driver.CreateRequest[InstanceConfig], m machine) error {
	id, path := req.Identity, vmPath(m.id)
	switch {
	case m.isBusy():
		return &driver.UnfinishedError{Err: errBusy}
	case m.vm.Status == statusFailed:
		return d.begin(ctx, id, "deleting a virtual machine whose creation failed", http.MethodDelete, path, "", nil)
	case m.vm.Status == statusUnresolved:
		return &driver.UnfinishedError{Err: errors.New("the virtual machine is being created")}
	case m.marked && m.vm.Status == statusOn:
		return nil
	case m.marked:
		return d.begin(ctx, id, "starting the virtual machine", http.MethodPost, path+"/power/action/powerOn", "", nil)
	case isSuspended(m.vm.Status): // a template that was captured from something that ran has its memory
		return d.begin(ctx, id, discarding, http.MethodPost, path+discardAction, "", nil)
	}
	return d.configure(ctx, req, m)
}

// configure does the next step of a virtual machine that is not marked yet: its hardware, its bootstrap data and the metadata, last.
func (d *Driver) configure(ctx context.Context, req driver.CreateRequest[InstanceConfig], m machine) error {
	id, path := req.Identity, vmPath(m.id)
	if change, needed := reconfiguration(m.vm, req.Config.Spec); needed {
		ignored := ignoredHardware(change, m.vm)
		return d.set(ctx, id, ignored, settingHardware, http.MethodPost, path+"/action/reconfigureVm", types.MimeVM, change)
	}
	properties, err := guestProperties(req)
	if err != nil {
		return err
	}
	var have types.ProductSectionList
	if err := d.client.get(ctx, path+"/productSections", nil, &have); err != nil {
		return err
	}
	// What Director keeps of the template's own properties is no reason to set them again.
	if current := propertiesOf(&have); slices.ContainsFunc(slices.Collect(maps.Keys(properties)), func(key string) bool { return current[key] != properties[key] }) {
		request := productSection(properties)
		return d.set(ctx, id, ignoredData(), settingData, http.MethodPut, path+"/productSections", types.MimeProductSection, request)
	}
	entries := marks(id)
	for key, value := range req.Config.Spec.Metadata {
		entries[key] = string(value)
	}
	if req.Config.Zone != "" {
		entries[zoneKey] = req.Config.Zone
	}
	return d.begin(ctx, id, "setting the metadata", http.MethodPost, path+"/metadata", types.MimeMetaData, metadata(entries))
}

// attached returns the independent disks that are attached to a virtual machine, which others made.
func attached(vm *types.Vm) (disks []*types.Reference) {
	if vm.VmSpecSection == nil || vm.VmSpecSection.DiskSection == nil {
		return nil
	}
	for _, disk := range vm.VmSpecSection.DiskSection.DiskSettings {
		if disk.Disk != nil && !slices.ContainsFunc(disks, func(d *types.Reference) bool { return d.HREF == disk.Disk.HREF }) {
			disks = append(disks, disk.Disk)
		}
	}
	return disks
}
