// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package azure

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/compute/armcompute/v8"
	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/network/armnetwork/v9"
	"k8s.io/utils/ptr"

	"drover.io/infra-providers/azure/request"
	"drover.io/infra-providers/azure/tag"
	"drover.io/infra-providers/driver"
	"drover.io/runtime/egress"
	"drover.io/runtime/httplimit"
)

// AccountID implements driver.AccountIdentifier. It is the subscription, whose ID is never used again, with the resource group,
// which is read to prove that it exists: in one that does not, nothing would be found.
func (d *Driver) AccountID(ctx context.Context) (string, error) {
	if _, err := d.readResourceGroup(ctx); err != nil {
		return "", fmt.Errorf("reading the resource group: %w", toError(err))
	}
	return strings.ToLower("azure/" + d.place.Subscription + "/" + d.place.ResourceGroup), nil
}

// Capacity implements driver.CapacityProvider.
func (d *Driver) Capacity(ctx context.Context, config InstanceConfig) (driver.Capacity, error) {
	found, err := d.lookup.Size(ctx, config.Spec)
	if err != nil {
		return driver.Capacity{}, toCreateError(err, config, "spec.vmSize")
	}
	image, err := d.lookup.Image(ctx, config.Spec)
	if err != nil {
		return driver.Capacity{}, toCreateError(err, config, "spec.image")
	}
	return request.Capacity(config.Spec, found, image)
}

// FindImage implements driver.ImageFinder.
func (d *Driver) FindImage(ctx context.Context, config InstanceConfig) (driver.Image, error) {
	found, err := d.lookup.Image(ctx, config.Spec)
	if err != nil {
		return driver.Image{}, toCreateError(err, config, "spec.image")
	}
	return toImage(found), nil
}

// Tag implements driver.Tagger. The virtual machine is tagged last, because its tags decide whether Tag is complete: after a
// failure the next attempt repeats all of it.
func (d *Driver) Tag(ctx context.Context, id driver.Identity) error {
	found, err := d.find(ctx, id)
	if err != nil {
		return err
	}
	if found == nil {
		return &driver.NotFoundError{What: fmt.Sprintf("virtual machine of %q", id.Name)}
	}
	instance, err := id.Checked(d.toInstance(found))
	if err != nil {
		return err
	}
	id.UID = instance.Identity.UID
	beside, err := d.remaining(ctx, id)
	if err != nil {
		return err
	}
	for _, one := range beside {
		if tag.Holds(one.tags, id) {
			continue
		}
		if err := d.tagAttached(ctx, one, tag.Merge(one.tags, id)); err != nil {
			return fmt.Errorf("tagging %s %q: %w", one.kind, one.name, toError(err))
		}
	}
	if tag.Holds(found.Tags, id) {
		return nil
	}
	_, err = d.vms.BeginUpdate(ctx, d.place.ResourceGroup, instance.ID, armcompute.VirtualMachineUpdate{Tags: tag.Merge(found.Tags, id)}, nil)
	return toError(err)
}

func (d *Driver) tagAttached(ctx context.Context, one attached, tags map[string]*string) (err error) {
	switch one.kind {
	case interfaceKind:
		_, err = d.nics.UpdateTags(ctx, d.place.ResourceGroup, one.name, armnetwork.TagsObject{Tags: tags}, nil)
	case addressKind:
		_, err = d.addresses.UpdateTags(ctx, d.place.ResourceGroup, one.name, armnetwork.TagsObject{Tags: tags}, nil)
	default:
		_, err = d.disks.BeginUpdate(ctx, d.place.ResourceGroup, one.name, armcompute.DiskUpdate{Tags: tags}, nil)
	}
	return err
}

// Restart implements driver.Restarter.
func (d *Driver) Restart(ctx context.Context, id driver.Identity) error {
	found, err := driver.RequireRunning(d.Get(ctx, id))
	if err != nil {
		return err
	}
	_, err = d.vms.BeginRestart(ctx, d.place.ResourceGroup, found.ID, nil)
	if isNotFound(err) {
		return &driver.NotFoundError{What: "virtual machine " + found.ID}
	}
	return toError(err)
}

// consoleMinutes is how long the URL of a console may be used, the least that Azure permits being one minute.
const consoleMinutes = 2

// Console implements driver.ConsoleReader. The console is a blob, whose URL Azure signs.
func (d *Driver) Console(ctx context.Context, id driver.Identity) ([]byte, error) {
	found, err := d.Get(ctx, id)
	if err != nil {
		return nil, err
	}
	answer, err := d.vms.RetrieveBootDiagnosticsData(ctx, d.place.ResourceGroup, found.ID, &armcompute.VirtualMachinesClientRetrieveBootDiagnosticsDataOptions{
		SasURIExpirationTimeInMinutes: ptr.To(int32(consoleMinutes)),
	})
	if isNotFound(err) {
		return nil, &driver.NotFoundError{What: "virtual machine " + found.ID}
	}
	if err != nil {
		if answer, ok := toAnswer(err); ok && answer.code == noDiagnostics {
			return nil, nil
		}
		return nil, toError(err)
	}
	return d.readConsole(ctx, ptr.Deref(answer.SerialConsoleLogBlobURI, ""))
}

// noDiagnostics is the code for a virtual machine without boot diagnostics.
const noDiagnostics = "BootDiagnosticsNotEnabled"

// maxConsole is how many bytes the blob of a console may have. Azure keeps one MiB.
const maxConsole = 8 << 20

// readConsole reads the blob of a console. There is none before the first boot.
func (d *Driver) readConsole(ctx context.Context, url string) ([]byte, error) {
	if url == "" {
		return nil, nil
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return nil, errConsole
	}
	response, err := d.consoles.Do(request) //nolint:gosec // the URL is of Azure's answer
	if err != nil {
		return nil, fmt.Errorf("reading the console: %w", driver.StableNetworkError(err, "calling the storage of Azure"))
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode == http.StatusNotFound {
		return nil, nil
	}
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("reading the console: the storage of Azure answered %d", response.StatusCode)
	}
	content, err := io.ReadAll(response.Body)
	if err != nil {
		return nil, fmt.Errorf("reading the console: %w", driver.StableNetworkError(err, "calling the storage of Azure"))
	}
	return driver.LastOutput(content), nil
}

var errConsole = fmt.Errorf("reading the console: the answer of Azure has no valid URL")

// newConsoleClient returns a client without credentials.
func newConsoleClient() *http.Client {
	return &http.Client{Timeout: callTimeout, Transport: httplimit.Wrap(driver.NewTransport(callTimeout), maxConsole), CheckRedirect: egress.NoRedirects}
}
