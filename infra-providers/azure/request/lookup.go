// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package request

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/arm"
	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/compute/armcompute/v8"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"

	infrav1 "drover.io/api/infrastructure/v1alpha1"
	"drover.io/infra-providers/driver"
	"drover.io/runtime/expiring"
)

const (
	// imageTTL is how long an image is cached: long enough for a burst of machines, short enough for a new one to be found soon.
	imageTTL = time.Minute
	// sizesTTL is how long the sizes of a location are cached: an answer has megabytes and changes rarely.
	sizesTTL = time.Hour
	// maxAnswers bounds the cached images, and maxLocations the cached locations.
	maxAnswers, maxLocations = 1000, 16
	// maxVersions bounds the versions of an image in a gallery that are read.
	maxVersions = 10000
	latest      = "latest"
)

// Lookup finds what a spec names. Errors are the SDK's own or of package driver.
type Lookup struct {
	credential azcore.TokenCredential
	options    *arm.ClientOptions
	place      Place
	images     expiring.Map[string, Image]
	sizes      expiring.Map[string, map[string]*armcompute.ResourceSKU]
}

// NewLookup returns a Lookup with an empty cache.
func NewLookup(place Place, credential azcore.TokenCredential, options *arm.ClientOptions, clock clock.PassiveClock) *Lookup {
	l := &Lookup{credential: credential, options: options, place: place}
	l.images.Clock, l.images.TTL, l.images.Max = clock, imageTTL, maxAnswers
	l.sizes.Clock, l.sizes.TTL, l.sizes.Max = clock, sizesTTL, maxLocations
	return l
}

// Image is an image that a spec names.
type Image struct {
	Reference *armcompute.ImageReference
	// Plan is the purchase plan of an image of the marketplace that has one.
	Plan *armcompute.Plan
	// ID is the resource ID of the image, with its version.
	ID string
	// Architecture is x64 or Arm64, or empty where the API does not have it.
	Architecture string
}

// Image returns the image of a spec. The newest version is resolved here, so that what is found is what is created.
func (l *Lookup) Image(ctx context.Context, spec infrav1.AzureMachineSpec) (Image, error) {
	key := fmt.Sprintf("%s %+v", spec.Location, spec.Image)
	if known, ok := l.images.Get(key); ok {
		return known, nil
	}
	found, err := l.find(ctx, spec)
	if err == nil {
		l.images.Set(key, found)
	}
	return found, err
}

func (l *Lookup) find(ctx context.Context, spec infrav1.AzureMachineSpec) (Image, error) {
	switch image := spec.Image; {
	case image.Marketplace != (infrav1.AzureMarketplaceImage{}):
		return l.marketplace(ctx, spec.Location, image.Marketplace)
	case image.Gallery != (infrav1.AzureGalleryImage{}):
		return l.gallery(ctx, spec.Location, image.Gallery)
	case image.CommunityGallery != (infrav1.AzureCommunityGalleryImage{}):
		return l.community(ctx, spec.Location, image.CommunityGallery)
	default:
		return l.managed(ctx, image.ID)
	}
}

func (l *Lookup) marketplace(ctx context.Context, location string, from infrav1.AzureMarketplaceImage) (Image, error) {
	api, err := armcompute.NewVirtualMachineImagesClient(l.place.Subscription, l.credential, l.options)
	if err != nil {
		return Image{}, err
	}
	version := cmp.Or(from.Version, latest)
	if version == latest {
		answer, err := api.List(ctx, location, from.Publisher, from.Offer, from.SKU, nil)
		if err != nil {
			return Image{}, err
		}
		var names []string
		for _, found := range answer.VirtualMachineImageResourceArray {
			names = append(names, ptr.Deref(found.Name, ""))
		}
		if version = newest(names); version == "" {
			return Image{}, noImage("spec.image.marketplace", "the SKU %q has no versions in %q", from.SKU, location)
		}
	}
	answer, err := api.Get(ctx, location, from.Publisher, from.Offer, from.SKU, version, nil)
	if err != nil {
		return Image{}, err
	}
	found := Image{
		Reference: &armcompute.ImageReference{Publisher: &from.Publisher, Offer: &from.Offer, SKU: &from.SKU, Version: &version},
		ID:        ptr.Deref(answer.ID, ""),
	}
	if properties := answer.Properties; properties != nil {
		found.Architecture = string(ptr.Deref(properties.Architecture, ""))
		if plan := properties.Plan; plan != nil {
			found.Plan = &armcompute.Plan{Publisher: plan.Publisher, Product: plan.Product, Name: plan.Name}
		}
	}
	return found, nil
}

// gallery resolves the newest version that is in the location and not excluded from it, as Azure does.
func (l *Lookup) gallery(ctx context.Context, location string, from infrav1.AzureGalleryImage) (Image, error) {
	place := Place{cmp.Or(from.SubscriptionID, l.place.Subscription), from.ResourceGroup}
	definitions, err := armcompute.NewGalleryImagesClient(place.Subscription, l.credential, l.options)
	if err != nil {
		return Image{}, err
	}
	definition, err := definitions.Get(ctx, from.ResourceGroup, from.Name, from.Image, nil)
	if err != nil {
		return Image{}, err
	}
	versions, err := armcompute.NewGalleryImageVersionsClient(place.Subscription, l.credential, l.options)
	if err != nil {
		return Image{}, err
	}
	version := cmp.Or(from.Version, latest)
	if version == latest {
		var names []string
		for pages := versions.NewListByGalleryImagePager(from.ResourceGroup, from.Name, from.Image, nil); pages.More() && len(names) < maxVersions; {
			page, err := pages.NextPage(ctx)
			if err != nil {
				return Image{}, err
			}
			for _, found := range page.Value {
				if isLatestCandidate(found, location) {
					names = append(names, ptr.Deref(found.Name, ""))
				}
			}
		}
		if version = newest(names); version == "" {
			return Image{}, noImage("spec.image.gallery", "the image %q has no version in %q that is not excluded from latest", from.Image, location)
		}
	} else if _, err := versions.Get(ctx, from.ResourceGroup, from.Name, from.Image, version, nil); err != nil {
		return Image{}, err
	}
	id := place.ID("Microsoft.Compute/galleries", from.Name) + "/images/" + from.Image + "/versions/" + version
	found := Image{Reference: &armcompute.ImageReference{ID: &id}, ID: id}
	if definition.Properties != nil {
		found.Architecture = string(ptr.Deref(definition.Properties.Architecture, ""))
	}
	return found, nil
}

func isLatestCandidate(version *armcompute.GalleryImageVersion, location string) bool {
	if version.Properties == nil || ptr.Deref(version.Properties.ProvisioningState, "") != armcompute.GalleryProvisioningStateSucceeded {
		return false
	}
	publishing := version.Properties.PublishingProfile
	if publishing == nil {
		return true
	}
	replicated := len(publishing.TargetRegions) == 0 || slices.ContainsFunc(publishing.TargetRegions, func(region *armcompute.TargetRegion) bool {
		// A region has its display name here, such as West Europe.
		name := strings.ReplaceAll(ptr.Deref(region.Name, ""), " ", "")
		return strings.EqualFold(name, location) && !ptr.Deref(region.ExcludeFromLatest, false)
	})
	return replicated && !ptr.Deref(publishing.ExcludeFromLatest, false)
}

// community leaves the newest version to Azure.
func (l *Lookup) community(ctx context.Context, location string, from infrav1.AzureCommunityGalleryImage) (Image, error) {
	api, err := armcompute.NewCommunityGalleryImagesClient(l.place.Subscription, l.credential, l.options)
	if err != nil {
		return Image{}, err
	}
	answer, err := api.Get(ctx, location, from.Name, from.Image, nil)
	if err != nil {
		return Image{}, err
	}
	id := "/CommunityGalleries/" + from.Name + "/Images/" + from.Image + "/Versions/" + cmp.Or(from.Version, latest)
	found := Image{Reference: &armcompute.ImageReference{CommunityGalleryImageID: &id}, ID: id}
	if answer.Properties != nil {
		found.Architecture = string(ptr.Deref(answer.Properties.Architecture, ""))
	}
	return found, nil
}

var imageIDParts = []string{"", "subscriptions", "", "resourceGroups", "", "providers", "Microsoft.Compute", "images", ""}

// managed reads a managed image, whose API has no architecture.
func (l *Lookup) managed(ctx context.Context, id string) (Image, error) {
	parts := strings.Split(id, "/")
	if len(parts) != len(imageIDParts) {
		return Image{}, noImage("spec.image.id", "%q is no ID of an image", id)
	}
	api, err := armcompute.NewImagesClient(parts[2], l.credential, l.options)
	if err != nil {
		return Image{}, err
	}
	if _, err := api.Get(ctx, parts[4], parts[8], nil); err != nil {
		return Image{}, err
	}
	return Image{Reference: &armcompute.ImageReference{ID: &id}, ID: id}, nil
}

func noImage(field, format string, args ...any) error {
	return &driver.InvalidConfigurationError{Field: field, Err: fmt.Errorf(format, args...)}
}

// newest returns the highest version, compared number by number, or "" without any.
func newest(versions []string) string {
	return slices.MaxFunc(append(versions, ""), func(a, b string) int { return slices.Compare(numbers(a), numbers(b)) })
}

func numbers(version string) (all []uint64) {
	for part := range strings.SplitSeq(version, ".") {
		number, err := strconv.ParseUint(part, 10, 64)
		if err != nil {
			return all
		}
		all = append(all, number)
	}
	return all
}

// Size returns the size of a spec in its location.
func (l *Lookup) Size(ctx context.Context, spec infrav1.AzureMachineSpec) (*armcompute.ResourceSKU, error) {
	known, ok := l.sizes.Get(spec.Location)
	if !ok {
		read, err := l.readSizes(ctx, spec.Location)
		if err != nil {
			return nil, err
		}
		known = read
		l.sizes.Set(spec.Location, known)
	}
	if found := known[strings.ToLower(spec.VMSize)]; found != nil {
		return found, nil
	}
	return nil, &driver.InvalidConfigurationError{Field: "spec.vmSize", Err: fmt.Errorf("%q does not exist in %q, or is not offered to the subscription", spec.VMSize, spec.Location)}
}

// readSizes reads the sizes of a location that the subscription may use.
func (l *Lookup) readSizes(ctx context.Context, location string) (map[string]*armcompute.ResourceSKU, error) {
	api, err := armcompute.NewResourceSKUsClient(l.place.Subscription, l.credential, l.options)
	if err != nil {
		return nil, err
	}
	sizes := map[string]*armcompute.ResourceSKU{}
	for pages := api.NewListPager(&armcompute.ResourceSKUsClientListOptions{Filter: ptr.To("location eq '" + location + "'")}); pages.More(); {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, err
		}
		for _, sku := range page.Value {
			if ptr.Deref(sku.ResourceType, "") == "virtualMachines" && sku.Name != nil && !restricted(sku) {
				sizes[strings.ToLower(*sku.Name)] = &armcompute.ResourceSKU{Name: sku.Name, Capabilities: sku.Capabilities}
			}
		}
	}
	if len(sizes) == 0 {
		return nil, errors.New("Azure lists no sizes for the location") //nolint:staticcheck // it is a name
	}
	return sizes, nil
}

// restricted reports whether the subscription may not use a size anywhere in the location.
func restricted(sku *armcompute.ResourceSKU) bool {
	return slices.ContainsFunc(sku.Restrictions, func(r *armcompute.ResourceSKURestrictions) bool {
		return ptr.Deref(r.Type, "") == armcompute.ResourceSKURestrictionsTypeLocation
	})
}
