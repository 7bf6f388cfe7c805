// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package model_test

import (
	"errors"
	"net/url"
	"testing"

	"drover.io/infra-providers/aws/awsfake/model"
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
		"accepts a valid request":                {"RunInstances", "MinCount=1&MaxCount=1&TagSpecification.1.ResourceType=volume&TagSpecification.1.Tag.1.Key=a&NetworkInterface.1.SecurityGroupId.1=sg-1", ""},
		"refuses an unknown action":              {"LaunchInstances", "", "InvalidAction"},
		"requires a required parameter":          {"RunInstances", "MinCount=1", "MissingParameter"},
		"refuses an unknown nested parameter":    {"RunInstances", "MinCount=1&MaxCount=1&CreditSpecification.Nothing=1", "UnknownParameter"},
		"refuses an unknown name":                {"RunInstances", "MinCount=1&MaxCount=1&Size=3", "UnknownParameter"},
		"refuses a name at the wrong place":      {"RunInstances", "MinCount=1&MaxCount=1&Ebs.VolumeSize=3", "UnknownParameter"},
		"refuses a list under its member's name": {"RunInstances", "MinCount=1&MaxCount=1&TagSpecifications.1.ResourceType=volume", "UnknownParameter"},
		"refuses a list that begins with 0":      {"RunInstances", "MinCount=1&MaxCount=1&SecurityGroupId.0=sg-1", "InvalidParameter"},
		"refuses a list with a gap":              {"DescribeInstances", "InstanceId.1=i-1&InstanceId.3=i-3", "InvalidParameter"},
		"refuses text for a number":              {"RunInstances", "MinCount=one&MaxCount=1", "InvalidParameterValue"},
		"refuses text for a boolean":             {"RunInstances", "MinCount=1&MaxCount=1&EbsOptimized=yes", "InvalidParameterValue"},
		"refuses an unknown value":               {"RunInstances", "MinCount=1&MaxCount=1&BlockDeviceMapping.1.Ebs.VolumeType=gp9", "InvalidParameterValue"},
		"refuses a page that is too large":       {"DescribeSubnets", "MaxResults=5000", "InvalidParameterValue"},
		"refuses a structure with a value":       {"RunInstances", "MinCount=1&MaxCount=1&Placement=here", "InvalidParameterValue"},
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

func TestCheckAnswer(t *testing.T) {
	t.Parallel()
	known, err := model.Load()
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		answer string
		ok     bool
	}{
		"accepts a valid answer":             {`<DescribeSubnetsResponse><requestId>1</requestId><subnetSet><item><subnetId>s</subnetId></item></subnetSet></DescribeSubnetsResponse>`, true},
		"refuses another answer":             {`<DescribeImagesResponse></DescribeImagesResponse>`, false},
		"refuses an element of another name": {`<DescribeSubnetsResponse><subnets></subnets></DescribeSubnetsResponse>`, false},
		"refuses items of another name":      {`<DescribeSubnetsResponse><subnetSet><member/></subnetSet></DescribeSubnetsResponse>`, false},
		"refuses text for a number":          {`<DescribeSubnetsResponse><subnetSet><item><availableIpAddressCount>many</availableIpAddressCount></item></subnetSet></DescribeSubnetsResponse>`, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if err := known.CheckAnswer("DescribeSubnets", []byte(test.answer)); (err == nil) != test.ok {
				t.Errorf("got %v, want ok %t", err, test.ok)
			}
		})
	}
}
