// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/drone/envsubst/v2"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// required are the variables that have no default, with values as a user gives them.
var required = map[string]string{
	"CLUSTER_NAME": "edge", "NAMESPACE": "default", "KUBERNETES_VERSION": "v1.36.3", "CONTROL_PLANE_ENDPOINT_HOST": "api.example.test",
	"ALIBABA_REGION_ID": "eu-central-1", "ALIBABA_ZONE_ID": "eu-central-1a", "ALIBABA_VSWITCH_ID": "vsw-gw8q2m4v6x8z0b2d4f6h8", "ALIBABA_SECURITY_GROUP_ID": "sg-gw8a1b2c3d4e5f6g7h8i",
	"ANEXIA_LOCATION_ID": "52b5f6b2fd3a4a7eaaedf1a7c019e9ea", "ANEXIA_VLAN_ID": "166fa87362c8498f8c4aa6d1c5b9042c",
	"AWS_REGION": "eu-central-1", "AWS_SUBNET_ID": "subnet-0123456789abcdef0", "AWS_SECURITY_GROUP_ID": "sg-0123456789abcdef0",
	"AZURE_RESOURCE_GROUP": "nodes", "AZURE_LOCATION": "westeurope",
	"AZURE_SUBNET_ID": "/subscriptions/0b1f6471-1bf0-4dda-aec3-cb9272f09590/resourceGroups/network/providers/Microsoft.Network/virtualNetworks/vnet/subnets/nodes",
	"GOOGLE_PROJECT":  "my-project", "GOOGLE_ZONE": "europe-west3-a", "GOOGLE_SUBNETWORK": "nodes",
	"YANDEX_FOLDER_ID": "b1gvmob95yysaplct532", "YANDEX_SUBNET_ID": "e9b9e47n23i7gvb8m2hn",
	"METALSTACK_PROJECT_ID": "b5f26a3b-9a4d-48db-a6b3-d1dd4ac4abec", "METALSTACK_PARTITION": "fra-equ01", "METALSTACK_SIZE": "c1-xlarge-x86", "METALSTACK_NETWORK_ID": "8fa5e6b1-0000-4000-8000-00000000000a",
	"NUTANIX_CLUSTER": "pe-1", "NUTANIX_SUBNET": "workers",
	"HCLOUD_SSH_KEY": "ops", "OPENSTACK_NETWORK": "workers",
	"VCD_VDC": "acme-vdc", "VCD_VAPP": "workers", "VCD_CATALOG": "images", "VCD_NETWORK": "nodes",
	"VSPHERE_DATACENTER": "dc1", "VSPHERE_COMPUTE_CLUSTER": "c1", "VSPHERE_DATASTORE": "fast", "VSPHERE_NETWORK": "workers",
	"QEMU_IMAGE_URL": "https://images.example.test/noble.img", "QEMU_IMAGE_SHA256": strings.Repeat("0", 64),
}

// process does what clusterctl generate cluster does, by the library that it uses, and fails for a variable without a value.
func process(t *testing.T, content []byte, values map[string]string) []*unstructured.Unstructured {
	t.Helper()
	filled, err := envsubst.Eval(string(content), func(name string) string { return values[name] })
	if err != nil {
		t.Fatal(err)
	}
	var objects []*unstructured.Unstructured
	for decoder := utilyaml.NewYAMLOrJSONDecoder(bytes.NewReader([]byte(filled)), 4096); ; {
		object := &unstructured.Unstructured{}
		if err := decoder.Decode(object); errors.Is(err, io.EOF) {
			return objects
		} else if err != nil {
			t.Fatalf("%v:\n%s", err, filled)
		}
		objects = append(objects, object)
	}
}

// TestClusterTemplatesAreAccepted has a real API server check every template of every cloud, with all default values.
func TestClusterTemplatesAreAccepted(t *testing.T) {
	t.Parallel()
	_, c := start(t)
	if err := apply(t.Context(), c, allManifests(t, version)); err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(made[version], "clusterctl", "infrastructure-*", version, "cluster-template*.yaml"))
	if err != nil || len(files) < 20 {
		t.Fatalf("%d templates, %v", len(files), err)
	}
	for _, file := range files {
		name, err := filepath.Rel(filepath.Join(made[version], "clusterctl"), file)
		if err != nil {
			t.Fatal(err)
		}
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		objects := process(t, content, required)
		if len(objects) != 5 {
			t.Errorf("%s: %d objects", name, len(objects))
		}
		for _, object := range objects {
			await(t, name+": "+object.GetKind(), func(ctx context.Context) error {
				strict := client.WithFieldValidation(c, "Strict")
				return strict.Create(ctx, object.DeepCopy(), client.DryRunAll)
			})
		}
	}
}
