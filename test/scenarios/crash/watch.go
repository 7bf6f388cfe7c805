// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package crash

import (
	"context"
	"sync"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"drover.io/test/workflow"
)

// machineObserver records every Machine and every virtual machine that has existed.
type machineObserver struct {
	mu              sync.Mutex
	machines, hosts map[string]bool
}

// watch follows the Machines of a workflow until ctx is over.
func watch(ctx context.Context, s *workflow.Workflow) (*machineObserver, error) {
	watching, err := client.NewWithWatch(s.Stack.Management.AdminConfig(), client.Options{Scheme: s.Stack.ManagementClient.Scheme()})
	if err != nil {
		return nil, err
	}
	stream, err := watching.Watch(ctx, &clusterv1.MachineList{}, client.InNamespace(s.Namespace))
	if err != nil {
		return nil, err
	}
	w := &machineObserver{machines: map[string]bool{}, hosts: map[string]bool{}}
	go func() {
		defer stream.Stop()
		for event := range stream.ResultChan() {
			if m, ok := event.Object.(*clusterv1.Machine); ok {
				w.observe(m)
			}
		}
	}()
	return w, nil
}

func (w *machineObserver) observe(m *clusterv1.Machine) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.machines[string(m.UID)] = true
	if m.Spec.ProviderID != "" {
		w.hosts[m.Spec.ProviderID] = true
	}
}

// counts counts Machines and virtual machines.
func (w *machineObserver) counts() (machines, hosts int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.machines), len(w.hosts)
}
