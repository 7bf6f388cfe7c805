// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package drainplan

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// noon is the time of every pure test.
var noon = time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC)

type podOption func(*corev1.Pod)

// aPod is running, ready and managed.
func aPod(name string, options ...podOption) *corev1.Pod {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "app", Name: name, UID: types.UID("uid-" + name), Labels: map[string]string{"app": "web"},
		},
		Status: corev1.PodStatus{
			Phase:      corev1.PodRunning,
			Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}},
		},
	}
	ownedBy("apps/v1", "ReplicaSet")(pod)
	for _, o := range options {
		o(pod)
	}
	return pod
}

func ownedBy(apiVersion, kind string) podOption {
	return func(p *corev1.Pod) {
		p.OwnerReferences = []metav1.OwnerReference{{APIVersion: apiVersion, Kind: kind, Name: "owner", Controller: new(true)}}
	}
}

func unmanaged(p *corev1.Pod) { p.OwnerReferences = nil }

func phase(phase corev1.PodPhase) podOption {
	return func(p *corev1.Pod) { p.Status.Phase = phase }
}

func static(p *corev1.Pod) { p.Annotations = map[string]string{corev1.MirrorPodAnnotationKey: "x"} }

func labelled(key, value string) podOption {
	return func(p *corev1.Pod) { p.Labels[key] = value }
}

func withPriority(priority int32) podOption {
	return func(p *corev1.Pod) { p.Spec.Priority = &priority }
}

func withGrace(seconds int64) podOption {
	return func(p *corev1.Pod) { p.Spec.TerminationGracePeriodSeconds = &seconds }
}

// terminating since the time, with the grace period, as the API server writes it.
func terminating(since time.Time, grace int64) podOption {
	return func(p *corev1.Pod) {
		p.DeletionTimestamp = &metav1.Time{Time: since.Add(time.Duration(grace) * time.Second)}
		p.DeletionGracePeriodSeconds = &grace
	}
}

func withEmptyDir(p *corev1.Pod) {
	p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{
		Name: "scratch", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}},
	})
}
