// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package hetzner

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"errors"
	"io"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	infrav1 "drover.io/api/infrastructure/v1alpha1"
	"drover.io/infra-providers/driver"
)

func fullSpec() infrav1.HetznerMachineSpec {
	return infrav1.HetznerMachineSpec{
		ServerType: "cx33", Location: "fsn1", Image: "ubuntu-24.04", SSHKeys: []string{"alice"}, Firewalls: []string{"workers"},
		Networks:   []infrav1.HetznerNetwork{{Name: "private", Subnet: "10.0.1.0/24"}},
		PublicIPv4: infrav1.HetznerPublicIP{Enabled: ptr.To(false)}, PublicIPv6: infrav1.HetznerPublicIP{PrimaryIP: "static"},
		PlacementGroup: "spread", Volumes: []infrav1.HetznerVolume{{Name: "data", SizeGB: 10}},
		Backups: ptr.To(true), Labels: map[string]string{"team": "web"},
		Fallbacks: []infrav1.HetznerFallback{{ServerType: "cx43"}, {Location: "nbg1"}, {ServerType: "cpx31", Location: "hel1"}},
	}
}

func fullConfig() InstanceConfig {
	spec := fullSpec()
	return InstanceConfig{
		ServerType: "cx33", Location: "fsn1", Image: "ubuntu-24.04", SSHKeys: spec.SSHKeys, Firewalls: spec.Firewalls,
		Networks: spec.Networks, PublicIPv4: spec.PublicIPv4, PublicIPv6: spec.PublicIPv6, PlacementGroup: "spread",
		Volumes: spec.Volumes, Backups: true, Labels: spec.Labels, Fallbacks: spec.Fallbacks,
	}
}

func TestNewInstanceConfig(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		zone string
		want func(*InstanceConfig)
	}{
		"copies the whole spec": {"", func(*InstanceConfig) {}},
		"prefers the failure domain of the Machine, and keeps only the fallbacks in it": {"hel1", func(c *InstanceConfig) {
			c.Location, c.Fallbacks = "hel1", []infrav1.HetznerFallback{{ServerType: "cx43"}, {ServerType: "cpx31", Location: "hel1"}}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			machine := &infrav1.HetznerMachine{Spec: fullSpec()}
			got, err := NewInstanceConfig(machine, test.zone)
			if err != nil {
				t.Fatal(err)
			}
			want := fullConfig()
			test.want(&want)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("config (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(fullSpec(), machine.Spec); diff != "" {
				t.Errorf("the machine was changed:\n%s", diff)
			}
		})
	}
}

func TestNewInstanceConfigRefuses(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		change func(*infrav1.HetznerMachine)
		field  string
	}{
		"a name that is too long":    {func(m *infrav1.HetznerMachine) { m.Name = strings.Repeat("x", 64) }, "metadata.name"},
		"no image":                   {func(m *infrav1.HetznerMachine) { m.Spec.Image = "" }, "spec.image"},
		"two images":                 {func(m *infrav1.HetznerMachine) { m.Spec.ImageSelector = "a=b" }, "spec.image"},
		"volumes without a location": {func(m *infrav1.HetznerMachine) { m.Spec.Location = "" }, "spec.location"},
		"a label with a space":       {func(m *infrav1.HetznerMachine) { m.Spec.Labels = map[string]string{"a": "b c"} }, "spec.labels"},
		"a label with a long value":  {func(m *infrav1.HetznerMachine) { m.Spec.Labels = map[string]string{"a": strings.Repeat("x", 64)} }, "spec.labels"},
		"an invalid subnet":          {func(m *infrav1.HetznerMachine) { m.Spec.Networks[0].Subnet = "10.0.0.0" }, "spec.networks[0]"},
		"an invalid address":         {func(m *infrav1.HetznerMachine) { m.Spec.Networks[0].IP = "ten" }, "spec.networks[0]"},
		"an invalid alias":           {func(m *infrav1.HetznerMachine) { m.Spec.Networks[0].AliasIPs = []string{"ten"} }, "spec.networks[0]"},
		"neither public address nor network": {func(m *infrav1.HetznerMachine) {
			m.Spec.PublicIPv6, m.Spec.Networks = infrav1.HetznerPublicIP{Enabled: ptr.To(false)}, nil
		}, "spec.networks"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			machine := &infrav1.HetznerMachine{ObjectMeta: metav1.ObjectMeta{Name: "m"}, Spec: fullSpec()}
			test.change(machine)
			_, err := NewInstanceConfig(machine, "")
			if refused, ok := errors.AsType[*driver.InvalidConfigurationError](err); !ok || refused.Field != test.field {
				t.Errorf("got %v, want %s to be invalid", err, test.field)
			}
		})
	}
}

func TestAlternatives(t *testing.T) {
	t.Parallel()
	var got [][2]string
	for _, other := range alternatives(fullConfig()) {
		kind, zone := toOffering(other)
		got = append(got, [2]string{kind, zone})
		other.ServerType, other.Location, other.Fallbacks = "cx33", "fsn1", fullConfig().Fallbacks
		if diff := cmp.Diff(fullConfig(), other); diff != "" {
			t.Errorf("more than the place differs:\n%s", diff)
		}
	}
	if diff := cmp.Diff([][2]string{{"cx43", "fsn1"}, {"cx33", "nbg1"}, {"cpx31", "hel1"}}, got); diff != "" {
		t.Errorf("places (-want +got):\n%s", diff)
	}
}

func TestEncodeUserData(t *testing.T) {
	t.Parallel()
	short := []byte("#cloud-config\n")
	repeated := []byte("#cloud-config\n" + strings.Repeat("# the same line\n", 10_000))
	noise := make([]byte, 100<<10)
	source := rand.New(rand.NewPCG(1, 1))
	for i := range noise {
		noise[i] = "0123456789abcdefghijklmnopqrstuv"[source.IntN(32)]
	}
	packed := driver.Compress(repeated)
	for name, test := range map[string]struct {
		data   []byte
		format string
		// open is what cloud-init does to what it is handed.
		open    func(*testing.T, string) []byte
		invalid bool
	}{
		"returns what fits unchanged":                {short, "cloud-config", func(_ *testing.T, s string) []byte { return []byte(s) }, false},
		"returns Ignition unchanged":                 {[]byte("{}"), "ignition", func(_ *testing.T, s string) []byte { return []byte(s) }, false},
		"compresses what is too long":                {repeated, "cloud-config", unpack, false},
		"encodes compressed data in base64":          {packed, "cloud-config", unbase, false},
		"refuses what is too long after compression": {noise, "cloud-config", nil, true},
		"does not compress Ignition":                 {repeated, "ignition", nil, true},
		"does not encode Ignition in base64":         {packed, "ignition", nil, true},
		"accepts the maximum":                        {repeated[:maxUserData], "cloud-config", func(_ *testing.T, s string) []byte { return []byte(s) }, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := encodeUserData(test.data, test.format)
			if driver.IsInvalidConfiguration(err) != test.invalid || err != nil && !test.invalid {
				t.Fatalf("got %v", err)
			}
			if test.invalid {
				return
			}
			if len(got) > maxUserData {
				t.Errorf("%d bytes are too many", len(got))
			}
			if !bytes.Equal(test.data, test.open(t, got)) {
				t.Error("the host would read something else")
			}
		})
	}
}

func unbase(t *testing.T, text string) []byte {
	t.Helper()
	data, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func unpack(t *testing.T, text string) []byte {
	t.Helper()
	reader, err := gzip.NewReader(bytes.NewReader(unbase(t, text)))
	if err != nil {
		t.Fatal(err)
	}
	data, err := io.ReadAll(reader)
	if err != nil {
		t.Fatal(err)
	}
	return data
}
