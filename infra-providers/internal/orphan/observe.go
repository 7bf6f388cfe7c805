// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package orphan

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	kerrors "k8s.io/apimachinery/pkg/util/errors"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	infrav1 "drover.io/api/infrastructure/v1alpha1"
	"drover.io/infra-providers/driver"
)

// connect connects the accounts of all machines and templates, so that each is swept, and none is removed as idle while an
// object names it. The conditions of these objects show that an account cannot be used.
func (c *Collector[M, C]) connect(ctx context.Context) error {
	connected, holders := map[accountKey]bool{}, map[string][]M{}
	add := func(machine M) {
		key := accountKey{machine.GetNamespace(), c.Cloud.Account(machine), machine.GetProviderID() != ""}
		if !c.WatchFilter.Matches(machine) || connected[key] {
			return
		}
		connected[key] = true
		holder := holderOf(machine.GetNamespace(), "")
		holders[holder] = append(holders[holder], machine)
	}
	machines := c.Cloud.NewMachineList()
	err := c.each(ctx, machines, func(item runtime.Object) { add(item.(M)) })
	if err != nil {
		return fmt.Errorf("listing machines: %w", err)
	}
	templates, err := c.newTemplateList()
	if err != nil {
		return err
	}
	unlisted := c.each(ctx, templates, func(item runtime.Object) {
		template := item.(driver.Template[M])
		machine := template.Machine()
		machine.SetNamespace(template.GetNamespace())
		machine.SetLabels(template.GetLabels())
		add(machine)
	})
	if unlisted != nil {
		unlisted = fmt.Errorf("listing templates: %w", unlisted)
	}
	unconnected := concurrently(ctx, holders, func(ctx context.Context, machine M) error {
		if _, err := c.Accounts.Driver(ctx, machine); err != nil && !isShown(err) {
			return fmt.Errorf("connecting the account of %q: %w", client.ObjectKeyFromObject(machine), err)
		}
		return nil
	})
	return kerrors.NewAggregate([]error{unlisted, unconnected})
}

// accountKey is what decides whether a machine gets which account, but for its own pin. A namespace that lost the
// permission to use the provider's own credentials keeps it for the instances that it has.
type accountKey struct {
	namespace   string
	account     driver.Account
	hasInstance bool
}

// isShown reports whether an error is one that a machine or template shows in its conditions, or one that passes.
func isShown(err error) bool {
	return driver.IsUnauthorized(err) || driver.IsInvalidConfiguration(err) || driver.IsAccountMismatch(err) ||
		driver.IsBusy(err) || driver.IsRateLimited(err)
}

func (c *Collector[M, C]) each(ctx context.Context, list client.ObjectList, visit func(runtime.Object)) error {
	if err := c.Client.List(ctx, list); err != nil {
		return err
	}
	return meta.EachListItem(list, func(item runtime.Object) error {
		visit(item)
		return nil
	})
}

func (c *Collector[M, C]) newTemplateList() (client.ObjectList, error) {
	kind, err := apiutil.GVKForObject(c.Cloud.NewTemplate(), c.Client.Scheme())
	if err != nil {
		return nil, fmt.Errorf("finding the kind of templates: %w", err)
	}
	kind.Kind += "List"
	list, err := c.Client.Scheme().New(kind)
	if err != nil {
		return nil, fmt.Errorf("creating a list of templates: %w", err)
	}
	return list.(client.ObjectList), nil
}

// clusters returns all Clusters, by the owner in the tags of their instances.
func (c *Collector[M, C]) clusters(ctx context.Context) (map[driver.Owner]*clusterv1.Cluster, error) {
	list := &clusterv1.ClusterList{}
	if err := c.Client.List(ctx, list); err != nil {
		return nil, fmt.Errorf("listing clusters: %w", err)
	}
	known := map[driver.Owner]*clusterv1.Cluster{}
	for i := range list.Items {
		cluster := &list.Items[i]
		known[driver.Owner{UID: cluster.UID, Namespace: cluster.Namespace, Name: cluster.Name}] = cluster
	}
	return known, nil
}

// observe reads what machines own and Machines refer to.
func (c *Collector[M, C]) observe(ctx context.Context, in *Input) (err error) {
	in.Claims = map[types.NamespacedName]Claim{}
	err = c.each(ctx, c.Cloud.NewMachineList(), func(item runtime.Object) {
		machine := item.(M)
		in.Claims[client.ObjectKeyFromObject(machine)] = c.claimOf(machine)
	})
	if err != nil {
		return fmt.Errorf("listing machines: %w", err)
	}
	in.References, err = c.references(ctx, c.Client, "")
	return err
}

// claimOf is what a machine may own.
func (c *Collector[M, C]) claimOf(machine M) Claim {
	claim := Claim{UIDs: []types.UID{machine.GetUID()}, ProviderID: c.normalize(machine.GetProviderID())}
	if before := machine.GetAnnotations()[infrav1.IdentityAnnotation]; before != "" {
		claim.UIDs = append(claim.UIDs, types.UID(before))
	}
	return claim
}

// normalize returns the form in which provider IDs are compared.
func (c *Collector[M, C]) normalize(providerID string) string {
	if c.Cloud.NormalizeProviderID == nil || providerID == "" {
		return providerID
	}
	return c.Cloud.NormalizeProviderID(providerID)
}

// references returns the instances that the Machines of a namespace refer to; of all without a namespace. An instance
// whose infrastructure machine was removed by force still has a Node, which only its Machine names.
func (c *Collector[M, C]) references(ctx context.Context, from client.Reader, namespace string) (map[Reference]bool, error) {
	list := &clusterv1.MachineList{}
	if err := from.List(ctx, list, client.InNamespace(namespace)); err != nil {
		return nil, fmt.Errorf("listing Machines: %w", err)
	}
	all := map[Reference]bool{}
	for _, machine := range list.Items {
		if machine.Spec.ProviderID != "" {
			all[Reference{machine.Namespace, machine.Spec.ClusterName, c.normalize(machine.Spec.ProviderID)}] = true
		}
	}
	return all, nil
}
