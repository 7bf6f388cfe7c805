// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package request

import (
	"context"
	"fmt"
	"time"

	"github.com/yandex-cloud/go-genproto/yandex/cloud/compute/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"

	infrav1 "drover.io/api/infrastructure/v1alpha1"
	"drover.io/infra-providers/driver"
	"drover.io/runtime/expiring"
)

// cacheTTL is how long an answer is cached: long enough for a burst of machines, short enough for a new image to be found
// soon.
const cacheTTL = time.Minute

// maxAnswers bounds the cached answers of a folder.
const maxAnswers = 1000

// Lookup finds what a spec names. Errors are the API's own or of package driver.
type Lookup struct {
	api     compute.ImageServiceClient
	answers expiring.Map[string, *compute.Image]
}

// NewLookup returns a Lookup with an empty cache.
func NewLookup(api compute.ImageServiceClient, clock clock.PassiveClock) *Lookup {
	l := &Lookup{api: api}
	l.answers.Clock, l.answers.TTL, l.answers.Max = clock, cacheTTL, maxAnswers
	return l
}

// Image returns the image of a spec: by its ID, or the newest one of its family.
func (l *Lookup) Image(ctx context.Context, spec infrav1.YandexMachineSpec) (*compute.Image, error) {
	from := spec.Image
	key := fmt.Sprintf("%s %s %s", from.ID, from.FolderID, from.Family)
	found, ok := l.answers.Get(key)
	if !ok {
		var err error
		if from.ID != "" {
			found, err = l.api.Get(ctx, &compute.GetImageRequest{ImageId: from.ID})
		} else {
			found, err = l.api.GetLatestByFamily(ctx, &compute.GetImageLatestByFamilyRequest{FolderId: from.FolderID, Family: from.Family})
		}
		if err != nil {
			return nil, err
		}
		l.answers.Set(key, found)
	}
	if found.Status != compute.Image_READY {
		return nil, &driver.InvalidConfigurationError{Field: "spec.image", Err: fmt.Errorf("the image %q is %s", found.Id, found.Status)}
	}
	return found, nil
}

// Architecture is that of all platforms of Compute Cloud.
const Architecture = "amd64"

// Capacity returns the capacity of an instance, which its spec has.
func Capacity(spec infrav1.YandexMachineSpec, image *compute.Image) driver.Capacity {
	disk := image.MinDiskSize
	if spec.BootDisk.SizeGiB != nil {
		disk = *spec.BootDisk.SizeGiB << 30
	}
	list := corev1.ResourceList{
		corev1.ResourceCPU:              *resource.NewQuantity(spec.Cores, resource.DecimalSI),
		corev1.ResourceMemory:           *resource.NewQuantity(spec.MemoryMiB<<20, resource.BinarySI),
		corev1.ResourceEphemeralStorage: *resource.NewQuantity(disk, resource.BinarySI),
	}
	if gpus := ptr.Deref(spec.GPUs, 0); gpus > 0 {
		list["nvidia.com/gpu"] = *resource.NewQuantity(gpus, resource.DecimalSI)
	}
	return driver.Capacity{Capacity: list, Architecture: Architecture, OperatingSystem: "linux"}
}
