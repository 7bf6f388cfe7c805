// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package aws_test

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"io"
	"maps"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	infrav1 "drover.io/api/infrastructure/v1alpha1"
	"drover.io/infra-providers/aws"
	"drover.io/infra-providers/aws/awsfake"
	"drover.io/infra-providers/driver"
)

// allFields sets every field that can be combined with the others.
func allFields(s *infrav1.AWSMachineSpec) {
	s.Image = infrav1.AWSImage{Name: "ubuntu/noble-24.04-*", Owners: []string{awsfake.Owner}, Architecture: "amd64"}
	s.LaunchTemplate = infrav1.AWSLaunchTemplate{Name: "nodes", Version: "3"}
	s.Subnet = selector("tag:role", "nodes")
	s.Zone = awsfake.Region + "a"
	s.SecurityGroups = []infrav1.AWSSelector{selector("tag:role", "nodes"), {ID: "sg-00000003"}}
	s.IPv6AddressCount = ptr.To[int32](2)
	s.NetworkInterfaces = []infrav1.AWSNetworkInterface{{Subnet: infrav1.AWSSelector{ID: awsfake.SubnetA}, Type: "efa", NetworkCardIndex: ptr.To[int32](1)}}
	s.InstanceProfile = "arn:aws:iam::1:instance-profile/nodes"
	s.KeyName = "admin"
	s.Spot = &infrav1.AWSSpot{MaxPrice: "0.25"}
	s.RootVolume = infrav1.AWSVolume{SizeGiB: ptr.To[int32](50), Type: "gp3", IOPS: ptr.To[int32](4000), ThroughputMiBps: ptr.To[int32](250), KMSKeyID: "alias/nodes"}
	s.Volumes = []infrav1.AWSDataVolume{{DeviceName: "/dev/sdf", AWSVolume: infrav1.AWSVolume{SizeGiB: ptr.To[int32](10)}}}
	s.Metadata = infrav1.AWSMetadata{Tokens: "required", HopLimit: ptr.To[int32](2), Endpoint: "enabled", IPv6: ptr.To(true)}
	s.Placement = infrav1.AWSPlacement{Group: "racks", Partition: ptr.To[int32](2), Tenancy: "dedicated"}
	s.CapacityReservation = infrav1.AWSCapacityReservation{ID: "cr-1"}
	s.CPU = infrav1.AWSCPU{Cores: ptr.To[int32](1), ThreadsPerCore: ptr.To[int32](1)}
	s.DetailedMonitoring = ptr.To(true)
	s.Tags = map[string]string{"kubernetes.io/cluster/home": "owned"}
}

// TestRunInstancesParameters compares the parameters of whole requests.
func TestRunInstancesParameters(t *testing.T) {
	t.Parallel()
	common := map[string]string{
		"InstanceType": "m7i.large", "MinCount": "1", "MaxCount": "1", "UserData": "I2Nsb3VkLWNvbmZpZwo=",
		"MetadataOptions.HttpTokens": "required", "MetadataOptions.HttpEndpoint": "enabled", "MetadataOptions.HttpPutResponseHopLimit": "1",
	}
	for name, test := range map[string]struct {
		change func(*infrav1.AWSMachineSpec)
		want   map[string]string
	}{
		"sets little by default, and deletes volumes with the instance": {
			func(s *infrav1.AWSMachineSpec) { s.Subnet, s.SecurityGroups = infrav1.AWSSelector{}, nil },
			map[string]string{"ImageId": awsfake.Image, "BlockDeviceMapping.1.DeviceName": "/dev/sdb", "BlockDeviceMapping.1.Ebs.DeleteOnTermination": "true"},
		},
		"leaves out what a launch template sets": {
			func(s *infrav1.AWSMachineSpec) {
				*s = infrav1.AWSMachineSpec{Region: s.Region, InstanceType: s.InstanceType, LaunchTemplate: infrav1.AWSLaunchTemplate{ID: "lt-1"}}
			},
			map[string]string{"LaunchTemplate.LaunchTemplateId": "lt-1", "LaunchTemplate.Version": "$Default"},
		},
		"requests a public address": {
			func(s *infrav1.AWSMachineSpec) { s.PublicIP, s.Image.ID = ptr.To(true), awsfake.OldImage },
			map[string]string{
				"ImageId": awsfake.OldImage, "NetworkInterface.1.DeviceIndex": "0", "NetworkInterface.1.SubnetId": awsfake.SubnetA, "NetworkInterface.1.DeleteOnTermination": "true",
				"NetworkInterface.1.AssociatePublicIpAddress": "true", "NetworkInterface.1.SecurityGroupId.1": awsfake.Group,
			},
		},
		"asks for everything": {allFields, map[string]string{
			"ImageId": awsfake.Image, "LaunchTemplate.LaunchTemplateName": "nodes", "LaunchTemplate.Version": "3", "KeyName": "admin", "Monitoring.Enabled": "true",
			"IamInstanceProfile.Arn": "arn:aws:iam::1:instance-profile/nodes", "CpuOptions.CoreCount": "1", "CpuOptions.ThreadsPerCore": "1",
			"InstanceMarketOptions.MarketType": "spot", "InstanceMarketOptions.SpotOptions.MaxPrice": "0.25",
			"InstanceMarketOptions.SpotOptions.SpotInstanceType": "one-time", "InstanceMarketOptions.SpotOptions.InstanceInterruptionBehavior": "terminate",
			"Placement.AvailabilityZone": "eu-central-1a", "Placement.GroupName": "racks", "Placement.PartitionNumber": "2", "Placement.Tenancy": "dedicated",
			"CapacityReservationSpecification.CapacityReservationTarget.CapacityReservationId": "cr-1",
			"MetadataOptions.HttpPutResponseHopLimit":                                          "2", "MetadataOptions.HttpProtocolIpv6": "enabled",
			"NetworkInterface.1.DeviceIndex": "0", "NetworkInterface.1.SubnetId": awsfake.SubnetA, "NetworkInterface.1.DeleteOnTermination": "true", "NetworkInterface.1.Ipv6AddressCount": "2",
			"NetworkInterface.1.SecurityGroupId.1": awsfake.Group, "NetworkInterface.1.SecurityGroupId.2": "sg-00000002", "NetworkInterface.1.SecurityGroupId.3": "sg-00000003",
			"NetworkInterface.2.DeviceIndex": "1", "NetworkInterface.2.SubnetId": awsfake.SubnetA, "NetworkInterface.2.DeleteOnTermination": "true",
			"NetworkInterface.2.InterfaceType": "efa", "NetworkInterface.2.NetworkCardIndex": "1",
			"NetworkInterface.2.SecurityGroupId.1": awsfake.Group, "NetworkInterface.2.SecurityGroupId.2": "sg-00000002", "NetworkInterface.2.SecurityGroupId.3": "sg-00000003",
			"BlockDeviceMapping.1.DeviceName": "/dev/sda1", "BlockDeviceMapping.1.Ebs.DeleteOnTermination": "true", "BlockDeviceMapping.1.Ebs.VolumeSize": "50", "BlockDeviceMapping.1.Ebs.VolumeType": "gp3",
			"BlockDeviceMapping.1.Ebs.Iops": "4000", "BlockDeviceMapping.1.Ebs.Throughput": "250", "BlockDeviceMapping.1.Ebs.KmsKeyId": "alias/nodes", "BlockDeviceMapping.1.Ebs.Encrypted": "true",
			"BlockDeviceMapping.2.DeviceName": "/dev/sdb", "BlockDeviceMapping.2.Ebs.DeleteOnTermination": "true",
			"BlockDeviceMapping.3.DeviceName": "/dev/sdf", "BlockDeviceMapping.3.Ebs.DeleteOnTermination": "true", "BlockDeviceMapping.3.Ebs.VolumeSize": "10", "BlockDeviceMapping.3.Ebs.VolumeType": "gp3",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ec2 := newEnv(t, awsfake.Options{})
			if _, err := ec2.connect(t).Create(t.Context(), newRequest(identity, newConfig(t, test.change))); err != nil {
				t.Fatal(err)
			}
			want := maps.Clone(common)
			maps.Copy(want, test.want)
			got := ec2.cloud.Requests()[0]
			maps.DeleteFunc(got, func(name, _ string) bool {
				return name == "ClientToken" || strings.HasPrefix(name, "TagSpecification.")
			})
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestTagsAreInTheRequest checks the tags of each type of resource in the request.
func TestTagsAreInTheRequest(t *testing.T) {
	t.Parallel()
	ec2 := newEnv(t, awsfake.Options{})
	if _, err := ec2.connect(t).Create(t.Context(), newRequest(identity, newConfig(t, allFields))); err != nil {
		t.Fatal(err)
	}
	want := map[string]string{"Name": "worker-1", "kubernetes.io/cluster/home": "owned"}
	maps.Copy(want, identity.Tags())
	kinds := map[string]map[string]string{}
	got := ec2.cloud.Requests()[0]
	for _, spec := range []string{"1", "2", "3", "4"} {
		prefix := "TagSpecification." + spec + "."
		tags := map[string]string{}
		for _, n := range []string{"1", "2", "3", "4", "5", "6", "7"} {
			tags[got[prefix+"Tag."+n+".Key"]] = got[prefix+"Tag."+n+".Value"]
		}
		kinds[got[prefix+"ResourceType"]] = tags
	}
	all := map[string]map[string]string{"instance": want, "volume": want, "network-interface": want, "spot-instances-request": want}
	if diff := cmp.Diff(all, kinds); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestUserData(t *testing.T) {
	t.Parallel()
	noise := make([]byte, 20<<10)
	random := rand.NewChaCha8([32]byte{})
	_, _ = random.Read(noise) // never fails
	long := []byte("#cloud-config\n" + strings.Repeat("# the same again\n", 2000))
	for name, test := range map[string]struct {
		data   []byte
		format string
		ok     bool
	}{
		"sends what fits as it is":                   {[]byte("#cloud-config\n"), "cloud-config", true},
		"compresses cloud-config that is long":       {long, "cloud-config", true},
		"does not compress Ignition":                 {long, "ignition", false},
		"refuses what is too long after compression": {noise, "cloud-config", false},
		"sends the maximum":                          {noise[:16<<10], "ignition", true},
		"refuses a byte more":                        {noise[:16<<10+1], "ignition", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ec2 := newEnv(t, awsfake.Options{})
			req := newRequest(identity, newConfig(t, unchanged))
			req.UserData, req.Format = test.data, test.format
			_, err := ec2.connect(t).Create(t.Context(), req)
			if !test.ok {
				if !driver.IsInvalidConfiguration(err) || len(ec2.cloud.Requests()) > 0 {
					t.Errorf("got %v after %d requests, want an InvalidConfigurationError before any", err, len(ec2.cloud.Requests()))
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if got := received(t, ec2.cloud.Requests()[0]["UserData"]); !bytes.Equal(got, test.data) {
				t.Errorf("the host gets %d bytes, want %d", len(got), len(test.data))
			}
		})
	}
}

// received decodes user data as cloud-init does.
func received(t *testing.T, encoded string) []byte {
	t.Helper()
	data, err := base64.StdEncoding.DecodeString(encoded)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.HasPrefix(data, []byte{0x1f, 0x8b}) {
		return data
	}
	reader, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	unpacked, err := io.ReadAll(reader)
	if err != nil {
		t.Fatal(err)
	}
	return unpacked
}

// TestLookupsAreCached proves that many machines of one template cost one lookup of each kind.
func TestLookupsAreCached(t *testing.T) {
	t.Parallel()
	ec2 := newEnv(t, awsfake.Options{})
	d := ec2.connect(t)
	for _, uid := range []string{"1", "2", "3"} {
		id := identity
		id.UID = types.UID(uid)
		if _, err := d.Create(t.Context(), newRequest(id, newConfig(t, allFields))); err != nil {
			t.Fatal(err)
		}
	}
	want := map[string]int{"DescribeInstances": 3, "RunInstances": 3, "DescribeImages": 1, "DescribeSubnets": 1, "DescribeSecurityGroups": 1}
	if diff := cmp.Diff(want, ec2.cloud.Counts()); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
}

func TestInstanceCapacity(t *testing.T) {
	t.Parallel()
	ec2 := newEnv(t, awsfake.Options{})
	sizer, ok := ec2.connect(t).(driver.CapacityProvider[aws.InstanceConfig])
	if !ok {
		t.Fatal("the driver is not a CapacityProvider")
	}
	for name, test := range map[string]struct {
		change func(*infrav1.AWSMachineSpec)
		want   driver.Capacity
	}{
		"has CPU, memory and the disk of the image": {unchanged, driver.Capacity{Architecture: "amd64", OperatingSystem: "linux", Capacity: corev1.ResourceList{
			"cpu": resource.MustParse("2"), "memory": resource.MustParse("8Gi"), "ephemeral-storage": resource.MustParse("8Gi")}}},
		"has GPUs and the disk of the spec": {func(s *infrav1.AWSMachineSpec) {
			s.InstanceType, s.RootVolume.SizeGiB = "g5.12xlarge", ptr.To[int32](100)
		}, driver.Capacity{Architecture: "amd64", OperatingSystem: "linux", Capacity: corev1.ResourceList{
			"cpu": resource.MustParse("48"), "memory": resource.MustParse("192Gi"), "nvidia.com/gpu": resource.MustParse("4"), "ephemeral-storage": resource.MustParse("100Gi")}}},
		"has the architecture of the type without an image": {func(s *infrav1.AWSMachineSpec) {
			s.InstanceType, s.Image, s.LaunchTemplate.Name = "m7g.large", infrav1.AWSImage{}, "nodes"
		}, driver.Capacity{Architecture: "arm64", OperatingSystem: "linux", Capacity: corev1.ResourceList{"cpu": resource.MustParse("2"), "memory": resource.MustParse("8Gi")}}},
		"has the architecture of the type when it cannot run the image": {func(s *infrav1.AWSMachineSpec) {
			s.InstanceType, s.Image = "m7g.large", infrav1.AWSImage{ID: awsfake.OldImage}
		}, driver.Capacity{Architecture: "arm64", OperatingSystem: "linux", Capacity: corev1.ResourceList{
			"cpu": resource.MustParse("2"), "memory": resource.MustParse("8Gi"), "ephemeral-storage": resource.MustParse("8Gi")}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := sizer.Capacity(t.Context(), newConfig(t, test.change))
			if diff := cmp.Diff(test.want, got); diff != "" || err != nil {
				t.Errorf("%v (-want +got):\n%s", err, diff)
			}
		})
	}
	if _, err := sizer.Capacity(t.Context(), newConfig(t, func(s *infrav1.AWSMachineSpec) { s.InstanceType = "m9x.huge" })); !driver.IsInvalidConfiguration(err) {
		t.Errorf("an unknown type: got %v", err)
	}
}

func TestFindImage(t *testing.T) {
	t.Parallel()
	ec2 := newEnv(t, awsfake.Options{})
	finder, ok := ec2.connect(t).(driver.ImageFinder[aws.InstanceConfig])
	if !ok {
		t.Fatal("the driver is not an ImageFinder")
	}
	for name, test := range map[string]struct {
		change func(*infrav1.AWSMachineSpec)
		want   driver.Image
	}{
		"takes the newest of a name": {func(s *infrav1.AWSMachineSpec) {
			s.Image = infrav1.AWSImage{Name: "ubuntu/noble-24.04-amd64-*", Owners: []string{awsfake.Owner}}
		}, driver.Image{ID: awsfake.Image, Architecture: "amd64"}},
		"takes one of another architecture where the spec names it": {func(s *infrav1.AWSMachineSpec) {
			s.Image = infrav1.AWSImage{Name: "ubuntu/*", Owners: []string{awsfake.Owner}, Architecture: "arm64"}
		}, driver.Image{ID: awsfake.ARMImage, Architecture: "arm64"}},
		"is empty where a launch template names the image": {func(s *infrav1.AWSMachineSpec) {
			s.Image, s.LaunchTemplate.Name = infrav1.AWSImage{}, "nodes"
		}, driver.Image{}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := finder.FindImage(t.Context(), newConfig(t, test.change))
			if diff := cmp.Diff(test.want, got); diff != "" || err != nil {
				t.Errorf("%v (-want +got):\n%s", err, diff)
			}
		})
	}
}
