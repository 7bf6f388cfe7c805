// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package orphan

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"drover.io/infra-providers/driver"
)

// instance is the Kind of an instance.
const instance = "instance"

// Resource is something in the cloud that has our tags: an instance, or what was made beside one.
type Resource struct {
	// Account is the name of the account that it was found in.
	Account string
	// Kind is instance, or the cloud's word for another resource.
	Kind     string
	ID       string
	Identity driver.Identity
	Created  time.Time
	// ProviderID is an instance's, normalized; empty for what is beside one.
	ProviderID string
	// Instances are the normalized provider IDs of those with its UID, and of what its own tags name. Who deletes it by its
	// Identity may delete all of them.
	Instances []string
	// Copy is true for what has the tags of a machine and was not created for it; see driver.AttachedObject.
	Copy bool
	// Elsewhere is true for what no provider of this installation can have created; see Memory.
	Elsewhere bool
}

// key is different for everything found. Accounts may use the same IDs.
func (f Resource) key() string { return f.Account + " " + f.Kind + "/" + f.ID }

// machine is the machine that the tags name.
func (f Resource) machine() types.NamespacedName {
	return types.NamespacedName{Namespace: f.Identity.Owner.Namespace, Name: f.Identity.Name}
}

// Class is what is to be done about something found.
type Class string

// The classes. Only ClassOrphaned may be deleted.
const (
	// ClassOwned: a machine owns it, or a Machine refers to it.
	ClassOwned Class = "owned"
	// ClassForeign: it lacks tags, or its Cluster is another provider's, or another management cluster created it, so it
	// is not deleted here.
	ClassForeign Class = "foreign"
	// ClassClusterMissing: it has all tags, and there is no such Cluster here: that was deleted, or is another management
	// cluster's. It is reported and never deleted.
	ClassClusterMissing Class = "cluster_missing"
	// ClassDuplicate: it has the tags of a machine whose instance is another, or it is a copy, also of a Cluster that is not here. It is
	// reported and never deleted, because what is beside it cannot be distinguished from what is beside the machine's own, and what was
	// copied may be the data of others.
	ClassDuplicate Class = "duplicate"
	// ClassGracePeriod: it may belong to a machine that is not in the cache yet.
	ClassGracePeriod Class = "grace_period"
	// ClassFrozen: nothing is collected in its Cluster now.
	ClassFrozen Class = "frozen"
	// ClassSuspected: it has no owner, and that was not so before.
	ClassSuspected Class = "suspected"
	// ClassOverLimit: it is an orphan, and enough was collected in this sweep.
	ClassOverLimit Class = "over_limit"
	// ClassOrphaned: it may be deleted once a live read agrees.
	ClassOrphaned Class = "orphaned"
)

var classes = []Class{ClassOwned, ClassForeign, ClassClusterMissing, ClassDuplicate, ClassGracePeriod, ClassFrozen, ClassSuspected, ClassOverLimit, ClassOrphaned}

// Claim is what an infrastructure machine may own.
type Claim struct {
	// UIDs are its own and the one that it had when its instance was requested.
	UIDs []types.UID
	// ProviderID is its instance's, normalized; empty before there is one.
	ProviderID string
}

// Reference is an instance that a Machine of Cluster API refers to, by its normalized provider ID.
type Reference struct{ Namespace, Cluster, ProviderID string }

// ClusterState is what is known of a Cluster.
type ClusterState struct {
	// Foreign is true for one that is another provider's.
	Foreign bool
	// Frozen is true while nothing of it is collected.
	Frozen bool
}

// Input is all that a plan depends on.
type Input struct {
	Now       time.Time
	Resources []Resource
	// Claims are those of the machines there are, by namespace and name.
	Claims map[types.NamespacedName]Claim
	// References are those of the Machines of Cluster API there are.
	References map[Reference]bool
	// Clusters are those there are, by UID, namespace and name.
	Clusters map[driver.Owner]ClusterState
	// Namespace is the only one whose Clusters are known; empty for all.
	Namespace string
	// Suspects are the resources that were suspected before, and since when.
	Suspects map[string]time.Time
	// Grace is how old a resource must be, and how long it must have been suspected.
	Grace time.Duration
	// Tried are the resources that were to be deleted before and are still there.
	Tried map[string]bool
	// Cap is how many may be collected of one account in one sweep.
	Cap int
}

// Classified is one object with its class.
type Classified struct {
	Resource
	Class Class
}

// remarkable reports whether the Cluster gets an event about the resource when it is first found.
func (j Classified) remarkable() bool {
	switch j.Class {
	case ClassSuspected, ClassOverLimit, ClassOrphaned, ClassDuplicate:
		return true
	default:
		return j.Class == ClassForeign && j.Elsewhere
	}
}

// Plan classifies everything found, the oldest first.
func Plan(in Input) []Classified {
	classified := make([]Classified, len(in.Resources))
	for i, thing := range in.Resources {
		classified[i] = Classified{Resource: thing, Class: in.classify(thing)}
	}
	slices.SortFunc(classified, func(a, b Classified) int {
		return cmp.Or(a.Created.Compare(b.Created), strings.Compare(a.key(), b.key()))
	})
	holdTogether(classified)
	in.applyLimit(classified)
	return classified
}

// holdTogether delays an orphan until what else is of the same machine has been suspected for as long: who deletes one by its
// Identity may delete all.
func holdTogether(classified []Classified) {
	type group struct {
		account string
		machine driver.Identity
	}
	of := func(thing Classified) group {
		machine := thing.Identity.WithoutProviderID()
		machine.Owner.UID = "" // that of a Cluster that moved is not in all tags yet
		return group{thing.Account, machine}
	}
	waits := map[group]bool{}
	for _, thing := range classified {
		young := thing.Class == ClassGracePeriod && !thing.Created.IsZero() // what has no age would wait for ever
		if young || thing.Class == ClassSuspected {
			waits[of(thing)] = true
		}
	}
	for i, thing := range classified {
		if thing.Class == ClassOrphaned && waits[of(thing)] {
			classified[i].Class = ClassSuspected
		}
	}
}

// applyLimit applies the limit of each account, round robin by namespace, and what could not be deleted before comes last in its
// namespace, so that what remains in one does not block the orphans of another.
func (in Input) applyLimit(classified []Classified) {
	type place struct{ account, namespace string }
	var orphans, again []*Classified
	for i := range classified {
		switch thing := &classified[i]; {
		case thing.Class != ClassOrphaned:
		case in.Tried[thing.key()]:
			again = append(again, thing)
		default:
			orphans = append(orphans, thing)
		}
	}
	orphans = append(orphans, again...)
	turns, next := map[*Classified]int{}, map[place]int{}
	for _, thing := range orphans {
		of := place{thing.Account, thing.Identity.Owner.Namespace}
		turns[thing] = next[of]
		next[of]++
	}
	slices.SortStableFunc(orphans, func(a, b *Classified) int { return cmp.Compare(turns[a], turns[b]) })
	taken := map[string]int{}
	for _, thing := range orphans {
		if taken[thing.Account]++; taken[thing.Account] > in.Cap {
			thing.Class = ClassOverLimit
		}
	}
}

// classify returns the class of one object, before the limit per sweep. Each guard is one line; the order is the specification.
func (in Input) classify(thing Resource) Class {
	state, known := in.Clusters[thing.Identity.Owner]
	since, suspected := in.Suspects[thing.key()]
	outside := !known && in.isOutside(thing.Identity.Owner)
	switch {
	case !thing.Identity.Tagged(), thing.Identity.Owner.UID == "", state.Foreign:
		return ClassForeign
	case thing.Copy && outside:
		return ClassForeign
	case thing.Copy, in.isDuplicate(thing):
		return ClassDuplicate
	case in.isOwned(thing):
		return ClassOwned
	case outside:
		return ClassForeign
	case !known:
		return ClassClusterMissing
	case thing.Elsewhere:
		return ClassForeign
	case thing.Created.IsZero() || in.Now.Sub(thing.Created) < in.Grace:
		return ClassGracePeriod
	case state.Frozen:
		return ClassFrozen
	case !suspected || in.Now.Sub(since) < in.Grace:
		return ClassSuspected
	default:
		return ClassOrphaned
	}
}

// isOutside reports whether a Cluster that is not known may be in a namespace that is not watched.
func (in Input) isOutside(owner driver.Owner) bool {
	return in.Namespace != "" && (in.Namespace != owner.Namespace || owner.UID == driver.UnknownOwner.UID)
}

// isOwned reports whether a machine of the namespace and name in the tags owns a resource or an instance that would go with it, or a
// Machine of the Cluster in the tags refers to one. What objects elsewhere name does not count.
func (in Input) isOwned(thing Resource) bool {
	return in.Claims[thing.machine()].covers(thing) || thing.referred(in.References)
}

// isDuplicate reports whether a resource is an instance with the tags of a machine whose own instance is another, by its provider
// ID or that of a Machine.
func (in Input) isDuplicate(thing Resource) bool {
	claim, itself := in.Claims[thing.machine()], thing
	itself.Instances = []string{thing.ProviderID}
	if thing.Kind != instance || claim.names(itself) || itself.referred(in.References) {
		return false
	}
	return claim.ProviderID != "" && claim.covers(thing) || thing.referred(in.References)
}

// referred reports whether a Machine of the Cluster in the tags refers to an instance that would go with it.
func (f Resource) referred(references map[Reference]bool) bool {
	owner := f.Identity.Owner
	return slices.ContainsFunc(f.Instances, func(id string) bool { return references[Reference{owner.Namespace, owner.Name, id}] })
}

// covers reports whether a machine has to do with what has its name.
func (c Claim) covers(thing Resource) bool {
	return slices.Contains(c.UIDs, thing.Identity.UID) || c.names(thing)
}

// names reports whether the provider ID of a machine is that of an instance that would go with what has its name.
func (c Claim) names(thing Resource) bool {
	return c.ProviderID != "" && slices.Contains(thing.Instances, c.ProviderID)
}
