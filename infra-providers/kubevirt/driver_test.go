// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package kubevirt_test

import (
	"context"
	"net/http"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	virtv1 "kubevirt.io/api/core/v1"
	instancetypev1 "kubevirt.io/api/instancetype/v1beta1"
	cdiv1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "drover.io/api/infrastructure/v1alpha1"
	"drover.io/infra-providers/driver"
	"drover.io/infra-providers/driver/drivertest"
	"drover.io/infra-providers/kubevirt"
)

// TestConformance proves the contract with the least that a spec needs, and with everything.
func TestConformance(t *testing.T) {
	t.Parallel()
	small := minimalSpec()
	small.RootDisk = infrav1.KubeVirtRootDisk{Source: infrav1.KubeVirtDiskSource{PersistentVolumeClaim: infrav1.KubeVirtVolumeReference{Name: "ubuntu"}}}
	full := fullSpec()
	if programs != "" {
		full.Networks = nil // Multus, which virt-controller reads them from, is not there
	}
	for name, spec := range map[string]infrav1.KubeVirtMachineSpec{"minimal spec": small, "full spec": full} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			drivertest.Run(t, func(t *testing.T) drivertest.Environment[kubevirt.InstanceConfig] {
				return conformanceEnv(newEnv(t), spec)
			})
		})
	}
}

func conformanceEnv(e *env, spec infrav1.KubeVirtMachineSpec) drivertest.Environment[kubevirt.InstanceConfig] {
	e.t.Helper()
	e.createSources()
	with := func(change func(*infrav1.KubeVirtMachineSpec)) kubevirt.InstanceConfig {
		changed := spec.DeepCopy()
		change(changed)
		return newConfig(e.t, *changed, "zone-a")
	}
	from := func(source infrav1.KubeVirtDiskSource) kubevirt.InstanceConfig {
		return with(func(s *infrav1.KubeVirtMachineSpec) { s.RootDisk = infrav1.KubeVirtRootDisk{Source: source} })
	}
	other := newConfig(e.t, minimalSpec(), "zone-b")
	refuse := func(status int, reason metav1.StatusReason, which func(*http.Request) bool) func() {
		return func() { e.wire.fail(fault{status: status, reason: reason}, which) }
	}
	return drivertest.Environment[kubevirt.InstanceConfig]{
		Driver:   e.connect(),
		Config:   newConfig(e.t, spec, "zone-a"),
		Other:    &other,
		ListSize: 10, // an API server takes its time to create one
		Invalid: map[string]kubevirt.InstanceConfig{
			"preference":         with(func(s *infrav1.KubeVirtMachineSpec) { s.Preference.Name = "none" }),
			"cluster preference": with(func(s *infrav1.KubeVirtMachineSpec) { s.Preference = infrav1.KubeVirtReference{Name: "none"} }),
			"instancetype":       with(func(s *infrav1.KubeVirtMachineSpec) { s.Instancetype = infrav1.KubeVirtReference{Name: "none"} }),
			"label":              with(func(s *infrav1.KubeVirtMachineSpec) { s.Labels = map[string]infrav1.KubeVirtLabelValue{"team": "a b"} }),
		},
		NoImage: map[string]kubevirt.InstanceConfig{
			"DataSource":            from(infrav1.KubeVirtDiskSource{DataSource: infrav1.KubeVirtVolumeReference{Name: "none"}}),
			"PersistentVolumeClaim": from(infrav1.KubeVirtDiskSource{PersistentVolumeClaim: infrav1.KubeVirtVolumeReference{Name: "none"}}),
			"DataSource elsewhere":  from(infrav1.KubeVirtDiskSource{DataSource: infrav1.KubeVirtVolumeReference{Name: "ubuntu", Namespace: "default"}}),
		},
		Reconnect: e.connect,
		Lose:      func() { e.wire.fail(fault{lost: true}, changesVM) },
		Interrupt: refuse(http.StatusInternalServerError, metav1.StatusReasonInternalError, createsVM),
		Attach:    e.attach,
		CopyTags:  e.copyTags,
		Untag:     e.untag,
		Stop:      e.stop,
		Restarts:  e.server.Resets,
		Write:     func(created driver.Instance, output string) { e.server.Write(created.ID, output) },
		Changes:   e.wire.changes,
		Leftovers: e.leftovers,
		Refuse: map[drivertest.Refusal]func(){
			drivertest.Unauthorized:  refuse(http.StatusUnauthorized, metav1.StatusReasonUnauthorized, anyRequest),
			drivertest.RateLimited:   refuse(http.StatusTooManyRequests, metav1.StatusReasonTooManyRequests, anyRequest),
			drivertest.ServerError:   refuse(http.StatusInternalServerError, metav1.StatusReasonInternalError, anyRequest),
			drivertest.QuotaExceeded: refuse(http.StatusForbidden, metav1.StatusReasonForbidden, createsVM),
		},
	}
}

// createSources creates what disks are created from, and an instancetype.
func (e *env) createSources() {
	e.t.Helper()
	of := metav1.ObjectMeta{Namespace: e.namespace, Name: "ubuntu"}
	for _, object := range []client.Object{
		&cdiv1.DataSource{ObjectMeta: of, Spec: cdiv1.DataSourceSpec{Source: cdiv1.DataSourceSource{PVC: &cdiv1.DataVolumeSourcePVC{Namespace: of.Namespace, Name: of.Name}}}},
		&corev1.PersistentVolumeClaim{ObjectMeta: of, Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
		}},
		&instancetypev1.VirtualMachinePreference{ObjectMeta: of},
		&instancetypev1.VirtualMachineInstancetype{ObjectMeta: metav1.ObjectMeta{Namespace: e.namespace, Name: "large"}, Spec: instancetypev1.VirtualMachineInstancetypeSpec{
			CPU: instancetypev1.CPUInstancetype{Guest: 4}, Memory: instancetypev1.MemoryInstancetype{Guest: resource.MustParse("8Gi")},
		}},
	} {
		if err := e.api.Create(context.Background(), object); err != nil {
			e.t.Fatal(err)
		}
	}
}

// attach attaches a disk as KubeVirt's CSI driver does.
func (e *env) attach(created driver.Instance) func() bool {
	volume := &cdiv1.DataVolume{ObjectMeta: metav1.ObjectMeta{Namespace: e.namespace, Name: "pvc-1"}, Spec: cdiv1.DataVolumeSpec{
		Source: &cdiv1.DataVolumeSource{Blank: &cdiv1.DataVolumeBlankImage{}}, Storage: &cdiv1.StorageSpec{},
	}}
	if err := e.api.Create(context.Background(), volume); err != nil {
		e.t.Fatal(err)
	}
	update(e, e.vm(created.ID), func(vm *virtv1.VirtualMachine) {
		vm.Spec.Template.Spec.Volumes = append(vm.Spec.Template.Spec.Volumes, virtv1.Volume{
			Name: "pvc-1", VolumeSource: virtv1.VolumeSource{DataVolume: &virtv1.DataVolumeSource{Name: volume.Name, Hotpluggable: true}},
		})
	})
	return func() bool { return e.api.Delete(context.Background(), volume) == nil }
}

// copyTags creates a disk with the labels and annotations of a VirtualMachine.
func (e *env) copyTags(created driver.Instance) func() bool {
	from := e.vm(created.ID)
	volume := &cdiv1.DataVolume{ObjectMeta: metav1.ObjectMeta{Namespace: e.namespace, Name: "pvc-1", Labels: from.Labels, Annotations: from.Annotations}, Spec: cdiv1.DataVolumeSpec{
		Source: &cdiv1.DataVolumeSource{Blank: &cdiv1.DataVolumeBlankImage{}}, Storage: &cdiv1.StorageSpec{},
	}}
	if err := e.api.Create(context.Background(), volume); err != nil {
		e.t.Fatal(err)
	}
	return func() bool { return e.api.Delete(context.Background(), volume) == nil }
}

// untag removes labels and annotations from a VirtualMachine, its Secret and its DataVolumes.
func (e *env) untag(created driver.Instance, keys ...string) func() bool {
	ctx, key := context.Background(), client.MatchingLabels{driver.TagMachineUID: string(created.Identity.UID)}
	vms, secrets, volumes := &virtv1.VirtualMachineList{}, &corev1.SecretList{}, &cdiv1.DataVolumeList{}
	for _, all := range []client.ObjectList{vms, secrets, volumes} {
		if err := e.api.List(ctx, all, client.InNamespace(e.namespace), key); err != nil {
			e.t.Fatal(err)
		}
	}
	var objects []client.Object
	for i := range vms.Items {
		objects = append(objects, &vms.Items[i])
	}
	for i := range secrets.Items {
		objects = append(objects, &secrets.Items[i])
	}
	for i := range volumes.Items {
		objects = append(objects, &volumes.Items[i])
	}
	for _, object := range objects {
		update(e, object, func(o client.Object) {
			for _, key := range keys {
				delete(o.GetLabels(), key)
				delete(o.GetAnnotations(), key)
			}
		})
	}
	return func() bool {
		there := true
		for _, object := range objects {
			there = there && e.api.Get(ctx, client.ObjectKeyFromObject(object), object) == nil && object.GetDeletionTimestamp().IsZero()
		}
		for _, object := range objects {
			if err := e.api.Delete(ctx, object); err != nil {
				there = false
			}
		}
		e.step()
		return there
	}
}

// stop stops all virtual machines, as virtctl stop does.
func (e *env) stop() {
	vms := &virtv1.VirtualMachineList{}
	if err := e.api.List(context.Background(), vms, client.InNamespace(e.namespace)); err != nil {
		e.t.Fatal(err)
	}
	for i := range vms.Items {
		update(e, &vms.Items[i], func(vm *virtv1.VirtualMachine) { vm.Spec.RunStrategy = ptr.To(virtv1.RunStrategyHalted) })
	}
	e.step()
}

func fullSpec() infrav1.KubeVirtMachineSpec {
	return infrav1.KubeVirtMachineSpec{
		Architecture: "amd64",
		Instancetype: infrav1.KubeVirtReference{Name: "large", Scope: "Namespace"},
		Preference:   infrav1.KubeVirtReference{Name: "ubuntu", Scope: "Namespace"},
		RootDisk: infrav1.KubeVirtRootDisk{
			Source:  infrav1.KubeVirtDiskSource{DataSource: infrav1.KubeVirtVolumeReference{Name: "ubuntu"}},
			Storage: infrav1.KubeVirtStorage{SizeGiB: 50, StorageClassName: "fast", AccessMode: "ReadWriteMany", VolumeMode: "Block"},
		},
		Disks: []infrav1.KubeVirtDisk{{Name: "data", Storage: infrav1.KubeVirtStorage{SizeGiB: 100}, Bus: "scsi"}},
		Networks: []infrav1.KubeVirtNetwork{
			{Name: "pods"}, {Name: "storage", NetworkAttachment: "infra/storage", Binding: "bridge", Model: "virtio"}, {Name: "fast", NetworkAttachment: "sriov", Binding: "sriov"},
		},
		BootstrapDisk:     "ConfigDrive",
		EvictionStrategy:  "LiveMigrate",
		NodeSelector:      map[string]infrav1.KubeVirtLabelValue{"disk": "ssd"},
		NodeAffinity:      []infrav1.KubeVirtNodeAffinity{{Key: "gpu", Operator: "DoesNotExist"}, {Key: "generation", Operator: "In", Values: []string{"5"}, Weight: 10}},
		Tolerations:       []infrav1.KubeVirtToleration{{Key: "vms", Value: "only", Effect: "NoSchedule"}, {Effect: "NoExecute"}},
		TopologySpread:    []infrav1.KubeVirtTopologySpread{{TopologyKey: "topology.kubernetes.io/zone", MaxSkew: 2, WhenUnsatisfiable: "DoNotSchedule"}},
		PriorityClassName: "workers",
		Labels:            map[string]infrav1.KubeVirtLabelValue{"team": "web"},
		Annotations:       map[string]infrav1.KubeVirtAnnotationValue{"kubevirt.io/allow-pod-bridge-network-live-migration": "true"},
	}
}
