// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package request

import (
	"context"
	"fmt"
	"strings"
	"time"

	compute "google.golang.org/api/compute/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/clock"

	infrav1 "drover.io/api/infrastructure/v1alpha1"
	"drover.io/infra-providers/driver"
	"drover.io/infra-providers/internal/lookup"
	"drover.io/runtime/expiring"
)

// cacheTTL is how long an answer is cached: long enough for a burst of machines, short enough for a new image to be found
// soon.
const cacheTTL = time.Minute

// maxAnswers bounds the cached answers of a project.
const maxAnswers = 1000

// Lookup finds what a spec names. Errors are the SDK's own or of package driver.
type Lookup struct {
	api     *compute.Service
	answers expiring.Map[string, any]
}

// NewLookup returns a Lookup with an empty cache.
func NewLookup(api *compute.Service, clock clock.PassiveClock) *Lookup {
	l := &Lookup{api: api}
	l.answers.Clock, l.answers.TTL, l.answers.Max = clock, cacheTTL, maxAnswers
	return l
}

// Image returns the image of a spec: by its name, or the newest one of its family.
func (l *Lookup) Image(ctx context.Context, spec infrav1.GoogleMachineSpec) (*compute.Image, error) {
	project := spec.Image.Project
	if project == "" {
		project = spec.Project
	}
	found, err := lookup.Cached(&l.answers, "image", []string{project, spec.Image.Name, spec.Image.Family}, func() (*compute.Image, error) {
		if spec.Image.Family != "" {
			return l.api.Images.GetFromFamily(project, spec.Image.Family).Context(ctx).Do()
		}
		return l.api.Images.Get(project, spec.Image.Name).Context(ctx).Do()
	})
	if err != nil {
		return nil, err
	}
	if found.Status != "READY" || found.Deprecated != nil && (found.Deprecated.State == "OBSOLETE" || found.Deprecated.State == "DELETED") {
		state := found.Status
		if found.Deprecated != nil && found.Status == "READY" {
			state = found.Deprecated.State
		}
		return nil, &driver.InvalidConfigurationError{Field: "spec.image", Err: fmt.Errorf("the image %q is %s", found.Name, state)}
	}
	return found, nil
}

// ImageName returns the partial URL of an image.
func ImageName(image *compute.Image) string { return Partial(image.SelfLink) }

// Partial returns a URL of the API from its project on.
func Partial(url string) string {
	if at := strings.Index(url, "projects/"); at >= 0 {
		return url[at:]
	}
	return url
}

// Last returns the last part of a URL of the API, which is the name of a resource.
func Last(url string) string { return url[strings.LastIndex(url, "/")+1:] }

// Architecture returns Kubernetes' name for an architecture, empty for any other.
func Architecture(of string) string {
	return map[string]string{"X86_64": "amd64", "ARM64": "arm64"}[of]
}

// MachineType returns the machine type of a spec in a zone.
func (l *Lookup) MachineType(ctx context.Context, spec infrav1.GoogleMachineSpec, zone string) (*compute.MachineType, error) {
	return lookup.Cached(&l.answers, "machine type", []string{zone, spec.MachineType}, func() (*compute.MachineType, error) {
		return l.api.MachineTypes.Get(spec.Project, zone, spec.MachineType).Context(ctx).Do()
	})
}

// Capacity returns the capacity of an instance, from what Compute Engine publishes about its machine type and image.
func Capacity(spec infrav1.GoogleMachineSpec, of *compute.MachineType, image *compute.Image) driver.Capacity {
	list := corev1.ResourceList{
		corev1.ResourceCPU:              *resource.NewQuantity(of.GuestCpus, resource.DecimalSI),
		corev1.ResourceMemory:           *resource.NewQuantity(of.MemoryMb<<20, resource.BinarySI),
		corev1.ResourceEphemeralStorage: *resource.NewQuantity(bootSize(spec, image)<<30, resource.BinarySI),
	}
	if spec.AdvancedMachineFeatures.ThreadsPerCore != nil && *spec.AdvancedMachineFeatures.ThreadsPerCore == 1 && Architecture(of.Architecture) != "arm64" {
		list[corev1.ResourceCPU] = *resource.NewQuantity(max(1, of.GuestCpus/2), resource.DecimalSI)
	}
	gpus := int64(0)
	for _, bundled := range of.Accelerators {
		gpus += gpuCount(bundled.GuestAcceleratorType, bundled.GuestAcceleratorCount)
	}
	for _, attached := range spec.GuestAccelerators {
		gpus += gpuCount(attached.Type, int64(attached.Count))
	}
	if gpus > 0 {
		list["nvidia.com/gpu"] = *resource.NewQuantity(gpus, resource.DecimalSI)
	}
	architecture := Architecture(of.Architecture)
	if architecture == "" {
		architecture = Architecture(image.Architecture)
	}
	return driver.Capacity{Capacity: list, Architecture: architecture, OperatingSystem: "linux"}
}

// gpuCount is zero for accelerators that are no GPUs, such as TPUs.
func gpuCount(kind string, count int64) int64 {
	if !strings.HasPrefix(kind, "nvidia-") {
		return 0
	}
	return count
}

func bootSize(spec infrav1.GoogleMachineSpec, image *compute.Image) int64 {
	if spec.BootDisk.SizeGB != nil {
		return *spec.BootDisk.SizeGB
	}
	return image.DiskSizeGb
}
