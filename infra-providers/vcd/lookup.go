// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package vcd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/vmware/go-vcloud-director/v3/types/v56"

	infrav1 "drover.io/api/infrastructure/v1alpha1"
	"drover.io/infra-providers/driver"
	"drover.io/infra-providers/internal/lookup"
)

// lookupLifetime is how long the answer of a look-up of a template, a policy or a storage profile is used.
const lookupLifetime = 5 * time.Minute

// Types of resources and links.
const (
	vAppType     = types.MimeVApp
	vdcType      = "application/vnd.vmware.vcloud.vdc+xml"
	templateType = "application/vnd.vmware.vcloud.vAppTemplate+xml"
)

// urns of the parts of an account.
const (
	organizationURN = "urn:vcloud:org:"
	vdcURN          = "urn:vcloud:vdc:"
)

// findPlace returns the IDs of the organization and the VDC. The names of an account may change later, the IDs do not.
func (d *Driver) findPlace(ctx context.Context) (place, error) {
	if known := d.knownPlace(); known.vdc != "" {
		return known, nil
	}
	var list types.OrgList
	if err := d.client.get(ctx, "/org", nil, &list); err != nil {
		return place{}, err
	}
	found := place{}
	for _, organization := range list.Org {
		if organization.Name == d.client.login.organization {
			found.organization = idOf(organization.HREF)
		}
	}
	if found.organization == "" {
		return place{}, &driver.UnauthorizedError{Err: fmt.Errorf("the credentials do not lead to the organization %q", d.client.login.organization)}
	}
	var organization types.Org
	if err := d.client.get(ctx, "/org/"+found.organization, nil, &organization); err != nil {
		return place{}, err
	}
	for _, link := range organization.Link {
		if link.Rel == "down" && link.Type == vdcType && link.Name == d.vdcName {
			found.vdc = idOf(link.HREF)
		}
	}
	if found.vdc == "" { // absence is not told from a lack of rights
		return place{}, &driver.UnauthorizedError{Err: fmt.Errorf("the organization %q has no VDC %q that the credentials may read", organization.Name, d.vdcName)}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.place.organization, d.place.vdc = found.organization, found.vdc
	return d.place, nil
}

func (d *Driver) knownPlace() place {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.place
}

// readVDC returns the VDC, which has the names of its vApps and storage profiles.
func (d *Driver) readVDC(ctx context.Context) (*types.Vdc, error) {
	place, err := d.findPlace(ctx)
	if err != nil {
		return nil, err
	}
	vdc := &types.Vdc{}
	return vdc, d.client.get(ctx, "/vdc/"+place.vdc, nil, vdc)
}

// vAppID returns the ID of the vApp.
func (d *Driver) vAppID(ctx context.Context) (string, error) {
	if known := d.knownPlace(); known.vApp != "" {
		return known.vApp, nil
	}
	vdc, err := d.readVDC(ctx)
	if err != nil {
		return "", err
	}
	for _, entities := range vdc.ResourceEntities {
		for _, entity := range entities.ResourceEntity {
			if entity.Type == vAppType && entity.Name == d.vAppName {
				d.mu.Lock()
				defer d.mu.Unlock()
				if d.place.vApp = idOf(entity.HREF); d.place.vApp == "" {
					return "", errIncomplete
				}
				return d.place.vApp, nil
			}
		}
	}
	return "", &noVAppError{d.vdcName, d.vAppName}
}

// noVAppError means that no vApp is known under its name. Its virtual machines are not known to be gone: it may have been renamed,
// or the credentials may not read it any more.
type noVAppError struct{ vdc, vApp string }

func (e *noVAppError) Error() string {
	return fmt.Sprintf("the VDC %q has no vApp %q that the credentials may read", e.vdc, e.vApp)
}

// readVApp returns the vApp with its virtual machines. One that cannot be read under its ID is looked up again by its name, and
// read again if it has another ID now.
func (d *Driver) readVApp(ctx context.Context) (*types.VApp, error) {
	var before string
	var failed error
	for {
		id, err := d.vAppID(ctx)
		if err != nil {
			return nil, err
		}
		if id == before {
			return nil, failed
		}
		vApp := &types.VApp{}
		err = d.client.get(ctx, "/vApp/vapp-"+id, nil, vApp)
		if err == nil && idOf(vApp.HREF) != id {
			return nil, errIncomplete
		}
		if !isAbsent(err) || before != "" {
			return vApp, err
		}
		before, failed = id, err
		d.mu.Lock()
		d.place.vApp = ""
		d.mu.Unlock()
	}
}

// maxReference is how many bytes the URL of something has at most. Those of Director have some 120.
const maxReference = 1 << 10

// checked returns a reference that a server sent if it has the form of those of Director: it is cached and sent back.
func checked(reference string) (string, error) {
	switch {
	case idOf(reference) == "":
		return "", errIncomplete
	case len(reference) > maxReference:
		return "", errTooMany
	}
	return reference, nil
}

// template returns the URL of the virtual machine of a template.
func (d *Driver) template(ctx context.Context, spec infrav1.VCDMachineSpec) (string, error) {
	query := []string{spec.Catalog, spec.Template, spec.TemplateVM}
	return lookup.Cached(&d.answers, "template", query, func() (string, error) {
		found, err := d.findTemplate(ctx, spec)
		if err != nil {
			return "", err
		}
		var named []*types.VAppTemplate
		if found.Children != nil {
			named = slices.DeleteFunc(slices.Clone(found.Children.VM), func(vm *types.VAppTemplate) bool {
				return spec.TemplateVM != "" && vm.Name != spec.TemplateVM
			})
		}
		switch {
		case len(named) == 1:
			return checked(named[0].HREF)
		case spec.TemplateVM != "":
			return "", driver.InvalidField("spec.templateVM", "the template %q has no virtual machine %q", spec.Template, spec.TemplateVM)
		default:
			return "", driver.InvalidField("spec.templateVM", "the template %q has %d virtual machines: name one", spec.Template, len(named))
		}
	})
}

// pages reads the pages of a list, each by a function that returns how many records it has and how many the list has. It fails for a
// list that changed meanwhile, so that it may lack a record.
func pages(read func(page int) (records, total int, err error)) error {
	for page, seen, before := 1, 0, 0; ; page++ {
		records, total, err := read(page)
		if err != nil {
			return err
		}
		seen += records
		switch {
		case total > maxRecords:
			return errTooMany
		case page > 1 && total != before, records == 0 && seen < total:
			return errChanged
		case seen >= total:
			return nil
		}
		before = total
	}
}

// maxRecords is how many records a list has at most: a Secret may name a server whose list does not end.
const maxRecords = 100_000

// findTemplate finds a template in a catalog.
func (d *Driver) findTemplate(ctx context.Context, spec infrav1.VCDMachineSpec) (*types.VAppTemplate, error) {
	catalog, err := d.findCatalog(ctx, spec.Catalog)
	if err != nil {
		return nil, err
	}
	for _, items := range catalog.CatalogItems {
		for _, reference := range items.CatalogItem {
			if reference.Name != spec.Template {
				continue
			}
			var item types.CatalogItem
			if err := d.client.get(ctx, "/catalogItem/"+idOf(reference.HREF), nil, &item); err != nil {
				return nil, err
			}
			if item.Entity == nil || item.Entity.Type != templateType {
				continue
			}
			found := &types.VAppTemplate{}
			return found, d.client.get(ctx, "/vAppTemplate/vappTemplate-"+idOf(item.Entity.HREF), nil, found)
		}
	}
	return nil, driver.InvalidField("spec.template", "the catalog %q has no vApp template %q", spec.Catalog, spec.Template)
}

// findCatalog finds a catalog that the credentials may read: the organization's own before one that another shares.
func (d *Driver) findCatalog(ctx context.Context, name string) (*types.Catalog, error) {
	var own, shared []string
	err := pages(func(page int) (int, int, error) {
		var answer types.QueryResultRecordsType
		err := d.client.get(ctx, "/query", url.Values{
			"type": {types.QtCatalog}, "format": {"records"}, "page": {strconv.Itoa(page)}, "pageSize": {strconv.Itoa(d.pageSize)}, "sortAsc": {"name"},
		}, &answer)
		for _, found := range answer.CatalogRecord {
			switch {
			case found.Name != name:
			case found.OrgName == d.client.login.organization:
				own = append(own, idOf(found.HREF))
			default:
				shared = append(shared, idOf(found.HREF))
			}
		}
		return len(answer.CatalogRecord), int(answer.Total), err
	})
	if err != nil {
		return nil, err
	}
	if len(own) == 0 {
		own = shared
	}
	switch len(own) {
	case 0:
		return nil, driver.InvalidField("spec.catalog", "there is no catalog %q that the credentials may read", name)
	case 1:
		found := &types.Catalog{}
		return found, d.client.get(ctx, "/catalog/"+own[0], nil, found)
	default:
		return nil, driver.InvalidField("spec.catalog", "%d organizations share a catalog %q", len(own), name)
	}
}

// storageProfile returns the reference to a storage profile of the VDC; nil without a name.
func (d *Driver) storageProfile(ctx context.Context, name string) (*types.Reference, error) {
	if name == "" {
		return nil, nil
	}
	return lookup.Cached(&d.answers, "storage profile", name, func() (*types.Reference, error) {
		vdc, err := d.readVDC(ctx)
		if err != nil {
			return nil, err
		}
		if vdc.VdcStorageProfiles != nil {
			for _, profile := range vdc.VdcStorageProfiles.VdcStorageProfile {
				if profile.Name == name {
					reference, err := checked(profile.HREF)
					return &types.Reference{HREF: reference, Name: name}, err
				}
			}
		}
		return nil, driver.InvalidField("spec.storageProfile", "the VDC %q has no storage profile %q", d.vdcName, name)
	})
}

// policy is a compute policy. Its numbers are zero where it leaves them to the template. The type of the SDK has ten times as
// many fields.
type policy struct {
	ID           string `json:"id"`
	Name         string `json:"name"`
	CPUCount     int    `json:"cpuCount"`
	Memory       int64  `json:"memory"`
	IsSizingOnly bool   `json:"isSizingOnly"`
	PolicyType   string `json:"policyType"`
}

// policy returns a sizing or placement policy of the VDC; nil without a name.
func (d *Driver) policy(ctx context.Context, field, name string, sizing bool) (*policy, error) {
	if name == "" {
		return nil, nil
	}
	return lookup.Cached(&d.answers, "policy", []any{name, sizing}, func() (*policy, error) {
		found, err := d.findPolicy(ctx, name, sizing)
		if err != nil || found != nil {
			return found, err
		}
		kind := "placement"
		if sizing {
			kind = "sizing"
		}
		return nil, driver.InvalidField(field, "the VDC %q has no %s policy %q", d.vdcName, kind, name)
	})
}

// findPolicy finds a policy in the list of those of the VDC; nil if there is none.
func (d *Driver) findPolicy(ctx context.Context, name string, sizing bool) (found *policy, err error) {
	place, err := d.findPlace(ctx)
	if err != nil {
		return nil, err
	}
	return found, pages(func(page int) (int, int, error) {
		var answer types.OpenApiPages
		err := d.client.getJSON(ctx, "2.0.0/vdcs/"+vdcURN+place.vdc+"/computePolicies", url.Values{"page": {strconv.Itoa(page)}, "pageSize": {strconv.Itoa(d.pageSize)}}, &answer)
		if err != nil {
			return 0, 0, err
		}
		var some []policy
		if err := json.Unmarshal(answer.Values, &some); err != nil {
			return 0, 0, errIncomplete
		}
		for _, one := range some {
			if found == nil && one.Name == name && one.IsSizingOnly == sizing && one.PolicyType != "VdcKubernetesPolicy" {
				id, err := checked(one.ID)
				if err != nil {
					return 0, 0, err
				}
				found = &policy{ID: id, CPUCount: one.CPUCount, Memory: one.Memory}
			}
		}
		return len(some), answer.ResultTotal, nil
	})
}

// checkNetworks reports a network that a vApp does not have.
func checkNetworks(vApp *types.VApp, networks []infrav1.VCDNetwork) error {
	var known []string
	if vApp.NetworkConfigSection != nil {
		for _, network := range vApp.NetworkConfigSection.NetworkConfig {
			known = append(known, network.NetworkName)
		}
	}
	for n, network := range networks {
		if !slices.Contains(known, network.Name) {
			return driver.InvalidField(fmt.Sprintf("spec.networks[%d].name", n), "the vApp %q has no network %q, but %s", vApp.Name, network.Name, strings.Join(known, ", "))
		}
	}
	return nil
}

// invalidVApp converts the error of a vApp that is not known, which only another spec avoids while there is no machine.
func invalidVApp(err error) error {
	if missing, ok := errors.AsType[*noVAppError](err); ok {
		return driver.InvalidField("spec.vApp", "%w", missing)
	}
	return err
}
