// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package guestinfo_test

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"errors"
	"io"
	"math/rand"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/utils/ptr"

	infrav1 "drover.io/api/infrastructure/v1alpha1"
	"drover.io/infra-providers/vsphere/guestinfo"
)

func TestUserData(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		format, key string
	}{
		"is cloud-init's": {guestinfo.CloudConfig, "guestinfo.userdata"},
		"is Ignition's":   {guestinfo.Ignition, "guestinfo.ignition.config.data"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := guestinfo.UserData(test.format, []byte("hello"))
			if err != nil {
				t.Fatal(err)
			}
			if plain := unpack(t, got[test.key]); plain != "hello" {
				t.Errorf("got %q", plain)
			}
			got[test.key] = ""
			if diff := cmp.Diff(map[string]string{test.key: "", test.key + ".encoding": "gzip+base64"}, got); diff != "" {
				t.Errorf("variables (-want +got):\n%s", diff)
			}
		})
	}
}

// TestUserDataLimit: it counts what is sent, so text that compresses may be longer.
func TestUserDataLimit(t *testing.T) {
	t.Parallel()
	if _, err := guestinfo.UserData(guestinfo.CloudConfig, bytes.Repeat([]byte("drover "), 1<<16)); err != nil {
		t.Errorf("text that compresses: %v", err)
	}
	noise := make([]byte, 50_000)
	_, _ = rand.New(rand.NewSource(1)).Read(noise)
	if _, err := guestinfo.UserData(guestinfo.CloudConfig, noise); !errors.Is(err, guestinfo.ErrTooLong) {
		t.Errorf("noise: got %v, want ErrTooLong", err)
	}
}

// TestUserDataIsStable: equal data are equal text, so that nothing looks changed.
func TestUserDataIsStable(t *testing.T) {
	t.Parallel()
	first, _ := guestinfo.UserData(guestinfo.CloudConfig, []byte("hello"))
	again, _ := guestinfo.UserData(guestinfo.CloudConfig, []byte("hello"))
	if diff := cmp.Diff(first, again); diff != "" {
		t.Error(diff)
	}
}

func TestMetadata(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		network infrav1.VSphereNetwork
		want    string
	}{
		"uses DHCP when nothing is said": {infrav1.VSphereNetwork{},
			`{"match":{"macaddress":"m"},"dhcp4":true,"dhcp6":false}`},
		"uses DHCP for IPv6 alone": {infrav1.VSphereNetwork{DHCP6: ptr.To(true)},
			`{"match":{"macaddress":"m"},"dhcp4":false,"dhcp6":true}`},
		"uses DHCP beside an address": {infrav1.VSphereNetwork{DHCP4: ptr.To(true), Addresses: []string{"2001:db8::5/64"}},
			`{"match":{"macaddress":"m"},"dhcp4":true,"dhcp6":false,"addresses":["2001:db8::5/64"]}`},
		"uses what is given": {infrav1.VSphereNetwork{Addresses: []string{"192.0.2.5/24"}, Gateway4: "192.0.2.1", SearchDomains: []string{"example.com"}, MTU: 1400},
			`{"match":{"macaddress":"m"},"dhcp4":false,"dhcp6":false,"addresses":["192.0.2.5/24"],"routes":[{"to":"0.0.0.0/0","via":"192.0.2.1"}],"nameservers":{"search":["example.com"]},"mtu":1400}`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := guestinfo.Metadata(guestinfo.Host{InstanceID: "i", Name: "n", ProviderID: "p", Networks: []infrav1.VSphereNetwork{test.network}, MACs: []string{"m"}})
			if err != nil {
				t.Fatal(err)
			}
			want := `{"hostname":"n","instance-id":"i","local-hostname":"n","network":{"ethernets":{"nic0":` + test.want + `},"version":2},"provider_id":"p"}`
			if diff := cmp.Diff(want, unpack(t, got["guestinfo.metadata"])); diff != "" {
				t.Errorf("metadata (-want +got):\n%s", diff)
			}
		})
	}
	got, err := guestinfo.Metadata(guestinfo.Host{InstanceID: "i", Name: "n", ProviderID: "p"})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(`{"hostname":"n","instance-id":"i","local-hostname":"n","provider_id":"p"}`, unpack(t, got["guestinfo.metadata"])); diff != "" {
		t.Errorf("metadata without networks (-want +got):\n%s", diff)
	}
}

func TestCheck(t *testing.T) {
	t.Parallel()
	static := []infrav1.VSphereNetwork{{}, {Addresses: []string{"192.0.2.5/24"}}}
	for name, test := range map[string]struct {
		format   string
		networks []infrav1.VSphereNetwork
		field    string
	}{
		"takes static addresses for cloud-init":  {guestinfo.CloudConfig, static, ""},
		"refuses static addresses for Ignition":  {guestinfo.Ignition, static, "spec.networks[1].addresses"},
		"refuses an address without its prefix":  {guestinfo.CloudConfig, []infrav1.VSphereNetwork{{Addresses: []string{"192.0.2.5"}}}, "spec.networks[0].addresses"},
		"takes cards without addresses for both": {guestinfo.Ignition, static[:1], ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			field, err := guestinfo.Check(test.format, test.networks)
			if field != test.field || (err == nil) != (test.field == "") {
				t.Errorf("got %q and %v, want %q", field, err, test.field)
			}
		})
	}
}

func unpack(t *testing.T, value string) string {
	t.Helper()
	compressed, err := base64.StdEncoding.DecodeString(value)
	if err != nil {
		t.Fatal(err)
	}
	reader, err := gzip.NewReader(bytes.NewReader(compressed))
	if err != nil {
		t.Fatal(err)
	}
	plain, err := io.ReadAll(reader)
	if err != nil {
		t.Fatal(err)
	}
	return string(plain)
}
