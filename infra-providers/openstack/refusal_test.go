// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package openstack_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	infrav1 "drover.io/api/infrastructure/v1alpha1"
	"drover.io/infra-providers/driver"
	"drover.io/infra-providers/openstack"
	"drover.io/infra-providers/openstack/attachments"
	"drover.io/infra-providers/openstack/openstackfake"
)

// refusedServer is Nova's answer to a server that it would never accept as it is.
const refusedServer = `{"badRequest": {"code": 400, "message": "Flavor's memory is too small for requested image."}}`

// mustRefuse creates an instance that Nova refuses, and retries while attachments are not ready, as the reconciler does.
func mustRefuse(t *testing.T, r *env, d driver.Driver[openstack.InstanceConfig], req driver.CreateRequest[openstack.InstanceConfig]) {
	t.Helper()
	r.faults.Fail(openstackfake.Creates("servers"), http.StatusBadRequest, refusedServer)
	for range 10 {
		_, err := d.Create(t.Context(), req)
		if driver.IsInvalidConfiguration(err) {
			return
		}
		if !errors.Is(err, attachments.ErrBusy) {
			t.Fatalf("got %v, want an InvalidConfigurationError", err)
		}
	}
	t.Fatal("the attachments did not become ready")
}

// costlySpec is one of a machine with a root volume and a floating IP.
func costlySpec() infrav1.OpenStackMachineSpec {
	spec := minimalSpec()
	spec.RootVolume, spec.FloatingIP.Network = infrav1.OpenStackVolume{SizeGiB: 20}, "public"
	return spec
}

// TestRefusedCreationKeepsWhatIsCostly for the next attempt, and nothing is left after the machine is deleted. A port does not follow
// what is corrected in its network, and is created again.
func TestRefusedCreationKeepsWhatIsCostly(t *testing.T) {
	t.Parallel()
	r := newEnv(t)
	counted := counting(r.faults)
	d := connect(t, counted, driver.Account{SecretName: "cloud"}, r.secret)
	req := newRequest(t, costlySpec())
	for range 3 {
		mustRefuse(t, r, d, req)
		if left := strings.Join(r.Leftovers(), "\n"); strings.Contains(left, "ports ") {
			t.Errorf("%s are left of a refused creation, want no port", left)
		}
	}
	mustCreate(t, d, req)
	calls := counted.taken()
	if volumes, addresses := calls["POST volumes"], calls["POST floatingips"]; volumes != 1 || addresses != 1 {
		t.Errorf("%d volumes and %d floating IPs were created, want one of each", volumes, addresses)
	}
	r.awaitStates(t)
	found, err := d.Get(t.Context(), worker)
	if err != nil || found.State != driver.Running {
		t.Errorf("got %+v and %v, want it to run", found, err)
	}
	wantLeftovers(t, r, worker)
}

// TestRefusedCreationLeavesNothingOfADeletedMachine, whose server was never created.
func TestRefusedCreationLeavesNothingOfADeletedMachine(t *testing.T) {
	t.Parallel()
	r := newEnv(t)
	spec := costlySpec()
	spec.ServerGroup.Policy = "soft-anti-affinity"
	mustRefuse(t, r, r.connect(t), newRequest(t, spec))
	wantLeftovers(t, r, worker)
}

// TestVolumeOfAnotherImageIsReplaced: the image may be what was corrected.
func TestVolumeOfAnotherImageIsReplaced(t *testing.T) {
	t.Parallel()
	r := newEnv(t)
	d := r.connect(t)
	req := newRequest(t, costlySpec())
	mustRefuse(t, r, d, req)
	newest := ""
	r.Change("images", func(image map[string]any) {
		if image["name"] == "old" {
			image["name"], image["created_at"] = "ubuntu", "2027-01-01T00:00:00Z"
			newest = image["id"].(string)
		}
	})
	mustCreate(t, d, req)
	if got := r.only(t, "volumes")["imageRef"]; got != newest {
		t.Errorf("the volume is from the image %v, want the newest, %s", got, newest)
	}
	wantLeftovers(t, r, worker)
}

// TestFloatingIPOfAnotherNetworkIsReplaced: the name may be that of another network by the next attempt.
func TestFloatingIPOfAnotherNetworkIsReplaced(t *testing.T) {
	t.Parallel()
	r := newEnv(t)
	d := r.connect(t)
	req := newRequest(t, costlySpec())
	mustRefuse(t, r, d, req)
	var public any
	r.Change("networks", func(network map[string]any) {
		switch {
		case network["name"] == "public":
			network["name"] = "before"
		case network["name"] == "duplicate" && public == nil:
			network["name"], network["router:external"], public = "public", true, network["id"]
		}
	})
	mustCreate(t, d, req)
	if got := r.only(t, "floatingips")["floating_network_id"]; got != public {
		t.Errorf("the floating IP is of the network %v, want %v", got, public)
	}
	wantLeftovers(t, r, worker)
}

// TestNamesAreLookedUpBeforeWhatCostsMoney is created.
func TestNamesAreLookedUpBeforeWhatCostsMoney(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		change func(*infrav1.OpenStackMachineSpec)
		field  string
	}{
		"a key pair": {func(s *infrav1.OpenStackMachineSpec) { s.KeyPair = "nobody" }, "spec.keyPair"},
		"a zone":     {func(s *infrav1.OpenStackMachineSpec) { s.AvailabilityZone = "nowhere" }, "spec.availabilityZone"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newEnv(t)
			spec := costlySpec()
			test.change(&spec)
			_, err := r.connect(t).Create(t.Context(), newRequest(t, spec))
			invalid, ok := errors.AsType[*driver.InvalidConfigurationError](err)
			if !ok || invalid.Field != test.field {
				t.Errorf("got %v, want an InvalidConfigurationError of %s", err, test.field)
			}
			if changes := r.Changes(); changes != 0 {
				t.Errorf("%d requests changed something, want none", changes)
			}
		})
	}
}
