// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

type fields = map[string]any

// read is the object by both contracts.
func read(content fields) (v1beta1, v1beta2 Object) {
	u := &unstructured.Unstructured{Object: content}
	return Object{u, V1Beta1}, Object{u, V1Beta2}
}

func TestFlags(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		of           func(Object) bool
		old, present fields
	}{
		"provisioned machine": {
			func(o Object) bool { return (&InfraMachine{o}).Provisioned() },
			fields{"ready": true}, fields{"initialization": fields{"provisioned": true}},
		},
		"bootstrap data": {
			func(o Object) bool { return (&BootstrapConfig{o}).DataSecretCreated() },
			fields{"ready": true}, fields{"initialization": fields{"dataSecretCreated": true}},
		},
		"provisioned cluster": {
			func(o Object) bool { return (&InfraCluster{o}).Provisioned() },
			fields{"ready": true}, fields{"initialization": fields{"provisioned": true}},
		},
		"initialized control plane": {
			func(o Object) bool { return (&ControlPlane{o}).Initialized() },
			fields{"initialized": true}, fields{"initialization": fields{"controlPlaneInitialized": true}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			oldBy1, oldBy2 := read(fields{"status": test.old})
			newBy1, newBy2 := read(fields{"status": test.present})
			none1, none2 := read(fields{})
			odd1, odd2 := read(fields{"status": fields{"ready": "true", "initialized": "true", "initialization": "yes"}})
			got := []bool{
				test.of(oldBy1), test.of(oldBy2), test.of(newBy1), test.of(newBy2),
				test.of(none1), test.of(none2), test.of(odd1), test.of(odd2),
			}
			if diff := cmp.Diff([]bool{true, false, false, true, false, false, false, false}, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestInfraMachineFields(t *testing.T) {
	t.Parallel()
	v1beta1, v1beta2 := read(fields{
		"spec": fields{"providerID": "sim://1", "failureDomain": "spec-zone"},
		"status": fields{
			"failureDomain": "status-zone", "interruptible": true,
			"addresses": []any{
				fields{"type": "InternalIP", "address": "10.0.0.1"}, "odd", fields{"type": "ExternalIP"}, fields{"address": "10.0.0.2"},
				fields{"type": "PodCIDR", "address": "10.1.0.0/24"},
				fields{"type": "Hostname", "address": "h"},
			},
		},
	})
	want := clusterv1.MachineAddresses{{Type: "InternalIP", Address: "10.0.0.1"}, {Type: "Hostname", Address: "h"}}
	for zone, m := range map[string]*InfraMachine{"spec-zone": {v1beta1}, "status-zone": {v1beta2}} {
		if domain, reported := m.FailureDomain(); domain != zone || !reported || m.ProviderID() != "sim://1" || !m.Interruptible() {
			t.Errorf("%s: failure domain %q, providerID %q, interruptible %t", m.Contract, domain, m.ProviderID(), m.Interruptible())
		}
		addresses, reported := m.Addresses()
		if diff := cmp.Diff(want, addresses); diff != "" || !reported {
			t.Errorf("reported %t: %s", reported, diff)
		}
	}
	for name, test := range map[string]struct {
		fields   fields
		reported bool
	}{
		"a list that is empty is reported": {fields{"status": fields{"addresses": []any{}, "failureDomain": ""}}, true},
		"none is not":                      {fields{}, false},
	} {
		_, o := read(test.fields)
		m := &InfraMachine{o}
		addresses, reported := m.Addresses()
		domain, placed := m.FailureDomain()
		if len(addresses) > 0 || domain != "" || reported != test.reported || placed != test.reported {
			t.Errorf("%s: %v %t, %q %t", name, addresses, reported, domain, placed)
		}
	}
	if b := (&BootstrapConfig{Object{&unstructured.Unstructured{Object: fields{"status": fields{"dataSecretName": "s"}}}, V1Beta2}}); b.DataSecretName() != "s" {
		t.Errorf("data secret is %q", b.DataSecretName())
	}
}

// A guest may report more addresses, and longer ones, than the status of a Machine may have.
func TestAddressesAreBounded(t *testing.T) {
	t.Parallel()
	reported := []any{fields{"type": "Hostname", "address": strings.Repeat("x", 257)}}
	for range 300 {
		reported = append(reported, fields{"type": "InternalIP", "address": "10.0.0.1"})
	}
	_, o := read(fields{"status": fields{"addresses": reported}})
	addresses, _ := (&InfraMachine{o}).Addresses()
	if len(addresses) != 256 || addresses[0].Type != "InternalIP" {
		t.Errorf("%d addresses, the first %v", len(addresses), addresses[0])
	}
}

func TestFailureDomains(t *testing.T) {
	t.Parallel()
	attributes := fields{"k": "v"}
	old, _ := read(fields{"status": fields{"failureDomains": fields{
		"b": fields{}, "a": fields{"controlPlane": true, "attributes": attributes}, "odd": "x",
	}}})
	_, present := read(fields{"status": fields{"failureDomains": []any{
		fields{"name": "b"}, "odd", fields{"name": "a", "controlPlane": true, "attributes": attributes}, fields{"controlPlane": false},
	}}})
	want := []clusterv1.FailureDomain{{Name: "a", ControlPlane: new(true), Attributes: map[string]string{"k": "v"}}, {Name: "b"}}
	for _, o := range []Object{old, present} {
		if diff := cmp.Diff(want, (&InfraCluster{o}).FailureDomains()); diff != "" {
			t.Errorf("%s: %s", o.Contract, diff)
		}
	}
}

// TestWhatAMachineCannotHaveCountsAsNone has a provider without the limits of Machines and Clusters.
func TestWhatAMachineCannotHaveCountsAsNone(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 600)
	for _, o := range func() []Object {
		old, present := read(fields{
			"spec":   fields{"providerID": long, "failureDomain": long},
			"status": fields{"failureDomain": long, "dataSecretName": long, "failureDomains": fields{"": fields{}, long: fields{}}},
		})
		return []Object{old, present}
	}() {
		domain, _ := (&InfraMachine{o}).FailureDomain()
		if got := []string{(&InfraMachine{o}).ProviderID(), domain, (&BootstrapConfig{o}).DataSecretName()}; !cmp.Equal(got, []string{"", "", ""}) {
			t.Errorf("%s: %q", o.Contract, got)
		}
		if domains := (&InfraCluster{o}).FailureDomains(); len(domains) > 0 {
			t.Errorf("%s: %v", o.Contract, domains)
		}
	}
}

func TestEndpoints(t *testing.T) {
	t.Parallel()
	_, o := read(fields{"spec": fields{"controlPlaneEndpoint": fields{"host": "h", "port": int64(6443)}}})
	want := clusterv1.APIEndpoint{Host: "h", Port: 6443}
	if (&InfraCluster{o}).Endpoint() != want || (&ControlPlane{o}).Endpoint() != want {
		t.Error("the endpoint is not read")
	}
	_, none := read(fields{})
	if (&InfraCluster{none}).Endpoint() != (clusterv1.APIEndpoint{}) || (&ControlPlane{none}).Endpoint() != (clusterv1.APIEndpoint{}) {
		t.Error("something is read from nothing")
	}
}

func TestReady(t *testing.T) {
	t.Parallel()
	at := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	full := fields{"type": "Ready", "status": "False", "reason": "R", "message": "m", "lastTransitionTime": "2030-01-01T00:00:00Z"}
	whole := &metav1.Condition{Type: "Ready", Status: "False", Reason: "R", Message: "m", LastTransitionTime: metav1.NewTime(at)}
	for name, test := range map[string]struct {
		status fields
		want   *metav1.Condition
	}{
		"finds it among others":                    {fields{"conditions": []any{"odd", fields{"type": "Other"}, full}}, whole},
		"needs no more than the status":            {fields{"conditions": []any{fields{"type": "Ready", "status": "True"}}}, &metav1.Condition{Type: "Ready", Status: "True"}},
		"finds none":                               {fields{"conditions": []any{fields{"type": "Other", "status": "True"}}}, nil},
		"finds none where there are no conditions": {fields{}, nil},
		"prefers those of the newer shape in an object of the older contract": {
			fields{"v1beta2": fields{"conditions": []any{full}}, "conditions": []any{fields{"type": "Ready", "status": "True"}}}, whole,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o, _ := read(fields{"status": test.status})
			if diff := cmp.Diff(test.want, o.Ready()); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestSlim(t *testing.T) {
	t.Parallel()
	meta := func() fields {
		return fields{
			"name": "x", "managedFields": []any{fields{"manager": "m"}},
			"annotations": fields{"kubectl.kubernetes.io/last-applied-configuration": "{}", "keep": "1"},
		}
	}
	in := &unstructured.Unstructured{Object: fields{
		"metadata": meta(),
		"spec": fields{
			"providerID": "id", "failureDomain": "z", "controlPlaneEndpoint": fields{"host": "h"}, "version": "v", "replicas": int64(1),
			"userData": "megabytes", "nested": fields{"providerID": "not this"},
		},
		"status": fields{"anything": "stays"},
	}}
	want := &unstructured.Unstructured{Object: fields{
		"metadata": fields{"name": "x", "annotations": fields{"keep": "1"}},
		"spec":     fields{"providerID": "id", "failureDomain": "z", "controlPlaneEndpoint": fields{"host": "h"}, "version": "v", "replicas": int64(1)},
		"status":   fields{"anything": "stays"},
	}}
	got, err := Slim(in)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	typed := &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{ManagedFields: []metav1.ManagedFieldsEntry{{}}}, Spec: clusterv1.MachineSpec{ClusterName: "c", Version: "v1"}}
	got, err = Slim(typed)
	if diff := cmp.Diff(&clusterv1.Machine{Spec: clusterv1.MachineSpec{ClusterName: "c", Version: "v1"}}, got); diff != "" || err != nil {
		t.Errorf("error %v, a typed object: %s", err, diff)
	}
	for _, odd := range []any{"tombstone", &unstructured.Unstructured{Object: fields{"metadata": fields{}, "data": fields{"k": "v"}}}} {
		if _, err := Slim(odd); err != nil {
			t.Errorf("%v: %v", odd, err)
		}
	}
}

func TestTemplateObject(t *testing.T) {
	t.Parallel()
	template := &Template{&unstructured.Unstructured{Object: fields{
		"apiVersion": "g/v1", "kind": "ThingMachineTemplate", "metadata": fields{"namespace": "ns", "name": "t", "labels": fields{"not": "this"}},
		"spec": fields{"template": fields{
			"metadata": fields{"labels": fields{"a": "template", "b": "template"}, "annotations": fields{"c": "template"}},
			"spec":     fields{"size": "big", "list": []any{"x"}},
		}},
	}}}
	given := template.DeepCopy()
	got, err := template.Object(Metadata{
		Name: "m", ClusterName: "c", Labels: map[string]string{"a": "birth", clusterv1.ClusterNameLabel: "x"}, Annotations: map[string]string{"d": "birth"},
		Owner: metav1.OwnerReference{APIVersion: "v", Kind: "Machine", Name: "m", UID: "u", Controller: new(true)},
	})
	if err != nil {
		t.Fatal(err)
	}
	want := &unstructured.Unstructured{Object: fields{
		"apiVersion": "g/v1", "kind": "ThingMachine",
		"metadata": fields{
			"namespace": "ns", "name": "m",
			"labels": fields{"a": "birth", "b": "template", clusterv1.ClusterNameLabel: "c"},
			"annotations": fields{
				"c": "template", "d": "birth",
				clusterv1.TemplateClonedFromNameAnnotation: "t", clusterv1.TemplateClonedFromGroupKindAnnotation: "ThingMachineTemplate.g",
			},
			"ownerReferences": []any{fields{"apiVersion": "v", "kind": "Machine", "name": "m", "uid": "u", "controller": true}},
		},
		"spec": fields{"size": "big", "list": []any{"x"}},
	}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	got.Object["spec"].(fields)["list"].([]any)[0] = "changed"
	if diff := cmp.Diff(given, template.Unstructured); diff != "" {
		t.Errorf("the template was changed: %s", diff)
	}
	ref := clusterv1.ContractVersionedObjectReference{APIGroup: "g", Kind: "ThingMachine", Name: "m"}
	if diff := cmp.Diff(ref, template.Ref("m")); diff != "" {
		t.Error(diff)
	}
	for name, spec := range map[string]any{"nothing": nil, "an odd template": fields{"template": "x"}, "no spec": fields{"template": fields{}}} {
		bad := &Template{&unstructured.Unstructured{Object: fields{"kind": "T", "spec": spec}}}
		if _, err := bad.Object(Metadata{}); err == nil {
			t.Errorf("a template with %s makes an object", name)
		}
	}
}
