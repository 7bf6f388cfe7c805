// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package metalstack

import (
	"context"
	"encoding/base64"
	"slices"

	"github.com/go-logr/logr"
	"github.com/metal-stack/metal-go/api/models"
	"k8s.io/utils/ptr"

	"drover.io/infra-providers/driver"
)

// ignition is the format of user data that no machine can read.
const ignition = "ignition"

// Create implements driver.Driver.
func (d *Driver) Create(ctx context.Context, req driver.CreateRequest[InstanceConfig]) (driver.Instance, error) {
	req.Identity.ProviderID = ""
	if req.Format == ignition {
		return driver.Instance{}, driver.NeverValid("bootstrap data", "the installer of metal-stack has an Ignition that does not read version 3 of its configuration: use an operating system with cloud-init")
	}
	machine := permanent(req.Identity)
	if _, busy := d.creating.LoadOrStore(machine, true); busy {
		return driver.Instance{}, errBusy
	}
	defer d.creating.Delete(machine)
	found, err := d.findByUID(ctx, req.Identity)
	if err != nil {
		return driver.Instance{}, toError(err)
	}
	if len(found) > 0 {
		return req.Identity.Checked(found[0])
	}
	created, err := d.allocate(ctx, req)
	if err != nil {
		return driver.Instance{}, toError(err)
	}
	return req.Identity.Checked(created)
}

// allocate allocates a machine under its claim.
func (d *Driver) allocate(ctx context.Context, req driver.CreateRequest[InstanceConfig]) (driver.Instance, error) {
	image, err := d.image(ctx, req.Config.Spec.Image)
	if err != nil {
		return driver.Instance{}, err
	}
	network, err := d.privateNetwork(ctx, req.Config)
	if err != nil {
		return driver.Instance{}, err
	}
	began := d.clock.Now()
	addresses, err := d.claim(ctx, req.Identity, req.Config, network)
	if err != nil {
		return driver.Instance{}, err
	}
	if d.clock.Since(began) > renewAfter { // the claim may be replaced before the request arrives
		return driver.Instance{}, errBusy
	}
	held, _ := d.holdings.Get(permanent(req.Identity))
	held.requested = true
	d.holdings.Set(permanent(req.Identity), held)
	created, err := d.client.allocate(ctx, toRequest(req, value(image.ID), addressesOf(addresses)))
	switch {
	case isUnanswered(err):
		return driver.Instance{}, err
	case err != nil:
		err = d.explain(ctx, req.Config, err)
		d.withdraw(ctx, req.Identity, addresses)
		return driver.Instance{}, err
	}
	d.holdings.Delete(permanent(req.Identity))
	logr.FromContextOrDiscard(ctx).Info("allocated machine", "machine", value(created.ID))
	return toInstance(created), nil
}

// marker is the description of an allocation. It outlives the tags, which a user may change.
func marker(id driver.Identity) string { return driver.TagMachineUID + "=" + string(id.UID) }

// toRequest returns the request for a machine.
func toRequest(req driver.CreateRequest[InstanceConfig], image string, addresses []string) *models.V1MachineAllocateRequest {
	spec := req.Config.Spec
	placement := spec.PlacementTags
	if len(placement) == 0 {
		placement = []string{driver.TagClusterUID + "=" + string(req.Identity.Owner.UID)}
	}
	request := &models.V1MachineAllocateRequest{
		Name: req.Identity.Name, Hostname: req.Identity.Name, Description: marker(req.Identity),
		Projectid: &spec.Project, Partitionid: &req.Config.Partition, Sizeid: &spec.Size, Imageid: &image,
		Filesystemlayoutid: spec.FilesystemLayout,
		SSHPubKeys:         append([]string{}, spec.SSHKeys...), // it must not be null
		Tags:               slices.Concat(spec.Tags, spec.PlacementTags, ownTags(req.Identity)),
		PlacementTags:      placement,
		Ips:                slices.Concat(addresses, spec.IPs),
		UserData:           base64.StdEncoding.EncodeToString(req.UserData),
		Networks:           []*models.V1MachineAllocationNetwork{{Networkid: &req.Config.Network, Autoacquire: ptr.To(false)}},
	}
	for _, network := range spec.Networks {
		request.Networks = append(request.Networks, &models.V1MachineAllocationNetwork{
			Networkid: ptr.To(network.NetworkID), Autoacquire: ptr.To(ptr.Deref(network.AutoAcquire, true)),
		})
	}
	for _, server := range spec.DNSServers {
		request.DNSServers = append(request.DNSServers, &models.V1DNSServer{IP: ptr.To(server)})
	}
	for _, server := range spec.NTPServers {
		request.NtpServers = append(request.NtpServers, &models.V1NTPServer{Address: ptr.To(server)})
	}
	return request
}
