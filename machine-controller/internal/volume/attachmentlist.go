// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package volume

import (
	"context"
	"fmt"
	"sync"
	"time"

	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"drover.io/machine-controller/internal/paging"
)

// listBatches read the VolumeAttachments of workload clusters. An API server cannot list those of one Node, so that each
// request reads all of them: when many Nodes are drained at once, the requests that arrive while a list is in progress
// share the next one. Its result is as current as that of a list of one's own, because it starts after the request.
type listBatches struct {
	mu sync.Mutex
	// latest is the newest batch of each cluster that has not ended.
	latest map[types.NamespacedName]*listBatch
}

// listBatch is one list of one cluster.
type listBatch struct {
	// started is true once its list is in progress; done is closed when it has ended.
	started bool
	done    chan struct{}
	// attached are the VolumeAttachments that are attached, by Node.
	attached map[string][]attachment
	err      error
}

// attached returns the VolumeAttachments of a Node as they were after the call began.
func (r *listBatches) attached(ctx context.Context, req Request, pageSize int64) ([]attachment, error) {
	joined := r.join(ctx, req, pageSize)
	select {
	case <-joined.done:
		return joined.attached[req.Node], joined.err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

func (r *listBatches) join(ctx context.Context, req Request, pageSize int64) *listBatch {
	r.mu.Lock()
	defer r.mu.Unlock()
	before := r.latest[req.Cluster]
	if before != nil && !before.started {
		return before
	}
	if r.latest == nil {
		r.latest = map[types.NamespacedName]*listBatch{}
	}
	next := &listBatch{done: make(chan struct{})}
	r.latest[req.Cluster] = next
	// Others may wait for it when the first request was cancelled.
	go r.run(context.WithoutCancel(ctx), req, pageSize, next, before)
	return next
}

// run lists once the batch before has ended.
func (r *listBatches) run(ctx context.Context, req Request, pageSize int64, next, before *listBatch) {
	if before != nil {
		<-before.done
	}
	r.mu.Lock()
	next.started = true
	r.mu.Unlock()

	next.attached, next.err = list(ctx, req.Client, pageSize)
	close(next.done)

	r.mu.Lock()
	defer r.mu.Unlock()
	if r.latest[req.Cluster] == next {
		delete(r.latest, req.Cluster)
	}
}

func list(ctx context.Context, c client.Reader, pageSize int64) (map[string][]attachment, error) {
	found, budget := map[string][]attachment{}, paging.Budget{}
	err := paging.Read(pageSize, func(size int64, token string) (string, error) {
		page := &storagev1.VolumeAttachmentList{}
		if err := c.List(ctx, page, client.Limit(size), client.Continue(token)); err != nil {
			return "", err
		}
		for i := range page.Items {
			if !page.Items[i].Status.Attached {
				continue
			}
			kept, node := newAttachment(&page.Items[i]), page.Items[i].Spec.NodeName
			if err := budget.KeepBytes(len(kept.name) + len(kept.persistentVolume) + len(node) + attachmentOverhead); err != nil {
				return "", err
			}
			found[node] = append(found[node], kept)
		}
		return page.Continue, nil
	})
	if err != nil {
		return nil, fmt.Errorf("listing VolumeAttachments: %w", err)
	}
	return found, nil
}

// attachment is what is needed of a VolumeAttachment: a large cluster has many thousands.
type attachment struct {
	name string
	// persistentVolume is empty for a volume that is written into the Pod itself.
	persistentVolume string
	// detachRequested is the time of the deletion of the VolumeAttachment; zero without one.
	detachRequested time.Time
}

// attachmentOverhead is what an attachment takes in memory besides its texts, with the growth of its slice and map.
const attachmentOverhead = 192

func newAttachment(va *storagev1.VolumeAttachment) attachment {
	kept := attachment{name: va.Name, persistentVolume: ptr.Deref(va.Spec.Source.PersistentVolumeName, "")}
	if va.DeletionTimestamp != nil {
		kept.detachRequested = va.DeletionTimestamp.Time
	}
	return kept
}
