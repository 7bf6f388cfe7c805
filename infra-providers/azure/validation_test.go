// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package azure_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	infrav1 "drover.io/api/infrastructure/v1alpha1"
	"drover.io/infra-providers/azure/azurefake"
	"drover.io/infra-providers/internal/testenv"
)

const inGroup = "/subscriptions/" + azurefake.Subscription + "/resourceGroups/nodes/providers/"

// allFields sets every field that may be set together.
func allFields(s *infrav1.AzureMachineSpec) {
	everything(s)
	disk := infrav1.AzureDiskSettings{Type: "Premium_LRS", Caching: "ReadOnly", DiskEncryptionSetID: inGroup + "Microsoft.Compute/diskEncryptionSets/keys"}
	s.OSDisk = infrav1.AzureOSDisk{SizeGB: ptr.To(int32(50)), AzureDiskSettings: disk, SecurityEncryptionType: "DiskWithVMGuestState"}
	s.DataDisks = []infrav1.AzureDataDisk{{Name: "data", SizeGB: 20, AzureDiskSettings: disk}, {Name: "logs", SizeGB: 8}}
	s.NetworkInterface.AcceleratedNetworking, s.NetworkInterface.IPForwarding = ptr.To(true), ptr.To(true)
	s.NetworkInterface.SecurityGroupID = inGroup + "Microsoft.Network/networkSecurityGroups/nodes"
	s.NetworkInterface.ApplicationSecurityGroupIDs = []string{inGroup + "Microsoft.Network/applicationSecurityGroups/nodes"}
	s.NetworkInterface.BackendAddressPoolIDs = []string{inGroup + "Microsoft.Network/loadBalancers/out/backendAddressPools/nodes"}
	s.ProximityPlacementGroupID = inGroup + "Microsoft.Compute/proximityPlacementGroups/near"
	s.Priority, s.Spot = "Spot", infrav1.AzureSpot{MaxPrice: "0.05", EvictionPolicy: "Deallocate"}
	s.Security = infrav1.AzureSecurity{Type: "ConfidentialVM", SecureBoot: ptr.To(true), VTPM: ptr.To(true), EncryptionAtHost: ptr.To(false)}
	s.BootDiagnostics, s.SystemAssignedIdentity = ptr.To(true), ptr.To(true)
	s.UserAssignedIdentities = []string{inGroup + "Microsoft.ManagedIdentity/userAssignedIdentities/nodes"}
	s.DiskControllerType, s.AdminUsername, s.BootstrapData = "NVMe", "ops", "CustomData"
	s.SSHPublicKeys = []string{"ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIE me@home"}
	s.Fallbacks = []infrav1.AzureFallback{{VMSize: "Standard_D4s_v5", Zone: "2", Priority: "Regular"}}
}

func TestAllFieldsAreValid(t *testing.T) {
	t.Parallel()
	want := newSpec(allFields)
	want.Image.Marketplace.Version = "latest"
	machine := testenv.Create(t, shared, newMachine("m", want))
	if diff := cmp.Diff(want, machine.Spec); diff != "" {
		t.Errorf("spec (-want +got):\n%s", diff)
	}
	template := &infrav1.AzureMachineTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: machine.Namespace, Name: "t"}}
	template.Spec.Template.Spec = want
	cluster := shared.Cluster(t)
	if err := cluster.Client.Create(t.Context(), template); err != nil {
		t.Fatal(err)
	}
	template.Spec.Template.Spec.VMSize = "Standard_D8s_v5"
	testenv.WantRefusal(t, cluster.Client.Update(t.Context(), template), "template is immutable")
}

func TestInvalidSpecsAreRefused(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		change func(*infrav1.AzureMachineSpec)
		refuse string
	}{
		"a subscription with a path":    {func(s *infrav1.AzureMachineSpec) { s.SubscriptionID = "../../" + strings.Repeat("a", 30) }, "spec.subscriptionID"},
		"no resource group":             {func(s *infrav1.AzureMachineSpec) { s.ResourceGroup = "" }, "spec.resourceGroup"},
		"a resource group with a path":  {func(s *infrav1.AzureMachineSpec) { s.ResourceGroup = "a/../b" }, "spec.resourceGroup"},
		"a resource group with a quote": {func(s *infrav1.AzureMachineSpec) { s.ResourceGroup = "a' or '1" }, "spec.resourceGroup"},
		"a resource group with a dot":   {func(s *infrav1.AzureMachineSpec) { s.ResourceGroup = "a." }, "spec.resourceGroup"},
		"a location with a quote":       {func(s *infrav1.AzureMachineSpec) { s.Location = "west' or '1" }, "spec.location"},
		"a display name of a location":  {func(s *infrav1.AzureMachineSpec) { s.Location = "West Europe" }, "spec.location"},
		"a zone with its location":      {func(s *infrav1.AzureMachineSpec) { s.Zone = "westeurope-1" }, "spec.zone"},
		"no size":                       {func(s *infrav1.AzureMachineSpec) { s.VMSize = "" }, "spec.vmSize"},
		"no image":                      {func(s *infrav1.AzureMachineSpec) { s.Image = infrav1.AzureImage{} }, "spec.image"},
		"two images":                    {func(s *infrav1.AzureMachineSpec) { s.Image.ID = azurefake.ManagedImage }, "exactly one of marketplace"},
		"an image of another type":      {func(s *infrav1.AzureMachineSpec) { s.Image = infrav1.AzureImage{ID: azurefake.SubnetID} }, "spec.image.id"},
		"a plan for the marketplace": {func(s *infrav1.AzureMachineSpec) {
			s.Image.Plan = infrav1.AzureImagePlan{Publisher: "a", Product: "b", Name: "c"}
		}, "leave plan out"},
		"an offer with a path":  {func(s *infrav1.AzureMachineSpec) { s.Image.Marketplace.Offer = "a/b" }, "offer"},
		"no subnet":             {func(s *infrav1.AzureMachineSpec) { s.NetworkInterface.SubnetID = "" }, "networkInterface"},
		"a subnet that is none": {func(s *infrav1.AzureMachineSpec) { s.NetworkInterface.SubnetID = azurefake.ManagedImage }, "subnetID"},
		"a zone and an availability set": {func(s *infrav1.AzureMachineSpec) {
			s.AvailabilitySetID = inGroup + "Microsoft.Compute/availabilitySets/a"
		}, "in a zone or in an availability set"},
		"a Spot VM in a set": {func(s *infrav1.AzureMachineSpec) {
			s.Zone, s.Priority, s.AvailabilitySetID = "", "Spot", inGroup+"Microsoft.Compute/availabilitySets/a"
		}, "cannot be in an availability set"},
		"a fallback in a zone of a set": {func(s *infrav1.AzureMachineSpec) {
			s.Zone, s.Fallbacks, s.AvailabilitySetID = "", []infrav1.AzureFallback{{Zone: "2"}}, inGroup+"Microsoft.Compute/availabilitySets/a"
		}, "in a zone or in an availability set"},
		"a Spot VM with a reservation": {func(s *infrav1.AzureMachineSpec) {
			s.Priority, s.CapacityReservationGroupID = "Spot", inGroup+"Microsoft.Compute/capacityReservationGroups/a"
		}, "cannot use a capacity reservation"},
		"a price of a regular VM": {func(s *infrav1.AzureMachineSpec) { s.Spot.MaxPrice = "1" }, "spot needs the priority Spot"},
		"a price of nothing":      {func(s *infrav1.AzureMachineSpec) { s.Priority, s.Spot.MaxPrice = "Spot", "0.0" }, "more than 0"},
		"an ephemeral disk with a type": {func(s *infrav1.AzureMachineSpec) {
			s.OSDisk.Type, s.OSDisk.Ephemeral.Placement = "Premium_LRS", "CacheDisk"
		}, "an ephemeral OS disk has no type"},
		"an ephemeral disk that is deallocated": {func(s *infrav1.AzureMachineSpec) {
			s.OSDisk.Ephemeral.Placement, s.Priority, s.Spot.EvictionPolicy = "CacheDisk", "Spot", "Deallocate"
		}, "cannot be deallocated"},
		"two disks of one name": {func(s *infrav1.AzureMachineSpec) {
			s.DataDisks = []infrav1.AzureDataDisk{{Name: "a", SizeGB: 1}, {Name: "a", SizeGB: 1}}
		}, "Duplicate value"},
		"a disk without a size":        {func(s *infrav1.AzureMachineSpec) { s.DataDisks = []infrav1.AzureDataDisk{{Name: "a"}} }, "sizeGB"},
		"a TPM without trusted launch": {func(s *infrav1.AzureMachineSpec) { s.Security.VTPM = ptr.To(true) }, "need the type TrustedLaunch"},
		"encryption without a confidential VM": {func(s *infrav1.AzureMachineSpec) {
			s.OSDisk.SecurityEncryptionType = "VMGuestStateOnly"
		}, "needs security.type ConfidentialVM"},
		"root":                     {func(s *infrav1.AzureMachineSpec) { s.AdminUsername = "root" }, "Azure refuses this name"},
		"a user with a path":       {func(s *infrav1.AzureMachineSpec) { s.AdminUsername = "a/b" }, "adminUsername"},
		"a key of two lines":       {func(s *infrav1.AzureMachineSpec) { s.SSHPublicKeys = []string{"ssh-rsa AAAA\nssh-rsa BBBB"} }, "sshPublicKeys"},
		"a tag of Drover":          {func(s *infrav1.AzureMachineSpec) { s.Tags = map[string]infrav1.AzureTagValue{"Drover-machine": "x"} }, "do not begin with drover-"},
		"a tag with a slash":       {func(s *infrav1.AzureMachineSpec) { s.Tags = map[string]infrav1.AzureTagValue{"a/b": "x"} }, "without"},
		"a tag with a backslash":   {func(s *infrav1.AzureMachineSpec) { s.Tags = map[string]infrav1.AzureTagValue{`a\b`: "x"} }, "without"},
		"tags that differ in case": {func(s *infrav1.AzureMachineSpec) { s.Tags = map[string]infrav1.AzureTagValue{"a": "x", "A": "y"} }, "the same tag"},
		"a tag's value of 257": {func(s *infrav1.AzureMachineSpec) {
			s.Tags = map[string]infrav1.AzureTagValue{"a": infrav1.AzureTagValue(strings.Repeat("x", 257))}
		}, "spec.tags"},
		"a fallback to nothing":       {func(s *infrav1.AzureMachineSpec) { s.Fallbacks = []infrav1.AzureFallback{{}} }, "fallbacks"},
		"an unknown priority":         {func(s *infrav1.AzureMachineSpec) { s.Priority = "Low" }, "priority"},
		"an identity of another kind": {func(s *infrav1.AzureMachineSpec) { s.UserAssignedIdentities = []string{azurefake.SubnetID} }, "userAssignedIdentities"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cluster, namespace := shared.Namespace(t)
			machine := newMachine("m", newSpec(test.change))
			machine.Namespace = namespace
			testenv.WantRefusal(t, cluster.Client.Create(t.Context(), machine), test.refuse)
		})
	}
}

// TestFieldsAreImmutable: each, also where it was not set.
func TestFieldsAreImmutable(t *testing.T) {
	t.Parallel()
	machine := testenv.Create(t, shared, newMachine("m", newSpec(unchanged)))
	cluster := shared.Cluster(t)
	for name, change := range map[string]func(*infrav1.AzureMachineSpec){
		"vmSize":           func(s *infrav1.AzureMachineSpec) { s.VMSize = "Standard_D4s_v5" },
		"location":         func(s *infrav1.AzureMachineSpec) { s.Location = "northeurope" },
		"resourceGroup":    func(s *infrav1.AzureMachineSpec) { s.ResourceGroup = "other" },
		"subscriptionID":   func(s *infrav1.AzureMachineSpec) { s.SubscriptionID = "" },
		"zone":             func(s *infrav1.AzureMachineSpec) { s.Zone = "2" },
		"image":            func(s *infrav1.AzureMachineSpec) { s.Image.Marketplace.SKU = "other" },
		"osDisk":           func(s *infrav1.AzureMachineSpec) { s.OSDisk.SizeGB = ptr.To(int32(50)) },
		"dataDisks":        func(s *infrav1.AzureMachineSpec) { s.DataDisks = []infrav1.AzureDataDisk{{Name: "a", SizeGB: 1}} },
		"networkInterface": func(s *infrav1.AzureMachineSpec) { s.NetworkInterface.PublicIP = ptr.To(true) },
		"proximityPlacementGroupID": func(s *infrav1.AzureMachineSpec) {
			s.ProximityPlacementGroupID = inGroup + "Microsoft.Compute/proximityPlacementGroups/a"
		},
		"priority":               func(s *infrav1.AzureMachineSpec) { s.Priority = "Spot" },
		"security":               func(s *infrav1.AzureMachineSpec) { s.Security.Type = "TrustedLaunch" },
		"bootDiagnostics":        func(s *infrav1.AzureMachineSpec) { s.BootDiagnostics = ptr.To(false) },
		"systemAssignedIdentity": func(s *infrav1.AzureMachineSpec) { s.SystemAssignedIdentity = ptr.To(true) },
		"adminUsername":          func(s *infrav1.AzureMachineSpec) { s.AdminUsername = "ops" },
		"sshPublicKeys":          func(s *infrav1.AzureMachineSpec) { s.SSHPublicKeys = []string{"ssh-rsa AAAA"} },
		"bootstrapData":          func(s *infrav1.AzureMachineSpec) { s.BootstrapData = "UserData" },
		"tags":                   func(s *infrav1.AzureMachineSpec) { s.Tags = map[string]infrav1.AzureTagValue{"a": "b"} },
		"fallbacks":              func(s *infrav1.AzureMachineSpec) { s.Fallbacks = []infrav1.AzureFallback{{Zone: "2"}} },
		"credentialsSecretName":  func(s *infrav1.AzureMachineSpec) { s.CredentialsSecretName = "other" },
	} {
		changed := machine.DeepCopy()
		change(&changed.Spec)
		testenv.WantRefusal(t, cluster.Client.Update(t.Context(), changed), name)
	}
}
