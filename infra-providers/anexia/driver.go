// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package anexia

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	infrav1 "drover.io/api/infrastructure/v1alpha1"
	"drover.io/infra-providers/driver"
	"drover.io/runtime/expiring"
)

// +kubebuilder:rbac:groups=infrastructure.drover.io,resources=anexiamachines,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=infrastructure.drover.io,resources=anexiamachines/status,verbs=patch
// +kubebuilder:rbac:groups=infrastructure.drover.io,resources=anexiamachinetemplates,verbs=list;watch
// +kubebuilder:rbac:groups=infrastructure.drover.io,resources=anexiamachinetemplates/status,verbs=patch

const (
	// maxPageSize is the number of virtual machines on a page of a list.
	maxPageSize = 100
	// infoTime is how long a list shows what was read of a virtual machine that runs.
	infoTime = 10 * time.Minute
	// absentTime is the pause between two looks for a virtual machine whose request had no answer.
	absentTime = 30 * time.Second
	// conflictTime is how long the message of an instance has why its removal was refused.
	conflictTime = 5 * time.Minute
	// lookupTime is how long a template that was found is used.
	lookupTime = time.Minute
	// maxUnread is how many virtual machines that cannot be read are missing from a list, of those that were not read before.
	maxUnread = 3
	// maxRefreshed is how many virtual machines a list reads again that run and are known. Reading those of a large account takes
	// longer than a list may, so that each list must get further than the one before.
	maxRefreshed = 100
	// maxVLANs is how many VLANs are remembered in which addresses were reserved.
	maxVLANs = 10_000
	// memoryTime is how long a process remembers what became of its requests; no longer than that counts.
	memoryTime = 2 * provisioningTime
)

// Options are the settings of the provider.
type Options struct {
	// Endpoint is the URL of the Engine; empty means https://engine.anexia-it.com.
	Endpoint string
	// PageSize is the number of virtual machines on a page of a list; zero means 100.
	PageSize int
	// Clock is the real clock if it is nil.
	Clock clock.PassiveClock
}

// Cloud returns the description of Anexia. The limits are cautious, because Anexia does not publish those of requests.
func Cloud(options Options) driver.Cloud[*infrav1.AnexiaMachine, InstanceConfig] {
	reserving := &reservations{Max: maxVLANs}
	return driver.Cloud[*infrav1.AnexiaMachine, InstanceConfig]{
		Name:           "anexia",
		NewMachine:     func() *infrav1.AnexiaMachine { return &infrav1.AnexiaMachine{} },
		NewMachineList: func() driver.MachineList { return &infrav1.AnexiaMachineList{} },
		NewTemplate:    func() driver.Template[*infrav1.AnexiaMachine] { return &infrav1.AnexiaMachineTemplate{} },
		Config:         NewInstanceConfig,
		Account:        toAccount,
		Limits:         driver.Limits{PerSecond: 2, Burst: 20},
		Connect: func(_ context.Context, account driver.Account, credentials driver.Credentials) (driver.Driver[InstanceConfig], error) {
			return connect(options, reserving, account, credentials)
		},
	}
}

// Driver implements driver.Driver, driver.Journaled, driver.AccountIdentifier, driver.CapacityProvider and driver.ImageFinder.
type Driver struct {
	client    *client
	journal   driver.Journal
	clock     clock.PassiveClock
	vlan      string
	size      int
	reserving *reservations

	// over has the attempts of this process that were not sent or that the cloud refused, tasks the answers to the others.
	over expiring.Map[string, struct{}]
	// sent has the records of the requests of this process by the host name, for a journal that somebody removed since.
	sent  expiring.Map[string, record]
	tasks expiring.Map[string, string]
	// removals has the tasks of removals, by the virtual machine.
	removals expiring.Map[string, string]
	// conflicts has why the Engine refused a removal, by the virtual machine, for the message of an instance that stays.
	conflicts expiring.Map[string, string]
	// absent has the host names that no list had a moment ago.
	absent expiring.Map[string, struct{}]
	// refusedSets has how often the Engine refused the addresses that were reserved for a machine, by its host name.
	refusedSets expiring.Map[string, int]
	// infos has what was read of virtual machines that run: lists show it for infoTime, and for longer where one cannot be read.
	infos expiring.Map[string, reading]
	// unread has the virtual machines to delete that the Engine failed to read.
	unread expiring.Map[string, struct{}]
	// next is the virtual machine with which the next list begins to read again; nil begins with the first.
	next atomic.Pointer[string]
	// templates has those that were found.
	templates expiring.Map[string, any]
}

// reservations has a channel for each VLAN, which is full while an address is being reserved there: the cloud may give one to two
// callers at the same moment. All drivers of a process share it.
type reservations = expiring.Map[string, chan struct{}]

// connect reads the token from the key token of the Secret, or from ANEXIA_TOKEN. It makes no call.
func connect(options Options, reserving *reservations, account driver.Account, credentials driver.Credentials) (*Driver, error) {
	token, source := os.Getenv("ANEXIA_TOKEN"), "the environment variable ANEXIA_TOKEN"
	if account.SecretName != "" {
		token, source = string(credentials["token"]), fmt.Sprintf("the key token of Secret %q", account.SecretName)
	}
	token = strings.TrimSpace(token)
	switch {
	case token == "":
		return nil, &driver.UnauthorizedError{Err: fmt.Errorf("%s has no API token", source)}
	case strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' }):
		return nil, &driver.UnauthorizedError{Err: fmt.Errorf("%s has characters that no API token has", source)}
	}
	if options.Clock == nil {
		options.Clock = clock.RealClock{}
	}
	d := &Driver{
		client: newClient(options.Endpoint, token), clock: options.Clock, vlan: account.Region,
		size: cmp.Or(options.PageSize, maxPageSize), reserving: reserving,
	}
	d.over.Clock, d.over.TTL = options.Clock, memoryTime
	d.sent.Clock, d.sent.TTL = options.Clock, memoryTime
	d.tasks.Clock, d.tasks.TTL = options.Clock, memoryTime
	d.removals.Clock, d.removals.TTL = options.Clock, memoryTime
	d.conflicts.Clock, d.conflicts.TTL = options.Clock, conflictTime
	d.absent.Clock, d.absent.TTL = options.Clock, absentTime
	d.refusedSets.Clock, d.refusedSets.TTL = options.Clock, reservationTime
	d.unread.Clock, d.unread.TTL = options.Clock, memoryTime
	d.infos.Clock, d.infos.TTL = options.Clock, memoryTime
	d.templates.Clock, d.templates.TTL = options.Clock, lookupTime
	return d, nil
}

// UseJournal implements driver.Journaled.
func (d *Driver) UseJournal(journal driver.Journal) { d.journal = journal }

// Get implements driver.Driver. What may still appear is not reported as missing.
func (d *Driver) Get(ctx context.Context, id driver.Identity) (driver.Instance, error) {
	found, err := d.get(ctx, id)
	return found, driver.WithoutInvalidConfiguration(toError(err))
}

func (d *Driver) get(ctx context.Context, id driver.Identity) (driver.Instance, error) {
	p, err := d.load(ctx, id)
	if err != nil {
		return driver.Instance{}, err
	}
	known := cmp.Or(parseProviderID(id.ProviderID), p.VM)
	if known == "" {
		return d.getUnknown(ctx, id, p)
	}
	over, err := d.removalIsOver(ctx, p)
	if err != nil {
		return driver.Instance{}, err
	}
	read, err := d.client.info(ctx, known)
	switch {
	case err != nil:
		found, err := d.getBroken(id, p, known, err)
		found.StepDue = over && found.State == driver.Stopping
		return found, err
	case read == nil:
		return d.getUnreadable(ctx, id, p, known, over)
	}
	found, err := d.checked(ctx, id, p, read)
	// The removal was over before this read, and the virtual machine is still there.
	found.StepDue = over && found.State == driver.Stopping
	return found, err
}

// getUnknown returns the virtual machine of a machine whose journal has none: of a request that is not answered, or of an
// entry that was lost.
func (d *Driver) getUnknown(ctx context.Context, id driver.Identity, p *page) (driver.Instance, error) {
	vm, err := d.outcome(ctx, id, p)
	switch {
	case err != nil:
		return driver.Instance{}, err
	case vm == "":
		return driver.Instance{}, &driver.NotFoundError{What: fmt.Sprintf("virtual machine of machine %q", id.Name)}
	}
	if err := d.learn(ctx, id, p, vm); err != nil {
		return driver.Instance{}, err
	}
	read, err := d.client.info(ctx, vm)
	switch {
	case err != nil:
		return d.getBroken(id, p, vm, err)
	case read == nil:
		return d.getUnreadable(ctx, id, p, vm, false)
	default:
		return d.checked(ctx, id, p, read)
	}
}

// getBroken returns a virtual machine whose direct read failed: if the Engine itself fails to read what the journal has, it is what
// the journal has of the failure of its provisioning or of its removal.
func (d *Driver) getBroken(id driver.Identity, p *page, known string, cause error) (driver.Instance, error) {
	if !isFailure(cause) || known != p.VM || !p.isEnding() {
		return driver.Instance{}, cause
	}
	return id.Checked(d.toListed(vm{Identifier: p.VM, Name: p.Host}, id, p.record))
}

// getUnreadable returns a virtual machine that a direct read does not show. It is gone if no list has it either, no task
// that removes it runs any more, and it was readable before or was removed by such a task.
func (d *Driver) getUnreadable(ctx context.Context, id driver.Identity, p *page, known string, removed bool) (driver.Instance, error) {
	for listed, err := range d.all(ctx) {
		if err != nil {
			return driver.Instance{}, err
		}
		if parsed, ok := parseName(listed.Name); listed.Identifier != known && (!ok || parsed.uid != id.UID || !parsed.of(id)) {
			continue
		}
		found, err := id.Checked(d.toListed(listed, id, p.record))
		found.StepDue = removed && found.State == driver.Stopping
		return found, err
	}
	if p.Removal != "" && !removed { // the Engine may stop showing it before its removal is over, which may fail
		return id.Checked(d.toListed(vm{Identifier: p.VM, Name: p.Host}, id, p.record))
	}
	if removed || p.Known.IsZero() || d.clock.Since(p.Known) > settleTime {
		return driver.Instance{}, &driver.NotFoundError{What: fmt.Sprintf("virtual machine %s", known)}
	}
	return driver.Instance{}, errUnreadable
}

// List implements driver.Driver. A list of the cloud has names only, so each virtual machine of a machine is read by itself;
// one that runs, not more often than every ten minutes. One that no machine here has is not read: nothing depends on its state.
// A few that the Engine fails to read are left out, so that those do not hide the others. The names of the owner are those of the
// journals.
func (d *Driver) List(ctx context.Context, owner driver.Owner) iter.Seq2[driver.Instance, error] {
	return func(yield func(driver.Instance, error) bool) {
		entries, err := d.entries(ctx)
		if err != nil {
			yield(driver.Instance{}, err)
			return
		}
		counts := listing{next: d.next.Swap(nil)} // it is forgotten where this list does not have it
		for listed, err := range d.all(ctx) {
			parsed, ours := parseName(listed.Name)
			switch {
			case err != nil:
				yield(driver.Instance{}, driver.WithoutInvalidConfiguration(toError(err)))
				return
			case !ours:
				continue
			}
			if counts.next != nil && *counts.next == listed.Identifier {
				counts.next = nil
			}
			entry := find(parsed, entries[parsed.uid])
			if !owner.Selects(parsed.identity(entry.id).Owner) {
				continue
			}
			instance, err := d.readListed(ctx, listed, entry, &counts)
			if isFailure(err) && counts.unread < maxUnread {
				counts.unread++
				continue
			}
			if err != nil {
				yield(driver.Instance{}, driver.WithoutInvalidConfiguration(toError(err)))
				return
			}
			if !yield(instance, nil) {
				return
			}
		}
	}
}

// machineRecord is what the journals have of a machine.
type machineRecord struct {
	id driver.Identity
	record
}

// find returns the record of the machine whose names a name was made from. Several may have one UID, because the author of a
// machine may choose it.
func find(of name, records []machineRecord) machineRecord {
	for _, entry := range records {
		if of.of(entry.id) {
			return entry
		}
	}
	return machineRecord{}
}

// entries returns the journals of all machines, by UID.
func (d *Driver) entries(ctx context.Context) (map[types.UID][]machineRecord, error) {
	if d.journal == nil {
		return nil, errNoJournal
	}
	listed, err := d.journal.List(ctx)
	if err != nil {
		return nil, err
	}
	all := map[types.UID][]machineRecord{}
	for _, entry := range listed {
		p := page{}
		_ = p.parse(entry.Data) // one that is damaged has no record here, and is an error where it counts
		if host, ok := parseName(p.Host); !ok || host.uid != entry.Identity.UID || !host.of(entry.Identity) {
			p.record = record{} // it is that of the other UID, or was copied
		}
		all[entry.Identity.UID] = append(all[entry.Identity.UID], machineRecord{entry.Identity, p.record})
	}
	return all, nil
}

// listing counts what one list has read.
type listing struct {
	// next is the virtual machine before which none is read again that runs and is known, because an earlier list got that far; nil
	// once it is met.
	next *string
	// refreshed is how many virtual machines that run and are known were due to be read again, and unread how many could not be read.
	refreshed, unread int
}

// readListed returns a virtual machine that a list shows.
func (d *Driver) readListed(ctx context.Context, listed vm, entry machineRecord, counts *listing) (driver.Instance, error) {
	if entry.id.UID == "" {
		return d.toListed(listed, entry.id, entry.record), nil
	}
	last, known := d.infos.Get(listed.Identifier)
	if known {
		if shown := d.toInstance(last.info, entry.id, entry.record); isSettled(shown) {
			if d.clock.Since(last.at) < infoTime || counts.next != nil || !d.mayRefresh(listed.Identifier, counts) {
				return shown, nil
			}
		}
	}
	read, err := d.client.info(ctx, listed.Identifier)
	switch {
	case known && isFailure(err): // of this one: the others are listed all the same
		return d.toInstance(last.info, entry.id, entry.record), nil
	case isFailure(err) && entry.isEnding() && entry.VM == listed.Identifier: // its state is in the journal
		return d.toListed(listed, entry.id, entry.record), nil
	case err != nil:
		return driver.Instance{}, err
	case read == nil:
		return d.toListed(listed, entry.id, entry.record), nil
	default:
		shown := d.toInstance(read, entry.id, entry.record)
		d.remember(read, shown)
		return shown, nil
	}
}

// mayRefresh reports whether a list reads another virtual machine again. The next list begins with the first that it does not.
func (d *Driver) mayRefresh(id string, counts *listing) bool {
	if counts.refreshed++; counts.refreshed == maxRefreshed+1 {
		d.next.Store(&id)
	}
	return counts.refreshed <= maxRefreshed
}

// all yields every virtual machine of the account, over all pages, and a failure last. The list ends with a page that is empty,
// because the cloud may put fewer on a page than requested.
func (d *Driver) all(ctx context.Context) iter.Seq2[vm, error] {
	return func(yield func(vm, error) bool) {
		last := ""
		for number := 1; ; number++ {
			found, err := d.client.list(ctx, number, d.size)
			switch {
			case err != nil:
				yield(vm{}, fmt.Errorf("listing virtual machines: %w", err))
				return
			case len(found) == 0:
				return
			case found[0].Identifier == last:
				yield(vm{}, errSamePage)
				return
			}
			last = found[0].Identifier
			for _, one := range found {
				if !yield(one, nil) {
					return
				}
			}
		}
	}
}
