// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// core is the manager whose leader the scenarios end: the name of its Deployment and of its Lease.
const core = "drover-machine-controller"

// holder is the identity in the Lease of machine-controller.
func (s *environment) holder(ctx context.Context) (string, error) {
	lease := &coordinationv1.Lease{}
	if err := s.client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: core}, lease); err != nil {
		return "", err
	}
	if lease.Spec.HolderIdentity == nil || *lease.Spec.HolderIdentity == "" {
		return "", errors.New("no replica holds the Lease")
	}
	return *lease.Spec.HolderIdentity, nil
}

// leader is the Pod that holds the Lease, with its identity.
func (s *environment) leader(ctx context.Context) (*corev1.Pod, string, error) {
	holder, err := s.holder(ctx)
	if err != nil {
		return nil, "", err
	}
	name, _, _ := strings.Cut(holder, "_")
	pod := &corev1.Pod{}
	err = s.client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, pod)
	return pod, holder, err
}

// crashLeader kills the leader's process, which can then neither finish anything nor release its Lease.
func (s *environment) crashLeader(ctx context.Context) (holder string, err error) {
	pod, holder, err := s.leader(ctx)
	if err != nil {
		return "", err
	}
	if len(pod.Status.ContainerStatuses) != 1 {
		return "", fmt.Errorf("the Pod %s has %d containers", pod.Name, len(pod.Status.ContainerStatuses))
	}
	id := strings.TrimPrefix(pod.Status.ContainerStatuses[0].ContainerID, "containerd://")
	return holder, s.node.Run(ctx, "ctr", "--namespace", "k8s.io", "tasks", "kill", "--signal", "SIGKILL", id)
}

// awaitSuccessor waits until another replica holds the Lease, and returns how long that took.
func (s *environment) awaitSuccessor(ctx context.Context, before string) (time.Duration, error) {
	start := time.Now()
	err := s.await(ctx, "another replica leads", func(ctx context.Context) error {
		holder, err := s.holder(ctx)
		if err == nil && holder == before {
			err = errors.New("the same one holds the Lease")
		}
		return err
	})
	return time.Since(start), err
}
