// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package anexia_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	infrav1 "drover.io/api/infrastructure/v1alpha1"
	"drover.io/infra-providers/anexia"
	"drover.io/infra-providers/anexia/anexiafake"
	"drover.io/infra-providers/driver"
)

func TestProvisioningRequest(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		change func(*infrav1.AnexiaMachineSpec)
		want   map[string]any
	}{
		"the least": {unchanged, map[string]any{
			"memory_mb": 4096.0, "cpus": 2.0, "disk_gb": 40.0, "script": "I2Nsb3VkLWNvbmZpZwo=",
			"network": []any{map[string]any{"nic_type": "virtio", "vlan": anexiafake.VLAN, "ips": []any{"198.51.100.10"}}},
		}},
		"everything": {allFields, map[string]any{
			"memory_mb": 4096.0, "cpus": 2.0, "sockets": 2.0, "cpu_performance_type": "performance", "availability_zone": anexiafake.ZoneA,
			"disk_gb": 40.0, "disk_type": "ENT2", "additional_disks": []any{map[string]any{"gb": 100.0, "type": "STD1"}},
			"script": "I2Nsb3VkLWNvbmZpZwo=",
			"network": []any{
				map[string]any{"nic_type": "virtio", "vlan": anexiafake.VLAN, "ips": []any{"10.1.0.10", "198.51.100.10"}, "bandwidth_limit": 1000.0},
				map[string]any{"nic_type": "virtio", "vlan": anexiafake.OtherVLAN},
			},
			"dns1": "94.16.16.94", "dns2": "94.16.16.16", "dns3": "2a00:11c0:11c0::2a00", "dns4": "2a00:11c0:11c0::11c0",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newEnv(t, anexiafake.Options{})
			d := w.connect(t)
			spec := newSpec(test.change)
			var err error
			for range 3 {
				if _, err = d.Create(t.Context(), newRequest(identity, newConfig(t, test.change))); err == nil {
					break
				}
			}
			if err != nil {
				t.Fatal(err)
			}
			got := w.cloud.Requests()[0]
			if host, _ := got["hostname"].(string); !strings.HasPrefix(host, "drover-") {
				t.Errorf("host name %q", host)
			}
			if key, _ := got["ssh"].(string); !strings.HasPrefix(key, "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAA") || spec.SSHPublicKey != "" && key != spec.SSHPublicKey {
				t.Errorf("SSH key %q", key)
			}
			delete(got, "hostname")
			delete(got, "ssh")
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("request (-want +got):\n%s", diff)
			}
		})
	}
}

func TestNewestBuild(t *testing.T) {
	t.Parallel()
	d := newEnv(t, anexiafake.Options{}).connect(t)
	for build, want := range map[string]string{"": anexiafake.TemplateNew, "latest": anexiafake.TemplateNew, "b9": anexiafake.TemplateOld, "beta": anexiafake.TemplateOdd} {
		found, err := d.FindImage(t.Context(), newConfig(t, func(s *infrav1.AnexiaMachineSpec) { s.TemplateBuild = build }))
		if err != nil || found.ID != want {
			t.Errorf("build %q: got %q and %v, want %q", build, found.ID, err, want)
		}
	}
}

func TestUnusableRequests(t *testing.T) {
	t.Parallel()
	w := newEnv(t, anexiafake.Options{})
	d := w.connect(t)
	for name, change := range map[string]func(*driver.CreateRequest[anexia.InstanceConfig]){
		"Ignition":           func(r *driver.CreateRequest[anexia.InstanceConfig]) { r.Format = "ignition" },
		"too much user data": func(r *driver.CreateRequest[anexia.InstanceConfig]) { r.UserData = make([]byte, 64<<10+1) },
		"a UID that is none": func(r *driver.CreateRequest[anexia.InstanceConfig]) { r.Identity.UID = "x" },
	} {
		request := newRequest(identity, newConfig(t, unchanged))
		change(&request)
		if _, err := d.Create(t.Context(), request); !driver.IsInvalidConfiguration(err) {
			t.Errorf("%s: got %v, want an InvalidConfigurationError", name, err)
		}
	}
	if changes := w.cloud.Changes(); changes != 0 {
		t.Errorf("%d requests changed something", changes)
	}
}

func TestCredentials(t *testing.T) {
	cloud := anexia.Cloud(anexia.Options{})
	connect := func(secretName string, data driver.Credentials) error {
		_, err := cloud.Connect(t.Context(), driver.Account{SecretName: secretName, Region: anexiafake.VLAN}, data)
		return err
	}
	t.Setenv("ANEXIA_TOKEN", "")
	if err := connect("", nil); !driver.IsUnauthorized(err) {
		t.Errorf("without a token: got %v, want an UnauthorizedError", err)
	}
	t.Setenv("ANEXIA_TOKEN", "own\n")
	if err := connect("", nil); err != nil {
		t.Errorf("with the provider's own token: %v", err)
	}
	for name, data := range map[string]driver.Credentials{"empty": {}, "blank": {"token": []byte(" \n")}, "two lines": {"token": []byte("a\nb")}} {
		if err := connect("anexia", data); !driver.IsUnauthorized(err) {
			t.Errorf("a Secret that is %s: got %v, want an UnauthorizedError", name, err)
		}
	}
}

// TestAccount: a VLAN that the credentials do not show is of another account.
func TestAccount(t *testing.T) {
	t.Parallel()
	w := newEnv(t, anexiafake.Options{})
	account := anexia.Cloud(anexia.Options{}).Account(&infrav1.AnexiaMachine{Spec: newSpec(unchanged)})
	if account.Region != anexiafake.VLAN || account.Endpoint != "" {
		t.Errorf("got account %+v", account)
	}
	elsewhere, err := w.description().Connect(t.Context(), driver.Account{SecretName: "anexia", Region: "gone"}, secret())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := elsewhere.(driver.AccountIdentifier).AccountID(t.Context()); !driver.IsUnauthorized(err) {
		t.Errorf("got %v, want an UnauthorizedError", err)
	}
}
