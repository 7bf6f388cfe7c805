// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Package claim reads which management cluster acts on a workload cluster, for managers that do not claim workload clusters
// themselves. Package claim of machine-controller writes what is read here, and its comment has why: a Lease in the workload
// cluster with a holder and a sequence number, and a Lease in the management cluster with all that this one has recorded. A
// copy of a management cluster has no record of what the original claimed after the snapshot.
package claim

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	coordinationv1client "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	// sequenceAnnotation is on the Lease in the workload cluster.
	sequenceAnnotation = "drover.io/claim-sequence"
	// memoryName and historyAnnotation are those of the Lease in the management cluster.
	memoryName, historyAnnotation = "drover-machine-controller-claims", "drover.io/claim-history"
)

// mark is a point in time of one management cluster.
type mark struct {
	Holder   string `json:"holder"`
	Sequence int64  `json:"sequence"`
}

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
	lease, err := remote.Leases(metav1.NamespaceSystem).Get(ctx, leaseName(cluster), metav1.GetOptions{})
	if err != nil {
		return "", false, ignoreUnknown(err)
	}
	holder = ptr.Deref(lease.Spec.HolderIdentity, "")
	sequence, err := strconv.ParseInt(lease.Annotations[sequenceAnnotation], 10, 64)
	readable := err == nil && holder != ""
	memory := &coordinationv1.Lease{}
	if err := r.Management.Get(ctx, client.ObjectKey{Namespace: r.Namespace, Name: memoryName}, memory); err != nil {
		if ignoreUnknown(err) == nil {
			return "", false, nil
		}
		return "", false, fmt.Errorf("reading Lease %q of the management cluster: %w", memoryName, err)
	}
	var history []mark
	encoded, found := memory.Annotations[historyAnnotation]
	if err := json.Unmarshal([]byte(encoded), &history); found && err != nil {
		return "", false, fmt.Errorf("reading Lease %q of the management cluster: its history is not readable", memoryName)
	}
	recorded := slices.ContainsFunc(history, func(m mark) bool { return m.Holder == holder && sequence <= m.Sequence })
	return holder, !readable || !recorded, nil
}

// ignoreUnknown returns nil for an error that means that a Lease does not exist, or may not be read.
func ignoreUnknown(err error) error {
	if apierrors.IsNotFound(err) || apierrors.IsForbidden(err) {
		return nil
	}
	return err
}

func leaseName(cluster client.ObjectKey) string {
	sum := sha256.Sum256([]byte(cluster.String()))
	return fmt.Sprintf("drover-%x", sum[:8])
}
