// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Package creation creates the Machines of a MachineSet, with their BootstrapConfigs and InfraMachines. How many, and when,
// is decided by the machineset controller.
package creation

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"drover.io/machine-controller/internal/contract"
	"drover.io/machine-controller/internal/expectation"
	"drover.io/machine-controller/internal/inplace"
	"drover.io/machine-controller/internal/kubeversion"
	"drover.io/machine-controller/internal/machinename"
	"drover.io/runtime/predicates"
)

// Creator creates Machines: first the Machine, with its finalizer, labels and owner; then its BootstrapConfig and its
// InfraMachine, under the same name and owned by it. These are three writes, and no object is ever without an owner. What a
// crash leaves out is created later by CreateChildren. All fields are required.
type Creator struct {
	Client    client.Client
	Templates *contract.Templates
	Tracker   *expectation.Tracker
}

// Templates are the templates that the Machines of a MachineSet are created from. The bootstrap template is nil where the
// user provides the data Secret.
type Templates struct {
	infra, bootstrap *contract.Template
}

// ReadTemplates reads both templates of the MachineSet; the error of a missing one names it.
func (c *Creator) ReadTemplates(ctx context.Context, set *clusterv1.MachineSet) (Templates, error) {
	spec := &set.Spec.Template.Spec
	infra, err := c.Templates.Get(ctx, set.Namespace, spec.InfrastructureRef)
	if err != nil || !spec.Bootstrap.ConfigRef.IsDefined() {
		return Templates{infra: infra}, err
	}
	bootstrap, err := c.Templates.Get(ctx, set.Namespace, spec.Bootstrap.ConfigRef)
	return Templates{infra, bootstrap}, err
}

// Create creates one Machine with its children.
func (c *Creator) Create(ctx context.Context, set *clusterv1.MachineSet, from Templates) error {
	name, err := machinename.New(set)
	if err != nil {
		return err
	}
	machine := NewMachine(set, name)
	if err := c.Client.Create(ctx, machine); err != nil {
		c.Tracker.Unverify(set.UID) // the Machine may exist: a response can be lost, and a proxy can repeat a request
		return fmt.Errorf("creating Machine: %w", err)
	}
	c.Tracker.Created(set.UID, machine)
	ctrl.LoggerFrom(ctx).Info("created Machine", "Machine", klog.KObj(machine))
	return c.CreateChildren(ctx, set, machine, from)
}

// CreateChildren creates the children of a Machine that do not exist yet.
func (c *Creator) CreateChildren(ctx context.Context, set *clusterv1.MachineSet, machine *clusterv1.Machine, from Templates) error {
	for _, template := range []*contract.Template{from.bootstrap, from.infra} {
		if template == nil {
			continue
		}
		object, err := template.Object(contract.Metadata{
			Name:        machine.Name,
			ClusterName: machine.Spec.ClusterName,
			Labels:      predicates.Inherit(set.Spec.Template.Labels, machine),
			Annotations: set.Spec.Template.Annotations,
			Owner:       *metav1.NewControllerRef(machine, clusterv1.GroupVersion.WithKind("Machine")),
		})
		if err != nil {
			return err
		}
		err = c.Client.Create(ctx, object)
		if apierrors.IsAlreadyExists(err) {
			continue
		}
		if err != nil {
			return fmt.Errorf("creating %s %q: %w", object.GetKind(), object.GetName(), err)
		}
		ctrl.LoggerFrom(ctx).Info("created "+object.GetKind(), object.GetKind(), klog.KObj(object), "Machine", klog.KObj(machine))
	}
	return nil
}

// LacksChildren reports whether a Machine reports that one of its children does not exist, and refers to it as NewMachine
// does. Once the instance exists, or the bootstrap data is known, nothing is created again; nor is anything for a Machine
// that refers to an object of another name or kind, which the MachineSet did not create.
func LacksChildren(set *clusterv1.MachineSet, m *clusterv1.Machine) bool {
	return lacksBootstrap(set, m) || lacksInfra(set, m)
}

func lacksBootstrap(set *clusterv1.MachineSet, m *clusterv1.Machine) bool {
	template := set.Spec.Template.Spec.Bootstrap.ConfigRef
	return template.IsDefined() && m.Spec.Bootstrap.ConfigRef == contract.RefFromTemplate(template, m.Name) && m.Spec.Bootstrap.DataSecretName == nil &&
		conditions.GetReason(m, clusterv1.MachineBootstrapConfigReadyCondition) == clusterv1.MachineBootstrapConfigDoesNotExistReason
}

func lacksInfra(set *clusterv1.MachineSet, m *clusterv1.Machine) bool {
	return m.Spec.InfrastructureRef == contract.RefFromTemplate(set.Spec.Template.Spec.InfrastructureRef, m.Name) &&
		m.Status.Initialization.InfrastructureProvisioned == nil && m.Spec.ProviderID == "" &&
		conditions.GetReason(m, clusterv1.MachineInfrastructureReadyCondition) == clusterv1.MachineInfrastructureDoesNotExistReason
}

// Lacking returns the templates of the children that the Machine lacks.
func (t Templates) Lacking(set *clusterv1.MachineSet, m *clusterv1.Machine) Templates {
	if !lacksBootstrap(set, m) {
		t.bootstrap = nil
	}
	if !lacksInfra(set, m) {
		t.infra = nil
	}
	return t
}

// NewMachine returns the Machine of a name that the MachineSet's template describes.
func NewMachine(set *clusterv1.MachineSet, name string) *clusterv1.Machine {
	template := &set.Spec.Template
	machine := &clusterv1.Machine{
		ObjectMeta: metav1.ObjectMeta{
			Namespace:       set.Namespace,
			Name:            name,
			Finalizers:      []string{clusterv1.MachineFinalizer},
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(set, clusterv1.GroupVersion.WithKind("MachineSet"))},
		},
		Spec: *template.Spec.DeepCopy(),
	}
	inplace.PropagateToMachine(machine, set)
	machine.Spec.ClusterName = set.Spec.ClusterName
	machine.Spec.Version = kubeversion.Normalize(machine.Spec.Version)
	machine.Spec.InfrastructureRef = contract.RefFromTemplate(template.Spec.InfrastructureRef, name)
	if template.Spec.Bootstrap.ConfigRef.IsDefined() {
		machine.Spec.Bootstrap.ConfigRef = contract.RefFromTemplate(template.Spec.Bootstrap.ConfigRef, name)
	}
	return machine
}
