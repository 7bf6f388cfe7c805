// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package azurefake

import (
	"context"
	"net/http"
	"slices"
	"strings"

	azfake "github.com/Azure/azure-sdk-for-go/sdk/azcore/fake"
	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/compute/armcompute/v8"
	"k8s.io/utils/ptr"
)

// The images.
const (
	Publisher     = "Canonical"
	Offer         = "ubuntu-24_04-lts"
	SKU           = "server"
	NewestVersion = "24.04.202611100"
	PlanPublisher = "kinvolk"
	PlanOffer     = "flatcar-container-linux"
	PlanSKU       = "stable"
	Gallery       = "images"
	GalleryImage  = "ubuntu"
	Community     = "flatcar-23485951"
	ManagedImage  = "/subscriptions/" + Subscription + "/resourceGroups/" + imageGroup + "/providers/Microsoft.Compute/images/golden"

	imageGroup = "pictures"
)

// marketplace returns the images of the marketplace by their IDs.
func marketplace() map[string]*armcompute.VirtualMachineImage {
	all := map[string]*armcompute.VirtualMachineImage{}
	add := func(publisher, offer, sku, version string, plan *armcompute.PurchasePlan) {
		id := imageID(publisher, offer, sku, version)
		all[strings.ToLower(id)] = &armcompute.VirtualMachineImage{ID: &id, Name: &version, Location: ptr.To(Location), Properties: &armcompute.VirtualMachineImageProperties{
			Architecture: ptr.To(armcompute.ArchitectureTypesX64), HyperVGeneration: ptr.To(armcompute.HyperVGenerationTypesV2), Plan: plan,
		}}
	}
	for _, version := range []string{"24.04.202609080", "24.04.20261030", NewestVersion} {
		add(Publisher, Offer, SKU, version, nil)
	}
	add(PlanPublisher, PlanOffer, PlanSKU, "4230.2.3", &armcompute.PurchasePlan{Publisher: ptr.To(PlanPublisher), Product: ptr.To(PlanOffer), Name: ptr.To(PlanSKU)})
	return all
}

func imageID(publisher, offer, sku, version string) string {
	return "/Subscriptions/" + Subscription + "/Providers/Microsoft.Compute/Locations/" + Location + "/Publishers/" + publisher +
		"/ArtifactTypes/VMImage/Offers/" + offer + "/Skus/" + sku + "/Versions/" + version
}

func (c *Cloud) listImages(_ context.Context, location, publisher, offer, sku string, _ *armcompute.VirtualMachineImagesClientListOptions) (resp azfake.Responder[armcompute.VirtualMachineImagesClientListResponse], errResp azfake.ErrorResponder) {
	prefix := strings.ToLower(strings.TrimSuffix(imageID(publisher, offer, sku, ""), ""))
	var found []*armcompute.VirtualMachineImageResource
	for id, image := range c.images {
		if strings.HasPrefix(id, prefix) && location == Location {
			found = append(found, &armcompute.VirtualMachineImageResource{ID: image.ID, Name: image.Name, Location: image.Location})
		}
	}
	if len(found) == 0 {
		errResp.SetError(refuse(http.StatusNotFound, "NotFound", "Artifact: VMImage was not found."))
		return resp, errResp
	}
	slices.SortFunc(found, func(a, b *armcompute.VirtualMachineImageResource) int { return strings.Compare(*a.Name, *b.Name) })
	resp.SetResponse(http.StatusOK, armcompute.VirtualMachineImagesClientListResponse{VirtualMachineImageResourceArray: found}, nil)
	return resp, errResp
}

func (c *Cloud) getImage(_ context.Context, _, publisher, offer, sku, version string, _ *armcompute.VirtualMachineImagesClientGetOptions) (resp azfake.Responder[armcompute.VirtualMachineImagesClientGetResponse], errResp azfake.ErrorResponder) {
	found := c.images[strings.ToLower(imageID(publisher, offer, sku, version))]
	if found == nil {
		errResp.SetError(refuse(http.StatusNotFound, "ImageVersionNotFound", "The image version %s was not found.", version))
		return resp, errResp
	}
	resp.SetResponse(http.StatusOK, armcompute.VirtualMachineImagesClientGetResponse{VirtualMachineImage: *found}, nil)
	return resp, errResp
}

func getManagedImage(_ context.Context, _, name string, _ *armcompute.ImagesClientGetOptions) (resp azfake.Responder[armcompute.ImagesClientGetResponse], errResp azfake.ErrorResponder) {
	if name != "golden" {
		errResp.SetError(refuse(http.StatusNotFound, "ResourceNotFound", "The Resource 'Microsoft.Compute/images/%s' was not found.", name))
		return resp, errResp
	}
	resp.SetResponse(http.StatusOK, armcompute.ImagesClientGetResponse{Image: armcompute.Image{ID: ptr.To(ManagedImage), Name: &name, Location: ptr.To(Location)}}, nil)
	return resp, errResp
}

func getGalleryImage(_ context.Context, _, gallery, image string, _ *armcompute.GalleryImagesClientGetOptions) (resp azfake.Responder[armcompute.GalleryImagesClientGetResponse], errResp azfake.ErrorResponder) {
	if gallery != Gallery || image != GalleryImage {
		errResp.SetError(refuse(http.StatusNotFound, "ResourceNotFound", "The image was not found."))
		return resp, errResp
	}
	resp.SetResponse(http.StatusOK, armcompute.GalleryImagesClientGetResponse{GalleryImage: armcompute.GalleryImage{Name: &image, Location: ptr.To(Location), Properties: &armcompute.GalleryImageProperties{
		Architecture: ptr.To(armcompute.ArchitectureArm64), OSType: ptr.To(armcompute.OperatingSystemTypesLinux), OSState: ptr.To(armcompute.OperatingSystemStateTypesGeneralized),
		Identifier: &armcompute.GalleryImageIdentifier{Publisher: ptr.To("drover"), Offer: ptr.To("nodes"), SKU: &image},
	}}}, nil)
	return resp, errResp
}

// galleryVersions are the versions of the only image of the gallery: the newest one is in another region, and the one before is
// excluded from latest.
func galleryVersions() (all []*armcompute.GalleryImageVersion) {
	for name, excluded := range map[string]bool{"1.2.0": false, "1.10.0": false, "2.0.0": true, "3.0.0": false} {
		region := "West Europe"
		if name == "3.0.0" {
			region = "North Europe"
		}
		all = append(all, &armcompute.GalleryImageVersion{Name: &name, Location: ptr.To(Location), Properties: &armcompute.GalleryImageVersionProperties{
			StorageProfile: &armcompute.GalleryImageVersionStorageProfile{}, ProvisioningState: ptr.To(armcompute.GalleryProvisioningStateSucceeded),
			PublishingProfile: &armcompute.GalleryImageVersionPublishingProfile{ExcludeFromLatest: &excluded, TargetRegions: []*armcompute.TargetRegion{{Name: &region}}},
		}})
	}
	return all
}

func getGalleryVersion(_ context.Context, _, _, _, version string, _ *armcompute.GalleryImageVersionsClientGetOptions) (resp azfake.Responder[armcompute.GalleryImageVersionsClientGetResponse], errResp azfake.ErrorResponder) {
	for _, known := range galleryVersions() {
		if *known.Name == version {
			resp.SetResponse(http.StatusOK, armcompute.GalleryImageVersionsClientGetResponse{GalleryImageVersion: *known}, nil)
			return resp, errResp
		}
	}
	errResp.SetError(refuse(http.StatusNotFound, "ResourceNotFound", "The version was not found."))
	return resp, errResp
}

func getCommunityImage(_ context.Context, _, gallery, image string, _ *armcompute.CommunityGalleryImagesClientGetOptions) (resp azfake.Responder[armcompute.CommunityGalleryImagesClientGetResponse], errResp azfake.ErrorResponder) {
	if gallery != Community {
		errResp.SetError(refuse(http.StatusNotFound, "CommunityGalleryImageNotFound", "The image was not found."))
		return resp, errResp
	}
	resp.SetResponse(http.StatusOK, armcompute.CommunityGalleryImagesClientGetResponse{CommunityGalleryImage: armcompute.CommunityGalleryImage{
		Name: &image, Properties: &armcompute.CommunityGalleryImageProperties{
			Architecture: ptr.To(armcompute.ArchitectureX64), OSType: ptr.To(armcompute.OperatingSystemTypesLinux), OSState: ptr.To(armcompute.OperatingSystemStateTypesGeneralized),
			Identifier: &armcompute.CommunityGalleryImageIdentifier{Publisher: ptr.To("kinvolk"), Offer: ptr.To("flatcar"), SKU: &image},
		},
	}}, nil)
	return resp, errResp
}

// sizes are the sizes by their CPUs, memory in GB, GPUs and architecture.
var sizes = map[string][]string{
	"Standard_D2s_v5":         {"2", "8", "", "x64"},
	"Standard_D4s_v5":         {"4", "16", "", "x64"},
	"Standard_D2ps_v5":        {"2", "8", "", "Arm64"},
	"Standard_NC4as_T4_v3":    {"4", "28", "1", "x64"},
	"Standard_NV8as_v4":       {"8", "28", "1", "x64"},
	"Standard_M8-2ms_v2":      {"8", "218.75", "", "x64"},
	"Standard_Restricted2_v1": {"2", "8", "", "x64"},
}

func skus() (all []*armcompute.ResourceSKU) {
	for name, values := range sizes {
		capabilities := []*armcompute.ResourceSKUCapabilities{
			{Name: ptr.To("vCPUs"), Value: &values[0]}, {Name: ptr.To("MemoryGB"), Value: &values[1]}, {Name: ptr.To("CpuArchitectureType"), Value: &values[3]},
		}
		if values[2] != "" {
			capabilities = append(capabilities, &armcompute.ResourceSKUCapabilities{Name: ptr.To("GPUs"), Value: &values[2]})
		}
		if name == "Standard_M8-2ms_v2" {
			capabilities = append(capabilities, &armcompute.ResourceSKUCapabilities{Name: ptr.To("vCPUsAvailable"), Value: ptr.To("2")})
		}
		sku := &armcompute.ResourceSKU{Name: &name, ResourceType: ptr.To("virtualMachines"), Locations: []*string{ptr.To(Location)}, Capabilities: capabilities}
		if name == "Standard_Restricted2_v1" {
			sku.Restrictions = []*armcompute.ResourceSKURestrictions{{Type: ptr.To(armcompute.ResourceSKURestrictionsTypeLocation), ReasonCode: ptr.To(armcompute.ResourceSKURestrictionsReasonCodeNotAvailableForSubscription)}}
		}
		all = append(all, sku)
	}
	return append(all, &armcompute.ResourceSKU{Name: ptr.To("Premium_LRS"), ResourceType: ptr.To("disks")})
}
