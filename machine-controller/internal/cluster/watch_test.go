// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	droverpolicyv1 "drover.io/api/policy/v1alpha1"
	"drover.io/machine-controller/internal/testenv"
	"drover.io/machine-controller/internal/workload"
	"drover.io/runtime/results"
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

// TestADeletedClusterWaitsForWhatKeptItsOldLabel has a Cluster that was moved to the manager "new" without the provider's objects
// that it owns.
func TestADeletedClusterWaitsForWhatKeptItsOldLabel(t *testing.T) {
	t.Parallel()
	for name, refer := range map[string]func(*clusterv1.ClusterSpec){
		"infrastructure": func(s *clusterv1.ClusterSpec) { s.InfrastructureRef = infraRef },
		"control plane":  func(s *clusterv1.ClusterSpec) { s.ControlPlaneRef = planeRef },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := &provider{object: map[string]any{"metadata": map[string]any{"labels": map[string]any{clusterv1.WatchLabel: "old"}}}}
			p.owners = []metav1.OwnerReference{{APIVersion: clusterv1.GroupVersion.String(), Kind: "Cluster", Name: "c", UID: "c"}}
			reader := p.reader()
			reader.Watch = "new"
			r := &Reconciler{Client: p.client(), Live: unchanged{}, Contract: reader}
			r.setPhases("new")
			s := &state{cluster: &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{
				Namespace: "ns", Name: "c", UID: "c", Finalizers: []string{clusterv1.ClusterFinalizer}, DeletionTimestamp: new(metav1.Now()),
			}}}
			refer(&s.cluster.Spec)
			var result reconcile.Result
			for _, phase := range r.phases {
				next, err := phase.run(t.Context(), s)
				if err != nil {
					t.Fatal(err)
				}
				result = results.Earliest(result, next)
			}
			condition := deleting(s)
			if len(s.cluster.Finalizers) != 1 || result.RequeueAfter == 0 || condition.Reason != droverpolicyv1.BlockedReason ||
				!strings.Contains(condition.Message, `has the label cluster.x-k8s.io/watch-filter: "old", so another manager reconciles it: set the label to "new"`) {
				t.Errorf("finalizers %v, result %v, Deleting %+v", s.cluster.Finalizers, result, condition)
			}
		})
	}
}
