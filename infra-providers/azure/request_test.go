// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package azure_test

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"io"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/compute/armcompute/v8"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	infrav1 "drover.io/api/infrastructure/v1alpha1"
	"drover.io/infra-providers/azure"
	"drover.io/infra-providers/azure/azurefake"
	"drover.io/infra-providers/azure/request"
	"drover.io/infra-providers/driver"
	"drover.io/infra-providers/driver/drivertest"
)

// requested returns the virtual machine that is requested for a spec.
func requested(t *testing.T, change func(*infrav1.AzureMachineSpec)) armcompute.VirtualMachine {
	t.Helper()
	arm := newEnv(t, azurefake.Options{})
	if _, err := drivertest.Create(t, arm.connect(t), newRequest(identity, newConfig(t, change))); err != nil {
		t.Fatal(err)
	}
	return arm.cloud.Requests()[0]
}

// TestEverythingIsDeletedWithTheVirtualMachine, whatever a spec has.
func TestEverythingIsDeletedWithTheVirtualMachine(t *testing.T) {
	t.Parallel()
	vm := requested(t, allFields)
	if got := *vm.Properties.StorageProfile.OSDisk.DeleteOption; got != armcompute.DiskDeleteOptionTypesDelete {
		t.Errorf("OS disk: %s", got)
	}
	for _, disk := range vm.Properties.StorageProfile.DataDisks {
		if *disk.DeleteOption != armcompute.DiskDeleteOptionTypesDelete {
			t.Errorf("disk %s: %s", *disk.Name, *disk.DeleteOption)
		}
	}
	for _, nic := range vm.Properties.NetworkProfile.NetworkInterfaces {
		if *nic.Properties.DeleteOption != armcompute.DeleteOptionsDelete {
			t.Errorf("network interface: %s", *nic.Properties.DeleteOption)
		}
	}
}

// TestSpecIsRequested: each field reaches the request.
func TestSpecIsRequested(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		change func(*infrav1.AzureMachineSpec)
		want   string
	}{
		"the size":               {unchanged, `"vmSize":"Standard_D2s_v5"`},
		"the zone":               {unchanged, `"zones":["1"]`},
		"the newest version":     {unchanged, `"version":"` + azurefake.NewestVersion + `"`},
		"tags":                   {everything, `"cost-center":"edge"`},
		"the name of the host":   {unchanged, `"computerName":"worker-1"`},
		"the console":            {unchanged, `"bootDiagnostics":{"enabled":true}`},
		"no console":             {func(s *infrav1.AzureMachineSpec) { s.BootDiagnostics = ptr.To(false) }, `"bootDiagnostics":{"enabled":false}`},
		"no password":            {unchanged, `"disablePasswordAuthentication":true`},
		"a key":                  {func(s *infrav1.AzureMachineSpec) { s.SSHPublicKeys = []string{"ssh-ed25519 AAAA me"} }, `"keyData":"ssh-ed25519 AAAA me"`},
		"a user":                 {func(s *infrav1.AzureMachineSpec) { s.AdminUsername = "ops" }, `"path":"/home/ops/.ssh/authorized_keys"`},
		"a plan":                 {withPlan, `"plan":{"name":"stable","product":"flatcar-container-linux","publisher":"kinvolk"}`},
		"a gallery's latest":     {withGallery, `/galleries/images/images/ubuntu/versions/1.10.0"`},
		"a community gallery":    {withCommunity, `"communityGalleryImageId":"/CommunityGalleries/flatcar-23485951/Images/stable/Versions/latest"`},
		"a managed image":        {func(s *infrav1.AzureMachineSpec) { s.Image = infrav1.AzureImage{ID: azurefake.ManagedImage} }, `"imageReference":{"id":"` + azurefake.ManagedImage + `"}`},
		"a Spot VM":              {func(s *infrav1.AzureMachineSpec) { s.Priority = "Spot" }, `"evictionPolicy":"Deallocate"`},
		"the price of a Spot VM": {func(s *infrav1.AzureMachineSpec) { s.Priority, s.Spot.MaxPrice = "Spot", "0.05" }, `"maxPrice":0.05`},
		"no price of a Spot VM":  {func(s *infrav1.AzureMachineSpec) { s.Priority = "Spot" }, `"maxPrice":-1`},
		"an ephemeral Spot VM":   {func(s *infrav1.AzureMachineSpec) { s.Priority, s.OSDisk.Ephemeral.Placement = "Spot", "CacheDisk" }, `"evictionPolicy":"Delete"`},
		"an ephemeral disk":      {func(s *infrav1.AzureMachineSpec) { s.OSDisk.Ephemeral.Placement = "NvmeDisk" }, `"diffDiskSettings":{"option":"Local","placement":"NvmeDisk"}`},
		"trusted launch": {func(s *infrav1.AzureMachineSpec) {
			s.Security = infrav1.AzureSecurity{Type: "TrustedLaunch", SecureBoot: ptr.To(true)}
		}, `"securityProfile":{"securityType":"TrustedLaunch","uefiSettings":{"secureBootEnabled":true,"vTpmEnabled":true}}`},
		"a confidential VM":         {func(s *infrav1.AzureMachineSpec) { s.Security.Type = "ConfidentialVM" }, `"securityEncryptionType":"VMGuestStateOnly"`},
		"encryption at the host":    {func(s *infrav1.AzureMachineSpec) { s.Security.EncryptionAtHost = ptr.To(true) }, `"securityProfile":{"encryptionAtHost":true}`},
		"an availability set":       {func(s *infrav1.AzureMachineSpec) { s.Zone, s.AvailabilitySetID = "", azurefake.SubnetID }, `"availabilitySet":{"id":"` + azurefake.SubnetID},
		"a placement group":         {func(s *infrav1.AzureMachineSpec) { s.ProximityPlacementGroupID = azurefake.SubnetID }, `"proximityPlacementGroup":{"id":"`},
		"a capacity reservation":    {func(s *infrav1.AzureMachineSpec) { s.CapacityReservationGroupID = azurefake.SubnetID }, `"capacityReservation":{"capacityReservationGroup":{"id":"`},
		"an identity":               {func(s *infrav1.AzureMachineSpec) { s.SystemAssignedIdentity = ptr.To(true) }, `"identity":{"type":"SystemAssigned"`},
		"identities":                {func(s *infrav1.AzureMachineSpec) { s.UserAssignedIdentities = []string{"/x"} }, `"userAssignedIdentities":{"/x":{}}`},
		"the controller of disks":   {func(s *infrav1.AzureMachineSpec) { s.DiskControllerType = "NVMe" }, `"diskControllerType":"NVMe"`},
		"the bootstrap data":        {unchanged, `"customData":"` + base64.StdEncoding.EncodeToString([]byte("#cloud-config\n")) + `"`},
		"user data":                 {func(s *infrav1.AzureMachineSpec) { s.BootstrapData = "UserData" }, `"userData":"` + base64.StdEncoding.EncodeToString([]byte("#cloud-config\n")) + `"`},
		"a data disk":               {everything, `"lun":0,`},
		"the type of the OS disk":   {func(s *infrav1.AzureMachineSpec) { s.OSDisk.Type = "Premium_LRS" }, `"storageAccountType":"Premium_LRS"`},
		"the key of the OS disk":    {func(s *infrav1.AzureMachineSpec) { s.OSDisk.DiskEncryptionSetID = "/d" }, `"diskEncryptionSet":{"id":"/d"}`},
		"the name of the OS disk":   {unchanged, `"name":"drover-0a1b2c3d-0000-4000-8000-000000000001"`},
		"the name of a data disk":   {everything, `"name":"drover-0a1b2c3d-0000-4000-8000-000000000001-data"`},
		"the network interface":     {unchanged, `/providers/Microsoft.Network/networkInterfaces/drover-0a1b2c3d-0000-4000-8000-000000000001"`},
		"the identity of the owner": {unchanged, `"drover-machine-uid":"0a1b2c3d-0000-4000-8000-000000000001"`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			config := newConfig(t, test.change)
			content := requestOf(t, config)
			if !strings.Contains(content, test.want) {
				t.Errorf("%s is not in %s", test.want, content)
			}
		})
	}
}

func withPlan(s *infrav1.AzureMachineSpec) {
	s.Image.Marketplace = infrav1.AzureMarketplaceImage{Publisher: azurefake.PlanPublisher, Offer: azurefake.PlanOffer, SKU: azurefake.PlanSKU}
}

func withGallery(s *infrav1.AzureMachineSpec) {
	s.Image = infrav1.AzureImage{Gallery: infrav1.AzureGalleryImage{ResourceGroup: "pictures", Name: azurefake.Gallery, Image: azurefake.GalleryImage}}
}

func withCommunity(s *infrav1.AzureMachineSpec) {
	s.Image = infrav1.AzureImage{CommunityGallery: infrav1.AzureCommunityGalleryImage{Name: azurefake.Community, Image: "stable"}}
}

// requestOf returns the JSON of the request for a configuration.
func requestOf(t *testing.T, config azure.InstanceConfig) string {
	t.Helper()
	arm := newEnv(t, azurefake.Options{})
	place := request.Place{Subscription: azurefake.Subscription, ResourceGroup: azurefake.ResourceGroup}
	image, err := azure.FindImage(t.Context(), arm.connect(t), config)
	if err != nil {
		t.Fatal(err)
	}
	vm, err := request.VirtualMachine(request.Input{Place: place, Spec: config.Spec, Zone: config.Zone, Identity: identity, UserData: []byte("#cloud-config\n"), Format: "cloud-config"}, image)
	if err != nil {
		t.Fatal(err)
	}
	content, err := json.Marshal(vm)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

// TestBootstrapData is compressed where it has to be, and refused where that does not help, before anything is created.
func TestBootstrapData(t *testing.T) {
	t.Parallel()
	random := make([]byte, 2*request.MaxBootstrapData)
	_, _ = rand.NewChaCha8([32]byte{}).Read(random)
	long := []byte("#cloud-config\n" + strings.Repeat("# comment\n", request.MaxBootstrapData/8))
	for name, test := range map[string]struct {
		data    []byte
		format  string
		refused bool
	}{
		"as it is":           {[]byte("#cloud-config\n"), "cloud-config", false},
		"compressed":         {long, "cloud-config", false},
		"Ignition too long":  {long, "ignition", true},
		"incompressible":     {random, "cloud-config", true},
		"at the limit":       {bytes.Repeat([]byte("x"), request.MaxBootstrapData), "ignition", false},
		"one over the limit": {bytes.Repeat([]byte("x"), request.MaxBootstrapData+1), "ignition", true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			arm := newEnv(t, azurefake.Options{})
			req := newRequest(identity, newConfig(t, unchanged))
			req.UserData, req.Format = test.data, test.format
			_, err := drivertest.Create(t, arm.connect(t), req)
			if driver.IsInvalidConfiguration(err) != test.refused || err != nil && !test.refused {
				t.Fatalf("got %v", err)
			}
			if test.refused {
				if left := arm.cloud.Leftovers(); len(left) > 0 {
					t.Errorf("%q is left", left)
				}
				return
			}
			sent, err := base64.StdEncoding.DecodeString(ptr.Deref(arm.cloud.CustomData()[0], ""))
			if err != nil {
				t.Fatal(err)
			}
			if len(test.data) > request.MaxBootstrapData {
				reader, err := gzip.NewReader(bytes.NewReader(sent))
				if err != nil {
					t.Fatal(err)
				}
				if sent, err = io.ReadAll(reader); err != nil {
					t.Fatal(err)
				}
			}
			if !bytes.Equal(sent, test.data) {
				t.Error("the guest gets other data")
			}
		})
	}
}

// TestNames of machines that no virtual machine may have are refused.
func TestNames(t *testing.T) {
	t.Parallel()
	for name, valid := range map[string]bool{
		"worker-1": true, strings.Repeat("a", 64): true, strings.Repeat("a", 65): false, "a.b": false, "12345": false, "1a": true, "-a": false,
	} {
		_, err := azure.NewInstanceConfig(&infrav1.AzureMachine{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: newSpec(unchanged)}, "")
		if driver.IsInvalidConfiguration(err) == valid || err != nil && valid {
			t.Errorf("%q: got %v", name, err)
		}
	}
}

// TestFailureDomains of Machines take precedence, and must be zones.
func TestFailureDomains(t *testing.T) {
	t.Parallel()
	machine := &infrav1.AzureMachine{Spec: newSpec(withFallbacks)}
	config, err := azure.NewInstanceConfig(machine, "3")
	if err != nil || config.Zone != "3" {
		t.Fatalf("got %+v and %v", config, err)
	}
	cloud := azure.Cloud(azure.Options{})
	others := cloud.Alternatives(config)
	if len(others) != 1 || others[0].Zone != "3" || others[0].Spec.VMSize != "Standard_D4s_v5" {
		t.Errorf("the alternatives are %+v, want the other size in the same zone", others)
	}
	for _, wrong := range []string{"westeurope-1", "0", "a"} {
		if _, err := azure.NewInstanceConfig(machine, wrong); !driver.IsInvalidConfiguration(err) {
			t.Errorf("%q: got %v", wrong, err)
		}
	}
	machine.Spec.AvailabilitySetID = azurefake.SubnetID
	if _, err := azure.NewInstanceConfig(machine, "1"); !driver.IsInvalidConfiguration(err) {
		t.Errorf("an availability set in a zone: got %v", err)
	}
}

// TestCapacity is what Azure publishes about a size.
func TestCapacity(t *testing.T) {
	t.Parallel()
	arm := newEnv(t, azurefake.Options{})
	provider := arm.connect(t).(driver.CapacityProvider[azure.InstanceConfig])
	for size, want := range map[string]map[corev1.ResourceName]string{
		"Standard_D2s_v5":      {"cpu": "2", "memory": "8Gi", "ephemeral-storage": "50Gi"},
		"Standard_NC4as_T4_v3": {"cpu": "4", "memory": "28Gi", "ephemeral-storage": "50Gi", "nvidia.com/gpu": "1"},
		"Standard_NV8as_v4":    {"cpu": "8", "memory": "28Gi", "ephemeral-storage": "50Gi", "amd.com/gpu": "1"},
		"standard_m8-2ms_v2":   {"cpu": "2", "memory": "224000Mi", "ephemeral-storage": "50Gi"},
	} {
		got, err := provider.Capacity(t.Context(), newConfig(t, func(s *infrav1.AzureMachineSpec) { s.VMSize, s.OSDisk.SizeGB = size, ptr.To(int32(50)) }))
		if err != nil {
			t.Errorf("%s: %v", size, err)
			continue
		}
		texts := map[corev1.ResourceName]string{}
		for name, quantity := range got.Capacity {
			texts[name] = quantity.String()
		}
		if diff := cmp.Diff(want, texts); diff != "" {
			t.Errorf("%s (-want +got):\n%s", size, diff)
		}
		if got.Architecture != "amd64" {
			t.Errorf("%s: the architecture is %q", size, got.Architecture)
		}
	}
	for _, unknown := range []string{"Standard_X2", "Standard_Restricted2_v1"} {
		if _, err := provider.Capacity(t.Context(), newConfig(t, func(s *infrav1.AzureMachineSpec) { s.VMSize = unknown })); !driver.IsInvalidConfiguration(err) {
			t.Errorf("%s: got %v, want an InvalidConfigurationError", unknown, err)
		}
	}
}
