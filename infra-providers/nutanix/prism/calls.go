// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package prism

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"net/http"
	"net/url"

	clusters "github.com/nutanix/ntnx-api-golang-clients/clustermgmt-go-client/v4/models/clustermgmt/v4/config"
	networks "github.com/nutanix/ntnx-api-golang-clients/networking-go-client/v4/models/networking/v4/config"
	tasks "github.com/nutanix/ntnx-api-golang-clients/prism-go-client/v4/models/prism/v4/config"
	"github.com/nutanix/ntnx-api-golang-clients/vmm-go-client/v4/models/vmm/v4/ahv/config"
	"github.com/nutanix/ntnx-api-golang-clients/vmm-go-client/v4/models/vmm/v4/content"
	groups "github.com/nutanix/ntnx-api-golang-clients/volumes-go-client/v4/models/volumes/v4/config"
	"k8s.io/utils/ptr"
)

const vmsPath = "ahv/config/vms"

func vmPath(id string) string { return vmsPath + "/" + url.PathEscape(id) }

// VM returns a virtual machine and its entity tag.
func (c *Client) VM(ctx context.Context, id string) (*config.Vm, string, error) {
	return get[config.Vm](ctx, c, vmm, vmPath(id))
}

// VMsByName yields the virtual machines of a name, which need not be unique, and a failure last.
func (c *Client) VMsByName(ctx context.Context, name string) iter.Seq2[*config.Vm, error] {
	return list[config.Vm](ctx, c, listing{namespace: vmm, path: vmsPath, filter: Equal("name", name)})
}

// VMs yields all virtual machines, page by page, and a failure last. One that is created or deleted meanwhile may move others
// to pages that were read already.
func (c *Client) VMs(ctx context.Context) iter.Seq2[*config.Vm, error] {
	return func(yield func(*config.Vm, error) bool) {
		for vm, err := range list[config.Vm](ctx, c, listing{namespace: vmm, path: vmsPath, unbounded: true}) {
			if errors.Is(err, errChanged) || !yield(vm, err) {
				return
			}
		}
	}
}

// CreateVM requests a virtual machine and returns the task.
func (c *Client) CreateVM(ctx context.Context, vm *config.Vm, requestID string) (Begun, error) {
	return c.change(ctx, call{method: http.MethodPost, namespace: vmm, path: vmsPath, body: vm, requestID: requestID})
}

// UpdateVM replaces a virtual machine and returns the task.
func (c *Client) UpdateVM(ctx context.Context, id string, vm *config.Vm, etag, requestID string) (Begun, error) {
	return c.change(ctx, call{method: http.MethodPut, namespace: vmm, path: vmPath(id), body: vm, etag: etag, requestID: requestID})
}

// DeleteVM deletes a virtual machine and returns the task.
func (c *Client) DeleteVM(ctx context.Context, id, etag, requestID string) (Begun, error) {
	return c.change(ctx, call{method: http.MethodDelete, namespace: vmm, path: vmPath(id), etag: etag, requestID: requestID})
}

// PowerOn starts a virtual machine and returns the task.
func (c *Client) PowerOn(ctx context.Context, id, etag, requestID string) (Begun, error) {
	return c.change(ctx, call{method: http.MethodPost, namespace: vmm, path: vmPath(id) + "/$actions/power-on", etag: etag, requestID: requestID})
}

// Reset resets a virtual machine and returns the task.
func (c *Client) Reset(ctx context.Context, id, etag, requestID string) (Begun, error) {
	return c.change(ctx, call{method: http.MethodPost, namespace: vmm, path: vmPath(id) + "/$actions/reset", etag: etag, requestID: requestID})
}

// DetachVolumeGroup detaches a volume group from a virtual machine and returns the task.
func (c *Client) DetachVolumeGroup(ctx context.Context, group, vm, requestID string) (Begun, error) {
	path := "config/volume-groups/" + url.PathEscape(group)
	_, etag, err := get[groups.VolumeGroup](ctx, c, volumes, path)
	if err != nil {
		return Begun{}, err
	}
	attachment := groups.NewVmAttachment()
	attachment.ExtId = &vm
	return c.change(ctx, call{method: http.MethodPost, namespace: volumes, path: path + "/$actions/detach-vm", body: attachment, etag: etag, requestID: requestID})
}

// maxTaskID is how long the ID of a task may be, which is kept.
const maxTaskID = 256

// change makes a call that starts a task, and returns that.
func (c *Client) change(ctx context.Context, of call) (Begun, error) {
	answer, err := c.send(ctx, of)
	if err != nil {
		return Begun{}, err
	}
	begun := struct{ ExtID string }{}
	if decode(answer.Data, &begun) != nil || begun.ExtID == "" || len(begun.ExtID) > maxTaskID {
		return Begun{}, errNoAnswer
	}
	return Begun{TaskID: begun.ExtID, At: answer.at}, nil
}

// Task returns a task.
func (c *Client) Task(ctx context.Context, id string) (*tasks.Task, error) {
	found, _, err := get[tasks.Task](ctx, c, prism, "config/tasks/"+url.PathEscape(id))
	return found, err
}

// Image returns an image.
func (c *Client) Image(ctx context.Context, id string) (*content.Image, error) {
	found, _, err := get[content.Image](ctx, c, vmm, "content/images/"+url.PathEscape(id))
	return found, err
}

// ImagesByName yields the images of a name, and a failure last.
func (c *Client) ImagesByName(ctx context.Context, name string) iter.Seq2[*content.Image, error] {
	return list[content.Image](ctx, c, listing{namespace: vmm, path: "content/images", filter: Equal("name", name)})
}

// Clusters yields all clusters, that of Prism Central included, and a failure last.
func (c *Client) Clusters(ctx context.Context) iter.Seq2[*clusters.Cluster, error] {
	return list[clusters.Cluster](ctx, c, listing{namespace: clustermgmt, path: "config/clusters"})
}

// SubnetsByName yields the subnets of a name, of all clusters, and a failure last.
func (c *Client) SubnetsByName(ctx context.Context, name string) iter.Seq2[*networks.Subnet, error] {
	return list[networks.Subnet](ctx, c, listing{namespace: networking, path: "config/subnets", filter: Equal("name", name)})
}

// StorageContainersByName yields the storage containers of a name, of all clusters, and a failure last.
func (c *Client) StorageContainersByName(ctx context.Context, name string) iter.Seq2[*clusters.StorageContainer, error] {
	return list[clusters.StorageContainer](ctx, c, listing{namespace: clustermgmt, path: "config/storage-containers", filter: Equal("name", name)})
}

// Category returns the category of a key and a value, or nil.
func (c *Client) Category(ctx context.Context, key, value string) (*tasks.Category, error) {
	var first *tasks.Category
	for found, err := range list[tasks.Category](ctx, c, listing{namespace: prism, path: "config/categories", filter: Equal("key", key, "value", value)}) {
		if err != nil {
			return nil, err
		}
		if ptr.Deref(found.Key, "") == key && ptr.Deref(found.Value, "") == value { // a filter may ignore the case of letters
			first = cmp.Or(first, found)
		}
	}
	return first, nil
}

// CreateCategory creates a category. It fails where there is one of its key and value.
func (c *Client) CreateCategory(ctx context.Context, category *tasks.Category, requestID string) error {
	_, err := c.send(ctx, call{method: http.MethodPost, namespace: prism, path: "config/categories", body: category, requestID: requestID})
	return err
}

// errUnnamed means that something answered that Prism Central does not name its version, as a proxy may.
var errUnnamed = errors.New("Prism Central did not name the version of its API, and projects need version 4.1") //nolint:staticcheck // it is a name

// HasProjects reports whether the API knows the project of a virtual machine. It fails while the version is not known.
func (c *Client) HasProjects(ctx context.Context) (bool, error) {
	minor, err := c.minor(ctx, vmm)
	if err == nil && minor == 0 && c.unnamed.Has(vmm) {
		return false, errUnnamed
	}
	return minor >= 1, err
}
