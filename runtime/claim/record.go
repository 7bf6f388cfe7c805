// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package claim

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	// Namespace is where the Lease is in the workload cluster.
	Namespace = metav1.NamespaceSystem
	// SequenceAnnotation on that Lease holds Mark.Sequence.
	SequenceAnnotation = "drover.io/claim-sequence"
	// HistoryAnnotation on the Lease in the management cluster holds the recorded marks, oldest first.
	HistoryAnnotation = "drover.io/claim-history"
	// HistoryLeaseName is the name of that Lease.
	HistoryLeaseName = "drover-machine-controller-claims"
)

// Mark is a point in time of one management cluster. The zero Mark is none.
type Mark struct {
	// Holder is the process, by a name that is never used again.
	Holder string `json:"holder"`
	// Sequence grows with every mark of a management cluster.
	Sequence int64 `json:"sequence"`
}

// LeaseKey returns where the claim of a Cluster is in its workload cluster. Two Cluster objects, in one or in two
// management clusters, may stand for the same workload cluster: each has a claim of its own.
func LeaseKey(cluster client.ObjectKey) client.ObjectKey {
	sum := sha256.Sum256([]byte(cluster.String()))
	return client.ObjectKey{Namespace: Namespace, Name: fmt.Sprintf("drover-%x", sum[:8])}
}

// MarkOf reads the mark of a claim; readable is false when it was edited by hand.
func MarkOf(lease *coordinationv1.Lease) (mark Mark, readable bool) {
	sequence, err := strconv.ParseInt(lease.Annotations[SequenceAnnotation], 10, 64)
	mark = Mark{Holder: ptr.Deref(lease.Spec.HolderIdentity, ""), Sequence: sequence}
	return mark, err == nil && mark.Holder != ""
}

// HistoryOf decodes the marks that a management cluster has recorded. A history that cannot be read is an error: an empty
// one would disown every claim.
func HistoryOf(lease *coordinationv1.Lease) ([]Mark, error) {
	encoded, found := lease.Annotations[HistoryAnnotation]
	if !found {
		return nil, nil
	}
	var history []Mark
	if err := json.Unmarshal([]byte(encoded), &history); err != nil {
		return nil, fmt.Errorf("annotation %s of Lease %q is not readable, delete the Lease to begin anew: %w", HistoryAnnotation, lease.Name, err)
	}
	return history, nil
}

// Contains reports whether a mark was set by the management cluster whose history this is.
func Contains(history []Mark, mark Mark) bool {
	return slices.ContainsFunc(history, func(recorded Mark) bool {
		return recorded.Holder == mark.Holder && mark.Sequence <= recorded.Sequence
	})
}
