// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Package index defines the indexes of the manager's cache and reads them, so that no controller
// lists what an index can find. It is registered once, before the cache starts;
// every controller reads through it. What it returns is shared with the cache and must not be
// changed: a caller that writes changes a copy.
package index

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	byController  = "metadata.controller"
	byClusterName = "spec.clusterName"
	byProviderID  = "spec.providerID"
	byTemplate    = "spec.template"
)

// The kinds that are indexed.
var (
	machine           = &clusterv1.Machine{}
	machineSet        = &clusterv1.MachineSet{}
	machineDeployment = &clusterv1.MachineDeployment{}

	machineHealthCheck = &clusterv1.MachineHealthCheck{}
)

// Register adds every index to the cache behind indexer.
func Register(ctx context.Context, indexer client.FieldIndexer) error {
	for _, each := range []struct {
		object  client.Object
		field   string
		extract client.IndexerFunc
	}{
		{machine, byController, controllerUID},
		{machine, byClusterName, func(o client.Object) []string { return text(o.(*clusterv1.Machine).Spec.ClusterName) }},
		{machine, byProviderID, func(o client.Object) []string { return text(o.(*clusterv1.Machine).Spec.ProviderID) }},
		{machineSet, byController, controllerUID},
		{machineSet, byClusterName, func(o client.Object) []string { return text(o.(*clusterv1.MachineSet).Spec.ClusterName) }},
		{machineSet, byTemplate, func(o client.Object) []string { return templates(&o.(*clusterv1.MachineSet).Spec.Template.Spec) }},
		{machineDeployment, byClusterName, func(o client.Object) []string { return text(o.(*clusterv1.MachineDeployment).Spec.ClusterName) }},
		{machineDeployment, byTemplate, func(o client.Object) []string { return templates(&o.(*clusterv1.MachineDeployment).Spec.Template.Spec) }},
		{machineHealthCheck, byClusterName, func(o client.Object) []string { return text(o.(*clusterv1.MachineHealthCheck).Spec.ClusterName) }},
	} {
		if err := add(ctx, indexer, each.object, each.field, each.extract); err != nil {
			return fmt.Errorf("indexing %T by %s: %w", each.object, each.field, err)
		}
	}
	return nil
}

// MachinesOf returns the Machines that the object with that UID controls.
func MachinesOf(ctx context.Context, c client.Reader, namespace string, controller types.UID) ([]*clusterv1.Machine, error) {
	return machines(ctx, c, query{machine, byController, namespace, string(controller)})
}

// MachinesWithoutController returns the Machines of a namespace that nothing controls.
func MachinesWithoutController(ctx context.Context, c client.Reader, namespace string) ([]*clusterv1.Machine, error) {
	return machines(ctx, c, query{machine, byController, namespace, none})
}

// MachinesOfCluster returns every Machine of the Cluster.
func MachinesOfCluster(ctx context.Context, c client.Reader, cluster client.ObjectKey) ([]*clusterv1.Machine, error) {
	return machines(ctx, c, query{machine, byClusterName, cluster.Namespace, cluster.Name})
}

// MachinesByProviderID returns the Machines, of any cluster, whose virtual machine has that ID.
func MachinesByProviderID(ctx context.Context, c client.Reader, id string) ([]*clusterv1.Machine, error) {
	return machines(ctx, c, query{machine, byProviderID, everywhere, id})
}

func machines(ctx context.Context, c client.Reader, q query) ([]*clusterv1.Machine, error) {
	list := &clusterv1.MachineList{}
	return find(ctx, c, q, list, &list.Items)
}

// MachineSetsOf returns the MachineSets that the MachineDeployment with that UID controls.
func MachineSetsOf(ctx context.Context, c client.Reader, namespace string, controller types.UID) ([]*clusterv1.MachineSet, error) {
	return machineSets(ctx, c, query{machineSet, byController, namespace, string(controller)})
}

// MachineSetsWithoutController returns the MachineSets of a namespace that nothing controls.
func MachineSetsWithoutController(ctx context.Context, c client.Reader, namespace string) ([]*clusterv1.MachineSet, error) {
	return machineSets(ctx, c, query{machineSet, byController, namespace, none})
}

// MachineSetsOfCluster returns every MachineSet of the Cluster.
func MachineSetsOfCluster(ctx context.Context, c client.Reader, cluster client.ObjectKey) ([]*clusterv1.MachineSet, error) {
	return machineSets(ctx, c, query{machineSet, byClusterName, cluster.Namespace, cluster.Name})
}

// MachineSetsOfTemplate returns the MachineSets of a namespace that refer to the template.
func MachineSetsOfTemplate(ctx context.Context, c client.Reader, namespace string, ref clusterv1.ContractVersionedObjectReference) ([]*clusterv1.MachineSet, error) {
	return machineSets(ctx, c, query{machineSet, byTemplate, namespace, template(ref)})
}

func machineSets(ctx context.Context, c client.Reader, q query) ([]*clusterv1.MachineSet, error) {
	list := &clusterv1.MachineSetList{}
	return find(ctx, c, q, list, &list.Items)
}

// MachineDeploymentsOfCluster returns every MachineDeployment of the Cluster.
func MachineDeploymentsOfCluster(ctx context.Context, c client.Reader, cluster client.ObjectKey) ([]*clusterv1.MachineDeployment, error) {
	return machineDeployments(ctx, c, query{machineDeployment, byClusterName, cluster.Namespace, cluster.Name})
}

// MachineDeploymentsOfTemplate returns the MachineDeployments of a namespace that refer to the template.
func MachineDeploymentsOfTemplate(ctx context.Context, c client.Reader, namespace string, ref clusterv1.ContractVersionedObjectReference) ([]*clusterv1.MachineDeployment, error) {
	return machineDeployments(ctx, c, query{machineDeployment, byTemplate, namespace, template(ref)})
}

func machineDeployments(ctx context.Context, c client.Reader, q query) ([]*clusterv1.MachineDeployment, error) {
	list := &clusterv1.MachineDeploymentList{}
	return find(ctx, c, q, list, &list.Items)
}

// MachineHealthChecksOfCluster returns every MachineHealthCheck of the Cluster.
func MachineHealthChecksOfCluster(ctx context.Context, c client.Reader, cluster client.ObjectKey) ([]*clusterv1.MachineHealthCheck, error) {
	q := query{machineHealthCheck, byClusterName, cluster.Namespace, cluster.Name}
	list := &clusterv1.MachineHealthCheckList{}
	return find(ctx, c, q, list, &list.Items)
}

// none is the index value of objects that have no controller.
const none = "none"

func controllerUID(object client.Object) []string {
	if owner := metav1.GetControllerOfNoCopy(object); owner != nil {
		return []string{string(owner.UID)}
	}
	return []string{none}
}

// templates are the index values of both templates that Machines are created from.
func templates(spec *clusterv1.MachineSpec) []string {
	var found []string
	for _, ref := range []clusterv1.ContractVersionedObjectReference{spec.InfrastructureRef, spec.Bootstrap.ConfigRef} {
		if ref.IsDefined() {
			found = append(found, template(ref))
		}
	}
	return found
}

// template is the index value of a template; no group, kind and name has a slash.
func template(ref clusterv1.ContractVersionedObjectReference) string {
	return ref.APIGroup + "/" + ref.Kind + "/" + ref.Name
}

func text(value string) []string {
	if value == "" {
		return nil
	}
	return []string{value}
}
