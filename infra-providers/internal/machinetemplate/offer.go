// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package machinetemplate

import (
	"cmp"
	"context"

	infrav1 "drover.io/api/infrastructure/v1alpha1"
	"drover.io/infra-providers/driver"
)

// machineProperties is what a machine of a template would be. What is not known is zero.
type machineProperties struct {
	instanceType string
	size         driver.Capacity
	image        driver.Image
}

// inspect reads from the cloud what a template names. What was found before a failure counts.
func (r *Reconciler[M, C]) inspect(ctx context.Context, template driver.Template[M]) (found machineProperties, err error) {
	machine := template.Machine()
	machine.SetNamespace(template.GetNamespace())
	config, err := r.Cloud.Config(machine, "")
	if err != nil {
		return found, err
	}
	if r.Cloud.Offering != nil {
		found.instanceType, _ = r.Cloud.Offering(config)
	}
	cloud, err := r.Accounts.Driver(ctx, machine)
	if err == nil && cloud.Capacity != nil {
		found.size, err = cloud.Capacity(ctx, template.GetNamespace(), config)
	}
	if err == nil && cloud.FindImage != nil {
		found.image, err = cloud.FindImage(ctx, template.GetNamespace(), config)
	}
	if driver.IsUnauthorized(err) {
		r.Accounts.Refused(ctx, machine, err)
	}
	offered, needed := found.size.Architecture, found.image.Architecture
	if err == nil && offered != "" && needed != "" && offered != needed {
		err = &mismatchError{found}
	}
	return found, err
}

// maxOperatingSystem is how many bytes the name of an operating system may have: in some clouds it is a property of the image,
// which may have any.
const maxOperatingSystem = 64

// setOffer writes what the cluster autoscaler reads. What is not known now stays as it was.
func setOffer(status *infrav1.MachineTemplateStatus, found machineProperties) {
	if found.size.Capacity != nil {
		status.Capacity = found.size.Capacity
	}
	status.NodeInfo.Architecture = cmp.Or(found.size.Architecture, found.image.Architecture, status.NodeInfo.Architecture)
	if system := found.size.OperatingSystem; len(system) <= maxOperatingSystem {
		status.NodeInfo.OperatingSystem = cmp.Or(system, status.NodeInfo.OperatingSystem)
	}
}
