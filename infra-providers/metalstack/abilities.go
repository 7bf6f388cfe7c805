// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package metalstack

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/metal-stack/metal-go/api/models"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"drover.io/infra-providers/driver"
)

// AccountID implements driver.AccountIdentifier. It is the project at the host of its API. The project is read, to prove that it
// exists: in one that does not, nothing would be found.
func (d *Driver) AccountID(ctx context.Context) (string, error) {
	found, err := d.projectOf(ctx)
	if err != nil {
		return "", toError(err)
	}
	if found.Meta == nil || found.Meta.ID != d.project {
		return "", fmt.Errorf("reading the project %q: the answer is about another one", d.project)
	}
	return "metalstack/" + d.api + "/" + d.project, nil
}

// Capacity implements driver.CapacityProvider. A size is a range, which each of its machines is in; the smallest of them counts.
func (d *Driver) Capacity(ctx context.Context, config InstanceConfig) (driver.Capacity, error) {
	found, err := d.size(ctx, config.Spec.Size)
	if err != nil {
		return driver.Capacity{}, toError(err)
	}
	capacity := corev1.ResourceList{}
	for _, constraint := range found.Constraints {
		switch value(constraint.Type) {
		case models.V1SizeConstraintTypeCores:
			capacity[corev1.ResourceCPU] = *resource.NewQuantity(constraint.Min, resource.DecimalSI)
		case models.V1SizeConstraintTypeMemory:
			capacity[corev1.ResourceMemory] = *resource.NewQuantity(constraint.Min, resource.BinarySI)
		case models.V1SizeConstraintTypeStorage:
			capacity[corev1.ResourceEphemeralStorage] = *resource.NewQuantity(constraint.Min, resource.BinarySI)
		}
	}
	return driver.Capacity{Capacity: capacity, Architecture: "amd64", OperatingSystem: "linux"}, nil
}

// FindImage implements driver.ImageFinder. The API reports no architecture.
func (d *Driver) FindImage(ctx context.Context, config InstanceConfig) (driver.Image, error) {
	found, err := d.image(ctx, config.Spec.Image)
	if err != nil {
		return driver.Image{}, toError(err)
	}
	image := driver.Image{ID: value(found.ID)}
	if expires := time.Time(value(found.ExpirationDate)); d.clock.Since(expires) > -expiryWarning {
		verb := "expires"
		if !expires.After(d.clock.Now()) {
			verb = "has expired"
		}
		image.Warning = fmt.Sprintf("it %s at %s, and metal-stack may delete an expired image that no machine has", verb, expires.UTC().Format(time.RFC3339))
	}
	return image, nil
}

// Tag implements driver.Tagger. It needs the permissions of an administrator, unlike everything else. The machine is tagged last,
// because its tags decide whether Tag is complete.
func (d *Driver) Tag(ctx context.Context, id driver.Identity) error {
	found, err := d.get(ctx, id)
	if err != nil {
		return toError(err)
	}
	id.UID, id.ProviderID = found.Identity.UID, found.ProviderID
	return driver.WithoutInvalidConfiguration(toError(d.tag(ctx, id, found)))
}

func (d *Driver) tag(ctx context.Context, id driver.Identity, found driver.Instance) error {
	addresses, err := d.claims(ctx, id)
	if err != nil {
		return err
	}
	for _, address := range addresses {
		if tags := retagged(address.Tags, id); !slices.Equal(tags, slices.Sorted(slices.Values(address.Tags))) {
			if err := d.client.updateIP(ctx, address, tags); err != nil && !isNotFound(err) {
				return err
			}
		}
	}
	current, err := d.client.machine(ctx, found.ID)
	if err != nil {
		return err
	}
	if current == nil || current.Allocation == nil {
		return &driver.NotFoundError{What: fmt.Sprintf("allocation of machine %q", id.Name)}
	}
	if err := id.Check(identityOf(current)); err != nil {
		return err
	}
	tags := retagged(current.Tags, id)
	if slices.Equal(tags, slices.Sorted(slices.Values(current.Tags))) {
		return nil
	}
	return d.client.update(ctx, &models.V1MachineUpdateRequest{ID: current.ID, Description: &current.Allocation.Description, Tags: tags})
}

// retagged returns tags with those of an identity, sorted.
func retagged(tags []string, id driver.Identity) []string {
	own := id.Tags()
	kept := slices.DeleteFunc(slices.Clone(tags), func(tag string) bool {
		key, _, _ := strings.Cut(tag, "=")
		_, is := own[key]
		return is
	})
	kept = append(kept, toTags(own)...)
	slices.Sort(kept)
	return kept
}

// Restart implements driver.Restarter, by a reset, which starts no machine that is off.
func (d *Driver) Restart(ctx context.Context, id driver.Identity) error {
	found, err := driver.RequireRunning(d.get(ctx, id))
	if err != nil {
		return driver.WithoutInvalidConfiguration(toError(err))
	}
	return driver.WithoutInvalidConfiguration(toError(d.client.reset(ctx, found.ID)))
}

// AttachedObjects implements driver.AttachedObjectLister: the addresses of machines that were not allocated. Those of a machine go
// with it.
func (d *Driver) AttachedObjects(ctx context.Context, owner driver.Owner) iter.Seq2[driver.AttachedObject, error] {
	return func(yield func(driver.AttachedObject, error) bool) {
		found, err := d.unusedClaims(ctx, owner)
		if err != nil {
			yield(driver.AttachedObject{}, driver.WithoutInvalidConfiguration(toError(err)))
			return
		}
		for _, address := range found {
			id, _ := driver.FromTags(fromTags(address.Tags))
			if !yield(driver.AttachedObject{Kind: "IP address", ID: value(address.Ipaddress), Identity: id, Created: time.Time(address.Created)}, nil) {
				return
			}
		}
	}
}

// unusedClaims returns the claims of an owner that no machine has. One may be marked as a machine's although that was not allocated,
// because the API broke off, or did not release it.
func (d *Driver) unusedClaims(ctx context.Context, owner driver.Owner) ([]*models.V1IPResponse, error) {
	found, err := d.client.findIPs(ctx, d.project, ownerTags(owner)...)
	if err != nil {
		return nil, err
	}
	found = slices.DeleteFunc(found, func(address *models.V1IPResponse) bool {
		id, ok := driver.FromTags(fromTags(address.Tags))
		return !ok || !isClaim(address) || !owner.Selects(id.Owner) || isAttached(address) && d.isFresh(address)
	})
	if !slices.ContainsFunc(found, isAttached) {
		return found, nil
	}
	machines, err := d.client.findMachines(ctx, d.project)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(found, func(address *models.V1IPResponse) bool {
		return isAttached(address) && slices.ContainsFunc(machines, func(machine *models.V1MachineResponse) bool { return hasAddress(machine, address) })
	}), nil
}
