// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package yandexfake

import (
	"strings"
	"testing"
	"time"

	"github.com/yandex-cloud/go-genproto/yandex/cloud/compute/v1"
	"google.golang.org/protobuf/types/known/durationpb"
)

func validInstance() *compute.CreateInstanceRequest {
	return &compute.CreateInstanceRequest{
		FolderId: Folder, Name: "worker-1", ZoneId: ZoneA, PlatformId: "standard-v3", Labels: map[string]string{"a": "b"},
		ResourcesSpec:         &compute.ResourcesSpec{Cores: 2, Memory: 4 << 30},
		BootDiskSpec:          &compute.AttachedDiskSpec{Disk: &compute.AttachedDiskSpec_DiskId{DiskId: "fhd1"}},
		NetworkInterfaceSpecs: []*compute.NetworkInterfaceSpec{{SubnetId: SubnetA}},
	}
}

// TestRequestsAreCheckedAgainstTheDescriptors: each rule of the API is applied.
func TestRequestsAreCheckedAgainstTheDescriptors(t *testing.T) {
	t.Parallel()
	if found := violations(validInstance().ProtoReflect()); len(found) > 0 {
		t.Fatalf("a valid request has the violations %q", found)
	}
	for name, test := range map[string]struct {
		change func(*compute.CreateInstanceRequest)
		want   string
	}{
		"a missing field":      {func(r *compute.CreateInstanceRequest) { r.ZoneId = "" }, "zone_id: it is required"},
		"a missing message":    {func(r *compute.CreateInstanceRequest) { r.BootDiskSpec = nil }, "boot_disk_spec: it is required"},
		"a pattern":            {func(r *compute.CreateInstanceRequest) { r.Name = "Worker" }, "name: "},
		"a length":             {func(r *compute.CreateInstanceRequest) { r.FolderId = strings.Repeat("a", 51) }, "folder_id: the length 51"},
		"a value of a list":    {func(r *compute.CreateInstanceRequest) { r.ResourcesSpec.Cores = 3 }, "cores: the value 3"},
		"a maximum":            {func(r *compute.CreateInstanceRequest) { r.ResourcesSpec.Memory = 1 << 50 }, "memory: the value"},
		"a field of a list":    {func(r *compute.CreateInstanceRequest) { r.NetworkInterfaceSpecs[0].SubnetId = "" }, "subnet_id: it is required"},
		"a choice":             {func(r *compute.CreateInstanceRequest) { r.BootDiskSpec.Disk = nil }, "disk: exactly one"},
		"the key of a label":   {func(r *compute.CreateInstanceRequest) { r.Labels = map[string]string{"A": "b"} }, "labels: "},
		"the value of a label": {func(r *compute.CreateInstanceRequest) { r.Labels = map[string]string{"a": "B"} }, "labels: "},
		"a duration":           {func(r *compute.CreateInstanceRequest) { r.MaintenanceGracePeriod = durationpb.New(48 * time.Hour) }, "the duration"},
		"the size of a list":   {func(r *compute.CreateInstanceRequest) { r.SecondaryDiskSpecs = make([]*compute.AttachedDiskSpec, 4) }, "the size 4"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			request := validInstance()
			test.change(request)
			if found := strings.Join(violations(request.ProtoReflect()), "; "); !strings.Contains(found, test.want) {
				t.Errorf("got %q, want %q", found, test.want)
			}
		})
	}
}
