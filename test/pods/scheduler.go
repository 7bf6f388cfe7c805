// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package pods

import (
	"cmp"
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Scheduler binds each pod that has no Node to the Node with the fewest pods that takes any.
type Scheduler struct {
	// Client reaches the workload cluster.
	Client client.WithWatch
	// Namespace is that of the pods.
	Namespace string
	// Avoid is the name of a Node that gets no pods, if any.
	Avoid string

	load map[string]int // pods per Node
}

// Run binds pods until ctx is over.
func (s *Scheduler) Run(ctx context.Context) error {
	s.load = map[string]int{}
	stream, err := s.Client.Watch(ctx, &corev1.PodList{}, client.InNamespace(s.Namespace))
	if err != nil {
		return err
	}
	defer stream.Stop()
	for event := range stream.ResultChan() {
		pod, ok := event.Object.(*corev1.Pod)
		if !ok {
			continue
		}
		if event.Type == watch.Deleted {
			s.load[pod.Spec.NodeName]--
			continue
		}
		if pod.Spec.NodeName != "" || pod.DeletionTimestamp != nil {
			continue
		}
		if err := s.bind(ctx, pod); err != nil && ctx.Err() == nil {
			return err
		}
	}
	return nil
}

func (s *Scheduler) bind(ctx context.Context, pod *corev1.Pod) error {
	nodes := &corev1.NodeList{}
	if err := s.Client.List(ctx, nodes); err != nil {
		return err
	}
	open := slices.DeleteFunc(nodes.Items, func(n corev1.Node) bool { return n.Spec.Unschedulable || n.Name == s.Avoid })
	if len(open) == 0 {
		return nil
	}
	best := slices.MinFunc(open, func(a, b corev1.Node) int { return cmp.Compare(s.load[a.Name], s.load[b.Name]) })
	s.load[best.Name]++
	binding := &corev1.Binding{
		ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name},
		Target:     corev1.ObjectReference{Kind: "Node", Name: best.Name},
	}
	return client.IgnoreNotFound(s.Client.SubResource("binding").Create(ctx, pod, binding))
}
