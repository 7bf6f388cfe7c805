// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package orphan

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"

	"drover.io/infra-providers/driver"
)

// notice is one event to tell.
type notice struct{ reason, action, note string }

func (c *Collector[M, C]) notify(cluster *clusterv1.Cluster, n notice) {
	c.Events.Eventf(cluster, nil, corev1.EventTypeWarning, n.reason, n.action, "%s", n.note)
}

// noticeOf tells what was found for the first time.
func (c *Collector[M, C]) noticeOf(thing Judged) notice {
	switch thing.Verdict {
	case Foreign:
		return elsewhere(thing.Found)
	case Extra:
		return extra(thing.Found)
	}
	return suspected(thing.Found, c.Options)
}

func elsewhere(thing Found) notice {
	return notice{"OrphanOfAnotherManagementCluster", "Sweep", fmt.Sprintf(
		"%s %q of machine %q was created while no provider of this management cluster was running: this management cluster, or another that knows this Cluster, was restored from a snapshot; nothing of the Cluster is collected as an orphan",
		thing.Kind, thing.ID, thing.Identity.Name)}
}

func suspected(thing Found, options Options) notice {
	next := fmt.Sprintf("it is deleted if that is still so in %s; pause the Cluster to prevent this", options.Grace)
	if options.DryRun {
		next = "nothing is deleted in dry-run mode"
	}
	return notice{"OrphanFound", "Sweep", fmt.Sprintf("%s %q of machine %q has no owner: %s", thing.Kind, thing.ID, thing.Identity.Name, next)}
}

func extra(thing Found) notice {
	return notice{"ExtraInstance", "Sweep", fmt.Sprintf(
		"%s %q carries the tags of machine %q, whose instance is another: it is not deleted by itself; delete it in the cloud, or take the tags off it if it is to stay",
		thing.Kind, thing.ID, thing.Identity.Name)}
}

// reportMissing logs once what belongs to Clusters that are not here. There is no object for an event.
func (c *Collector[M, C]) reportMissing(ctx context.Context, judged []Judged) {
	missing, things := map[driver.Owner]bool{}, map[driver.Owner][]string{}
	for _, thing := range judged {
		if thing.Verdict == ClusterMissing {
			owner := thing.Identity.Owner
			missing[owner], things[owner] = true, append(things[owner], thing.Kind+"/"+thing.ID)
		}
	}
	for owner, found := range things {
		if !c.missing[owner] {
			ctrl.LoggerFrom(ctx).Info("found what belongs to a Cluster that is not in this management cluster, and left it alone",
				"cloud", c.Cloud.Name, "cluster", klog.KRef(owner.Namespace, owner.Name), "clusterUID", owner.UID, "found", found)
		}
	}
	c.missing = missing
}

func collected(thing Found) notice {
	return notice{"OrphanDeleted", "Collect", fmt.Sprintf("deleted %s %q, which machine %q left behind", thing.Kind, thing.ID, thing.Identity.Name)}
}
