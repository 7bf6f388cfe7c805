// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package machineset

import (
	"maps"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// TestMetadataIsPropagatedToChildren changes the template's labels and annotations: the Machine, its
// config and its infrastructure follow, keep what others have put there, and are not replaced.
func TestMetadataIsPropagatedToChildren(t *testing.T) {
	t.Parallel()
	w := newEnvironment(t, nil)
	w.templates()
	set := machineSet(w.namespace)
	set.Spec.Replicas = new(int32(1))
	set.Spec.Template.Labels = map[string]string{"pool": "a", "leaves": "1", "changes": "1"}
	set.Spec.Template.Annotations = map[string]string{"leaves": "1"}
	w.create(set)
	w.waitComplete(set, 1)
	name := w.names(clusterv1.GroupVersion.String(), "Machine")[0]
	w.change(infraVersion, "ThingMachine", name, func(o *metav1.PartialObjectMetadata) { o.Labels["others"] = "1" })

	was := set.DeepCopy()
	set.Spec.Template.Labels = map[string]string{"pool": "a", "changes": "2", "comes": "1"}
	set.Spec.Template.Annotations = map[string]string{"comes": "1"}
	w.Expect(w.client.Patch(t.Context(), set, client.MergeFrom(was))).To(gomega.Succeed())

	want := map[string]string{"pool": "a", "changes": "2", "comes": "1", clusterv1.ClusterNameLabel: "c"}
	other := maps.Clone(want)
	other["others"] = "1"
	for _, each := range []struct {
		apiVersion, kind string
		labels           map[string]string
	}{{infraVersion, "ThingMachine", other}, {bootstrapVersion, "ThingConfig", want}} {
		w.Eventually(func() string {
			o := w.change(each.apiVersion, each.kind, name, nil)
			_, left := o.Annotations["leaves"]
			if o.Annotations["comes"] != "1" || left {
				return "annotations " + o.Annotations["comes"]
			}
			return cmp.Diff(each.labels, o.Labels)
		}).Should(gomega.BeEmpty(), each.kind)
	}
	if names := w.names(clusterv1.GroupVersion.String(), "Machine"); len(names) != 1 || names[0] != name {
		t.Errorf("Machine %s became %v", name, names)
	}
}

// change reads the metadata of an object and, if there is something to do, patches it.
func (w *environment) change(apiVersion, kind, name string, do func(*metav1.PartialObjectMetadata)) *metav1.PartialObjectMetadata {
	w.Helper()
	o := &metav1.PartialObjectMetadata{}
	o.SetGroupVersionKind(schema.FromAPIVersionAndKind(apiVersion, kind))
	w.Expect(w.client.Get(w.Context(), client.ObjectKey{Namespace: w.namespace, Name: name}, o)).To(gomega.Succeed())
	if do != nil {
		was := o.DeepCopy()
		do(o)
		w.Expect(w.client.Patch(w.Context(), o, client.MergeFrom(was))).To(gomega.Succeed())
	}
	return o
}
