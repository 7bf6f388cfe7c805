// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package crdvalidation_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"drover.io/runtime/crdvalidation"
	"drover.io/runtime/envtest"
)

var server = &envtest.Server{Project: true, EveryCloud: true}

func TestMain(m *testing.M) { envtest.Main(m, server.Stop) }

// object reads a manifest with a name and what else metadata has.
func object(t *testing.T, manifest string) *unstructured.Unstructured {
	t.Helper()
	raw, err := yaml.YAMLToJSON([]byte(manifest))
	if err != nil {
		t.Fatal(err)
	}
	u := &unstructured.Unstructured{}
	if err := utiljson.Unmarshal(raw, &u.Object); err != nil {
		t.Fatal(err)
	}
	return u
}

const (
	config     = "apiVersion: bootstrap.drover.io/v1alpha1\nkind: BootstrapConfig\nmetadata: {name: a}\nspec: "
	template   = "apiVersion: bootstrap.drover.io/v1alpha1\nkind: BootstrapConfigTemplate\nmetadata: {name: a}\nspec: "
	profile    = "apiVersion: bootstrap.drover.io/v1alpha1\nkind: NodeProfile\nmetadata: {name: a}\nspec: "
	deployment = "apiVersion: cluster.x-k8s.io/v1beta2\nkind: MachineDeployment\nmetadata: {name: a}\nspec: "
	cluster    = "apiVersion: cluster.x-k8s.io/v1beta2\nkind: Cluster\nmetadata: {name: a}\nspec: "
)

// objects are right and wrong ones; each is given to the API server, which decides what it is.
var objects = map[string]string{
	"all is well":                     config + "{operatingSystem: ubuntu, join: {method: Kubeadm}, kubelet: {credentialProviders: [{name: ecr, matchImages: ['a.example.com'], cacheSeconds: null, binary: [{architecture: amd64, url: 'https://a.example.com/x', sha256: '0000000000000000000000000000000000000000000000000000000000000000'}]}]}}",
	"a template":                      template + "{template: {spec: {operatingSystem: flatcar, maxSizeBytes: 8192}}}",
	"a profile":                       profile + "{releases: {mirror: 'https://m.example.com'}}",
	"a null":                          config + "{operatingSystem: ubuntu, maxSizeBytes: null, join: {tokenTTLSeconds: null}}",
	"a null in a fragment":            config + "{operatingSystem: ubuntu, kubelet: {configuration: {maxPods: null}}}",
	"an operating system":             config + "{operatingSystem: ubunto}",
	"no operating system":             config + "{maxSizeBytes: 4096}",
	"no spec":                         "apiVersion: bootstrap.drover.io/v1alpha1\nkind: BootstrapConfig\nmetadata: {name: a}\n",
	"a type":                          config + "{operatingSystem: ubuntu, maxSizeBytes: '16384'}",
	"an object for a list":            config + "{operatingSystem: ubuntu, packages: {a: b}}",
	"a list for an object":            config + "{operatingSystem: ubuntu, kubelet: []}",
	"a minimum and a pattern":         config + "{operatingSystem: ubuntu, maxSizeBytes: 1, files: [{path: a, content: b}]}",
	"rules":                           config + "{operatingSystem: ubuntu, format: ignition, flatcar: {updates: 'Off'}, files: [{path: /a}]}",
	"a key of a list twice":           config + "{operatingSystem: ubuntu, users: [{name: a}, {name: a}]}",
	"fields":                          config + "{operatingSystem: ubuntu, package: [a], kubelet: {maxPods: 5}, files: [{path: /a, contents: b}]}",
	"a field at the top":              config + "{operatingSystem: ubuntu}\nsepc: {}",
	"a name":                          strings.Replace(config, "name: a", "name: A_b", 1) + "{operatingSystem: ubuntu}",
	"no name":                         strings.Replace(config, "name: a", "labels: {}", 1) + "{operatingSystem: ubuntu}",
	"a label":                         strings.Replace(config, "name: a", "name: a, labels: {a: 'b c'}", 1) + "{operatingSystem: ubuntu}",
	"the start of a name":             strings.Replace(config, "name: a", "generateName: a-", 1) + "{operatingSystem: ubuntu}",
	"a template without its level":    template + "{operatingSystem: flatcar}",
	"a source of a profile":           profile + "{releases: {sources: [{component: kubelet, url: 'https://a.example.com/kubelet'}]}}",
	"an architecture of a profile":    profile + "{releases: {architectures: [x86_64]}}",
	"a MachineDeployment":             deployment + "{clusterName: c, selector: {}, template: {spec: {clusterName: c, version: v1.36.3, bootstrap: {configRef: {apiGroup: bootstrap.drover.io, kind: BootstrapConfigTemplate, name: a}}, infrastructureRef: {apiGroup: infrastructure.drover.io, kind: SimMachineTemplate, name: a}}}}",
	"a long name":                     strings.Replace(deployment, "name: a", "name: "+strings.Repeat("a", 64), 1) + "{clusterName: c, selector: {}, template: {spec: {clusterName: c, version: v1.36.3, bootstrap: {dataSecretName: a}, infrastructureRef: {apiGroup: infrastructure.drover.io, kind: SimMachineTemplate, name: a}}}}",
	"a MachineDeployment without any": deployment + "{clusterName: c, replicas: many, template: {spec: {version: v1.36.3}}}",
	"a Cluster":                       cluster + "{controlPlaneEndpoint: {host: a.example.com, port: 70000}, clusterNetwork: {services: {cidrBlocks: [10.0.0.0]}}}",
}

// TestProblemsAreThoseOfTheAPIServer: the same causes in the same words, and the same defaults.
func TestProblemsAreThoseOfTheAPIServer(t *testing.T) {
	kinds, err := crdvalidation.Load()
	if err != nil {
		t.Fatal(err)
	}
	refused := 0
	for name, manifest := range objects {
		local, remote := object(t, manifest), object(t, manifest)
		remote.SetNamespace("default")
		got, err := kinds.Admit(local.GroupVersionKind(), local.Object)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		err = server.Client(t).Create(t.Context(), remote, &client.CreateOptions{FieldValidation: "Strict", DryRun: []string{metav1.DryRunAll}})
		if err != nil {
			refused++
		}
		if problem := differs(got, err); problem != "" {
			t.Errorf("%s: %s", name, problem)
		}
		if err != nil || len(got) > 0 {
			continue
		}
		if diff := cmp.Diff(remote.Object["spec"], local.Object["spec"]); diff != "" {
			t.Errorf("%s: the object is not that of the API server (-want +got):\n%s", name, diff)
		}
	}
	if refused < len(objects)/2 {
		t.Errorf("the API server refuses only %d objects", refused)
	}
}

// differs compares problems with the answer of the API server.
func differs(got []string, err error) string {
	status, is := errors.AsType[*apierrors.StatusError](err)
	if err != nil && !is {
		return err.Error()
	}
	if apierrors.IsBadRequest(err) { // unknown fields, in one line
		_, line, _ := strings.Cut(status.Status().Message, "strict decoding error: ")
		var unknown []string
		for _, problem := range got {
			field, _, _ := strings.Cut(problem, ", did you mean")
			unknown = append(unknown, field)
		}
		return cmp.Diff(strings.Split(line, ", "), unknown)
	}
	var want []string
	if err != nil {
		for _, cause := range status.Status().Details.Causes {
			// Neither is a problem of its own: "some validation rules were not checked", and a type that the schema has, too.
			if !strings.Contains(cause.Message, "some validation rules were not checked") && cause.Field != ".spec.replicas" {
				want = append(want, strings.TrimPrefix(cause.Field+": "+cause.Message, "<nil>: "))
			}
		}
		if len(want) == 0 {
			return fmt.Sprintf("problems %q, the API server has: %v", got, err)
		}
	}
	slices.Sort(want)
	got = slices.Sorted(slices.Values(got))
	if diff := cmp.Diff(want, got); diff != "" {
		return "(-want +got):\n" + diff
	}
	return ""
}
