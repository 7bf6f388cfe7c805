// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"sync"

	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// observeMachines returns the number of distinct Machines that existed at any time since, until stop is called.
func (s *environment) observeMachines(ctx context.Context) (count func() int, stop func(), err error) {
	watching, err := client.NewWithWatch(s.stack.Management.AdminConfig(), client.Options{Scheme: s.client.Scheme()})
	if err != nil {
		return nil, nil, err
	}
	stream, err := watching.Watch(ctx, &clusterv1.MachineList{}, client.InNamespace(s.workflow.Namespace))
	if err != nil {
		return nil, nil, err
	}
	var lock sync.Mutex
	seen := map[types.UID]bool{}
	go func() {
		for event := range stream.ResultChan() {
			if machine, ok := event.Object.(*clusterv1.Machine); ok {
				lock.Lock()
				seen[machine.UID] = true
				lock.Unlock()
			}
		}
	}()
	return func() int {
		lock.Lock()
		defer lock.Unlock()
		return len(seen)
	}, stream.Stop, nil
}
