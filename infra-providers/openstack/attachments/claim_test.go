// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package attachments_test

import (
	"context"
	"errors"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/networks"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/ports"

	"drover.io/infra-providers/driver"
	"drover.io/infra-providers/openstack/access"
	"drover.io/infra-providers/openstack/attachments"
	"drover.io/infra-providers/openstack/openstackfake"
	"drover.io/runtime/httplimit"
)

var worker = driver.Identity{UID: "u", Name: "worker-1", Owner: driver.Owner{UID: "c", Namespace: "team", Name: "home"}}

// neutron returns a client of a fake Neutron and the ports of a machine.
func neutron(t *testing.T) (*openstackfake.Cloud, *gophercloud.ServiceClient, []ports.CreateOptsBuilder) {
	t.Helper()
	cloud := openstackfake.New()
	server := httptest.NewServer(cloud)
	t.Cleanup(server.Close)
	cloud.Serve(server.URL)
	session, err := access.Open(driver.Account{SecretName: "s"}, driver.Credentials{
		"OS_AUTH_URL": []byte(server.URL + "/identity/v3"), "OS_USERNAME": []byte(openstackfake.User), "OS_PASSWORD": []byte(openstackfake.Password),
	}, nil, httplimit.NewCloudSeats())
	if err != nil {
		t.Fatal(err)
	}
	services, err := session.Services(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	pages, err := networks.List(services.Network, networks.ListOpts{Name: "net"}).AllPages(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	found, err := networks.ExtractNetworks(pages)
	if err != nil || len(found) != 1 {
		t.Fatal(err, found)
	}
	var wanted []ports.CreateOptsBuilder
	for at := range 2 {
		wanted = append(wanted, ports.CreateOpts{NetworkID: found[0].ID, Name: attachments.PortName(worker, at)})
	}
	return cloud, services.Network, wanted
}

func claim(client *gophercloud.ServiceClient, holder string, offset time.Duration) attachments.Claim {
	return attachments.Claim{Ports: attachments.Ports{Client: client}, Holder: holder, Now: func() time.Time { return time.Now().Add(offset) }}
}

func TestClaimHasOneHolder(t *testing.T) {
	t.Parallel()
	_, client, wanted := neutron(t)
	take := func(holder string, offset time.Duration) error {
		_, err := claim(client, holder, offset).EnsurePorts(t.Context(), worker, wanted)
		return err
	}
	if err := take("a", 0); err != nil {
		t.Fatal(err)
	}
	if err := take("a", 0); err != nil {
		t.Errorf("the holder cannot go on: %v", err)
	}
	if err := take("b", time.Minute); !errors.Is(err, attachments.ErrBusy) {
		t.Errorf("another caller took a claim that counts: %v", err)
	}
	if err := take("b", 6*time.Minute); err != nil {
		t.Errorf("a claim of the dead holds for ever: %v", err)
	}
	if err := take("a", 0); !errors.Is(err, attachments.ErrBusy) {
		t.Errorf("the first holder took it back: %v", err)
	}
}

// created is a port of the first place, claimed by words.
func created(t *testing.T, client *gophercloud.ServiceClient, wanted ports.CreateOptsBuilder, words string) *ports.Port {
	t.Helper()
	port, err := ports.Create(t.Context(), client, wanted).Extract()
	if err != nil {
		t.Fatal(err)
	}
	if port, err = ports.Update(t.Context(), client, port.ID, ports.UpdateOpts{Description: &words}).Extract(); err != nil {
		t.Fatal(err)
	}
	return port
}

// TestTakeDeletesSurplusPorts: another caller's claim has expired, and an older port has no claim.
func TestTakeDeletesSurplusPorts(t *testing.T) {
	t.Parallel()
	cloud, client, wanted := neutron(t)
	created(t, client, wanted[0], "")
	created(t, client, wanted[0], "claimed by b at some time")
	kept, err := claim(client, "a", 6*time.Minute).EnsurePorts(t.Context(), worker, wanted)
	if err != nil || len(kept) != 2 || len(cloud.Leftovers()) != 2 {
		t.Errorf("%d ports are kept of %q: %v", len(kept), cloud.Leftovers(), err)
	}
}

// TestTakeWithdrawsOnAnotherClaim: another caller claims between the two lists of this one.
func TestTakeWithdrawsOnAnotherClaim(t *testing.T) {
	t.Parallel()
	cloud, client, wanted := neutron(t)
	var other *ports.Port
	between := meanwhile{wanted[0], func() { other = created(t, client, wanted[0], "claimed by b at some time") }}
	_, err := claim(client, "a", 0).EnsurePorts(t.Context(), worker, []ports.CreateOptsBuilder{between})
	if !errors.Is(err, attachments.ErrBusy) {
		t.Errorf("got %v", err)
	}
	if things := cloud.Leftovers(); len(things) != 1 || !strings.HasSuffix(things[0], other.ID) {
		t.Errorf("%q are left, so that nobody can go on", things)
	}
}

// meanwhile does something just before a port is created.
type meanwhile struct {
	ports.CreateOptsBuilder
	do func()
}

func (m meanwhile) ToPortCreateMap() (map[string]any, error) {
	m.do()
	return m.CreateOptsBuilder.ToPortCreateMap()
}

func TestPortOfAServerIsNotClaimed(t *testing.T) {
	t.Parallel()
	_, client, wanted := neutron(t)
	port := created(t, client, wanted[0], "claimed by a at some time")
	if _, err := ports.Update(t.Context(), client, port.ID, ports.UpdateOpts{DeviceID: new("server")}).Extract(); err != nil {
		t.Fatal(err)
	}
	if _, err := claim(client, "a", 0).EnsurePorts(t.Context(), worker, wanted); !errors.Is(err, attachments.ErrBusy) {
		t.Errorf("got %v", err)
	}
}

// TestConcurrentCallersHaveOneHolder has concurrent callers from the first port on, and counts the holders at any time.
func TestConcurrentCallersHaveOneHolder(t *testing.T) {
	t.Parallel()
	_, client, wanted := neutron(t)
	var callers sync.WaitGroup
	var mu sync.Mutex
	holders := map[string]bool{}
	for _, holder := range []string{"a", "b", "c", "d", "e", "f", "g", "h"} {
		callers.Go(func() {
			for range 5 {
				if _, err := claim(client, holder, 0).EnsurePorts(context.Background(), worker, wanted); err == nil {
					mu.Lock()
					holders[holder] = true
					mu.Unlock()
					return // and keeps what it holds
				}
			}
		})
	}
	callers.Wait()
	if len(holders) > 1 {
		t.Errorf("%v held the claim at once", holders)
	}
}

func TestTagsRoundTrip(t *testing.T) {
	t.Parallel()
	got, ok := attachments.Identity(attachments.Tags(worker))
	if !ok || got != worker {
		t.Errorf("got %+v", got)
	}
	if _, ok := attachments.Identity(map[string]string{"name": "x"}); ok {
		t.Error("somebody else's tags were taken for ours")
	}
}
