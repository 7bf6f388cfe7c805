// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Package claim has the stored form of claims on workload clusters, and reads which management cluster holds one, for
// managers that do not claim workload clusters themselves. Package claim of machine-controller writes claims and explains
// them. A claim is a Lease in the workload cluster with a holder and a sequence number; a Lease in the management cluster
// records all claims that it has held. A copy of a management cluster has no record of claims made after the snapshot.
package claim

import (
	"context"
	"fmt"
	"strings"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	coordinationv1client "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Reader reads claims. Both fields are required.
type Reader struct {
	// Management reads the management cluster without a cache.
	Management client.Reader
	// Namespace is that of the manager, and of the machine-controller of the same installation.
	Namespace string
}

// Elsewhere reports whether another management cluster holds the claim of a Cluster, and its holder. A claim that does not
// exist or may not be read counts as none, and so does every one where this installation has no machine-controller of
// Drover, which would record its own.
func (r *Reader) Elsewhere(ctx context.Context, remote coordinationv1client.LeasesGetter, cluster client.ObjectKey) (holder string, elsewhere bool, err error) {
	// The claim is read first: a mark is recorded before it is used.
	key := LeaseKey(cluster)
	lease, err := remote.Leases(key.Namespace).Get(ctx, key.Name, metav1.GetOptions{})
	if err != nil {
		return "", false, ignoreUnknown(err)
	}
	record := &coordinationv1.Lease{}
	if err := r.Management.Get(ctx, client.ObjectKey{Namespace: r.Namespace, Name: HistoryLeaseName}, record); err != nil {
		if ignoreUnknown(err) == nil {
			return "", false, nil
		}
		return "", false, fmt.Errorf("reading Lease %q of the management cluster: %w", HistoryLeaseName, err)
	}
	history, err := HistoryOf(record)
	if err != nil {
		return "", false, fmt.Errorf("reading the management cluster's claims: %w", err)
	}
	mark, readable := MarkOf(lease)
	return mark.Holder, !readable || !Contains(history, mark), nil
}

// ignoreUnknown returns nil for an error that means that a Lease does not exist, or may not be read.
func ignoreUnknown(err error) error {
	if apierrors.IsNotFound(err) || apierrors.IsForbidden(err) || isNotServed(err) {
		return nil
	}
	return err
}

// isNotServed reports whether an API server has no Leases. Every kube-apiserver has; the one of Cluster API's in-memory
// provider answers with an internal error for a resource that it does not have.
func isNotServed(err error) bool {
	return apierrors.IsInternalError(err) && strings.Contains(err.Error(), "no APIResourceList defined for ")
}
