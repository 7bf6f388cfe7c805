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

	"github.com/go-logr/logr"
	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/attributestags"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/ports"
	"k8s.io/apimachinery/pkg/types"

	"drover.io/infra-providers/driver"
	"drover.io/infra-providers/openstack/access"
)

// MaxPorts is the maximum number of ports of a machine.
const MaxPorts = 16

// Ports are the ports of machines.
type Ports struct{ Client *gophercloud.ServiceClient }

// portName is unique for a machine and an index.
func portName(uid types.UID, at int) string { return fmt.Sprintf("%s-%d", Name(uid), at) }

// nameQuery selects all ports that a machine may have. Neutron matches any of several names.
type nameQuery types.UID

// ToPortListQuery implements ports.ListOptsBuilder.
func (q nameQuery) ToPortListQuery() (string, error) {
	query := url.Values{}
	for at := range MaxPorts {
		query.Add("name", portName(types.UID(q), at))
	}
	return "?" + query.Encode(), nil
}

// Find returns the ports of a machine, sorted by index and then by ID. A cloud that does not filter by name returns more
// ports, so each is checked.
func (p Ports) Find(ctx context.Context, uid types.UID) ([]ports.Port, error) {
	all, err := access.Select(ctx, ports.List(p.Client, nameQuery(uid)), ports.ExtractPorts, func(port ports.Port) (ports.Port, bool) {
		return port, portIndex(port, uid) < MaxPorts
	})
	if err != nil {
		return nil, err
	}
	slices.SortFunc(all, func(a, b ports.Port) int {
		if at := portIndex(a, uid) - portIndex(b, uid); at != 0 {
			return at
		}
		return strings.Compare(a.ID, b.ID)
	})
	return all, nil
}

// portIndex returns the number in a port's name.
func portIndex(port ports.Port, uid types.UID) int {
	for at := range MaxPorts {
		if port.Name == portName(uid, at) {
			return at
		}
	}
	return MaxPorts
}

// Ensure creates the missing ports and tags those without tags. It returns all of them, which may be too many after
// concurrent calls: Claim deletes the surplus.
func (p Ports) Ensure(ctx context.Context, id driver.Identity, wanted []ports.CreateOptsBuilder) ([]ports.Port, error) {
	have, err := p.owned(ctx, id)
	if err != nil {
		return nil, err
	}
	changed := false
	for at, options := range wanted {
		if slices.ContainsFunc(have, func(port ports.Port) bool { return portIndex(port, id.UID) == at }) {
			continue
		}
		created, err := ports.Create(ctx, p.Client, options).Extract()
		if err != nil {
			return nil, &CreationError{fmt.Sprintf("port %d", at), err}
		}
		logr.FromContextOrDiscard(ctx).Info("created port", "port", created.ID)
		have, changed = append(have, *created), true
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

// owned returns what Find does, and fails with NotOwnedError where one has the tags of another machine.
func (p Ports) owned(ctx context.Context, id driver.Identity) ([]ports.Port, error) {
	have, err := p.Find(ctx, id.UID)
	if err != nil {
		return nil, fmt.Errorf("listing ports: %w", err)
	}
	for _, port := range have {
		found, tagged := fromTagList(port.Tags)
		if err := check(id, found, tagged); err != nil {
			return nil, fmt.Errorf("port %q: %w", port.ID, err)
		}
	}
	return have, nil
}

// PortName is the name of the port with an index.
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
		if isTagged(port.Tags, id) {
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
		if err := p.delete(ctx, port.ID); err != nil {
			return err
		}
	}
	return nil
}

func (p Ports) delete(ctx context.Context, id string) error {
	err := ports.Delete(ctx, p.Client, id).ExtractErr()
	if err != nil && !access.Missing(err) {
		return fmt.Errorf("deleting port: %w", err)
	}
	if err == nil {
		logr.FromContextOrDiscard(ctx).Info("deleted port", "port", id)
	}
	return nil
}

// AttachedObjects implements Kind.
func (p Ports) AttachedObjects(ctx context.Context) ([]driver.AttachedObject, error) {
	list := ports.List(p.Client, ports.ListOpts{Tags: NamePrefix, Limit: 500})
	remains, err := access.Select(ctx, list, ports.ExtractPorts, func(port ports.Port) (driver.AttachedObject, bool) {
		id, ok := fromTagList(port.Tags)
		return driver.AttachedObject{Kind: "port", ID: port.ID, Identity: id, Created: port.CreatedAt, Copy: portIndex(port, id.UID) == MaxPorts}, ok
	})
	if err != nil {
		return nil, fmt.Errorf("listing ports: %w", err)
	}
	return remains, nil
}

// tag sets the ownership tags on a resource of Neutron.
func tag(ctx context.Context, client *gophercloud.ServiceClient, kind, of string, id driver.Identity) error {
	_, err := attributestags.ReplaceAll(ctx, client, kind, of, attributestags.ReplaceAllOpts{Tags: toTagList(id)}).Extract()
	if gophercloud.ResponseCodeIs(err, http.StatusNotFound) {
		return fmt.Errorf("it was deleted meanwhile: %w", ErrBusy)
	}
	return err
}
