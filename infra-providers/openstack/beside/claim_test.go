// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package beside_test

import (
	"context"
	"errors"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/networks"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/ports"

	"drover.io/infra-providers/driver"
	"drover.io/infra-providers/openstack/access"
	"drover.io/infra-providers/openstack/beside"
	"drover.io/infra-providers/openstack/openstackfake"
)

var worker = driver.Identity{UID: "u", Name: "worker-1", Owner: driver.Owner{UID: "c", Namespace: "team", Name: "home"}}

// neutron returns a client of a fake Neutron and the ports that a machine wants there.
func neutron(t *testing.T) (*openstackfake.Cloud, *gophercloud.ServiceClient, []ports.CreateOptsBuilder) {
	t.Helper()
	cloud := openstackfake.New()
	server := httptest.NewServer(cloud)
	t.Cleanup(server.Close)
	cloud.Serve(server.URL)
	session, err := access.Open(driver.Account{SecretName: "s"}, driver.Credentials{
		"OS_AUTH_URL": []byte(server.URL + "/identity/v3"), "OS_USERNAME": []byte(openstackfake.User), "OS_PASSWORD": []byte(openstackfake.Password),
	}, nil)
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
		wanted = append(wanted, ports.CreateOpts{NetworkID: found[0].ID, Name: beside.PortName(worker, at)})
	}
	return cloud, services.Network, wanted
}

func ensure(t *testing.T, client *gophercloud.ServiceClient, wanted []ports.CreateOptsBuilder) []ports.Port {
	t.Helper()
	have, err := beside.Ports{Client: client}.Ensure(t.Context(), worker, wanted)
	if err != nil {
		t.Fatal(err)
	}
	return have
}

func claim(client *gophercloud.ServiceClient, holder string, later time.Duration) beside.Claim {
	return beside.Claim{Ports: beside.Ports{Client: client}, Holder: holder, Now: func() time.Time { return time.Now().Add(later) }}
}

func TestOneHolderAtATime(t *testing.T) {
	t.Parallel()
	_, client, wanted := neutron(t)
	take := func(holder string, later time.Duration) error {
		_, err := claim(client, holder, later).Take(t.Context(), worker.UID, ensure(t, client, wanted))
		return err
	}
	if err := take("a", 0); err != nil {
		t.Fatal(err)
	}
	if err := take("a", 0); err != nil {
		t.Errorf("the holder cannot go on: %v", err)
	}
	if err := take("b", time.Minute); !errors.Is(err, beside.ErrBusy) {
		t.Errorf("another caller took a claim that counts: %v", err)
	}
	if err := take("b", 6*time.Minute); err != nil {
		t.Errorf("a claim of the dead holds for ever: %v", err)
	}
	if err := take("a", 0); !errors.Is(err, beside.ErrBusy) {
		t.Errorf("the first holder took it back: %v", err)
	}
}

// TestASwapOfWhatChangedFails: both read, then both claim.
func TestASwapOfWhatChangedFails(t *testing.T) {
	t.Parallel()
	_, client, wanted := neutron(t)
	have := ensure(t, client, wanted)
	if _, err := claim(client, "a", 0).Take(t.Context(), worker.UID, have); err != nil {
		t.Fatal(err)
	}
	if _, err := claim(client, "b", 0).Take(t.Context(), worker.UID, have); !errors.Is(err, beside.ErrBusy) {
		t.Errorf("got %v", err)
	}
}

// TestTwoPortsOfOnePlaceMakeOneHolder: two callers made a port each before either listed.
func TestTwoPortsOfOnePlaceMakeOneHolder(t *testing.T) {
	t.Parallel()
	cloud, client, wanted := neutron(t)
	first := ensure(t, client, wanted)
	second, err := ports.Create(t.Context(), client, wanted[0]).Extract()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := claim(client, "a", 0).Take(t.Context(), worker.UID, first[:1]); err != nil {
		t.Fatal(err)
	}
	if _, err := claim(client, "b", 0).Take(t.Context(), worker.UID, []ports.Port{*second}); !errors.Is(err, beside.ErrBusy) {
		t.Errorf("got %v", err)
	}
	kept, err := claim(client, "a", 0).Take(t.Context(), worker.UID, ensure(t, client, wanted))
	if err != nil || len(kept) != 2 || len(cloud.Things()) != 2 {
		t.Errorf("%d ports are kept of %q: %v", len(kept), cloud.Things(), err)
	}
}

// TestWhoSeesAnotherClaimWithdraws: both claimed, each a port of its own, before either listed again.
func TestWhoSeesAnotherClaimWithdraws(t *testing.T) {
	t.Parallel()
	cloud, client, wanted := neutron(t)
	have := ensure(t, client, wanted)
	other, err := ports.Create(t.Context(), client, wanted[0]).Extract()
	if err != nil {
		t.Fatal(err)
	}
	words := "claimed by b"
	if _, err := ports.Update(t.Context(), client, other.ID, ports.UpdateOpts{Description: &words}).Extract(); err != nil {
		t.Fatal(err)
	}
	if _, err := claim(client, "a", 0).Take(t.Context(), worker.UID, have); !errors.Is(err, beside.ErrBusy) {
		t.Errorf("got %v", err)
	}
	for _, thing := range cloud.Things() {
		if have[0].ID == thing[len(thing)-len(have[0].ID):] {
			t.Error("the claimed port was not withdrawn, so that nobody can go on")
		}
	}
}

func TestAPortOfAServerIsNotClaimed(t *testing.T) {
	t.Parallel()
	_, client, wanted := neutron(t)
	have := ensure(t, client, wanted)
	have[0].DeviceID = "server"
	if _, err := claim(client, "a", 0).Take(t.Context(), worker.UID, have); !errors.Is(err, beside.ErrBusy) {
		t.Errorf("got %v", err)
	}
}

// TestManyCallersAreNeverTwo lets callers race from the first port on. A holder keeps others out until it
// is done, so two that hold at the same moment would be seen.
func TestManyCallersAreNeverTwo(t *testing.T) {
	t.Parallel()
	_, client, wanted := neutron(t)
	var callers sync.WaitGroup
	var mu sync.Mutex
	holders := map[string]bool{}
	for _, holder := range []string{"a", "b", "c", "d", "e", "f", "g", "h"} {
		callers.Go(func() {
			for range 5 {
				have, err := beside.Ports{Client: client}.Ensure(context.Background(), worker, wanted)
				if err != nil {
					continue
				}
				if _, err = claim(client, holder, 0).Take(context.Background(), worker.UID, have); err == nil {
					mu.Lock()
					holders[holder] = true
					mu.Unlock()
				}
			}
		})
	}
	callers.Wait()
	if len(holders) > 1 {
		t.Errorf("%v held the claim at once", holders)
	}
}

func TestTagsSurviveTheAlphabet(t *testing.T) {
	t.Parallel()
	got, ok := beside.Identity(beside.Tags(worker))
	if !ok || got != worker {
		t.Errorf("got %+v", got)
	}
	if _, ok := beside.Identity(map[string]string{"name": "x"}); ok {
		t.Error("somebody else's tags were taken for ours")
	}
}
