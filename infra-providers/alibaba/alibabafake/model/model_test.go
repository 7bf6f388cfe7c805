// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package model_test

import (
	"errors"
	"net/url"
	"slices"
	"testing"

	"drover.io/infra-providers/alibaba/alibabafake/model"
)

// TestCheckRequest proves that the checks find violations.
func TestCheckRequest(t *testing.T) {
	t.Parallel()
	known, err := model.Load()
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		action string
		query  string
		code   string
	}{
		"accepts a valid request":               {"RunInstances", "RegionId=a&Tag.1.Key=k&Tag.1.Value=v&SystemDisk.Category=cloud_essd&SystemDisk.Encrypted=true&Amount=1&SecurityGroupIds.1=sg", ""},
		"refuses an unknown action":             {"StartInstances", "", "InvalidAction.NotFound"},
		"requires a required parameter":         {"DeleteInstance", "Force=true", "MissingParameter"},
		"requires a required list":              {"TagResources", "RegionId=a&ResourceType=disk&Tag.1.Key=k&Tag.1.Value=v", "MissingParameter"},
		"requires a member of an item":          {"TagResources", "RegionId=a&ResourceType=disk&ResourceId.1=d&Tag.1.Key=k", "MissingParameter"},
		"refuses an unknown name":               {"RunInstances", "RegionId=a&Size=3", "InvalidParameter"},
		"refuses an unknown member":             {"RunInstances", "RegionId=a&DataDisk.1.Colour=red", "InvalidParameter"},
		"refuses an unknown part of a disk":     {"RunInstances", "RegionId=a&SystemDisk.Colour=red", "InvalidParameter"},
		"refuses a list without a number":       {"RunInstances", "RegionId=a&SecurityGroupIds=sg", "InvalidParameter"},
		"refuses a list that begins with 0":     {"RunInstances", "RegionId=a&SecurityGroupIds.0=sg", "InvalidParameter"},
		"refuses a list with a gap":             {"RunInstances", "RegionId=a&SecurityGroupIds.1=a&SecurityGroupIds.3=c", "InvalidParameter"},
		"refuses a list of items with a gap":    {"RunInstances", "RegionId=a&Tag.2.Key=k", "InvalidParameter"},
		"refuses text for a number":             {"RunInstances", "RegionId=a&Amount=one", "InvalidParameter"},
		"refuses text for a boolean":            {"DeleteInstance", "InstanceId=i&Force=yes", "InvalidParameter"},
		"refuses a value that is not listed":    {"RunInstances", "RegionId=a&SpotStrategy=Cheap", "InvalidParameter"},
		"refuses a value of another case":       {"RunInstances", "RegionId=a&HttpTokens=Required", "InvalidParameter"},
		"refuses a member of a plain list":      {"RunInstances", "RegionId=a&SecurityGroupIds.1.Id=sg", "InvalidParameter"},
		"refuses a member's name at the top":    {"RunInstances", "RegionId=a&DeleteWithInstance=true", "InvalidParameter"},
		"refuses a parameter of another action": {"DeleteInstance", "InstanceId=i&Tag.1.Key=a", "InvalidParameter"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			parameters, err := url.ParseQuery(test.query)
			if err != nil {
				t.Fatal(err)
			}
			got := known.CheckRequest(test.action, parameters)
			violation, _ := errors.AsType[*model.Error](got)
			if test.code == "" && got != nil || test.code != "" && (violation == nil || violation.Code != test.code) {
				t.Errorf("got %v, want %q", got, test.code)
			}
		})
	}
}

// TestValuesAreKnown: the lists of values are read from descriptions, whose form may change.
func TestValuesAreKnown(t *testing.T) {
	t.Parallel()
	known, err := model.Load()
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string][]string{
		"SpotStrategy": {"NoSpot", "SpotWithPriceLimit", "SpotAsPriceGo"}, "HttpTokens": {"optional", "required"}, "HttpEndpoint": {"enabled", "disabled"},
		"InstanceChargeType": {"PrePaid", "PostPaid"}, "InternetChargeType": {"PayByBandwidth", "PayByTraffic"}, "Tenancy": {"default", "host"},
		"SpotInterruptionBehavior": {"Terminate", "Stop"}, "SystemDisk.PerformanceLevel": {"PL0", "PL1", "PL2", "PL3"},
		"SystemDisk.Category": {"cloud_efficiency", "cloud_ssd", "cloud_essd", "cloud", "cloud_auto", "cloud_essd_entry"},
	} {
		if got := known.Operations["RunInstances"][name].Values; !slices.Equal(got, want) {
			t.Errorf("%s: got the values %q, want %q", name, got, want)
		}
	}
}
