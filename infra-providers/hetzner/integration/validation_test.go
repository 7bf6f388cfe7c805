// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package integration_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	infrav1 "drover.io/api/infrastructure/v1alpha1"
	"drover.io/infra-providers/internal/testenv"
)

// fullSpec returns a spec with every field that can be combined with the others.
func fullSpec() infrav1.HetznerMachineSpec {
	return infrav1.HetznerMachineSpec{
		ProviderID: "hcloud://42", CredentialsSecretName: "hcloud", ServerType: "cx33", Location: "fsn1", Image: "ubuntu-24.04",
		SSHKeys:    []string{"alice"},
		Networks:   []infrav1.HetznerNetwork{{Name: "private", Subnet: "10.0.1.0/24", IP: "10.0.1.7", AliasIPs: []string{"10.0.1.8"}}},
		PublicIPv4: infrav1.HetznerPublicIP{PrimaryIP: "static"}, PublicIPv6: infrav1.HetznerPublicIP{Enabled: ptr.To(false)},
		Firewalls: []string{"workers"}, PlacementGroup: "spread",
		Volumes: []infrav1.HetznerVolume{{Name: "data", SizeGB: 10, Format: "ext4"}},
		Backups: ptr.To(true), Labels: map[string]string{"team": "web"},
		Fallbacks: []infrav1.HetznerFallback{{ServerType: "cx43", Location: "nbg1"}},
	}
}

func minimal() infrav1.HetznerMachineSpec {
	return infrav1.HetznerMachineSpec{ServerType: "cx33", Image: "ubuntu-24.04"}
}

func TestDefaults(t *testing.T) {
	t.Parallel()
	spec := fullSpec()
	spec.PublicIPv4.Enabled = ptr.To(true)
	for name, test := range map[string][2]infrav1.HetznerMachineSpec{
		"a minimal spec": {minimal(), {ServerType: "cx33", Image: "ubuntu-24.04", Backups: ptr.To(false)}},
		"a full spec":    {fullSpec(), spec},
	} {
		if diff := cmp.Diff(test[1], newMachine(t, test[0]).Spec); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// TestSpecIsImmutable adds, changes and removes each field.
func TestSpecIsImmutable(t *testing.T) {
	t.Parallel()
	type spec = infrav1.HetznerMachineSpec
	change := map[string]struct {
		change func(*spec)
		refuse string
	}{
		"providerID":         {func(s *spec) { s.ProviderID = "hcloud://43" }, "providerID is set once"},
		"serverType":         {func(s *spec) { s.ServerType = "cx43" }, "serverType is immutable"},
		"location":           {func(s *spec) { s.Location = "hel1" }, "location is immutable"},
		"image":              {func(s *spec) { s.Image = "debian-13" }, "image is immutable"},
		"image for selector": {func(s *spec) { s.Image, s.ImageSelector = "", "a=b" }, "imageSelector is immutable"},
		"sshKeys":            {func(s *spec) { s.SSHKeys = []string{"bob"} }, "sshKeys are immutable"},
		"networks":           {func(s *spec) { s.Networks = []infrav1.HetznerNetwork{{Name: "other"}} }, "networks are immutable"},
		"publicIPv4":         {func(s *spec) { s.PublicIPv4 = infrav1.HetznerPublicIP{PrimaryIP: "other"} }, "publicIPv4 is immutable"},
		"publicIPv6":         {func(s *spec) { s.PublicIPv6 = infrav1.HetznerPublicIP{Enabled: ptr.To(true)} }, "publicIPv6 is immutable"},
		"firewalls":          {func(s *spec) { s.Firewalls = []string{"other"} }, "firewalls are immutable"},
		"placementGroup":     {func(s *spec) { s.PlacementGroup = "other" }, "placementGroup is immutable"},
		"group for selector": {func(s *spec) { s.PlacementGroup, s.PlacementGroupSelector = "", "a=b" }, "placementGroupSelector is immutable"},
		"volumes":            {func(s *spec) { s.Volumes[0].SizeGB = 20 }, "volumes are immutable"},
		"backups":            {func(s *spec) { s.Backups = ptr.To(false) }, "backups is immutable"},
		"labels":             {func(s *spec) { s.Labels = map[string]string{"team": "db"} }, "labels are immutable"},
		"fallbacks":          {func(s *spec) { s.Fallbacks = []infrav1.HetznerFallback{{ServerType: "cx53"}} }, "fallbacks are immutable"},
		"credentials":        {func(s *spec) { s.CredentialsSecretName = "renamed" }, ""},
		"no providerID":      {func(s *spec) { s.ProviderID = "" }, "providerID is set once"},
		"no Secret":          {func(s *spec) { s.CredentialsSecretName = "" }, "credentialsSecretName may name another Secret and must not be removed"},
		"no location":        {func(s *spec) { s.Location = "" }, "location is immutable"},
		"no sshKeys":         {func(s *spec) { s.SSHKeys = nil }, "sshKeys are immutable"},
		"no publicIPv4":      {func(s *spec) { s.PublicIPv4 = infrav1.HetznerPublicIP{} }, "publicIPv4 is immutable"},
		"no firewalls":       {func(s *spec) { s.Firewalls = nil }, "firewalls are immutable"},
		"no placementGroup":  {func(s *spec) { s.PlacementGroup = "" }, "placementGroup is immutable"},
		"no volumes":         {func(s *spec) { s.Volumes = nil }, "volumes are immutable"},
		"no labels":          {func(s *spec) { s.Labels = nil }, "labels are immutable"},
		"no fallbacks":       {func(s *spec) { s.Fallbacks = nil }, "fallbacks are immutable"},
	}
	for name, test := range change {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			created := newMachine(t, fullSpec())
			test.change(&created.Spec)
			testenv.WantRefusal(t, shared.Cluster(t).Client.Update(t.Context(), created), test.refuse)
		})
	}
	t.Run("lets providerID be set", func(t *testing.T) {
		t.Parallel()
		created := newMachine(t, minimal())
		created.Spec.ProviderID = "hcloud://42"
		testenv.WantRefusal(t, shared.Cluster(t).Client.Update(t.Context(), created), "")
	})
	t.Run("does not add volumes", func(t *testing.T) {
		t.Parallel()
		created := newMachine(t, minimal())
		created.Spec.Volumes = fullSpec().Volumes
		testenv.WantRefusal(t, shared.Cluster(t).Client.Update(t.Context(), created), "volumes are immutable")
	})
}

func TestInvalidSpecsAreRefused(t *testing.T) {
	t.Parallel()
	type spec = infrav1.HetznerMachineSpec
	for name, test := range map[string]struct {
		change func(*spec)
		refuse string
	}{
		"no server type":             {func(s *spec) { s.ServerType = "" }, "spec.serverType"},
		"no image":                   {func(s *spec) { s.Image = "" }, "exactly one of image"},
		"two images":                 {func(s *spec) { s.ImageSelector = "a=b" }, "exactly one of image"},
		"two placement groups":       {func(s *spec) { s.PlacementGroup, s.PlacementGroupSelector = "a", "b" }, "at most one of placementGroup"},
		"another cloud's providerID": {func(s *spec) { s.ProviderID = "aws:///a/i-1" }, "spec.providerID"},
		"a datacenter for location":  {func(s *spec) { s.Location = "FSN1.dc14" }, "spec.location"},
		"an invalid subnet":          {func(s *spec) { s.Networks = []infrav1.HetznerNetwork{{Name: "n", Subnet: "10.0.0.0"}} }, "subnet must be an IP range"},
		"an invalid address":         {func(s *spec) { s.Networks = []infrav1.HetznerNetwork{{Name: "n", IP: "ten"}} }, "ip must be an IP address"},
		"an invalid alias":           {func(s *spec) { s.Networks = []infrav1.HetznerNetwork{{Name: "n", AliasIPs: []string{"ten"}}} }, "aliasIPs must be IP addresses"},
		"a network twice":            {func(s *spec) { s.Networks = []infrav1.HetznerNetwork{{Name: "n"}, {Name: "n"}} }, "Duplicate value"},
		"a small volume":             {func(s *spec) { s.Volumes = []infrav1.HetznerVolume{{Name: "v", SizeGB: 1}} }, "sizeGB"},
		"an unknown file system":     {func(s *spec) { s.Volumes = []infrav1.HetznerVolume{{Name: "v", SizeGB: 10, Format: "ntfs"}} }, "format"},
		"a label of Drover":          {func(s *spec) { s.Labels = map[string]string{"drover.io/machine": "x"} }, "reserved"},
		"a Primary IP that is off": {func(s *spec) {
			s.PublicIPv4 = infrav1.HetznerPublicIP{Enabled: ptr.To(false), PrimaryIP: "static"}
		}, "need enabled"},
		"no address": {func(s *spec) {
			s.PublicIPv4, s.PublicIPv6 = infrav1.HetznerPublicIP{Enabled: ptr.To(false)}, infrav1.HetznerPublicIP{Enabled: ptr.To(false)}
		}, "a server needs"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			created := &infrav1.HetznerMachine{ObjectMeta: metav1.ObjectMeta{Namespace: newNamespace(t), Name: "m"}, Spec: minimal()}
			test.change(&created.Spec)
			testenv.WantRefusal(t, shared.Cluster(t).Client.Create(t.Context(), created), test.refuse)
		})
	}
}

func TestTemplateIsImmutable(t *testing.T) {
	t.Parallel()
	created := &infrav1.HetznerMachineTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: newNamespace(t), Name: "t"}}
	created.Spec.Template.Spec = minimal()
	if err := shared.Cluster(t).Client.Create(t.Context(), created); err != nil {
		t.Fatal(err)
	}
	edited := created.DeepCopy()
	edited.Spec.Template.Spec.ServerType = "cx43"
	testenv.WantRefusal(t, shared.Cluster(t).Client.Update(t.Context(), edited), "create a HetznerMachineTemplate of another name")
	other := &infrav1.HetznerMachineTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: created.Namespace, Name: "other"}}
	other.Spec.Template.Spec = fullSpec()
	testenv.WantRefusal(t, shared.Cluster(t).Client.Create(t.Context(), other), "belongs to one machine")
}

func newMachine(t *testing.T, spec infrav1.HetznerMachineSpec) *infrav1.HetznerMachine {
	t.Helper()
	created := &infrav1.HetznerMachine{ObjectMeta: metav1.ObjectMeta{Namespace: newNamespace(t), Name: "m"}, Spec: spec}
	if err := shared.Cluster(t).Client.Create(t.Context(), created); err != nil {
		t.Fatal(err)
	}
	return created
}

// newNamespace returns a namespace that no provider watches.
func newNamespace(t *testing.T) string {
	t.Helper()
	name, err := shared.Cluster(t).Namespace(t.Context(), "rules")
	if err != nil {
		t.Fatal(err)
	}
	return name
}
