// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Package fake is a cloud in memory that keeps state as a real one does: instances with disks, tags,
// slow starts and slow deletions, lists that lag. Faults come from a function that is called for every call and may
// refuse it, or execute it and lose the answer.
//
// It guarantees no more than the driver contract requires of a cloud: a creation is idempotent for one identity and one configuration,
// as under a token that covers the whole request. A creation of the same identity with another configuration makes
// another instance, which a Snapshot shows.
//
// It has no policy and is for tests: of the generic reconcilers, of the conformance suite itself, and of
// whatever else is built on the driver seam.
package fake

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"drover.io/infra-providers/driver"
)

// Config is the configuration of an instance of the fake cloud.
type Config struct {
	InstanceType string
	Zone         string
	// Image is the name of an image; empty is the one called linux.
	Image string
}

// Call is one call of the cloud's API, the argument of a Faults function.
type Call struct {
	// Operation is create, disk, get, delete, provision, restart, tag, list, image or account. A disk is made inside create, before
	// the instance.
	Operation string
	Identity  driver.Identity
	// Config is what a create, disk or image requests.
	Config Config
}

// Fault is how a call fails.
type Fault struct {
	// Err is returned to the caller; nil means that it succeeds.
	Err error
	// Lost is true when the call takes effect and its answer is lost.
	Lost bool
}

// ErrLost is a cause for a Fault whose answer was lost.
var ErrLost = errors.New("connection reset by peer")

// Options are the settings of the cloud.
type Options struct {
	// Faults is called at every call; nil means none.
	Faults func(Call) Fault
	// BootReads is how many reads an instance stays Pending for, DeleteReads how long it stays Stopping.
	BootReads, DeleteReads int
	// Steps is how many calls of Provision an instance needs before it starts, and how many of Delete before it stops;
	// zero for a cloud that does both in one go.
	Steps int
	// RetainDisks keeps the disk of an instance that was deleted until Delete is called once more.
	RetainDisks bool
	// ListLag is how many lists a new instance is missing from.
	ListLag int
	// Page is how many instances a page of a list has, each of which is a call; two by default.
	Page int
	Now  func() time.Time
	// Account is the name of the account; one that no other Cloud has by default.
	Account string
}

// Cloud is the fake cloud. Its methods form the driver.
type Cloud struct {
	options Options
	mu      sync.Mutex
	serial  int
	// servers are in the order of their creation.
	servers []*server
	disks   map[types.UID]disk
	// images are the images there are, by name.
	images  map[string]driver.Image
	changed func(driver.Identity)
	// hide is how many lists the next instance is missing from.
	hide int
	// counts has the number of calls by operation.
	counts map[string]int
	// provisioned counts the steps that were taken.
	provisioned int
	// restarts counts by instance how often it was restarted.
	restarts map[types.UID]int
	// consoles are the outputs of the instances.
	consoles map[types.UID]string
}

// disk is made for an instance, in its zone.
type disk struct {
	owner   driver.Identity
	zone    string
	created time.Time
}

type server struct {
	instance driver.Instance
	config   Config
	image    string
	// bootReads and deleteReads are how many reads are left until the instance runs, or does not exist any more.
	bootReads, deleteReads int
	// provisions and deletes are how many steps are left.
	provisions, deletes int
	// hiddenLists is how many more lists do not show the instance.
	hiddenLists int
	removed     bool
	userData    []byte
}

var (
	_ driver.Driver[Config]           = (*Cloud)(nil)
	_ driver.CapacityProvider[Config] = (*Cloud)(nil)
	_ driver.ImageFinder[Config]      = (*Cloud)(nil)
	_ driver.Notifier                 = (*Cloud)(nil)
	_ driver.Provisioner              = (*Cloud)(nil)
	_ driver.AttachedObjectLister     = (*Cloud)(nil)
	_ driver.Tagger                   = (*Cloud)(nil)
	_ driver.Restarter                = (*Cloud)(nil)
	_ driver.ConsoleReader            = (*Cloud)(nil)
	_ driver.AccountIdentifier        = (*Cloud)(nil)
)

// serial numbers the accounts of this process.
var serial atomic.Int64

// New returns a cloud without instances. It has a few images: linux, linux-arm64, and one called plain that has
// no architecture.
func New(options Options) *Cloud {
	if options.Faults == nil {
		options.Faults = func(Call) Fault { return Fault{} }
	}
	if options.Now == nil {
		options.Now = time.Now
	}
	options.Page = cmp.Or(options.Page, 2)
	options.Account = cmp.Or(options.Account, fmt.Sprint("fake-", serial.Add(1)))
	return &Cloud{
		options: options, disks: map[types.UID]disk{}, images: images(), counts: map[string]int{},
		restarts: map[types.UID]int{},
		consoles: map[types.UID]string{},
	}
}

// call runs one operation under the fault function.
func (c *Cloud) call(ctx context.Context, call Call, act func() error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	fault := c.options.Faults(call)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.counts[call.Operation]++
	if short := driver.IsInsufficientCapacity(fault.Err) || driver.IsQuotaExceeded(fault.Err); short && c.findCreated(call) != nil {
		fault = Fault{} // what exists needs no more capacity
	}
	if fault.Err != nil && !fault.Lost {
		return fault.Err
	}
	if err := act(); err != nil {
		return err
	}
	return fault.Err
}

// Create implements driver.Driver.
func (c *Cloud) Create(ctx context.Context, req driver.CreateRequest[Config]) (driver.Instance, error) {
	if _, ok := sizes[req.Config.InstanceType]; !ok {
		return driver.Instance{}, &driver.InvalidConfigurationError{Field: "spec.instanceType", Err: fmt.Errorf("unknown type %q", req.Config.InstanceType)}
	}
	image, err := c.image(req)
	if err != nil {
		return driver.Instance{}, err
	}
	if err := c.call(ctx, Call{"disk", req.Identity, req.Config}, func() error { return c.createDisk(req) }); err != nil {
		return driver.Instance{}, err
	}
	var created driver.Instance
	err = c.call(ctx, Call{"create", req.Identity, req.Config}, func() error {
		known := c.findCreated(Call{Identity: req.Identity, Config: req.Config})
		if known == nil {
			known = c.createServer(req, image)
		}
		created = known.instance
		return req.Identity.Check(created.Identity)
	})
	if err != nil {
		return driver.Instance{}, err
	}
	return created, nil
}

// createDisk makes the disk, again where an earlier attempt created it in another zone.
func (c *Cloud) createDisk(req driver.CreateRequest[Config]) error {
	if known, ok := c.disks[req.Identity.UID]; ok {
		if err := req.Identity.Check(known.owner); err != nil || known.zone == req.Config.Zone {
			return err
		}
	}
	c.disks[req.Identity.UID] = disk{owner: req.Identity, zone: req.Config.Zone, created: c.options.Now()}
	return nil
}

// findCreated returns the instance that the same creation made before.
func (c *Cloud) findCreated(creation Call) *server {
	for _, known := range c.servers {
		if known.instance.Identity.UID == creation.Identity.UID && known.config == creation.Config {
			return known
		}
	}
	return nil
}

func (c *Cloud) createServer(req driver.CreateRequest[Config], image driver.Image) *server {
	c.serial++
	id := fmt.Sprintf("i-%06d", c.serial)
	identity := req.Identity
	identity.ProviderID = fmt.Sprintf("fake:///%s/%s", req.Config.Zone, id)
	created := &server{
		instance: driver.Instance{
			ID:            id,
			ProviderID:    identity.ProviderID,
			Identity:      identity,
			State:         driver.Running,
			Addresses:     []clusterv1.MachineAddress{{Type: clusterv1.MachineInternalIP, Address: fmt.Sprintf("10.0.%d.%d", c.serial/250, c.serial%250+1)}},
			FailureDomain: req.Config.Zone,
			Created:       c.options.Now(),
		},
		config:      req.Config,
		image:       image.ID,
		bootReads:   c.options.BootReads,
		deleteReads: c.options.DeleteReads,
		provisions:  c.options.Steps,
		deletes:     max(c.options.Steps, 1),
		hiddenLists: max(c.options.ListLag, c.hide),
		userData:    slices.Clone(req.UserData),
	}
	if created.bootReads > 0 || created.provisions > 0 {
		created.instance.State, created.instance.PollAfter = driver.Pending, time.Millisecond
	}
	c.hide = 0
	c.servers = append(c.servers, created)
	return created
}

// Get implements driver.Driver.
func (c *Cloud) Get(ctx context.Context, id driver.Identity) (driver.Instance, error) {
	var found driver.Instance
	err := c.call(ctx, Call{Operation: "get", Identity: id}, func() error {
		known := c.find(id)
		if known == nil {
			return &driver.NotFoundError{What: "instance of " + id.Name}
		}
		if c.advance(known); known.removed {
			return &driver.NotFoundError{What: "instance of " + id.Name}
		}
		found = known.instance
		return id.Check(found.Identity)
	})
	if err != nil {
		return driver.Instance{}, err
	}
	return found, nil
}

// Delete implements driver.Driver.
func (c *Cloud) Delete(ctx context.Context, id driver.Identity) error {
	return c.call(ctx, Call{Operation: "delete", Identity: id}, func() error {
		known := c.find(id)
		if known == nil {
			if left, ok := c.disks[id.UID]; ok && id.Check(left.owner) == nil {
				delete(c.disks, id.UID)
			}
			return nil
		}
		if err := id.Check(known.instance.Identity); err != nil {
			return err
		}
		if known.instance.State != driver.Stopping || known.instance.StepDue {
			known.deletes--
		}
		known.instance.State, known.instance.StepDue, known.instance.PollAfter = driver.Stopping, false, time.Millisecond
		if known.deletes <= 0 && known.deleteReads == 0 {
			c.remove(known)
		}
		return nil
	})
}

// List implements driver.Driver. Each page is a call.
func (c *Cloud) List(ctx context.Context, owner driver.Owner) iter.Seq2[driver.Instance, error] {
	return func(yield func(driver.Instance, error) bool) {
		var all []driver.Instance
		for more, page := true, 0; more; page++ {
			err := c.call(ctx, Call{Operation: "list"}, func() error {
				if page == 0 {
					all = c.visible(owner)
				}
				return nil
			})
			if err != nil {
				yield(driver.Instance{}, err)
				return
			}
			low, high := min(c.options.Page*page, len(all)), min(c.options.Page*(page+1), len(all))
			for _, instance := range all[low:high] {
				if !yield(instance, nil) {
					return
				}
			}
			more = high < len(all)
		}
	}
}

func (c *Cloud) visible(owner driver.Owner) []driver.Instance {
	var all []driver.Instance
	for _, known := range slices.Clone(c.servers) {
		if c.advance(known); known.removed {
			continue
		}
		if known.hiddenLists > 0 {
			known.hiddenLists--
			continue
		}
		if owner.UID == "" || known.instance.Identity.Owner.UID == owner.UID {
			all = append(all, known.instance)
		}
	}
	return all
}

func (c *Cloud) find(id driver.Identity) *server {
	for _, known := range c.servers {
		if id.ProviderID == "" && known.instance.Identity.UID == id.UID || id.ProviderID != "" && known.instance.ProviderID == id.ProviderID {
			return known
		}
	}
	return nil
}

// advance makes a read the passing of time: what the cloud accepted goes on. It takes no step that is due.
func (c *Cloud) advance(known *server) {
	switch known.instance.State {
	case driver.Pending:
		if known.instance.StepDue = known.provisions > 0; known.instance.StepDue {
			return
		}
		if known.bootReads--; known.bootReads <= 0 {
			known.instance.State, known.instance.PollAfter = driver.Running, 0
		}
	case driver.Stopping:
		if known.instance.StepDue = known.deletes > 0; known.instance.StepDue {
			return
		}
		if known.deleteReads--; known.deleteReads <= 0 {
			c.remove(known)
		}
	}
}

func (c *Cloud) remove(known *server) {
	known.removed = true
	c.servers = slices.DeleteFunc(c.servers, func(s *server) bool { return s == known })
	if !c.options.RetainDisks {
		delete(c.disks, known.instance.Identity.UID)
	}
}
