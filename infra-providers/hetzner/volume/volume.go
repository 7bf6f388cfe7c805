// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Package volume keeps the volumes that belong to one machine: made before its server, because the cloud
// takes them by ID when it makes the server, and removed before it, because a volume that outlives its
// server would have nobody to come back for it. A volume's name derives from the machine's identity and is
// unique in the project, so it is made once. Errors are the SDK's own or one of package driver.
package volume

import (
	"context"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strconv"

	"github.com/hetznercloud/hcloud-go/v2/hcloud"

	infrav1 "drover.io/api/infrastructure/v1alpha1"
	"drover.io/infra-providers/driver"
)

// PageSize is the most that the cloud lists at once.
const PageSize = 50

// api is what is used of the SDK.
type api interface {
	List(ctx context.Context, opts hcloud.VolumeListOpts) ([]*hcloud.Volume, *hcloud.Response, error)
	GetByName(ctx context.Context, name string) (*hcloud.Volume, *hcloud.Response, error)
	Create(ctx context.Context, opts hcloud.VolumeCreateOpts) (hcloud.VolumeCreateResult, *hcloud.Response, error)
	Update(ctx context.Context, volume *hcloud.Volume, opts hcloud.VolumeUpdateOpts) (*hcloud.Volume, *hcloud.Response, error)
	Detach(ctx context.Context, volume *hcloud.Volume) (*hcloud.Action, *hcloud.Response, error)
	Delete(ctx context.Context, volume *hcloud.Volume) (*hcloud.Response, error)
}

// Store is the volumes of one project.
type Store struct{ api api }

// NewStore returns the volumes of the project that a client speaks to.
func NewStore(client *hcloud.Client) *Store { return &Store{api: &client.Volume} }

// Wanted is what a machine wants.
type Wanted struct {
	Identity driver.Identity
	Location string
	Labels   map[string]string
	Volumes  []infrav1.HetznerVolume
}

// Ensure makes the volumes that a machine lacks and returns all that it wants.
func (s *Store) Ensure(ctx context.Context, want Wanted) ([]*hcloud.Volume, error) {
	if len(want.Volumes) == 0 {
		return nil, nil
	}
	known := map[string]*hcloud.Volume{}
	for volume, err := range s.owned(ctx, want.Identity) {
		if err != nil {
			return nil, err
		}
		known[volume.Name] = volume
	}
	all := make([]*hcloud.Volume, 0, len(want.Volumes))
	for _, spec := range want.Volumes {
		found, err := s.ensure(ctx, want, spec, known[name(want.Identity, spec)])
		if err != nil {
			return nil, fmt.Errorf("making volume %q: %w", spec.Name, err)
		}
		all = append(all, found)
	}
	return all, nil
}

// ensure makes one volume, or returns the one there is.
func (s *Store) ensure(ctx context.Context, want Wanted, spec infrav1.HetznerVolume, known *hcloud.Volume) (*hcloud.Volume, error) {
	if known != nil && known.Server == nil && known.Location.Name != want.Location {
		// An attempt in another location, where there was no room for the server, left it.
		if _, err := s.api.Delete(ctx, known); err != nil {
			return nil, err
		}
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
	made, _, err := s.api.Create(ctx, opts)
	if hcloud.IsError(err, hcloud.ErrorCodeUniquenessError) {
		return s.taken(ctx, want.Identity, opts.Name, err)
	}
	return made.Volume, err
}

// taken returns the volume of a name that is in use: ours, made by a call whose answer was lost, or by
// another that was faster.
func (s *Store) taken(ctx context.Context, id driver.Identity, name string, cause error) (*hcloud.Volume, error) {
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

// Tag puts the identity of a machine into the labels of its volumes.
func (s *Store) Tag(ctx context.Context, id driver.Identity) error {
	for volume, err := range s.owned(ctx, id) {
		if err != nil {
			return err
		}
		if _, _, err := s.api.Update(ctx, volume, hcloud.VolumeUpdateOpts{Name: volume.Name, Labels: Labels(volume.Labels, id)}); err != nil {
			return fmt.Errorf("labelling volume %q: %w", volume.Name, err)
		}
	}
	return nil
}

// Labels are those of the user and those of an identity, which win.
func Labels(user map[string]string, id driver.Identity) map[string]string {
	all := id.Tags()
	for key, value := range user {
		if _, ours := all[key]; !ours {
			all[key] = value
		}
	}
	return all
}

// Release removes the volumes of a machine that no server has, and detaches the others. It reports whether
// all are gone; if not, it has to be called again once they are detached. Without UID and Cluster nobody
// can say whose a volume is, so none is touched.
func (s *Store) Release(ctx context.Context, id driver.Identity) (gone bool, err error) {
	gone = true
	if id.UID == "" && id.Owner.Name == "" {
		return gone, nil
	}
	for volume, err := range s.owned(ctx, id) {
		if err != nil {
			return false, err
		}
		removed, err := s.remove(ctx, volume)
		if err != nil {
			return false, fmt.Errorf("removing volume %q: %w", volume.Name, err)
		}
		gone = gone && removed
	}
	return gone, nil
}

func (s *Store) remove(ctx context.Context, volume *hcloud.Volume) (removed bool, err error) {
	if volume.Server != nil {
		action, _, err := s.api.Detach(ctx, volume)
		if err != nil || action.Status != hcloud.ActionStatusSuccess {
			return false, err
		}
	}
	if _, err := s.api.Delete(ctx, volume); err != nil && !hcloud.IsError(err, hcloud.ErrorCodeNotFound) {
		return false, err
	}
	return true, nil
}

// owned yields the volumes of a machine. One of another machine that carries the same UID is left alone; one that lacks
// labels fails, as nobody can say whose it is. A failure comes last.
func (s *Store) owned(ctx context.Context, id driver.Identity) iter.Seq2[*hcloud.Volume, error] {
	return func(yield func(*hcloud.Volume, error) bool) {
		for volume, err := range s.List(ctx, Selector(id)) {
			if err == nil {
				identity, _ := driver.FromTags(volume.Labels)
				if err = id.Check(identity); err != nil && !driver.IsUntagged(err) {
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

// List yields the volumes of a label selector over all pages. A failure comes last.
func (s *Store) List(ctx context.Context, selector string) iter.Seq2[*hcloud.Volume, error] {
	return func(yield func(*hcloud.Volume, error) bool) {
		// All pages are read before a volume is handed out: a caller that deletes what it is handed would
		// make the following pages move up.
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

// Remain describes a volume as what was made beside an instance.
func Remain(volume *hcloud.Volume) driver.Remain {
	identity, _ := driver.FromTags(volume.Labels)
	return driver.Remain{Kind: "volume", ID: strconv.FormatInt(volume.ID, 10), Identity: identity, Created: volume.Created}
}

// Selector is the label selector of what belongs to a machine: its UID, or where that was lost its name
// and Cluster.
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

// name is unique to a machine and a volume of it.
func name(id driver.Identity, spec infrav1.HetznerVolume) string {
	return string(id.UID) + "-" + spec.Name
}
