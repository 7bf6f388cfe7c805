// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package yandexfake

import (
	"context"
	"maps"
	"regexp"
	"slices"

	"github.com/yandex-cloud/go-genproto/yandex/cloud/compute/v1"
	"github.com/yandex-cloud/go-genproto/yandex/cloud/operation"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"
)

// disk is a disk, its reads until it proceeds, and the lists that omit it.
type disk struct {
	*compute.Disk
	wait, hidden int
	running      *operationState
	fault        Fault
}

// diskServer implements compute.DiskServiceServer.
type diskServer struct {
	compute.UnimplementedDiskServiceServer
	c *Cloud
}

// Create begins to create a disk.
func (s diskServer) Create(ctx context.Context, request *compute.CreateDiskRequest) (*operation.Operation, error) {
	return s.c.once(ctx, func(_ string, fault Fault) (*operationState, error) {
		if err := s.c.checkDisk(request); err != nil {
			return nil, err
		}
		created := s.c.newDisk(request)
		created.fault = fault
		created.running = s.c.newOperation(created.Id, &compute.CreateDiskMetadata{DiskId: created.Id})
		created.running.read = func() { s.c.readDisk(created) }
		return created.running, nil
	})
}

func (c *Cloud) checkDisk(request *compute.CreateDiskRequest) error {
	switch {
	case request.FolderId != Folder:
		return refuse(codes.PermissionDenied, "Permission denied")
	case !slices.Contains([]string{ZoneA, ZoneB}, request.ZoneId):
		return refuse(codes.InvalidArgument, "Zone %s not found", request.ZoneId)
	case request.GetImageId() != "" && c.image(request.GetImageId()) == nil:
		return refuse(codes.NotFound, "Image %s not found", request.GetImageId())
	case request.GetSnapshotId() != "":
		return refuse(codes.NotFound, "Snapshot %s not found", request.GetSnapshotId())
	}
	for _, d := range c.disks {
		if d.Name == request.Name && !c.options.DuplicateNames {
			return refuse(codes.AlreadyExists, "Disk with name %s already exists", request.Name)
		}
	}
	return nil
}

func (c *Cloud) newDisk(request *compute.CreateDiskRequest) *disk {
	made := &disk{wait: c.options.OperationReads, hidden: c.options.ListDelay, Disk: &compute.Disk{
		Id: c.nextID("fhd"), FolderId: request.FolderId, CreatedAt: c.now(), Name: request.Name, Labels: maps.Clone(request.Labels), ZoneId: request.ZoneId,
		TypeId: request.TypeId, Size: request.Size, BlockSize: request.BlockSize, Status: compute.Disk_CREATING,
		DiskPlacementPolicy: request.DiskPlacementPolicy,
	}}
	if made.TypeId == "" {
		made.TypeId = "network-hdd"
	}
	if request.GetImageId() != "" {
		made.Source = &compute.Disk_SourceImageId{SourceImageId: request.GetImageId()}
	}
	c.disks[made.Id] = made
	return made
}

// readDisk counts a read of a disk, and reports whether it still exists afterwards.
func (c *Cloud) readDisk(d *disk) (exists bool) {
	if c.disks[d.Id] == nil {
		return false
	}
	if d.Status != compute.Disk_CREATING && d.Status != compute.Disk_DELETING {
		return true
	}
	if d.wait--; d.wait >= 0 {
		return true
	}
	switch {
	case d.Status == compute.Disk_DELETING:
		d.running.end(nil, nil)
		c.removeDisk(d)
		return false
	case d.fault.Operation != codes.OK:
		d.running.end(nil, failure(d.fault))
		c.removeDisk(d)
		return false
	default:
		d.Status = compute.Disk_READY
		d.running.end(d.Disk, nil)
	}
	return true
}

func (c *Cloud) removeDisk(d *disk) {
	delete(c.disks, d.Id)
	if c.options.ListDelay > 0 && d.hidden == 0 {
		c.ghosts[proto.Clone(d.Disk)] = c.options.ListDelay
	}
}

func (s diskServer) find(id string) (*disk, error) {
	found := s.c.disks[id]
	if found == nil || !s.c.readDisk(found) {
		return nil, refuse(codes.NotFound, "Disk %s not found", id)
	}
	return found, nil
}

// Get returns a disk.
func (s diskServer) Get(_ context.Context, request *compute.GetDiskRequest) (*compute.Disk, error) {
	found, err := s.find(request.DiskId)
	if err != nil {
		return nil, err
	}
	return proto.Clone(found.Disk).(*compute.Disk), nil
}

// List counts as a read of every disk that it has.
func (s diskServer) List(_ context.Context, request *compute.ListDisksRequest) (*compute.ListDisksResponse, error) {
	all := map[string]*compute.Disk{}
	for id, d := range s.c.disks {
		if d.hidden > 0 {
			d.hidden--
			continue
		}
		if d.FolderId == request.FolderId && s.c.readDisk(d) {
			all[id] = proto.Clone(d.Disk).(*compute.Disk)
		}
	}
	for ghost := range s.c.ghosts {
		if d, ok := ghost.(*compute.Disk); ok {
			all[d.Id] = proto.Clone(d).(*compute.Disk)
			s.c.haunt(ghost)
		}
	}
	page, next, err := selectPage(all, request.PageSize, request.PageToken, request.Filter)
	return &compute.ListDisksResponse{Disks: page, NextPageToken: next}, err
}

// Delete begins to delete a disk that is not attached.
func (s diskServer) Delete(_ context.Context, request *compute.DeleteDiskRequest) (*operation.Operation, error) {
	found := s.c.disks[request.DiskId]
	switch {
	case found == nil:
		return nil, refuse(codes.NotFound, "Disk %s not found", request.DiskId)
	case found.Status == compute.Disk_CREATING || found.Status == compute.Disk_DELETING || len(found.InstanceIds) > 0:
		return nil, refuse(codes.FailedPrecondition, "Disk %s is in use", found.Id)
	}
	found.Status, found.wait = compute.Disk_DELETING, s.c.options.DeletingReads
	found.running = s.c.newOperation(found.Id, &compute.DeleteDiskMetadata{DiskId: found.Id})
	found.running.read = func() { s.c.readDisk(found) }
	return found.running.Operation, nil
}

// Update changes labels.
func (s diskServer) Update(_ context.Context, request *compute.UpdateDiskRequest) (*operation.Operation, error) {
	found, err := s.find(request.DiskId)
	if err != nil {
		return nil, err
	}
	if !slices.Equal(request.UpdateMask.GetPaths(), []string{"labels"}) {
		return nil, refuse(codes.InvalidArgument, "only labels are updated")
	}
	found.Labels = maps.Clone(request.Labels)
	updated := s.c.newOperation(found.Id, &compute.UpdateDiskMetadata{DiskId: found.Id})
	updated.end(found.Disk, nil)
	return updated.Operation, nil
}

// nameFilter is the only filter that the fake knows.
var nameFilter = regexp.MustCompile(`^name="([-_a-z0-9]*)"$`)

// selectPage returns a page of a list. The token is the last ID, so that what is created or deleted meanwhile shifts no page.
func selectPage[M interface{ GetName() string }](all map[string]M, size int64, token, filter string) (page []M, next string, err error) {
	name := ""
	if filter != "" {
		parts := nameFilter.FindStringSubmatch(filter)
		if parts == nil {
			return nil, "", refuse(codes.InvalidArgument, "Invalid filter %s", filter)
		}
		name = parts[1]
	}
	last := ""
	for _, id := range slices.Sorted(maps.Keys(all)) {
		if id <= token || name != "" && all[id].GetName() != name {
			continue
		}
		if int64(len(page)) == max(size, 1) {
			return page, last, nil
		}
		page, last = append(page, all[id]), id
	}
	return page, "", nil
}
