// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Package driver is the seam between the generic machine reconciler and one cloud. A cloud implements
// Driver over its own configuration type and describes itself in one Cloud value; everything else
// (finalizers, phases, conditions, retries, inventories) is generic.
//
// It owns the contract: the verbs, the identity that makes creation happen exactly once, and the error
// kinds. It does no I/O. docs/contracts/driver.md repeats the contract as a table and package drivertest
// proves it.
package driver

import (
	"context"
	"iter"
	"time"
)

// Driver is the client of one account of one cloud in one region. C is the cloud's configuration of one
// instance: decoded, defaulted and validated before it gets here.
//
// Every method MUST return soon after ctx is done, MUST NOT wait for an instance to change state, MUST be
// safe for concurrent use, and MUST return one of this package's error kinds where one fits; any other
// error is taken as transient. Error texts MUST be stable: no request ids, no times.
//
// Get, List and every method of an ability that only reads MUST NOT change anything in the cloud. They MAY be called at
// any time, by any number of callers, for any Identity.
type Driver[C any] interface {
	// Create makes the instance of req.Identity, or finds it when an earlier call made it already. It MUST
	// be idempotent by Identity.UID even when an earlier answer was lost or callers race, MUST tag the
	// instance and everything made beside it with the Identity, and MUST return as soon as the cloud has
	// accepted. It MUST fail with NotOwnedError when the instance of that UID belongs to another machine's
	// name or cluster; where every request and every tag has the machine's name, so that two machines of one UID cannot
	// get in each other's way, one of another name MAY count as none. The instance returned MAY still be Pending, but MUST
	// have its ProviderID.
	//
	// Where the instance needs other resources first, such as a network interface that takes its time, Create MUST make
	// them in as many calls as that takes and fail with UnfinishedError in between. Everything that needs the Config or
	// the user data, or that may be refused for lack of capacity or quota, belongs there. What is left to do once the
	// cloud has accepted the instance belongs to Provisioner.
	//
	// It MUST fail with InsufficientCapacityError or QuotaExceededError only when there is no instance of the
	// Identity, and none can come of this call or an earlier one any more: the caller may then request the
	// same Identity with another Config. What the refused call left beside the instance MUST NOT stand in the way of that, and
	// MUST go with the instance. A client token under which the cloud stores a whole request MUST therefore
	// depend on the Config too.
	Create(ctx context.Context, req CreateRequest[C]) (Instance, error)

	// Get returns the instance of an Identity by a direct read. It MUST look by ProviderID when there is
	// one and by UID otherwise, MUST fail with NotFoundError when the cloud answers that there is none, with
	// NotOwnedError when the one found carries other tags, and MUST NOT fail with NotFoundError for any
	// other reason. An instance that is terminated but still listed MAY be returned as Terminated.
	//
	// NotFoundError ends a deletion. So after a Delete that did not remove all at once, Get MUST return an instance that is
	// Stopping until what was made beside it is gone, too: with StepDue while the next Delete has something to do, and with
	// the ProviderID of id, which may be empty. After a restore id may lack the UID, which the tags of the instance had;
	// Delete MUST remember it for that.
	Get(ctx context.Context, id Identity) (Instance, error)

	// Delete requests the removal of the instance and everything made beside it. It MUST be idempotent,
	// MUST succeed when nothing is left, MUST refuse with NotOwnedError to touch what carries other tags,
	// and MUST also clean up what a half-finished Create left. It MUST NOT delete disks that others
	// attached, such as the volumes of a Node that was lost before they were detached. It MAY return before
	// the instance is gone: the caller verifies by Get, and calls Delete again when the instance is neither Stopping
	// nor gone, or when it is Stopping and StepDue. A removal of several steps takes one with each call.
	Delete(ctx context.Context, id Identity) error

	// List yields every instance tagged for the owner, page by page; an empty owner means every instance
	// of this project in the account. A failure MUST be yielded as an error, once, last: a list that ended
	// early without one MUST NOT happen, because whatever it misses would count as gone. It MAY lag behind Create and Delete,
	// and MAY leave out a few instances that exist and cannot be read: an absence counts only after a Get.
	List(ctx context.Context, owner Owner) iter.Seq2[Instance, error]
}

// AccountIdentifier is the ability to identify the account that the credentials lead to. Every driver must have it.
type AccountIdentifier interface {
	// AccountID MUST return a name of the account, project or server that is the same for all credentials of it, MUST
	// NOT change while the account exists, and MUST be different for any two accounts anywhere: an instance that is
	// not found in the account of this name does not exist. It MUST fail with UnauthorizedError where the cloud
	// refuses the credentials. It MAY make a marker in the account that costs nothing and that List does not yield.
	AccountID(ctx context.Context) (string, error)
}

// Provisioner is the ability to finish an instance after its creation, in steps that the cloud does not take by itself.
// A driver whose cloud makes an instance in one go does not have it; one that sets StepDue on an instance that is not
// Stopping MUST have it.
type Provisioner interface {
	// Provision MUST take the next step of the instance, or none where none is due, and return the instance as Get
	// would then. A step is one that the cloud accepts at once and carries out by itself; Provision MUST NOT wait for
	// its end. It MUST find the instance as Get does, MUST fail with NotFoundError when there is none, and MUST refuse
	// with NotOwnedError to touch what carries other tags.
	//
	// What is left to do MUST be derived from the cloud, so that another process continues where one was killed. Provision
	// MUST be idempotent, also when an answer was lost or callers race. It MUST NOT make a second instance, MUST NOT
	// change an instance that is finished, MUST NOT start one that was stopped, and MUST NOT take a step of one that
	// is being deleted. A step that fails for a reason that may pass MUST be repeated by a later call after a pause; the
	// reason is the Message of the instance until then.
	//
	// It is called only after the ProviderID that Create returned was stored, for a machine that is not being deleted,
	// in the account that the machine is pinned to.
	Provision(ctx context.Context, id Identity) (Instance, error)
}

// CapacityProvider is the optional ability to return the size of an instance before it exists, for scaling from zero.
type CapacityProvider[C any] interface {
	// Size MUST answer from the configuration and what the cloud publishes, without an instance. It MUST
	// fail with InvalidConfigurationError for an instance type that the cloud does not have.
	Capacity(ctx context.Context, config C) (Capacity, error)
}

// ImageFinder is the optional ability to find the image of an instance before it exists, so that a template without an
// image is detected before machines are created from it.
type ImageFinder[C any] interface {
	// FindImage MUST answer from the configuration and the cloud, without an instance, and MUST change nothing.
	// It MUST find the image that Create would take now. It MUST fail with InvalidConfigurationError, naming the
	// field, when Create would: when there is no such image, or several where Create does not choose among
	// them. It MUST NOT fail so for any other reason. An answer MAY be as old as one that Create would use.
	//
	// It MAY return the zero Image for a configuration that leaves the image to the cloud.
	FindImage(ctx context.Context, config C) (Image, error)
}

// Notifier is the optional ability to report that an instance changed, so that no polling is needed.
type Notifier interface {
	// Notify registers a function that MUST be called after every change of an instance's state, and MUST
	// NOT block. It MAY be called spuriously.
	Notify(changed func(Identity))
}

// Tagger is the optional ability to change the tags of what exists. A Cluster has another UID once it moved
// to another management cluster, and only that UID identifies what belongs to it there.
type Tagger interface {
	// Tag MUST put the owner of the Identity into the tags of the instance and of everything made beside it.
	// It MUST find them as Get does, MUST be idempotent, and MUST refuse with NotOwnedError to touch what
	// carries other tags: only the UID of the owner may differ. It MUST fail with NotFoundError when there is
	// no instance.
	Tag(ctx context.Context, id Identity) error
}

// Restarter is the optional ability to restart an instance that hangs, as a power cycle would.
type Restarter interface {
	// Restart MUST request a hard reset of the instance, or for the hardest restart that it has. It
	// MUST find the instance as Get does, MUST fail with NotFoundError when there is none, and MUST refuse with
	// NotOwnedError to touch what carries other tags.
	//
	// It MUST fail with NotRunningError unless the instance is Running: it MUST NOT start one that was stopped.
	// It MUST NOT wait for the instance to be up again, MUST NOT change the instance in any other way, and MUST
	// NOT touch what was made beside it. Called twice, it MAY restart the instance twice and MUST do no other
	// harm; while a restart is under way it MAY fail with an error that passes.
	Restart(ctx context.Context, id Identity) error
}

// MaxConsole is how many bytes of a console are read at most.
const MaxConsole = 64 << 10

// ConsoleReader is the optional ability to read what an instance wrote to its console, so that a host that does not become
// a Node explains why.
type ConsoleReader interface {
	// Console MUST return the newest output of the instance since its last boot, or since before, at most MaxConsole
	// bytes of it, and nothing while there is none. The output MAY be some minutes old. It MUST find the instance as Get
	// does, MUST fail with NotFoundError when there is none, and MUST refuse with NotOwnedError to read what carries other
	// tags. It MUST fail with UnauthorizedError where the credentials may not read consoles.
	Console(ctx context.Context, id Identity) ([]byte, error)
}

// LastOutput returns the last MaxConsole bytes of a console.
func LastOutput(console []byte) []byte { return console[max(0, len(console)-MaxConsole):] }

// AttachedObjectLister is the optional ability to list what was made beside instances (disks, ports, addresses), so
// that what a failure left behind can be found without its instance. A driver whose Create makes such
// resources MUST have it.
type AttachedObjectLister interface {
	// AttachedObjects yields everything of ours but the instances, under the rules of Driver.List. Driver.Delete
	// MUST remove each by its Identity, whether its instance exists or not.
	AttachedObjects(ctx context.Context, owner Owner) iter.Seq2[AttachedObject, error]
}

// AttachedObject is one resource beside an instance.
type AttachedObject struct {
	// Kind is the cloud's word for it, such as volume.
	Kind     string
	ID       string
	Identity Identity
	Created  time.Time
	// Copy is true for what has the tags of the machine and was not created for it: others restored a backup, or copied the tags. It
	// is reported and never deleted.
	Copy bool
}

// Cost is how many resources of the usual size the resource takes the memory of: one for each KiB begun.
func (o AttachedObject) Cost() int { return 1 + (len(o.Kind)+len(o.ID)+o.Identity.bytes())/1024 }
