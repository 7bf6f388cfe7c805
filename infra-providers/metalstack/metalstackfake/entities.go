// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package metalstackfake

import (
	"net/netip"
	"strings"

	"github.com/go-openapi/strfmt"
	"github.com/metal-stack/metal-go/api/models"
	"k8s.io/utils/ptr"
)

func findProject(c *Cloud, r request) (any, *refusal) {
	if c.replaced || r.id != Project && r.id != OtherProject {
		return nil, notFound("project", r.id)
	}
	found := &models.V1ProjectResponse{Name: "workers", TenantID: "acme", Meta: &models.V1Meta{ID: r.id, Kind: "Project", Apiversion: "v1", Labels: []string{}}}
	if c.quota > 0 {
		found.Quotas = &models.V1QuotaSet{Machine: &models.V1Quota{Quota: c.quota}}
	}
	return found, nil
}

// latest returns the image with an ID, or the newest of an operating system and version. Expired ones count.
func (c *Cloud) latest(id string) (newest string) {
	for name := range c.images {
		if (name == id || strings.HasPrefix(name, id+".")) && name > newest {
			newest = name
		}
	}
	return newest
}

func findLatestImage(c *Cloud, r request) (any, *refusal) {
	found := c.latest(r.id)
	if found == "" {
		return nil, notFound("image", r.id)
	}
	return c.renderImage(found), nil
}

func (c *Cloud) renderImage(id string) *models.V1ImageResponse {
	expires := strfmt.DateTime(c.images[id].expires)
	return &models.V1ImageResponse{ID: &id, Name: id, ExpirationDate: &expires, Features: []string{c.images[id].feature}, Classification: "supported"}
}

func findSize(_ *Cloud, r request) (any, *refusal) {
	if _, ok := sizes[r.id]; !ok {
		return nil, notFound("size", r.id)
	}
	return renderSize(r.id), nil
}

func renderSize(id string) *models.V1SizeResponse {
	of := sizes[id]
	return &models.V1SizeResponse{ID: &id, Name: id, Labels: map[string]string{}, Constraints: []*models.V1SizeConstraint{
		{Type: ptr.To(models.V1SizeConstraintTypeCores), Min: of[0], Max: of[0]},
		{Type: ptr.To(models.V1SizeConstraintTypeMemory), Min: of[1] << 30, Max: of[1]<<30 + 1<<30},
		{Type: ptr.To(models.V1SizeConstraintTypeStorage), Min: of[2] << 30, Max: of[2]<<30 + 1<<30},
	}}
}

func findPartition(_ *Cloud, r request) (any, *refusal) {
	if !isPartition(r.id) {
		return nil, notFound("partition", r.id)
	}
	return renderPartition(r.id), nil
}

func renderPartition(id string) *models.V1PartitionResponse {
	return &models.V1PartitionResponse{ID: &id, Name: id, Bootconfig: &models.V1PartitionBootConfiguration{}}
}

func findNetwork(_ *Cloud, r request) (any, *refusal) {
	of, ok := networks[r.id]
	if !ok {
		return nil, notFound("network", r.id)
	}
	usage := &models.V1NetworkUsage{AvailableIps: ptr.To[int64](1022), AvailablePrefixes: ptr.To[int64](256), UsedIps: ptr.To[int64](2), UsedPrefixes: ptr.To[int64](0)}
	return &models.V1NetworkResponse{
		ID: &r.id, Name: "workers", Partitionid: of.partition, Projectid: of.project, Parentnetworkid: of.parent, Prefixes: texts(of.prefixes), Destinationprefixes: []string{},
		Nat: ptr.To(false), Nattype: ptr.To(""), Networktype: ptr.To(""), Privatesuper: ptr.To(r.id == SuperNetwork), Shared: of.shared, Underlay: ptr.To(false), Usage: usage, Consumption: &models.V1NetworkConsumption{IPV4: usage},
	}, nil
}

func texts(prefixes []netip.Prefix) (all []string) {
	for _, prefix := range prefixes {
		all = append(all, prefix.String())
	}
	return all
}

func getFilesystemLayout(_ *Cloud, r request) (any, *refusal) {
	if r.id != Layout {
		return nil, notFound("filesystemlayout", r.id)
	}
	return &models.V1FilesystemLayoutResponse{ID: &r.id, Constraints: &models.V1FilesystemLayoutConstraints{Images: map[string]string{"*": ""}, Sizes: []string{}}}, nil
}
