// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package digitalocean_test

import (
	"net/http"
	"strconv"
	"strings"
	"testing"

	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"

	infrav1 "drover.io/api/infrastructure/v1alpha1"
	"drover.io/infra-providers/digitalocean"
	"drover.io/infra-providers/digitalocean/digitaloceanfake"
	"drover.io/infra-providers/driver"
	"drover.io/infra-providers/driver/drivertest"
)

// TestConformance proves the contract with the least that a spec needs, and with everything.
func TestConformance(t *testing.T) {
	t.Parallel()
	for name, spec := range map[string]infrav1.DigitalOceanMachineSpec{"minimal spec": minimalSpec(), "full spec": fullSpec()} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			drivertest.Run(t, func(t *testing.T) drivertest.Environment[digitalocean.InstanceConfig] {
				return conformanceEnv(t, newEnv(t, digitaloceanfake.Options{}), spec)
			})
		})
	}
}

func conformanceEnv(t *testing.T, cloud *digitaloceanfake.Cloud, spec infrav1.DigitalOceanMachineSpec) drivertest.Environment[digitalocean.InstanceConfig] {
	t.Helper()
	with := func(change func(*infrav1.DigitalOceanMachineSpec)) digitalocean.InstanceConfig {
		changed := spec.DeepCopy()
		change(changed)
		return newConfig(t, *changed)
	}
	other := with(func(s *infrav1.DigitalOceanMachineSpec) { s.Size, s.Region, s.VPCUUID = "s-4vcpu-8gb", "fra1", "" })
	env := drivertest.Environment[digitalocean.InstanceConfig]{
		Driver: connect(t, cloud),
		Config: newConfig(t, spec),
		Other:  &other,
		Invalid: map[string]digitalocean.InstanceConfig{
			"size":            with(func(s *infrav1.DigitalOceanMachineSpec) { s.Size = "huge" }),
			"region":          with(func(s *infrav1.DigitalOceanMachineSpec) { s.Region = "none1" }),
			"SSH key":         with(func(s *infrav1.DigitalOceanMachineSpec) { s.SSHKeys = []string{"9"} }),
			"key fingerprint": with(func(s *infrav1.DigitalOceanMachineSpec) { s.SSHKeys = []string{strings.Repeat("ab:", 15) + "ab"} }),
			"VPC":             with(func(s *infrav1.DigitalOceanMachineSpec) { s.VPCUUID = strings.Repeat("0", 36) }),
			"VPC elsewhere":   with(func(s *infrav1.DigitalOceanMachineSpec) { s.VPCUUID = digitaloceanfake.VPCFar }),
		},
		NoImage: map[string]digitalocean.InstanceConfig{
			"image":           with(func(s *infrav1.DigitalOceanMachineSpec) { s.Image, s.ImageName = "none", "" }),
			"image's ID":      with(func(s *infrav1.DigitalOceanMachineSpec) { s.Image, s.ImageName = "9", "" }),
			"image elsewhere": with(func(s *infrav1.DigitalOceanMachineSpec) { s.Image, s.ImageName = "105", "" }),
			"image's name":    with(func(s *infrav1.DigitalOceanMachineSpec) { s.Image, s.ImageName = "", "none" }),
			"name elsewhere":  with(func(s *infrav1.DigitalOceanMachineSpec) { s.Image, s.ImageName = "", "elsewhere" }),
		},
		ImageOf:   func(created driver.Instance) string { return cloud.ImageOf(created.ID) },
		Reconnect: func() driver.Driver[digitalocean.InstanceConfig] { return connect(t, cloud) },
		// The loss of the answers to other requests is TestLostAnswers: after the loss of a claim's, another process waits.
		Lose:       func() { cloud.LoseOperation("POST /v2/droplets") },
		Hide:       cloud.Hide,
		Attach:     func(created driver.Instance) func() bool { return cloud.Attach(number(t, created.ID)) },
		AttachCopy: func(created driver.Instance) func() bool { return cloud.AttachCopy(number(t, created.ID)) },
		CopyTags:   func(created driver.Instance) func() bool { return cloud.CopyTags(number(t, created.ID)) },
		Untag: func(created driver.Instance, keys ...string) func() bool {
			return cloud.Untag(number(t, created.ID), keys...)
		},
		Stop:      cloud.Stop,
		Restarts:  cloud.Restarts,
		Leftovers: cloud.Leftovers,
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
			drivertest.RateLimited:          func() { cloud.Refuse(http.StatusTooManyRequests, "too_many_requests") },
			drivertest.ServerError:          func() { cloud.Refuse(http.StatusInternalServerError, "server_error") },
			drivertest.QuotaExceeded:        cloud.Fill,
			drivertest.InsufficientCapacity: cloud.SellOut,
		},
	}
	if len(spec.Volumes) > 0 {
		env.Interrupt = func() { cloud.RefuseOperation("POST /v2/droplets", http.StatusTooManyRequests, "too_many_requests") }
	}
	return env
}

func minimalSpec() infrav1.DigitalOceanMachineSpec {
	return infrav1.DigitalOceanMachineSpec{Size: "s-2vcpu-4gb", Region: "nyc3", Image: "ubuntu-24-04-x64"}
}

func fullSpec() infrav1.DigitalOceanMachineSpec {
	return infrav1.DigitalOceanMachineSpec{
		Size: "s-2vcpu-4gb", Region: "nyc3", ImageName: "node",
		SSHKeys:      []string{strconv.Itoa(digitaloceanfake.KeyAlice)},
		VPCUUID:      digitaloceanfake.VPCHome,
		IPv6:         ptr.To(true),
		ReservedIP:   ptr.To(true),
		Monitoring:   ptr.To(true),
		DropletAgent: ptr.To(false),
		Backups:      ptr.To(true),
		BackupPolicy: infrav1.DigitalOceanBackupPolicy{Plan: "weekly", Weekday: "SUN", Hour: ptr.To(int32(4))},
		Volumes:      []infrav1.DigitalOceanVolume{{Name: "data", SizeGiB: 20, FilesystemType: "xfs"}, {Name: "logs", SizeGiB: 10}},
		Tags:         []string{"Team:Web"},
	}
}

func newEnv(t *testing.T, options digitaloceanfake.Options) *digitaloceanfake.Cloud {
	t.Helper()
	cloud, err := digitaloceanfake.Start(options)
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

// connect returns the driver of another process.
func connect(t *testing.T, cloud *digitaloceanfake.Cloud) *digitalocean.Driver {
	t.Helper()
	return connectAt(t, cloud, clock.RealClock{}, http.DefaultTransport)
}

func connectAt(t *testing.T, cloud *digitaloceanfake.Cloud, now clock.PassiveClock, transport http.RoundTripper) *digitalocean.Driver {
	t.Helper()
	client, err := digitalocean.NewClient(digitaloceanfake.Token, cloud.Endpoint, transport)
	if err != nil {
		t.Fatal(err)
	}
	return digitalocean.New(client, now)
}

func newConfig(t *testing.T, spec infrav1.DigitalOceanMachineSpec) digitalocean.InstanceConfig {
	t.Helper()
	config, err := digitalocean.NewInstanceConfig(&infrav1.DigitalOceanMachine{Spec: spec}, "")
	if err != nil {
		t.Fatal(err)
	}
	return config
}

func number(t *testing.T, id string) int {
	t.Helper()
	n, err := strconv.Atoi(id)
	if err != nil {
		t.Fatal(err)
	}
	return n
}
