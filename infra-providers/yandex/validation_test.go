// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package yandex_test

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	infrav1 "drover.io/api/infrastructure/v1alpha1"
	"drover.io/infra-providers/internal/testenv"
	"drover.io/infra-providers/yandex/yandexfake"
)

// allFields sets every field but those that name a snapshot.
func allFields(s *infrav1.YandexMachineSpec) {
	settings := infrav1.YandexDiskSettings{
		SizeGiB: ptr.To[int64](93), TypeID: "network-ssd-nonreplicated", BlockSize: ptr.To[int64](8192), KMSKeyID: "abjkey00000000000001",
		PlacementGroupID: "fd8disks000000000001", PlacementGroupPartition: ptr.To[int64](2), SnapshotScheduleIDs: []string{"fd8sched000000000001"},
	}
	s.CoreFraction, s.GPUs, s.BootDisk = ptr.To[int64](100), ptr.To[int64](1), settings
	s.Disks = []infrav1.YandexDisk{{Name: "data", YandexDiskSettings: settings}}
	s.LocalDisks = []infrav1.YandexLocalDisk{{SizeGiB: 1490, KMSKeyID: "abjkey00000000000001"}, {SizeGiB: 1490}}
	s.Filesystems = []infrav1.YandexFilesystem{{FilesystemID: "fhmfs00000000000001", DeviceName: "shared", ReadOnly: ptr.To(true)}}
	s.NetworkInterfaces[0].ExternalIP, s.NetworkInterfaces[0].IPv6 = ptr.To(true), ptr.To(true)
	s.NetworkInterfaces[0].SecurityGroupIDs = []string{"enpgroup000000000001"}
	s.Preemptible, s.ServiceAccountID, s.NetworkAcceleration = ptr.To(true), "ajenodes00000000001", "SOFTWARE_ACCELERATED"
	s.PlacementGroupID, s.PlacementGroupPartition = "fd8group000000000001", ptr.To[int64](3)
	s.HostAffinityRules = []infrav1.YandexHostAffinityRule{{Key: "yc.hostGroupId", Operator: "IN", Values: []string{"fd8hosts000000000001"}}}
	s.GPUClusterID, s.ReservedInstancePoolID = "fd8gpus0000000000001", "fd8pool0000000000001"
	s.MaintenancePolicy, s.MaintenanceGracePeriodSeconds = "MIGRATE", ptr.To[int64](60)
	s.MetadataOptions = infrav1.YandexMetadataOptions{
		GCEHTTPEndpoint: "ENABLED", GCEHTTPToken: "DISABLED", AWSV1HTTPEndpoint: "ENABLED", AWSV1HTTPToken: "DISABLED", AWSV2HTTPEndpoint: "ENABLED", AWSV2HTTPToken: "DISABLED",
	}
	s.SerialPortSSHAuthorization = "OS_LOGIN"
	s.Labels = map[string]infrav1.YandexLabelValue{"cost-center": "a/b"}
	s.Metadata = map[string]infrav1.YandexMetadataValue{"ssh-keys": "ops:ssh-ed25519 AAAA"}
	s.Fallbacks = []infrav1.YandexFallback{{Zone: yandexfake.ZoneB, PlatformID: "standard-v2", Cores: 4, MemoryMiB: 8192, Preemptible: ptr.To(false)}}
}

func TestDefaults(t *testing.T) {
	t.Parallel()
	machine := testenv.Create(t, shared, newMachine("m", newSpec(func(s *infrav1.YandexMachineSpec) { s.PlatformID = "" })))
	if machine.Spec.PlatformID != "standard-v3" {
		t.Errorf("got %+v", machine.Spec)
	}
}

func TestAllFieldsAreValid(t *testing.T) {
	t.Parallel()
	want := newSpec(allFields)
	machine := testenv.Create(t, shared, newMachine("m", want))
	if diff := cmp.Diff(want, machine.Spec); diff != "" {
		t.Errorf("spec (-want +got):\n%s", diff)
	}
	template := &infrav1.YandexMachineTemplate{ObjectMeta: metav1.ObjectMeta{Name: "t"}}
	template.Spec.Template.Spec = want
	testenv.Create(t, shared, template)
	cluster := shared.Cluster(t)
	template.Spec.Template.Spec.Cores = 8
	testenv.WantRefusal(t, cluster.Client.Update(t.Context(), template), "template is immutable")
}

func TestInvalidSpecsAreRefused(t *testing.T) {
	t.Parallel()
	cluster, namespace := shared.Namespace(t)
	for name, test := range map[string]struct {
		change func(*infrav1.YandexMachineSpec)
		want   string
	}{
		"no image":                   {func(s *infrav1.YandexMachineSpec) { s.Image = infrav1.YandexImage{} }, "spec.image"},
		"an image twice":             {func(s *infrav1.YandexMachineSpec) { s.Image.ID = "fd8" }, "exactly one of id and family"},
		"a folder of an image by ID": {func(s *infrav1.YandexMachineSpec) { s.Image = infrav1.YandexImage{ID: "fd8", FolderID: "b1g"} }, "folderID is where the family is looked for"},
		"no network interface":       {func(s *infrav1.YandexMachineSpec) { s.NetworkInterfaces = nil }, "spec.networkInterfaces"},
		"no subnet":                  {func(s *infrav1.YandexMachineSpec) { s.NetworkInterfaces[0].Subnets = nil }, "subnets"},
		"two subnets of a zone":      {func(s *infrav1.YandexMachineSpec) { s.NetworkInterfaces[0].Subnets[1].Zone = yandexfake.ZoneA }, "Duplicate value"},
		"a disk without a size":      {func(s *infrav1.YandexMachineSpec) { s.Disks = []infrav1.YandexDisk{{Name: "data"}} }, "sizeGiB must be set"},
		"a label of Drover": {func(s *infrav1.YandexMachineSpec) {
			s.Labels = map[string]infrav1.YandexLabelValue{"drover-machine-uid": "x"}
		},
			"not with drover-"},
		"user data as metadata": {func(s *infrav1.YandexMachineSpec) {
			s.Metadata = map[string]infrav1.YandexMetadataValue{"user-data": "x"}
		}, "user-data has the bootstrap data"},
		"a partition of nothing": {func(s *infrav1.YandexMachineSpec) { s.PlacementGroupPartition = ptr.To[int64](1) }, "placementGroupPartition needs placementGroupID"},
		"no cores":               {func(s *infrav1.YandexMachineSpec) { s.Cores = 0 }, "spec.cores"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			machine := newMachine("m", newSpec(test.change))
			machine.Namespace = namespace
			testenv.WantRefusal(t, cluster.Client.Create(t.Context(), machine), test.want)
		})
	}
}

// TestSpecIsImmutable drops and adds every optional field, and changes the required ones.
func TestSpecIsImmutable(t *testing.T) {
	t.Parallel()
	full := newSpec(allFields)
	full.CredentialsSecretName, full.ProviderID = "yandex", "yandex://fhm1"
	bare := newSpec(unchanged)
	bare.NetworkInterfaces = full.NetworkInterfaces
	fields := reflect.TypeFor[infrav1.YandexMachineSpec]()
	for n := range fields.NumField() {
		name, _, _ := strings.Cut(fields.Field(n).Tag.Get("json"), ",")
		if slices.Contains([]string{"folderID", "zone", "platformID", "cores", "memoryMiB", "image", "networkInterfaces", "providerID"}, name) {
			continue
		}
		for _, specs := range [][2]infrav1.YandexMachineSpec{{full, bare}, {bare, full}} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				machine := testenv.Create(t, shared, newMachine("m", *specs[0].DeepCopy()))
				reflect.ValueOf(&machine.Spec).Elem().Field(n).Set(reflect.ValueOf(specs[1]).Field(n))
				testenv.WantRefusal(t, shared.Cluster(t).Client.Update(t.Context(), machine), name+" ")
			})
		}
	}
	for name, test := range map[string]struct {
		change func(*infrav1.YandexMachineSpec)
		refuse string
	}{
		"sets providerID":          {func(s *infrav1.YandexMachineSpec) { s.ProviderID = "yandex://fhm2" }, ""},
		"keeps folderID":           {func(s *infrav1.YandexMachineSpec) { s.FolderID = "b1gother" }, "folderID is immutable"},
		"keeps zone":               {func(s *infrav1.YandexMachineSpec) { s.Zone = yandexfake.ZoneB }, "zone is immutable"},
		"keeps platformID":         {func(s *infrav1.YandexMachineSpec) { s.PlatformID = "standard-v2" }, "platformID is immutable"},
		"keeps cores":              {func(s *infrav1.YandexMachineSpec) { s.Cores = 4 }, "cores are immutable"},
		"keeps memoryMiB":          {func(s *infrav1.YandexMachineSpec) { s.MemoryMiB = 8192 }, "memoryMiB is immutable"},
		"keeps image":              {func(s *infrav1.YandexMachineSpec) { s.Image.Family = "other" }, "image is immutable"},
		"does not change networks": {func(s *infrav1.YandexMachineSpec) { s.NetworkInterfaces[0].Subnets[0].SubnetID = "x" }, "networkInterfaces are immutable"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			machine := testenv.Create(t, shared, newMachine("m", newSpec(unchanged)))
			test.change(&machine.Spec)
			testenv.WantRefusal(t, shared.Cluster(t).Client.Update(t.Context(), machine), test.refuse)
		})
	}
}
