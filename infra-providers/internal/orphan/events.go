// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package orphan

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"drover.io/infra-providers/driver"
	"drover.io/infra-providers/internal/errorreason"
)

// eventKind is what the recorder writes as one event.
type eventKind struct {
	cluster types.UID
	reason  string
}

// maxEvents is how many resources of a Cluster have an event of their own for one reason in a sweep: the server that a Secret names
// chooses how many there are. The log has all.
const maxEvents = 20

// orphanFound is the reason of the event that precedes a deletion by a grace period.
const orphanFound = "OrphanFound"

// event is a line of the log and an event of a Cluster about one resource.
type event struct{ log, reason, action, note string }

// record logs what happened to a resource, and creates the event of its Cluster.
func (c *Collector[M, C]) record(ctx context.Context, cluster *clusterv1.Cluster, thing Resource, e event) {
	values := []any{"Cluster", klog.KObj(cluster), c.machineKind(), klog.KRef(thing.Identity.Owner.Namespace, thing.Identity.Name)}
	if thing.Kind == instance {
		values = append(values, "providerID", thing.Identity.ProviderID)
	} else {
		values = append(values, "resource", thing.Kind+"/"+thing.ID)
	}
	ctrl.LoggerFrom(ctx).Info(e.log, append(values, "reason", e.reason)...)
	c.Events.Eventf(cluster, c.related(cluster, thing, e.reason), corev1.EventTypeWarning, e.reason, e.action, "%s", errorreason.TruncateNote(e.note))
}

// related returns what makes the event of a resource one of its own: the recorder writes those with the same reason and objects as
// one, which has the note of the first. It is nil for more than maxEvents.
func (c *Collector[M, C]) related(cluster *clusterv1.Cluster, thing Resource, reason string) runtime.Object {
	c.eventsMu.Lock()
	defer c.eventsMu.Unlock()
	kind := eventKind{cluster.UID, reason}
	c.events[kind]++
	if c.events[kind] > maxEvents {
		return nil
	}
	return &corev1.ObjectReference{Kind: thing.Kind, Namespace: cluster.Namespace, Name: errorreason.TruncateNote(thing.ID)}
}

// machineKind is the kind of the cloud's machines, as the key of the log.
func (c *Collector[M, C]) machineKind() string {
	kind, err := apiutil.GVKForObject(c.Cloud.NewMachine(), c.Client.Scheme())
	if err != nil {
		return "Machine"
	}
	return kind.Kind
}

// foundEvent is for a resource that is found for the first time.
func (c *Collector[M, C]) foundEvent(thing Classified) event {
	switch thing.Class {
	case ClassForeign:
		return foundElsewhere(thing.Resource)
	case ClassDuplicate:
		return foundDuplicate(thing.Resource)
	}
	return foundOrphan(thing.Resource, c.Options)
}

func foundElsewhere(thing Resource) event {
	return event{"found orphan of another management cluster", "OrphanOfAnotherManagementCluster", "Sweep", fmt.Sprintf(
		"%s %q of machine %q was created while no provider of this management cluster was running: this management cluster, or another with the same Cluster, was restored from a snapshot; nothing of the Cluster is collected as an orphan",
		thing.Kind, thing.ID, thing.Identity.Name)}
}

func foundOrphan(thing Resource, options Options) event {
	next := fmt.Sprintf("it is deleted if that is still so in %s; pause the Cluster to prevent this", options.Grace)
	if options.DryRun {
		next = "nothing is deleted in dry-run mode"
	}
	return event{"found orphan", orphanFound, "Sweep", fmt.Sprintf("%s %q of machine %q has no owner: %s", thing.Kind, thing.ID, thing.Identity.Name, next)}
}

func foundDuplicate(thing Resource) event {
	if thing.Copy {
		return event{"found copy", "DuplicateInstance", "Sweep", fmt.Sprintf(
			"%s %q has the tags of machine %q and was not created for it, as by restoring a backup or copying tags: it is not deleted automatically; delete it in the cloud, or remove the tags to keep it",
			thing.Kind, thing.ID, thing.Identity.Name)}
	}
	return event{"found duplicate instance", "DuplicateInstance", "Sweep", fmt.Sprintf(
		"%s %q has the tags of machine %q, which has another instance: it is not deleted automatically; delete it in the cloud, or remove the tags to keep it",
		thing.Kind, thing.ID, thing.Identity.Name)}
}

// maxListed is how many bytes the resources of a Cluster have in a line of the log: a server that a Secret names chooses their
// IDs. Those of some hundred instances are shorter.
const maxListed = 32 << 10

// maxOwner is how many bytes the namespace, name and UID of a Cluster may have together, and maxOwners how many Clusters are reported
// as missing, with a line each. The server chooses these, too.
const (
	maxOwner  = 63 + 253 + 36
	maxOwners = 1000
)

// missingCluster is what has the tags of a Cluster that does not exist here.
type missingCluster struct {
	bytes int
	// resources are the first of them, and copies are those that were not created for a machine.
	resources, copies []string
}

func (m *missingCluster) add(thing Resource) {
	if m.bytes += len(thing.Kind) + len(thing.ID); m.bytes > maxListed {
		return
	}
	if name := thing.Kind + "/" + thing.ID; thing.Copy {
		m.copies = append(m.copies, name)
	} else {
		m.resources = append(m.resources, name)
	}
}

// reportMissing logs what has the tags of Clusters that do not exist here, once and whenever there is more. There is no object for an
// event.
func (c *Collector[M, C]) reportMissing(ctx context.Context, classified []Classified, clusters map[driver.Owner]*clusterv1.Cluster) {
	missing, found := map[driver.Owner]int{}, map[driver.Owner]*missingCluster{}
	for _, thing := range classified {
		owner := thing.Identity.Owner
		if thing.Class != ClassClusterMissing && (thing.Class != ClassDuplicate || clusters[owner] != nil) {
			continue
		}
		if missing[owner] == 0 {
			if len(owner.Namespace)+len(owner.Name)+len(owner.UID) > maxOwner || len(missing) >= maxOwners {
				continue
			}
			found[owner] = &missingCluster{}
		}
		missing[owner]++
		found[owner].add(thing.Resource)
	}
	for owner, of := range found {
		if missing[owner] > c.missing[owner] {
			ctrl.LoggerFrom(ctx).Info("found instances of a Cluster that does not exist in this management cluster",
				"Cluster", klog.KRef(owner.Namespace, owner.Name), "clusterUID", owner.UID, "count", missing[owner], "resources", of.resources, "copies", of.copies)
		}
	}
	c.missing = missing
}

func deletedOrphan(thing Resource) event {
	return event{"deleted orphan", "OrphanDeleted", "Collect", fmt.Sprintf("deleted %s %q, which remained of machine %q", thing.Kind, thing.ID, thing.Identity.Name)}
}
