// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Package volume manages the volumes of one machine. They are created before its server, because the creation of the
// server takes their IDs, and deleted before it, because no later call would delete a volume without a server. A
// volume's name derives from the machine's identity and is unique in the project, so it is created once. Errors are the
// SDK's own or of package driver. The hetzner driver calls it.
package volume

import (
	"context"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/go-logr/logr"
	"github.com/hetznercloud/hcloud-go/v2/hcloud"

	infrav1 "drover.io/api/infrastructure/v1alpha1"
	"drover.io/infra-providers/driver"
)

// PageSize is the maximum page size of the API.
const PageSize = 50

// api lists the calls of the SDK in use.
type api interface {
	List(ctx context.Context, opts hcloud.VolumeListOpts) ([]*hcloud.Volume, *hcloud.Response, error)
	GetByName(ctx context.Context, name string) (*hcloud.Volume, *hcloud.Response, error)
	Create(ctx context.Context, opts hcloud.VolumeCreateOpts) (hcloud.VolumeCreateResult, *hcloud.Response, error)
	Update(ctx context.Context, volume *hcloud.Volume, opts hcloud.VolumeUpdateOpts) (*hcloud.Volume, *hcloud.Response, error)
	Detach(ctx context.Context, volume *hcloud.Volume) (*hcloud.Action, *hcloud.Response, error)
	Delete(ctx context.Context, volume *hcloud.Volume) (*hcloud.Response, error)
}

// Store has the volumes of one project.
type Store struct{ api api }

// NewStore returns the volumes of the project of a client.
func NewStore(client *hcloud.Client) *Store { return &Store{api: &client.Volume} }

// Spec describes the volumes of a machine.
type Spec struct {
	Identity driver.Identity
	Location string
	Labels   map[string]string
	Volumes  []infrav1.HetznerVolume
}

// Ensure creates the volumes that a machine lacks and returns all of them.
func (s *Store) Ensure(ctx context.Context, want Spec) ([]*hcloud.Volume, error) {
	if len(want.Volumes) == 0 {
		return nil, nil
	}
	known := map[string]*hcloud.Volume{}
	for volume, err := range s.listOwned(ctx, want.Identity) {
		if err != nil {
			return nil, err
		}
		known[volume.Name] = volume
	}
	all := make([]*hcloud.Volume, 0, len(want.Volumes))
	for _, spec := range want.Volumes {
		found, err := s.ensure(ctx, want, spec, known[name(want.Identity, spec)])
		if err != nil {
			return nil, fmt.Errorf("creating volume %q: %w", spec.Name, err)
		}
		all = append(all, found)
	}
	return all, nil
}

// ensure creates one volume, or returns the existing one.
func (s *Store) ensure(ctx context.Context, want Spec, spec infrav1.HetznerVolume, known *hcloud.Volume) (*hcloud.Volume, error) {
	if known != nil && known.Server == nil && known.Location.Name != want.Location {
		// It is from an earlier attempt in another location, which had no capacity for the server.
		if _, err := s.api.Delete(ctx, known); err != nil {
			return nil, err
		}
		logr.FromContextOrDiscard(ctx).Info("deleted volume", "volume", known.Name)
		known = nil
	}
	if known != nil {
		return known, nil
	}
	opts := hcloud.VolumeCreateOpts{
		Name:      name(want.Identity, spec),
		Size:      int(spec.SizeGB),
		Location:  &hcloud.Location{Name: want.Location},
		Labels:    maps.Clone(want.Labels),
		Automount: hcloud.Ptr(false),
	}
	if spec.Format != "" {
		opts.Format = &spec.Format
	}
	created, _, err := s.api.Create(ctx, opts)
	if hcloud.IsError(err, hcloud.ErrorCodeUniquenessError) {
		return s.findNamesake(ctx, want.Identity, opts.Name, err)
	}
	if err == nil {
		logr.FromContextOrDiscard(ctx).Info("created volume", "volume", opts.Name)
	}
	return created.Volume, err
}

// findNamesake returns the volume whose name is in use if it is the machine's: created by a call whose answer was lost, or
// by a concurrent caller.
func (s *Store) findNamesake(ctx context.Context, id driver.Identity, name string, cause error) (*hcloud.Volume, error) {
	found, _, err := s.api.GetByName(ctx, name)
	if err != nil {
		return nil, err
	}
	if found == nil {
		return nil, cause
	}
	identity, _ := driver.FromTags(found.Labels)
	return found, id.Check(identity)
}

// Tag sets the labels of the identity of a machine on its volumes.
func (s *Store) Tag(ctx context.Context, id driver.Identity) error {
	for volume, err := range s.listOwned(ctx, id) {
		if err != nil {
			return err
		}
		if _, _, err := s.api.Update(ctx, volume, hcloud.VolumeUpdateOpts{Name: volume.Name, Labels: Labels(volume.Labels, id)}); err != nil {
			return fmt.Errorf("labelling volume %q: %w", volume.Name, err)
		}
	}
	return nil
}

// Labels returns the labels of the user and those of an identity, which take precedence.
func Labels(user map[string]string, id driver.Identity) map[string]string {
	all := id.Tags()
	for key, value := range user {
		if _, reserved := all[key]; !reserved {
			all[key] = value
		}
	}
	return all
}

// Delete deletes the volumes of a machine that are not attached, and detaches the others. It reports whether all are
// deleted; if not, it has to be called again once they are detached. Without UID and Cluster the owner of a volume is
// unknown, so none is deleted.
func (s *Store) Delete(ctx context.Context, id driver.Identity) (deleted bool, err error) {
	deleted = true
	if id.UID == "" && id.Owner.Name == "" {
		return deleted, nil
	}
	for volume, err := range s.listOwned(ctx, id) {
		if err != nil {
			return false, err
		}
		done, err := s.delete(ctx, volume)
		if err != nil {
			return false, fmt.Errorf("deleting volume %q: %w", volume.Name, err)
		}
		deleted = deleted && done
	}
	return deleted, nil
}

func (s *Store) delete(ctx context.Context, volume *hcloud.Volume) (deleted bool, err error) {
	if volume.Server != nil {
		action, _, err := s.api.Detach(ctx, volume)
		if err == nil {
			logr.FromContextOrDiscard(ctx).Info("detached volume", "volume", volume.Name)
		}
		if err != nil || action.Status != hcloud.ActionStatusSuccess {
			return false, err
		}
	}
	_, err = s.api.Delete(ctx, volume)
	if err != nil && !hcloud.IsError(err, hcloud.ErrorCodeNotFound) {
		return false, err
	}
	if err == nil {
		logr.FromContextOrDiscard(ctx).Info("deleted volume", "volume", volume.Name)
	}
	return true, nil
}

// listOwned yields the volumes of a machine, and a failure last. A volume of another machine with the same UID is left out, and a
// copy; one that lacks labels is a failure, as its owner is unknown.
func (s *Store) listOwned(ctx context.Context, id driver.Identity) iter.Seq2[*hcloud.Volume, error] {
	return func(yield func(*hcloud.Volume, error) bool) {
		for volume, err := range s.List(ctx, Selector(id)) {
			if err == nil {
				identity, _ := driver.FromTags(volume.Labels)
				err = id.Check(identity)
				if err != nil && !driver.IsUntagged(err) || err == nil && isCopy(volume, identity) {
					continue
				}
			}
			if err != nil {
				yield(nil, err)
				return
			}
			if !yield(volume, nil) {
				return
			}
		}
	}
}

// List yields the volumes of a label selector over all pages, and a failure last.
func (s *Store) List(ctx context.Context, selector string) iter.Seq2[*hcloud.Volume, error] {
	return func(yield func(*hcloud.Volume, error) bool) {
		// All pages are read before the first volume is yielded: a caller that deletes volumes would shift the
		// following pages.
		var all []*hcloud.Volume
		for page := 1; page != 0; {
			found, response, err := s.api.List(ctx, hcloud.VolumeListOpts{ListOpts: hcloud.ListOpts{Page: page, PerPage: PageSize, LabelSelector: selector}, Sort: []string{"id:asc"}})
			if err != nil {
				yield(nil, fmt.Errorf("listing volumes: %w", err))
				return
			}
			all = append(all, found...)
			page = nextPage(response)
		}
		for _, volume := range all {
			if !yield(volume, nil) {
				return
			}
		}
	}
}

func nextPage(response *hcloud.Response) int {
	if response.Meta.Pagination == nil {
		return 0
	}
	return response.Meta.Pagination.NextPage
}

// AttachedObject converts a volume.
func AttachedObject(volume *hcloud.Volume) driver.AttachedObject {
	identity, _ := driver.FromTags(volume.Labels)
	return driver.AttachedObject{
		Kind: "volume", ID: strconv.FormatInt(volume.ID, 10), Identity: identity, Created: volume.Created, Copy: isCopy(volume, identity),
	}
}

// isCopy reports whether a volume with the labels of a machine was not created for it: its labels were copied.
func isCopy(volume *hcloud.Volume, of driver.Identity) bool {
	return !strings.HasPrefix(volume.Name, prefix(of))
}

// Selector returns the label selector of what belongs to a machine: its UID, or without that its name and Cluster.
func Selector(id driver.Identity) string {
	labels := id.Tags()
	delete(labels, driver.TagClusterUID)
	selector := ""
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		switch {
		case id.UID != "" && key != driver.TagMachineUID, labels[key] == "":
		default:
			selector += "," + key + "==" + labels[key]
		}
	}
	return selector[min(1, len(selector)):]
}

// prefix begins the names of all volumes of a machine.
func prefix(id driver.Identity) string { return string(id.UID) + "-" }

// name is unique to a machine and a volume of it.
func name(id driver.Identity, spec infrav1.HetznerVolume) string { return prefix(id) + spec.Name }
