// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package anexia

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/uuid"

	"drover.io/infra-providers/driver"
	"drover.io/infra-providers/internal/lookup"
)

// Create implements driver.Driver. It takes several calls, because the cloud names a virtual machine only once it is provisioned.
func (d *Driver) Create(ctx context.Context, req driver.CreateRequest[InstanceConfig]) (driver.Instance, error) {
	req.Identity.ProviderID = ""
	if err := checkRequest(req); err != nil {
		return driver.Instance{}, err
	}
	host, ok := hostName(req.Identity)
	if !ok {
		return driver.Instance{}, driver.NeverValid("metadata.annotations", "the identity %q is no UUID", req.Identity.UID)
	}
	p, err := d.load(ctx, req.Identity)
	switch {
	case err != nil:
		return driver.Instance{}, err
	case p.missing:
		return driver.Instance{}, errors.New("the object of the machine does not exist, so that nothing can be recorded")
	}
	created, err := d.create(ctx, req, host, p)
	return created, toError(err)
}

func (d *Driver) create(ctx context.Context, req driver.CreateRequest[InstanceConfig], host string, p *page) (driver.Instance, error) {
	switch {
	case p.VM != "":
		return d.readCreated(ctx, req.Identity, p)
	case p.Attempt == "" || d.over.Has(p.Attempt):
		if err := d.refuseOther(ctx, req, host, p); err != nil {
			return driver.Instance{}, err
		}
	default:
		vm, err := d.outcome(ctx, req.Identity, p)
		if err != nil {
			return driver.Instance{}, err
		}
		if vm != "" {
			if err := d.learn(ctx, req.Identity, p, vm); err != nil {
				return driver.Instance{}, err
			}
			return d.readCreated(ctx, req.Identity, p)
		}
		reason := p.Reason
		d.sent.Delete(host)
		p.forget()
		if reason != "" {
			return driver.Instance{}, errors.Join(fmt.Errorf("the provisioning failed and left nothing: %s", reason), d.store(ctx, req.Identity, p))
		}
	}
	if p.VM != "" {
		return d.readCreated(ctx, req.Identity, p)
	}
	return driver.Instance{}, d.request(ctx, req, host, p)
}

// readCreated returns the virtual machine of a machine that the journal has. One that is not shown yet is Pending.
func (d *Driver) readCreated(ctx context.Context, id driver.Identity, p *page) (driver.Instance, error) {
	read, err := d.client.info(ctx, p.VM)
	switch {
	case err != nil:
		return d.getBroken(id, p, p.VM, err)
	case read == nil:
		return id.Checked(d.toListed(vm{Identifier: p.VM, Name: p.Host}, id, p.record))
	default:
		return d.checked(ctx, id, p, read)
	}
}

// refuseOther looks for a virtual machine of a machine whose journal has none: its own, of an entry that was lost, is recorded,
// and that of another one with this UID is an error.
func (d *Driver) refuseOther(ctx context.Context, req driver.CreateRequest[InstanceConfig], host string, p *page) error {
	found, err := d.lookUp(ctx, req.Identity, host)
	switch {
	case err != nil:
		return err
	case p.copied:
		return p.refusal()
	case found != "":
		p.forget()
		return d.learn(ctx, req.Identity, p, found)
	default:
		return nil
	}
}

// isPending reports whether a request was or may have been sent whose refusal is not known.
func (d *Driver) isPending(p *page) bool { return p.Attempt != "" && !d.over.Has(p.Attempt) }

// outcome returns the virtual machine that came of the request that the journal has, nothing where there is none and none can
// come, or an UnfinishedError while that is not known. Without a request it is what the cloud has of the name.
func (d *Driver) outcome(ctx context.Context, id driver.Identity, p *page) (string, error) {
	if p.Task == "" {
		p.Task, _ = d.tasks.Get(p.Attempt)
	}
	if p.Task != "" && p.Failed.IsZero() && d.isPending(p) {
		vm, err := d.await(ctx, id, p)
		if err != nil || vm != "" {
			return vm, err
		}
	}
	if _, ok := hostName(id); !ok {
		return "", nil
	}
	return d.findByName(ctx, id, p)
}

// findByName returns what the cloud has of the name of a machine, nothing if it has nothing and nothing can come, or an
// UnfinishedError.
func (d *Driver) findByName(ctx context.Context, id driver.Identity, p *page) (string, error) {
	return d.findUnless(ctx, id, p, d.undecided(p))
}

// findUnless returns what the cloud has of the name of a machine, and otherwise why its absence proves nothing, which is nil if it
// does. With such a reason it looks at most every half a minute.
func (d *Driver) findUnless(ctx context.Context, id driver.Identity, p *page, undecided error) (string, error) {
	host, _ := hostName(id)
	if undecided != nil && !p.copied && d.absent.Has(host) {
		return "", undecided
	}
	found, err := d.lookUp(ctx, id, cmp.Or(p.Host, host))
	if err != nil || found != "" {
		return found, err
	}
	d.absent.Set(host, struct{}{})
	return "", undecided
}

// undecided returns why the absence of a virtual machine proves nothing yet; nil if it does.
func (d *Driver) undecided(p *page) error {
	pending := d.isPending(p)
	switch {
	case p.copied && !p.other:
		return errCopied
	case pending && !p.Failed.IsZero() && d.clock.Since(p.Failed) <= settleTime:
		return errSettling
	case pending && p.Failed.IsZero() && d.clock.Since(p.Requested) <= provisioningTime:
		return errUnknown
	default:
		return nil
	}
}

// await returns the virtual machine of a task, an UnfinishedError while the task runs, and nothing if it failed or does not exist
// any more. A failure is recorded. The virtual machine of a task that runs for too long is the one with the name, if there is one.
func (d *Driver) await(ctx context.Context, id driver.Identity, p *page) (string, error) {
	progress, err := d.client.progress(ctx, p.Task)
	switch {
	case isNotFound(err):
		return "", nil
	case err != nil:
		return "", fmt.Errorf("reading the progress of the provisioning: %w", err)
	case progress.failed():
		return d.recordFailure(ctx, id, p, progress)
	case progress.Progress < complete && d.clock.Since(p.Requested) > provisioningTime:
		return d.findUnless(ctx, id, p, endless(p.Task))
	case progress.Progress < complete:
		return "", errProvisioning
	default:
		return progress.VM, nil
	}
}

// recordFailure records that a provisioning failed, and returns the virtual machine that its task names if that can be read: it may
// name one that it did not leave.
func (d *Driver) recordFailure(ctx context.Context, id driver.Identity, p *page, failed task) (string, error) {
	if failed.VM != "" {
		left, err := d.client.info(ctx, failed.VM)
		switch {
		case isFailure(err): // it is there, and broken
			p.known(failed.VM, d.now())
		case err != nil:
			return "", err
		case left == nil:
			failed.VM = ""
		default:
			p.known(failed.VM, d.now())
		}
	}
	p.Failed, p.Reason = d.now(), failed.reason()
	return failed.VM, d.store(ctx, id, p)
}

// complete is the progress of a task that is over.
const complete = 100

// States of a task.
const (
	taskFailed    = "-1"
	taskSucceeded = "1"
	taskRunning   = "2"
	taskCancelled = "3"
)

// failed reports whether a task is over and has failed. Errors count only of one that is not running.
func (t task) failed() bool {
	switch {
	case t.poweredOn() && t.Progress >= complete:
		return false
	case t.Status == taskFailed, t.Status == taskCancelled:
		return true
	case t.Status == taskRunning, t.Status == taskSucceeded, t.poweredOn():
		return t.Progress >= complete && t.VM == "" && len(t.Errors) > 0
	default:
		return len(t.Errors) > 0
	}
}

// poweredOn reports whether the one error of a task is that its virtual machine runs already, which the cloud's SDK takes for a
// success. The error has no code, so its text is compared, as there.
func (t task) poweredOn() bool {
	return len(t.Errors) == 1 && t.Errors[0] == "The attempted operation cannot be performed in the current state (Powered on)."
}

// maxReason is how many bytes of the reason of a failure are kept.
const maxReason = 1024

func (t task) reason() string {
	text := strings.Join(t.Errors, "; ")
	if t.Status == taskCancelled {
		text = cmp.Or(text, "the task was cancelled")
	}
	text = cmp.Or(text, "the task has the status "+t.Status)
	return shorten(text)
}

// shorten returns the part of a text of the cloud that is kept.
func shorten(text string) string { return strings.ToValidUTF8(text[:min(len(text), maxReason)], "") }

// lookUp returns the identifier of the virtual machine of a machine by its name, or nothing. A search shows that there is one;
// that there is none is concluded from the list of all only, because it is not known what else a search leaves out.
func (d *Driver) lookUp(ctx context.Context, id driver.Identity, host string) (string, error) {
	found, err := d.client.search(ctx, host)
	if err != nil {
		return "", fmt.Errorf("searching for virtual machine %s: %w", host, err)
	}
	if own := own(id, found); own != "" {
		return own, nil
	}
	var other error
	for listed, err := range d.all(ctx) {
		if err != nil {
			return "", err
		}
		parsed, ok := parseName(listed.Name)
		switch {
		case !ok || parsed.uid != id.UID:
		case parsed.of(id):
			return listed.Identifier, nil
		default:
			_, other = id.Checked(d.toListed(listed, id, record{}))
		}
	}
	return "", other
}

// own returns the first of the virtual machines that has the name of a machine, or nothing.
func own(id driver.Identity, found []vm) string {
	i := slices.IndexFunc(found, func(one vm) bool {
		parsed, ok := parseName(one.Name)
		return ok && parsed.uid == id.UID && parsed.of(id)
	})
	if i < 0 {
		return ""
	}
	return found[i].Identifier
}

// request requests the virtual machine. The journal has the attempt before, and its task after.
func (d *Driver) request(ctx context.Context, req driver.CreateRequest[InstanceConfig], host string, p *page) error {
	image, err := d.findTemplate(ctx, req.Config)
	if err != nil {
		return err
	}
	p.Host = host
	if err := d.reserveAddresses(ctx, req, p); err != nil {
		return err
	}
	body, err := newProvision(req, host, p.Addresses)
	if err != nil {
		return err
	}
	p.Attempt, p.Requested, p.Task = string(uuid.NewUUID()), d.now(), ""
	if err := d.store(ctx, req.Identity, p); err != nil {
		d.over.Set(p.Attempt, struct{}{}) // it was not sent
		return err
	}
	d.sent.Set(host, p.record)
	answer, err := d.client.provision(ctx, req.Config.Spec.LocationID, image.ID, body)
	switch {
	case isRefused(err):
		return d.refused(ctx, req, p, err)
	case err != nil:
		return fmt.Errorf("requesting the virtual machine: %w", err)
	case answer.Identifier == "":
		return answer.unnamed()
	}
	d.tasks.Set(p.Attempt, answer.Identifier)
	p.Task = answer.Identifier
	d.sent.Set(host, p.record)
	if err := d.store(ctx, req.Identity, p); err != nil {
		return err
	}
	return errProvisioning
}

// maxRefusedSets is how often other addresses are reserved for a machine, while a reservation lasts, because the Engine refused
// those that it had: what refuses them all would otherwise use up the prefix.
const maxRefusedSets = 2

// refused records that nothing comes of a request, and returns why.
func (d *Driver) refused(ctx context.Context, req driver.CreateRequest[InstanceConfig], p *page, err error) error {
	d.sent.Delete(p.Host)
	d.over.Set(p.Attempt, struct{}{})
	p.Attempt, p.Requested = "", time.Time{}
	switch {
	case isNotFound(err): // the template was listed a moment ago, and another list has the field if it is gone
		lookup.Forget(&d.templates, templatesKind, req.Config.Spec.LocationID)
		err = fmt.Errorf("requesting the virtual machine: %w", err)
	case isAboutAddresses(err): // the spec names none: another client got them, or their reservation has ended
		refused, _ := d.refusedSets.Get(p.Host)
		if d.refusedSets.Set(p.Host, refused+1); refused < maxRefusedSets {
			p.Addresses = nil
		}
		err = &driver.InsufficientCapacityError{InstanceType: "reserved address", Zone: req.Config.Zone, OfRequest: true, Err: err}
	default:
		err = toCreateError(err, "spec")
	}
	return errors.Join(err, d.store(ctx, req.Identity, p))
}

// reserveAddresses reserves what the virtual machine needs and the journal does not have. A reservation that is lost before it is
// recorded expires by itself.
func (d *Driver) reserveAddresses(ctx context.Context, req driver.CreateRequest[InstanceConfig], p *page) error {
	needed := addressesOf(req.Config)
	reserved := make([]address, 0, len(needed))
	for _, want := range needed {
		i := slices.IndexFunc(p.Addresses, func(have address) bool {
			return have.Network == want.Network && have.Prefix == want.Prefix && have.Until.Sub(d.clock.Now()) > reservationRest
		})
		if i >= 0 {
			reserved = append(reserved, p.Addresses[i])
		}
	}
	p.Addresses = reserved
	for n, want := range needed {
		if n < len(p.Addresses) && p.Addresses[n].Network == want.Network && p.Addresses[n].Prefix == want.Prefix {
			continue
		}
		got, err := d.reserve(ctx, req.Config, want)
		if err != nil {
			return err
		}
		p.Addresses = slices.Insert(p.Addresses, n, got)
		if err := d.store(ctx, req.Identity, p); err != nil {
			return err
		}
	}
	return nil
}

// reserve reserves one address. Of this process, one caller at a time does in each VLAN.
func (d *Driver) reserve(ctx context.Context, config InstanceConfig, want address) (address, error) {
	network := config.Spec.Networks[want.Network].VLANID
	turn, _ := d.reserving.GetOrSet(network, make(chan struct{}, 1))
	select {
	case turn <- struct{}{}:
	case <-ctx.Done():
		return address{}, ctx.Err()
	}
	defer func() { <-turn }()
	want.Until = d.now().Add(reservationTime)
	found, err := d.client.reserve(ctx, reservation{
		Location: config.Spec.LocationID, VLAN: network, Prefix: want.Prefix, Count: 1, Seconds: int(reservationTime / time.Second),
	})
	field := fmt.Sprintf("spec.networks[%d]", want.Network)
	switch {
	case err != nil:
		return address{}, toCreateError(fmt.Errorf("reserving an address: %w", err), field)
	case len(found) == 0:
		return address{}, &driver.InsufficientCapacityError{InstanceType: "address of VLAN " + network, Zone: config.Zone, OfRequest: true, Err: errors.New("no address is free")}
	}
	want.ID, want.IP = found[0].Identifier, found[0].Text
	return want, nil
}
