// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package awsfake

import (
	"encoding/xml"
	"strings"
	"time"
)

type tag struct {
	Key   string `xml:"key"`
	Value string `xml:"value"`
}

type state struct {
	Code int    `xml:"code"`
	Name string `xml:"name"`
}

func toState(name string) state {
	return state{Code: map[string]int{pending: 0, running: 16, shuttingDown: 32, terminated: 48, stopped: 80}[name], Name: name}
}

type runInstances struct {
	XMLName xml.Name
	reservation
}

type describeInstances struct {
	XMLName      xml.Name
	Reservations []reservation `xml:"reservationSet>item"`
	NextToken    string        `xml:"nextToken,omitempty"`
}

type reservation struct {
	ID        string         `xml:"reservationId"`
	Instances []instanceItem `xml:"instancesSet>item"`
}

type instanceItem struct {
	ID         string     `xml:"instanceId"`
	Image      string     `xml:"imageId,omitempty"`
	State      state      `xml:"instanceState"`
	Type       string     `xml:"instanceType"`
	Launched   time.Time  `xml:"launchTime"`
	Zone       string     `xml:"placement>availabilityZone"`
	Subnet     string     `xml:"subnetId"`
	PrivateDNS string     `xml:"privateDnsName"`
	PublicDNS  string     `xml:"dnsName"`
	PublicIP   string     `xml:"ipAddress,omitempty"`
	ReasonCode string     `xml:"stateReason>code,omitempty"`
	Reason     string     `xml:"stateReason>message,omitempty"`
	NICs       []attached `xml:"networkInterfaceSet>item"`
	Tags       []tag      `xml:"tagSet>item"`
}

type attached struct {
	ID      string   `xml:"networkInterfaceId"`
	Device  int      `xml:"attachment>deviceIndex"`
	Private string   `xml:"privateIpAddressesSet>item>privateIpAddress"`
	IPv6    []string `xml:"ipv6AddressesSet>item>ipv6Address,omitempty"`
}

type terminateInstances struct {
	XMLName   xml.Name
	Instances []stateChange `xml:"instancesSet>item"`
}

type consoleOutput struct {
	XMLName xml.Name
	ID      string `xml:"instanceId"`
	Time    string `xml:"timestamp"`
	Output  string `xml:"output"`
}

type rebootInstances struct {
	XMLName xml.Name
	Done    bool `xml:"return"`
}

type stateChange struct {
	ID       string `xml:"instanceId"`
	Current  state  `xml:"currentState"`
	Previous state  `xml:"previousState"`
}

type describeImages struct {
	XMLName xml.Name
	Images  []image `xml:"imagesSet>item"`
}

type image struct {
	ID           string        `xml:"imageId"`
	Name         string        `xml:"name"`
	Architecture string        `xml:"architecture"`
	Created      string        `xml:"creationDate"`
	RootDevice   string        `xml:"rootDeviceName"`
	State        string        `xml:"imageState"`
	Owner        string        `xml:"imageOwnerId"`
	Devices      []blockDevice `xml:"blockDeviceMapping>item"`
}

type blockDevice struct {
	Name string `xml:"deviceName"`
	EBS  struct {
		Size                int    `xml:"volumeSize"`
		DeleteOnTermination bool   `xml:"deleteOnTermination"`
		Type                string `xml:"volumeType"`
	} `xml:"ebs"`
}

type describeSubnets struct {
	XMLName xml.Name
	Subnets []subnet `xml:"subnetSet>item"`
}

type subnet struct {
	ID    string `xml:"subnetId"`
	Zone  string `xml:"availabilityZone"`
	State string `xml:"state"`
}

type describeSecurityGroups struct {
	XMLName xml.Name
	Groups  []securityGroup `xml:"securityGroupInfo>item"`
}

type securityGroup struct {
	ID   string `xml:"groupId"`
	Name string `xml:"groupName"`
}

type describeInstanceTypes struct {
	XMLName xml.Name
	Types   []instanceType `xml:"instanceTypeSet>item"`
}

type instanceType struct {
	Name          string   `xml:"instanceType"`
	CPUs          int      `xml:"vCpuInfo>defaultVCpus"`
	MiB           int      `xml:"memoryInfo>sizeInMiB"`
	Architectures []string `xml:"processorInfo>supportedArchitectures>item"`
	GPUs          []gpu    `xml:"gpuInfo>gpus>item,omitempty"`
}

type gpu struct {
	Manufacturer string `xml:"manufacturer"`
	Name         string `xml:"name"`
	Count        int    `xml:"count"`
}

func reservationOf(action string, of *instance) any {
	return runInstances{XMLName: response(action), reservation: toReservation(of)}
}

func toReservation(of *instance) reservation {
	item := instanceItem{
		ID: of.id, Image: of.image, State: toState(of.state), Type: of.kind, Launched: of.launched, Zone: of.zone, Subnet: of.subnet,
		PrivateDNS: "ip-" + strings.ReplaceAll(of.nics[0].private, ".", "-") + "." + Region + ".compute.internal", PublicIP: of.publicIP, Tags: of.tags,
	}
	if of.publicIP != "" {
		item.PublicDNS = "ec2-" + strings.ReplaceAll(of.publicIP, ".", "-") + "." + Region + ".compute.amazonaws.com"
	}
	if code, _, ok := strings.Cut(of.reason, ":"); ok {
		item.ReasonCode, item.Reason = code, of.reason
	}
	for _, n := range of.nics {
		item.NICs = append(item.NICs, attached{ID: n.id, Device: n.device, Private: n.private, IPv6: n.ipv6})
	}
	return reservation{ID: "r-" + of.id[2:], Instances: []instanceItem{item}}
}
