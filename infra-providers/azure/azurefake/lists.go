// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package azurefake

import (
	"cmp"
	"encoding/json"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/compute/armcompute/v8"
	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/network/armnetwork/v9"
	"k8s.io/utils/ptr"
)

// list answers a list with the SDK's models. The SDK's fake servers keep pages by the path, so that two callers would share
// them.
func (c *Cloud) list(r *http.Request, name string) (*http.Response, error) {
	switch name {
	case "VirtualMachinesClient.NewListPager":
		vms, next := page(c, r, c.listedMachines())
		return toJSON(armcompute.VirtualMachineListResult{Value: vms, NextLink: next})
	case "DisksClient.NewListByResourceGroupPager":
		disks, next := page(c, r, values(c.disks, func(d *disk) *armcompute.Disk { return &d.model }))
		return toJSON(armcompute.DiskList{Value: disks, NextLink: next})
	case "InterfacesClient.NewListPager":
		nics, next := page(c, r, values(c.nics, func(n *networkInterface) *armnetwork.Interface { return &n.model }))
		return toJSON(armnetwork.InterfaceListResult{Value: nics, NextLink: next})
	case "PublicIPAddressesClient.NewListPager":
		addresses, next := page(c, r, values(c.addresses, func(a *publicAddress) *armnetwork.PublicIPAddress { return &a.model }))
		return toJSON(armnetwork.PublicIPAddressListResult{Value: addresses, NextLink: next})
	case "GalleryImageVersionsClient.NewListByGalleryImagePager":
		return toJSON(armcompute.GalleryImageVersionList{Value: galleryVersions()})
	default:
		if r.URL.Query().Get("$filter") != "location eq '"+Location+"'" {
			return toJSON(armcompute.ResourceSKUsResult{Value: []*armcompute.ResourceSKU{}})
		}
		return toJSON(armcompute.ResourceSKUsResult{Value: skus()})
	}
}

func values[V, M any](all map[string]V, to func(V) M) (list []M) {
	for _, name := range slices.Sorted(maps.Keys(all)) {
		list = append(list, to(all[name]))
	}
	return list
}

// listedMachines are those that a list has, without their status.
func (c *Cloud) listedMachines() (all []*armcompute.VirtualMachine) {
	for _, name := range slices.Sorted(maps.Keys(c.vms)) {
		vm := c.vms[name]
		if *vm.model.Properties.ProvisioningState == deleting {
			c.progress(name, vm) // a deletion ends without a read of the virtual machine
		}
		switch {
		case vm.unlisted > 0:
			vm.unlisted--
		case c.vms[name] != nil:
			all = append(all, &vm.model)
		}
	}
	return all
}

// page returns a page of a list, and the URL of the next one.
func page[T any](c *Cloud, r *http.Request, all []T) ([]T, *string) {
	from, _ := strconv.Atoi(r.URL.Query().Get("$skiptoken"))
	from = min(from, len(all))
	to := min(from+c.options.PageSize, len(all))
	list := append([]T{}, all[from:to]...) // an empty list is no null
	if to == len(all) {
		return list, nil
	}
	query := url.Values{"api-version": {r.URL.Query().Get("api-version")}, "$skiptoken": {strconv.Itoa(to)}}
	return list, ptr.To(cmp.Or(c.url, "https://"+r.Host) + r.URL.Path + "?" + query.Encode())
}

// answerGraph answers the query for the virtual machines that do not run.
func (c *Cloud) answerGraph(r *http.Request) (*http.Response, error) {
	asked := struct {
		Subscriptions []string
		Query         string
		Options       struct{ ResultFormat string }
	}{}
	if err := json.NewDecoder(r.Body).Decode(&asked); err != nil {
		return nil, err
	}
	if !slices.Equal(asked.Subscriptions, []string{Subscription}) || !strings.Contains(asked.Query, "resourceGroup =~ '"+ResourceGroup+"'") || asked.Options.ResultFormat != "objectArray" {
		c.violate("the query of Resource Graph is %+v", asked)
	}
	var current []string
	for _, name := range slices.Sorted(maps.Keys(c.vms)) {
		if power := c.vms[name].power; power != "" && power != "running" {
			current = append(current, name)
		}
	}
	answered := current
	if c.options.GraphDelay {
		answered = c.graph
	}
	c.graph = current
	data := []map[string]string{}
	for _, name := range answered {
		data = append(data, map[string]string{"name": name})
	}
	return toJSON(map[string]any{"totalRecords": len(data), "count": len(data), "resultTruncated": "false", "data": data})
}
