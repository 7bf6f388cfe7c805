// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package hetzner_test

import (
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/hetznercloud/hcloud-go/v2/hcloud"
	"k8s.io/utils/clock"

	infrav1 "drover.io/api/infrastructure/v1alpha1"
	"drover.io/infra-providers/driver"
	"drover.io/infra-providers/driver/drivertest"
	"drover.io/infra-providers/hetzner"
	"drover.io/infra-providers/hetzner/hetznerfake"
	"drover.io/infra-providers/internal/inflight"
)

func TestConformance(t *testing.T) {
	t.Parallel()
	drivertest.Run(t, func(t *testing.T) drivertest.Environment[hetzner.InstanceConfig] {
		return conformanceEnv(t, newEnv(t, hetznerfake.Options{}))
	})
}

func conformanceEnv(t *testing.T, cloud *hetznerfake.Cloud) drivertest.Environment[hetzner.InstanceConfig] {
	t.Helper()
	with := func(change func(*infrav1.HetznerMachineSpec)) hetzner.InstanceConfig {
		spec := newSpec()
		change(&spec)
		return newConfig(t, spec)
	}
	other := with(func(s *infrav1.HetznerMachineSpec) { s.ServerType, s.Location = "cx43", "nbg1" })
	return drivertest.Environment[hetzner.InstanceConfig]{
		Driver: connect(cloud),
		Config: newConfig(t, newSpec()),
		Other:  &other,
		Invalid: map[string]hetzner.InstanceConfig{
			"server type":     with(func(s *infrav1.HetznerMachineSpec) { s.ServerType = "huge" }),
			"location":        with(func(s *infrav1.HetznerMachineSpec) { s.Location = "none1" }),
			"ssh key":         with(func(s *infrav1.HetznerMachineSpec) { s.SSHKeys = []string{"none"} }),
			"network":         with(func(s *infrav1.HetznerMachineSpec) { s.Networks = []infrav1.HetznerNetwork{{Name: "none"}} }),
			"firewall":        with(func(s *infrav1.HetznerMachineSpec) { s.Firewalls = []string{"none"} }),
			"placement group": with(func(s *infrav1.HetznerMachineSpec) { s.PlacementGroupSelector, s.PlacementGroup = "", "none" }),
			"group selector":  with(func(s *infrav1.HetznerMachineSpec) { s.PlacementGroupSelector = "pool=none" }),
			"primary IP":      with(func(s *infrav1.HetznerMachineSpec) { s.PublicIPv4 = infrav1.HetznerPublicIP{PrimaryIP: "none"} }),
			"IP version":      with(func(s *infrav1.HetznerMachineSpec) { s.PublicIPv6 = infrav1.HetznerPublicIP{PrimaryIP: "static-1"} }),
			"IP selector":     with(func(s *infrav1.HetznerMachineSpec) { s.PublicIPv4 = infrav1.HetznerPublicIP{PrimaryIPSelector: "a=b"} }),
		},
		NoImage: map[string]hetzner.InstanceConfig{
			"image":          with(func(s *infrav1.HetznerMachineSpec) { s.Image = "none" }),
			"image selector": with(func(s *infrav1.HetznerMachineSpec) { s.Image, s.ImageSelector = "", "os=none" }),
			"image's id":     with(func(s *infrav1.HetznerMachineSpec) { s.Image = "9" }),
			"architecture":   with(func(s *infrav1.HetznerMachineSpec) { s.Image = "102" }),
		},
		ImageOf:   func(created driver.Instance) string { return cloud.ImageOf(created.ID) },
		Reconnect: func() driver.Driver[hetzner.InstanceConfig] { return connect(cloud) },
		Lose:      cloud.Lose,
		Hide:      cloud.Hide,
		Interrupt: func() { cloud.RefuseServer(http.StatusConflict, "conflict", "") },
		Attach: func(created driver.Instance) func() bool {
			id, err := strconv.ParseInt(created.ID, 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			return cloud.Attach(id)
		},
		AttachCopy: func(created driver.Instance) func() bool {
			id, err := strconv.ParseInt(created.ID, 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			return cloud.AttachCopy(id)
		},
		CopyTags: func(created driver.Instance) func() bool {
			id, err := strconv.ParseInt(created.ID, 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			return cloud.CopyLabels(id)
		},
		Untag: func(created driver.Instance, keys ...string) func() bool {
			id, err := strconv.ParseInt(created.ID, 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			return cloud.Untag(id, keys...)
		},
		Stop:        cloud.Stop,
		Restarts:    cloud.Resets,
		Leftovers:   cloud.Leftovers,
		UniqueNames: true,
		Changes: func() (changes int) {
			for _, call := range cloud.Calls() {
				if !strings.HasPrefix(call, http.MethodGet) {
					changes++
				}
			}
			return changes
		},
		Refuse: map[drivertest.Refusal]func(){
			drivertest.Unauthorized:         func() { cloud.Refuse(http.StatusUnauthorized, "unauthorized") },
			drivertest.RateLimited:          func() { cloud.Refuse(http.StatusTooManyRequests, "rate_limit_exceeded") },
			drivertest.ServerError:          func() { cloud.Refuse(http.StatusServiceUnavailable, "service_error") },
			drivertest.QuotaExceeded:        func() { cloud.RefuseServer(http.StatusForbidden, "resource_limit_exceeded", "") },
			drivertest.InsufficientCapacity: func() { cloud.RefuseServer(http.StatusPreconditionFailed, "resource_unavailable", "") },
		},
	}
}

// newSpec returns a spec with every kind of resource, but for those that one or ten machines can have.
func newSpec() infrav1.HetznerMachineSpec {
	return infrav1.HetznerMachineSpec{
		ServerType: "cx33",
		Location:   "fsn1",
		Image:      "ubuntu-24.04",
		SSHKeys:    []string{"alice"},
		Networks:   []infrav1.HetznerNetwork{{Name: "private"}, {Name: "202"}},
		Firewalls:  []string{"workers"},
		Volumes:    []infrav1.HetznerVolume{{Name: "data", SizeGB: 20, Format: "xfs"}, {Name: "logs", SizeGB: 10}},
		Labels:     map[string]string{"team": "web"},
	}
}

func newEnv(t *testing.T, options hetznerfake.Options) *hetznerfake.Cloud {
	t.Helper()
	cloud, err := hetznerfake.Start(options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cloud.Close()
		for _, violation := range cloud.Violations() {
			t.Errorf("violation of the description of the API: %s", violation)
		}
	})
	return cloud
}

// connect returns the driver of another process that started longer than the startup window ago.
func connect(cloud *hetznerfake.Cloud) *hetzner.Driver {
	age := inflight.Window
	connected := connectRestarted(cloud, drivertest.ClockFunc(func() time.Time { return time.Now().Add(-age) }))
	age = 0
	return connected
}

// connectRestarted returns the driver of a process that has just started.
func connectRestarted(cloud *hetznerfake.Cloud, now clock.PassiveClock) *hetzner.Driver {
	return hetzner.New(hcloud.NewClient(
		hcloud.WithEndpoint(cloud.Endpoint), hcloud.WithToken(hetznerfake.Token), hcloud.WithRetryOpts(hcloud.RetryOpts{MaxRetries: 0}),
	), now)
}

func newConfig(t *testing.T, spec infrav1.HetznerMachineSpec) hetzner.InstanceConfig {
	t.Helper()
	config, err := hetzner.NewInstanceConfig(&infrav1.HetznerMachine{Spec: spec}, "")
	if err != nil {
		t.Fatal(err)
	}
	return config
}
