// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package attachments

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/go-logr/logr"
	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/blockstorage/v3/volumes"
	"github.com/gophercloud/gophercloud/v2/pagination"
	"k8s.io/apimachinery/pkg/types"

	"drover.io/infra-providers/driver"
	"drover.io/infra-providers/openstack/access"
)

// Root is the name of the volume that a server boots from.
const Root = "root"

// keptKey marks a volume that is not deleted with its machine.
const keptKey = "drover.io:kept"

// volumeKey marks a volume with its own ID. A backup that is restored into another volume has name and metadata of the
// first one, with the ID of that.
const volumeKey = "drover.io:volume-id"

// isCopy reports whether a volume with the metadata of a machine was made by others: from one of its volumes, or the metadata were
// copied to it. One that is not marked yet has the name with which it was created.
func isCopy(volume volumes.Volume) bool {
	if id := volume.Metadata[volumeKey]; id != "" {
		return id != volume.ID
	}
	owner, _ := Identity(volume.Metadata)
	return !strings.HasPrefix(volume.Name, volumeName(owner.UID, ""))
}

// Volumes are the volumes of machines.
type Volumes struct{ Client *gophercloud.ServiceClient }

// Volume describes a volume to create.
type Volume struct {
	// Name is unique in its machine.
	Name string
	// ImageID is the image that it is created from; empty for an empty volume.
	ImageID string
	SizeGiB int
	Type    string
	// Zone is its zone; empty means that the cloud chooses it.
	Zone string
	// Kept is true for a volume that is not deleted with its machine.
	Kept bool
}

func volumeName(uid types.UID, name string) string { return Name(uid) + "-" + name }

// Ensure creates the missing volumes and returns the IDs of all, in order. It fails with an
// UnfinishedError while one of them is not available yet: Nova refuses a volume that is still being created.
func (v Volumes) Ensure(ctx context.Context, id driver.Identity, wanted []Volume) ([]string, error) {
	if len(wanted) == 0 {
		return nil, nil
	}
	have, err := v.find(ctx, id)
	if err != nil {
		return nil, err
	}
	ids := make([]string, 0, len(wanted))
	var busy error
	for _, want := range wanted {
		at := slices.IndexFunc(have, func(volume volumes.Volume) bool { return volume.Name == volumeName(id.UID, want.Name) })
		if at < 0 {
			if err := v.create(ctx, id, want); err != nil {
				return nil, &CreationError{fmt.Sprintf("volume %q", want.Name), err}
			}
			busy = unfinished("volume %q is being created", want.Name)
			continue
		}
		if have[at].Metadata[volumeKey] == "" {
			if err := v.mark(ctx, have[at]); err != nil {
				return nil, err
			}
		}
		if err := v.replaceUnusable(ctx, have[at], want); err != nil {
			return nil, err
		}
		if have[at].Status != "available" {
			busy = unfinished("volume %q is %s", want.Name, have[at].Status)
		}
		ids = append(ids, have[at].ID)
	}
	return ids, busy
}

func (v Volumes) create(ctx context.Context, id driver.Identity, want Volume) error {
	metadata := Tags(id)
	if want.Kept {
		metadata[keptKey] = "true"
	}
	created, err := volumes.Create(ctx, v.Client, volumes.CreateOpts{
		Name:             volumeName(id.UID, want.Name),
		Description:      fmt.Sprintf("volume %s of machine %s/%s", want.Name, id.Owner.Namespace, id.Name),
		Size:             want.SizeGiB,
		VolumeType:       want.Type,
		AvailabilityZone: want.Zone,
		ImageID:          want.ImageID,
		Metadata:         metadata,
	}, nil).Extract()
	if err != nil {
		return err
	}
	logr.FromContextOrDiscard(ctx).Info("created volume", "volume", created.ID)
	if created.Metadata == nil {
		created.Metadata = metadata
	}
	return v.mark(ctx, *created)
}

// mark writes the ID of a volume into its metadata. It is repeated before a volume is used, so that every volume of a
// server has it.
func (v Volumes) mark(ctx context.Context, volume volumes.Volume) error {
	all := maps.Clone(volume.Metadata)
	all[volumeKey] = volume.ID
	if _, err := volumes.Update(ctx, v.Client, volume.ID, volumes.UpdateOpts{Metadata: all}).Extract(); err != nil {
		return fmt.Errorf("tagging volume: %w", err)
	}
	return nil
}

// replaceUnusable deletes a volume that cannot be used: one that failed, or one of an earlier attempt in another zone or from another
// image.
func (v Volumes) replaceUnusable(ctx context.Context, have volumes.Volume, want Volume) error {
	failed, unused := have.Status == "error", have.Status == "available"
	elsewhere := want.Zone != "" && have.AvailabilityZone != want.Zone && unused
	image := have.VolumeImageMetadata["image_id"]
	outdated := image != "" && want.ImageID != "" && image != want.ImageID && unused && !want.Kept
	if !failed && !elsewhere && !outdated {
		return nil
	}
	if err := v.delete(ctx, have.ID); err != nil {
		return err
	}
	if outdated {
		return unfinished("volume %q was created from image %q and is created again", want.Name, image)
	}
	return unfinished("volume %q was %s in zone %q and is created again", want.Name, have.Status, have.AvailabilityZone)
}

func unfinished(format string, of ...any) error {
	return &driver.UnfinishedError{Err: fmt.Errorf(format+": %w", append(of, ErrBusy)...)}
}

// Delete implements Kind. Nova deletes the volumes that are attached to a server with the server. It fails with
// UnfinishedError for those that cannot be deleted yet, and with ErrBusy for those that Cinder reports as attached to a
// server that does not exist, which may need an administrator.
func (v Volumes) Delete(ctx context.Context, id driver.Identity, serverDeleted bool) error {
	found, err := v.find(ctx, id)
	if err != nil {
		return err
	}
	var busy error
	for _, volume := range found {
		if volume.Metadata[keptKey] != "" {
			continue
		}
		switch volume.Status {
		case "deleting":
		case "available", "error", "error_deleting", "error_restoring", "error_extending":
			err = v.delete(ctx, volume.ID)
		case "reserved", "attaching", "in-use", "detaching":
			if !serverDeleted {
				busy = fmt.Errorf("volume %q is %s, though its server does not exist: %w", volume.Name, volume.Status, ErrBusy)
			}
		default:
			busy = unfinished("volume %q is %s", volume.Name, volume.Status)
		}
		if err != nil {
			return err
		}
	}
	return busy
}

// Tag implements Kind.
func (v Volumes) Tag(ctx context.Context, id driver.Identity) error {
	found, err := v.find(ctx, id)
	if err != nil {
		return err
	}
	for _, volume := range found {
		if known, _ := Identity(volume.Metadata); known == id {
			continue
		}
		all := maps.Clone(volume.Metadata)
		maps.Copy(all, Tags(id))
		if _, err := volumes.Update(ctx, v.Client, volume.ID, volumes.UpdateOpts{Metadata: all}).Extract(); err != nil {
			return fmt.Errorf("tagging volume: %w", err)
		}
	}
	return nil
}

func (v Volumes) delete(ctx context.Context, id string) error {
	err := volumes.Delete(ctx, v.Client, id, nil).ExtractErr()
	if err != nil && !access.Missing(err) {
		return fmt.Errorf("deleting volume: %w", err)
	}
	if err == nil {
		logr.FromContextOrDiscard(ctx).Info("deleted volume", "volume", id)
	}
	return nil
}

// AttachedObjects implements Kind.
func (v Volumes) AttachedObjects(ctx context.Context) ([]driver.AttachedObject, error) {
	remains, err := access.Select(ctx, v.list(nil), volumes.ExtractVolumes, func(volume volumes.Volume) (driver.AttachedObject, bool) {
		id, ok := Identity(volume.Metadata)
		return driver.AttachedObject{Kind: "volume", ID: volume.ID, Identity: id, Created: volume.CreatedAt, Copy: isCopy(volume)}, ok && volume.Metadata[keptKey] == ""
	})
	if err != nil {
		return nil, fmt.Errorf("listing volumes: %w", err)
	}
	return remains, nil
}

// find returns the volumes of a machine without copies that others made, and fails with NotOwnedError where one has the UID of the machine and
// other tags of another. A cloud that does not filter by metadata returns more volumes, so each is checked.
func (v Volumes) find(ctx context.Context, id driver.Identity) ([]volumes.Volume, error) {
	tags := maps.Clone(Tags(driver.Identity{UID: id.UID}))
	maps.DeleteFunc(tags, func(_, value string) bool { return value == "" })
	own, err := access.Select(ctx, v.list(tags), volumes.ExtractVolumes, func(volume volumes.Volume) (volumes.Volume, bool) {
		found, tagged := Identity(volume.Metadata)
		return volume, tagged && found.UID == id.UID && !isCopy(volume)
	})
	if err != nil {
		return nil, fmt.Errorf("listing volumes: %w", err)
	}
	for _, volume := range own {
		found, _ := Identity(volume.Metadata)
		if err := id.Check(found); err != nil {
			return nil, fmt.Errorf("volume %q: %w", volume.ID, err)
		}
	}
	return own, nil
}

func (v Volumes) list(metadata map[string]string) pagination.Pager {
	return volumes.List(v.Client, volumes.ListOpts{Metadata: metadata})
}
