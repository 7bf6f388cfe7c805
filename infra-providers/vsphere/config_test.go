// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package vsphere_test

import (
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	infrav1 "drover.io/api/infrastructure/v1alpha1"
	"drover.io/infra-providers/driver"
	"drover.io/infra-providers/driver/drivertest"
	"drover.io/infra-providers/vsphere"
	"drover.io/infra-providers/vsphere/vcenter"
)

func now() time.Time { return time.Now() }

func TestFailureDomainOverridesTheSpec(t *testing.T) {
	t.Parallel()
	own := infrav1.VSpherePlacement{Folder: "f", ComputeCluster: "a", ResourcePool: "pool", Host: "h", DatastoreCluster: "pod", StoragePolicy: "gold"}
	domains := []infrav1.VSphereFailureDomain{
		{Name: "east", VSpherePlacement: infrav1.VSpherePlacement{ComputeCluster: "b", Datastore: "ds"}},
		{Name: "west", VSpherePlacement: infrav1.VSpherePlacement{ResourcePool: "/DC0/host/c/Resources/x", Folder: "g", StoragePolicy: "iron"}},
	}
	for name, test := range map[string]struct {
		zone    string
		domains []infrav1.VSphereFailureDomain
		want    infrav1.VSpherePlacement
	}{
		"keeps the machine's own place without a zone": {"", domains, own},
		"takes a zone for a compute cluster": {"c", nil, infrav1.VSpherePlacement{
			Folder: "f", ComputeCluster: "c", ResourcePool: "pool", DatastoreCluster: "pod", StoragePolicy: "gold"}},
		"replaces a cluster with its host, and the storage as a whole": {"east", domains, infrav1.VSpherePlacement{
			Folder: "f", ComputeCluster: "b", ResourcePool: "pool", Datastore: "ds", StoragePolicy: "gold"}},
		"replaces a pool with its cluster": {"west", domains, infrav1.VSpherePlacement{
			Folder: "g", ResourcePool: "/DC0/host/c/Resources/x", DatastoreCluster: "pod", StoragePolicy: "iron"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			machine := &infrav1.VSphereMachine{Spec: infrav1.VSphereMachineSpec{VSpherePlacement: own, FailureDomains: test.domains}}
			got, err := vsphere.NewInstanceConfig(machine, test.zone)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, got.References.VSpherePlacement); diff != "" {
				t.Errorf("placement (-want +got):\n%s", diff)
			}
		})
	}
	_, err := vsphere.NewInstanceConfig(&infrav1.VSphereMachine{Spec: infrav1.VSphereMachineSpec{FailureDomains: domains}}, "north")
	wantField(t, err, "spec.failureDomains")
}

func TestInstanceCapacity(t *testing.T) {
	t.Parallel()
	config, err := vsphere.NewInstanceConfig(&infrav1.VSphereMachine{Spec: infrav1.VSphereMachineSpec{CPUs: 4, MemoryMiB: 8192, DiskGiB: 40}}, "")
	if err != nil {
		t.Fatal(err)
	}
	got, err := (&vsphere.Driver{}).Capacity(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	want := driver.Capacity{
		Capacity: corev1.ResourceList{
			corev1.ResourceCPU: resource.MustParse("4"), corev1.ResourceMemory: resource.MustParse("8Gi"), corev1.ResourceEphemeralStorage: resource.MustParse("40Gi"),
		},
		Architecture: "amd64", OperatingSystem: "linux",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("size (-want +got):\n%s", diff)
	}
}

// TestLogin connects through the cloud's own description; the environment is the
// process's, so this test does not run beside others.
func TestLogin(t *testing.T) {
	full := driver.Credentials{"username": []byte("u"), "password": []byte("p"), "server": []byte("vc")}
	without := func(key string) driver.Credentials {
		some := driver.Credentials{}
		for name, value := range full {
			if name != key {
				some[name] = value
			}
		}
		return some
	}
	with := func(key, value string) driver.Credentials {
		some := without("")
		some[key] = []byte(value)
		return some
	}
	for name, test := range map[string]struct {
		endpoint    string
		secret      string
		credentials driver.Credentials
		environment map[string]string
		ok          bool
	}{
		"takes a Secret":                      {"", "s", full, nil, true},
		"takes the server of the spec":        {"vc", "s", without("server"), nil, true},
		"wants a server":                      {"", "s", without("server"), nil, false},
		"wants a username":                    {"vc", "s", without("username"), nil, false},
		"wants a password":                    {"vc", "s", without("password"), nil, false},
		"wants a truth value":                 {"vc", "s", with("insecure", "maybe"), nil, false},
		"wants one way to trust":              {"vc", "s", driver.Credentials{"username": []byte("u"), "password": []byte("p"), "ca.crt": []byte("c"), "thumbprint": []byte("t")}, nil, false},
		"takes the environment":               {"", "", nil, map[string]string{"VSPHERE_SERVER": "vc", "VSPHERE_USERNAME": "u", "VSPHERE_PASSWORD": "p"}, true},
		"takes govc's environment":            {"", "", nil, map[string]string{"GOVC_URL": "https://vc/sdk", "GOVC_USERNAME": "u", "GOVC_PASSWORD": "p", "GOVC_INSECURE": "true"}, true},
		"wants something in the environment":  {"", "", nil, nil, false},
		"does not mix Secret and environment": {"", "s", without("password"), map[string]string{"VSPHERE_PASSWORD": "p"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			for _, key := range []string{"VSPHERE_SERVER", "VSPHERE_USERNAME", "VSPHERE_PASSWORD", "GOVC_URL", "GOVC_USERNAME", "GOVC_PASSWORD", "GOVC_INSECURE", "VSPHERE_INSECURE", "VSPHERE_CA_CERT", "VSPHERE_THUMBPRINT"} {
				t.Setenv(key, test.environment[key])
			}
			_, err := vsphere.Cloud(&vcenter.Pool{}).Connect(t.Context(), driver.Account{SecretName: test.secret, Endpoint: test.endpoint}, test.credentials)
			if (err == nil) != test.ok || err != nil && !driver.IsUnauthorized(err) {
				t.Errorf("got %v, want ok %t", err, test.ok)
			}
		})
	}
}

// TestSecretIsNoFileName: the path of a certificate is not the certificate, even where the host has one there.
func TestSecretIsNoFileName(t *testing.T) {
	t.Parallel()
	server := httptest.NewTLSServer(http.NotFoundHandler())
	t.Cleanup(server.Close)
	authority := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	path := filepath.Join(t.TempDir(), "ca.crt")
	if err := os.WriteFile(path, authority, 0o600); err != nil {
		t.Fatal(err)
	}
	for value, ok := range map[string]bool{path: false, string(authority): true} {
		secret := driver.Credentials{"username": []byte("u"), "password": []byte("p"), "server": []byte("vc"), "ca.crt": []byte(value)}
		_, err := vsphere.Cloud(&vcenter.Pool{}).Connect(t.Context(), driver.Account{SecretName: "s"}, secret)
		if (err == nil) != ok || err != nil && (!driver.IsUnauthorized(err) || !strings.Contains(err.Error(), "ca.crt")) {
			t.Errorf("ca.crt %q: got %v", value, err)
		}
	}
}

// TestOwnCredentialsAreSentToTheirOwnServerOnly: a tenant who names a server and no Secret must not get the password of
// the provider sent there.
func TestOwnCredentialsAreSentToTheirOwnServerOnly(t *testing.T) {
	for key, value := range map[string]string{"VSPHERE_SERVER": "127.0.0.1:1", "VSPHERE_USERNAME": "u", "VSPHERE_PASSWORD": "p", "VSPHERE_INSECURE": "true"} {
		t.Setenv(key, value)
	}
	drivertest.RefusesEndpoint(t, vsphere.Cloud(&vcenter.Pool{}), func(endpoint string) *infrav1.VSphereMachine {
		return &infrav1.VSphereMachine{Spec: infrav1.VSphereMachineSpec{Server: endpoint}}
	})
}
