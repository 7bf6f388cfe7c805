// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package azurefake

import (
	"encoding/base64"
	"net/http"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/compute/armcompute/v8"
	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/network/armnetwork/v9"
	"k8s.io/utils/ptr"
)

// maxTags is the maximum number of tags of a resource.
const maxTags = 50

// validate refuses a virtual machine as Azure does.
func (c *Cloud) validate(name string, sent armcompute.VirtualMachine) error {
	properties := sent.Properties
	if ptr.Deref(sent.Location, "") != Location {
		return refuse(http.StatusBadRequest, "LocationNotAvailableForResourceType", "The provided location is not available.")
	}
	if err := checkTags(sent.Tags); err != nil {
		return err
	}
	if _, known := sizes[string(ptr.Deref(properties.HardwareProfile.VMSize, ""))]; !known {
		return refuse(http.StatusBadRequest, "InvalidParameter", "The value of parameter vmSize is invalid.").about("vmSize")
	}
	for _, zone := range sent.Zones {
		if *zone < "1" || *zone > "3" {
			return refuse(http.StatusBadRequest, "AvailabilityZoneNotSupported", "The zone(s) '%s' is not supported.", *zone)
		}
	}
	if err := c.validateStorage(sent); err != nil {
		return err
	}
	if err := validateProfile(name, properties.OSProfile); err != nil {
		return err
	}
	return c.validateInterfaces(properties.NetworkProfile)
}

func checkTags(tags map[string]*string) error {
	if len(tags) > maxTags {
		return refuse(http.StatusBadRequest, "InvalidTagCount", "too many tags")
	}
	for name, value := range tags {
		if len(name) > 512 || strings.ContainsAny(name, `<>%&\?/`) {
			return refuse(http.StatusBadRequest, "InvalidTagNameCharacters", "The tag name '%s' has reserved characters.", name).about("tags")
		}
		if value == nil || len(*value) > 256 {
			return refuse(http.StatusBadRequest, "InvalidTagValueLength", "The tag value of '%s' is too long.", name).about("tags")
		}
	}
	return nil
}

func (c *Cloud) validateStorage(sent armcompute.VirtualMachine) error {
	storage := sent.Properties.StorageProfile
	if image := storage.ImageReference; image.Publisher != nil {
		found := c.images[strings.ToLower(imageID(*image.Publisher, *image.Offer, *image.SKU, *image.Version))]
		if found == nil {
			return refuse(http.StatusNotFound, "PlatformImageNotFound", "The platform image is not available.").about("imageReference")
		}
		if (found.Properties.Plan == nil) != (sent.Plan == nil) {
			return refuse(http.StatusBadRequest, "VMMarketplaceInvalidInput", "The plan does not fit the image.")
		}
	}
	names := []string{ptr.Deref(storage.OSDisk.Name, "")}
	for _, data := range storage.DataDisks {
		names = append(names, ptr.Deref(data.Name, ""))
	}
	for _, name := range names {
		if c.disks[name] != nil {
			return refuse(http.StatusConflict, "ConflictingUserInput", "Disk %s already exists. Only CreateOption.Attach is supported.", name)
		}
	}
	return nil
}

func validateProfile(name string, profile *armcompute.OSProfile) error {
	if ptr.Deref(profile.ComputerName, "") != name || len(name) > 64 {
		return refuse(http.StatusBadRequest, "InvalidParameter", "The computer name is invalid.").about("computerName")
	}
	linux := profile.LinuxConfiguration
	if linux == nil || linux.SSH == nil || len(linux.SSH.PublicKeys) == 0 {
		return refuse(http.StatusBadRequest, "InvalidParameter", "Authentication using either SSH or by user name and password must be enabled.").about("linuxConfiguration")
	}
	for _, key := range linux.SSH.PublicKeys {
		if ptr.Deref(key.Path, "") != "/home/"+ptr.Deref(profile.AdminUsername, "")+"/.ssh/authorized_keys" {
			return refuse(http.StatusBadRequest, "InvalidParameter", "The path of the key is invalid.").about("linuxConfiguration.ssh.publicKeys.path")
		}
	}
	if data, err := base64.StdEncoding.DecodeString(ptr.Deref(profile.CustomData, "")); err != nil || len(data) > 65535 {
		return refuse(http.StatusBadRequest, "InvalidParameter", "Custom data in OSProfile must be in Base64 encoding and with a maximum length of 87380 characters.").about("customData")
	}
	return nil
}

func (c *Cloud) validateInterfaces(profile *armcompute.NetworkProfile) error {
	for _, reference := range profile.NetworkInterfaces {
		id := ptr.Deref(reference.ID, "")
		nic := c.nics[id[strings.LastIndex(id, "/")+1:]]
		switch {
		case nic == nil:
			return refuse(http.StatusBadRequest, "InvalidResourceReference", "Resource %s was not found.", id).about("networkProfile")
		case nic.model.Properties.VirtualMachine != nil:
			return refuse(http.StatusBadRequest, "NicInUse", "The network interface %s is in use by another virtual machine.", id)
		case *nic.model.Properties.ProvisioningState != armnetwork.ProvisioningStateSucceeded:
			return refuse(http.StatusConflict, "ReferencedResourceNotProvisioned", "%s is not in Succeeded state.", id)
		}
	}
	return nil
}
