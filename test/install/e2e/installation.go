// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"drover.io/test/framework"
)

const (
	releaseName = "drover"
	// namespace is that of the managers.
	namespace = "drover-system"
)

// simulated are the settings of an installation with simulated machines, whose state is on a PersistentVolume.
func simulated() map[string]any {
	return map[string]any{"infrastructure": map[string]any{"sim": map[string]any{"stateClaim": claimName}}}
}

// claimName is that of the PersistentVolumeClaim and of the PersistentVolume for the state of simulated machines.
const claimName = "sim-state"

// prepareNamespace makes the namespace as the notes of the chart recommend, and the claim for the simulated machines.
func (s *environment) prepareNamespace(ctx context.Context) error {
	if err := framework.Apply(ctx, s.client, fmt.Appendf(nil, `
apiVersion: v1
kind: Namespace
metadata:
  name: %[1]s
  labels: {pod-security.kubernetes.io/enforce: restricted}
---
apiVersion: v1
kind: PersistentVolume
metadata: {name: %[2]s}
spec:
  capacity: {storage: 1Gi}
  accessModes: [ReadWriteOnce]
  persistentVolumeReclaimPolicy: Retain
  claimRef: {namespace: %[1]s, name: %[2]s}
  local: {path: %[3]s}
  nodeAffinity:
    required:
      nodeSelectorTerms:
      - matchExpressions: [{key: kubernetes.io/hostname, operator: In, values: [%[4]s]}]
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {namespace: %[1]s, name: %[2]s}
spec:
  storageClassName: ""
  volumeName: %[2]s
  accessModes: [ReadWriteOnce]
  resources: {requests: {storage: 1Gi}}
`, namespace, claimName, stateFolder, nodeName)); err != nil {
		return err
	}
	return s.refusesPrivileges(ctx)
}

// refusesPrivileges proves that the namespace enforces the restricted Pod Security Standard.
func (s *environment) refusesPrivileges(ctx context.Context) error {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "privileged"},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "image"}}},
	}
	return s.await(ctx, "the namespace enforces the restricted Pod Security Standard", func(ctx context.Context) error {
		switch err := s.client.Create(ctx, pod.DeepCopy(), client.DryRunAll); {
		case apierrors.IsForbidden(err):
			return nil
		case err != nil:
			return err
		}
		return errors.New("it admits a Pod that may run as root")
	})
}

// awaitManagers waits until all replicas of all managers are ready with the images of a release, and no other runs.
func (s *environment) awaitManagers(ctx context.Context, r *release) error {
	return s.await(ctx, "all managers of "+r.version+" are ready", func(ctx context.Context) error {
		for program, replicas := range map[string]int32{"machine-controller": 2, "bootstrap": 2, "infra-sim": 1} {
			deployment := &appsv1.Deployment{}
			if err := s.client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: "drover-" + program}, deployment); err != nil {
				return err
			}
			status := deployment.Status
			if status.ObservedGeneration != deployment.Generation || status.Replicas != replicas || status.UpdatedReplicas != replicas || status.ReadyReplicas != replicas {
				return fmt.Errorf("%s has %d replicas, %d updated, %d ready", program, status.Replicas, status.UpdatedReplicas, status.ReadyReplicas)
			}
			if image, want := deployment.Spec.Template.Spec.Containers[0].Image, "localhost/drover-"+program+":"+r.version; image != want {
				return fmt.Errorf("%s runs %s, not %s", program, image, want)
			}
		}
		return nil
	})
}

// awaitNoPods waits until no manager runs.
func (s *environment) awaitNoPods(ctx context.Context) error {
	return s.await(ctx, "no manager runs", func(ctx context.Context) error {
		pods := &corev1.PodList{}
		if err := s.client.List(ctx, pods, client.InNamespace(namespace)); err != nil {
			return err
		}
		if len(pods.Items) > 0 {
			return fmt.Errorf("%d Pods are left", len(pods.Items))
		}
		return nil
	})
}
