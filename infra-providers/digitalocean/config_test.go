// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package digitalocean

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/utils/ptr"

	infrav1 "drover.io/api/infrastructure/v1alpha1"
	"drover.io/infra-providers/driver"
)

func everyField() infrav1.DigitalOceanMachineSpec {
	return infrav1.DigitalOceanMachineSpec{
		Size: "s-2vcpu-4gb", Region: "fra1", Image: "ubuntu-24-04-x64", SSHKeys: []string{"1"}, VPCUUID: "v", IPv6: ptr.To(true),
		ReservedIP: ptr.To(true), Monitoring: ptr.To(true), DropletAgent: ptr.To(true), Backups: ptr.To(true),
		BackupPolicy: infrav1.DigitalOceanBackupPolicy{Plan: "daily", Hour: ptr.To(int32(0))},
		Volumes:      []infrav1.DigitalOceanVolume{{Name: "data", SizeGiB: 10}}, Tags: []string{"web"},
		Fallbacks: []infrav1.DigitalOceanFallback{{Size: "s-4vcpu-8gb"}, {Region: "nyc3"}, {Size: "c-2", Region: "sfo3"}},
	}
}

func everyValue() InstanceConfig {
	spec := everyField()
	return InstanceConfig{
		Size: "s-2vcpu-4gb", Region: "fra1", Image: "ubuntu-24-04-x64", SSHKeys: spec.SSHKeys, VPCUUID: "v", PublicNetworking: true, IPv6: true,
		ReservedIP: true, Monitoring: true, DropletAgent: spec.DropletAgent, Backups: true, BackupPolicy: spec.BackupPolicy,
		Volumes: spec.Volumes, Tags: spec.Tags, Fallbacks: spec.Fallbacks,
	}
}

func TestNewInstanceConfig(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		zone string
		want func(*InstanceConfig)
	}{
		"copies the whole spec": {"", func(*InstanceConfig) {}},
		"prefers the failure domain of the Machine, and keeps only the fallbacks in it": {"sfo3", func(c *InstanceConfig) {
			c.Region, c.Fallbacks = "sfo3", []infrav1.DigitalOceanFallback{{Size: "s-4vcpu-8gb"}, {Size: "c-2", Region: "sfo3"}}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			machine := &infrav1.DigitalOceanMachine{Spec: everyField()}
			got, err := NewInstanceConfig(machine, test.zone)
			if err != nil {
				t.Fatal(err)
			}
			want := everyValue()
			test.want(&want)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("config (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(everyField(), machine.Spec); diff != "" {
				t.Errorf("the machine was changed:\n%s", diff)
			}
		})
	}
}

func TestNewInstanceConfigRefuses(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		change func(*infrav1.DigitalOceanMachine)
		field  string
	}{
		"a name that is too long":       {func(m *infrav1.DigitalOceanMachine) { m.Name = strings.Repeat("x", 64) }, "metadata.name"},
		"no region":                     {func(m *infrav1.DigitalOceanMachine) { m.Spec.Region = "" }, "spec.region"},
		"no image":                      {func(m *infrav1.DigitalOceanMachine) { m.Spec.Image = "" }, "spec.image"},
		"two images":                    {func(m *infrav1.DigitalOceanMachine) { m.Spec.ImageName = "node" }, "spec.image"},
		"addresses without the network": {func(m *infrav1.DigitalOceanMachine) { m.Spec.PublicNetworking = ptr.To(false) }, "spec.publicNetworking"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			machine := &infrav1.DigitalOceanMachine{Spec: everyField()}
			test.change(machine)
			_, err := NewInstanceConfig(machine, "")
			wantField(t, err, test.field)
		})
	}
}

func wantField(t *testing.T, err error, field string) {
	t.Helper()
	if refused, ok := errors.AsType[*driver.InvalidConfigurationError](err); !ok || refused.Field != field {
		t.Errorf("got %v, want an InvalidConfigurationError of %s", err, field)
	}
}

func TestAlternatives(t *testing.T) {
	t.Parallel()
	var got []string
	for _, other := range alternatives(everyValue()) {
		instanceType, zone := toOffering(other)
		got = append(got, instanceType+" in "+zone)
		if other.Fallbacks != nil {
			t.Error("an alternative has alternatives")
		}
	}
	if diff := cmp.Diff([]string{"s-4vcpu-8gb in fra1", "s-2vcpu-4gb in nyc3", "c-2 in sfo3"}, got); diff != "" {
		t.Errorf("alternatives (-want +got):\n%s", diff)
	}
}

func TestUserDataIsLimited(t *testing.T) {
	t.Parallel()
	if err := checkUserData(make([]byte, maxUserData)); err != nil {
		t.Errorf("64 KiB are refused: %v", err)
	}
	wantField(t, checkUserData(make([]byte, maxUserData+1)), bootstrapField)
	wantField(t, checkUserData([]byte{0x1f, 0x8b, 0xff}), bootstrapField)
}

// TestNamesThatFitInNoTag are refused before anything is created.
func TestNamesThatFitInNoTag(t *testing.T) {
	t.Parallel()
	id := driver.Identity{UID: "u", Name: "m", Owner: driver.Owner{Namespace: "n", Name: strings.Repeat("a.", 200)}}
	wantField(t, checkRequest(driver.CreateRequest[InstanceConfig]{Identity: id}), "metadata.name")
}
