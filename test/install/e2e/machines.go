// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "drover.io/api/infrastructure/v1alpha1"
)

// steady is a MachineDeployment that no scenario changes.
const steady = "demo-steady"

// createSteady creates it, as a copy of the other one.
func (s *environment) createSteady(ctx context.Context, replicas int32) error {
	other := s.workflow.MachineDeployment()
	if err := s.client.Get(ctx, client.ObjectKeyFromObject(other), other); err != nil {
		return err
	}
	spec := clusterv1.MachineDeploymentSpec{ClusterName: other.Spec.ClusterName, Replicas: &replicas, Template: *other.Spec.Template.DeepCopy()}
	delete(spec.Template.Labels, clusterv1.MachineDeploymentNameLabel)
	return s.client.Create(ctx, &clusterv1.MachineDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: s.workflow.Namespace, Name: steady}, Spec: spec})
}

// awaitMachines waits until the Cluster has exactly that many Machines per MachineDeployment, all Running and up to date,
// each with a Node, a SimMachine and an instance of its own and none beside them. It returns the Machines' UIDs by name.
func (s *environment) awaitMachines(ctx context.Context, wanted map[string]int) (map[string]map[string]types.UID, error) {
	var found map[string]map[string]types.UID
	err := s.await(ctx, fmt.Sprintf("Machines run: %v", wanted), func(ctx context.Context) (err error) {
		found, err = s.running(ctx)
		if err != nil {
			return err
		}
		total := 0
		for deployment, count := range wanted {
			total += count
			if got := len(found[deployment]); got != count {
				return fmt.Errorf("%s has %d Machines", deployment, got)
			}
		}
		return s.countOf(ctx, total)
	})
	return found, err
}

// running returns the UIDs of all Machines by MachineDeployment and name, or which one does not run.
func (s *environment) running(ctx context.Context) (map[string]map[string]types.UID, error) {
	machines, err := s.workflow.Machines(ctx)
	if err != nil {
		return nil, err
	}
	found := map[string]map[string]types.UID{}
	for _, m := range machines {
		deployment := m.Labels[clusterv1.MachineDeploymentNameLabel]
		if m.Status.Phase != string(clusterv1.MachinePhaseRunning) || !m.DeletionTimestamp.IsZero() {
			return nil, fmt.Errorf("%s is %s", m.Name, m.Status.Phase)
		}
		for _, condition := range []string{clusterv1.MachineUpToDateCondition, clusterv1.MachineAvailableCondition} {
			if !conditions.IsTrue(&m, condition) {
				return nil, fmt.Errorf("%s is not %s", m.Name, condition)
			}
		}
		if found[deployment] == nil {
			found[deployment] = map[string]types.UID{}
		}
		found[deployment][m.Name] = m.UID
	}
	return found, nil
}

// countOf reports whether there are exactly that many Machines, SimMachines, Nodes and instances.
func (s *environment) countOf(ctx context.Context, want int) error {
	machines, err := s.workflow.Machines(ctx)
	if err != nil {
		return err
	}
	infra := &infrav1.SimMachineList{}
	if err := s.client.List(ctx, infra, client.InNamespace(s.workflow.Namespace)); err != nil {
		return err
	}
	nodes, err := s.workflow.Nodes(ctx)
	if err != nil {
		return err
	}
	instances, err := s.instances()
	if err != nil {
		return err
	}
	if len(machines) != want || len(infra.Items) != want || len(nodes) != want || len(instances) != want {
		return fmt.Errorf("%d Machines, %d SimMachines, %d Nodes, %d instances", len(machines), len(infra.Items), len(nodes), len(instances))
	}
	return nil
}

// instances are the names of the simulated instances, as the provider keeps them on the PersistentVolume.
func (s *environment) instances() ([]string, error) {
	entries, err := os.ReadDir(filepath.Join(s.node.Root, stateFolder))
	if err != nil {
		return nil, err
	}
	var names []string
	for _, entry := range entries {
		if entry.IsDir() {
			names = append(names, entry.Name())
		}
	}
	return names, nil
}

// checkSame reports what differs between the Machines of two times.
func checkSame(before, after map[string]types.UID) error {
	if !maps.Equal(before, after) {
		return fmt.Errorf("the Machines were %v and are %v", slices.Sorted(maps.Keys(before)), slices.Sorted(maps.Keys(after)))
	}
	return nil
}

// deleteFleet deletes the Cluster with everything in it, and waits until nothing is left of it.
func (s *environment) deleteFleet(ctx context.Context) error {
	if err := s.workflow.Delete(ctx); err != nil {
		return err
	}
	return s.await(ctx, "nothing is left of the machines", func(ctx context.Context) error {
		left, err := s.workflow.Remaining(ctx)
		if err != nil {
			return err
		}
		instances, err := s.instances()
		if left = append(left, instances...); err == nil && len(left) > 0 {
			err = errors.New(fmt.Sprint(left))
		}
		return err
	})
}
