// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package machinehealthcheck

import (
	"context"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"drover.io/machine-controller/internal/expectation"
	"drover.io/machine-controller/internal/safety"
	"drover.io/machine-controller/internal/workload"
)

// TestClusterThatIsGoneDoesNotOwnACheck has a cache that still shows a Cluster after another of its name was created with a
// check: the check would be garbage collected with the first one.
func TestClusterThatIsGoneDoesNotOwnACheck(t *testing.T) {
	t.Parallel()
	api, namespace := management.Client(t), management.Namespace(t)
	cluster := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "c"}}
	cluster.Spec.ControlPlaneEndpoint = clusterv1.APIEndpoint{Host: "127.0.0.1", Port: 6443}
	check := &clusterv1.MachineHealthCheck{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "check"}}
	check.Spec.ClusterName, check.Spec.Selector.MatchLabels = "c", map[string]string{"pool": "a"}
	for _, object := range []client.Object{cluster, check} {
		if err := api.Create(t.Context(), object); err != nil {
			t.Fatal(err)
		}
	}
	cached := interceptor.NewClient(api, interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
			err := c.Get(ctx, key, object, options...)
			if stale, is := object.(*clusterv1.Cluster); is {
				stale.UID = "before"
			}
			return err
		},
		List: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error { return nil },
	})
	r := &Reconciler{
		Client: cached, Live: api, Workloads: workload.New(workload.Options{}), Events: events.NewFakeRecorder(10), Clock: clock.RealClock{},
		Guard:  &safety.Guard{Management: func() safety.Reachability { return safety.Reachability{} }},
		writes: &expectation.Writes{Clock: clock.RealClock{}},
	}
	r.setPhases()
	result, err := r.Reconcile(t.Context(), check)
	if err != nil || result.RequeueAfter == 0 {
		t.Errorf("result %+v, error %v", result, err)
	}
	if err := api.Get(t.Context(), client.ObjectKeyFromObject(check), check); err != nil || len(check.OwnerReferences) > 0 {
		t.Errorf("the owners are %+v, error %v", check.OwnerReferences, err)
	}
}
