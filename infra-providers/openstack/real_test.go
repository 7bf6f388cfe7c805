// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package openstack_test

import (
	"cmp"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"k8s.io/apimachinery/pkg/types"

	infrav1 "drover.io/api/infrastructure/v1alpha1"
	"drover.io/infra-providers/driver"
	"drover.io/infra-providers/driver/drivertest"
	"drover.io/infra-providers/openstack"
	"drover.io/infra-providers/openstack/attachments"
	"drover.io/infra-providers/openstack/openstackfake"
)

// real skips a test unless there is a real OpenStack to run it against: see `make e2e-openstack`.
func real(t *testing.T) {
	t.Helper()
	if os.Getenv("DROVER_E2E_OPENSTACK") == "" {
		t.Skip("needs real services: make e2e-openstack")
	}
}

// realSpec is a spec that the real cloud accepts.
func realSpec() infrav1.OpenStackMachineSpec {
	return infrav1.OpenStackMachineSpec{
		Flavor: cmp.Or(os.Getenv("OPENSTACK_FLAVOR"), "m1.small"),
		Image:  infrav1.OpenStackImage{Name: cmp.Or(os.Getenv("OPENSTACK_IMAGE"), "ubuntu")},
		Ports:  []infrav1.OpenStackPort{{Network: cmp.Or(os.Getenv("OPENSTACK_NETWORK"), "net")}},
	}
}

// TestRealConformance is the conformance suite against real services. All rules share one project.
func TestRealConformance(t *testing.T) {
	real(t)
	drivertest.Run(t, func(t *testing.T) drivertest.Environment[openstack.InstanceConfig] {
		faults := &openstackfake.Faults{}
		suffix := hex.EncodeToString([]byte{byte(rand.N(256)), byte(rand.N(256)), byte(rand.N(256)), byte(rand.N(256))})
		connect := func() driver.Driver[openstack.InstanceConfig] {
			return suffixed{connect(t, faults, driver.Account{}, nil), suffix[:4] + "-4" + suffix[4:7]}
		}
		d := connect()
		t.Cleanup(func() {
			for _, left := range leftovers(t, suffix[:4]+"-4"+suffix[4:7]) {
				t.Logf("removing %s", left)
			}
			deleteAll(t, d)
		})
		p, ours := inProject(t), suffix[:4]+"-4"+suffix[4:7]
		var attach func(driver.Instance) func() bool
		if p.Volume != nil {
			attach = p.attach
		}
		return drivertest.Environment[openstack.InstanceConfig]{
			Driver:              d,
			NormalizeProviderID: openstack.Cloud(openstack.Options{}).NormalizeProviderID,
			Config:              newConfig(t, realSpec()),
			Attach:              attach,
			Invalid:             invalidConfigs(t, realSpec()),
			NoImage:             withoutImage(t, realSpec()),
			ImageOf:             func(created driver.Instance) string { return fmt.Sprint(p.server(created.ID).Image["id"]) },
			Stop:                func() { p.stop(ours) },
			Restarts:            func() int { return p.restarts(ours) },
			Reconnect:           connect,
			Lose:                func() { faults.Lose(openstackfake.Changes) },
			Interrupt:           func() { faults.Fail(openstackfake.Creates("servers"), http.StatusInternalServerError, "") },
			Leftovers:           func() []string { return leftovers(t, ours) },
		}
	})
}

// deleteAll deletes what a failed test left.
func deleteAll(t *testing.T, d driver.Driver[openstack.InstanceConfig]) {
	t.Helper()
	for instance, err := range d.List(context.Background(), driver.Owner{}) {
		if err != nil {
			t.Error(err)
			return
		}
		if err := d.Delete(context.Background(), instance.Identity); err != nil {
			t.Error(err)
		}
	}
}

// invalidConfigs returns configurations that only the cloud can refuse.
func invalidConfigs(t *testing.T, spec infrav1.OpenStackMachineSpec) map[string]openstack.InstanceConfig {
	t.Helper()
	return changed(t, spec, map[string]func(*infrav1.OpenStackMachineSpec){
		"unknown flavor":  func(s *infrav1.OpenStackMachineSpec) { s.Flavor = "nonsense" },
		"unknown network": func(s *infrav1.OpenStackMachineSpec) { s.Ports[0].Network = "nonsense" },
		"unknown subnet": func(s *infrav1.OpenStackMachineSpec) {
			s.Ports[0].FixedIPs = []infrav1.OpenStackFixedIP{{Subnet: "nonsense"}}
		},
		"unknown security group": func(s *infrav1.OpenStackMachineSpec) { s.Ports[0].SecurityGroups = []string{"nonsense"} },
		"unknown server group":   func(s *infrav1.OpenStackMachineSpec) { s.ServerGroup = infrav1.OpenStackServerGroup{Group: "nonsense"} },
		"unknown floating pool":  func(s *infrav1.OpenStackMachineSpec) { s.FloatingIP.Network = "nonsense" },
		"unknown zone":           func(s *infrav1.OpenStackMachineSpec) { s.AvailabilityZone = "nonsense" },
		"unknown key pair":       func(s *infrav1.OpenStackMachineSpec) { s.KeyPair = "nonsense" },
		"invalid address": func(s *infrav1.OpenStackMachineSpec) {
			s.Ports[0].AllowedAddressPairs = []infrav1.OpenStackAddressPair{{Address: "nonsense"}}
		},
	})
}

// withoutImage returns configurations without an image to boot from.
func withoutImage(t *testing.T, spec infrav1.OpenStackMachineSpec) map[string]openstack.InstanceConfig {
	t.Helper()
	return changed(t, spec, map[string]func(*infrav1.OpenStackMachineSpec){
		"unknown image": func(s *infrav1.OpenStackMachineSpec) { s.Image.Name = "nonsense" },
		"unknown image ID": func(s *infrav1.OpenStackMachineSpec) {
			s.Image = infrav1.OpenStackImage{ID: "00000000-0000-4000-8000-000000000000"}
		},
		"image that is not active": func(s *infrav1.OpenStackMachineSpec) { s.Image.Name = "queued" },
	})
}

func changed(t *testing.T, spec infrav1.OpenStackMachineSpec, changes map[string]func(*infrav1.OpenStackMachineSpec)) map[string]openstack.InstanceConfig {
	t.Helper()
	all := map[string]openstack.InstanceConfig{}
	for what, change := range changes {
		changed := spec.DeepCopy()
		change(changed)
		all[what] = newConfig(t, *changed)
	}
	return all
}

func connect(t *testing.T, transport http.RoundTripper, account driver.Account, secret driver.Credentials) driver.Driver[openstack.InstanceConfig] {
	t.Helper()
	connected, err := openstack.Cloud(openstack.Options{Transport: transport}).Connect(t.Context(), account, secret)
	if err != nil {
		t.Fatal(err)
	}
	return connected
}

func newConfig(t *testing.T, spec infrav1.OpenStackMachineSpec) openstack.InstanceConfig {
	t.Helper()
	config, err := openstack.NewInstanceConfig(&infrav1.OpenStackMachine{Spec: spec}, "")
	if err != nil {
		t.Fatal(err)
	}
	return config
}

// unique returns a UID that no other run uses.
func unique() types.UID { return types.UID(uuid.NewString()) }

// suffixed gives each rule of the suite, which all use the same UIDs, UIDs of its own.
type suffixed struct {
	driver.Driver[openstack.InstanceConfig]
	suffix string
}

const plain = "0000-4000"

func (s suffixed) in(uid types.UID) types.UID {
	return types.UID(strings.Replace(string(uid), plain, s.suffix, 1))
}

func (s suffixed) out(uid types.UID) types.UID {
	return types.UID(strings.Replace(string(uid), s.suffix, plain, 1))
}

func (s suffixed) identity(id driver.Identity, change func(types.UID) types.UID) driver.Identity {
	id.UID, id.Owner.UID = change(id.UID), change(id.Owner.UID)
	return id
}

func (s suffixed) instance(found driver.Instance, err error) (driver.Instance, error) {
	found.Identity = s.identity(found.Identity, s.out)
	return found, err
}

// Create retries, as the reconciler does, after a timeout and while a claim is valid.
func (s suffixed) Create(ctx context.Context, req driver.CreateRequest[openstack.InstanceConfig]) (driver.Instance, error) {
	req.Identity = s.identity(req.Identity, s.in)
	for began := time.Now(); ; {
		created, err := s.Driver.Create(ctx, req)
		passes := errors.Is(err, context.DeadlineExceeded) || errors.Is(err, attachments.ErrBusy)
		if !passes || ctx.Err() != nil || time.Since(began) > 2*realTimeout {
			return s.instance(created, err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(time.Second):
		}
	}
}

func (s suffixed) Get(ctx context.Context, id driver.Identity) (driver.Instance, error) {
	return s.instance(s.Driver.Get(ctx, s.identity(id, s.in)))
}

// Delete retries after transient errors of a service, as the reconciler does.
func (s suffixed) Delete(ctx context.Context, id driver.Identity) error {
	var err error
	for range 5 {
		if err = s.Driver.Delete(ctx, s.identity(id, s.in)); err == nil || ctx.Err() != nil || driver.IsNotOwned(err) {
			return err
		}
	}
	return err
}

func (s suffixed) List(ctx context.Context, owner driver.Owner) iter.Seq2[driver.Instance, error] {
	return func(yield func(driver.Instance, error) bool) {
		owner.UID = s.in(owner.UID)
		for instance, err := range s.Driver.List(ctx, owner) {
			if err == nil && !strings.Contains(string(instance.Identity.UID), s.suffix) {
				continue
			}
			if !yield(s.instance(instance, err)) {
				return
			}
		}
	}
}

// Tag retries while Nova creates the server, as the reconciler does.
func (s suffixed) Tag(ctx context.Context, id driver.Identity) error {
	id = s.identity(id, s.in)
	for running := false; ; {
		err := s.Driver.(driver.Tagger).Tag(ctx, id)
		if err == nil || running || ctx.Err() != nil || driver.IsNotFound(err) || driver.IsNotOwned(err) {
			return err
		}
		found, unread := s.Driver.Get(ctx, id)
		if unread != nil {
			return err
		}
		running = found.State == driver.Running
	}
}

func (s suffixed) Restart(ctx context.Context, id driver.Identity) error {
	return s.Driver.(driver.Restarter).Restart(ctx, s.identity(id, s.in))
}

func (s suffixed) FindImage(ctx context.Context, config openstack.InstanceConfig) (driver.Image, error) {
	return s.Driver.(driver.ImageFinder[openstack.InstanceConfig]).FindImage(ctx, config)
}

func (s suffixed) Capacity(ctx context.Context, config openstack.InstanceConfig) (driver.Capacity, error) {
	return s.Driver.(driver.CapacityProvider[openstack.InstanceConfig]).Capacity(ctx, config)
}

// AttachedObjects leaves out what other rules created.
func (s suffixed) AttachedObjects(ctx context.Context, owner driver.Owner) iter.Seq2[driver.AttachedObject, error] {
	return func(yield func(driver.AttachedObject, error) bool) {
		owner.UID = s.in(owner.UID)
		for left, err := range s.Driver.(driver.AttachedObjectLister).AttachedObjects(ctx, owner) {
			if err == nil && !strings.Contains(string(left.Identity.UID), s.suffix) {
				continue
			}
			left.Identity = s.identity(left.Identity, s.out)
			if !yield(left, err) {
				return
			}
		}
	}
}
