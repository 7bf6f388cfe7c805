// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Package request turns the spec of an AlibabaMachine into one RunInstances request. It looks up the image and the instance
// type that the spec names, and caches the answers for a minute, so that a burst of machines of one template costs one look-up.
//
// It owns the request and nothing after it: client tokens, retries and error kinds are the driver's.
package request

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	ecs "github.com/alibabacloud-go/ecs-20140526/v7/client"
	"github.com/alibabacloud-go/tea/dara"

	infrav1 "drover.io/api/infrastructure/v1alpha1"
	"drover.io/infra-providers/driver"
	"drover.io/runtime/quantity"
)

// MaxTagValue is the maximum number of characters of the value of a tag.
const MaxTagValue = 128

// MaxUserData is the maximum size of user data, in bytes before the base64 encoding.
const MaxUserData = 32 << 10

// Input describes one instance.
type Input struct {
	Spec     infrav1.AlibabaMachineSpec
	ZoneID   string
	Identity driver.Identity
	UserData []byte
	Format   string
}

// VSwitch returns the vSwitch of a spec in a zone, empty where there is none.
func VSwitch(spec infrav1.AlibabaMachineSpec, zone string) string {
	for _, vSwitch := range spec.VSwitches {
		if vSwitch.ZoneID == zone {
			return vSwitch.VSwitchID
		}
	}
	return ""
}

// namePattern is what ECS accepts as the name of an instance, and hostPattern as that of its host, of the names that a machine
// may have. A machine of another name has the default of ECS: neither is the identity of the instance.
var (
	namePattern = regexp.MustCompile(`^[a-z][-a-z0-9.]{1,127}$`)
	hostPattern = regexp.MustCompile(`^[a-z0-9]+([-.][a-z0-9]+)*$`)
)

// minHost and maxHost are how many characters the name of a host has.
const minHost, maxHost = 2, 64

// Instance returns the request for an input, without a client token. It fails with InvalidConfigurationError when the user data
// is too long, or the image has data disks.
func Instance(input Input, image *ecs.DescribeImagesResponseBodyImagesImage) (*ecs.RunInstancesRequest, error) {
	spec := input.Spec
	if err := checkDisks(image); err != nil {
		return nil, err
	}
	userData, err := encodeUserData(input.UserData, input.Format)
	if err != nil {
		return nil, err
	}
	message := &ecs.RunInstancesRequest{
		RegionId:                    &spec.RegionID,
		ZoneId:                      &input.ZoneID,
		Amount:                      dara.Int32(1),
		InstanceType:                &spec.InstanceType,
		InstanceChargeType:          dara.String("PostPaid"),
		ImageId:                     image.ImageId,
		VSwitchId:                   dara.String(VSwitch(spec, input.ZoneID)),
		SecurityGroupIds:            dara.StringSlice(spec.SecurityGroupIDs),
		InternetMaxBandwidthOut:     spec.InternetMaxBandwidthOut,
		InternetChargeType:          nonEmpty(spec.InternetChargeType),
		Ipv6AddressCount:            spec.IPv6AddressCount,
		RamRoleName:                 nonEmpty(spec.RAMRoleName),
		KeyPairName:                 nonEmpty(spec.KeyPairName),
		HttpTokens:                  nonEmpty(spec.Metadata.HTTPTokens),
		HttpEndpoint:                nonEmpty(spec.Metadata.HTTPEndpoint),
		CreditSpecification:         nonEmpty(spec.CreditSpecification),
		SecurityEnhancementStrategy: nonEmpty(spec.SecurityHardening),
		ResourceGroupId:             nonEmpty(spec.ResourceGroupID),
		UserData:                    userData,
		Tag:                         tags(input),
	}
	if namePattern.MatchString(input.Identity.Name) {
		message.InstanceName = &input.Identity.Name
	}
	if length := len(input.Identity.Name); length >= minHost && length <= maxHost && hostPattern.MatchString(input.Identity.Name) {
		message.HostName = &input.Identity.Name
	}
	addDisks(message, spec, input.Identity)
	addPlacement(message, spec)
	return message, addSpot(message, spec.Spot)
}

// dataDisk is the type of a data disk of an image.
const dataDisk = "data"

// maxDiskName is the maximum number of characters of the name of a disk.
const maxDiskName = 128

// diskPrefix begins the names of all data disks of a machine. A UID may have characters that no name has.
func diskPrefix(id driver.Identity) string {
	sum := sha256.Sum256([]byte(id.UID))
	return "drover-" + hex.EncodeToString(sum[:8]) + "-"
}

// diskName is the name of a data disk, by its name in a spec, whose end may not fit.
func diskName(id driver.Identity, name string) string {
	full := diskPrefix(id) + name
	return full[:min(len(full), maxDiskName)]
}

// IsDiskName reports whether a data disk that is created with the instance of a machine can have a name. Tags may have been copied to
// other disks.
func IsDiskName(id driver.Identity, name string) bool { return strings.HasPrefix(name, diskPrefix(id)) }

// checkDisks fails for an image that has data disks besides its system disk. ECS creates them with the instance and its tags. By its
// documentation, size and category of such a disk are set by the name of its device; it has nothing about the name of the disk, by
// which a deletion knows it.
func checkDisks(image *ecs.DescribeImagesResponseBodyImagesImage) error {
	count := 0
	if image.DiskDeviceMappings != nil {
		for _, disk := range image.DiskDeviceMappings.DiskDeviceMapping {
			if dara.StringValue(disk.Type) == dataDisk {
				count++
			}
		}
	}
	if count == 0 {
		return nil
	}
	return driver.InvalidField("spec.image", "the image %s has %s, which would stay when the machine is deleted: "+
		"use an image of its system disk alone, and name the snapshots of its data disks in snapshotID of spec.dataDisks",
		dara.StringValue(image.ImageId), quantity.Of(count, "data disk"))
}

// addDisks adds the disks. Each is deleted with the instance.
func addDisks(message *ecs.RunInstancesRequest, spec infrav1.AlibabaMachineSpec, id driver.Identity) {
	if disk := spec.SystemDisk; disk != (infrav1.AlibabaDisk{}) {
		message.SystemDisk = &ecs.RunInstancesRequestSystemDisk{
			Category: nonEmpty(disk.Category), PerformanceLevel: nonEmpty(disk.PerformanceLevel), ProvisionedIops: disk.ProvisionedIOPS, BurstingEnabled: disk.BurstingEnabled,
			Encrypted: encrypted(disk), KMSKeyId: nonEmpty(disk.KMSKeyID), AutoSnapshotPolicyId: nonEmpty(disk.AutoSnapshotPolicyID),
		}
		if disk.SizeGiB != nil {
			message.SystemDisk.Size = dara.String(strconv.Itoa(int(*disk.SizeGiB)))
		}
	}
	for _, disk := range spec.DataDisks {
		message.DataDisk = append(message.DataDisk, &ecs.RunInstancesRequestDataDisk{
			DiskName: dara.String(diskName(id, disk.Name)), Size: disk.SizeGiB, SnapshotId: nonEmpty(disk.SnapshotID), DeleteWithInstance: dara.Bool(true),
			Category: nonEmpty(disk.Category), PerformanceLevel: nonEmpty(disk.PerformanceLevel), ProvisionedIops: disk.ProvisionedIOPS, BurstingEnabled: disk.BurstingEnabled,
			Encrypted: encrypted(disk.AlibabaDisk), KMSKeyId: nonEmpty(disk.KMSKeyID), AutoSnapshotPolicyId: nonEmpty(disk.AutoSnapshotPolicyID),
		})
	}
}

// encrypted returns what ECS has as a text; a key encrypts.
func encrypted(disk infrav1.AlibabaDisk) *string {
	switch {
	case disk.KMSKeyID != "":
		return dara.String("true")
	case disk.Encrypted != nil:
		return dara.String(strconv.FormatBool(*disk.Encrypted))
	default:
		return nil
	}
}

// addPlacement adds where the instance is, and with what hardware.
func addPlacement(message *ecs.RunInstancesRequest, spec infrav1.AlibabaMachineSpec) {
	message.DeploymentSetId, message.DeploymentSetGroupNo = nonEmpty(spec.DeploymentSetID), spec.DeploymentSetGroup
	if spec.DedicatedHostID != "" {
		message.DedicatedHostId, message.Tenancy = &spec.DedicatedHostID, dara.String("host")
	}
	if spec.PrivatePool != (infrav1.AlibabaPrivatePool{}) {
		message.PrivatePoolOptions = &ecs.RunInstancesRequestPrivatePoolOptions{MatchCriteria: &spec.PrivatePool.MatchCriteria, Id: nonEmpty(spec.PrivatePool.ID)}
	}
	if spec.CPU != (infrav1.AlibabaCPU{}) {
		message.CpuOptions = &ecs.RunInstancesRequestCpuOptions{Core: spec.CPU.Cores, ThreadsPerCore: spec.CPU.ThreadsPerCore}
	}
	if spec.TrustedSystemMode != "" {
		message.SecurityOptions = &ecs.RunInstancesRequestSecurityOptions{TrustedSystemMode: &spec.TrustedSystemMode}
	}
}

// addSpot requests a spot instance that is released when it is reclaimed: one that is stopped would cost money, and might start
// again.
func addSpot(message *ecs.RunInstancesRequest, spot *infrav1.AlibabaSpot) error {
	if spot == nil {
		return nil
	}
	message.SpotStrategy, message.SpotInterruptionBehavior, message.SpotDuration = dara.String("SpotAsPriceGo"), dara.String("Terminate"), spot.DurationHours
	if spot.PriceLimit == "" {
		return nil
	}
	limit, err := strconv.ParseFloat(spot.PriceLimit, 32)
	if err != nil {
		return driver.NeverValid("spec.spot.priceLimit", "%q is no price", spot.PriceLimit)
	}
	message.SpotStrategy, message.SpotPriceLimit = dara.String("SpotWithPriceLimit"), dara.Float32(float32(limit))
	return nil
}

// tags returns the tags of everything that RunInstances creates. They are part of that call, so that at no time a resource exists
// without them. They are sorted, because a request that is repeated with the same client token must be identical.
func tags(input Input) (list []*ecs.RunInstancesRequestTag) {
	all := maps.Clone(input.Spec.Tags)
	if all == nil {
		all = map[string]string{}
	}
	maps.Copy(all, input.Identity.Tags())
	for _, key := range slices.Sorted(maps.Keys(all)) {
		list = append(list, (&ecs.RunInstancesRequestTag{}).SetKey(key).SetValue(all[key]))
	}
	return list
}

// encodeUserData encodes user data in base64.
func encodeUserData(data []byte, format string) (*string, error) {
	if len(data) == 0 {
		return nil, nil
	}
	sent, err := driver.FitUserData(data, format, MaxUserData, "ECS")
	if err != nil {
		return nil, err
	}
	encoded := base64.StdEncoding.EncodeToString(sent)
	return &encoded, nil
}

// nonEmpty returns nil for an empty string, which leaves the parameter out of a request.
func nonEmpty(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}
