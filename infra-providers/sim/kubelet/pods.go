// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package kubelet

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"net"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/utils/ptr"
)

// terminationLimit is the maximum time of the termination of a pod: no container needs its whole grace period.
const terminationLimit = time.Second

// pods simulates the pods of one host.
type pods struct {
	kubelet *Kubelet
	c       *connection
	network net.IP

	mu sync.Mutex
	// terminating has the pods whose termination is in progress.
	terminating map[types.UID]bool
	serial      int
}

func newPods(k *Kubelet, c *connection, node *corev1.Node) *pods {
	return &pods{kubelet: k, c: c, network: podNetwork(node), terminating: map[types.UID]bool{}}
}

// podNetwork returns the pod CIDR of the node, or one that derives from its name.
func podNetwork(node *corev1.Node) net.IP {
	if ip, _, err := net.ParseCIDR(node.Spec.PodCIDR); err == nil && ip.To4() != nil {
		return ip.To4()
	}
	hash := fnv.New32a()
	_, _ = hash.Write([]byte(node.Name))
	sum := hash.Sum32()
	return net.IPv4(100, 64+byte(sum>>16&0x3f), byte(sum>>8), 0).To4()
}

// run watches the pods bound to the node until ctx is done.
func (p *pods) run(ctx context.Context) {
	for ctx.Err() == nil {
		err := p.follow(ctx)
		if err != nil && ctx.Err() == nil {
			p.kubelet.report.Log(fmt.Sprintf("kubelet: watching pods: %v", err))
		}
		pause(ctx, time.Second+rand.N(time.Second))
	}
}

func (p *pods) follow(ctx context.Context) error {
	mine := metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector("spec.nodeName", p.kubelet.config.NodeName).String(), ResourceVersion: "0"}
	list, err := p.c.core.Pods(metav1.NamespaceAll).List(ctx, mine)
	if err != nil {
		return err
	}
	for i := range list.Items {
		p.handle(ctx, &list.Items[i])
	}
	mine.ResourceVersion = list.ResourceVersion
	mine.AllowWatchBookmarks = true
	mine.TimeoutSeconds = ptr.To(300 + rand.Int64N(300))
	watching, err := p.c.core.Pods(metav1.NamespaceAll).Watch(ctx, mine)
	if err != nil {
		return err
	}
	defer watching.Stop()
	for event := range watching.ResultChan() {
		pod, ok := event.Object.(*corev1.Pod)
		switch {
		case event.Type == watch.Error:
			return apierrors.FromObject(event.Object)
		case !ok:
			return errors.New("the watch sent something that is not a pod")
		case event.Type == watch.Deleted:
			p.removeTerminating(pod.UID)
		case event.Type != watch.Bookmark:
			p.handle(ctx, pod)
		}
	}
	return nil
}

func (p *pods) handle(ctx context.Context, pod *corev1.Pod) {
	switch {
	case pod.DeletionTimestamp != nil:
		p.terminate(ctx, pod)
	case pod.Status.Phase == corev1.PodPending || pod.Status.Phase == "":
		if err := p.start(ctx, pod); err != nil && !apierrors.IsNotFound(err) && ctx.Err() == nil {
			p.kubelet.report.Log(fmt.Sprintf("kubelet: starting pod %s/%s: %v", pod.Namespace, pod.Name, err))
		}
	}
}

// start reports a pod as running.
func (p *pods) start(ctx context.Context, pod *corev1.Pod) error {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": pod.UID}, "status": p.running(pod)})
	if err != nil {
		return err
	}
	_, err = p.c.core.Pods(pod.Namespace).Patch(ctx, pod.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
	return err
}

func (p *pods) running(pod *corev1.Pod) corev1.PodStatus {
	now := metav1.Now()
	status := corev1.PodStatus{
		Phase:     corev1.PodRunning,
		HostIP:    p.kubelet.config.NodeIP,
		HostIPs:   []corev1.HostIP{{IP: p.kubelet.config.NodeIP}},
		PodIP:     p.address(pod),
		StartTime: &now,
	}
	status.PodIPs = []corev1.PodIP{{IP: status.PodIP}}
	for _, kind := range []corev1.PodConditionType{corev1.PodReadyToStartContainers, corev1.PodInitialized, corev1.ContainersReady, corev1.PodReady} {
		status.Conditions = append(status.Conditions, corev1.PodCondition{Type: kind, Status: corev1.ConditionTrue, LastTransitionTime: now})
	}
	for _, container := range pod.Spec.InitContainers {
		done := corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Reason: "Completed", StartedAt: now, FinishedAt: now}}
		status.InitContainerStatuses = append(status.InitContainerStatuses, corev1.ContainerStatus{Name: container.Name, Image: container.Image, ImageID: container.Image, Ready: true, State: done})
	}
	for _, container := range pod.Spec.Containers {
		runs := corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: now}}
		status.ContainerStatuses = append(status.ContainerStatuses, corev1.ContainerStatus{
			Name: container.Name, Image: container.Image, ImageID: container.Image, Ready: true, Started: ptr.To(true), State: runs,
			ContainerID: fmt.Sprintf("simulated://%s/%s", pod.UID, container.Name),
		})
	}
	return status
}

func (p *pods) address(pod *corev1.Pod) string {
	if pod.Spec.HostNetwork {
		return p.kubelet.config.NodeIP
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.serial++
	return net.IPv4(p.network[0], p.network[1], p.network[2], byte(1+p.serial%253)).String()
}

// terminate deletes a pod after its grace period, or after terminationLimit if that is shorter.
func (p *pods) terminate(ctx context.Context, pod *corev1.Pod) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.terminating[pod.UID] {
		return
	}
	p.terminating[pod.UID] = true
	grace := time.Duration(ptr.Deref(pod.DeletionGracePeriodSeconds, 0)) * time.Second
	time.AfterFunc(min(grace, terminationLimit), func() {
		now := metav1.DeleteOptions{GracePeriodSeconds: ptr.To[int64](0), Preconditions: &metav1.Preconditions{UID: &pod.UID}}
		err := p.c.core.Pods(pod.Namespace).Delete(ctx, pod.Name, now)
		if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
			// The next event or the next list of pods retries.
			p.removeTerminating(pod.UID)
		}
	})
}

func (p *pods) removeTerminating(uid types.UID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.terminating, uid)
}
