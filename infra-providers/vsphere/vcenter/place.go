// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package vcenter

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"strings"
	"time"

	"github.com/vmware/govmomi/find"
	"github.com/vmware/govmomi/object"
	"github.com/vmware/govmomi/vim25"
	"github.com/vmware/govmomi/vim25/mo"
	"github.com/vmware/govmomi/vim25/types"

	infrav1 "drover.io/api/infrastructure/v1alpha1"
)

// ReferenceError means that a field names something that the account cannot see.
type ReferenceError struct {
	// Field is the path of the field.
	Field string
	Err   error
}

func (e *ReferenceError) Error() string { return e.Field + ": " + e.Err.Error() }

// Unwrap returns the cause.
func (e *ReferenceError) Unwrap() error { return e.Err }

// refer adds the field to the error of a look-up that found nothing, and not to one that failed.
func refer(field string, err error) error {
	if _, ok := errors.AsType[*find.NotFoundError](err); ok {
		return &ReferenceError{field, fmt.Errorf("%w; it may be there and hidden from the account", err)}
	}
	if _, ok := errors.AsType[*find.MultipleFoundError](err); ok {
		return &ReferenceError{field, err}
	}
	if _, ok := errors.AsType[*find.DefaultNotFoundError](err); ok {
		return &ReferenceError{field, err}
	}
	if _, ok := errors.AsType[*find.DefaultMultipleFoundError](err); ok {
		return &ReferenceError{field, err}
	}
	return err
}

// References is what a configuration names.
type References struct {
	infrav1.VSpherePlacement
	Template string
	// Snapshot is the name of a snapshot; Current requests the current one when it is empty.
	Snapshot string
	Current  bool
	Networks []infrav1.VSphereNetwork
	VMGroup  string
	// Tags are "<category>/<tag>", Attributes are names of custom attributes.
	Tags       []string
	Attributes map[string]infrav1.VSphereValue
}

// Placement is what the names stand for. Fields that the references leave open are nil where vSphere chooses.
type Placement struct {
	Template *object.VirtualMachine
	// Source is the template, by which one of our machines is detected.
	Source   VM
	Devices  object.VirtualDeviceList
	Snapshot *types.ManagedObjectReference
	Folder   *object.Folder
	Pool     types.ManagedObjectReference
	Host     *types.ManagedObjectReference
	// Datastore is nil while Storage DRS is to choose one of Pod, or for the template's own.
	Datastore *types.ManagedObjectReference
	Pod       *types.ManagedObjectReference
	Networks  []types.BaseVirtualDeviceBackingInfo
	// Profile is the ID of the storage policy, or empty.
	Profile string
	// Tags are the IDs of the tags, Attributes the values by the attributes' keys.
	Tags       []string
	Attributes map[int32]string
}

const (
	// current is how long names stand for the same things: long enough for the machines of one scale-up.
	current = 10 * time.Second
	// maxPlaces is how many places are kept, and maxPlace how many bytes each may have with its names: the servers that
	// Secrets name choose how much they answer. Those of vCenter have some dozen KiB.
	maxPlaces, maxPlace = 500, 128 << 10
	// maxDevices is how many devices a template may have whose place is kept.
	maxDevices = 500
)

// placeKey is what a place was looked up for.
type placeKey struct {
	session    int
	references string
}

// Resolve looks every name up. The place is shared and must not be changed.
func (s *Session) Resolve(ctx context.Context, references References) (Placement, error) {
	key, err := json.Marshal(references)
	if err != nil {
		return Placement{}, err
	}
	if known, ok := s.places.Get(placeKey{s.number, string(key)}); ok {
		return known, nil
	}
	place, err := s.resolve(ctx, references)
	if err != nil {
		return Placement{}, err
	}
	s.keepPlace(string(key), place)
	return place, nil
}

// keepPlace keeps what names stand for, if it is not too large.
func (s *Session) keepPlace(references string, place Placement) {
	if len(place.Devices) > maxDevices {
		return
	}
	if size, err := sizeOf(place); err == nil && size+len(references) <= maxPlace {
		s.places.Set(placeKey{s.number, references}, place)
	}
}

// sizeOf is about how many bytes of memory an answer takes.
func sizeOf(answer any) (bytes int, err error) {
	text, err := json.Marshal(answer)
	return len(text), err
}

// Template looks up no more than what is cloned: the template, and that it has the snapshot.
func (s *Session) Template(ctx context.Context, references References) (Placement, error) {
	r, err := s.resolver(ctx, references)
	if err != nil {
		return Placement{}, err
	}
	err = r.run(ctx, r.template, r.snapshot)
	return r.place, err
}

func (s *Session) resolve(ctx context.Context, references References) (Placement, error) {
	r, err := s.resolver(ctx, references)
	if err != nil {
		return Placement{}, err
	}
	err = r.run(ctx, r.template, r.snapshot, r.folder, r.host, r.pool, r.datastore, r.networks, r.policy, r.group, r.tags, r.attributes)
	return r.place, err
}

func (s *Session) resolver(ctx context.Context, references References) (*resolver, error) {
	client, err := s.Client(ctx)
	if err != nil {
		return nil, err
	}
	datacenter, err := s.container(ctx, client)
	if err != nil {
		return nil, err
	}
	r := &resolver{session: s, client: client, finder: find.NewFinder(client), references: references}
	r.finder.SetDatacenter(object.NewDatacenter(client, datacenter))
	return r, nil
}

type resolver struct {
	session    *Session
	client     *vim25.Client
	finder     *find.Finder
	references References
	place      Placement
}

// run takes one step after the other.
func (r *resolver) run(ctx context.Context, steps ...func(context.Context) error) error {
	for _, step := range steps {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (r *resolver) template(ctx context.Context) (err error) {
	if r.place.Template, err = r.finder.VirtualMachine(ctx, r.references.Template); err != nil {
		return refer("spec.template", err)
	}
	var content mo.VirtualMachine
	if err := r.place.Template.Properties(ctx, r.place.Template.Reference(), []string{"name", "config.instanceUuid", "config.template", "config.extraConfig", "config.hardware.device", "snapshot"}, &content); err != nil {
		return err
	}
	if content.Config == nil {
		return &ReferenceError{"spec.template", fmt.Errorf("%q has no configuration yet", r.references.Template)}
	}
	r.place.Devices = content.Config.Hardware.Device
	r.place.Source = withRecord(VM{VirtualMachine: content})
	r.place.Source.Snapshot, r.place.Source.Config.ExtraConfig, r.place.Source.Config.Hardware.Device = nil, nil, nil // not needed any more
	if content.Snapshot != nil && r.references.Current {
		r.place.Snapshot = content.Snapshot.CurrentSnapshot
	}
	return nil
}

func (r *resolver) snapshot(ctx context.Context) (err error) {
	switch {
	case r.references.Snapshot != "":
		var content mo.VirtualMachine
		if err := r.place.Template.Properties(ctx, r.place.Template.Reference(), []string{"snapshot"}, &content); err != nil {
			return err
		}
		if r.place.Snapshot, err = r.place.Template.FindSnapshot(ctx, r.references.Snapshot); err != nil {
			return &ReferenceError{"spec.snapshot", err}
		}
	case r.references.Current && r.place.Snapshot == nil:
		return &ReferenceError{"spec.cloneMode", fmt.Errorf("a linked clone needs a snapshot and %q has none", r.references.Template)}
	}
	return nil
}

func (r *resolver) folder(ctx context.Context) (err error) {
	r.place.Folder, err = r.finder.FolderOrDefault(ctx, r.references.Folder)
	return refer("spec.folder", err)
}

func (r *resolver) host(ctx context.Context) error {
	if r.references.Host == "" {
		return nil
	}
	host, err := r.finder.HostSystem(ctx, r.references.Host)
	if err != nil {
		return refer("spec.host", err)
	}
	ref := host.Reference()
	r.place.Host = &ref
	if r.references.ResourcePool != "" || r.references.ComputeCluster != "" {
		return nil
	}
	pool, err := host.ResourcePool(ctx)
	if err != nil {
		return err
	}
	r.place.Pool = pool.Reference()
	return nil
}

func (r *resolver) pool(ctx context.Context) error {
	var pool *object.ResourcePool
	var err error
	field := "spec.resourcePool"
	switch {
	case r.references.ResourcePool != "" && r.references.ComputeCluster != "" && !strings.Contains(r.references.ResourcePool, "/"):
		pool, err = r.finder.ResourcePool(ctx, path.Join(r.references.ComputeCluster, "Resources", r.references.ResourcePool))
	case r.references.ResourcePool != "":
		pool, err = r.finder.ResourcePool(ctx, r.references.ResourcePool)
	case r.references.ComputeCluster != "":
		field = "spec.computeCluster"
		var cluster *object.ComputeResource
		if cluster, err = r.finder.ComputeResource(ctx, r.references.ComputeCluster); err == nil {
			pool, err = cluster.ResourcePool(ctx)
		}
	case r.place.Host != nil:
		return nil
	default:
		pool, err = r.finder.DefaultResourcePool(ctx)
	}
	if err != nil {
		return refer(field, err)
	}
	r.place.Pool = pool.Reference()
	return nil
}

func (r *resolver) datastore(ctx context.Context) error {
	switch {
	case r.references.Datastore != "":
		datastore, err := r.finder.Datastore(ctx, r.references.Datastore)
		if err != nil {
			return refer("spec.datastore", err)
		}
		ref := datastore.Reference()
		r.place.Datastore = &ref
	case r.references.DatastoreCluster != "":
		pod, err := r.finder.DatastoreCluster(ctx, r.references.DatastoreCluster)
		if err != nil {
			return refer("spec.datastoreCluster", err)
		}
		ref := pod.Reference()
		r.place.Pod = &ref
	}
	return nil
}

func (r *resolver) networks(ctx context.Context) error {
	for i, wanted := range r.references.Networks {
		network, err := r.finder.Network(ctx, wanted.Name)
		if err != nil {
			return refer(fmt.Sprintf("spec.networks[%d].name", i), err)
		}
		backing, err := network.EthernetCardBackingInfo(ctx)
		if err != nil {
			return err
		}
		r.place.Networks = append(r.place.Networks, backing)
	}
	return nil
}

func (r *resolver) policy(ctx context.Context) error {
	if r.references.StoragePolicy == "" {
		return nil
	}
	client, err := r.session.policies(ctx, r.client)
	if err != nil {
		return fmt.Errorf("connecting to the storage policies: %w", err)
	}
	profiles, err := profiles(ctx, client)
	if err != nil {
		return fmt.Errorf("reading the storage policies: %w", err)
	}
	if r.place.Profile = profiles[r.references.StoragePolicy]; r.place.Profile == "" {
		return &ReferenceError{"spec.storagePolicy", fmt.Errorf("there is no policy %q", r.references.StoragePolicy)}
	}
	return nil
}

// group makes sure that a VM group exists before anything is cloned.
func (r *resolver) group(ctx context.Context) error {
	if r.references.VMGroup == "" {
		return nil
	}
	cluster, err := ClusterOf(ctx, r.client, r.place.Pool)
	if err != nil {
		return err
	}
	if cluster.Group(r.references.VMGroup) == nil {
		return &ReferenceError{"spec.vmGroup", fmt.Errorf("the compute cluster has no VM group %q", r.references.VMGroup)}
	}
	return nil
}
