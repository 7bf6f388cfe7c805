// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package request

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	ecs "github.com/alibabacloud-go/ecs-20140526/v7/client"
	"github.com/alibabacloud-go/tea/dara"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/clock"

	infrav1 "drover.io/api/infrastructure/v1alpha1"
	"drover.io/infra-providers/driver"
	"drover.io/infra-providers/internal/lookup"
	"drover.io/runtime/expiring"
)

// The owners of images: Alibaba Cloud, and the account itself.
const (
	ownerSystem = "system"
	ownerSelf   = "self"
)

// systemFamily begins the families of Alibaba Cloud. No other account may have one that begins so.
const systemFamily = "acs:"

// DefaultOwner returns whose images are looked for, empty for an ID. Any account may share an image with any other, under any
// name and family but those of Alibaba Cloud, and ECS finds it if no owner is named.
func DefaultOwner(image infrav1.AlibabaImage) string {
	switch {
	case image.Name != "", strings.HasPrefix(image.Family, systemFamily):
		return ownerSystem
	case image.Family != "":
		return ownerSelf
	default:
		return ""
	}
}

// cacheTTL is how long an answer is cached: long enough for a burst of machines, short enough for a new image to be found soon.
const cacheTTL = time.Minute

// maxAnswers bounds the cached answers of an account.
const maxAnswers = 1000

// imagePageSize and maxImagePages bound a look-up of images.
const imagePageSize, maxImagePages = 100, 50

var (
	errNoImage = errors.New("no available image matches")
	errTooMany = fmt.Errorf("the owner has more than %d images: name the image by its ID or its family", imagePageSize*maxImagePages)
	errNoType  = errors.New("the region does not have this instance type")
)

// API lists the calls of ECS in use. Errors are those of package driver.
type API interface {
	DescribeImages(ctx context.Context, query *ecs.DescribeImagesRequest) (*ecs.DescribeImagesResponseBody, error)
	DescribeInstanceTypes(ctx context.Context, query *ecs.DescribeInstanceTypesRequest) (*ecs.DescribeInstanceTypesResponseBody, error)
}

// Lookup finds images and instance types.
type Lookup struct {
	api     API
	region  string
	answers expiring.Map[string, any]
}

// NewLookup returns a Lookup with an empty cache.
func NewLookup(api API, region string, clock clock.PassiveClock) *Lookup {
	l := &Lookup{api: api, region: region}
	l.answers.Clock, l.answers.TTL, l.answers.Max = clock, cacheTTL, maxAnswers
	return l
}

// Image returns the image of a spec: by its ID, or the newest one that is available of the family or the name.
func (l *Lookup) Image(ctx context.Context, spec infrav1.AlibabaMachineSpec) (*ecs.DescribeImagesResponseBodyImagesImage, error) {
	found, err := lookup.Cached(&l.answers, "image", spec.Image, func() (*ecs.DescribeImagesResponseBodyImagesImage, error) { return l.newestImage(ctx, spec.Image) })
	if err != nil {
		return nil, err
	}
	if found == nil {
		return nil, &driver.InvalidConfigurationError{Field: "spec.image", Err: errNoImage}
	}
	return found, nil
}

// newestImage reads all pages of a query and keeps only the newest image; nil where nothing matches. ECS matches names in part,
// so they are compared here.
func (l *Lookup) newestImage(ctx context.Context, want infrav1.AlibabaImage) (newest *ecs.DescribeImagesResponseBodyImagesImage, err error) {
	query := &ecs.DescribeImagesRequest{
		RegionId: &l.region, PageSize: dara.Int32(imagePageSize), Status: dara.String("Available"),
		ImageId: nonEmpty(want.ID), ImageFamily: nonEmpty(want.Family), ImageOwnerAlias: nonEmpty(want.Owner), ImageOwnerId: want.OwnerID,
	}
	for page := range int32(maxImagePages) {
		query.PageNumber = dara.Int32(page + 1)
		answer, err := l.api.DescribeImages(ctx, query)
		if err != nil {
			return nil, err
		}
		for _, image := range answer.Images.Image {
			if matches(want, image) && (newest == nil || byCreationTime(image, newest) > 0) {
				newest = image
			}
		}
		if len(answer.Images.Image) == 0 || (page+1)*imagePageSize >= dara.Int32Value(answer.TotalCount) {
			return newest, nil
		}
	}
	return nil, &driver.InvalidConfigurationError{Field: "spec.image", Err: errTooMany}
}

// matches reports whether an image is one that a spec names.
func matches(want infrav1.AlibabaImage, image *ecs.DescribeImagesResponseBodyImagesImage) bool {
	switch {
	case want.ID != "":
		return dara.StringValue(image.ImageId) == want.ID
	case want.Family != "":
		return dara.StringValue(image.ImageFamily) == want.Family
	default:
		return matchesPattern(want.Name, dara.StringValue(image.ImageName))
	}
}

// matchesPattern reports whether a name is that of a pattern in which * stands for any text.
func matchesPattern(pattern, name string) bool {
	parts := strings.Split(pattern, "*")
	if len(parts) == 1 {
		return pattern == name
	}
	rest, ok := strings.CutPrefix(name, parts[0])
	if !ok {
		return false
	}
	for _, part := range parts[1 : len(parts)-1] {
		_, after, found := strings.Cut(rest, part)
		if !found {
			return false
		}
		rest = after
	}
	return strings.HasSuffix(rest, parts[len(parts)-1])
}

// byCreationTime compares images by their times of creation, which ECS writes so that they sort as text.
func byCreationTime(a, b *ecs.DescribeImagesResponseBodyImagesImage) int {
	return cmp.Or(cmp.Compare(dara.StringValue(a.CreationTime), dara.StringValue(b.CreationTime)), cmp.Compare(dara.StringValue(a.ImageId), dara.StringValue(b.ImageId)))
}

// Architecture returns Kubernetes' name for the architecture of an image, empty when it has none.
func Architecture(of *ecs.DescribeImagesResponseBodyImagesImage) string {
	return map[string]string{"x86_64": "amd64", "arm64": "arm64"}[dara.StringValue(of.Architecture)]
}

// instanceType is what ECS publishes about an instance type.
type instanceType = ecs.DescribeInstanceTypesResponseBodyInstanceTypesInstanceType

// Capacity returns the capacity of an instance, from what ECS publishes about its type and image.
func (l *Lookup) Capacity(ctx context.Context, spec infrav1.AlibabaMachineSpec) (driver.Capacity, error) {
	found, err := lookup.Cached(&l.answers, "instance type", spec.InstanceType, func() (*instanceType, error) { return l.instanceType(ctx, spec.InstanceType) })
	if err != nil {
		return driver.Capacity{}, err
	}
	if found == nil {
		return driver.Capacity{}, &driver.InvalidConfigurationError{Field: "spec.instanceType", Err: errNoType}
	}
	image, err := l.Image(ctx, spec)
	if err != nil {
		return driver.Capacity{}, err
	}
	list := corev1.ResourceList{
		corev1.ResourceCPU:              *resource.NewQuantity(cpus(found, spec.CPU), resource.DecimalSI),
		corev1.ResourceMemory:           *resource.NewQuantity(int64(float64(dara.Float32Value(found.MemorySize))*(1<<30)), resource.BinarySI),
		corev1.ResourceEphemeralStorage: *resource.NewQuantity(systemDiskGiB(spec, image)<<30, resource.BinarySI),
	}
	if gpus := dara.Int32Value(found.GPUAmount); gpus > 0 {
		list[accelerator(dara.StringValue(found.GPUSpec))] = *resource.NewQuantity(int64(gpus), resource.DecimalSI)
	}
	delete(list, "")
	return driver.Capacity{Capacity: list, Architecture: architecture(found), OperatingSystem: "linux"}, nil
}

// cpus returns the number of virtual CPUs: the cores and threads that the spec chooses, or those of the type.
func cpus(found *instanceType, chosen infrav1.AlibabaCPU) int64 {
	usual := int64(dara.Int32Value(found.CpuCoreCount))
	threads, cores := int64(2), int64(0)
	if options := found.CpuOptions; options != nil {
		threads, cores = max(int64(dara.Int32Value(options.ThreadsPerCore)), 1), int64(dara.Int32Value(options.Core))
	}
	if chosen == (infrav1.AlibabaCPU{}) {
		return usual
	}
	if chosen.ThreadsPerCore != nil {
		threads = int64(*chosen.ThreadsPerCore)
	}
	if chosen.Cores != nil {
		cores = int64(*chosen.Cores)
	}
	if cores == 0 {
		return usual
	}
	return cores * threads
}

// systemDiskGiB returns the size of the system disk: that of the spec, or else 40 GiB, or the size of a larger image.
func systemDiskGiB(spec infrav1.AlibabaMachineSpec, image *ecs.DescribeImagesResponseBodyImagesImage) int64 {
	if spec.SystemDisk.SizeGiB != nil {
		return int64(*spec.SystemDisk.SizeGiB)
	}
	return int64(max(dara.Int32Value(image.Size), 40))
}

// accelerator returns the resource of the device plugin for a GPU, empty for one of an unknown vendor.
func accelerator(spec string) corev1.ResourceName {
	vendor, _, _ := strings.Cut(strings.ToUpper(spec), " ")
	return map[string]corev1.ResourceName{"NVIDIA": "nvidia.com/gpu", "AMD": "amd.com/gpu"}[vendor]
}

// architecture returns Kubernetes' name for the architecture of an instance type.
func architecture(of *instanceType) string {
	return map[string]string{"X86": "amd64", "ARM": "arm64"}[strings.ToUpper(dara.StringValue(of.CpuArchitecture))]
}

func (l *Lookup) instanceType(ctx context.Context, name string) (*instanceType, error) {
	answer, err := l.api.DescribeInstanceTypes(ctx, &ecs.DescribeInstanceTypesRequest{InstanceTypes: []*string{&name}})
	if err != nil {
		return nil, err
	}
	for _, found := range answer.InstanceTypes.InstanceType {
		if dara.StringValue(found.InstanceTypeId) == name {
			return found, nil
		}
	}
	return nil, nil //nolint:nilnil // there is none
}
