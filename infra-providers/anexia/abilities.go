// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package anexia

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	infrav1 "drover.io/api/infrastructure/v1alpha1"
	"drover.io/infra-providers/driver"
	"drover.io/infra-providers/internal/lookup"
)

// AccountID implements driver.AccountIdentifier. The API does not name the account that a token leads to, and what could be made
// to mark it needs the identifier of the customer. But a VLAN belongs to one account and has a unique identifier.
func (d *Driver) AccountID(ctx context.Context) (string, error) {
	err := d.client.vlan(ctx, d.vlan)
	switch {
	case isNotFound(err):
		return "", &driver.UnauthorizedError{Err: fmt.Errorf("the credentials do not show VLAN %s of the first network, which identifies the account", d.vlan)}
	case err != nil:
		return "", driver.WithoutInvalidConfiguration(toError(fmt.Errorf("reading VLAN %s, which identifies the account: %w", d.vlan, err)))
	default:
		return "anexia/" + d.vlan, nil
	}
}

// Capacity implements driver.CapacityProvider, without a call: a spec has the size.
func (d *Driver) Capacity(_ context.Context, config InstanceConfig) (driver.Capacity, error) {
	return driver.Capacity{
		Capacity: corev1.ResourceList{
			corev1.ResourceCPU:              *resource.NewQuantity(int64(config.Spec.CPUs), resource.DecimalSI),
			corev1.ResourceMemory:           *resource.NewQuantity(int64(config.Spec.MemoryMB)<<20, resource.BinarySI),
			corev1.ResourceEphemeralStorage: *resource.NewQuantity(int64(config.Spec.Disks[0].SizeGB)<<30, resource.BinarySI),
		},
		Architecture:    "amd64",
		OperatingSystem: "linux",
	}, nil
}

// FindImage implements driver.ImageFinder.
func (d *Driver) FindImage(ctx context.Context, config InstanceConfig) (driver.Image, error) {
	found, err := d.findTemplate(ctx, config)
	return driver.Image{ID: found.ID}, toError(err)
}

// maxTemplates is how many templates are requested. Pages of templates do not work, says the cloud's own Terraform provider,
// so all are requested at once.
const maxTemplates = 1000

// errManyTemplates means that a template that was not found may exist.
var errManyTemplates = errors.New("the location has more templates than one request returns")

// latestBuild is the build with the highest number, as in the cloud's SDK.
const latestBuild = "latest"

// templatesKind is the kind of the look-ups of all templates of a location.
const templatesKind = "templates"

// findTemplate returns the template of a configuration.
func (d *Driver) findTemplate(ctx context.Context, config InstanceConfig) (template, error) {
	spec := config.Spec
	if spec.TemplateBuild == latestBuild {
		spec.TemplateBuild = ""
	}
	all, err := lookup.Cached(&d.templates, templatesKind, spec.LocationID, func() ([]template, error) {
		return d.client.templates(ctx, spec.LocationID, maxTemplates)
	})
	if err != nil {
		return template{}, toCreateError(fmt.Errorf("listing templates: %w", err), "spec.locationID")
	}
	found, number := template{}, -1
	for _, one := range all {
		build, newer := buildNumber(one.Build)
		switch {
		case spec.TemplateID != "" && one.ID == spec.TemplateID, spec.TemplateBuild != "" && one.Name == spec.Template && one.Build == spec.TemplateBuild:
			return one, nil
		case spec.Template != "" && spec.TemplateBuild == "" && one.Name == spec.Template && newer && build > number:
			found, number = one, build
		}
	}
	switch {
	case found.ID != "":
		return found, nil
	case len(all) >= maxTemplates:
		return template{}, errManyTemplates
	default:
		return template{}, noTemplate(spec)
	}
}

// noTemplate is the error of a template that the location does not have.
func noTemplate(spec infrav1.AnexiaMachineSpec) error {
	switch {
	case spec.TemplateBuild != "":
		return driver.InvalidField("spec.templateBuild", "the location has no build %q of template %q", spec.TemplateBuild, spec.Template)
	case spec.Template != "":
		return driver.InvalidField("spec.template", "the location has no template %q with a numbered build", spec.Template)
	default:
		return driver.InvalidField("spec.templateID", "the location has no template %q", spec.TemplateID)
	}
}

// buildNumber returns the number of a build, such as 74 of b74; false for one without.
func buildNumber(build string) (int, bool) {
	digits, ok := strings.CutPrefix(build, "b")
	number, err := strconv.Atoi(digits)
	return number, ok && err == nil
}
