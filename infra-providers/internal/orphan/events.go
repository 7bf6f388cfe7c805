// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package orphan

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

// notice is one event to tell.
type notice struct{ reason, action, note string }

func (c *Collector[M, C]) tell(cluster *clusterv1.Cluster, n notice) {
	c.Events.Eventf(cluster, nil, corev1.EventTypeWarning, n.reason, n.action, "%s", n.note)
}

func suspected(thing Found, options Options) notice {
	next := fmt.Sprintf("it is deleted if that is still so in %s; pause the Cluster to prevent this", options.Grace)
	if options.DryRun {
		next = "nothing is deleted in dry-run mode"
	}
	return notice{"OrphanFound", "Sweep", fmt.Sprintf("%s %q of machine %q has no owner: %s", thing.Kind, thing.ID, thing.Identity.Name, next)}
}

func collected(thing Found) notice {
	return notice{"OrphanDeleted", "Collect", fmt.Sprintf("deleted %s %q, which machine %q left behind", thing.Kind, thing.ID, thing.Identity.Name)}
}
