// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package claim

import (
	"context"
	"fmt"
	"strconv"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	droverpolicyv1 "drover.io/api/policy/v1alpha1"
	"drover.io/machine-controller/internal/workload"
	record "drover.io/runtime/claim"
)

// ClusterAnnotation on the Lease in the workload cluster names the Cluster object that the claim is for.
const ClusterAnnotation = "drover.io/cluster"

// Claimer claims workload clusters for this management cluster. All fields are required.
type Claimer struct {
	History *History
	// Clusters reads Clusters of the management cluster, from the manager's cache.
	Clusters client.Reader
	Clock    clock.PassiveClock
}

// Claim claims the workload cluster of a Cluster, or renews the claim. It fails when the result is
// not known: the result before stays valid then.
func (c *Claimer) Claim(ctx context.Context, remote client.Client, cluster client.ObjectKey) (workload.Claim, error) {
	mine, err := c.History.Mark(ctx)
	if err != nil {
		return workload.Claim{}, err
	}
	lease := &coordinationv1.Lease{}
	err = remote.Get(ctx, record.LeaseKey(cluster), lease)
	switch {
	case apierrors.IsNotFound(err):
		c.stamp(lease, cluster, mine)
		err = remote.Create(ctx, lease)
	case err == nil:
		var mayTake bool
		if mayTake, err = c.mayTake(ctx, lease, cluster, mine); err != nil {
			return workload.Claim{}, err
		}
		if !mayTake {
			return foreign(lease), nil
		}
		c.stamp(lease, cluster, mine)
		err = remote.Update(ctx, lease) // refused if another manager has written since
	}
	switch {
	case apierrors.IsForbidden(err):
		return forbidden(), nil
	case err != nil:
		return workload.Claim{}, fmt.Errorf("claiming workload cluster: %w", err)
	}
	return workload.Claim{Status: workload.ClaimHeld}, nil
}

// Release gives up a claim that this process holds, so that another management cluster may claim the workload
// cluster: the Cluster was moved there, or deleted.
func (c *Claimer) Release(ctx context.Context, remote client.Client, cluster client.ObjectKey) error {
	lease := &coordinationv1.Lease{}
	if err := remote.Get(ctx, record.LeaseKey(cluster), lease); err != nil {
		return client.IgnoreNotFound(err)
	}
	if ptr.Deref(lease.Spec.HolderIdentity, "") != c.History.Holder {
		return nil
	}
	return client.IgnoreNotFound(remote.Delete(ctx, lease, client.Preconditions{UID: &lease.UID, ResourceVersion: &lease.ResourceVersion}))
}

// mayTake reports whether a claim that exists may be renewed or taken over.
func (c *Claimer) mayTake(ctx context.Context, lease *coordinationv1.Lease, cluster client.ObjectKey, mine record.Mark) (bool, error) {
	found, readable := record.MarkOf(lease)
	if readable && found.Holder == mine.Holder {
		return found.Sequence <= mine.Sequence, nil
	}
	if readable && c.History.Contains(found) {
		return true, nil
	}
	object := &clusterv1.Cluster{}
	if err := c.Clusters.Get(ctx, cluster, object); err != nil {
		return false, fmt.Errorf("reading Cluster: %w", err)
	}
	wanted := object.Annotations[droverpolicyv1.TakeOverAnnotation]
	return wanted != "" && wanted == ptr.Deref(lease.Spec.HolderIdentity, ""), nil
}

func (c *Claimer) stamp(lease *coordinationv1.Lease, cluster client.ObjectKey, mine record.Mark) {
	now := metav1.NewMicroTime(c.Clock.Now())
	key := record.LeaseKey(cluster)
	lease.Namespace, lease.Name = key.Namespace, key.Name
	if ptr.Deref(lease.Spec.HolderIdentity, "") != mine.Holder {
		lease.Spec.AcquireTime = &now
	}
	lease.Spec.HolderIdentity, lease.Spec.RenewTime = &mine.Holder, &now
	metav1.SetMetaDataAnnotation(&lease.ObjectMeta, record.SequenceAnnotation, strconv.FormatInt(mine.Sequence, 10))
	metav1.SetMetaDataAnnotation(&lease.ObjectMeta, ClusterAnnotation, cluster.String())
}

func foreign(lease *coordinationv1.Lease) workload.Claim {
	holder := ptr.Deref(lease.Spec.HolderIdentity, "")
	return workload.Claim{Status: workload.ClaimForeign, Message: fmt.Sprintf(
		"another management cluster acts on the workload cluster: its Lease %s/%s is held by %q. If that management cluster no longer exists, set the annotation %s=%s on this Cluster, or delete the Lease",
		lease.Namespace, lease.Name, holder, droverpolicyv1.TakeOverAnnotation, holder)}
}

func forbidden() workload.Claim {
	return workload.Claim{Status: workload.ClaimForbidden, Message: fmt.Sprintf(
		"the kubeconfig's user may not get, create, update and delete Leases in namespace %s of the workload cluster, by which management clusters keep out of each other's way: apply config/workload of machine-controller there as its administrator",
		record.Namespace)}
}
