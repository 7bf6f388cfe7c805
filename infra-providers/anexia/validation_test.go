// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package anexia_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	infrav1 "drover.io/api/infrastructure/v1alpha1"
	"drover.io/infra-providers/anexia"
	"drover.io/infra-providers/anexia/anexiafake"
	"drover.io/infra-providers/driver"
	"drover.io/infra-providers/internal/testenv"
)

func TestAllFieldsAreValid(t *testing.T) {
	t.Parallel()
	want := newMachine("m", allFields).Spec
	machine := testenv.Create(t, shared, newMachine("m", allFields))
	if diff := cmp.Diff(want, machine.Spec); diff != "" {
		t.Errorf("spec (-want +got):\n%s", diff)
	}
	template := &infrav1.AnexiaMachineTemplate{ObjectMeta: metav1.ObjectMeta{Name: "t"}}
	template.Spec.Template.Spec = want
	testenv.Create(t, shared, template).Spec.Template.Spec.CPUs = 4
	testenv.WantRefusal(t, shared.Cluster(t).Client.Update(t.Context(), template), "template is immutable")
}

func TestInvalidSpecsAreRefused(t *testing.T) {
	t.Parallel()
	cluster, namespace := shared.Namespace(t)
	for name, test := range map[string]struct {
		change func(*infrav1.AnexiaMachineSpec)
		want   string
	}{
		"no location":                {func(s *infrav1.AnexiaMachineSpec) { s.LocationID = "" }, "spec.locationID"},
		"a location that is a path":  {func(s *infrav1.AnexiaMachineSpec) { s.LocationID = "a/b" }, "spec.locationID"},
		"no template":                {func(s *infrav1.AnexiaMachineSpec) { s.Template = "" }, "exactly one of template and templateID"},
		"a template twice":           {func(s *infrav1.AnexiaMachineSpec) { s.TemplateID = "x" }, "exactly one of template and templateID"},
		"a build without a template": {func(s *infrav1.AnexiaMachineSpec) { s.Template, s.TemplateID, s.TemplateBuild = "", "x", "b1" }, "templateBuild needs template"},
		"no CPUs":                    {func(s *infrav1.AnexiaMachineSpec) { s.CPUs = 0 }, "spec.cpus"},
		"sockets that do not divide": {func(s *infrav1.AnexiaMachineSpec) { s.CPUs, s.Sockets = 3, 2 }, "multiple of sockets"},
		"no memory":                  {func(s *infrav1.AnexiaMachineSpec) { s.MemoryMB = 0 }, "spec.memoryMB"},
		"no disk":                    {func(s *infrav1.AnexiaMachineSpec) { s.Disks = nil }, "spec.disks"},
		"no network":                 {func(s *infrav1.AnexiaMachineSpec) { s.Networks = nil }, "spec.networks"},
		"no address":                 {func(s *infrav1.AnexiaMachineSpec) { s.Networks[0].ReserveAddress = ptr.To(false) }, "must reserve an address"},
		"a prefix without an address": {func(s *infrav1.AnexiaMachineSpec) {
			s.Networks = append(s.Networks, infrav1.AnexiaNetwork{VLANID: "v", ReserveAddress: ptr.To(false), PrefixIDs: []string{"p"}})
		}, "prefixIDs need reserveAddress"},
		"a name of a name server": {func(s *infrav1.AnexiaMachineSpec) { s.DNSServers = []string{"dns.example.org"} }, "IP addresses"},
		"five name servers": {func(s *infrav1.AnexiaMachineSpec) {
			s.DNSServers = strings.Split("1.1.1.1 1.1.1.2 1.1.1.3 1.1.1.4 1.1.1.5", " ")
		}, "spec.dnsServers"},
		"a key of two lines": {func(s *infrav1.AnexiaMachineSpec) { s.SSHPublicKey = "ssh-rsa AAAA\nssh-rsa BBBB" }, "spec.sshPublicKey"},
		"an odd provider ID": {func(s *infrav1.AnexiaMachineSpec) { s.ProviderID = "anexia://a/b" }, "spec.providerID"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			machine := &infrav1.AnexiaMachine{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, GenerateName: "m-"}, Spec: newSpec(test.change)}
			testenv.WantRefusal(t, cluster.Client.Create(t.Context(), machine), test.want)
		})
	}
}

func TestSpecIsImmutable(t *testing.T) {
	t.Parallel()
	cluster := shared.Cluster(t)
	machine := testenv.Create(t, shared, newMachine("m", allFields))
	for name, change := range map[string]func(*infrav1.AnexiaMachineSpec){
		"locationID":         func(s *infrav1.AnexiaMachineSpec) { s.LocationID = "x" },
		"availabilityZoneID": func(s *infrav1.AnexiaMachineSpec) { s.AvailabilityZoneID = "" },
		"template":           func(s *infrav1.AnexiaMachineSpec) { s.Template = "x" },
		"templateBuild":      func(s *infrav1.AnexiaMachineSpec) { s.TemplateBuild = "" },
		"cpus":               func(s *infrav1.AnexiaMachineSpec) { s.CPUs = 4 },
		"sockets":            func(s *infrav1.AnexiaMachineSpec) { s.Sockets = 1 },
		"cpuPerformanceType": func(s *infrav1.AnexiaMachineSpec) { s.CPUPerformanceType = "standard" },
		"memoryMB":           func(s *infrav1.AnexiaMachineSpec) { s.MemoryMB = 1 },
		"disks":              func(s *infrav1.AnexiaMachineSpec) { s.Disks[0].SizeGB = 1 },
		"networks":           func(s *infrav1.AnexiaMachineSpec) { s.Networks[0].PrefixIDs = nil },
		"dnsServers":         func(s *infrav1.AnexiaMachineSpec) { s.DNSServers = nil },
		"sshPublicKey":       func(s *infrav1.AnexiaMachineSpec) { s.SSHPublicKey = "" },
	} {
		changed := machine.DeepCopy()
		change(&changed.Spec)
		testenv.WantRefusal(t, cluster.Client.Update(t.Context(), changed), name)
	}
	changed := machine.DeepCopy()
	changed.Spec.CredentialsSecretName, changed.Spec.ProviderID = "other", "anexia://1"
	if err := cluster.Client.Update(t.Context(), changed); err != nil {
		t.Errorf("renaming the Secret and setting the provider ID: %v", err)
	}
}

// TestConfigOfUndefaultedSpecs: an object from before a default is refused or completed.
func TestConfigOfUndefaultedSpecs(t *testing.T) {
	t.Parallel()
	config, err := anexia.NewInstanceConfig(&infrav1.AnexiaMachine{Spec: newSpec(unchanged)}, anexiafake.ZoneB)
	if err != nil || config.Zone != anexiafake.ZoneB {
		t.Errorf("got zone %q and %v, want the failure domain", config.Zone, err)
	}
	for name, change := range map[string]func(*infrav1.AnexiaMachineSpec){
		"no network":                     func(s *infrav1.AnexiaMachineSpec) { s.Networks = nil },
		"no disk":                        func(s *infrav1.AnexiaMachineSpec) { s.Disks = nil },
		"no template":                    func(s *infrav1.AnexiaMachineSpec) { s.Template = "" },
		"no address":                     func(s *infrav1.AnexiaMachineSpec) { s.Networks[0].ReserveAddress = ptr.To(false) },
		"a second disk without its type": func(s *infrav1.AnexiaMachineSpec) { s.Disks = append(s.Disks, infrav1.AnexiaDisk{SizeGB: 1}) },
	} {
		if _, err := anexia.NewInstanceConfig(&infrav1.AnexiaMachine{Spec: newSpec(change)}, ""); !driver.IsInvalidConfiguration(err) {
			t.Errorf("%s: got %v, want an InvalidConfigurationError", name, err)
		}
	}
}
