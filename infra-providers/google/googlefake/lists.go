// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package googlefake

import (
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"

	compute "google.golang.org/api/compute/v1"

	"drover.io/infra-providers/google/request"
)

func diskKey(d *compute.Disk) string { return request.Last(d.Zone) + "/" + d.Name }

func (c *Cloud) newDisk(of *compute.Instance, name string, labels map[string]string) *disk {
	zone := request.Last(of.Zone)
	made := &disk{Disk: &compute.Disk{
		Id: c.next(), Name: name, Zone: of.Zone, SelfLink: url("zones/%s/disks/%s", zone, name), Status: "READY", Users: []string{of.SelfLink},
		Labels: maps.Clone(labels), LabelFingerprint: fingerprint(labels), CreationTimestamp: c.now(), SizeGb: 10,
	}}
	c.disks[diskKey(made.Disk)] = made
	return made
}

func (c *Cloud) findDisk(zone, name string) (*disk, error) {
	if found := c.disks[zone+"/"+name]; found != nil {
		return found, nil
	}
	return nil, notFound("disks/" + name)
}

func (c *Cloud) getDisk(p map[string]string) (any, error) {
	found, err := c.findDisk(p["zone"], p["disk"])
	if err != nil {
		return nil, err
	}
	return found.Disk, nil
}

func (c *Cloud) deleteDisk(p map[string]string) (any, error) {
	found, err := c.findDisk(p["zone"], p["disk"])
	if err != nil {
		return nil, err
	}
	if len(found.Users) > 0 {
		return nil, refuse(http.StatusBadRequest, "resourceInUseByAnotherResource", "The disk resource '%s' is already being used by '%s'", found.Name, found.Users[0])
	}
	delete(c.disks, diskKey(found.Disk))
	return c.newOperation("delete", found.Zone, found.SelfLink, found.Id).Operation, nil
}

func (c *Cloud) labelDisk(p map[string]string, body []byte) (any, error) {
	found, err := c.findDisk(p["zone"], p["resource"])
	if err != nil {
		return nil, err
	}
	wanted := &compute.ZoneSetLabelsRequest{}
	if err := json.Unmarshal(body, wanted); err != nil {
		return nil, err
	}
	if wanted.LabelFingerprint != found.LabelFingerprint {
		return nil, errFingerprint
	}
	found.Labels, found.LabelFingerprint = wanted.Labels, fingerprint(wanted.Labels)
	return c.newOperation("setLabels", found.Zone, found.SelfLink, found.Id).Operation, nil
}

// listInstances counts as a read of every instance that it has.
func (c *Cloud) listInstances(p map[string]string) (any, error) {
	keys, next, err := selectPage(p, c.instances, func(i *instance) (map[string]string, bool) {
		if i.hidden > 0 {
			i.hidden--
			return nil, false
		}
		return i.Labels, true
	})
	if err != nil {
		return nil, err
	}
	list := &compute.InstanceAggregatedList{Id: "list", SelfLink: url("aggregated/instances"), NextPageToken: next, Items: map[string]compute.InstancesScopedList{}}
	for _, zone := range []string{ZoneA, ZoneB} {
		scope := compute.InstancesScopedList{}
		for _, key := range keys {
			if strings.HasPrefix(key, zone+"/") && c.read(c.instances[key]) {
				scope.Instances = append(scope.Instances, c.instances[key].Instance)
			}
		}
		if len(scope.Instances) == 0 {
			scope.Warning = &compute.InstancesScopedListWarning{Code: "NO_RESULTS_ON_PAGE", Message: "There are no results for scope 'zones/" + zone + "' on this page."}
		}
		switch {
		case zone == c.lost && c.unnamed:
			list.Warning = &compute.InstanceAggregatedListWarning{Code: c.warning, Message: "Some results may be missing."}
			continue
		case zone == c.lost:
			scope = compute.InstancesScopedList{Warning: &compute.InstancesScopedListWarning{Code: c.warning, Message: "The zone is not listed."}}
		}
		list.Items["zones/"+zone] = scope
	}
	return list, nil
}

func (c *Cloud) listDisks(p map[string]string) (any, error) {
	keys, next, err := selectPage(p, c.disks, func(d *disk) (map[string]string, bool) {
		if d.hidden > 0 {
			d.hidden--
			return nil, false
		}
		return d.Labels, true
	})
	if err != nil {
		return nil, err
	}
	list := &compute.DiskAggregatedList{Id: "list", SelfLink: url("aggregated/disks"), NextPageToken: next, Items: map[string]compute.DisksScopedList{}}
	for _, zone := range []string{ZoneA, ZoneB} {
		scope := compute.DisksScopedList{}
		for _, key := range keys {
			if strings.HasPrefix(key, zone+"/") {
				scope.Disks = append(scope.Disks, c.disks[key].Disk)
			}
		}
		if len(scope.Disks) == 0 {
			scope.Warning = &compute.DisksScopedListWarning{Code: "NO_RESULTS_ON_PAGE", Message: "There are no results for scope 'zones/" + zone + "' on this page."}
		}
		switch {
		case zone == c.lost && c.unnamed:
			list.Warning = &compute.DiskAggregatedListWarning{Code: c.warning, Message: "Some results may be missing."}
			continue
		case zone == c.lost:
			scope = compute.DisksScopedList{Warning: &compute.DisksScopedListWarning{Code: c.warning, Message: "The zone is not listed."}}
		}
		list.Items["zones/"+zone] = scope
	}
	return list, nil
}

// selectPage returns the keys of what a page of a list has, and the token of the next page. The token is the last key, so that
// what is created or deleted meanwhile shifts no page.
func selectPage[V any](p map[string]string, all map[string]V, labels func(V) (map[string]string, bool)) (keys []string, next string, err error) {
	matches, err := parseFilter(p["filter"])
	if err != nil {
		return nil, "", err
	}
	size, err := strconv.Atoi(p["maxResults"])
	if err != nil || size < 1 || size > 500 {
		return nil, "", refuse(http.StatusBadRequest, "invalid", "Invalid value for field 'maxResults': '%s'.", p["maxResults"])
	}
	for _, key := range slices.Sorted(maps.Keys(all)) {
		if key <= p["pageToken"] {
			continue
		}
		values, shown := labels(all[key])
		if !shown || !matches(func(field string) (string, bool) {
			value, ok := values[strings.TrimPrefix(field, "labels.")]
			return value, ok
		}) {
			continue
		}
		if len(keys) == size {
			return keys, keys[size-1], nil
		}
		keys = append(keys, key)
	}
	return keys, "", nil
}
