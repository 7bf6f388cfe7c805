// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package azure

import (
	"context"
	"net/http"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/runtime"
)

const (
	groupVersion = "2021-04-01"
	graphVersion = "2021-03-01"
	graphPath    = "/providers/Microsoft.ResourceGraph/resources"
	// maxGraphPage is the maximum page size of Resource Graph.
	maxGraphPage = 1000
)

// graphQuery finds the virtual machines of a resource group that do not run. The name of the group has letters, digits and
// -_.() only.
const graphQuery = "Resources | where type =~ 'microsoft.compute/virtualmachines' and resourceGroup =~ '%GROUP%'" +
	" | extend power = tostring(properties.extended.instanceView.powerState.code)" +
	" | where isnotempty(power) and power != 'PowerState/running' | project name, power"

type graphRequest struct {
	Subscriptions []string     `json:"subscriptions"`
	Query         string       `json:"query"`
	Options       graphOptions `json:"options"`
}

type graphOptions struct {
	ResultFormat string `json:"resultFormat"`
	Top          int    `json:"$top"`
	SkipToken    string `json:"$skipToken,omitempty"`
}

type graphAnswer struct {
	Data      []struct{ Name string } `json:"data"`
	SkipToken string                  `json:"$skipToken"`
}

// notRunning returns the names of the virtual machines that do not run, in lower case, by Resource Graph: no list of Compute
// has that. It may be behind, so what it returns is read again, and what it does not have yet is found by a later list.
func (d *Driver) notRunning(ctx context.Context) (map[string]bool, error) {
	names := map[string]bool{}
	asked := graphRequest{
		Subscriptions: []string{d.place.Subscription},
		Query:         strings.ReplaceAll(graphQuery, "%GROUP%", d.place.ResourceGroup),
		Options:       graphOptions{ResultFormat: "objectArray", Top: maxGraphPage},
	}
	for {
		page := graphAnswer{}
		if err := d.call(ctx, http.MethodPost, graphPath, graphVersion, asked, &page); err != nil {
			return nil, toError(err)
		}
		for _, found := range page.Data {
			names[strings.ToLower(found.Name)] = true
		}
		if page.SkipToken == "" || len(page.Data) == 0 {
			return names, nil
		}
		asked.Options.SkipToken = page.SkipToken
	}
}

type resourceGroup struct{ ID, Name, Location string }

// readResourceGroup reads the resource group.
func (d *Driver) readResourceGroup(ctx context.Context) (found resourceGroup, err error) {
	path := "/subscriptions/" + d.place.Subscription + "/resourcegroups/" + d.place.ResourceGroup
	return found, d.call(ctx, http.MethodGet, path, groupVersion, nil, &found)
}

// call calls an API that the SDK's modules in use do not have.
func (d *Driver) call(ctx context.Context, method, path, version string, body, answer any) error {
	request, err := runtime.NewRequest(ctx, method, runtime.JoinPaths(d.other.Endpoint(), path))
	if err != nil {
		return err
	}
	query := request.Raw().URL.Query()
	query.Set("api-version", version)
	request.Raw().URL.RawQuery = query.Encode()
	request.Raw().Header.Set("Accept", "application/json")
	if body != nil {
		if err := runtime.MarshalAsJSON(request, body); err != nil {
			return err
		}
	}
	response, err := d.other.Pipeline().Do(request)
	if err != nil {
		return err
	}
	if !runtime.HasStatusCode(response, http.StatusOK) {
		return runtime.NewResponseError(response)
	}
	return runtime.UnmarshalAsJSON(response, answer)
}
