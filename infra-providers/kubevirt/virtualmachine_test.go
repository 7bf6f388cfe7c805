// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package kubevirt_test

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	infrav1 "drover.io/api/infrastructure/v1alpha1"
	"drover.io/infra-providers/kubevirt"
)

var updateGolden = flag.Bool("update", false, "write the golden files")

// TestVirtualMachines compares the VirtualMachines of specs with golden files, which test/kubevirt shows to KubeVirt's own
// admission.
func TestVirtualMachines(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		spec   func() infrav1.KubeVirtMachineSpec
		format string
		zone   string
	}{
		"minimal":  {minimalSpec, "cloud-config", ""},
		"full":     {fullSpec, "cloud-config", "zone-a"},
		"ignition": {minimalSpec, "ignition", ""},
		"registry": {func() infrav1.KubeVirtMachineSpec {
			spec := minimalSpec()
			spec.CPU = infrav1.KubeVirtCPU{Cores: 4, Sockets: 2, Threads: 2, Model: "host-passthrough", Dedicated: ptr.To(true)}
			spec.RootDisk = infrav1.KubeVirtRootDisk{
				Source:  infrav1.KubeVirtDiskSource{Registry: "docker://quay.io/containerdisks/ubuntu:24.04", SecretName: "registry", CertConfigMap: "ca"},
				Storage: infrav1.KubeVirtStorage{SizeGiB: 50}, Bus: "sata",
			}
			spec.Networks = []infrav1.KubeVirtNetwork{{Name: "pods", Binding: "masquerade"}}
			return spec
		}, "cloud-config", ""},
		"http": {func() infrav1.KubeVirtMachineSpec {
			spec := minimalSpec()
			spec.RootDisk = infrav1.KubeVirtRootDisk{Source: infrav1.KubeVirtDiskSource{HTTP: "https://example.org/image.qcow2"}, Storage: infrav1.KubeVirtStorage{SizeGiB: 50}}
			return spec
		}, "cloud-config", ""},
		"clone": {func() infrav1.KubeVirtMachineSpec {
			spec := minimalSpec()
			spec.RootDisk = infrav1.KubeVirtRootDisk{Source: infrav1.KubeVirtDiskSource{PersistentVolumeClaim: infrav1.KubeVirtVolumeReference{Name: "ubuntu", Namespace: "images"}}}
			return spec
		}, "cloud-config", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			machine := &infrav1.KubeVirtMachine{ObjectMeta: metav1.ObjectMeta{
				Namespace: "team", Name: "worker-1", Labels: map[string]string{"cluster.x-k8s.io/cluster-name": "home", "cluster.x-k8s.io/deployment-name": "workers"},
			}, Spec: test.spec()}
			config, err := kubevirt.NewInstanceConfig(machine, test.zone)
			if err != nil {
				t.Fatal(err)
			}
			e := env{t: t}
			request := e.request("6a1f1f6e-0000-4000-8000-000000000001", config, "")
			request.Format = test.format
			got, err := yaml.Marshal(kubevirt.NewVirtualMachine(request, "team", "1f0e7a52-0000-4000-8000-000000000002"))
			if err != nil {
				t.Fatal(err)
			}
			file := filepath.Join("testdata", name+".yaml")
			if *updateGolden {
				if err := os.WriteFile(file, got, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), string(got)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestMachineNames: KubeVirt refuses a host name that is no label of DNS.
func TestMachineNames(t *testing.T) {
	t.Parallel()
	for name, valid := range map[string]bool{"worker-1": true, "": true, "worker.1": false, "Worker": false, strings.Repeat("a", 64): false} {
		machine := &infrav1.KubeVirtMachine{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: minimalSpec()}
		if _, err := kubevirt.NewInstanceConfig(machine, ""); (err == nil) != valid {
			t.Errorf("%q: got %v", name, err)
		}
	}
	if _, err := kubevirt.NewInstanceConfig(&infrav1.KubeVirtMachine{Spec: minimalSpec()}, "a b"); err == nil {
		t.Error("a failure domain that is no value of a label is accepted")
	}
}
