// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package yandexfake

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/yandex-cloud/go-genproto/yandex/cloud/compute/v1"
	"github.com/yandex-cloud/go-genproto/yandex/cloud/operation"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"
)

// instance is an instance, its reads until it proceeds, and the lists that omit it.
type instance struct {
	*compute.Instance
	wait, hidden int
	running      *operationState
	fault        Fault
}

// instanceServer implements compute.InstanceServiceServer.
type instanceServer struct {
	compute.UnimplementedInstanceServiceServer
	c *Cloud
}

var (
	platforms = []string{"standard-v2", "standard-v3", "highfreq-v3", NoCapacity}
	subnets   = map[string]string{SubnetA: ZoneA, SubnetB: ZoneB}
)

// Create begins to create an instance.
func (s instanceServer) Create(ctx context.Context, request *compute.CreateInstanceRequest) (*operation.Operation, error) {
	return s.c.once(ctx, func(key string, fault Fault) (*operationState, error) {
		s.c.requests, s.c.keys = append(s.c.requests, proto.Clone(request).(*compute.CreateInstanceRequest)), append(s.c.keys, key)
		if err := s.c.checkInstance(request); err != nil {
			return nil, err
		}
		if request.PlatformId == NoCapacity {
			fault.Operation, fault.Message = codes.ResourceExhausted, "Not enough resources"
		}
		created := s.c.newInstance(request)
		created.fault = fault
		created.running = s.c.newOperation(created.Id, &compute.CreateInstanceMetadata{InstanceId: created.Id})
		created.running.read = func() { s.c.read(created) }
		return created.running, nil
	})
}

// checkInstance refuses what does not exist or has a name that is in use.
func (c *Cloud) checkInstance(request *compute.CreateInstanceRequest) error {
	switch {
	case request.FolderId != Folder:
		return refuse(codes.PermissionDenied, "Permission denied")
	case !slices.Contains([]string{ZoneA, ZoneB}, request.ZoneId):
		return refuse(codes.InvalidArgument, "Zone %s not found", request.ZoneId)
	case !slices.Contains(platforms, request.PlatformId):
		return refuse(codes.InvalidArgument, "Platform %s not found", request.PlatformId)
	}
	for _, nic := range request.NetworkInterfaceSpecs {
		switch zone, ok := subnets[nic.SubnetId]; {
		case !ok:
			return refuse(codes.NotFound, "Subnet %s not found", nic.SubnetId)
		case zone != request.ZoneId:
			return refuse(codes.InvalidArgument, "Subnet %s is in another zone", nic.SubnetId)
		}
	}
	for _, attached := range append([]*compute.AttachedDiskSpec{request.BootDiskSpec}, request.SecondaryDiskSpecs...) {
		found := c.disks[attached.GetDiskId()]
		switch {
		case found == nil:
			return refuse(codes.NotFound, "Disk %s not found", attached.GetDiskId())
		case found.Status != compute.Disk_READY || len(found.InstanceIds) > 0:
			return refuse(codes.FailedPrecondition, "Disk %s is not ready or attached", found.Id)
		case found.ZoneId != request.ZoneId:
			return refuse(codes.InvalidArgument, "Disk %s is in another zone", found.Id)
		}
	}
	for _, i := range c.instances {
		if i.Name == request.Name && !c.options.DuplicateNames {
			return refuse(codes.AlreadyExists, "Instance with name %s already exists", request.Name)
		}
	}
	return nil
}

// newInstance fills in what Compute Cloud decides, and attaches the disks.
func (c *Cloud) newInstance(request *compute.CreateInstanceRequest) *instance {
	id := c.nextID("fhm")
	created := &instance{wait: c.options.OperationReads, hidden: max(c.hide, c.options.ListDelay), Instance: &compute.Instance{
		Id: id, FolderId: request.FolderId, CreatedAt: c.now(), Name: request.Name, Labels: maps.Clone(request.Labels), ZoneId: request.ZoneId,
		PlatformId: request.PlatformId, Status: compute.Instance_PROVISIONING, Metadata: maps.Clone(request.Metadata), SchedulingPolicy: request.SchedulingPolicy,
		ServiceAccountId: request.ServiceAccountId, PlacementPolicy: request.PlacementPolicy, MetadataOptions: request.MetadataOptions,
		Fqdn: request.Hostname + ".ru-central1.internal",
		Resources: &compute.Resources{
			Memory: request.ResourcesSpec.Memory, Cores: request.ResourcesSpec.Cores, CoreFraction: request.ResourcesSpec.CoreFraction, Gpus: request.ResourcesSpec.Gpus,
		},
	}}
	c.hide = 0
	for n, nic := range request.NetworkInterfaceSpecs {
		to := &compute.NetworkInterface{Index: fmt.Sprint(n), SubnetId: nic.SubnetId, SecurityGroupIds: nic.SecurityGroupIds}
		to.PrimaryV4Address = &compute.PrimaryAddress{Address: fmt.Sprintf("10.%d.%d.%d", n, c.serial/250%250, 2+c.serial%250)}
		if nic.PrimaryV4AddressSpec.GetOneToOneNatSpec() != nil {
			to.PrimaryV4Address.OneToOneNat = &compute.OneToOneNat{Address: fmt.Sprintf("203.0.113.%d", 2+c.serial%250), IpVersion: compute.IpVersion_IPV4}
		}
		if nic.PrimaryV6AddressSpec != nil {
			to.PrimaryV6Address = &compute.PrimaryAddress{Address: fmt.Sprintf("2001:db8::%x", c.serial)}
		}
		created.NetworkInterfaces = append(created.NetworkInterfaces, to)
	}
	attach := func(spec *compute.AttachedDiskSpec) *compute.AttachedDisk {
		c.disks[spec.GetDiskId()].InstanceIds = []string{id}
		return &compute.AttachedDisk{DiskId: spec.GetDiskId(), AutoDelete: spec.AutoDelete, DeviceName: spec.DeviceName, Mode: compute.AttachedDisk_READ_WRITE}
	}
	created.BootDisk = attach(request.BootDiskSpec)
	for _, spec := range request.SecondaryDiskSpecs {
		created.SecondaryDisks = append(created.SecondaryDisks, attach(spec))
	}
	c.instances[id] = created
	return created
}

// read counts a read of an instance, and reports whether it still exists afterwards.
func (c *Cloud) read(i *instance) (exists bool) {
	if c.instances[i.Id] == nil {
		return false
	}
	switch i.Status {
	case compute.Instance_PROVISIONING, compute.Instance_DELETING, compute.Instance_RESTARTING:
	default:
		return true
	}
	if i.wait--; i.wait >= 0 {
		return true
	}
	switch {
	case i.Status == compute.Instance_DELETING:
		i.running.end(nil, nil)
		c.remove(i, true)
		return false
	case i.fault.Operation != codes.OK:
		failed := failure(i.fault)
		i.fault = Fault{LeavesInstance: i.fault.LeavesInstance}
		i.running.end(nil, failed)
		if i.fault.LeavesInstance {
			i.Status = compute.Instance_ERROR
			return true
		}
		c.remove(i, false)
		return false
	default:
		i.Status = compute.Instance_RUNNING
		i.running.end(i.Instance, nil)
	}
	return true
}

// remove removes an instance, and its disks as far as they are deleted with it.
func (c *Cloud) remove(i *instance, withDisks bool) {
	delete(c.instances, i.Id)
	if c.options.ListDelay > 0 && i.hidden == 0 {
		c.ghosts[proto.Clone(i.Instance)] = c.options.ListDelay
	}
	for _, attached := range append([]*compute.AttachedDisk{i.BootDisk}, i.SecondaryDisks...) {
		if found := c.disks[attached.DiskId]; found != nil {
			found.InstanceIds = nil
			if withDisks && attached.AutoDelete {
				c.removeDisk(found)
			}
		}
	}
}

func (s instanceServer) find(id string) (*instance, error) {
	found := s.c.instances[id]
	if found == nil || !s.c.read(found) {
		return nil, refuse(codes.NotFound, "Instance %s not found", id)
	}
	return found, nil
}

// Get returns an instance without its metadata, as the basic view has it.
func (s instanceServer) Get(_ context.Context, request *compute.GetInstanceRequest) (*compute.Instance, error) {
	found, err := s.find(request.InstanceId)
	if err != nil {
		return nil, err
	}
	return basic(found.Instance), nil
}

func basic(found *compute.Instance) *compute.Instance {
	to := proto.Clone(found).(*compute.Instance)
	to.Metadata = nil
	return to
}

// List counts as a read of every instance that it has.
func (s instanceServer) List(_ context.Context, request *compute.ListInstancesRequest) (*compute.ListInstancesResponse, error) {
	all := map[string]*compute.Instance{}
	for id, i := range s.c.instances {
		if i.hidden > 0 {
			i.hidden--
			continue
		}
		if i.FolderId == request.FolderId && s.c.read(i) {
			all[id] = basic(i.Instance)
		}
	}
	for ghost := range s.c.ghosts {
		if i, ok := ghost.(*compute.Instance); ok {
			all[i.Id] = basic(i)
			s.c.haunt(ghost)
		}
	}
	page, next, err := selectPage(all, request.PageSize, request.PageToken, request.Filter)
	return &compute.ListInstancesResponse{Instances: page, NextPageToken: next}, err
}

// Delete begins to delete an instance.
func (s instanceServer) Delete(_ context.Context, request *compute.DeleteInstanceRequest) (*operation.Operation, error) {
	found := s.c.instances[request.InstanceId]
	switch {
	case found == nil:
		return nil, refuse(codes.NotFound, "Instance %s not found", request.InstanceId)
	case found.Status == compute.Instance_DELETING || found.Status == compute.Instance_PROVISIONING:
		return nil, refuse(codes.FailedPrecondition, "Instance %s is in the status %s", found.Id, found.Status)
	}
	found.Status, found.wait = compute.Instance_DELETING, s.c.options.DeletingReads
	found.running = s.c.newOperation(found.Id, &compute.DeleteInstanceMetadata{InstanceId: found.Id})
	found.running.read = func() { s.c.read(found) }
	return found.running.Operation, nil
}

// Restart restarts an instance that runs.
func (s instanceServer) Restart(_ context.Context, request *compute.RestartInstanceRequest) (*operation.Operation, error) {
	found, err := s.find(request.InstanceId)
	if err != nil {
		return nil, err
	}
	if found.Status != compute.Instance_RUNNING {
		return nil, refuse(codes.FailedPrecondition, "Instance %s is not running", found.Id)
	}
	s.c.restarts++
	found.Status, found.wait = compute.Instance_RESTARTING, s.c.options.OperationReads
	found.running = s.c.newOperation(found.Id, &compute.RestartInstanceMetadata{InstanceId: found.Id})
	return found.running.Operation, nil
}

// Update changes labels.
func (s instanceServer) Update(_ context.Context, request *compute.UpdateInstanceRequest) (*operation.Operation, error) {
	found, err := s.find(request.InstanceId)
	if err != nil {
		return nil, err
	}
	if !slices.Equal(request.UpdateMask.GetPaths(), []string{"labels"}) {
		return nil, refuse(codes.InvalidArgument, "only labels are updated")
	}
	found.Labels = maps.Clone(request.Labels)
	updated := s.c.newOperation(found.Id, &compute.UpdateInstanceMetadata{InstanceId: found.Id})
	updated.end(found.Instance, nil)
	return updated.Operation, nil
}

// DetachDisk detaches a disk that is not the boot disk.
func (s instanceServer) DetachDisk(_ context.Context, request *compute.DetachInstanceDiskRequest) (*operation.Operation, error) {
	found, err := s.find(request.InstanceId)
	if err != nil {
		return nil, err
	}
	at := slices.IndexFunc(found.SecondaryDisks, func(d *compute.AttachedDisk) bool { return d.DiskId == request.GetDiskId() })
	if at < 0 {
		return nil, refuse(codes.NotFound, "Disk %s is not attached", request.GetDiskId())
	}
	found.SecondaryDisks = slices.Delete(found.SecondaryDisks, at, at+1)
	s.c.disks[request.GetDiskId()].InstanceIds = nil
	detached := s.c.newOperation(found.Id, &compute.DetachInstanceDiskMetadata{InstanceId: found.Id, DiskId: request.GetDiskId()})
	detached.end(found.Instance, nil)
	return detached.Operation, nil
}

// GetSerialPortOutput returns all that was written.
func (s instanceServer) GetSerialPortOutput(_ context.Context, request *compute.GetInstanceSerialPortOutputRequest) (*compute.GetInstanceSerialPortOutputResponse, error) {
	if _, err := s.find(request.InstanceId); err != nil {
		return nil, err
	}
	return &compute.GetInstanceSerialPortOutputResponse{Contents: s.c.output}, nil
}
