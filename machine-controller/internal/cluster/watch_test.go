// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	droverpolicyv1 "drover.io/api/policy/v1alpha1"
	"drover.io/machine-controller/internal/testenv"
	"drover.io/machine-controller/internal/workload"
)

// TestADeletedClusterDeletesNoWorkerOfAnother has workers of each kind, some labelled for another manager.
func TestADeletedClusterDeletesNoWorkerOfAnother(t *testing.T) {
	t.Parallel()
	labels := func(watch string) map[string]string {
		return map[string]string{clusterv1.WatchLabel: watch, "pool": watch}
	}
	selector := func(watch string) metav1.LabelSelector {
		return metav1.LabelSelector{MatchLabels: map[string]string{"pool": watch}}
	}
	template := func(watch string) clusterv1.MachineTemplateSpec {
		return clusterv1.MachineTemplateSpec{ObjectMeta: clusterv1.ObjectMeta{Labels: labels(watch)}, Spec: testenv.TemplateSpec()}
	}
	plane := func(watch string) *clusterv1.Machine {
		m := machine(watch+"-plane", "", labels(watch))
		m.Labels[clusterv1.MachineControlPlaneLabel] = ""
		return m
	}
	var objects []client.Object
	for _, watch := range []string{"own", "other"} {
		objects = append(objects,
			&clusterv1.MachineDeployment{ObjectMeta: member(watch, "", labels(watch)), Spec: clusterv1.MachineDeploymentSpec{ClusterName: "c", Selector: selector(watch), Template: template(watch)}},
			&clusterv1.MachineSet{ObjectMeta: member(watch, "", labels(watch)), Spec: clusterv1.MachineSetSpec{ClusterName: "c", Selector: selector(watch), Template: template(watch)}},
			machine(watch, "", labels(watch)), plane(watch),
		)
	}
	for _, object := range objects {
		object.SetFinalizers([]string{"drover.test/hold"})
	}
	s := &state{cluster: &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: server.Namespace(t), Name: "c", DeletionTimestamp: new(metav1.Now())}}}
	api := clientWith(t, s.cluster.Namespace, objects...)
	r, d := &Reconciler{Client: api, Workloads: workload.New(workload.Options{})}, deletion{api, unchanged{}, "own"}
	if err := r.observe(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	result, err := d.run(t.Context(), s)
	if err != nil || result.RequeueAfter == 0 || s.deletion.reason != droverpolicyv1.BlockedReason || !strings.Contains(s.deletion.message, `MachineDeployment "other" has the label`) {
		t.Errorf("it waits with %v (%v): %s, %q", result, err, s.deletion.reason, s.deletion.message)
	}
	if _, err := d.controlPlane(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	for _, object := range objects {
		if err := api.Get(t.Context(), client.ObjectKeyFromObject(object), object); err != nil {
			t.Fatal(err)
		}
		if ours := object.GetLabels()[clusterv1.WatchLabel] == "own"; (object.GetDeletionTimestamp() != nil) != ours {
			t.Errorf("%T %q was deleted at %v", object, object.GetName(), object.GetDeletionTimestamp())
		}
	}
}
