// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package azurefake

import (
	"context"
	"net/http"

	azfake "github.com/Azure/azure-sdk-for-go/sdk/azcore/fake"
	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/compute/armcompute/v8"
)

const diskKind = "Microsoft.Compute/disks"

func (c *Cloud) getDisk(_ context.Context, _, name string, _ *armcompute.DisksClientGetOptions) (resp azfake.Responder[armcompute.DisksClientGetResponse], errResp azfake.ErrorResponder) {
	if c.disks[name] == nil {
		errResp.SetError(notFound(diskKind, name))
		return resp, errResp
	}
	resp.SetResponse(http.StatusOK, armcompute.DisksClientGetResponse{Disk: c.disks[name].model}, nil)
	return resp, errResp
}

func (c *Cloud) patchDisk(_ context.Context, _, name string, sent armcompute.DiskUpdate, _ *armcompute.DisksClientBeginUpdateOptions) (resp azfake.PollerResponder[armcompute.DisksClientUpdateResponse], errResp azfake.ErrorResponder) {
	if c.disks[name] == nil {
		errResp.SetError(notFound(diskKind, name))
		return resp, errResp
	}
	c.disks[name].model.Tags = sent.Tags
	resp.SetTerminalResponse(http.StatusOK, armcompute.DisksClientUpdateResponse{Disk: c.disks[name].model}, nil)
	return resp, errResp
}

func (c *Cloud) deleteDisk(_ context.Context, _, name string, _ *armcompute.DisksClientBeginDeleteOptions) (resp azfake.PollerResponder[armcompute.DisksClientDeleteResponse], errResp azfake.ErrorResponder) {
	found := c.disks[name]
	switch {
	case found == nil:
		resp.SetTerminalResponse(http.StatusNoContent, armcompute.DisksClientDeleteResponse{}, nil)
	case found.model.ManagedBy != nil:
		errResp.SetError(refuse(http.StatusConflict, "OperationNotAllowed", "Disk %s is attached to VM %s.", name, *found.model.ManagedBy))
	default:
		delete(c.disks, name)
		resp.SetTerminalResponse(http.StatusAccepted, armcompute.DisksClientDeleteResponse{}, nil)
	}
	return resp, errResp
}
