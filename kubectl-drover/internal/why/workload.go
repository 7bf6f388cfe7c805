// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package why

import (
	"context"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"drover.io/api/reason"
	"drover.io/kubectl-drover/internal/object"
	"drover.io/runtime/spelling"
)

// disconnected is why a workload cluster is not connected; nil if it is. A deletion waits for nothing else of a Cluster.
func disconnected(cluster *clusterv1.Cluster) *Finding {
	probe := meta.FindStatusCondition(cluster.Status.Conditions, clusterv1.ClusterRemoteConnectionProbeCondition)
	if probe == nil || probe.Status == metav1.ConditionTrue {
		return nil
	}
	return of(referenceOfCluster(cluster), *probe)
}

// machineOfNode returns the Machine of a Node of a workload cluster. Two workload clusters may have a Node of the same name.
func (f *Finder) machineOfNode(ctx context.Context, namespace, name string) (*clusterv1.Machine, error) {
	var found []*clusterv1.Machine
	var names []string
	err := f.Machines(ctx, namespace, "", func(page []clusterv1.Machine) error {
		for i := range page {
			switch node := page[i].Status.NodeRef.Name; {
			case node == name:
				found = append(found, page[i].DeepCopy())
			case node != "":
				names = append(names, node)
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	switch len(found) {
	case 0:
		near, _ := spelling.Nearest(name, names)
		return nil, &object.NotFoundError{Kind: "Machine with the Node", Key: client.ObjectKey{Namespace: namespace, Name: name}, Near: near}
	case 1:
		return found[0], nil
	}
	var all []string
	for _, m := range found {
		all = append(all, fmt.Sprintf("%s of Cluster %s", m.Name, m.Spec.ClusterName))
	}
	return nil, fmt.Errorf("%d Machines have a Node %q: %s; ask why of one of them", len(found), name, strings.Join(all, ", "))
}

// quota is what a ResourceQuota of the management cluster refuses.
func quota(found *Finding) {
	if !exceedsQuota(found) {
		return
	}
	found.Actor, found.Help = reason.Installer, "raise the ResourceQuota of the namespace, or scale down; it is tried again by itself"
	found.Command = command("kubectl describe resourcequota --namespace {namespace}", found.Object)
}

func exceedsQuota(found *Finding) bool {
	return strings.Contains(found.Condition.Message, "exceeded quota")
}
