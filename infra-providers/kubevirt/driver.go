// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package kubevirt

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/rest"
	virtv1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "drover.io/api/infrastructure/v1alpha1"
	"drover.io/infra-providers/driver"
)

// +kubebuilder:rbac:groups=infrastructure.drover.io,resources=kubevirtmachines,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=infrastructure.drover.io,resources=kubevirtmachines/status,verbs=patch
// +kubebuilder:rbac:groups=infrastructure.drover.io,resources=kubevirtmachinetemplates,verbs=list;watch
// +kubebuilder:rbac:groups=infrastructure.drover.io,resources=kubevirtmachinetemplates/status,verbs=patch

// Cloud returns the description of KubeVirt. The limits protect the API server of the infrastructure cluster.
func Cloud(options Options) driver.Cloud[*infrav1.KubeVirtMachine, InstanceConfig] {
	connector := newConnector(options)
	return driver.Cloud[*infrav1.KubeVirtMachine, InstanceConfig]{
		Name:           "kubevirt",
		NewMachine:     func() *infrav1.KubeVirtMachine { return &infrav1.KubeVirtMachine{} },
		NewMachineList: func() driver.MachineList { return &infrav1.KubeVirtMachineList{} },
		NewTemplate:    func() driver.Template[*infrav1.KubeVirtMachine] { return &infrav1.KubeVirtMachineTemplate{} },
		Config:         NewInstanceConfig,
		Account:        toAccount,
		Limits:         driver.Limits{PerSecond: 10, Burst: 50},
		Connect: func(_ context.Context, account driver.Account, credentials driver.Credentials) (driver.Driver[InstanceConfig], error) {
			return connector.connect(account, credentials)
		},
	}
}

// Driver implements driver.Driver, driver.AccountIdentifier, driver.CapacityProvider, driver.ImageFinder, driver.Tagger,
// driver.Restarter, driver.ConsoleReader and driver.AttachedObjectLister.
type Driver struct {
	api client.Client
	// raw is for what is no object: subresources and logs.
	raw       rest.Interface
	namespace string
	pageSize  int64
	// account is the first AccountID.
	account atomic.Pointer[string]
}

// Get implements driver.Driver. API servers read objects from etcd, so it is never behind.
func (d *Driver) Get(ctx context.Context, id driver.Identity) (driver.Instance, error) {
	vm, err := d.find(ctx, id)
	if err != nil {
		return driver.Instance{}, err
	}
	running, err := d.run(ctx, vm)
	if err != nil {
		return driver.Instance{}, err
	}
	found := toObserved(running)
	for pod, err := range d.podsOf(ctx, running) {
		if err != nil {
			return driver.Instance{}, err
		}
		found.addPod(pod)
	}
	return toInstance(vm, found), nil
}

// find returns the VirtualMachine of an identity if it is the machine's own. That there is none is concluded only from the namespace
// that the driver was connected to first.
func (d *Driver) find(ctx context.Context, id driver.Identity) (*virtv1.VirtualMachine, error) {
	name := instanceName(id)
	if name == "" {
		return nil, notFound(id)
	}
	vm := &virtv1.VirtualMachine{}
	err := d.api.Get(ctx, client.ObjectKey{Namespace: d.namespace, Name: name}, vm)
	switch {
	case isNotFound(err, "virtualmachines", name):
		if err := d.verifyAccount(ctx); err != nil {
			return nil, err
		}
		return nil, notFound(id)
	case err != nil:
		return nil, toError(err)
	}
	_, err = id.Checked(toInstance(vm, nil))
	return vm, err
}

func notFound(id driver.Identity) error {
	return &driver.NotFoundError{What: fmt.Sprintf("VirtualMachine of machine %q", id.Name)}
}

// run returns the VirtualMachineInstance that a VirtualMachine runs as; nil if it does not run. Root in the guest may report so
// many addresses that it cannot be read: then it is empty, so that nothing else depends on it.
func (d *Driver) run(ctx context.Context, vm *virtv1.VirtualMachine) (*virtv1.VirtualMachineInstance, error) {
	running := &virtv1.VirtualMachineInstance{}
	err := d.api.Get(ctx, client.ObjectKey{Namespace: d.namespace, Name: vm.Name}, running)
	switch {
	case isNotFound(err, "virtualmachineinstances", vm.Name):
		return nil, nil
	case isTooLong(err):
		return &virtv1.VirtualMachineInstance{}, nil
	case err != nil:
		return nil, toError(err)
	case !metav1.IsControlledBy(running, vm):
		return nil, nil
	}
	return running, nil
}

// podsOf yields the Pods of a VirtualMachineInstance: two during a migration.
func (d *Driver) podsOf(ctx context.Context, running *virtv1.VirtualMachineInstance) iter.Seq2[*corev1.Pod, error] {
	return func(yield func(*corev1.Pod, error) bool) {
		if running == nil || running.UID == "" {
			return
		}
		for object, err := range list(ctx, d, &corev1.PodList{}, client.MatchingLabels{virtv1.AppLabel: "virt-launcher", virtv1.CreatedByLabel: string(running.UID)}) {
			pod, _ := object.(*corev1.Pod)
			if !yield(pod, err) {
				return
			}
		}
	}
}

// Delete implements driver.Driver. The DataVolumes belong to the VirtualMachine, and Kubernetes deletes them with it; they are
// deleted here, too, because only then it is known that nothing is left.
func (d *Driver) Delete(ctx context.Context, id driver.Identity) error {
	vm, err := d.find(ctx, id)
	if err != nil && !driver.IsNotFound(err) {
		return err
	}
	if err == nil {
		id.UID = identity(vm).UID
		if vm.DeletionTimestamp.IsZero() {
			if err := d.delete(ctx, vm); err != nil {
				return err
			}
		}
	}
	return d.deleteAttached(ctx, id)
}

// delete deletes the object that was read, and none that has its name by now.
func (d *Driver) delete(ctx context.Context, object client.Object) error {
	uid := object.GetUID()
	err := d.api.Delete(ctx, object, client.Preconditions{UID: &uid}, client.PropagationPolicy(metav1.DeletePropagationBackground))
	if isGone(err) {
		return nil
	}
	return toError(err)
}

// deleteAttached deletes the DataVolumes and the Secret of an identity. A VirtualMachine whose creation is answered too late
// refers to that Secret as its owner, so Kubernetes deletes it, too.
func (d *Driver) deleteAttached(ctx context.Context, id driver.Identity) error {
	name := vmName(id.UID)
	if name == "" {
		return nil
	}
	for volume, err := range d.objects(ctx, dataVolumes, client.MatchingLabels{driver.TagMachineUID: string(id.UID)}) {
		switch {
		case err != nil:
			return err
		case id.Check(identity(volume)) != nil || !isPartOf(id, volume) || !volume.GetDeletionTimestamp().IsZero():
			continue
		}
		if err := d.delete(ctx, volume); err != nil {
			return err
		}
	}
	secret := &metav1.PartialObjectMetadata{}
	secret.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Secret"))
	err := d.api.Get(ctx, client.ObjectKey{Namespace: d.namespace, Name: name}, secret)
	switch {
	case isNotFound(err, "secrets", name):
		return nil
	case err != nil:
		return toError(err)
	}
	if err := id.Check(identity(secret)); err != nil {
		return err
	}
	return d.delete(ctx, secret)
}

// List implements driver.Driver. A page of VirtualMachines is followed by lists of what these run as, which may be some
// milliseconds newer. No more than a page is in memory, because the API server decides where a list ends.
func (d *Driver) List(ctx context.Context, owner driver.Owner) iter.Seq2[driver.Instance, error] {
	return func(yield func(driver.Instance, error) bool) {
		for page, err := range pages(ctx, d, &virtv1.VirtualMachineList{}, ofOwner(owner)) {
			var running map[string]*observed
			if err == nil {
				running, err = d.observe(ctx, page.Items)
			}
			if err != nil {
				yield(driver.Instance{}, err)
				return
			}
			for i := range page.Items {
				vm := &page.Items[i]
				if instance := toInstance(vm, running[vm.Name]); owner.Selects(instance.Identity.Owner) && !yield(instance, nil) {
					return
				}
			}
		}
	}
}

// observe returns what the VirtualMachines of a page run as, by their names.
func (d *Driver) observe(ctx context.Context, vms []virtv1.VirtualMachine) (map[string]*observed, error) {
	uids := machineUIDs(vms)
	if len(uids) == 0 {
		return nil, nil
	}
	byName := map[string]*virtv1.VirtualMachine{}
	for i := range vms {
		byName[vms[i].Name] = &vms[i]
	}
	theirs, err := labels.NewRequirement(driver.TagMachineUID, selection.In, uids)
	if err != nil {
		return nil, err
	}
	running, byUID := map[string]*observed{}, map[string]*observed{}
	for object, err := range list(ctx, d, &virtv1.VirtualMachineInstanceList{}, client.MatchingLabelsSelector{Selector: labels.NewSelector().Add(*theirs)}) {
		if errors.Is(err, errTooLong) {
			running, err = d.runEach(ctx, vms)
		}
		if err != nil {
			return nil, err
		}
		if object == nil {
			break
		}
		if vm := byName[object.GetName()]; vm != nil && metav1.IsControlledBy(object, vm) {
			running[vm.Name] = toObserved(object.(*virtv1.VirtualMachineInstance))
		}
	}
	for _, of := range running {
		byUID[string(of.uid)] = of
	}
	launchers, err := labels.NewRequirement(virtv1.CreatedByLabel, selection.Exists, nil)
	if err != nil {
		return nil, err
	}
	for object, err := range list(ctx, d, &corev1.PodList{}, client.MatchingLabelsSelector{Selector: labels.NewSelector().Add(*theirs, *launchers)}) {
		if err != nil {
			return nil, err
		}
		if of := byUID[object.GetLabels()[virtv1.CreatedByLabel]]; of != nil {
			of.addPod(object.(*corev1.Pod))
		}
	}
	return running, nil
}

// machineUIDs returns the UIDs of machines in the labels that VirtualMachines give to what runs. Nothing has validated these
// labels: a value that is no label value is left out.
func machineUIDs(vms []virtv1.VirtualMachine) []string {
	uids := sets.New[string]()
	for i := range vms {
		template := vms[i].Spec.Template
		if template == nil {
			continue
		}
		if uid := template.ObjectMeta.Labels[driver.TagMachineUID]; uid != "" && len(validation.IsValidLabelValue(uid)) == 0 {
			uids.Insert(uid)
		}
	}
	return sets.List(uids)
}

// runEach returns what VirtualMachines run as, read one by one: the guest of one may have made a list too long.
func (d *Driver) runEach(ctx context.Context, vms []virtv1.VirtualMachine) (map[string]*observed, error) {
	all := map[string]*observed{}
	for i := range vms {
		running, err := d.run(ctx, &vms[i])
		if err != nil {
			return nil, err
		}
		if running != nil {
			all[vms[i].Name] = toObserved(running)
		}
	}
	return all, nil
}

// pages yields the pages of a list, and a failure last.
func pages[L client.ObjectList](ctx context.Context, d *Driver, into L, which client.ListOption) iter.Seq2[L, error] {
	return func(yield func(L, error) bool) {
		for following := ""; ; {
			page := into.DeepCopyObject().(L)
			err := d.api.List(ctx, page, client.InNamespace(d.namespace), client.Limit(d.pageSize), client.Continue(following), which)
			if !yield(page, toError(err)) || err != nil {
				return
			}
			if following = page.GetContinue(); following == "" {
				return
			}
		}
	}
}

// list yields the objects of a list, page by page, and a failure last.
func list(ctx context.Context, d *Driver, into client.ObjectList, which client.ListOption) iter.Seq2[client.Object, error] {
	return func(yield func(client.Object, error) bool) {
		for page, err := range pages(ctx, d, into, which) {
			if err == nil {
				err = meta.EachListItem(page, func(object runtime.Object) error {
					if !yield(object.(client.Object), nil) {
						return errStopped
					}
					return nil
				})
			}
			if errors.Is(err, errStopped) {
				return
			}
			if err != nil {
				yield(nil, err)
				return
			}
		}
	}
}

var errStopped = errors.New("the reader of a list has stopped")

// ofOwner selects the objects of an owner; everything of ours for an empty one.
func ofOwner(owner driver.Owner) client.ListOption {
	if owner.UID == "" {
		return client.HasLabels{driver.TagMachineUID}
	}
	return client.MatchingLabels{driver.TagClusterUID: string(owner.UID)}
}
