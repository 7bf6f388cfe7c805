// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package aws_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	infrav1 "drover.io/api/infrastructure/v1alpha1"
	"drover.io/infra-providers/aws/awsfake"
	"drover.io/infra-providers/internal/testenv"
)

// TestDefaults proves that the API server defaults to IMDSv2.
func TestDefaults(t *testing.T) {
	t.Parallel()
	machine := testenv.Create(t, shared, newMachine("m", newSpec(unchanged)))
	want := newSpec(unchanged)
	want.Metadata = infrav1.AWSMetadata{Tokens: "required", HopLimit: ptr.To[int32](1), Endpoint: "enabled"}
	if diff := cmp.Diff(want, machine.Spec); diff != "" {
		t.Errorf("spec (-want +got):\n%s", diff)
	}
}

func TestAllFieldsAreValid(t *testing.T) {
	t.Parallel()
	want := newSpec(allFields)
	machine := testenv.Create(t, shared, newMachine("m", want))
	if diff := cmp.Diff(want, machine.Spec); diff != "" {
		t.Errorf("spec (-want +got):\n%s", diff)
	}
	template := &infrav1.AWSMachineTemplate{ObjectMeta: metav1.ObjectMeta{Name: "t"}}
	template.Spec.Template.Spec = want
	testenv.Create(t, shared, template)
	cluster := shared.Cluster(t)
	template.Spec.Template.Spec.InstanceType = "m7i.xlarge"
	testenv.WantRefusal(t, cluster.Client.Update(t.Context(), template), "template is immutable")
}

func TestInvalidSpecsAreRefused(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		change func(*infrav1.AWSMachineSpec)
		refuse string
	}{
		"no region":                    {func(s *infrav1.AWSMachineSpec) { s.Region = "" }, "spec.region"},
		"no instance type":             {func(s *infrav1.AWSMachineSpec) { s.InstanceType = "" }, "spec.instanceType"},
		"a malformed instance type":    {func(s *infrav1.AWSMachineSpec) { s.InstanceType = "large" }, "spec.instanceType"},
		"neither image nor template":   {func(s *infrav1.AWSMachineSpec) { s.Image = infrav1.AWSImage{} }, "one of image and launchTemplate"},
		"an image by ID and name":      {func(s *infrav1.AWSMachineSpec) { s.Image.Name, s.Image.Owners = "x", []string{"self"} }, "exactly one of id and name"},
		"an image of any owner":        {func(s *infrav1.AWSMachineSpec) { s.Image = infrav1.AWSImage{Name: "x"} }, "name and owners must be set together"},
		"a subnet by ID and filters":   {func(s *infrav1.AWSMachineSpec) { s.Subnet.Filters = selector("a", "b").Filters }, "exactly one of id and filters"},
		"a public IP without a subnet": {func(s *infrav1.AWSMachineSpec) { s.Subnet, s.PublicIP = infrav1.AWSSelector{}, ptr.To(true) }, "need subnet"},
		"a public IP with more networks": {func(s *infrav1.AWSMachineSpec) {
			s.PublicIP, s.NetworkInterfaces = ptr.To(true), []infrav1.AWSNetworkInterface{{Subnet: s.Subnet}}
		}, "gives no public IP"},
		"a root volume without an image": {func(s *infrav1.AWSMachineSpec) {
			s.Image, s.LaunchTemplate.Name, s.RootVolume.Type = infrav1.AWSImage{}, "nodes", "gp3"
		}, "rootVolume needs image"},
		"iops of a gp2 volume": {func(s *infrav1.AWSMachineSpec) {
			s.RootVolume = infrav1.AWSVolume{Type: "gp2", IOPS: ptr.To[int32](200)}
		}, "iops needs type"},
		"an io2 volume without iops": {func(s *infrav1.AWSMachineSpec) { s.RootVolume.Type = "io2" }, "need iops"},
		"throughput of an io2 volume": {func(s *infrav1.AWSMachineSpec) {
			s.RootVolume = infrav1.AWSVolume{Type: "io2", IOPS: ptr.To[int32](200), ThroughputMiBps: ptr.To[int32](200)}
		}, "throughputMiBps needs"},
		"a key without encryption": {func(s *infrav1.AWSMachineSpec) {
			s.RootVolume = infrav1.AWSVolume{KMSKeyID: "k", Encrypted: ptr.To(false)}
		}, "kmsKeyID encrypts"},
		"a further volume without size": {func(s *infrav1.AWSMachineSpec) { s.Volumes = []infrav1.AWSDataVolume{{DeviceName: "/dev/sdf"}} }, "one of sizeGiB and snapshotID"},
		"a further gp2 volume's iops": {func(s *infrav1.AWSMachineSpec) {
			s.Volumes = []infrav1.AWSDataVolume{{DeviceName: "/dev/sdf", AWSVolume: infrav1.AWSVolume{SizeGiB: ptr.To[int32](1), Type: "gp2", IOPS: ptr.To[int32](200)}}}
		}, "iops needs type"},
		"a partition without a group": {func(s *infrav1.AWSMachineSpec) { s.Placement.Partition = ptr.To[int32](1) }, "partition needs group"},
		"a host without a tenancy":    {func(s *infrav1.AWSMachineSpec) { s.Placement.HostID = "h-1" }, "hostID needs tenancy"},
		"two kinds of reservation": {func(s *infrav1.AWSMachineSpec) {
			s.CapacityReservation = infrav1.AWSCapacityReservation{ID: "cr-1", Preference: "open"}
		}, "exactly one of id, resourceGroupARN"},
		"a tag of Drover":                 {func(s *infrav1.AWSMachineSpec) { s.Tags = map[string]string{"drover.io/machine-uid": "x"} }, "must not begin with"},
		"a tag of AWS":                    {func(s *infrav1.AWSMachineSpec) { s.Tags = map[string]string{"aws:x": "x"} }, "must not begin with"},
		"a price that is not a number":    {func(s *infrav1.AWSMachineSpec) { s.Spot = &infrav1.AWSSpot{MaxPrice: "cheap"} }, "spec.spot.maxPrice"},
		"an unknown market of a fallback": {func(s *infrav1.AWSMachineSpec) { s.Fallbacks = []infrav1.AWSFallback{{Market: "Unknown"}} }, "spec.fallbacks[0].market"},
		"optional tokens misspelt":        {func(s *infrav1.AWSMachineSpec) { s.Metadata.Tokens = "maybe" }, "spec.metadata.tokens"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cluster, namespace := shared.Namespace(t)
			machine := &infrav1.AWSMachine{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "m"}, Spec: newSpec(test.change)}
			testenv.WantRefusal(t, cluster.Client.Create(t.Context(), machine), test.refuse)
		})
	}
}

// TestSpecIsImmutable changes, adds and removes.
func TestSpecIsImmutable(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		from   func(*infrav1.AWSMachineSpec)
		change func(*infrav1.AWSMachineSpec)
		refuse string
	}{
		"sets providerID":          {unchanged, func(s *infrav1.AWSMachineSpec) { s.ProviderID = "aws:///a/i-1" }, ""},
		"keeps providerID":         {func(s *infrav1.AWSMachineSpec) { s.ProviderID = "aws:///a/i-1" }, func(s *infrav1.AWSMachineSpec) { s.ProviderID = "aws:///a/i-2" }, "providerID is set once"},
		"keeps instanceType":       {unchanged, func(s *infrav1.AWSMachineSpec) { s.InstanceType = "m7i.xlarge" }, "instanceType is immutable"},
		"keeps region":             {unchanged, func(s *infrav1.AWSMachineSpec) { s.Region = "other" }, "region is immutable"},
		"keeps image":              {unchanged, func(s *infrav1.AWSMachineSpec) { s.Image.ID = awsfake.OldImage }, "image is immutable"},
		"keeps metadata":           {unchanged, func(s *infrav1.AWSMachineSpec) { s.Metadata.HopLimit = ptr.To[int32](2) }, "metadata is immutable"},
		"does not add a zone":      {unchanged, func(s *infrav1.AWSMachineSpec) { s.Zone = "a" }, "zone is immutable"},
		"does not drop groups":     {unchanged, func(s *infrav1.AWSMachineSpec) { s.SecurityGroups = nil }, "securityGroups are immutable"},
		"does not add tags":        {unchanged, func(s *infrav1.AWSMachineSpec) { s.Tags = map[string]string{"a": "b"} }, "tags are immutable"},
		"does not change tags":     {allFields, func(s *infrav1.AWSMachineSpec) { s.Tags = map[string]string{"a": "b"} }, "tags are immutable"},
		"does not drop spot":       {allFields, func(s *infrav1.AWSMachineSpec) { s.Spot = nil }, "spot is immutable"},
		"does not change volumes":  {allFields, func(s *infrav1.AWSMachineSpec) { s.Volumes[0].SizeGiB = ptr.To[int32](99) }, "volumes are immutable"},
		"does not add fallbacks":   {allFields, func(s *infrav1.AWSMachineSpec) { s.Fallbacks = []infrav1.AWSFallback{{Market: "OnDemand"}} }, "fallbacks are immutable"},
		"does not add credentials": {unchanged, func(s *infrav1.AWSMachineSpec) { s.CredentialsSecretName = "x" }, "credentialsSecretName is immutable"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			machine := testenv.Create(t, shared, newMachine("m", newSpec(test.from)))
			test.change(&machine.Spec)
			cluster := shared.Cluster(t)
			testenv.WantRefusal(t, cluster.Client.Update(t.Context(), machine), test.refuse)
		})
	}
}
