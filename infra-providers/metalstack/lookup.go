// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package metalstack

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/metal-stack/metal-go/api/client/filesystemlayout"
	"github.com/metal-stack/metal-go/api/client/image"
	"github.com/metal-stack/metal-go/api/client/ip"
	"github.com/metal-stack/metal-go/api/client/network"
	"github.com/metal-stack/metal-go/api/client/partition"
	"github.com/metal-stack/metal-go/api/client/project"
	"github.com/metal-stack/metal-go/api/client/size"
	"github.com/metal-stack/metal-go/api/models"
	"k8s.io/utils/ptr"

	"drover.io/infra-providers/driver"
	"drover.io/infra-providers/internal/lookup"
)

const (
	// lookupTTL is how long sizes and networks are cached, and imageTTL how long the newest image is.
	lookupTTL = 10 * time.Minute
	imageTTL  = time.Minute
	// maxLookups is how many answers of each kind are cached at most.
	maxLookups = 1000
	// expiryWarning is how long before an image expires a template warns of it.
	expiryWarning = 14 * 24 * time.Hour
)

// machineFeature is what the images of machines have, unlike those of firewalls.
const machineFeature = "machine"

// image returns the image of a spec: itself, or the newest of those with this operating system and version.
func (d *Driver) image(ctx context.Context, spec string) (*models.V1ImageResponse, error) {
	found, err := lookup.Cached(&d.images, "image", spec, func() (*models.V1ImageResponse, error) {
		found, err := d.client.api.Image.FindLatestImage(image.NewFindLatestImageParamsWithContext(ctx).WithID(spec), nil)
		if err != nil {
			return nil, fmt.Errorf("reading the image: %w", err)
		}
		return keptImage(found.Payload), nil
	})
	switch {
	case isNotFound(err): // also for a name of another form; 422 is a failure of the API's database
		return nil, driver.InvalidField("spec.image", "there is no image %q", spec)
	case err != nil:
		return nil, err
	case !slices.Contains(found.Features, machineFeature):
		return nil, driver.InvalidField("spec.image", "the image %q is not for machines", value(found.ID))
	}
	return found, nil
}

// maxText is how many bytes of a text are kept. IDs have some ten.
const maxText = 255

// kept returns a text as it is kept of an answer: tenants name the servers.
func kept(text string) string { return strings.Clone(text[:min(len(text), maxText)]) }

// keptImage returns what is used of an image.
func keptImage(found *models.V1ImageResponse) *models.V1ImageResponse {
	image := &models.V1ImageResponse{ID: ptr.To(kept(value(found.ID))), ExpirationDate: found.ExpirationDate}
	if slices.Contains(found.Features, machineFeature) {
		image.Features = []string{machineFeature}
	}
	return image
}

// keptSize returns what is used of a size: one constraint of each type that is known.
func keptSize(found *models.V1SizeResponse) *models.V1SizeResponse {
	least := map[string]int64{}
	for _, constraint := range found.Constraints {
		if constraint != nil {
			least[value(constraint.Type)] = constraint.Min
		}
	}
	size := &models.V1SizeResponse{}
	for _, kind := range []string{models.V1SizeConstraintTypeCores, models.V1SizeConstraintTypeMemory, models.V1SizeConstraintTypeStorage} {
		if amount, ok := least[kind]; ok {
			size.Constraints = append(size.Constraints, &models.V1SizeConstraint{Type: &kind, Min: amount})
		}
	}
	return size
}

// keptNetwork returns what is used of a network: one prefix of each address family.
func keptNetwork(found *models.V1NetworkResponse) *models.V1NetworkResponse {
	network := &models.V1NetworkResponse{
		Partitionid: kept(found.Partitionid), Projectid: kept(found.Projectid), Parentnetworkid: kept(found.Parentnetworkid),
		Privatesuper: found.Privatesuper, Underlay: found.Underlay,
	}
	known := map[bool]bool{}
	for _, prefix := range found.Prefixes {
		if parsed, err := netip.ParsePrefix(prefix); err == nil && !known[parsed.Addr().Is4()] {
			known[parsed.Addr().Is4()] = true
			network.Prefixes = append(network.Prefixes, parsed.String())
		}
	}
	return network
}

// size returns a size.
func (d *Driver) size(ctx context.Context, id string) (*models.V1SizeResponse, error) {
	found, err := lookup.Cached(&d.lookups, "size", id, func() (*models.V1SizeResponse, error) {
		found, err := d.client.api.Size.FindSize(size.NewFindSizeParamsWithContext(ctx).WithID(id), nil)
		if err != nil {
			return nil, fmt.Errorf("reading the size: %w", err)
		}
		return keptSize(found.Payload), nil
	})
	if isNotFound(err) {
		return nil, driver.InvalidField("spec.size", "there is no size %q", id)
	}
	return found, err
}

// privateNetwork returns the private network of a configuration. What it is cannot change, so a cached one will do.
func (d *Driver) privateNetwork(ctx context.Context, config InstanceConfig) (*models.V1NetworkResponse, error) {
	const field = "spec.privateNetworks"
	found, err := lookup.Cached(&d.lookups, "network", config.Network, func() (*models.V1NetworkResponse, error) {
		found, err := d.network(ctx, config.Network)
		if err != nil {
			return nil, err
		}
		return keptNetwork(found), nil
	})
	switch {
	case isNotFound(err):
		return nil, driver.InvalidField(field, "there is no network %q", config.Network)
	case err != nil:
		return nil, err
	case found.Partitionid != config.Partition:
		return nil, driver.InvalidField(field, "the network %q is in the partition %q, not in %q", config.Network, found.Partitionid, config.Partition)
	case found.Projectid != d.project:
		return nil, driver.InvalidField(field, "the network %q does not belong to the project", config.Network)
	case value(found.Privatesuper) || value(found.Underlay) || found.Parentnetworkid == "":
		return nil, driver.InvalidField(field, "the network %q is not a private network of a project", config.Network)
	}
	return found, nil
}

func (d *Driver) network(ctx context.Context, id string) (*models.V1NetworkResponse, error) {
	found, err := d.client.api.Network.FindNetwork(network.NewFindNetworkParamsWithContext(ctx).WithID(id), nil)
	if err != nil {
		return nil, fmt.Errorf("reading network %q: %w", id, err)
	}
	return found.Payload, nil
}

// families returns the address families of a network, IPv4 first.
func families(of *models.V1NetworkResponse) (all []string) {
	for _, prefix := range of.Prefixes {
		parsed, err := netip.ParsePrefix(prefix)
		if err != nil {
			continue
		}
		if family := familyOf(parsed.Addr()); !slices.Contains(all, family) {
			all = append(all, family)
		}
	}
	slices.Sort(all)
	return all
}

func familyOf(address netip.Addr) string {
	if address.Is4() {
		return models.V1IPAllocateRequestAddressfamilyIPV4
	}
	return models.V1IPAllocateRequestAddressfamilyIPV6
}

// missing returns the error of the field that names what the API does not have, or nil.
func (d *Driver) missing(ctx context.Context, config InstanceConfig) error {
	spec := config.Spec
	for _, check := range []struct {
		field, id string
		read      func(string) error
	}{
		{"spec.partition", config.Partition, func(id string) error {
			_, err := d.client.api.Partition.FindPartition(partition.NewFindPartitionParamsWithContext(ctx).WithID(id), nil)
			return err
		}},
		{"spec.filesystemLayout", spec.FilesystemLayout, func(id string) error {
			_, err := d.client.api.Filesystemlayout.GetFilesystemLayout(filesystemlayout.NewGetFilesystemLayoutParamsWithContext(ctx).WithID(id), nil)
			return err
		}},
	} {
		if check.id == "" {
			continue
		}
		if err := check.read(check.id); isNotFound(err) {
			return driver.InvalidField(check.field, "there is none with the ID %q", check.id)
		} else if err != nil {
			return fmt.Errorf("reading %q: %w", check.id, err)
		}
	}
	for n, wanted := range spec.Networks {
		field := fmt.Sprintf("spec.networks[%d].networkID", n)
		found, err := d.network(ctx, wanted.NetworkID)
		switch {
		case isNotFound(err):
			return driver.InvalidField(field, "there is no network %q", wanted.NetworkID)
		case err != nil:
			return err
		case value(found.Privatesuper) || value(found.Underlay):
			return driver.InvalidField(field, "the network %q is a super network of private ones or the underlay, which no machine can be in", wanted.NetworkID)
		case found.Parentnetworkid != "":
			return driver.InvalidField(field, "the network %q is a private one, and a machine has only one of these", wanted.NetworkID)
		}
	}
	return d.missingIP(ctx, config)
}

// missingIP returns the error of an address that the machine cannot have, or nil.
func (d *Driver) missingIP(ctx context.Context, config InstanceConfig) error {
	networks := []string{config.Network}
	for _, wanted := range config.Spec.Networks {
		networks = append(networks, wanted.NetworkID)
	}
	for n, address := range config.Spec.IPs {
		field := fmt.Sprintf("spec.ips[%d]", n)
		found, err := d.client.api.IP.FindIP(ip.NewFindIPParamsWithContext(ctx).WithID(address), nil)
		switch {
		case isNotFound(err):
			return driver.InvalidField(field, "the address %s is not allocated", address)
		case err != nil:
			return fmt.Errorf("reading address %s: %w", address, err)
		case value(found.Payload.Projectid) != d.project:
			return driver.InvalidField(field, "the address %s does not belong to the project", address)
		case !slices.Contains(networks, value(found.Payload.Networkid)):
			return driver.InvalidField(field, "the address %s is in none of the networks of the machine", address)
		}
	}
	return nil
}

// projectOf returns the project.
func (d *Driver) projectOf(ctx context.Context) (*models.V1ProjectResponse, error) {
	found, err := d.client.api.Project.FindProject(project.NewFindProjectParamsWithContext(ctx).WithID(d.project), nil)
	if isNotFound(err) {
		return nil, &driver.UnauthorizedError{Err: fmt.Errorf("the project %q does not exist, or the credentials may not read it", d.project)}
	}
	if err != nil {
		return nil, fmt.Errorf("reading the project: %w", err)
	}
	return found.Payload, nil
}
