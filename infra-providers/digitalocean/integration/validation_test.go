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
func fullSpec() infrav1.DigitalOceanMachineSpec {
	return infrav1.DigitalOceanMachineSpec{
		ProviderID: "digitalocean://42", CredentialsSecretName: "do", Size: "s-2vcpu-4gb", Region: "fra1", Image: "ubuntu-24-04-x64",
		SSHKeys:          []string{"289794", "3b:16:e4:bf:8b:00:8b:b8:59:8c:a9:d3:f0:19:fa:45"},
		VPCUUID:          "760e09ef-dc84-11e8-981e-3cfdfeaae000",
		PublicNetworking: ptr.To(true), IPv6: ptr.To(true), ReservedIP: ptr.To(true), Monitoring: ptr.To(true), DropletAgent: ptr.To(false),
		Backups:      ptr.To(true),
		BackupPolicy: infrav1.DigitalOceanBackupPolicy{Plan: "weekly", Weekday: "SUN", Hour: ptr.To(int32(0))},
		Volumes:      []infrav1.DigitalOceanVolume{{Name: "data", SizeGiB: 10, FilesystemType: "ext4"}},
		Tags:         []string{"team:web", "Env_Prod"},
		Fallbacks:    []infrav1.DigitalOceanFallback{{Size: "c-2", Region: "nyc3"}},
	}
}

func minimal() infrav1.DigitalOceanMachineSpec {
	return infrav1.DigitalOceanMachineSpec{Size: "s-2vcpu-4gb", Image: "ubuntu-24-04-x64"}
}

func TestDefaults(t *testing.T) {
	t.Parallel()
	defaults := minimal()
	defaults.PublicNetworking, defaults.IPv6, defaults.ReservedIP = ptr.To(true), ptr.To(false), ptr.To(false)
	defaults.Monitoring, defaults.Backups = ptr.To(false), ptr.To(false)
	for name, test := range map[string][2]infrav1.DigitalOceanMachineSpec{"a minimal spec": {minimal(), defaults}, "a full spec": {fullSpec(), fullSpec()}} {
		if diff := cmp.Diff(test[1], newMachine(t, test[0]).Spec); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// TestSpecIsImmutable changes and removes each field.
func TestSpecIsImmutable(t *testing.T) {
	t.Parallel()
	type spec = infrav1.DigitalOceanMachineSpec
	for name, test := range map[string]struct {
		change func(*spec)
		refuse string
	}{
		"providerID":       {func(s *spec) { s.ProviderID = "digitalocean://43" }, "providerID is set once"},
		"size":             {func(s *spec) { s.Size = "c-2" }, "size is immutable"},
		"region":           {func(s *spec) { s.Region = "nyc3" }, "region is immutable"},
		"image":            {func(s *spec) { s.Image = "debian-13-x64" }, "image is immutable"},
		"image for name":   {func(s *spec) { s.Image, s.ImageName = "", "node" }, "imageName is immutable"},
		"sshKeys":          {func(s *spec) { s.SSHKeys = []string{"1"} }, "sshKeys are immutable"},
		"vpcUUID":          {func(s *spec) { s.VPCUUID = "760e09ef-dc84-11e8-981e-3cfdfeaae001" }, "vpcUUID is immutable"},
		"publicNetworking": {func(s *spec) { s.PublicNetworking, s.IPv6, s.ReservedIP = ptr.To(false), ptr.To(false), ptr.To(false) }, "publicNetworking is immutable"},
		"ipv6":             {func(s *spec) { s.IPv6 = ptr.To(false) }, "ipv6 is immutable"},
		"reservedIP":       {func(s *spec) { s.ReservedIP = ptr.To(false) }, "reservedIP is immutable"},
		"monitoring":       {func(s *spec) { s.Monitoring = ptr.To(false) }, "monitoring is immutable"},
		"dropletAgent":     {func(s *spec) { s.DropletAgent = ptr.To(true) }, "dropletAgent is immutable"},
		"no dropletAgent":  {func(s *spec) { s.DropletAgent = nil }, "dropletAgent is immutable"},
		"backups":          {func(s *spec) { s.Backups, s.BackupPolicy = ptr.To(false), infrav1.DigitalOceanBackupPolicy{} }, "backups is immutable"},
		"backupPolicy":     {func(s *spec) { s.BackupPolicy.Hour = ptr.To(int32(4)) }, "backupPolicy is immutable"},
		"volumes":          {func(s *spec) { s.Volumes[0].SizeGiB = 20 }, "volumes are immutable"},
		"no volumes":       {func(s *spec) { s.Volumes = nil }, "volumes are immutable"},
		"tags":             {func(s *spec) { s.Tags = []string{"db"} }, "tags are immutable"},
		"fallbacks":        {func(s *spec) { s.Fallbacks = []infrav1.DigitalOceanFallback{{Size: "c-4"}} }, "fallbacks are immutable"},
		"credentials":      {func(s *spec) { s.CredentialsSecretName = "renamed" }, ""},
		"no credentials":   {func(s *spec) { s.CredentialsSecretName = "" }, "must not be removed"},
		"no providerID":    {func(s *spec) { s.ProviderID = "" }, "providerID is set once"},
	} {
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
		created.Spec.ProviderID = "digitalocean://42"
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
	type spec = infrav1.DigitalOceanMachineSpec
	policy := func(plan, weekday string, hour *int32) func(*spec) {
		return func(s *spec) {
			s.Backups, s.BackupPolicy = ptr.To(true), infrav1.DigitalOceanBackupPolicy{Plan: plan, Weekday: weekday, Hour: hour}
		}
	}
	for name, test := range map[string]struct {
		change func(*spec)
		refuse string
	}{
		"no size":                       {func(s *spec) { s.Size = "" }, "spec.size"},
		"a size with a GPU":             {func(s *spec) { s.Size = "gpu-h100x1-80gb" }, "sizes with a GPU are not supported"},
		"a fallback with a GPU":         {func(s *spec) { s.Fallbacks = []infrav1.DigitalOceanFallback{{Size: "gpu-h100x1-80gb"}} }, "sizes with a GPU are not supported"},
		"an empty fallback":             {func(s *spec) { s.Fallbacks = []infrav1.DigitalOceanFallback{{}} }, "spec.fallbacks[0]"},
		"no image":                      {func(s *spec) { s.Image = "" }, "exactly one of image"},
		"two images":                    {func(s *spec) { s.ImageName = "node" }, "exactly one of image"},
		"a slug that is a path":         {func(s *spec) { s.Image = "../account" }, "spec.image"},
		"another cloud's providerID":    {func(s *spec) { s.ProviderID = "aws:///a/i-1" }, "spec.providerID"},
		"a region in upper case":        {func(s *spec) { s.Region = "FRA1" }, "spec.region"},
		"an SSH key by its name":        {func(s *spec) { s.SSHKeys = []string{"alice"} }, "spec.sshKeys"},
		"a VPC by its name":             {func(s *spec) { s.VPCUUID = "default-fra1" }, "spec.vpcUUID"},
		"a path for a VPC":              {func(s *spec) { s.VPCUUID = "../../../../droplets?name=aaaaaaaaaaaaaaaa" }, "spec.vpcUUID"},
		"ipv6 without a network":        {func(s *spec) { s.PublicNetworking, s.IPv6 = ptr.To(false), ptr.To(true) }, "need publicNetworking"},
		"a reserved IP without network": {func(s *spec) { s.PublicNetworking, s.ReservedIP = ptr.To(false), ptr.To(true) }, "need publicNetworking"},
		"a policy without backups":      {func(s *spec) { policy("daily", "", ptr.To(int32(0)))(s); s.Backups = nil }, "backupPolicy needs backups"},
		"weekly without a weekday":      {policy("weekly", "", ptr.To(int32(0))), "weekday is required"},
		"daily with a weekday":          {policy("daily", "SUN", ptr.To(int32(0))), "weekday is required"},
		"an hour that is no window":     {policy("daily", "", ptr.To(int32(5))), "hour"},
		"no hour":                       {policy("daily", "", nil), "hour"},
		"a volume of no size":           {func(s *spec) { s.Volumes = []infrav1.DigitalOceanVolume{{Name: "v"}} }, "sizeGiB"},
		"a volume twice": {func(s *spec) {
			s.Volumes = []infrav1.DigitalOceanVolume{{Name: "v", SizeGiB: 1}, {Name: "v", SizeGiB: 1}}
		}, "Duplicate value"},
		"an unknown file system": {func(s *spec) {
			s.Volumes = []infrav1.DigitalOceanVolume{{Name: "v", SizeGiB: 1, FilesystemType: "ntfs"}}
		}, "filesystemType"},
		"a tag of Drover":  {func(s *spec) { s.Tags = []string{"Drover-machine-uid:x"} }, "reserved"},
		"a tag with a dot": {func(s *spec) { s.Tags = []string{"a.b"} }, "spec.tags"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			created := &infrav1.DigitalOceanMachine{ObjectMeta: metav1.ObjectMeta{Namespace: newNamespace(t), Name: "m"}, Spec: minimal()}
			test.change(&created.Spec)
			testenv.WantRefusal(t, shared.Cluster(t).Client.Create(t.Context(), created), test.refuse)
		})
	}
}

func TestTemplateIsImmutable(t *testing.T) {
	t.Parallel()
	created := &infrav1.DigitalOceanMachineTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: newNamespace(t), Name: "t"}}
	created.Spec.Template.Spec = minimal()
	if err := shared.Cluster(t).Client.Create(t.Context(), created); err != nil {
		t.Fatal(err)
	}
	edited := created.DeepCopy()
	edited.Spec.Template.Spec.Size = "c-2"
	testenv.WantRefusal(t, shared.Cluster(t).Client.Update(t.Context(), edited), "create a DigitalOceanMachineTemplate of another name")
	other := &infrav1.DigitalOceanMachineTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: created.Namespace, Name: "other"}}
	other.Spec.Template.Spec = fullSpec()
	testenv.WantRefusal(t, shared.Cluster(t).Client.Create(t.Context(), other), "belongs to one machine")
}

func newMachine(t *testing.T, spec infrav1.DigitalOceanMachineSpec) *infrav1.DigitalOceanMachine {
	t.Helper()
	created := &infrav1.DigitalOceanMachine{ObjectMeta: metav1.ObjectMeta{Namespace: newNamespace(t), Name: "m"}, Spec: spec}
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
