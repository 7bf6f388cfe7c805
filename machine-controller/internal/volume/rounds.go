// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package volume

import (
	"context"
	"fmt"
	"sync"

	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// rounds read the VolumeAttachments of workload clusters. An API server cannot pick those of one Node, so that each
// question reads them all: when many Nodes are left at once, whoever asks while a list is under way shares the next.
// An answer is as good as one's own, because its list begins after the question.
type rounds struct {
	mu sync.Mutex
	// running and next are at most one each for a cluster.
	running, next map[types.NamespacedName]*round
}

// round is one list of one cluster.
type round struct {
	done chan struct{}
	// attached are the VolumeAttachments that are attached, by Node.
	attached map[string][]storagev1.VolumeAttachment
	err      error
}

// attached returns the VolumeAttachments of a Node as they were after the call began.
func (r *rounds) attached(ctx context.Context, req Request, pageSize int64) ([]storagev1.VolumeAttachment, error) {
	joined := r.join(ctx, req, pageSize)
	select {
	case <-joined.done:
		return joined.attached[req.Node], joined.err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

func (r *rounds) join(ctx context.Context, req Request, pageSize int64) *round {
	r.mu.Lock()
	defer r.mu.Unlock()
	if waiting, ok := r.next[req.Cluster]; ok {
		return waiting
	}
	if r.next == nil {
		r.running, r.next = map[types.NamespacedName]*round{}, map[types.NamespacedName]*round{}
	}
	begun := &round{done: make(chan struct{})}
	r.next[req.Cluster] = begun
	before := r.running[req.Cluster]
	// Others may wait for it when the first who asked has given up.
	go r.run(context.WithoutCancel(ctx), req, pageSize, begun, before)
	return begun
}

func (r *rounds) run(ctx context.Context, req Request, pageSize int64, begun, before *round) {
	if before != nil {
		<-before.done
	}
	r.mu.Lock()
	delete(r.next, req.Cluster)
	r.running[req.Cluster] = begun
	r.mu.Unlock()

	begun.attached, begun.err = list(ctx, req.Client, pageSize)
	close(begun.done)

	r.mu.Lock()
	defer r.mu.Unlock()
	if r.running[req.Cluster] == begun {
		delete(r.running, req.Cluster)
	}
}

func list(ctx context.Context, c client.Reader, pageSize int64) (map[string][]storagev1.VolumeAttachment, error) {
	found := map[string][]storagev1.VolumeAttachment{}
	var page storagev1.VolumeAttachmentList
	for {
		opts := []client.ListOption{client.Limit(pageSize), client.Continue(page.Continue)}
		page = storagev1.VolumeAttachmentList{}
		if err := c.List(ctx, &page, opts...); err != nil {
			return nil, fmt.Errorf("listing VolumeAttachments: %w", err)
		}
		for _, va := range page.Items {
			if va.Status.Attached {
				found[va.Spec.NodeName] = append(found[va.Spec.NodeName], va)
			}
		}
		if page.Continue == "" {
			return found, nil
		}
	}
}
