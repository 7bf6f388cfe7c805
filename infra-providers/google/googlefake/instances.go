// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package googlefake

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	compute "google.golang.org/api/compute/v1"

	"drover.io/infra-providers/google/request"
)

// The states of instances and operations, and the types of disks.
const (
	provisioning = "PROVISIONING"
	staging      = "STAGING"
	running      = "RUNNING"
	stopping     = "STOPPING"
	done         = "DONE"
	persistent   = "PERSISTENT"
)

func instanceKey(i *compute.Instance) string { return request.Last(i.Zone) + "/" + i.Name }

// insert begins to create an instance.
func (c *Cloud) insert(p map[string]string, body []byte, fault Fault) (any, error) {
	if known := c.byRequest[p["requestId"]]; known != nil {
		return known.Operation, nil
	}
	wanted := &compute.Instance{}
	if err := json.Unmarshal(body, wanted); err != nil {
		return nil, err
	}
	c.requests, c.requestIDs = append(c.requests, wanted), append(c.requestIDs, p["requestId"])
	if err := c.checkInstance(p["zone"], wanted); err != nil {
		return nil, err
	}
	if request.Last(wanted.MachineType) == NoCapacity {
		fault.Operation = "ZONE_RESOURCE_POOL_EXHAUSTED"
	}
	created := &instance{Instance: wanted, wait: c.options.OperationReads, hidden: max(c.hide, c.options.ListDelay)}
	c.complete(created, p["zone"])
	begun := c.newOperation("insert", created.Zone, created.SelfLink, created.Id)
	begun.ClientOperationId, begun.instance, begun.fault = p["requestId"], created, fault
	created.insertion = begun
	c.instances[instanceKey(wanted)], c.hide = created, 0
	if p["requestId"] != "" {
		c.byRequest[p["requestId"]] = begun
	}
	return begun.Operation, nil
}

// checkInstance refuses what does not exist or has a name that is in use.
func (c *Cloud) checkInstance(zone string, wanted *compute.Instance) error {
	switch {
	case !hasZone(zone):
		return refuse(http.StatusBadRequest, "invalid", "Invalid value for field 'zone': '%s'. Unknown zone.", zone)
	case machineTypes[request.Last(wanted.MachineType)] == nil:
		return refuse(http.StatusBadRequest, "invalid", "Invalid value for field 'resource.machineType': '%s'.", wanted.MachineType)
	case c.instances[zone+"/"+wanted.Name] != nil:
		return refuse(http.StatusConflict, "alreadyExists", "The resource 'instances/%s' already exists", wanted.Name)
	}
	for _, nic := range wanted.NetworkInterfaces {
		if nic.Subnetwork != "" && nic.Subnetwork != "projects/"+Project+"/regions/europe-west3/subnetworks/"+Subnetwork {
			return notFound(nic.Subnetwork)
		}
	}
	for n, attached := range wanted.Disks {
		params := attached.InitializeParams
		name := params.DiskName
		if name == "" && n == 0 {
			name = wanted.Name
		}
		if c.disks[zone+"/"+name] != nil {
			return refuse(http.StatusConflict, "alreadyExists", "The resource 'disks/%s' already exists", name)
		}
		if attached.Boot && c.image(request.Last(params.SourceImage)) == nil {
			return notFound(params.SourceImage)
		}
	}
	return nil
}

// complete fills in what Compute Engine decides, and creates the disks.
func (c *Cloud) complete(i *instance, zone string) {
	i.Id, i.Status, i.CreationTimestamp = c.next(), provisioning, c.now()
	i.Zone, i.SelfLink = url("zones/%s", zone), url("zones/%s/instances/%s", zone, i.Name)
	i.LabelFingerprint = fingerprint(i.Labels)
	for n, nic := range i.NetworkInterfaces {
		nic.Name, nic.NetworkIP = fmt.Sprintf("nic%d", n), fmt.Sprintf("10.%d.%d.%d", n, i.Id/250%250, 2+i.Id%250)
		for _, access := range nic.AccessConfigs {
			access.NatIP = fmt.Sprintf("203.0.113.%d", 2+i.Id%250)
		}
		for _, access := range nic.Ipv6AccessConfigs {
			access.ExternalIpv6 = fmt.Sprintf("2001:db8::%x", i.Id)
		}
	}
	for n, attached := range i.Disks {
		attached.Index, attached.Mode = int64(n), "READ_WRITE"
		params := attached.InitializeParams
		attached.InitializeParams = nil
		if attached.Type != persistent {
			attached.DeviceName = fmt.Sprintf("local-ssd-%d", n)
			continue
		}
		name := params.DiskName
		if name == "" {
			name = i.Name
		}
		made := c.newDisk(i.Instance, name, params.Labels)
		made.SourceImage = params.SourceImage
		made.hidden = i.hidden
		attached.Source = made.SelfLink
		if attached.DeviceName == "" {
			attached.DeviceName = fmt.Sprintf("persistent-disk-%d", n)
		}
	}
}

func (c *Cloud) newOperation(kind, zone, target string, id uint64) *operation {
	begun := &operation{Operation: &compute.Operation{
		Id: c.next(), OperationType: kind, Status: "PENDING", Zone: zone, TargetLink: target, TargetId: id, InsertTime: c.now(),
	}}
	begun.Name = fmt.Sprintf("operation-%d", begun.Id)
	begun.SelfLink = zone + "/operations/" + begun.Name
	c.operations[request.Last(zone)+"/"+begun.Name] = begun
	return begun
}

// read counts a read of an instance, and reports whether it still exists afterwards.
func (c *Cloud) read(i *instance) (exists bool) {
	if i.Status != provisioning && i.Status != staging && i.Status != stopping {
		return true
	}
	if i.wait--; i.wait >= 0 {
		return true
	}
	i.wait = c.options.OperationReads
	switch {
	case i.Status == stopping:
		c.remove(i, false)
		return false
	case i.insertion.fault.Operation != "":
		c.end(i.insertion)
		c.remove(i, i.insertion.fault.LeavesDisks)
		return false
	case i.Status == provisioning:
		i.Status, i.insertion.Status = staging, "RUNNING"
	default:
		i.Status, i.LastStartTimestamp = running, c.now()
		c.end(i.insertion)
	}
	return true
}

// end ends the operation of an insertion.
func (c *Cloud) end(o *operation) {
	o.Status, o.Progress, o.EndTime = done, 100, c.now()
	if code := o.fault.Operation; code != "" {
		o.HttpErrorStatusCode, o.HttpErrorMessage = http.StatusServiceUnavailable, "SERVICE UNAVAILABLE"
		o.Error = &compute.OperationError{Errors: []*compute.OperationErrorErrors{{Code: code, Message: o.fault.Message}}}
	}
}

// remove removes an instance, and its disks as far as they are deleted with it.
func (c *Cloud) remove(i *instance, keepDisks bool) {
	delete(c.instances, instanceKey(i.Instance))
	for name, d := range c.disks {
		if len(d.Users) == 0 || d.Users[0] != i.SelfLink {
			continue
		}
		d.Users = nil
		for _, attached := range i.Disks {
			if attached.Source == d.SelfLink && attached.AutoDelete && !keepDisks {
				delete(c.disks, name)
			}
		}
	}
}

func (c *Cloud) find(p map[string]string) (*instance, error) {
	found := c.instances[p["zone"]+"/"+p["instance"]]
	if found == nil || !c.read(found) {
		return nil, notFound("instances/" + p["instance"])
	}
	return found, nil
}

func (c *Cloud) getInstance(p map[string]string) (any, error) {
	found, err := c.find(p)
	if err != nil {
		return nil, err
	}
	return found.Instance, nil
}

func (c *Cloud) deleteInstance(p map[string]string) (any, error) {
	found := c.instances[p["zone"]+"/"+p["instance"]]
	if found == nil {
		return nil, notFound("instances/" + p["instance"])
	}
	if found.Status == stopping {
		return nil, refuse(http.StatusBadRequest, "resourceNotReady", "The resource 'instances/%s' is not ready", found.Name)
	}
	if found.insertion.Status != done {
		c.end(&operation{Operation: found.insertion.Operation})
	}
	found.Status, found.wait = stopping, c.options.StoppingReads
	return c.newOperation("delete", found.Zone, found.SelfLink, found.Id).Operation, nil
}

func (c *Cloud) reset(p map[string]string) (any, error) {
	found, err := c.find(p)
	if err != nil {
		return nil, err
	}
	if found.Status != running {
		return nil, refuse(http.StatusBadRequest, "resourceNotReady", "The resource 'instances/%s' is not ready", found.Name)
	}
	c.resets++
	return c.newOperation("reset", found.Zone, found.SelfLink, found.Id).Operation, nil
}

func (c *Cloud) labelInstance(p map[string]string, body []byte) (any, error) {
	found, err := c.find(p)
	if err != nil {
		return nil, err
	}
	wanted := &compute.InstancesSetLabelsRequest{}
	if err := json.Unmarshal(body, wanted); err != nil {
		return nil, err
	}
	if wanted.LabelFingerprint != found.LabelFingerprint {
		return nil, errFingerprint
	}
	found.Labels, found.LabelFingerprint = wanted.Labels, fingerprint(wanted.Labels)
	return c.newOperation("setLabels", found.Zone, found.SelfLink, found.Id).Operation, nil
}

var errFingerprint = refuse(http.StatusPreconditionFailed, "conditionNotMet", "Labels fingerprint either invalid or resource labels have changed")

func fingerprint(labels map[string]string) string {
	text, _ := json.Marshal(labels) // strings can always be marshalled
	sum := sha256.Sum256(text)
	return base64.URLEncoding.EncodeToString(sum[:8])
}

func (c *Cloud) setAutoDelete(p map[string]string) (any, error) {
	found, err := c.find(p)
	if err != nil {
		return nil, err
	}
	for _, attached := range found.Disks {
		if attached.DeviceName == p["deviceName"] {
			attached.AutoDelete = p["autoDelete"] == "true"
		}
	}
	return c.newOperation("setDiskAutoDelete", found.Zone, found.SelfLink, found.Id).Operation, nil
}

// maxOutput is how much of the output of a console one answer has.
const maxOutput = 1 << 20

func (c *Cloud) serialPort(p map[string]string) (any, error) {
	found, err := c.find(p)
	if err != nil {
		return nil, err
	}
	contents := c.output[max(0, len(c.output)-maxOutput):]
	return &compute.SerialPortOutput{Contents: contents, Start: int64(len(c.output) - len(contents)), Next: int64(len(c.output)), SelfLink: found.SelfLink + "/serialPort"}, nil
}

// getOperation counts as a read of the instance of an insertion.
func (c *Cloud) getOperation(p map[string]string) (any, error) {
	found := c.operations[p["zone"]+"/"+p["operation"]]
	if found == nil {
		return nil, notFound("operations/" + p["operation"])
	}
	switch {
	case found.instance == nil:
		found.Status = done
	case found.Status != done:
		c.read(found.instance)
	}
	return found.Operation, nil
}

func (c *Cloud) listOperations(p map[string]string) (any, error) {
	list := &compute.OperationList{Id: "list", SelfLink: url("zones/%s/operations", p["zone"])}
	conditions, err := parseFilter(p["filter"])
	if err != nil {
		return nil, err
	}
	for _, found := range c.operations {
		fields := map[string]string{"operationType": found.OperationType, "targetId": strconv.FormatUint(found.TargetId, 10)}
		if request.Last(found.Zone) == p["zone"] && conditions(func(field string) (string, bool) { value, ok := fields[field]; return value, ok }) {
			list.Items = append(list.Items, found.Operation)
		}
	}
	return list, nil
}

// parseFilter returns a function that reports whether the fields of a resource match a filter of a list. Several expressions
// need parentheses.
func parseFilter(filter string) (func(field func(string) (string, bool)) bool, error) {
	type condition struct{ field, value string }
	var all []condition
	several := strings.Contains(filter, " AND ")
	for text := range strings.SplitSeq(filter, " AND ") {
		if text == "" {
			continue
		}
		if several {
			inner, opened := strings.CutPrefix(text, "(")
			inner, closed := strings.CutSuffix(inner, ")")
			if !opened || !closed {
				return nil, refuse(http.StatusBadRequest, "invalid", "Invalid value for field 'filter': '%s'.", filter)
			}
			text = inner
		}
		if field, ok := strings.CutSuffix(text, ":*"); ok {
			all = append(all, condition{field, "*"})
			continue
		}
		field, value, ok := strings.Cut(text, "=")
		if unquoted, err := strconv.Unquote(value); err == nil {
			value = unquoted
		}
		if !ok || field == "" {
			return nil, refuse(http.StatusBadRequest, "invalid", "Invalid value for field 'filter': '%s'.", filter)
		}
		all = append(all, condition{field, value})
	}
	return func(field func(string) (string, bool)) bool {
		for _, wanted := range all {
			if value, ok := field(wanted.field); !ok || wanted.value != "*" && value != wanted.value {
				return false
			}
		}
		return true
	}, nil
}
