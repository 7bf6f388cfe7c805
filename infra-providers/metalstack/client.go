// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package metalstack

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	httptransport "github.com/go-openapi/runtime/client"
	"github.com/go-openapi/strfmt"
	metalapi "github.com/metal-stack/metal-go/api/client"
	"github.com/metal-stack/metal-go/api/client/ip"
	"github.com/metal-stack/metal-go/api/client/machine"
	"github.com/metal-stack/metal-go/api/models"

	"drover.io/infra-providers/driver"
	"drover.io/runtime/egress"
)

const (
	// callTimeout bounds one call, and allocateTimeout an allocation, which waits up to ten seconds for others in the partition
	// and then for the addresses. Both are much shorter than claimWindow.
	callTimeout     = 30 * time.Second
	allocateTimeout = time.Minute
)

// client has the calls in use of the SDK. It makes each once: retries are the caller's. Errors are those of the transport.
type client struct{ api *metalapi.MetalAPI }

// newClient returns a client whose requests a transport carries.
func newClient(login login, transport http.RoundTripper) *client {
	runtime := httptransport.NewWithClient(login.url.Host, login.url.Path, []string{login.url.Scheme}, &http.Client{
		Transport: answers{transport}, Timeout: allocateTimeout, CheckRedirect: egress.NoRedirects,
	})
	runtime.DefaultAuthentication = login.sign
	return &client{metalapi.New(runtime, strfmt.Default)}
}

// answers makes an error of every answer but a success, in one form whatever the operation and whoever answers.
type answers struct{ next http.RoundTripper }

// maxMessage is how many bytes of an error answer are read.
const maxMessage = 64 << 10

// RoundTrip implements http.RoundTripper.
func (a answers) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := a.next.RoundTrip(request)
	if err != nil || response.StatusCode < http.StatusBadRequest {
		return response, err
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(response.Body, maxMessage))
	if err != nil {
		return nil, fmt.Errorf("reading an error answer: %w", err)
	}
	answer := &answerError{status: response.StatusCode}
	answer.retryAfter, _ = driver.ParseRetryAfter(response.Header, time.Now())
	var told struct {
		StatusCode int    `json:"statuscode"`
		Message    string `json:"message"`
	}
	if json.Unmarshal(body, &told) == nil && told.StatusCode == response.StatusCode {
		answer.own, answer.message = true, told.Message
	}
	return nil, answer
}

// findMachines returns the machines that are allocated for a project and have tags. Firewalls are none.
func (c *client) findMachines(ctx context.Context, project string, tags ...string) ([]*models.V1MachineResponse, error) {
	found, err := c.find(ctx, models.V1MachineFindRequest{AllocationProject: project, AllocationRole: models.V1MachineAllocationRoleMachine, Tags: tags})
	if err != nil {
		return nil, fmt.Errorf("finding machines: %w", err)
	}
	return found, nil
}

func (c *client) find(ctx context.Context, query models.V1MachineFindRequest) ([]*models.V1MachineResponse, error) {
	found, err := c.api.Machine.FindMachines(machine.NewFindMachinesParamsWithContext(ctx).WithBody(&query), nil)
	if err != nil {
		return nil, err
	}
	return found.Payload, nil
}

// machine returns a machine by a direct read, or nil. The API answers such a read with "not found" as well if the size, partition
// or image of the machine was deleted, which it permits while machines have them; a list leaves that part empty, so it confirms
// the absence.
func (c *client) machine(ctx context.Context, id string) (*models.V1MachineResponse, error) {
	found, err := c.api.Machine.FindMachine(machine.NewFindMachineParamsWithContext(ctx).WithID(id), nil)
	if isNotFound(err) {
		return c.listedMachine(ctx, id)
	}
	if err != nil {
		return nil, fmt.Errorf("reading machine %q: %w", id, err)
	}
	return found.Payload, nil
}

// listedMachine returns a machine from a list, or nil.
func (c *client) listedMachine(ctx context.Context, id string) (*models.V1MachineResponse, error) {
	found, err := c.find(ctx, models.V1MachineFindRequest{ID: id})
	if err != nil {
		return nil, fmt.Errorf("finding machine %q: %w", id, err)
	}
	for _, listed := range found {
		if value(listed.ID) == id {
			return listed, nil
		}
	}
	return nil, nil
}

func (c *client) allocate(ctx context.Context, body *models.V1MachineAllocateRequest) (*models.V1MachineResponse, error) {
	params := machine.NewAllocateMachineParamsWithTimeout(allocateTimeout).WithContext(ctx).WithBody(body)
	created, err := c.api.Machine.AllocateMachine(params, nil)
	if err != nil {
		return nil, fmt.Errorf("allocating a machine: %w", err)
	}
	return created.Payload, nil
}

func (c *client) free(ctx context.Context, id string) error {
	if _, err := c.api.Machine.FreeMachine(machine.NewFreeMachineParamsWithContext(ctx).WithID(id), nil); err != nil && !isNotFound(err) {
		return fmt.Errorf("freeing machine %q: %w", id, err)
	}
	return nil
}

func (c *client) update(ctx context.Context, body *models.V1MachineUpdateRequest) error {
	if _, err := c.api.Machine.UpdateMachine(machine.NewUpdateMachineParamsWithContext(ctx).WithBody(body), nil); err != nil {
		return fmt.Errorf("tagging machine %q: %w", value(body.ID), err)
	}
	return nil
}

func (c *client) reset(ctx context.Context, id string) error {
	params := machine.NewMachineResetParamsWithContext(ctx).WithID(id).WithBody(models.V1EmptyBody(map[string]any{}))
	if _, err := c.api.Machine.MachineReset(params, nil); err != nil {
		return fmt.Errorf("resetting machine %q: %w", id, err)
	}
	return nil
}

// findIPs returns the addresses of a project that have tags.
func (c *client) findIPs(ctx context.Context, project string, tags ...string) ([]*models.V1IPResponse, error) {
	found, err := c.api.IP.FindIPs(ip.NewFindIPsParamsWithContext(ctx).WithBody(&models.V1IPFindRequest{Projectid: project, Tags: tags}), nil)
	if err != nil {
		return nil, fmt.Errorf("finding addresses: %w", err)
	}
	return found.Payload, nil
}

func (c *client) allocateIP(ctx context.Context, body *models.V1IPAllocateRequest) (*models.V1IPResponse, error) {
	created, err := c.api.IP.AllocateIP(ip.NewAllocateIPParamsWithContext(ctx).WithBody(body), nil)
	if err != nil {
		return nil, fmt.Errorf("allocating an address: %w", err)
	}
	return created.Payload, nil
}

func (c *client) updateIP(ctx context.Context, of *models.V1IPResponse, tags []string) error {
	body := &models.V1IPUpdateRequest{Ipaddress: of.Ipaddress, Description: of.Description, Name: of.Name, Type: of.Type, Tags: tags}
	if _, err := c.api.IP.UpdateIP(ip.NewUpdateIPParamsWithContext(ctx).WithBody(body), nil); err != nil {
		return fmt.Errorf("tagging address %s: %w", value(of.Ipaddress), err)
	}
	return nil
}

func (c *client) freeIP(ctx context.Context, address string) error {
	if _, err := c.api.IP.FreeIP(ip.NewFreeIPParamsWithContext(ctx).WithID(address), nil); err != nil && !isNotFound(err) {
		return fmt.Errorf("freeing address %s: %w", address, err)
	}
	return nil
}

// value returns what a pointer of the SDK points to, or the zero value: it has pointers to everything that is required.
func value[T any](of *T) (zero T) {
	if of == nil {
		return zero
	}
	return *of
}

// toTags returns tags with a value as the API has them.
func toTags(of map[string]string) (tags []string) {
	for key, value := range of {
		tags = append(tags, key+"="+value)
	}
	return tags
}

// fromTags returns the tags with a value. A key with two values has none.
func fromTags(tags []string) map[string]string {
	of := map[string]string{}
	for _, tag := range tags {
		key, value, ok := strings.Cut(tag, "=")
		if earlier, twice := of[key]; ok && twice && earlier != value {
			value = ""
		}
		if ok {
			of[key] = value
		}
	}
	return of
}
