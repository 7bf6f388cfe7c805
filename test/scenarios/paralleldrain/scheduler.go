// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Package paralleldrain deletes twenty machines full of pods at once and watches that every
// budget and every order is kept, and that nothing else has to wait. Its tests are all there
// is to it.
package paralleldrain

import (
	"cmp"
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// scheduler binds each pod that has no Node to the emptiest one that takes pods; the control
// plane under test has no scheduler of its own.
type scheduler struct {
	work client.WithWatch
	// namespace whose pods are bound.
	namespace string
	// avoid is a Node that gets none.
	avoid string
	// load counts pods per Node.
	load map[string]int
}

// run binds pods until ctx is over.
func (s *scheduler) run(ctx context.Context) error {
	stream, err := s.work.Watch(ctx, &corev1.PodList{}, client.InNamespace(s.namespace))
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

func (s *scheduler) bind(ctx context.Context, pod *corev1.Pod) error {
	nodes := &corev1.NodeList{}
	if err := s.work.List(ctx, nodes); err != nil {
		return err
	}
	open := slices.DeleteFunc(nodes.Items, func(n corev1.Node) bool { return n.Spec.Unschedulable || n.Name == s.avoid })
	if len(open) == 0 {
		return nil
	}
	best := slices.MinFunc(open, func(a, b corev1.Node) int { return cmp.Compare(s.load[a.Name], s.load[b.Name]) })
	s.load[best.Name]++
	binding := &corev1.Binding{
		ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name},
		Target:     corev1.ObjectReference{Kind: "Node", Name: best.Name},
	}
	return client.IgnoreNotFound(s.work.SubResource("binding").Create(ctx, pod, binding))
}
