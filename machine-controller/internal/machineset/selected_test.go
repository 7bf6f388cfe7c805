// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package machineset

import (
	"context"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/clock"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"drover.io/machine-controller/internal/contract"
	"drover.io/machine-controller/internal/expectation"
	"drover.io/machine-controller/internal/machineset/creation"
	"drover.io/machine-controller/internal/testenv"
)

// TestMachinesThatWouldNotBeSelectedAreNotCreated has sets as an API server without Drover's rules stores them: each Machine
// would be released at once, and another created.
func TestMachinesThatWouldNotBeSelectedAreNotCreated(t *testing.T) {
	t.Parallel()
	for name, selector := range map[string]metav1.LabelSelector{
		"because another set is named": {MatchLabels: map[string]string{clusterv1.MachineSetNameLabel: "copied"}},
		"because a label is excluded that every Machine has": {MatchExpressions: []metav1.LabelSelectorRequirement{
			{Key: clusterv1.ClusterNameLabel, Operator: metav1.LabelSelectorOpDoesNotExist},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			creates := 0
			c := interceptor.NewClient(nil, interceptor.Funcs{
				Get: func(_ context.Context, _ client.WithWatch, key client.ObjectKey, o client.Object, _ ...client.GetOption) error {
					o.SetLabels(map[string]string{"cluster.x-k8s.io/v1beta2": "v1"}) // of the CRD
					o.SetNamespace(key.Namespace)
					if template, is := o.(*unstructured.Unstructured); is {
						return unstructured.SetNestedField(template.Object, map[string]any{}, "spec", "template", "spec")
					}
					return nil
				},
				List: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error { return nil },
				Patch: func(context.Context, client.WithWatch, client.Object, client.Patch, ...client.PatchOption) error {
					return nil
				},
				Create: func(context.Context, client.WithWatch, client.Object, ...client.CreateOption) error {
					creates++
					return nil
				},
			})
			set := machineSet("ns")
			set.Spec.Selector, set.Spec.Replicas = selector, new(int32(1))
			s := &state{set: set, cluster: testenv.Cluster("ns"), cacheCurrent: true}
			templates := &contract.Templates{Resolver: &contract.Resolver{Reader: c}, Live: c}
			sc := &scaler{
				client: c, live: c, guard: newGuard(c), preflight: &preflighter{templates},
				creator: &creation.Creator{Client: c, Templates: templates, Tracker: &expectation.Tracker{Clock: clock.RealClock{}}},
			}
			result, err := sc.run(t.Context(), s)
			if err != nil || result.RequeueAfter != 0 || creates > 0 || s.blocked == nil || !strings.Contains(s.blocked.Error(), "spec.selector") {
				t.Errorf("result %v, error %v, blocked because %v, %d created", result, err, s.blocked, creates)
			}
		})
	}
}
