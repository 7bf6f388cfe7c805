// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package openstack_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	infrav1 "drover.io/api/infrastructure/v1alpha1"
	"drover.io/infra-providers/internal/testenv"
)

// full sets every field once.
func full() infrav1.OpenStackMachineSpec {
	return infrav1.OpenStackMachineSpec{
		ProviderID: "openstack:///s", CredentialsSecretName: "cloud", Region: "R1", RegionalProviderID: ptr.To(false), Flavor: "f",
		Image: infrav1.OpenStackImage{Name: "i", Tags: []string{"t"}, Properties: map[string]string{"os_distro": "ubuntu"}},
		Ports: []infrav1.OpenStackPort{{
			Network: "n", SecurityGroups: []string{"g"}, VNICType: "direct", FixedIPs: []infrav1.OpenStackFixedIP{{Subnet: "s", Address: "10.0.0.1"}},
			AllowedAddressPairs: []infrav1.OpenStackAddressPair{{Address: "10.244.0.0/16", MACAddress: "fa:16:3e:00:00:01"}},
		}},
		SecurityGroups: []string{"g"}, FloatingIP: infrav1.OpenStackFloatingIP{Network: "public"}, ServerGroup: infrav1.OpenStackServerGroup{Policy: "anti-affinity"},
		AvailabilityZone: "z", RootVolume: infrav1.OpenStackVolume{SizeGiB: 20}, KeyPair: "k", Metadata: map[string]string{"a": "b"}, Tags: []string{"t"},
		Volumes:     []infrav1.OpenStackDataVolume{{Name: "data", OpenStackVolume: infrav1.OpenStackVolume{SizeGiB: 5}}},
		ConfigDrive: ptr.To(true), SchedulerHints: map[string]string{"h": "v"}, Fallbacks: []infrav1.OpenStackFallback{{Flavor: "g"}},
	}
}

func stored(t *testing.T, spec infrav1.OpenStackMachineSpec) *infrav1.OpenStackMachine {
	t.Helper()
	machine := &infrav1.OpenStackMachine{ObjectMeta: metav1.ObjectMeta{Namespace: namespace(t), Name: "m"}, Spec: spec}
	if err := shared.Cluster(t).Client.Create(t.Context(), machine); err != nil {
		t.Fatal(err)
	}
	return machine
}

func namespace(t *testing.T) string {
	t.Helper()
	name, err := shared.Cluster(t).Namespace(t.Context(), "validation")
	if err != nil {
		t.Fatal(err)
	}
	return name
}

func TestVolumesAreDeletedByDefault(t *testing.T) {
	t.Parallel()
	want := full()
	want.RootVolume.DeleteOnTermination, want.Volumes[0].DeleteOnTermination = ptr.To(true), ptr.To(true)
	if diff := cmp.Diff(want, stored(t, full()).Spec); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestSpecIsImmutable(t *testing.T) {
	t.Parallel()
	type change = func(*infrav1.OpenStackMachineSpec)
	for name, test := range map[string]struct {
		change change
		refuse string
	}{
		"keeps providerID":              {func(s *infrav1.OpenStackMachineSpec) { s.ProviderID = "openstack:///t" }, "providerID is set once"},
		"does not drop providerID":      {func(s *infrav1.OpenStackMachineSpec) { s.ProviderID = "" }, "providerID is set once"},
		"changes credentialsSecretName": {func(s *infrav1.OpenStackMachineSpec) { s.CredentialsSecretName = "new" }, ""},
		"keeps a credentialsSecretName": {func(s *infrav1.OpenStackMachineSpec) { s.CredentialsSecretName = "" }, "credentialsSecretName may name another Secret and must not be removed"},
		"keeps region":                  {func(s *infrav1.OpenStackMachineSpec) { s.Region = "" }, "region is immutable"},
		"keeps regionalProviderID":      {func(s *infrav1.OpenStackMachineSpec) { s.RegionalProviderID = ptr.To(true) }, "regionalProviderID is immutable"},
		"keeps flavor":                  {func(s *infrav1.OpenStackMachineSpec) { s.Flavor = "g" }, "flavor is immutable"},
		"keeps image":                   {func(s *infrav1.OpenStackMachineSpec) { s.Image.Name = "j" }, "image is immutable"},
		"keeps ports":                   {func(s *infrav1.OpenStackMachineSpec) { s.Ports[0].FixedIPs = nil }, "ports are immutable"},
		"keeps securityGroups":          {func(s *infrav1.OpenStackMachineSpec) { s.SecurityGroups = nil }, "securityGroups is immutable"},
		"keeps floatingIP":              {func(s *infrav1.OpenStackMachineSpec) { s.FloatingIP.Network = "p" }, "floatingIP is immutable"},
		"keeps serverGroup":             {func(s *infrav1.OpenStackMachineSpec) { s.ServerGroup.Policy = "affinity" }, "serverGroup is immutable"},
		"keeps availabilityZone":        {func(s *infrav1.OpenStackMachineSpec) { s.AvailabilityZone = "" }, "availabilityZone is immutable"},
		"keeps rootVolume":              {func(s *infrav1.OpenStackMachineSpec) { s.RootVolume.SizeGiB = 30 }, "rootVolume is immutable"},
		"keeps volumes":                 {func(s *infrav1.OpenStackMachineSpec) { s.Volumes = nil }, "volumes is immutable"},
		"keeps keyPair":                 {func(s *infrav1.OpenStackMachineSpec) { s.KeyPair = "l" }, "keyPair is immutable"},
		"keeps metadata":                {func(s *infrav1.OpenStackMachineSpec) { s.Metadata["a"] = "c" }, "metadata is immutable"},
		"keeps tags":                    {func(s *infrav1.OpenStackMachineSpec) { s.Tags = nil }, "tags is immutable"},
		"keeps configDrive":             {func(s *infrav1.OpenStackMachineSpec) { s.ConfigDrive = nil }, "configDrive is immutable"},
		"keeps schedulerHints":          {func(s *infrav1.OpenStackMachineSpec) { s.SchedulerHints = nil }, "schedulerHints is immutable"},
		"keeps fallbacks":               {func(s *infrav1.OpenStackMachineSpec) { s.Fallbacks[0].Flavor = "h" }, "fallbacks is immutable"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			machine := stored(t, full())
			test.change(&machine.Spec)
			testenv.WantRefusal(t, shared.Cluster(t).Client.Update(t.Context(), machine), test.refuse)
		})
	}
}

func TestInvalidSpecsAreRefused(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		change func(*infrav1.OpenStackMachineSpec)
		refuse string
	}{
		"no flavor":                         {func(s *infrav1.OpenStackMachineSpec) { s.Flavor = "" }, "spec.flavor"},
		"no image":                          {func(s *infrav1.OpenStackMachineSpec) { s.Image = infrav1.OpenStackImage{} }, "spec.image"},
		"an image by ID and name":           {func(s *infrav1.OpenStackMachineSpec) { s.Image.ID = "00000000-0000-4000-8000-000000000000" }, "either the id"},
		"no ports":                          {func(s *infrav1.OpenStackMachineSpec) { s.Ports = nil }, "spec.ports"},
		"groups on a port without security": {func(s *infrav1.OpenStackMachineSpec) { s.Ports[0].DisablePortSecurity = ptr.To(true) }, "without port security"},
		"a group by name and policy":        {func(s *infrav1.OpenStackMachineSpec) { s.ServerGroup.Group = "g" }, "either the group or a policy"},
		"an unknown policy":                 {func(s *infrav1.OpenStackMachineSpec) { s.ServerGroup.Policy = "p" }, "spec.serverGroup.policy"},
		"a second root":                     {func(s *infrav1.OpenStackMachineSpec) { s.Volumes[0].Name = "root" }, "rootVolume"},
		"a volume in two zones": {func(s *infrav1.OpenStackMachineSpec) {
			s.RootVolume.AvailabilityZone, s.RootVolume.InMachineZone = "z", ptr.To(true)
		}, "either the availabilityZone"},
		"reserved metadata":                  {func(s *infrav1.OpenStackMachineSpec) { s.Metadata["drover.io:machine"] = "x" }, "reserved"},
		"reserved metadata in another case":  {func(s *infrav1.OpenStackMachineSpec) { s.Metadata["Drover.IO:machine"] = "x" }, "reserved"},
		"metadata with an invalid key":       {func(s *infrav1.OpenStackMachineSpec) { s.Metadata["a/b"] = "x" }, "keys have letters"},
		"a reserved tag":                     {func(s *infrav1.OpenStackMachineSpec) { s.Tags = []string{"drover-x"} }, "reserved"},
		"an invalid tag":                     {func(s *infrav1.OpenStackMachineSpec) { s.Tags = []string{"a/b"} }, "spec.tags"},
		"the group as a hint":                {func(s *infrav1.OpenStackMachineSpec) { s.SchedulerHints["group"] = "x" }, "belongs in serverGroup"},
		"a fallback that changes nothing":    {func(s *infrav1.OpenStackMachineSpec) { s.Fallbacks[0].Flavor = "" }, "spec.fallbacks"},
		"an address pair with a wrong MAC":   {func(s *infrav1.OpenStackMachineSpec) { s.Ports[0].AllowedAddressPairs[0].MACAddress = "x" }, "macAddress"},
		"a volume without a size":            {func(s *infrav1.OpenStackMachineSpec) { s.Volumes[0].SizeGiB = -1 }, "sizeGiB"},
		"an unknown kind of virtual network": {func(s *infrav1.OpenStackMachineSpec) { s.Ports[0].VNICType = "x" }, "vnicType"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			spec := full()
			test.change(&spec)
			machine := &infrav1.OpenStackMachine{ObjectMeta: metav1.ObjectMeta{Namespace: namespace(t), Name: "m"}, Spec: spec}
			testenv.WantRefusal(t, shared.Cluster(t).Client.Create(t.Context(), machine), test.refuse)
		})
	}
}

func TestTemplates(t *testing.T) {
	t.Parallel()
	template := &infrav1.OpenStackMachineTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: namespace(t), Name: "t"}}
	template.Spec.Template.Spec = full()
	testenv.WantRefusal(t, shared.Cluster(t).Client.Create(t.Context(), template.DeepCopy()), "belongs to one machine")
	template.Spec.Template.Spec.ProviderID = ""
	testenv.WantRefusal(t, shared.Cluster(t).Client.Create(t.Context(), template), "")
	template.Spec.Template.Spec.Flavor = "g"
	testenv.WantRefusal(t, shared.Cluster(t).Client.Update(t.Context(), template), "OpenStackMachineTemplate of another name")
}
