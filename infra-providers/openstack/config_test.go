// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package openstack

import (
	"bytes"
	"compress/gzip"
	"crypto/rand"
	"encoding/base64"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/utils/ptr"

	infrav1 "drover.io/api/infrastructure/v1alpha1"
	"drover.io/infra-providers/driver"
	"drover.io/infra-providers/openstack/attachments"
)

func TestFailureDomainTakesPrecedence(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		given, own string
		want       InstanceConfig
	}{
		"takes the failure domain":         {"a", "b", InstanceConfig{Zone: "a", Pinned: true}},
		"takes its own without one":        {"", "b", InstanceConfig{Zone: "b"}},
		"leaves it to the cloud otherwise": {"", "", InstanceConfig{}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			spec := infrav1.OpenStackMachineSpec{AvailabilityZone: test.own, Ports: []infrav1.OpenStackPort{{Network: "n"}}}
			got, err := NewInstanceConfig(&infrav1.OpenStackMachine{Spec: spec}, test.given)
			test.want.Spec = spec
			if diff := cmp.Diff(test.want, got); diff != "" || err != nil {
				t.Errorf("%v (-want +got):\n%s", err, diff)
			}
		})
	}
}

func TestPortsInheritSecurityGroups(t *testing.T) {
	t.Parallel()
	spec := infrav1.OpenStackMachineSpec{
		SecurityGroups: []string{"all"},
		Ports:          []infrav1.OpenStackPort{{Network: "n"}, {Network: "n", SecurityGroups: []string{"own"}}, {Network: "n", DisablePortSecurity: ptr.To(true)}},
	}
	got, err := NewInstanceConfig(&infrav1.OpenStackMachine{Spec: spec}, "")
	if err != nil {
		t.Fatal(err)
	}
	var groups [][]string
	for _, port := range got.Spec.Ports {
		groups = append(groups, port.SecurityGroups)
	}
	if diff := cmp.Diff([][]string{{"all"}, {"own"}, nil}, groups); diff != "" {
		t.Error(diff)
	}
	if spec.Ports[0].SecurityGroups != nil {
		t.Error("the machine itself was changed")
	}
}

func TestNewInstanceConfigRefuses(t *testing.T) {
	t.Parallel()
	port := []infrav1.OpenStackPort{{Network: "n"}}
	for name, spec := range map[string]infrav1.OpenStackMachineSpec{
		"a machine without a port":         {},
		"more ports than can be named":     {Ports: make([]infrav1.OpenStackPort, attachments.MaxPorts+1)},
		"a volume in a zone that is not":   {Ports: port, RootVolume: infrav1.OpenStackVolume{SizeGiB: 1, InMachineZone: ptr.To(true)}},
		"another volume in no zone either": {Ports: port, Volumes: []infrav1.OpenStackDataVolume{{Name: "d", OpenStackVolume: infrav1.OpenStackVolume{SizeGiB: 1, InMachineZone: ptr.To(true)}}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if _, err := NewInstanceConfig(&infrav1.OpenStackMachine{Spec: spec}, ""); !driver.IsInvalidConfiguration(err) {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestAlternatives(t *testing.T) {
	t.Parallel()
	fallbacks := []infrav1.OpenStackFallback{
		{AvailabilityZone: "b"}, {Flavor: "large"}, {Flavor: "small", AvailabilityZone: "a"}, {Flavor: "large", AvailabilityZone: "c"},
	}
	for name, test := range map[string]struct {
		zone string
		want [][2]string
	}{
		"changes flavor and zone":     {"", [][2]string{{"small", "b"}, {"large", "a"}, {"large", "c"}}},
		"keeps a zone that was given": {"z", [][2]string{{"large", "z"}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			spec := infrav1.OpenStackMachineSpec{Flavor: "small", AvailabilityZone: "a", Fallbacks: fallbacks, Ports: []infrav1.OpenStackPort{{Network: "n"}}}
			config, err := NewInstanceConfig(&infrav1.OpenStackMachine{Spec: spec}, test.zone)
			if err != nil {
				t.Fatal(err)
			}
			var got [][2]string
			for _, other := range alternatives(config) {
				flavor, zone := toOffering(other)
				got = append(got, [2]string{flavor, zone})
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestToOffering(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		change func(*infrav1.OpenStackMachineSpec)
		want   string
	}{
		"is the flavor":                          {func(*infrav1.OpenStackMachineSpec) {}, "m1.small"},
		"is the flavor in a group that may bend": {func(s *infrav1.OpenStackMachineSpec) { s.ServerGroup.Policy = "soft-anti-affinity" }, "m1.small"},
		"is the flavor under a strict policy":    {func(s *infrav1.OpenStackMachineSpec) { s.ServerGroup.Policy = "affinity" }, "m1.small in affinity"},
		"is the flavor in a group of the user's": {func(s *infrav1.OpenStackMachineSpec) { s.ServerGroup.Group = "rack" }, "m1.small in rack"},
		"is the flavor under hints": {func(s *infrav1.OpenStackMachineSpec) {
			s.SchedulerHints = map[string]string{"query": "x", "different_host": "y"}
		}, "m1.small with different_host with query"},
		"is no longer than metadata": {func(s *infrav1.OpenStackMachineSpec) {
			s.Flavor, s.ServerGroup.Group = strings.Repeat("x", 250), "a-long-name"
		}, strings.Repeat("x", 250) + " in a"},
	} {
		t.Run("it "+name, func(t *testing.T) {
			t.Parallel()
			spec := infrav1.OpenStackMachineSpec{Flavor: "m1.small"}
			test.change(&spec)
			flavor, zone := toOffering(InstanceConfig{Spec: spec, Zone: "zone-b"})
			if flavor != test.want || zone != "zone-b" {
				t.Errorf("got %q in %q, want %q", flavor, zone, test.want)
			}
		})
	}
}

func TestVolumeOptionsHaveTheirZone(t *testing.T) {
	t.Parallel()
	spec := infrav1.OpenStackMachineSpec{
		Ports:      []infrav1.OpenStackPort{{Network: "n"}},
		RootVolume: infrav1.OpenStackVolume{SizeGiB: 20, Type: "fast", InMachineZone: ptr.To(true)},
		Volumes:    []infrav1.OpenStackDataVolume{{Name: "data", OpenStackVolume: infrav1.OpenStackVolume{SizeGiB: 5, AvailabilityZone: "v", DeleteOnTermination: ptr.To(false)}}},
	}
	config, err := NewInstanceConfig(&infrav1.OpenStackMachine{Spec: spec}, "z")
	if err != nil {
		t.Fatal(err)
	}
	want := []attachments.Volume{
		{Name: attachments.Root, ImageID: "image", SizeGiB: 20, Type: "fast", Zone: "z"},
		{Name: "data", SizeGiB: 5, Zone: "v", Kept: true},
	}
	if diff := cmp.Diff(want, volumeOptions(config, "image")); diff != "" {
		t.Error(diff)
	}
}

func TestEncodeUserData(t *testing.T) {
	t.Parallel()
	noise := make([]byte, 60_000)
	_, _ = rand.Read(noise)
	long := bytes.Repeat([]byte("runcmd:\n"), 10_000)
	for name, test := range map[string]struct {
		data   []byte
		format string
		packed bool
		fits   bool
	}{
		"is handed over as it is":             {[]byte("#cloud-config\n"), "cloud-config", false, true},
		"may be as long as Nova takes":        {long[:49_149], "ignition", false, true},
		"is compressed for cloud-init":        {long, "cloud-config", true, true},
		"is not compressed for Ignition":      {long, "ignition", false, false},
		"is refused when that is not enough":  {noise, "cloud-config", false, false},
		"is refused one byte above the limit": {long[:49_150], "ignition", false, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := encodeUserData(test.data, test.format)
			if !test.fits {
				if !driver.IsInvalidConfiguration(err) {
					t.Errorf("got %v", err)
				}
				return
			}
			plain, decodeErr := base64.StdEncoding.DecodeString(string(got))
			if err != nil || decodeErr != nil {
				t.Fatal(err, decodeErr)
			}
			if test.packed {
				reader, err := gzip.NewReader(bytes.NewReader(plain))
				if err != nil {
					t.Fatal(err)
				}
				if plain, err = io.ReadAll(reader); err != nil {
					t.Fatal(err)
				}
			}
			if !bytes.Equal(plain, test.data) || len(got) > userDataLimit {
				t.Errorf("%d bytes came back of %d, in %d characters", len(plain), len(test.data), len(got))
			}
		})
	}
}
