// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package aws_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	infrav1 "drover.io/api/infrastructure/v1alpha1"
	"drover.io/infra-providers/aws/awsfake"
	"drover.io/infra-providers/internal/testenv"
)

// TestTheSchemaDefaults proves that the API server itself asks for IMDSv2.
func TestTheSchemaDefaults(t *testing.T) {
	t.Parallel()
	machine := stored(t, spec(nothing))
	want := spec(nothing)
	want.Metadata = infrav1.AWSMetadata{Tokens: "required", HopLimit: ptr.To[int32](1), Endpoint: "enabled"}
	if diff := cmp.Diff(want, machine.Spec); diff != "" {
		t.Errorf("spec (-want +got):\n%s", diff)
	}
}

func TestTheSchemaTakesEverything(t *testing.T) {
	t.Parallel()
	want := spec(everything)
	machine := stored(t, want)
	if diff := cmp.Diff(want, machine.Spec); diff != "" {
		t.Errorf("spec (-want +got):\n%s", diff)
	}
	template := &infrav1.AWSMachineTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: machine.Namespace, Name: "t"}}
	template.Spec.Template.Spec = want
	cluster, _ := started()
	if err := cluster.Client.Create(t.Context(), template); err != nil {
		t.Fatal(err)
	}
	template.Spec.Template.Spec.InstanceType = "m7i.xlarge"
	wantRefusal(t, cluster.Client.Update(t.Context(), template), "template is immutable")
}

func TestTheSchemaRefuses(t *testing.T) {
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
		"an image of any owner":        {func(s *infrav1.AWSMachineSpec) { s.Image = infrav1.AWSImage{Name: "x"} }, "name needs owners"},
		"a subnet by ID and filters":   {func(s *infrav1.AWSMachineSpec) { s.Subnet.Filters = selector("a", "b").Filters }, "exactly one of id and filters"},
		"a public IP without a subnet": {func(s *infrav1.AWSMachineSpec) { s.Subnet, s.PublicIP = infrav1.AWSSelector{}, ptr.To(true) }, "need subnet"},
		"a public IP with more networks": {func(s *infrav1.AWSMachineSpec) {
			s.PublicIP, s.NetworkInterfaces = ptr.To(true), []infrav1.AWSNetworkInterface{{Subnet: s.Subnet}}
		}, "gives no public IP"},
		"a root volume of no image": {func(s *infrav1.AWSMachineSpec) {
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
		"a partition of no group": {func(s *infrav1.AWSMachineSpec) { s.Placement.Partition = ptr.To[int32](1) }, "partition needs group"},
		"a host of no tenancy":    {func(s *infrav1.AWSMachineSpec) { s.Placement.HostID = "h-1" }, "hostID needs tenancy"},
		"two kinds of reservation": {func(s *infrav1.AWSMachineSpec) {
			s.CapacityReservation = infrav1.AWSCapacityReservation{ID: "cr-1", Preference: "open"}
		}, "exactly one of id, resourceGroupARN"},
		"a tag of ours":              {func(s *infrav1.AWSMachineSpec) { s.Tags = map[string]string{"drover.io/machine-uid": "x"} }, "must not begin with"},
		"a tag of AWS":               {func(s *infrav1.AWSMachineSpec) { s.Tags = map[string]string{"aws:x": "x"} }, "must not begin with"},
		"a price in words":           {func(s *infrav1.AWSMachineSpec) { s.Spot = &infrav1.AWSSpot{MaxPrice: "cheap"} }, "spec.spot.maxPrice"},
		"a fallback to another moon": {func(s *infrav1.AWSMachineSpec) { s.Fallbacks = []infrav1.AWSFallback{{Market: "Moon"}} }, "spec.fallbacks[0].market"},
		"optional tokens misspelt":   {func(s *infrav1.AWSMachineSpec) { s.Metadata.Tokens = "maybe" }, "spec.metadata.tokens"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cluster, namespace := somewhere(t)
			machine := &infrav1.AWSMachine{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "m"}, Spec: spec(test.change)}
			wantRefusal(t, cluster.Client.Create(t.Context(), machine), test.refuse)
		})
	}
}

// TestTheSpecIsImmutable changes, adds and removes.
func TestTheSpecIsImmutable(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		from   func(*infrav1.AWSMachineSpec)
		change func(*infrav1.AWSMachineSpec)
		refuse string
	}{
		"lets providerID be set":   {nothing, func(s *infrav1.AWSMachineSpec) { s.ProviderID = "aws:///a/i-1" }, ""},
		"keeps providerID":         {func(s *infrav1.AWSMachineSpec) { s.ProviderID = "aws:///a/i-1" }, func(s *infrav1.AWSMachineSpec) { s.ProviderID = "aws:///a/i-2" }, "providerID is set once"},
		"keeps instanceType":       {nothing, func(s *infrav1.AWSMachineSpec) { s.InstanceType = "m7i.xlarge" }, "instanceType is immutable"},
		"keeps region":             {nothing, func(s *infrav1.AWSMachineSpec) { s.Region = "other" }, "region is immutable"},
		"keeps image":              {nothing, func(s *infrav1.AWSMachineSpec) { s.Image.ID = awsfake.OldImage }, "image is immutable"},
		"keeps metadata":           {nothing, func(s *infrav1.AWSMachineSpec) { s.Metadata.HopLimit = ptr.To[int32](2) }, "metadata is immutable"},
		"does not add a zone":      {nothing, func(s *infrav1.AWSMachineSpec) { s.Zone = "a" }, "zone is immutable"},
		"does not drop groups":     {nothing, func(s *infrav1.AWSMachineSpec) { s.SecurityGroups = nil }, "securityGroups are immutable"},
		"does not add tags":        {nothing, func(s *infrav1.AWSMachineSpec) { s.Tags = map[string]string{"a": "b"} }, "tags are immutable"},
		"does not change tags":     {everything, func(s *infrav1.AWSMachineSpec) { s.Tags = map[string]string{"a": "b"} }, "tags are immutable"},
		"does not drop spot":       {everything, func(s *infrav1.AWSMachineSpec) { s.Spot = nil }, "spot is immutable"},
		"does not change volumes":  {everything, func(s *infrav1.AWSMachineSpec) { s.Volumes[0].SizeGiB = ptr.To[int32](99) }, "volumes are immutable"},
		"does not add fallbacks":   {everything, func(s *infrav1.AWSMachineSpec) { s.Fallbacks = []infrav1.AWSFallback{{Market: "OnDemand"}} }, "fallbacks are immutable"},
		"does not add credentials": {nothing, func(s *infrav1.AWSMachineSpec) { s.CredentialsSecretName = "x" }, "credentialsSecretName is immutable"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			machine := stored(t, spec(test.from))
			test.change(&machine.Spec)
			cluster, _ := started()
			wantRefusal(t, cluster.Client.Update(t.Context(), machine), test.refuse)
		})
	}
}

func somewhere(t *testing.T) (*testenv.Cluster, string) {
	t.Helper()
	cluster, err := started()
	if err != nil {
		t.Fatal(err)
	}
	namespace, err := cluster.Namespace(t.Context(), "schema")
	if err != nil {
		t.Fatal(err)
	}
	return cluster, namespace
}

func stored(t *testing.T, spec infrav1.AWSMachineSpec) *infrav1.AWSMachine {
	t.Helper()
	cluster, namespace := somewhere(t)
	machine := &infrav1.AWSMachine{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "m"}, Spec: spec}
	if err := cluster.Client.Create(t.Context(), machine); err != nil {
		t.Fatal(err)
	}
	return machine
}

// wantRefusal wants an Invalid error that names what is wrong, or none.
func wantRefusal(t *testing.T, err error, says string) {
	t.Helper()
	if says == "" && err == nil {
		return
	}
	if says == "" || !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), says) {
		t.Errorf("got %v, want a refusal that says %q", err, says)
	}
}
