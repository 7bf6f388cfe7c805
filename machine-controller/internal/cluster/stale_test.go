// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"drover.io/machine-controller/internal/testenv"
	"drover.io/machine-controller/internal/workload"
	"drover.io/runtime/results"
)

// unchanged returns every object as it is given.
type unchanged struct{ client.Reader }

func (unchanged) Get(context.Context, client.ObjectKey, client.Object, ...client.GetOption) error {
	return nil
}

// TestAClusterThatIsGoneDeletesNothing has a cache that still shows a Cluster being deleted while another of its name,
// and that one's workers, exist already.
func TestAClusterThatIsGoneDeletesNothing(t *testing.T) {
	t.Parallel()
	namespace := server.Namespace(t)
	labels := map[string]string{"a": "b"}
	md := &clusterv1.MachineDeployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "new", Finalizers: []string{"drover.test/held"}},
		Spec: clusterv1.MachineDeploymentSpec{
			ClusterName: "c", Selector: metav1.LabelSelector{MatchLabels: labels},
			Template: clusterv1.MachineTemplateSpec{ObjectMeta: clusterv1.ObjectMeta{Labels: labels}, Spec: testenv.TemplateSpec()},
		},
	}
	api := clientWith(t, namespace, testenv.Cluster(namespace), md)
	before := testenv.Cluster(namespace)
	before.UID, before.DeletionTimestamp, before.Finalizers = "before", new(metav1.Now()), []string{clusterv1.ClusterFinalizer}
	s, r := &state{cluster: before}, &Reconciler{Client: api, Workloads: workload.New(workload.Options{})}
	if err := r.observe(t.Context(), s); err != nil || len(s.workers.deployments) != 1 {
		t.Fatalf("%d deployments are counted, error %v", len(s.workers.deployments), err)
	}
	if _, err := (deletion{client: api, live: api}).run(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	if err := api.Get(t.Context(), client.ObjectKeyFromObject(md), md); err != nil || md.DeletionTimestamp != nil {
		t.Errorf("the MachineDeployment of the new Cluster was deleted at %v, error %v", md.DeletionTimestamp, err)
	}
}

// replaced returns every object as another of its name.
type replaced struct{ client.Reader }

func (replaced) Get(_ context.Context, _ client.ObjectKey, object client.Object, _ ...client.GetOption) error {
	object.SetUID("after")
	return nil
}

// TestAClusterThatIsGoneAdoptsNothing has a cache that still shows a Cluster while another of its name exists already, with
// new objects: they would be garbage collected with an owner that is gone.
func TestAClusterThatIsGoneAdoptsNothing(t *testing.T) {
	t.Parallel()
	for name, refer := range map[string]func(*clusterv1.ClusterSpec){
		"infrastructure": func(s *clusterv1.ClusterSpec) { s.InfrastructureRef = infraRef },
		"control plane":  func(s *clusterv1.ClusterSpec) { s.ControlPlaneRef = planeRef },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cluster := testenv.Cluster("ns")
			cluster.UID = "before"
			refer(&cluster.Spec)
			p := &provider{object: fields("provisioned", true)}
			r := &Reconciler{Client: p.client(), Live: replaced{}, Contract: p.reader()}
			r.setPhases("")
			s := &state{cluster: cluster}
			var result reconcile.Result
			for _, phase := range r.phases {
				next, err := phase.run(t.Context(), s)
				if err != nil {
					t.Fatal(err)
				}
				result = results.Earliest(result, next)
			}
			if p.patches > 0 || result.RequeueAfter == 0 {
				t.Errorf("%d patches, result %+v", p.patches, result)
			}
		})
	}
}
