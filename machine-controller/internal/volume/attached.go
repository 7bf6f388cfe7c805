// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package volume

import (
	"context"
	"crypto/sha256"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"drover.io/machine-controller/internal/paging"
)

// Volume is one volume attached to the Node. What is not known of it is empty.
type Volume struct {
	// Claim is the PersistentVolumeClaim; zero if the volume has none.
	Claim types.NamespacedName
	// PersistentVolume is the name of the PersistentVolume; empty if there is none.
	PersistentVolume string
	// Attachment is the name of the VolumeAttachment; empty if only the Node reports the volume.
	Attachment string
	// Reported is the name in the Node's status.volumesAttached; empty if only the VolumeAttachment is left.
	Reported string
	// DetachRequested is when the detachment was requested; zero if it was not yet.
	DetachRequested time.Time
	// Lost means that it names a PersistentVolume that no longer exists, so no attacher can ever detach it.
	Lost bool
}

// Attached returns the volumes attached to the Node by what its status reports and by VolumeAttachments, read live and
// paged.
// PersistentVolumes are read one by one, and listed only if the Node reports a volume that has no
// VolumeAttachment.
func (w *Waiter) Attached(ctx context.Context, req Request, reports []corev1.AttachedVolume) ([]Volume, error) {
	attachments, err := w.listBatches.attached(ctx, req, w.pageSize())
	if err != nil {
		return nil, err
	}
	volumes := make([]Volume, 0, len(attachments))
	index := map[string]int{}
	for i := range attachments {
		v, err := ofAttachment(ctx, req.Client, attachments[i])
		if err != nil {
			return nil, err
		}
		index[v.Attachment] = len(volumes)
		volumes = append(volumes, v)
	}
	unknown := map[string]bool{}
	for _, reported := range reports {
		if i, exists := index[attachmentName(string(reported.Name), req.Node)]; exists {
			volumes[i].Reported = string(reported.Name)
			continue
		}
		unknown[string(reported.Name)] = true
	}
	if len(unknown) == 0 {
		return volumes, nil
	}
	reported, err := w.ofNodeStatus(ctx, req.Client, unknown)
	return append(volumes, reported...), err
}

func ofAttachment(ctx context.Context, c client.Reader, found attachment) (Volume, error) {
	v := Volume{Attachment: found.name, DetachRequested: found.detachRequested, PersistentVolume: found.persistentVolume}
	if v.PersistentVolume == "" {
		return v, nil // written into the Pod itself
	}
	var pv corev1.PersistentVolume
	err := c.Get(ctx, client.ObjectKey{Name: v.PersistentVolume}, &pv)
	switch {
	case apierrors.IsNotFound(err):
		v.Lost = true
	case err != nil:
		return Volume{}, fmt.Errorf("getting PersistentVolume %q: %w", v.PersistentVolume, err)
	}
	v.Claim = claimOf(&pv)
	return v, nil
}

// ofNodeStatus finds the PersistentVolumes of names that only the Node reports.
func (w *Waiter) ofNodeStatus(ctx context.Context, c client.Reader, unknown map[string]bool) ([]Volume, error) {
	var volumes []Volume
	err := paging.Read(w.pageSize(), func(size int64, token string) (string, error) {
		page := &corev1.PersistentVolumeList{}
		if err := c.List(ctx, page, client.Limit(size), client.Continue(token)); err != nil {
			return "", err
		}
		for i := range page.Items {
			pv := &page.Items[i]
			if name := reportedName(pv); unknown[name] {
				volumes = append(volumes, Volume{Claim: claimOf(pv), PersistentVolume: pv.Name, Reported: name})
				delete(unknown, name)
			}
		}
		return page.Continue, nil
	})
	if err != nil {
		return nil, fmt.Errorf("listing PersistentVolumes: %w", err)
	}
	for name := range unknown {
		volumes = append(volumes, Volume{Reported: name})
	}
	return volumes, nil
}

func claimOf(pv *corev1.PersistentVolume) types.NamespacedName {
	ref := pv.Spec.ClaimRef
	if ref == nil || ref.Kind != "" && ref.Kind != "PersistentVolumeClaim" {
		return types.NamespacedName{}
	}
	return types.NamespacedName{Namespace: ref.Namespace, Name: ref.Name}
}

// Kubernetes names a CSI volume in a Node's status by driver and handle, and the VolumeAttachment by their hash
// with the Node's name.
const csiPrefix = "kubernetes.io/csi/"

func reportedName(pv *corev1.PersistentVolume) string {
	if pv.Spec.CSI == nil {
		return ""
	}
	return csiPrefix + pv.Spec.CSI.Driver + "^" + pv.Spec.CSI.VolumeHandle
}

func attachmentName(reported, node string) string {
	driver, handle, csi := strings.Cut(strings.TrimPrefix(reported, csiPrefix), "^")
	if !csi || !strings.HasPrefix(reported, csiPrefix) {
		return ""
	}
	return fmt.Sprintf("csi-%x", sha256.Sum256([]byte(handle+driver+node)))
}
