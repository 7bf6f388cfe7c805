// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package launch_test

import (
	"context"
	"fmt"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	clocktesting "k8s.io/utils/clock/testing"

	infrav1 "drover.io/api/infrastructure/v1alpha1"
	"drover.io/infra-providers/aws/launch"
	"drover.io/infra-providers/driver"
)

// public is EC2 with the public images of a region; each decoded image has about a KiB, as a real one has at least.
type public struct {
	launch.API
	images int
	// endless is true for an answer whose every page has a next one.
	endless bool
}

func (p public) DescribeImages(_ context.Context, in *ec2.DescribeImagesInput, _ ...func(*ec2.Options)) (*ec2.DescribeImagesOutput, error) {
	out := &ec2.DescribeImagesOutput{}
	from, to := 0, p.images
	if in.NextToken != nil {
		from, _ = strconv.Atoi(*in.NextToken)
	}
	if in.MaxResults != nil {
		to = min(to, from+int(*in.MaxResults))
	}
	if next := strconv.Itoa(to); to < p.images || p.endless {
		out.NextToken = &next
	}
	for i := from; i < to; i++ {
		id, text, created := fmt.Sprintf("ami-%017x", i), strings.Repeat("x", 700), fmt.Sprintf("2026-01-01T00:00:%05d", i)
		out.Images = append(out.Images, types.Image{ImageId: &id, Description: &text, CreationDate: &created, State: types.ImageStateAvailable})
	}
	return out, nil
}

// A tenant creates ten AWSMachineTemplates with spec.image.name "*", "*?", "*??" ... and owners amazon, aws-marketplace.
func TestImagesOfOneTenantAreBounded(t *testing.T) {
	l := launch.NewLookup(public{images: 40_000}, clocktesting.NewFakePassiveClock(time.Now()))
	live := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc >> 20
	}
	before := live()
	for i := range 10 {
		newest, err := l.Image(t.Context(), imagesOf("*"+strings.Repeat("?", i)))
		if err != nil {
			t.Fatal(err)
		}
		if want := fmt.Sprintf("ami-%017x", 39_999); *newest.ImageId != want {
			t.Fatalf("got %s, want the newest image of all pages, %s", *newest.ImageId, want)
		}
	}
	if after := live(); after > before+128 {
		t.Errorf("%d MiB are kept for ten specs of one tenant", int(after)-int(before))
	}
	runtime.KeepAlive(l)
}

// TestListOfImagesWithoutEndIsAborted with an error that names the field.
func TestListOfImagesWithoutEndIsAborted(t *testing.T) {
	t.Parallel()
	l := launch.NewLookup(public{images: 10, endless: true}, clocktesting.NewFakePassiveClock(time.Now()))
	if _, err := l.Image(t.Context(), imagesOf("*")); !driver.IsInvalidConfiguration(err) {
		t.Errorf("got %v, want an InvalidConfigurationError", err)
	}
}

func imagesOf(name string) infrav1.AWSMachineSpec {
	return infrav1.AWSMachineSpec{Image: infrav1.AWSImage{Name: name, Owners: []string{"amazon", "aws-marketplace"}}}
}
