// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Package volume manages the volumes of one machine. They are created before its Droplet, because the creation of the
// Droplet takes their IDs, and deleted before it. A volume's name derives from the machine's identity and is unique in its
// region, so it is created once; its tags are those of the machine. Errors are the SDK's own. The digitalocean driver calls it.
package volume

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"strings"

	"github.com/digitalocean/godo"
	"github.com/go-logr/logr"

	infrav1 "drover.io/api/infrastructure/v1alpha1"
	"drover.io/infra-providers/digitalocean/tag"
	"drover.io/infra-providers/driver"
)

// PageSize is the maximum page size of the API.
const PageSize = 200

// Store has the volumes of one team.
type Store struct {
	volumes godo.StorageService
	actions godo.StorageActionsService
}

// NewStore returns the volumes of the team of a client.
func NewStore(client *godo.Client) *Store {
	return &Store{volumes: client.Storage, actions: client.StorageActions}
}

// Spec describes the volumes of a machine.
type Spec struct {
	Identity driver.Identity
	Region   string
	Tags     []string
	Volumes  []infrav1.DigitalOceanVolume
}

// Ensure creates the volumes that a machine lacks and returns all of them.
func (s *Store) Ensure(ctx context.Context, want Spec) ([]godo.Volume, error) {
	all := make([]godo.Volume, 0, len(want.Volumes))
	for _, spec := range want.Volumes {
		found, err := s.ensure(ctx, want, spec)
		if err != nil {
			return nil, fmt.Errorf("creating volume %q: %w", spec.Name, err)
		}
		all = append(all, found)
	}
	return all, nil
}

// ensure creates one volume, or returns the existing one.
func (s *Store) ensure(ctx context.Context, want Spec, spec infrav1.DigitalOceanVolume) (godo.Volume, error) {
	name := name(want.Identity, spec)
	known, err := s.named(ctx, want.Identity, name)
	if err != nil {
		return godo.Volume{}, err
	}
	for _, volume := range known {
		if volume.Region.Slug == want.Region {
			return volume, nil
		}
		// It is from an earlier attempt in another region, which had no capacity for the Droplet.
		if _, err := s.delete(ctx, volume); err != nil {
			return godo.Volume{}, err
		}
	}
	created, response, err := s.volumes.CreateVolume(ctx, &godo.VolumeCreateRequest{
		Name: name, Region: want.Region, SizeGigaBytes: int64(spec.SizeGiB), FilesystemType: spec.FilesystemType, Tags: want.Tags,
		Description: "of machine " + want.Identity.Name,
	})
	if err == nil {
		logr.FromContextOrDiscard(ctx).Info("created volume", "volume", name)
		return *created, nil
	}
	if !refused(response) {
		return godo.Volume{}, err
	}
	// The name is in use: the answer of an earlier call was lost, or another caller created it.
	if known, failure := s.named(ctx, want.Identity, name); failure == nil {
		for _, volume := range known {
			if volume.Region.Slug == want.Region {
				return volume, nil
			}
		}
	}
	return godo.Volume{}, err
}

// named returns the volumes of a name in all regions. Those of a machine with other tags are an error.
func (s *Store) named(ctx context.Context, id driver.Identity, name string) ([]godo.Volume, error) {
	found, _, err := s.volumes.ListVolumes(ctx, &godo.ListVolumeParams{Name: name, ListOptions: &godo.ListOptions{PerPage: PageSize}})
	if err != nil {
		return nil, err
	}
	for _, volume := range found {
		if err := id.Check(tag.Identity(volume.Tags)); err != nil {
			return nil, err
		}
	}
	return found, nil
}

// Get returns the volumes of a machine that are attached to a Droplet.
func (s *Store) Get(ctx context.Context, id driver.Identity, attached []string) (own []godo.Volume, err error) {
	for _, volumeID := range attached {
		volume, response, err := s.volumes.GetVolume(ctx, volumeID)
		switch {
		case missing(response):
		case err != nil:
			return nil, fmt.Errorf("reading volume %s: %w", volumeID, err)
		case isOf(*volume, id):
			own = append(own, *volume)
		}
	}
	return own, nil
}

// Delete deletes volumes that are not attached, and detaches the others. It reports whether all are deleted; if not, it
// has to be called again once they are detached.
func (s *Store) Delete(ctx context.Context, volumes []godo.Volume) (deleted bool, err error) {
	deleted = true
	for _, volume := range volumes {
		done, err := s.delete(ctx, volume)
		if err != nil {
			return false, fmt.Errorf("deleting volume %q: %w", volume.Name, err)
		}
		deleted = deleted && done
	}
	return deleted, nil
}

// delete deletes a volume. A Droplet carries out one action at a time, so another one may have to end first.
func (s *Store) delete(ctx context.Context, volume godo.Volume) (deleted bool, err error) {
	log := logr.FromContextOrDiscard(ctx).WithValues("volume", volume.Name)
	if len(volume.DropletIDs) > 0 {
		action, response, err := s.actions.DetachByDropletID(ctx, volume.ID, volume.DropletIDs[0])
		switch {
		case missing(response), refused(response): // another action is in progress, or it is detached
			return false, nil
		case err != nil:
			return false, err
		}
		log.Info("detached volume")
		if action.Status != godo.ActionCompleted {
			return false, nil
		}
	}
	response, err := s.volumes.DeleteVolume(ctx, volume.ID)
	switch {
	case missing(response):
		return true, nil
	case refused(response): // it is being attached or detached
		return false, nil
	case err != nil:
		return false, err
	}
	log.Info("deleted volume")
	return true, nil
}

// OfMachine returns the volumes of a machine, over all pages.
func (s *Store) OfMachine(ctx context.Context, id driver.Identity) (own []godo.Volume, err error) {
	for volume, err := range s.List(ctx) {
		if err != nil {
			return nil, err
		}
		if isOf(volume, id) {
			own = append(own, volume)
		}
	}
	return own, nil
}

// List yields the volumes of Drover over all pages, and a failure last.
func (s *Store) List(ctx context.Context) iter.Seq2[godo.Volume, error] {
	return func(yield func(godo.Volume, error) bool) {
		// All pages are read before the first volume is yielded: a caller that deletes volumes would shift the following pages.
		var all []godo.Volume
		for page := 1; ; page++ {
			found, response, err := s.volumes.ListVolumes(ctx, &godo.ListVolumeParams{ListOptions: &godo.ListOptions{Page: page, PerPage: PageSize}})
			if err != nil {
				yield(godo.Volume{}, fmt.Errorf("listing volumes: %w", err))
				return
			}
			all = append(all, found...)
			if response.Links == nil || response.Links.IsLastPage() {
				break
			}
		}
		for _, volume := range all {
			if tag.Has(volume.Tags, tag.Drover) && !yield(volume, nil) {
				return
			}
		}
	}
}

// isOf reports whether a volume was created for a machine. One that was made from a snapshot may have the tags of the first
// one, and has a name of its own.
func isOf(volume godo.Volume, id driver.Identity) bool {
	return strings.HasPrefix(volume.Name, prefix(id)) && id.Check(tag.Identity(volume.Tags)) == nil
}

// AttachedObject converts a volume.
func AttachedObject(volume godo.Volume) driver.AttachedObject {
	id := tag.Identity(volume.Tags)
	return driver.AttachedObject{
		Kind: "volume", ID: volume.ID, Identity: id, Created: volume.CreatedAt,
		Copy: !strings.HasPrefix(volume.Name, prefix(id)),
	}
}

// prefix begins the names of all volumes of a machine. A UID may have characters that no name has.
func prefix(id driver.Identity) string {
	sum := sha256.Sum256([]byte(id.UID))
	return "drover-" + hex.EncodeToString(sum[:16]) + "-"
}

// name is unique to a machine and a volume of it.
func name(id driver.Identity, spec infrav1.DigitalOceanVolume) string { return prefix(id) + spec.Name }

// errInProgress is transient.
var errInProgress = errors.New("volumes are still attached to a Droplet")

// Waiting returns the error of a deletion that has to be repeated.
func Waiting() error { return &driver.UnfinishedError{Err: errInProgress} }

func missing(response *godo.Response) bool {
	return response != nil && response.Response != nil && response.StatusCode == http.StatusNotFound
}

// refused reports whether the cloud refused a request in the present state of a resource.
func refused(response *godo.Response) bool {
	return response != nil && response.Response != nil && (response.StatusCode == http.StatusUnprocessableEntity || response.StatusCode == http.StatusConflict)
}
