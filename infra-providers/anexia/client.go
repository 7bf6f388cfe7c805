// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package anexia

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"drover.io/infra-providers/driver"
	"drover.io/runtime/egress"
	"drover.io/runtime/httplimit"
)

const (
	// defaultEndpoint is the Anexia Engine.
	defaultEndpoint = "https://engine.anexia-it.com"
	// callTimeout bounds one request.
	callTimeout = 30 * time.Second
	// maxAnswer is how many bytes one answer may have: many times what 1,000 templates have.
	maxAnswer = 32 << 20
)

// Paths of the Engine.
const (
	provisionPath = "/api/vsphere/v1/provisioning/vm.json/"
	progressPath  = "/api/vsphere/v1/provisioning/progress.json/"
	templatesPath = "/api/vsphere/v1/provisioning/templates.json/"
	infoPath      = "/api/vsphere/v1/info.json/"
	searchPath    = "/api/vsphere/v1/search/by_name.json"
	listPath      = "/api/vsphere/v1/vmlist/list.json"
	reservePath   = "/api/ipam/v1/address/reserve/ip/count.json"
	vlanPath      = "/api/vlan/v1/vlan.json/"
)

// client calls the Engine with one token. Each request is sent once.
type client struct {
	http     *http.Client
	endpoint string
	token    string
}

// newClient returns a client; an empty endpoint is the Engine's own.
func newClient(endpoint, token string) *client {
	if endpoint == "" {
		endpoint = defaultEndpoint
	}
	return &client{
		http:     &http.Client{Timeout: callTimeout, Transport: httplimit.Wrap(driver.NewTransport(callTimeout), maxAnswer), CheckRedirect: egress.NoRedirects},
		endpoint: strings.TrimSuffix(endpoint, "/"),
		token:    token,
	}
}

// provision is the request for a virtual machine.
type provision struct {
	Hostname           string           `json:"hostname"`
	MemoryMB           int32            `json:"memory_mb"`
	CPUs               int32            `json:"cpus"`
	Sockets            int32            `json:"sockets,omitempty"`
	CPUPerformanceType string           `json:"cpu_performance_type,omitempty"`
	AvailabilityZone   string           `json:"availability_zone,omitempty"`
	DiskGB             int32            `json:"disk_gb"`
	DiskType           string           `json:"disk_type,omitempty"`
	AdditionalDisks    []additionalDisk `json:"additional_disks,omitempty"`
	Network            []nic            `json:"network,omitempty"`
	DNS1               string           `json:"dns1,omitempty"`
	DNS2               string           `json:"dns2,omitempty"`
	DNS3               string           `json:"dns3,omitempty"`
	DNS4               string           `json:"dns4,omitempty"`
	SSH                string           `json:"ssh,omitempty"`
	Script             string           `json:"script,omitempty"`
}

type additionalDisk struct {
	GB   int32  `json:"gb"`
	Type string `json:"type"`
}

type nic struct {
	NICType        string   `json:"nic_type,omitempty"`
	VLAN           string   `json:"vlan"`
	IPs            []string `json:"ips,omitempty"`
	BandwidthLimit int32    `json:"bandwidth_limit,omitempty"`
}

// task is the answer to a request that takes time, and its progress.
type task struct {
	Identifier string   `json:"identifier"`
	Progress   int      `json:"progress"`
	VM         string   `json:"vm_identifier"`
	Errors     []string `json:"errors"`
	Status     string   `json:"status"`
}

// unnamed is the error of an answer to a request that names no task. Such an answer may have errors, but its status does not refuse
// the request, so its outcome is not known.
func (t task) unnamed() error {
	if len(t.Errors) == 0 {
		return errNoTask
	}
	return fmt.Errorf("%w: %s", errNoTask, shorten(strings.Join(t.Errors, "; ")))
}

// vm is a virtual machine in a list. A list has no state and no addresses.
type vm struct {
	Identifier string `json:"identifier"`
	Name       string `json:"name"`
}

// info is what a direct read shows of a virtual machine.
type info struct {
	vm
	Status           string    `json:"status"`
	TemplateID       string    `json:"template_id"`
	Network          []network `json:"network"`
	AvailabilityZone *struct {
		Identifier string `json:"identifier"`
	} `json:"availability_zone"`
}

type network struct {
	IPv4 []string `json:"ips_v4"`
	IPv6 []string `json:"ips_v6"`
}

type template struct {
	ID    string `json:"id"`
	Name  string `json:"name"`
	Build string `json:"build"`
}

type reservation struct {
	Location string `json:"location_identifier"`
	VLAN     string `json:"vlan_identifier"`
	Prefix   string `json:"prefix_identifier,omitempty"`
	Count    int    `json:"count"`
	Seconds  int    `json:"reservation_period"`
}

type reservedIP struct {
	Identifier string `json:"identifier"`
	Text       string `json:"text"`
}

// list is the envelope of a list.
type list[T any] struct {
	Data []T `json:"data"`
}

func (c *client) provision(ctx context.Context, location, templateID string, body provision) (answer task, err error) {
	path := provisionPath + url.PathEscape(location) + "/templates/" + url.PathEscape(templateID)
	err = c.do(ctx, http.MethodPost, path, nil, body, &answer)
	return answer, err
}

// deprovision requests the removal of a virtual machine, now and not in a day.
func (c *client) deprovision(ctx context.Context, id string) (answer task, err error) {
	err = c.do(ctx, http.MethodDelete, provisionPath+url.PathEscape(id), url.Values{"delayed": {"false"}}, nil, &answer)
	return answer, err
}

func (c *client) progress(ctx context.Context, id string) (answer task, err error) {
	err = c.do(ctx, http.MethodGet, progressPath+url.PathEscape(id), nil, nil, &answer)
	return answer, err
}

// info returns a virtual machine, or nil.
func (c *client) info(ctx context.Context, id string) (*info, error) {
	answer := info{}
	err := c.do(ctx, http.MethodGet, infoPath+url.PathEscape(id)+"/info", nil, nil, &answer)
	switch {
	case isNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("reading virtual machine %s: %w", id, err)
	case answer.Name == "" || answer.Identifier != id:
		return nil, fmt.Errorf("reading virtual machine %s: the answer is about another one", id)
	}
	return &answer, nil
}

func (c *client) search(ctx context.Context, name string) ([]vm, error) {
	answer := list[vm]{}
	err := c.do(ctx, http.MethodGet, searchPath, url.Values{"name": {name}}, nil, &answer)
	return answer.Data, err
}

func (c *client) list(ctx context.Context, number, size int) ([]vm, error) {
	answer := list[vm]{}
	err := c.do(ctx, http.MethodGet, listPath, url.Values{"page": {strconv.Itoa(number)}, "limit": {strconv.Itoa(size)}}, nil, &answer)
	return answer.Data, err
}

func (c *client) reserve(ctx context.Context, wanted reservation) ([]reservedIP, error) {
	answer := list[reservedIP]{}
	err := c.do(ctx, http.MethodPost, reservePath, nil, wanted, &answer)
	return answer.Data, err
}

func (c *client) templates(ctx context.Context, location string, max int) (answer []template, err error) {
	path := templatesPath + url.PathEscape(location) + "/templates"
	err = c.do(ctx, http.MethodGet, path, url.Values{"page": {"1"}, "limit": {strconv.Itoa(max)}}, nil, &answer)
	return answer, err
}

// vlan fails unless the credentials lead to the account of a VLAN.
func (c *client) vlan(ctx context.Context, id string) error {
	answer := struct {
		Identifier string `json:"identifier"`
	}{}
	if err := c.do(ctx, http.MethodGet, vlanPath+url.PathEscape(id), nil, nil, &answer); err != nil {
		return err
	}
	if answer.Identifier != id {
		return errors.New("the answer is about another VLAN")
	}
	return nil
}

// do sends a request and decodes its answer.
func (c *client) do(ctx context.Context, method, path string, query url.Values, in, out any) error {
	var body io.Reader
	if in != nil {
		text, err := json.Marshal(in)
		if err != nil {
			return err
		}
		body = bytes.NewReader(text)
	}
	request, err := http.NewRequestWithContext(ctx, method, c.endpoint+path, body)
	if err != nil {
		return err
	}
	request.URL.RawQuery = query.Encode()
	request.Header.Set("Authorization", "Token "+c.token)
	request.Header.Set("User-Agent", "drover")
	request.Header.Set("Accept", "application/json")
	if in != nil {
		request.Header.Set("Content-Type", "application/json")
	}
	response, err := c.http.Do(request)
	if err != nil {
		return driver.StableNetworkError(err, method+" "+strings.SplitAfter(path, ".json")[0])
	}
	defer response.Body.Close() //nolint:errcheck // it is read to its end
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return driver.StableNetworkError(err, "reading the answer")
	}
	if response.StatusCode < http.StatusOK || response.StatusCode >= http.StatusMultipleChoices {
		return newAPIError(response, text)
	}
	if err := json.Unmarshal(text, out); err != nil {
		return errNotJSON
	}
	return nil
}
