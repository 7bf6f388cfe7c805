// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package machineset

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"drover.io/machine-controller/internal/contract"
	"drover.io/machine-controller/internal/expectation"
	"drover.io/machine-controller/internal/kubeversion"
	"drover.io/machine-controller/internal/machinename"
	"drover.io/runtime/predicates"
	"drover.io/runtime/results"
)

// machineCreator brings Machines into the world: first the Machine, with its finalizer, labels and
// owner; then its BootstrapConfig and its InfraMachine, under the same name and owned by it
// from birth. Three writes, and no moment at which an object has no owner. What a crash
// leaves out is made later, by repair.
type machineCreator struct {
	client    client.Client
	templates *contract.Templates
	tracker   *expectation.Tracker
}

// templates are the templates that the Machines of a MachineSet are made from. The bootstrap
// template is nil where the user brings the data Secret.
type templates struct {
	infra, bootstrap *contract.Template
}

// readTemplates reads both templates; the error of a missing one names it.
func (w *machineCreator) readTemplates(ctx context.Context, s *state) (templates, error) {
	spec := &s.set.Spec.Template.Spec
	infra, err := w.readTemplate(ctx, s, spec.InfrastructureRef)
	if err != nil || !spec.Bootstrap.ConfigRef.IsDefined() {
		return templates{infra: infra}, err
	}
	bootstrap, err := w.readTemplate(ctx, s, spec.Bootstrap.ConfigRef)
	return templates{infra, bootstrap}, err
}

// readTemplate reads a template and makes it the Cluster's.
func (w *machineCreator) readTemplate(ctx context.Context, s *state, ref clusterv1.ContractVersionedObjectReference) (*contract.Template, error) {
	template, err := w.templates.Get(ctx, s.set.Namespace, ref)
	if err != nil {
		return nil, err
	}
	return template, results.IgnoreNotFoundOrConflict(w.templates.Claim(ctx, w.client, template, s.cluster))
}

// create creates one Machine with its objects.
func (w *machineCreator) create(ctx context.Context, set *clusterv1.MachineSet, from templates) error {
	name, err := machinename.New(set)
	if err != nil {
		return err
	}
	machine := newMachine(set, name)
	if err := w.client.Create(ctx, machine); err != nil {
		w.tracker.Unverify(set.UID) // the Machine may exist: answers are lost, and requests repeated on the way
		return fmt.Errorf("creating Machine: %w", err)
	}
	w.tracker.Created(set.UID, machine)
	return w.createChildren(ctx, set, machine, from)
}

// createChildren creates those of a Machine's objects that do not exist yet.
func (w *machineCreator) createChildren(ctx context.Context, set *clusterv1.MachineSet, machine *clusterv1.Machine, from templates) error {
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
		if err := w.client.Create(ctx, object); err != nil && !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("creating %s %q: %w", object.GetKind(), object.GetName(), err)
		}
	}
	return nil
}

// lacksChildren reports whether a Machine waits for an object that does not exist. Once the
// virtual machine has been made, or the bootstrap data is known, nothing is made again.
func lacksChildren(m *clusterv1.Machine) bool { return lacksBootstrap(m) || lacksInfra(m) }

func lacksBootstrap(m *clusterv1.Machine) bool {
	return m.Spec.Bootstrap.ConfigRef.IsDefined() && m.Spec.Bootstrap.DataSecretName == nil &&
		conditions.GetReason(m, clusterv1.MachineBootstrapConfigReadyCondition) == clusterv1.MachineBootstrapConfigDoesNotExistReason
}

func lacksInfra(m *clusterv1.Machine) bool {
	return m.Status.Initialization.InfrastructureProvisioned == nil && m.Spec.ProviderID == "" &&
		conditions.GetReason(m, clusterv1.MachineInfrastructureReadyCondition) == clusterv1.MachineInfrastructureDoesNotExistReason
}

// needed leaves only the templates of the objects that the Machine lacks.
func (t templates) needed(m *clusterv1.Machine) templates {
	if !lacksBootstrap(m) {
		t.bootstrap = nil
	}
	if !lacksInfra(m) {
		t.infra = nil
	}
	return t
}

// newMachine is the Machine that the MachineSet's template describes.
func newMachine(set *clusterv1.MachineSet, name string) *clusterv1.Machine {
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
	propagate(machine, set)
	machine.Spec.ClusterName = set.Spec.ClusterName
	machine.Spec.Version = kubeversion.Normalize(machine.Spec.Version)
	machine.Spec.InfrastructureRef = contract.RefFromTemplate(template.Spec.InfrastructureRef, name)
	if template.Spec.Bootstrap.ConfigRef.IsDefined() {
		machine.Spec.Bootstrap.ConfigRef = contract.RefFromTemplate(template.Spec.Bootstrap.ConfigRef, name)
	}
	return machine
}
