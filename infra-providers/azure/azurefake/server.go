// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package azurefake

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/runtime"
)

// route is one method of the API.
type route struct {
	method, name string
	path         *regexp.Regexp
	// sends and answers are the types of the specification for the bodies; empty for none.
	sends, answers string
}

const group = `(?i)^/subscriptions/[^/]+/resourceGroups/[^/]+/providers/`

// routes are the methods in use, by the SDK's names.
var routes = []route{
	newRoute("PUT", `Microsoft\.Compute/virtualMachines/[^/]+`, "VirtualMachinesClient.BeginCreateOrUpdate", "compute.VirtualMachine", "compute.VirtualMachine"),
	newRoute("GET", `Microsoft\.Compute/virtualMachines/[^/]+`, "VirtualMachinesClient.Get", "", "compute.VirtualMachine"),
	newRoute("PATCH", `Microsoft\.Compute/virtualMachines/[^/]+`, "VirtualMachinesClient.BeginUpdate", "compute.VirtualMachineUpdate", "compute.VirtualMachine"),
	newRoute("DELETE", `Microsoft\.Compute/virtualMachines/[^/]+`, "VirtualMachinesClient.BeginDelete", "", ""),
	newRoute("POST", `Microsoft\.Compute/virtualMachines/[^/]+/restart`, "VirtualMachinesClient.BeginRestart", "", ""),
	newRoute("POST", `Microsoft\.Compute/virtualMachines/[^/]+/retrieveBootDiagnosticsData`, "VirtualMachinesClient.RetrieveBootDiagnosticsData", "", "compute.RetrieveBootDiagnosticsDataResult"),
	newRoute("GET", `Microsoft\.Compute/virtualMachines`, "VirtualMachinesClient.NewListPager", "", "compute.VirtualMachineListResult"),
	newRoute("GET", `Microsoft\.Compute/disks/[^/]+`, "DisksClient.Get", "", "compute.Disk"),
	newRoute("PATCH", `Microsoft\.Compute/disks/[^/]+`, "DisksClient.BeginUpdate", "compute.DiskUpdate", "compute.Disk"),
	newRoute("DELETE", `Microsoft\.Compute/disks/[^/]+`, "DisksClient.BeginDelete", "", ""),
	newRoute("GET", `Microsoft\.Compute/disks`, "DisksClient.NewListByResourceGroupPager", "", "compute.DiskList"),
	newRoute("GET", `Microsoft\.Compute/images/[^/]+`, "ImagesClient.Get", "", "compute.Image"),
	newRoute("GET", `Microsoft\.Compute/galleries/[^/]+/images/[^/]+`, "GalleryImagesClient.Get", "", "compute.GalleryImage"),
	newRoute("GET", `Microsoft\.Compute/galleries/[^/]+/images/[^/]+/versions`, "GalleryImageVersionsClient.NewListByGalleryImagePager", "", "compute.GalleryImageVersionList"),
	newRoute("GET", `Microsoft\.Compute/galleries/[^/]+/images/[^/]+/versions/[^/]+`, "GalleryImageVersionsClient.Get", "", "compute.GalleryImageVersion"),
	newRoute("PUT", `Microsoft\.Network/networkInterfaces/[^/]+`, "InterfacesClient.BeginCreateOrUpdate", "network.Interface", "network.Interface"),
	newRoute("GET", `Microsoft\.Network/networkInterfaces/[^/]+`, "InterfacesClient.Get", "", "network.Interface"),
	newRoute("PATCH", `Microsoft\.Network/networkInterfaces/[^/]+`, "InterfacesClient.UpdateTags", "network.TagsObject", "network.Interface"),
	newRoute("DELETE", `Microsoft\.Network/networkInterfaces/[^/]+`, "InterfacesClient.BeginDelete", "", ""),
	newRoute("GET", `Microsoft\.Network/networkInterfaces`, "InterfacesClient.NewListPager", "", "network.InterfaceListResult"),
	newRoute("PUT", `Microsoft\.Network/publicIPAddresses/[^/]+`, "PublicIPAddressesClient.BeginCreateOrUpdate", "network.PublicIPAddress", "network.PublicIPAddress"),
	newRoute("GET", `Microsoft\.Network/publicIPAddresses/[^/]+`, "PublicIPAddressesClient.Get", "", "network.PublicIPAddress"),
	newRoute("PATCH", `Microsoft\.Network/publicIPAddresses/[^/]+`, "PublicIPAddressesClient.UpdateTags", "network.TagsObject", "network.PublicIPAddress"),
	newRoute("DELETE", `Microsoft\.Network/publicIPAddresses/[^/]+`, "PublicIPAddressesClient.BeginDelete", "", ""),
	newRoute("GET", `Microsoft\.Network/publicIPAddresses`, "PublicIPAddressesClient.NewListPager", "", "network.PublicIPAddressListResult"),
	{method: "GET", name: "ResourceSKUsClient.NewListPager", answers: "compute.ResourceSKUsResult", path: regexp.MustCompile(`^/subscriptions/[^/]+/providers/Microsoft\.Compute/skus$`)},
	{method: "GET", name: "VirtualMachineImagesClient.List", answers: "[]compute.VirtualMachineImageResource", path: regexp.MustCompile(`/artifacttypes/vmimage/offers/[^/]+/skus/[^/]+/versions$`)},
	{method: "GET", name: "VirtualMachineImagesClient.Get", answers: "compute.VirtualMachineImage", path: regexp.MustCompile(`/artifacttypes/vmimage/offers/[^/]+/skus/[^/]+/versions/[^/]+$`)},
	{method: "GET", name: "CommunityGalleryImagesClient.Get", answers: "compute.CommunityGalleryImage", path: regexp.MustCompile(`/communityGalleries/[^/]+/images/[^/]+$`)},
	{method: "GET", name: resourceGroupGet, path: regexp.MustCompile(`(?i)^/subscriptions/[^/]+/resourcegroups/[^/]+$`)},
	{method: "POST", name: graphResources, path: regexp.MustCompile(`^/providers/Microsoft\.ResourceGraph/resources$`)},
}

// The methods that the SDK's modules in use do not have.
const (
	resourceGroupGet = "ResourceGroupsClient.Get"
	graphResources   = "ResourceGraphClient.Resources"
)

func newRoute(method, path, name, sends, answers string) route {
	return route{method: method, name: name, path: regexp.MustCompile(group + path + `$`), sends: sends, answers: answers}
}

// ServeHTTP implements http.Handler.
func (c *Cloud) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case strings.Contains(r.URL.Path, "/oauth2/v2.0/") || strings.HasSuffix(r.URL.Path, "/.well-known/openid-configuration"):
		c.serveAuthority(w, r)
		return
	case strings.HasPrefix(r.URL.Path, consolePath):
		c.serveConsole(w, r)
		return
	}
	c.serveManager(w, r)
}

// serveManager answers a request to the Resource Manager.
func (c *Cloud) serveManager(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get("Authorization") != "Bearer "+token {
		writeError(w, refuse(http.StatusUnauthorized, "InvalidAuthenticationToken", "The access token is invalid."))
		return
	}
	found, ok := find(r)
	if !ok {
		c.violate("%s %s is no method in use", r.Method, r.URL.Path)
		writeError(w, refuse(http.StatusNotFound, "InvalidResourceType", "unknown"))
		return
	}
	if r.URL.Query().Get("api-version") == "" {
		c.violate("%s has no api-version", found.name)
	}
	fault := c.fault(found.name)
	if fault.Status != 0 {
		if fault.RetryAfter != "" {
			w.Header().Set("Retry-After", fault.RetryAfter)
		}
		writeError(w, refuse(fault.Status, fault.Code, "%s", fault.Message))
		return
	}
	if IsChange(found.name) {
		c.changes++
	}
	answer, err := c.answer(r, found, fault)
	if err == nil {
		err = c.checkAnswer(found, answer)
	}
	if fault.Lost {
		panic(http.ErrAbortHandler)
	}
	if err != nil {
		writeError(w, err)
		return
	}
	defer func() { _ = answer.Body.Close() }()
	for name, values := range answer.Header {
		w.Header()[name] = values
	}
	w.WriteHeader(answer.StatusCode)
	_, _ = io.Copy(w, answer.Body)
}

func find(r *http.Request) (route, bool) {
	for _, route := range routes {
		if route.method == r.Method && route.path.MatchString(r.URL.Path) {
			return route, true
		}
	}
	return route{}, false
}

// answer carries a request out.
func (c *Cloud) answer(r *http.Request, found route, fault Fault) (*http.Response, error) {
	if err := checkScope(r); err != nil {
		return nil, err
	}
	if err := c.checkRequest(r, found); err != nil {
		return nil, err
	}
	switch {
	case found.name == resourceGroupGet:
		return toJSON(map[string]string{"id": "/subscriptions/" + Subscription + "/resourceGroups/" + ResourceGroup, "name": ResourceGroup, "location": Location})
	case found.name == graphResources:
		return c.answerGraph(r)
	case strings.HasSuffix(found.name, "Pager"):
		return c.list(r, found.name)
	}
	ctx := context.WithValue(context.WithValue(r.Context(), runtime.CtxAPINameKey{}, found.name), faultKey{}, fault)
	request := r.Clone(ctx)
	request.URL.Scheme, request.URL.Host = "https", r.Host
	if strings.Contains(r.URL.Path, "Microsoft.Network") {
		return c.networks.Do(request)
	}
	return c.compute.Do(request)
}

// faultKey is the key of the fault of a request in its context.
type faultKey struct{}

// checkScope refuses other subscriptions and resource groups. Galleries may be in any.
func checkScope(r *http.Request) error {
	parts := strings.Split(r.URL.Path, "/")
	if len(parts) < 3 || parts[1] != "subscriptions" {
		return nil
	}
	if !strings.EqualFold(parts[2], Subscription) {
		return refuse(http.StatusNotFound, "SubscriptionNotFound", "The subscription '%s' could not be found.", parts[2])
	}
	if len(parts) > 4 && strings.EqualFold(parts[3], "resourcegroups") && !strings.EqualFold(parts[4], ResourceGroup) && !strings.EqualFold(parts[4], imageGroup) {
		return refuse(http.StatusNotFound, "ResourceGroupNotFound", "Resource group '%s' could not be found.", parts[4])
	}
	return nil
}

// checkRequest reports how the body of a request violates Azure's specification.
func (c *Cloud) checkRequest(r *http.Request, found route) error {
	content, err := io.ReadAll(r.Body)
	if err != nil {
		return err
	}
	r.Body = io.NopCloser(bytes.NewReader(content))
	if found.sends == "" {
		if len(content) > 0 && found.name != graphResources {
			c.violate("%s has a body", found.name)
		}
		return nil
	}
	for _, violation := range c.specification.CheckRequest(found.sends, content) {
		c.violate("request of %s: %s", found.name, violation)
	}
	return nil
}

// checkAnswer reports how the body of an answer violates Azure's specification. An answer that an operation was accepted or has
// nothing to do has none.
func (c *Cloud) checkAnswer(found route, answer *http.Response) error {
	content, err := io.ReadAll(answer.Body)
	if err = errors.Join(err, answer.Body.Close()); err != nil {
		return err
	}
	answer.Body = io.NopCloser(bytes.NewReader(content))
	if found.answers == "" || answer.StatusCode >= http.StatusBadRequest {
		return nil
	}
	for _, violation := range c.specification.CheckAnswer(found.answers, content) {
		c.violate("answer of %s: %s", found.name, violation)
	}
	return nil
}

// refusal is an error of the Resource Manager.
type refusal struct {
	status                int
	code, message, target string
}

func (r *refusal) Error() string { return r.code }

func refuse(status int, code, format string, args ...any) *refusal {
	return &refusal{status: status, code: code, message: fmt.Sprintf(format, args...)}
}

func (r *refusal) about(target string) *refusal {
	r.target = target
	return r
}

// writeError writes an error as the Resource Manager does.
func writeError(w http.ResponseWriter, err error) {
	refused, ok := errors.AsType[*refusal](err)
	if !ok {
		if sdk, isSDK := errors.AsType[*azcore.ResponseError](err); isSDK {
			refused = refuse(sdk.StatusCode, sdk.ErrorCode, "refused")
		} else {
			refused = refuse(http.StatusBadRequest, "InvalidRequestContent", "%v", err)
		}
	}
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.Header().Set("X-Ms-Request-Id", "f3bb1c0e-0000-4000-8000-000000000000")
	w.WriteHeader(refused.status)
	body := map[string]string{"code": refused.code, "message": refused.message}
	if refused.target != "" {
		body["target"] = refused.target
	}
	_ = json.NewEncoder(w).Encode(map[string]any{"error": body})
}

func toJSON(value any) (*http.Response, error) {
	content, err := json.Marshal(value)
	if err != nil {
		return nil, err
	}
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(bytes.NewReader(content))}, nil
}
