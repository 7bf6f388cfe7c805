// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package metalstack

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/uuid"
	"github.com/metal-stack/metal-go/api/models"

	"drover.io/infra-providers/driver"
)

// The metal-api has no idempotency key, and machines have no unique names. But an allocation names the addresses that the
// machine is to have, and is refused if one of them does not exist any more. So the claim of a machine are its addresses in its
// private network, one per address family, which are allocated first, with the tags of the machine and the name of the caller:
//
//	no claim ──► allocate addresses ──► no other claim is listed ──► allocate the machine with them ──► they are the machine's
//	  │ another claim                      │ another claim                │ no answer
//	  ▼                                    ▼                              ▼
//	wait until it is older than          free the own one,              wait until the machine is listed, or the claim is older
//	claimWindow; replace it              and wait                       than claimWindow; replace it
//
// Lists of the API show everything that was answered before. So of two callers that allocate addresses one sees the other's at
// least, and none allocates a machine while it does. A claim is replaced by allocating other addresses before its own are freed,
// because the API would allocate the same ones again. Once they are freed, a request that is late names some that do not exist,
// and is refused, unless another machine got the same address meanwhile; which is why a claim is respected for longer than any
// request is late.
//
// The addresses are ephemeral: metal-stack releases them when the machine is freed, or when its allocation fails.

const (
	// tagClaim has the name of the caller that allocated an address for a machine.
	tagClaim = "drover.io/claim"
	// tagMachineID is set by metal-stack on an address that a machine has.
	tagMachineID = "machine.metal-stack.io/id"
)

const (
	// claimWindow is how long a claim is respected. It is longer than a request for a machine may take.
	claimWindow = 5 * time.Minute
	// renewAfter is the age after which this process replaces a claim of its own before it uses it, so that no other takes it
	// over meanwhile.
	renewAfter = claimWindow / 5
	// memoryTTL is how long the claims of this process are remembered.
	memoryTTL = time.Hour
)

// holding is a claim of this process.
type holding struct {
	holder string
	// requested is true while a machine may be allocated under it: a request was sent and has no answer.
	requested bool
}

// permanent returns what of an identity never changes.
func permanent(id driver.Identity) driver.Identity {
	id.ProviderID, id.Owner.UID = "", ""
	return id
}

// claims returns the addresses that were allocated for a machine. Those of another machine with the same UID, which the author of
// a machine may choose, are an error.
func (d *Driver) claims(ctx context.Context, id driver.Identity) ([]*models.V1IPResponse, error) {
	if id.UID == "" {
		return nil, nil
	}
	found, err := d.client.findIPs(ctx, d.project, driver.TagMachineUID+"="+string(id.UID))
	if err != nil {
		return nil, err
	}
	found = slices.DeleteFunc(found, func(address *models.V1IPResponse) bool { return !isClaim(address) })
	for _, address := range found {
		owner, _ := driver.FromTags(fromTags(address.Tags))
		if err := id.Check(owner); err != nil {
			return nil, err
		}
	}
	return found, nil
}

// isClaim reports whether an address was allocated by Drover. Nothing else of the project's addresses is ever changed.
func isClaim(address *models.V1IPResponse) bool {
	return holderOf(address) != "" && value(address.Type) == models.V1IPAllocateRequestTypeEphemeral
}

func holderOf(address *models.V1IPResponse) string { return fromTags(address.Tags)[tagClaim] }

// isAttached reports whether a machine has an address, or is being allocated with it.
func isAttached(address *models.V1IPResponse) bool {
	return slices.ContainsFunc(address.Tags, func(tag string) bool { return strings.HasPrefix(tag, tagMachineID) })
}

// isOpen reports whether a machine may still be allocated with an address.
func (d *Driver) isOpen(id driver.Identity, address *models.V1IPResponse) bool {
	return d.isFresh(address) && !d.isUnused(id, address)
}

// isFresh reports whether an address is younger than claimWindow. The clock of this process may be behind that of the API, or ahead;
// one that is ahead by more than claimWindow does not count, because a claim would never expire.
func (d *Driver) isFresh(address *models.V1IPResponse) bool {
	return d.clock.Since(time.Time(address.Created)).Abs() < claimWindow
}

// isUnused reports whether no machine can be allocated with an address, because this process allocated it and has sent no
// request with it, or had all refused.
func (d *Driver) isUnused(id driver.Identity, address *models.V1IPResponse) bool {
	own, known := d.holdings.Get(permanent(id))
	return known && !own.requested && own.holder == holderOf(address) && !isAttached(address)
}

// claim returns the addresses of a machine that is to be allocated, after it has made sure that no other caller allocates it.
func (d *Driver) claim(ctx context.Context, id driver.Identity, config InstanceConfig, network *models.V1NetworkResponse) ([]*models.V1IPResponse, error) {
	found, err := d.claims(ctx, id)
	if err != nil {
		return nil, err
	}
	var own, stale []*models.V1IPResponse
	for _, address := range found {
		switch {
		case d.isOpen(id, address):
			return nil, errBusy
		case d.isUnused(id, address) && isUsable(own, address, config) && d.clock.Since(time.Time(address.Created)) < renewAfter:
			own = append(own, address)
		default:
			stale = append(stale, address)
		}
	}
	if len(own) == 0 {
		d.holdings.Delete(permanent(id))
	}
	own, err = d.completeClaim(ctx, id, config, own, families(network))
	if err != nil {
		return nil, err
	}
	for _, address := range stale {
		used, err := d.freeUnused(ctx, address)
		if err != nil {
			return nil, err
		}
		if used {
			d.withdraw(ctx, id, own)
			return nil, fmt.Errorf("the address %s of this machine is that of an allocated machine without its tags: have the tags restored, or the machine freed", value(address.Ipaddress))
		}
	}
	return own, d.checkClaim(ctx, id, own)
}

// isUsable reports whether an address is one that a claim lacks: in the network, and of a family that it has none of.
func isUsable(own []*models.V1IPResponse, address *models.V1IPResponse, config InstanceConfig) bool {
	return value(address.Networkid) == config.Network && !slices.ContainsFunc(own, func(other *models.V1IPResponse) bool {
		return family(other) == family(address)
	})
}

func family(of *models.V1IPResponse) string {
	address, _ := netip.ParseAddr(value(of.Ipaddress)) // an invalid one is of no family
	return familyOf(address)
}

// completeClaim allocates the addresses that a claim lacks. If one cannot be allocated, those of the claim are freed, which no
// machine was requested with: otherwise each attempt would leave one as long as, say, a network has no address of one family.
func (d *Driver) completeClaim(ctx context.Context, id driver.Identity, config InstanceConfig, own []*models.V1IPResponse, wanted []string) ([]*models.V1IPResponse, error) {
	if len(wanted) == 0 {
		return nil, driver.InvalidField("spec.privateNetworks", "the network %q has no prefixes", config.Network)
	}
	holder, _ := d.holdings.GetOrSet(permanent(id), holding{holder: uuid.NewString()})
	for _, family := range wanted {
		if slices.ContainsFunc(own, func(address *models.V1IPResponse) bool { return familyIs(address, family) }) {
			continue
		}
		created, err := d.client.allocateIP(ctx, toIPRequest(id, config, d.project, holder.holder, family))
		if err != nil {
			d.freeAll(ctx, own)
			return nil, err
		}
		own = append(own, created)
	}
	return own, nil
}

// checkClaim withdraws a claim if there is another one.
func (d *Driver) checkClaim(ctx context.Context, id driver.Identity, own []*models.V1IPResponse) error {
	found, err := d.claims(ctx, id)
	if err != nil {
		return err
	}
	if !slices.Equal(addressesOf(found), addressesOf(own)) {
		d.withdraw(ctx, id, own)
		return errBusy
	}
	return nil
}

func familyIs(address *models.V1IPResponse, wanted string) bool { return family(address) == wanted }

func toIPRequest(id driver.Identity, config InstanceConfig, project, holder, family string) *models.V1IPAllocateRequest {
	ephemeral := models.V1IPAllocateRequestTypeEphemeral
	return &models.V1IPAllocateRequest{
		Addressfamily: family, Name: id.Name, Description: "of machine " + id.Name, Networkid: &config.Network, Projectid: &project, Type: &ephemeral,
		Tags: append(ownTags(id), tagClaim+"="+holder),
	}
}

// withdraw frees the addresses of a claim under which no machine can be allocated. If that fails, this process uses them again,
// and the deletion of the machine frees them. Those that the API releases by itself, after an allocation that failed, are left
// to it.
func (d *Driver) withdraw(ctx context.Context, id driver.Identity, own []*models.V1IPResponse) {
	machine := permanent(id)
	if known, ok := d.holdings.Get(machine); ok {
		d.holdings.Set(machine, holding{holder: known.holder})
	}
	if d.freeAll(ctx, own) {
		d.holdings.Delete(machine)
	}
}

// freeAll frees addresses of a claim under which no machine can be allocated, until one cannot be freed.
func (d *Driver) freeAll(ctx context.Context, own []*models.V1IPResponse) (ok bool) {
	for _, address := range own {
		if err := d.client.freeIP(ctx, value(address.Ipaddress)); err != nil {
			logr.FromContextOrDiscard(ctx).V(1).Info("the address stays", "address", value(address.Ipaddress), "reason", err.Error())
			return false
		}
	}
	return true
}

// freeClaim frees an address. One that a machine was to have whose allocation broke off in the API itself is still marked as
// that machine's, so that it cannot be freed; it is old, and the machine was not allocated.
func (d *Driver) freeClaim(ctx context.Context, address *models.V1IPResponse) error {
	if isAttached(address) {
		tags := slices.DeleteFunc(slices.Clone(address.Tags), func(tag string) bool { return strings.HasPrefix(tag, tagMachineID) })
		if err := d.client.updateIP(ctx, address, tags); err != nil && !isNotFound(err) {
			return err
		}
	}
	return d.client.freeIP(ctx, value(address.Ipaddress))
}

// freeUnused frees an address, unless it is in use.
func (d *Driver) freeUnused(ctx context.Context, address *models.V1IPResponse) (used bool, err error) {
	if used, err = d.isInUse(ctx, address); used || err != nil {
		return used, err
	}
	return false, d.freeClaim(ctx, address)
}

// isInUse reports whether the machine that an address is marked as that of is allocated with it. Whoever changed the machine's tags
// has hidden it from Drover, and its address would be given to the next machine.
func (d *Driver) isInUse(ctx context.Context, address *models.V1IPResponse) (bool, error) {
	for _, tag := range address.Tags {
		id, marked := strings.CutPrefix(tag, tagMachineID+"=")
		if !marked {
			continue
		}
		found, err := d.client.machine(ctx, id)
		if err != nil {
			return false, err
		}
		if hasAddress(found, address) {
			return true, nil
		}
	}
	return false, nil
}

// hasAddress reports whether a machine is allocated with an address; nil is not.
func hasAddress(machine *models.V1MachineResponse, address *models.V1IPResponse) bool {
	return machine != nil && machine.Allocation != nil && slices.ContainsFunc(machine.Allocation.Networks, func(network *models.V1MachineNetwork) bool {
		return network != nil && slices.Contains(network.Ips, value(address.Ipaddress))
	})
}

// freeClaims frees the addresses of a machine that is not allocated. It fails with errBusy while one may still be allocated. One
// that a machine has which is not known as this one goes with that machine.
func (d *Driver) freeClaims(ctx context.Context, id driver.Identity) error {
	found, err := d.claims(ctx, id)
	if err != nil {
		return err
	}
	busy := false
	for _, address := range found {
		if d.isReleased(id, address) {
			continue
		}
		if d.isOpen(id, address) {
			busy = true
			continue
		}
		used, err := d.freeUnused(ctx, address)
		if err != nil {
			return err
		}
		if used {
			logr.FromContextOrDiscard(ctx).Info("the address stays, as a machine without the tags of this one has it", "address", value(address.Ipaddress))
		}
	}
	if busy {
		return errBusy
	}
	d.holdings.Delete(permanent(id))
	return nil
}

// mayAppear reports whether a machine that is not listed may still be allocated.
func (d *Driver) mayAppear(ctx context.Context, id driver.Identity) (bool, error) {
	found, err := d.claims(ctx, id)
	return slices.ContainsFunc(found, func(address *models.V1IPResponse) bool {
		return d.isOpen(id, address) && !d.isReleased(id, address)
	}), err
}

// isReleased reports whether the API releases an address by itself, because this process freed its machine. It removes the mark of
// the machine first, and the address some time later.
func (d *Driver) isReleased(id driver.Identity, address *models.V1IPResponse) bool {
	had, freed := d.freed.Get(permanent(id))
	return freed && (isAttached(address) || slices.Contains(had, value(address.Ipaddress)))
}

// ownTags returns the tags of an identity, in a stable order.
func ownTags(id driver.Identity) []string {
	tags := toTags(id.Tags())
	slices.Sort(tags)
	return tags
}

// addressesOf returns the texts of addresses, sorted.
func addressesOf(own []*models.V1IPResponse) (texts []string) {
	for _, address := range own {
		texts = append(texts, value(address.Ipaddress))
	}
	slices.Sort(texts)
	return texts
}

// errBusy means that another caller may be allocating the machine, or that a request has no answer.
var errBusy = &driver.UnfinishedError{Err: fmt.Errorf("the machine may be being allocated; if it is not listed %s after its addresses were allocated, the request was lost", claimWindow)}
