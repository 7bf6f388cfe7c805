// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package volume

import (
	"context"
	"fmt"
	"strconv"
	"testing"

	storagev1 "k8s.io/api/storage/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// attachments is an API server with so many VolumeAttachments, three for each Node, named as Kubernetes names them.
type attachments int

func (n attachments) Get(context.Context, client.ObjectKey, client.Object, ...client.GetOption) error {
	return nil
}

func (n attachments) List(_ context.Context, list client.ObjectList, options ...client.ListOption) error {
	o := (&client.ListOptions{}).ApplyOptions(options)
	page := list.(*storagev1.VolumeAttachmentList)
	first, _ := strconv.Atoi(o.Continue)
	for i := first; i < min(int(n), first+int(o.Limit)); i++ {
		va := storagev1.VolumeAttachment{}
		va.Name = fmt.Sprintf("csi-%064x", i)
		va.Spec.NodeName = fmt.Sprintf("ip-10-0-%d.eu-central-1.compute.internal", i/3)
		va.Spec.Source.PersistentVolumeName = new(fmt.Sprintf("pvc-%036x", i))
		va.Status.Attached = true
		page.Items = append(page.Items, va)
	}
	if next := first + int(o.Limit); next < int(n) {
		page.Continue = strconv.Itoa(next)
	}
	return nil
}

// TestLargeClusterHasManyAttachments has 40,000 attached volumes.
func TestLargeClusterHasManyAttachments(t *testing.T) {
	t.Parallel()
	found, err := list(t.Context(), attachments(40_000), 500)
	if err != nil || len(found) != 13_334 {
		t.Errorf("%d Nodes with volumes, error %v", len(found), err)
	}
}
