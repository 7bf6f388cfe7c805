// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package openstack_test

import (
	"context"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servergroups"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"
	"github.com/gophercloud/gophercloud/v2/openstack/image/v2/images"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/portsecurity"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/ports"
	"github.com/gophercloud/gophercloud/v2/pagination"
	"github.com/onsi/gomega"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "drover.io/api/infrastructure/v1alpha1"
	"drover.io/infra-providers/driver"
	"drover.io/infra-providers/openstack"
	"drover.io/infra-providers/openstack/lookup"
)

// realTimeout bounds the wait for one server of real services, however loaded they are.
const realTimeout = 5 * time.Minute

// newRealRequest returns the request of a machine that is unique to this run. The test deletes what it creates.
func newRealRequest(t *testing.T, d driver.Driver[openstack.InstanceConfig], spec infrav1.OpenStackMachineSpec) driver.CreateRequest[openstack.InstanceConfig] {
	t.Helper()
	req := newRequest(t, spec)
	req.Identity.UID, req.Identity.Owner.UID = unique(), unique()
	t.Cleanup(func() {
		gomega.NewWithT(t).Eventually(func(g gomega.Gomega) {
			g.Expect(d.Delete(context.Background(), req.Identity)).To(gomega.Succeed())
			_, err := d.Get(context.Background(), req.Identity)
			g.Expect(driver.IsNotFound(err)).To(gomega.BeTrue(), "%v", err)
		}, realTimeout, time.Second).Should(gomega.Succeed())
		if left := leftovers(t, string(req.Identity.UID)); len(left) > 0 {
			t.Errorf("left: %q", left)
		}
	})
	return req
}

// mustReachState creates until the services accept it, as the reconciler does, and waits until it leaves Pending.
func mustReachState(t *testing.T, d driver.Driver[openstack.InstanceConfig], req driver.CreateRequest[openstack.InstanceConfig]) driver.Instance {
	t.Helper()
	var created driver.Instance
	gomega.NewWithT(t).Eventually(func(g gomega.Gomega) {
		var err error
		created, err = d.Create(t.Context(), req)
		if driver.IsInvalidConfiguration(err) || driver.IsUnauthorized(err) {
			t.Fatal(err)
		}
		g.Expect(err).NotTo(gomega.HaveOccurred())
		g.Expect(created.State).NotTo(gomega.Equal(driver.Pending))
	}, realTimeout, time.Second).Should(gomega.Succeed())
	return created
}

// TestRealServerHasAllAttachments requests everything that a member of the project may create.
func TestRealServerHasAllAttachments(t *testing.T) {
	real(t)
	p, d := inProject(t), connect(t, nil, driver.Account{}, nil)
	name := "drover-e2e-" + string(unique())[:8]
	first, second := p.network(name+"-a", "10.77.0.0/24", "fd77::/64"), p.network(name+"-b", "10.78.0.0/24")
	group := p.securityGroup(name)
	p.keyPair(name)
	p.image(images.CreateOpts{Name: name, Tags: []string{name}, Properties: map[string]string{"os_distro": "other"}})
	image := p.image(images.CreateOpts{Name: name, Tags: []string{name}, Properties: map[string]string{"os_distro": "drover", "architecture": "x86_64"}})
	zones := must[[]string](t)(lookup.Zones(t.Context(), p.Services))
	slices.Sort(zones)

	// Not every Neutron can do without port security.
	var open *bool
	if p.has("port-security") {
		open = ptr.To(true)
	}

	spec := realSpec()
	spec.Image = infrav1.OpenStackImage{Tags: []string{name}, Properties: map[string]string{"os_distro": "drover"}}
	spec.Ports = []infrav1.OpenStackPort{{
		Network:             name + "-a",
		FixedIPs:            []infrav1.OpenStackFixedIP{{Subnet: name + "-a-v4", Address: "10.77.0.77"}, {Subnet: name + "-a-v6", Address: "fd77::77"}},
		AllowedAddressPairs: []infrav1.OpenStackAddressPair{{Address: "10.244.0.0/16"}},
	}, {
		Network: second.ID, DisablePortSecurity: open,
		FixedIPs: []infrav1.OpenStackFixedIP{{Subnet: name + "-b-v4", Address: "10.78.0.78"}},
	}}
	spec.SecurityGroups, spec.KeyPair, spec.ConfigDrive = []string{name}, name, ptr.To(true)
	spec.Metadata, spec.Tags, spec.SchedulerHints = map[string]string{"team": "a"}, []string{"blue"}, map[string]string{"drover_e2e": "x"}
	spec.AvailabilityZone, spec.ServerGroup.Policy = zones[len(zones)-1], "anti-affinity"
	spec.RegionalProviderID = ptr.To(true)
	req := newRealRequest(t, d, spec)
	created := mustReachState(t, d, req)

	server := p.server(created.ID)
	wantInstance := driver.Instance{
		ID: server.ID, ProviderID: "openstack://" + p.Region + "/" + server.ID, Identity: req.Identity, State: driver.Running,
		FailureDomain: spec.AvailabilityZone, Created: server.Created,
		Addresses: []clusterv1.MachineAddress{
			{Type: clusterv1.MachineInternalIP, Address: "10.77.0.77"}, {Type: clusterv1.MachineInternalIP, Address: "fd77::77"},
			{Type: clusterv1.MachineInternalIP, Address: "10.78.0.78"}, {Type: clusterv1.MachineHostName, Address: req.Identity.Name},
			{Type: clusterv1.MachineInternalDNS, Address: req.Identity.Name + ".novalocal"},
		},
	}
	wantInstance.Identity.ProviderID = wantInstance.ProviderID
	if diff := cmp.Diff(wantInstance, created); diff != "" {
		t.Errorf("instance (-want +got):\n%s", diff)
	}
	wantServer := map[string]any{
		"image": image.ID, "key": name, "tags": []string{"blue", "drover", "drover-" + string(req.Identity.UID)}, "config drive": "True", "team": "a",
		"group": []string{server.ID},
	}
	slices.Sort(*server.Tags)
	gotServer := map[string]any{
		"image": server.Image["id"], "key": server.KeyName, "tags": *server.Tags, "config drive": configDrive(p, server.ID), "team": server.Metadata["team"],
		"group": p.members("drover-" + string(req.Identity.Owner.UID) + "-anti-affinity"),
	}
	if diff := cmp.Diff(wantServer, gotServer); diff != "" {
		t.Errorf("server (-want +got):\n%s", diff)
	}
	wantPorts := []nic{
		{Network: first.ID, Addresses: []string{"10.77.0.77", "fd77::77"}, Groups: []string{group.ID}, Pairs: []string{"10.244.0.0/16"}, Secure: open != nil},
		{Network: second.ID, Addresses: []string{"10.78.0.78"}},
	}
	if open == nil {
		wantPorts[1].Groups = []string{group.ID}
	}
	if diff := cmp.Diff(wantPorts, p.nics(server.ID)); diff != "" {
		t.Errorf("ports (-want +got):\n%s", diff)
	}
	size, err := d.(driver.CapacityProvider[openstack.InstanceConfig]).Capacity(t.Context(), req.Config)
	if err != nil || size.Architecture != "amd64" {
		t.Errorf("got %+v and %v, want the size of an amd64", size, err)
	}
}

// nic is a port of a server as Neutron shows it.
type nic struct {
	Network                  string
	Addresses, Groups, Pairs []string
	Secure                   bool
}

// nics are the ports of a server, by name.
func (p project) nics(serverID string) (all []nic) {
	p.t.Helper()
	type port struct {
		ports.Port
		portsecurity.PortSecurityExt
	}
	extract := func(page pagination.Page) (found []port, err error) {
		return found, ports.ExtractPortsInto(page, &found)
	}
	found := every(p, ports.List(p.Network, ports.ListOpts{DeviceID: serverID, SortKey: "name", SortDir: "asc"}), extract)
	for _, port := range found {
		seen := nic{Network: port.NetworkID, Secure: port.PortSecurityEnabled}
		for _, fixed := range port.FixedIPs {
			seen.Addresses = append(seen.Addresses, fixed.IPAddress)
		}
		slices.Sort(seen.Addresses)
		for _, pair := range port.AllowedAddressPairs {
			seen.Pairs = append(seen.Pairs, pair.IPAddress)
		}
		seen.Groups = append(seen.Groups, port.SecurityGroups...)
		all = append(all, seen)
	}
	return all
}

// members are the servers of a server group.
func (p project) members(name string) []string {
	p.t.Helper()
	for _, group := range every(p, servergroups.List(p.Compute, nil), servergroups.ExtractServerGroups) {
		if group.Name == name {
			return group.Members
		}
	}
	return nil
}

// configDrive is a field that the SDK does not have.
func configDrive(p project, serverID string) string {
	p.t.Helper()
	var shown struct {
		ConfigDrive string `json:"config_drive"`
	}
	if err := servers.Get(p.t.Context(), p.Compute, serverID).ExtractInto(&shown); err != nil {
		p.t.Fatal(err)
	}
	return shown.ConfigDrive
}

// TestRealFloatingIPs needs an external network.
func TestRealFloatingIPs(t *testing.T) {
	real(t)
	pool := os.Getenv("OPENSTACK_EXTERNAL_NETWORK")
	if pool == "" {
		t.Skip("OPENSTACK_EXTERNAL_NETWORK is not set")
	}
	d := connect(t, nil, driver.Account{}, nil)
	spec := realSpec()
	spec.FloatingIP.Network = pool
	created := mustReachState(t, d, newRealRequest(t, d, spec))
	var types []clusterv1.MachineAddressType
	for _, address := range created.Addresses {
		types = append(types, address.Type)
	}
	if !slices.Contains(types, clusterv1.MachineExternalIP) || types[0] != clusterv1.MachineInternalIP {
		t.Errorf("got %v", created.Addresses)
	}
}

// TestRealStrictServerGroupDoesNotExcludeOthers fills a group until no host is left for it.
func TestRealStrictServerGroupDoesNotExcludeOthers(t *testing.T) {
	real(t)
	d := connect(t, nil, driver.Account{}, nil)
	spec := realSpec()
	spec.ServerGroup.Policy = "anti-affinity"
	owner := unique()
	member := func() driver.CreateRequest[openstack.InstanceConfig] {
		req := newRealRequest(t, d, spec)
		req.Identity.Owner.UID = owner
		return req
	}
	const hosts = 4
	for n := 0; ; n++ {
		if n == hosts {
			t.Skipf("the cloud has %d hosts and more", hosts)
		}
		req := member()
		if created := mustReachState(t, d, req); created.Guest != nil {
			awaitFault(t, d, req.Identity)
			t.Logf("%d hosts", n)
			break
		}
	}
	if _, err := d.Create(t.Context(), member()); !driver.IsInsufficientCapacity(err) {
		t.Errorf("one more member: got %v, want an InsufficientCapacityError", err)
	}
	if created := mustReachState(t, d, newRealRequest(t, d, realSpec())); created.State != driver.Running {
		t.Errorf("a server without a group is %s: %s", created.State, created.Message)
	}
}

// awaitFault reads until a server in error has a fault, which Nova sets after the failure.
func awaitFault(t *testing.T, d driver.Driver[openstack.InstanceConfig], id driver.Identity) {
	t.Helper()
	gomega.NewWithT(t).Eventually(func(g gomega.Gomega) {
		failed, err := d.Get(t.Context(), id)
		g.Expect(err).NotTo(gomega.HaveOccurred())
		g.Expect(failed.State).To(gomega.Equal(driver.Stopped))
		g.Expect(failed.Guest).NotTo(gomega.BeNil())
		g.Expect(failed.Guest.Message).NotTo(gomega.BeEmpty())
	}, realTimeout, time.Second).Should(gomega.Succeed())
}
