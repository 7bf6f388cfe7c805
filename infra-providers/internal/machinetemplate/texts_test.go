// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package machinetemplate_test

import (
	"context"
	"math"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	infrav1 "drover.io/api/infrastructure/v1alpha1"
	"drover.io/infra-providers/driver"
	"drover.io/infra-providers/driver/fake"
)

// chosen is a cloud that chooses each text and number of an offer.
type chosen struct {
	driver.Driver[fake.Config]
	size  driver.Capacity
	image driver.Image
}

func (c chosen) Capacity(context.Context, fake.Config) (driver.Capacity, error) { return c.size, nil }

func (c chosen) FindImage(context.Context, fake.Config) (driver.Image, error) { return c.image, nil }

// TestOffersOfACloudDoNotStopTheStatus has names longer than the API server accepts, and numbers that no instance has.
func TestOffersOfACloudDoNotStopTheStatus(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 4<<20)
	for name, cloud := range map[string]chosen{
		"a long name of the operating system": {size: driver.Capacity{OperatingSystem: long}},
		"an operating system of 65 bytes":     {size: driver.Capacity{OperatingSystem: long[:65]}},
		"a long name of the image":            {image: driver.Image{ID: long}},
		"the least memory":                    {size: driver.Capacity{Capacity: corev1.ResourceList{corev1.ResourceMemory: *resource.NewQuantity(math.MinInt64, resource.BinarySI)}}},
		"the most memory":                     {size: driver.Capacity{Capacity: corev1.ResourceList{corev1.ResourceMemory: *resource.NewQuantity(math.MaxInt64, resource.BinarySI)}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newFixture(t, cloud)
			template, err := s.template(infrav1.SimMachineSpec{InstanceType: "small"}, nil)
			if err != nil {
				t.Fatalf("the status is not written: %.300v", err)
			}
			if ready := readyCondition(template); ready.Reason != infrav1.ValidReason {
				t.Errorf("Ready is %.300v", ready)
			}
		})
	}
}
