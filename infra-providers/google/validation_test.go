// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package google_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	infrav1 "drover.io/api/infrastructure/v1alpha1"
	"drover.io/infra-providers/google/googlefake"
	"drover.io/infra-providers/internal/testenv"
)

// allFields sets every field.
func allFields(s *infrav1.GoogleMachineSpec) {
	key := "projects/drover-test/locations/europe-west3/keyRings/r/cryptoKeys/k"
	settings := infrav1.GoogleDiskSettings{SizeGB: ptr.To[int64](50), Type: "hyperdisk-balanced", ProvisionedIOPS: ptr.To[int64](3000), ProvisionedThroughput: ptr.To[int64](140), KMSKeyName: key}
	s.BootDisk = infrav1.GoogleBootDisk{GoogleDiskSettings: settings, GuestOSFeatures: []string{"GVNIC"}}
	s.Disks = []infrav1.GoogleDisk{{Name: "data", GoogleDiskSettings: settings}, {Name: "copy", Snapshot: "snap"}}
	s.LocalSSD = infrav1.GoogleLocalSSD{Count: 1, Interface: "NVME"}
	s.NetworkInterfaces = []infrav1.GoogleNetworkInterface{
		{Network: "vpc", Subnetwork: googlefake.Subnetwork, Project: googlefake.Project, ExternalIP: ptr.To(true), NetworkTier: "PREMIUM", StackType: "IPV4_IPV6", NICType: "GVNIC",
			AliasIPRanges: []infrav1.GoogleAliasIPRange{{IPCIDRRange: "/24", SubnetworkRangeName: "pods"}}},
		{Network: "other"},
	}
	s.CanIPForward, s.Tags = ptr.To(true), []string{"nodes"}
	s.ServiceAccount = infrav1.GoogleServiceAccount{Email: "nodes@drover-test.iam.gserviceaccount.com"}
	s.Labels = map[string]infrav1.GoogleLabelValue{"cost-center": "x"}
	s.Metadata = map[string]infrav1.GoogleMetadataValue{"enable-oslogin": "TRUE"}
	s.ProvisioningModel, s.AutomaticRestart, s.OnHostMaintenance, s.MinCPUPlatform = "SPOT", ptr.To(false), "TERMINATE", "Intel Ice Lake"
	s.GuestAccelerators = []infrav1.GoogleAccelerator{{Type: "nvidia-tesla-t4", Count: 1}}
	s.ShieldedInstance = infrav1.GoogleShieldedInstance{SecureBoot: ptr.To(true), VTPM: ptr.To(true), IntegrityMonitoring: ptr.To(true)}
	s.ConfidentialInstanceType = "TDX"
	s.AdvancedMachineFeatures = infrav1.GoogleAdvancedMachineFeatures{NestedVirtualization: ptr.To(true), ThreadsPerCore: ptr.To[int64](1)}
	s.ReservationAffinity = infrav1.GoogleReservationAffinity{ConsumeReservationType: "SPECIFIC_RESERVATION", Reservation: "r"}
	s.ResourcePolicies = []string{"compact"}
	s.Fallbacks = []infrav1.GoogleFallback{{MachineType: "n4-standard-4", Zone: googlefake.ZoneB, ProvisioningModel: "STANDARD"}}
}

func TestDefaults(t *testing.T) {
	t.Parallel()
	machine := testenv.Create(t, shared, newMachine("m", newSpec(func(s *infrav1.GoogleMachineSpec) { s.LocalSSD.Count = 1 })))
	if machine.Spec.ProvisioningModel != "STANDARD" || machine.Spec.LocalSSD.Interface != "NVME" {
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
	template := &infrav1.GoogleMachineTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: machine.Namespace, Name: "t"}}
	template.Spec.Template.Spec = want
	cluster := shared.Cluster(t)
	if err := cluster.Client.Create(t.Context(), template); err != nil {
		t.Fatal(err)
	}
	template.Spec.Template.Spec.MachineType = "n4-standard-8"
	testenv.WantRefusal(t, cluster.Client.Update(t.Context(), template), "template is immutable")
}

func TestInvalidSpecsAreRefused(t *testing.T) {
	t.Parallel()
	nic := func(change func(*infrav1.GoogleNetworkInterface)) func(*infrav1.GoogleMachineSpec) {
		return func(s *infrav1.GoogleMachineSpec) { change(&s.NetworkInterfaces[0]) }
	}
	for name, test := range map[string]struct {
		change func(*infrav1.GoogleMachineSpec)
		refuse string
	}{
		"no project":               {func(s *infrav1.GoogleMachineSpec) { s.Project = "" }, "spec.project"},
		"a project's number":       {func(s *infrav1.GoogleMachineSpec) { s.Project = "123456789012" }, "spec.project"},
		"a project with a path":    {func(s *infrav1.GoogleMachineSpec) { s.Project = "project/../other" }, "spec.project"},
		"no zone":                  {func(s *infrav1.GoogleMachineSpec) { s.Zone = "" }, "spec.zone"},
		"a region as zone":         {func(s *infrav1.GoogleMachineSpec) { s.Zone = "europe-west3" }, "spec.zone"},
		"no machine type":          {func(s *infrav1.GoogleMachineSpec) { s.MachineType = "" }, "spec.machineType"},
		"a machine type with path": {func(s *infrav1.GoogleMachineSpec) { s.MachineType = "a/b" }, "spec.machineType"},
		"no image":                 {func(s *infrav1.GoogleMachineSpec) { s.Image = infrav1.GoogleImage{} }, "spec.image"},
		"an image and a family":    {func(s *infrav1.GoogleMachineSpec) { s.Image.Name = "x" }, "exactly one of name and family"},
		"a disk without size":      {func(s *infrav1.GoogleMachineSpec) { s.Disks = []infrav1.GoogleDisk{{Name: "data"}} }, "one of sizeGB and snapshot"},
		"a malformed key":          {func(s *infrav1.GoogleMachineSpec) { s.BootDisk.KMSKeyName = "k" }, "kmsKeyName"},
		"an interface in no net":   {nic(func(n *infrav1.GoogleNetworkInterface) { n.Subnetwork = ""; n.StackType = "IPV4_ONLY" }), "one of network and subnetwork"},
		"a tier without address":   {nic(func(n *infrav1.GoogleNetworkInterface) { n.NetworkTier = "PREMIUM" }), "networkTier needs externalIP"},
		"a malformed range": {nic(func(n *infrav1.GoogleNetworkInterface) {
			n.AliasIPRanges = []infrav1.GoogleAliasIPRange{{IPCIDRRange: "pods"}}
		}), "ipCIDRRange"},
		"a malformed tag":     {func(s *infrav1.GoogleMachineSpec) { s.Tags = []string{"A"} }, "spec.tags"},
		"a malformed account": {func(s *infrav1.GoogleMachineSpec) { s.ServiceAccount.Email = "a b" }, "email"},
		"a scope of others": {func(s *infrav1.GoogleMachineSpec) {
			s.ServiceAccount = infrav1.GoogleServiceAccount{Email: "default", Scopes: []string{"https://x"}}
		}, "scopes"},
		"a label of Drover": {func(s *infrav1.GoogleMachineSpec) {
			s.Labels = map[string]infrav1.GoogleLabelValue{"drover-machine": "x"}
		}, "not with drover-"},
		"a label in upper case":     {func(s *infrav1.GoogleMachineSpec) { s.Labels = map[string]infrav1.GoogleLabelValue{"A": "x"} }, "lower-case"},
		"a label's value with dots": {func(s *infrav1.GoogleMachineSpec) { s.Labels = map[string]infrav1.GoogleLabelValue{"a": "x.y"} }, "spec.labels"},
		"the bootstrap data": {func(s *infrav1.GoogleMachineSpec) {
			s.Metadata = map[string]infrav1.GoogleMetadataValue{"user-data": "x"}
		}, "have the bootstrap data"},
		"a Spot VM that restarts": {func(s *infrav1.GoogleMachineSpec) { s.ProvisioningModel, s.AutomaticRestart = "SPOT", ptr.To(true) }, "never restarts a Spot VM"},
		"a Spot VM that migrates": {func(s *infrav1.GoogleMachineSpec) { s.ProvisioningModel, s.OnHostMaintenance = "SPOT", "MIGRATE" }, "not migrated"},
		"a fallback that restarts": {func(s *infrav1.GoogleMachineSpec) {
			s.AutomaticRestart, s.Fallbacks = ptr.To(true), []infrav1.GoogleFallback{{ProvisioningModel: "SPOT"}}
		}, "if a fallback is SPOT"},
		"a fallback that migrates": {func(s *infrav1.GoogleMachineSpec) {
			s.OnHostMaintenance, s.Fallbacks = "MIGRATE", []infrav1.GoogleFallback{{ProvisioningModel: "SPOT"}}
		}, "if a fallback is SPOT"},
		"a GPU that migrates": {func(s *infrav1.GoogleMachineSpec) {
			s.OnHostMaintenance, s.GuestAccelerators = "MIGRATE", []infrav1.GoogleAccelerator{{Type: "nvidia-l4", Count: 1}}
		}, "not migrated"},
		"monitoring without a TPM": {func(s *infrav1.GoogleMachineSpec) {
			s.ShieldedInstance = infrav1.GoogleShieldedInstance{VTPM: ptr.To(false), IntegrityMonitoring: ptr.To(true)}
		}, "needs vtpm"},
		"no name of a reservation": {func(s *infrav1.GoogleMachineSpec) {
			s.ReservationAffinity.ConsumeReservationType = "SPECIFIC_RESERVATION"
		}, "need each other"},
		"a name of a reservation": {func(s *infrav1.GoogleMachineSpec) {
			s.ReservationAffinity = infrav1.GoogleReservationAffinity{ConsumeReservationType: "NO_RESERVATION", Reservation: "r"}
		}, "need each other"},
		"an unknown model": {func(s *infrav1.GoogleMachineSpec) { s.ProvisioningModel = "CHEAP" }, "provisioningModel"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cluster, namespace := shared.Namespace(t)
			machine := &infrav1.GoogleMachine{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "m"}, Spec: newSpec(test.change)}
			testenv.WantRefusal(t, cluster.Client.Create(t.Context(), machine), test.refuse)
		})
	}
}

// TestSpecIsImmutable changes, adds and removes.
func TestSpecIsImmutable(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		from   func(*infrav1.GoogleMachineSpec)
		change func(*infrav1.GoogleMachineSpec)
		refuse string
	}{
		"sets providerID":            {unchanged, func(s *infrav1.GoogleMachineSpec) { s.ProviderID = "gce://p/z/a" }, ""},
		"keeps providerID":           {func(s *infrav1.GoogleMachineSpec) { s.ProviderID = "gce://p/z/a" }, func(s *infrav1.GoogleMachineSpec) { s.ProviderID = "gce://p/z/b" }, "providerID is set once"},
		"keeps project":              {unchanged, func(s *infrav1.GoogleMachineSpec) { s.Project = "other-project" }, "project is immutable"},
		"keeps zone":                 {unchanged, func(s *infrav1.GoogleMachineSpec) { s.Zone = googlefake.ZoneB }, "zone is immutable"},
		"keeps machineType":          {unchanged, func(s *infrav1.GoogleMachineSpec) { s.MachineType = "n4-standard-4" }, "machineType is immutable"},
		"keeps image":                {unchanged, func(s *infrav1.GoogleMachineSpec) { s.Image.Family = "other" }, "image is immutable"},
		"keeps provisioningModel":    {unchanged, func(s *infrav1.GoogleMachineSpec) { s.ProvisioningModel = "SPOT" }, "provisioningModel is immutable"},
		"does not drop disks":        {allFields, func(s *infrav1.GoogleMachineSpec) { s.Disks = nil }, "disks are immutable"},
		"does not change disks":      {allFields, func(s *infrav1.GoogleMachineSpec) { s.Disks[0].SizeGB = ptr.To[int64](99) }, "disks are immutable"},
		"does not change networks":   {allFields, func(s *infrav1.GoogleMachineSpec) { s.NetworkInterfaces[1].Network = "x" }, "networkInterfaces are immutable"},
		"does not change labels":     {allFields, func(s *infrav1.GoogleMachineSpec) { s.Labels["a"] = "b" }, "labels are immutable"},
		"does not add metadata":      {unchanged, func(s *infrav1.GoogleMachineSpec) { s.Metadata = map[string]infrav1.GoogleMetadataValue{"a": "b"} }, "metadata is immutable"},
		"does not drop an account":   {allFields, func(s *infrav1.GoogleMachineSpec) { s.ServiceAccount = infrav1.GoogleServiceAccount{} }, "serviceAccount is immutable"},
		"does not add a boot disk":   {unchanged, func(s *infrav1.GoogleMachineSpec) { s.BootDisk.SizeGB = ptr.To[int64](9) }, "bootDisk is immutable"},
		"does not add fallbacks":     {unchanged, func(s *infrav1.GoogleMachineSpec) { s.Fallbacks = []infrav1.GoogleFallback{{Zone: googlefake.ZoneB}} }, "fallbacks are immutable"},
		"does not add credentials":   {unchanged, func(s *infrav1.GoogleMachineSpec) { s.CredentialsSecretName = "x" }, "credentialsSecretName is immutable"},
		"does not drop the policies": {allFields, func(s *infrav1.GoogleMachineSpec) { s.ResourcePolicies = nil }, "resourcePolicies are immutable"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			machine := testenv.Create(t, shared, newMachine("m", newSpec(test.from)))
			test.change(&machine.Spec)
			cluster := shared.Cluster(t)
			testenv.WantRefusal(t, cluster.Client.Update(t.Context(), machine), test.refuse)
		})
	}
}
