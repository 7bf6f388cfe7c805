// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package attachments

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/attributestags"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/ports"
	"k8s.io/apimachinery/pkg/types"

	"drover.io/infra-providers/driver"
	"drover.io/infra-providers/openstack/access"
)

// MaxPorts is how many ports a machine may have.
const MaxPorts = 16

// Ports are the ports of machines.
type Ports struct{ Client *gophercloud.ServiceClient }

// portName is unique by machine and place.
func portName(uid types.UID, at int) string { return fmt.Sprintf("%s-%d", Name(uid), at) }

// named asks for all ports that a machine may have. Neutron takes a repeated name as either.
type named types.UID

// ToPortListQuery implements ports.ListOptsBuilder.
func (n named) ToPortListQuery() (string, error) {
	query := url.Values{}
	for at := range MaxPorts {
		query.Add("name", portName(types.UID(n), at))
	}
	return "?" + query.Encode(), nil
}

// Find returns the ports of a machine, in order of place and then of ID.
func (p Ports) Find(ctx context.Context, uid types.UID) ([]ports.Port, error) {
	all, err := access.All(ctx, ports.List(p.Client, named(uid)), ports.ExtractPorts)
	if err != nil {
		return nil, err
	}
	slices.SortFunc(all, func(a, b ports.Port) int {
		if at := place(a, uid) - place(b, uid); at != 0 {
			return at
		}
		return strings.Compare(a.ID, b.ID)
	})
	return all, nil
}

// place is the number in a port's name.
func place(port ports.Port, uid types.UID) int {
	for at := range MaxPorts {
		if port.Name == portName(uid, at) {
			return at
		}
	}
	return MaxPorts
}

// Ensure makes the ports that are missing and tags those that are not tagged. It returns all there are,
// which may be too many when callers raced: Claim sorts that out.
func (p Ports) Ensure(ctx context.Context, id driver.Identity, wanted []ports.CreateOptsBuilder) ([]ports.Port, error) {
	have, err := p.owned(ctx, id)
	if err != nil {
		return nil, err
	}
	changed := false
	for at, options := range wanted {
		if slices.ContainsFunc(have, func(port ports.Port) bool { return place(port, id.UID) == at }) {
			continue
		}
		made, err := ports.Create(ctx, p.Client, options).Extract()
		if err != nil {
			return nil, &CreationError{fmt.Sprintf("port %d", at), err}
		}
		have, changed = append(have, *made), true
	}
	marked, err := p.tag(ctx, id, have)
	if err != nil {
		return nil, err
	}
	if !changed && !marked {
		return have, nil
	}
	return p.owned(ctx, id)
}

// owned returns what Find does, and fails with NotOwnedError where one carries the tags of another machine.
func (p Ports) owned(ctx context.Context, id driver.Identity) ([]ports.Port, error) {
	have, err := p.Find(ctx, id.UID)
	if err != nil {
		return nil, fmt.Errorf("listing ports: %w", err)
	}
	for _, port := range have {
		found, tagged := fromList(port.Tags)
		if err := check(id, found, tagged); err != nil {
			return nil, fmt.Errorf("port %q: %w", port.ID, err)
		}
	}
	return have, nil
}

// PortName is what the port at a place has to be called.
func PortName(id driver.Identity, at int) string { return portName(id.UID, at) }

// Tag implements Kind.
func (p Ports) Tag(ctx context.Context, id driver.Identity) error {
	found, err := p.owned(ctx, id)
	if err != nil {
		return err
	}
	_, err = p.tag(ctx, id, found)
	return err
}

// tag reports whether a port had other tags.
func (p Ports) tag(ctx context.Context, id driver.Identity, all []ports.Port) (changed bool, err error) {
	for _, port := range all {
		if tagged(port.Tags, id) {
			continue
		}
		if err := tag(ctx, p.Client, "ports", port.ID, id); err != nil {
			return false, fmt.Errorf("tagging port: %w", err)
		}
		changed = true
	}
	return changed, nil
}

// Delete implements Kind.
func (p Ports) Delete(ctx context.Context, id driver.Identity, _ bool) error {
	found, err := p.owned(ctx, id)
	if err != nil {
		return err
	}
	for _, port := range found {
		if err := p.remove(ctx, port.ID); err != nil {
			return err
		}
	}
	return nil
}

func (p Ports) remove(ctx context.Context, id string) error {
	err := ports.Delete(ctx, p.Client, id).ExtractErr()
	if err != nil && !access.Missing(err) {
		return fmt.Errorf("deleting port: %w", err)
	}
	return nil
}

// Remains implements Kind.
func (p Ports) Remains(ctx context.Context) ([]driver.Remain, error) {
	list := ports.List(p.Client, ports.ListOpts{Tags: NamePrefix, Limit: 500})
	remains, err := access.Select(ctx, list, ports.ExtractPorts, func(port ports.Port) (driver.Remain, bool) {
		id, ok := fromList(port.Tags)
		return driver.Remain{Kind: "port", ID: port.ID, Identity: id, Created: port.CreatedAt}, ok
	})
	if err != nil {
		return nil, fmt.Errorf("listing ports: %w", err)
	}
	return remains, nil
}

// tag puts the ownership tags on something of Neutron.
func tag(ctx context.Context, client *gophercloud.ServiceClient, kind, of string, id driver.Identity) error {
	_, err := attributestags.ReplaceAll(ctx, client, kind, of, attributestags.ReplaceAllOpts{Tags: list(id)}).Extract()
	if gophercloud.ResponseCodeIs(err, http.StatusNotFound) {
		return fmt.Errorf("it is gone again: %w", ErrBusy)
	}
	return err
}
