// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package kubevirtfake

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	virtv1 "kubevirt.io/api/core/v1"
	cdiv1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
)

const (
	// NodeName is the node that all virtual machines run on.
	NodeName = "node-1"
	// finalizer is KubeVirt's.
	finalizer = "kubevirt.io/virtualMachineControllerFinalize"
	// consoleContainer is the container that KubeVirt adds with logSerialConsole.
	consoleContainer = "guest-console-log"
)

// Player takes the steps of KubeVirt's controllers in one namespace, or in all.
type Player struct {
	Client    client.Client
	Namespace string
	// Controlled is true where a virt-controller runs, so that only what runs on nodes is played.
	Controlled bool

	// changes counts the requests that may have changed something.
	changes atomic.Int64
	mu      sync.Mutex
	serial  int
	// settled is 1 + the changes before a step after which none is due until the next change; 0 while one is due.
	settled int64
}

var mebibyte = resource.NewQuantity(1<<20, resource.BinarySI)

// AddToScheme adds the kinds of CDI that the player creates.
func AddToScheme(scheme *runtime.Scheme) error {
	return cdiv1.AddToScheme(scheme)
}

// Step takes one step of each VirtualMachine that has one to take: a start takes two, as a deletion does. Conflicts with other
// clients are resolved by the next step.
func (p *Player) Step(ctx context.Context) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.stepAll(ctx)
}

// stepIfDue is Step, but does nothing once a step was the last one that there was to take, until something changes.
func (p *Player) stepIfDue(ctx context.Context) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.settled == 1+p.changes.Load() {
		return nil
	}
	return p.stepAll(ctx)
}

func (p *Player) stepAll(ctx context.Context) error {
	if p.Controlled {
		return p.stepNodes(ctx)
	}
	before := p.changes.Load()
	vms, instances := &virtv1.VirtualMachineList{}, &virtv1.VirtualMachineInstanceList{}
	for _, all := range []client.ObjectList{vms, instances} {
		if err := p.Client.List(ctx, all, client.InNamespace(p.Namespace)); err != nil {
			return err
		}
	}
	running := map[client.ObjectKey]*virtv1.VirtualMachineInstance{}
	for i := range instances.Items {
		running[client.ObjectKeyFromObject(&instances.Items[i])] = &instances.Items[i]
	}
	p.settled = 1 + before
	var errs []error
	for i := range vms.Items {
		vm := &vms.Items[i]
		due, err := p.step(ctx, vm, running[client.ObjectKeyFromObject(vm)])
		if due || err != nil {
			p.settled = 0
		}
		if !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// step takes one step of a VirtualMachine, which runs as a VirtualMachineInstance or as nothing, and tells whether there was one
// to take.
func (p *Player) step(ctx context.Context, vm *virtv1.VirtualMachine, running *virtv1.VirtualMachineInstance) (due bool, err error) {
	strategy, err := vm.RunStrategy()
	if err != nil {
		return false, err
	}
	switch {
	case !vm.DeletionTimestamp.IsZero() && running == nil:
		if controllerutil.RemoveFinalizer(vm, finalizer) {
			return true, p.Client.Update(ctx, vm)
		}
		return false, nil
	case !vm.DeletionTimestamp.IsZero():
		return true, errors.Join(p.stop(ctx, running), p.report(ctx, vm, virtv1.VirtualMachineStatusTerminating))
	case controllerutil.AddFinalizer(vm, finalizer):
		if err := p.Client.Update(ctx, vm); err != nil {
			return true, err
		}
		return true, errors.Join(p.createVolumes(ctx, vm), p.report(ctx, vm, virtv1.VirtualMachineStatusStarting))
	case strategy == virtv1.RunStrategyHalted:
		if running != nil {
			return true, p.stop(ctx, running)
		}
		return false, p.report(ctx, vm, virtv1.VirtualMachineStatusStopped)
	case running == nil:
		return true, errors.Join(p.start(ctx, vm), p.report(ctx, vm, virtv1.VirtualMachineStatusRunning))
	}
	return false, nil
}

// report writes the status of a VirtualMachine.
func (p *Player) report(ctx context.Context, vm *virtv1.VirtualMachine, status virtv1.VirtualMachinePrintableStatus) error {
	if vm.Status.PrintableStatus == status {
		return nil
	}
	vm.Status.PrintableStatus = status
	return p.Client.Status().Update(ctx, vm)
}

// createVolumes creates the DataVolumes of a VirtualMachine, which controls them.
func (p *Player) createVolumes(ctx context.Context, vm *virtv1.VirtualMachine) error {
	for _, template := range vm.Spec.DataVolumeTemplates {
		volume := &cdiv1.DataVolume{ObjectMeta: *template.ObjectMeta.DeepCopy(), Spec: *template.Spec.DeepCopy()}
		volume.Namespace = vm.Namespace
		volume.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(vm, virtv1.VirtualMachineGroupVersionKind)}
		if err := p.Client.Create(ctx, volume); err != nil && !apierrors.IsAlreadyExists(err) {
			return err
		}
	}
	return nil
}

// start creates what a VirtualMachine runs as: a VirtualMachineInstance, and its Pod.
func (p *Player) start(ctx context.Context, vm *virtv1.VirtualMachine) error {
	p.serial++
	address := fmt.Sprintf("10.244.%d.%d", p.serial/250, p.serial%250+1)
	running := &virtv1.VirtualMachineInstance{ObjectMeta: *vm.Spec.Template.ObjectMeta.DeepCopy(), Spec: *vm.Spec.Template.Spec.DeepCopy()}
	running.Namespace, running.Name = vm.Namespace, vm.Name
	running.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(vm, virtv1.VirtualMachineGroupVersionKind)}
	running.Status.Phase, running.Status.NodeName = virtv1.Running, NodeName
	for i, network := range running.Spec.Networks {
		ip := address
		if network.Pod == nil {
			ip = fmt.Sprintf("192.168.%d.%d", i, p.serial%250+1)
		}
		running.Status.Interfaces = append(running.Status.Interfaces, virtv1.VirtualMachineInstanceNetworkInterface{
			Name: network.Name, IP: ip, IPs: []string{ip, "fe80::1"}, InfoSource: "domain, guest-agent",
		})
	}
	if err := p.Client.Create(ctx, running); err != nil && !apierrors.IsAlreadyExists(err) {
		return err
	}
	if err := p.Client.Get(ctx, client.ObjectKeyFromObject(running), running); err != nil {
		return err
	}
	return p.createPod(ctx, running, address)
}

// createPod creates the Pod that a VirtualMachineInstance runs in.
func (p *Player) createPod(ctx context.Context, running *virtv1.VirtualMachineInstance, address string) error {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: running.Namespace, Name: "virt-launcher-" + running.Name, Labels: map[string]string{virtv1.AppLabel: "virt-launcher", virtv1.CreatedByLabel: string(running.UID)},
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(running, virtv1.VirtualMachineInstanceGroupVersionKind)},
		},
		Spec: corev1.PodSpec{NodeName: NodeName,
			Containers:     []corev1.Container{{Name: "compute", Image: "virt-launcher"}},
			InitContainers: []corev1.Container{{Name: consoleContainer, Image: "virt-launcher", RestartPolicy: ptr.To(corev1.ContainerRestartPolicyAlways)}},
		},
	}
	for key, value := range running.Labels {
		pod.Labels[key] = value
	}
	if err := p.Client.Create(ctx, pod); err != nil && !apierrors.IsAlreadyExists(err) {
		return err
	}
	if err := p.Client.Get(ctx, client.ObjectKeyFromObject(pod), pod); err != nil {
		return err
	}
	pod.Status = corev1.PodStatus{
		Phase: corev1.PodRunning, PodIP: address, PodIPs: []corev1.PodIP{{IP: address}},
		InitContainerStatuses: []corev1.ContainerStatus{{Name: consoleContainer, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}},
	}
	return p.Client.Status().Update(ctx, pod)
}

// stop deletes what a VirtualMachine runs as. No kubelet would delete the Pod.
func (p *Player) stop(ctx context.Context, running *virtv1.VirtualMachineInstance) error {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: running.Namespace, Name: "virt-launcher-" + running.Name}}
	return errors.Join(
		client.IgnoreNotFound(p.Client.Delete(ctx, pod, client.GracePeriodSeconds(0))),
		client.IgnoreNotFound(p.Client.Delete(ctx, running)),
	)
}

// Run creates a namespace and plays its controllers until ctx is done.
func Run(ctx context.Context, config *rest.Config, namespace string) (*Player, error) {
	scheme := runtime.NewScheme()
	if err := errors.Join(corev1.AddToScheme(scheme), virtv1.AddToScheme(scheme), AddToScheme(scheme)); err != nil {
		return nil, err
	}
	api, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		return nil, err
	}
	player := &Player{Client: api, Namespace: namespace}
	go func() {
		for ticker := time.Tick(100 * time.Millisecond); ; {
			select {
			case <-ctx.Done():
				return
			case <-ticker:
				_ = player.Step(ctx) // the next one repeats it
			}
		}
	}()
	return player, api.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}})
}

// Leftovers names what exists in the namespace.
func (p *Player) Leftovers() (left []string) {
	vms, secrets, volumes := &virtv1.VirtualMachineList{}, &corev1.SecretList{}, &cdiv1.DataVolumeList{}
	for _, all := range []client.ObjectList{vms, secrets, volumes} {
		if err := p.Client.List(context.Background(), all, client.InNamespace(p.Namespace)); err != nil {
			return []string{err.Error()}
		}
		_ = meta.EachListItem(all, func(object runtime.Object) error {
			left = append(left, fmt.Sprintf("%T %s", object, object.(client.Object).GetName()))
			return nil
		})
	}
	return left
}
