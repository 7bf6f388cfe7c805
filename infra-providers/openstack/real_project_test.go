// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package openstack_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/common/extensions"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/instanceactions"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/keypairs"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servergroups"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"
	"github.com/gophercloud/gophercloud/v2/openstack/image/v2/imagedata"
	"github.com/gophercloud/gophercloud/v2/openstack/image/v2/images"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/layer3/floatingips"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/security/groups"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/networks"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/ports"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/subnets"
	"github.com/gophercloud/gophercloud/v2/pagination"
	"github.com/onsi/gomega"

	"drover.io/infra-providers/driver"
	"drover.io/infra-providers/openstack/access"
)

// project is the real project, accessed without the driver and with the rights of a member.
type project struct {
	*access.Services
	t *testing.T
}

// loggedIn is the login of all requests without the driver.
var loggedIn = sync.OnceValues(func() (*access.Services, error) {
	session, err := access.Open(driver.Account{}, nil, nil, nil)
	if err != nil {
		return nil, err
	}
	return session.Services(context.Background())
})

func inProject(t *testing.T) project {
	t.Helper()
	return project{must[*access.Services](t)(loggedIn()), t}
}

// must returns what a service answered.
func must[T any](t *testing.T) func(T, error) T {
	return func(answer T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return answer
	}
}

// offset ends something when the test ends, whether it went well or not.
func (p project) offset(what string, end func(context.Context) error) {
	p.t.Cleanup(func() {
		if err := end(context.Background()); err != nil {
			p.t.Errorf("removing %s: %v", what, err)
		}
	})
}

// network creates a network with a subnet for each prefix; the names of the subnets have their IP version.
func (p project) network(name string, prefixes ...string) *networks.Network {
	p.t.Helper()
	created := must[*networks.Network](p.t)(networks.Create(p.t.Context(), p.Network, networks.CreateOpts{Name: name}).Extract())
	p.offset(name, func(ctx context.Context) error { return networks.Delete(ctx, p.Network, created.ID).ExtractErr() })
	for _, prefix := range prefixes {
		version := gophercloud.IPv4
		if strings.Contains(prefix, ":") {
			version = gophercloud.IPv6
		}
		options := subnets.CreateOpts{NetworkID: created.ID, CIDR: prefix, IPVersion: version, Name: fmt.Sprintf("%s-v%d", name, version)}
		must[*subnets.Subnet](p.t)(subnets.Create(p.t.Context(), p.Network, options).Extract())
	}
	return created
}

func (p project) securityGroup(name string) *groups.SecGroup {
	p.t.Helper()
	created := must[*groups.SecGroup](p.t)(groups.Create(p.t.Context(), p.Network, groups.CreateOpts{Name: name}).Extract())
	p.offset(name, func(ctx context.Context) error { return groups.Delete(ctx, p.Network, created.ID).ExtractErr() })
	return created
}

func (p project) keyPair(name string) {
	p.t.Helper()
	must[*keypairs.KeyPair](p.t)(keypairs.Create(p.t.Context(), p.Compute, keypairs.CreateOpts{Name: name, PublicKey: publicKey}).Extract())
	p.offset(name, func(ctx context.Context) error { return keypairs.Delete(ctx, p.Compute, name, nil).ExtractErr() })
}

// publicKey belongs to a key that was thrown away.
const publicKey = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGf3GQq0J9O1lGkHk0N1d7n1c1m0J1h1b3bD0h5mQk2V nobody"

// image creates an image that cannot be booted.
func (p project) image(options images.CreateOpts) *images.Image {
	p.t.Helper()
	private := images.ImageVisibilityPrivate
	options.ContainerFormat, options.DiskFormat, options.Visibility = "bare", "raw", &private
	created := must[*images.Image](p.t)(images.Create(p.t.Context(), p.Image, options).Extract())
	p.offset(options.Name, func(ctx context.Context) error { return images.Delete(ctx, p.Image, created.ID).ExtractErr() })
	if err := imagedata.Upload(p.t.Context(), p.Image, created.ID, strings.NewReader(strings.Repeat("\x00", 512))).ExtractErr(); err != nil {
		p.t.Fatal(err)
	}
	return created
}

// has reports whether Neutron has an extension.
func (p project) has(extension string) bool {
	p.t.Helper()
	found := every(p, extensions.List(p.Network), extensions.ExtractExtensions)
	return slices.ContainsFunc(found, func(e extensions.Extension) bool { return e.Alias == extension })
}

func (p project) server(id string) *servers.Server {
	p.t.Helper()
	return must[*servers.Server](p.t)(servers.Get(p.t.Context(), p.Compute, id).Extract())
}

// servers are those of machines or Clusters whose UIDs have a part.
func (p project) servers(part string) (found []servers.Server) {
	p.t.Helper()
	for _, server := range every(p, servers.List(p.Compute, nil), servers.ExtractServers) {
		if strings.Contains(strings.Join(slices.Collect(maps.Values(server.Metadata)), " "), part) {
			found = append(found, server)
		}
	}
	return found
}

// stop shuts servers off behind the driver's back.
func (p project) stop(part string) {
	p.t.Helper()
	for _, server := range p.servers(part) {
		if err := servers.Stop(p.t.Context(), p.Compute, server.ID).ExtractErr(); err != nil {
			p.t.Fatal(err)
		}
		gomega.NewWithT(p.t).Eventually(func() string { return p.server(server.ID).Status }, realTimeout, time.Second).Should(gomega.Equal("SHUTOFF"))
	}
}

// restarts counts how often servers were restarted, by Nova's own books.
func (p project) restarts(part string) (count int) {
	p.t.Helper()
	for _, server := range p.servers(part) {
		for _, done := range every(p, instanceactions.List(p.Compute, server.ID, nil), instanceactions.ExtractInstanceActions) {
			if done.Action == "reboot" {
				count++
			}
		}
	}
	return count
}

// leftovers lists with the services themselves what has one of some UIDs, or a part of one, be it a
// machine's or a Cluster's.
func leftovers(t *testing.T, uids ...string) (left []string) {
	t.Helper()
	p := inProject(t)
	look := func(thing string, carries ...string) {
		if slices.ContainsFunc(uids, func(uid string) bool { return strings.Contains(strings.Join(carries, " "), uid) }) {
			left = append(left, thing)
		}
	}
	for _, port := range every(p, ports.List(p.Network, nil), ports.ExtractPorts) {
		look("port "+port.Name, append(port.Tags, port.Name)...)
	}
	for _, address := range every(p, floatingips.List(p.Network, nil), floatingips.ExtractFloatingIPs) {
		look("floating IP "+address.FloatingIP, append(address.Tags, address.Description)...)
	}
	for _, group := range every(p, servergroups.List(p.Compute, nil), servergroups.ExtractServerGroups) {
		look("server group "+group.Name, group.Name)
	}
	if p.Volume != nil {
		for _, volume := range p.volumes("") {
			if _, kept := volume.Metadata["drover.io:kept"]; !kept {
				look("volume "+volume.Name+" "+volume.Status, volume.Name)
			}
		}
	}
	for _, server := range p.servers("") {
		look("server "+server.Name+" "+server.Status, slices.Collect(maps.Values(server.Metadata))...)
	}
	return left
}

// every returns a whole list. A cloud without routers has no floating IPs to list.
func every[T any](p project, pager pagination.Pager, extract func(pagination.Page) ([]T, error)) []T {
	p.t.Helper()
	pages, err := pager.AllPages(context.Background())
	if gophercloud.ResponseCodeIs(err, 404) {
		return nil
	}
	return must[[]T](p.t)(extract(must[pagination.Page](p.t)(pages, err)))
}
