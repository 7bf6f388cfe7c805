// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package kubevirtfake

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	virtv1 "kubevirt.io/api/core/v1"
	cdiv1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// stepNodes takes the steps of what runs on nodes, beside a virt-controller that is KubeVirt's own: of virt-handler, the kubelet,
// the scheduler, and of CDI.
func (p *Player) stepNodes(ctx context.Context) error {
	running, pods, volumes := &virtv1.VirtualMachineInstanceList{}, &corev1.PodList{}, &cdiv1.DataVolumeList{}
	for _, all := range []client.ObjectList{running, pods, volumes} {
		if err := p.Client.List(ctx, all, client.InNamespace(p.Namespace)); err != nil {
			return err
		}
	}
	var errs []error
	for i := range volumes.Items {
		errs = append(errs, p.importVolume(ctx, &volumes.Items[i]))
	}
	for i := range pods.Items {
		errs = append(errs, p.runPod(ctx, &pods.Items[i]))
	}
	for i := range running.Items {
		errs = append(errs, p.handle(ctx, &running.Items[i]))
	}
	for i, err := range errs {
		if apierrors.IsConflict(err) || apierrors.IsNotFound(err) || apierrors.IsAlreadyExists(err) {
			errs[i] = nil
		}
	}
	return errors.Join(errs...)
}

// importVolume gives a DataVolume its PersistentVolumeClaim, as CDI does.
func (p *Player) importVolume(ctx context.Context, volume *cdiv1.DataVolume) error {
	if volume.Status.Phase == cdiv1.Succeeded || !volume.DeletionTimestamp.IsZero() {
		return nil
	}
	claim := &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: volume.Namespace, Name: volume.Name, OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(volume, cdiv1.SchemeGroupVersion.WithKind("DataVolume"))},
		},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteMany},
			Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: *mebibyte}},
		},
	}
	if err := p.Client.Create(ctx, claim); err != nil && !apierrors.IsAlreadyExists(err) {
		return err
	}
	claim.Status.Phase = corev1.ClaimBound
	if err := p.Client.Status().Update(ctx, claim); err != nil && !apierrors.IsInvalid(err) {
		return err
	}
	volume.Status.Phase = cdiv1.Succeeded
	return p.Client.Status().Update(ctx, volume)
}

// runPod schedules, starts and ends a Pod.
func (p *Player) runPod(ctx context.Context, pod *corev1.Pod) error {
	switch {
	case !pod.DeletionTimestamp.IsZero():
		return p.Client.Delete(ctx, pod, client.GracePeriodSeconds(0))
	case pod.Spec.NodeName == "":
		return p.Client.SubResource("binding").Create(ctx, pod, &corev1.Binding{
			ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name}, Target: corev1.ObjectReference{Kind: "Node", Name: NodeName},
		})
	case pod.Status.Phase == corev1.PodRunning:
		return nil
	}
	p.serial++
	ip := fmt.Sprintf("10.244.%d.%d", p.serial/250, p.serial%250+1)
	pod.Status.Phase, pod.Status.PodIP, pod.Status.PodIPs = corev1.PodRunning, ip, []corev1.PodIP{{IP: ip}}
	pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{Type: corev1.PodReady, Status: corev1.ConditionTrue})
	for _, container := range pod.Spec.Containers {
		pod.Status.ContainerStatuses = append(pod.Status.ContainerStatuses, corev1.ContainerStatus{
			Name: container.Name, Ready: true, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}},
		})
	}
	for _, container := range pod.Spec.InitContainers {
		if container.RestartPolicy != nil && *container.RestartPolicy == corev1.ContainerRestartPolicyAlways {
			pod.Status.InitContainerStatuses = append(pod.Status.InitContainerStatuses, corev1.ContainerStatus{
				Name: container.Name, Ready: true, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}},
			})
		}
	}
	return p.Client.Status().Update(ctx, pod)
}

// handle starts and ends a VirtualMachineInstance, as virt-handler does.
func (p *Player) handle(ctx context.Context, running *virtv1.VirtualMachineInstance) error {
	switch {
	case !running.DeletionTimestamp.IsZero() && !running.IsFinal():
		running.Status.Phase = virtv1.Succeeded
	case running.DeletionTimestamp.IsZero() && running.Status.Phase == virtv1.Scheduled:
		running.Status.Phase = virtv1.Running
		for _, network := range running.Spec.Networks {
			running.Status.Interfaces = append(running.Status.Interfaces, virtv1.VirtualMachineInstanceNetworkInterface{Name: network.Name, IP: "10.244.0.1", InfoSource: "domain"})
		}
	default:
		return nil
	}
	return p.Client.Update(ctx, running)
}
