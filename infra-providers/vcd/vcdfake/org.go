// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package vcdfake

import (
	"cmp"
	"encoding/json"
	"encoding/xml"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/vmware/go-vcloud-director/v3/types/v56"
)

// The types of resources.
const (
	vdcType      = "application/vnd.vmware.vcloud.vdc+xml"
	templateType = "application/vnd.vmware.vcloud.vAppTemplate+xml"
)

func (c *Cloud) organizations(call) (any, error) {
	return &types.OrgList{Org: []*types.Org{{HREF: publicURL + "/api/org/" + c.id("org"), Name: Organization}}}, nil
}

func (c *Cloud) organization(r call) (any, error) {
	if r.id != c.id("org") {
		return nil, forbidden("ORG_VIEW")
	}
	return &types.Org{HREF: publicURL + "/api/org/" + r.id, ID: "urn:vcloud:org:" + r.id, Name: Organization, Link: types.LinkList{
		{Rel: "down", Type: vdcType, Name: "another", HREF: publicURL + "/api/vdc/" + c.id("another vdc")},
		{Rel: "down", Type: vdcType, Name: VDC, HREF: publicURL + "/api/vdc/" + c.id("vdc")},
		{Rel: "down", Type: "application/vnd.vmware.vcloud.catalog+xml", Name: VDC, HREF: publicURL + "/api/catalog/" + c.id("catalog")},
	}}, nil
}

func (c *Cloud) vdc(r call) (any, error) {
	if r.id != c.id("vdc") {
		return nil, forbidden("VDC_VIEW")
	}
	entities := &types.ResourceEntities{}
	for _, of := range c.vApps {
		entities.ResourceEntity = append(entities.ResourceEntity, &types.ResourceReference{HREF: publicURL + "/api/vApp/vapp-" + of.id, Name: of.name, Type: types.MimeVApp})
	}
	entities.ResourceEntity = append(entities.ResourceEntity, &types.ResourceReference{HREF: publicURL + "/api/vAppTemplate/vappTemplate-" + c.id("template"), Name: VApp, Type: templateType})
	return &types.Vdc{
		HREF: publicURL + "/api/vdc/" + r.id, ID: "urn:vcloud:vdc:" + r.id, Name: VDC, IsEnabled: true, ResourceEntities: []*types.ResourceEntities{entities},
		VdcStorageProfiles: &types.VdcStorageProfiles{VdcStorageProfile: []*types.Reference{
			{HREF: publicURL + "/api/vdcStorageProfile/" + c.id("silver"), Name: "silver"}, {HREF: publicURL + "/api/vdcStorageProfile/" + c.id(StorageProfile), Name: StorageProfile},
		}},
	}, nil
}

func (c *Cloud) catalog(r call) (any, error) {
	switch r.id {
	case c.id("catalog " + Catalog):
		return &types.Catalog{Name: Catalog, CatalogItems: []*types.CatalogItems{{CatalogItem: []*types.Reference{
			{Name: "tools.iso", HREF: publicURL + "/api/catalogItem/" + c.id("item iso")},
			{Name: Template, HREF: publicURL + "/api/catalogItem/" + c.id("item "+Template)},
			{Name: PairTemplate, HREF: publicURL + "/api/catalogItem/" + c.id("item "+PairTemplate)},
		}}}}, nil
	case c.id("catalog " + SharedCatalog):
		return &types.Catalog{Name: SharedCatalog}, nil
	}
	return nil, forbidden("CATALOG_VIEW")
}

func (c *Cloud) catalogItem(r call) (any, error) {
	for _, name := range []string{Template, PairTemplate} {
		if r.id == c.id("item "+name) {
			return &types.CatalogItem{Name: name, Entity: &types.Entity{Name: name, Type: templateType, HREF: publicURL + "/api/vAppTemplate/vappTemplate-" + c.id("template "+name)}}, nil
		}
	}
	if r.id == c.id("item iso") {
		return &types.CatalogItem{Name: "tools.iso", Entity: &types.Entity{Type: "application/vnd.vmware.vcloud.media+xml"}}, nil
	}
	return nil, forbidden("CATALOG_ITEM_VIEW")
}

// templates are the virtual machines of each template.
var templates = map[string][]string{Template: {"ubuntu"}, PairTemplate: {"first", "second"}}

func (c *Cloud) template(r call) (any, error) {
	for name, names := range templates {
		if r.id != c.id("template "+name) {
			continue
		}
		found := &types.VAppTemplate{Name: name, Status: statusOff, Children: &types.VAppTemplateChildren{}}
		for _, vm := range names {
			found.Children.VM = append(found.Children.VM, &types.VAppTemplate{Name: vm, HREF: publicURL + "/api/vAppTemplate/vm-" + c.id("template vm "+vm)})
		}
		return found, nil
	}
	return nil, forbidden("VAPP_TEMPLATE_VIEW")
}

func (c *Cloud) listPolicies(r call) (any, error) {
	if r.id != c.id("vdc") {
		return nil, forbidden("VDC_VIEW")
	}
	page, size := paging(r)
	first := min((page-1)*size, len(c.policies))
	values, err := json.Marshal(c.policies[first:min(first+size, len(c.policies))])
	return types.OpenApiPages{ResultTotal: len(c.policies), PageCount: (len(c.policies) + size - 1) / size, Page: page, PageSize: size, Values: values}, err
}

func paging(r call) (page, size int) {
	page, _ = strconv.Atoi(r.query.Get("page"))
	size, _ = strconv.Atoi(r.query.Get("pageSize"))
	return max(page, 1), max(min(size, 128), 1)
}

// vmRecord is a virtual machine in a list. The type of the SDK lacks the description.
type vmRecord struct {
	types.QueryResultVMRecordType
	Description string `xml:"description,attr,omitempty"`
}

// records is an answer of the query service.
type records struct {
	XMLName       xml.Name               `xml:"QueryResultRecords"`
	Page          int                    `xml:"page,attr"`
	PageSize      int                    `xml:"pageSize,attr"`
	Total         int                    `xml:"total,attr"`
	VMRecord      []*vmRecord            `xml:"VMRecord"`
	CatalogRecord []*types.CatalogRecord `xml:"CatalogRecord"`
}

// list answers queries of virtual machines and catalogs.
func (c *Cloud) list(r call) (any, error) {
	page, size := paging(r)
	answer := &records{Page: page, PageSize: size}
	if c.options.ShortLists && page > 1 {
		defer func() { answer.VMRecord = nil }()
	}
	if r.query.Get("format") != "records" || r.query.Get("sortAsc") != "name" {
		c.violate("query %q: it is not sorted", r.query)
	}
	switch r.query.Get("type") {
	case types.QtCatalog:
		all := []*types.CatalogRecord{
			{Name: Catalog, OrgName: "elsewhere", HREF: publicURL + "/api/catalog/" + c.id("catalog elsewhere")},
			{Name: Catalog, OrgName: Organization, HREF: publicURL + "/api/catalog/" + c.id("catalog "+Catalog)},
			{Name: SharedCatalog, OrgName: "elsewhere", HREF: publicURL + "/api/catalog/" + c.id("catalog "+SharedCatalog)},
		}
		answer.Total = len(all)
		answer.CatalogRecord = part(all, page, size)
	case types.QtVm:
		all, err := c.query(r)
		if err != nil {
			return nil, err
		}
		answer.Total = len(all)
		answer.VMRecord = part(all, page, size)
	default:
		return nil, refuse(http.StatusBadRequest, "BAD_REQUEST", "Bad request - unknown type %q", r.query.Get("type"))
	}
	return answer, nil
}

func part[T any](all []T, page, size int) []T {
	first := min((page-1)*size, len(all))
	return all[first:min(first+size, len(all))]
}

// query returns the virtual machines that a filter selects, with the fields that were requested.
func (c *Cloud) query(r call) (all []*vmRecord, err error) {
	name, ok := strings.CutPrefix(r.query.Get("filter"), "isVAppTemplate==false;name==")
	if !ok {
		c.violate("query: the filter %q is not understood", r.query.Get("filter"))
		return nil, refuse(http.StatusBadRequest, "BAD_REQUEST", "Bad request - filter")
	}
	prefix, wild := strings.CutSuffix(name, "*")
	fields := strings.Split(r.query.Get("fields"), ",")
	for _, found := range c.vms {
		if wild && !strings.HasPrefix(found.Name, prefix) || !wild && found.Name != name {
			continue
		}
		if found.hidden > 0 {
			found.hidden--
			continue
		}
		all = append(all, c.record(found, fields))
	}
	slices.SortFunc(all, func(a, b *vmRecord) int { return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.HREF, b.HREF)) })
	return all, nil
}

func (c *Cloud) record(of *vm, fields []string) *vmRecord {
	found := &vmRecord{QueryResultVMRecordType: types.QueryResultVMRecordType{HREF: of.HREF}}
	metadata := &types.Metadata{}
	for _, field := range fields {
		switch key, isMetadata := strings.CutPrefix(field, "metadata:"); {
		case isMetadata:
			if value, ok := of.metadata[key]; ok {
				metadata.MetadataEntry = append(metadata.MetadataEntry, entry(key, value))
			}
		case field == "name":
			found.Name = of.Name
		case field == "container":
			found.ContainerID = publicURL + "/api/vApp/vapp-" + of.vApp
		case field == "vdc":
			found.VdcHREF = publicURL + "/api/vdc/" + c.id("vdc")
		case field == "status":
			found.Status = types.VAppStatuses[of.Status]
		case field == "isDeployed":
			found.Deployed = of.Deployed
		case field == "dateCreated":
			found.DateCreated = of.DateCreated
		case field == "description":
			found.Description = of.Description
		default:
			c.violate("query: there is no field %q", field)
		}
	}
	if len(metadata.MetadataEntry) > 0 {
		found.MetaData = metadata
	}
	return found
}
