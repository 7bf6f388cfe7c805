// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package machinepolicy

import (
	"context"
	"testing"
	"time"

	"github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlconfig "sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	droverpolicyv1 "drover.io/api/policy/v1alpha1"
	"drover.io/machine-controller/internal/testenv"
	"drover.io/runtime/predicates"
)

// eventTimeout bounds waiting for a real API server; no test measures time by it.
const eventTimeout = 4 * time.Minute

// startManager runs the controller on a namespace.
func startManager(t *testing.T, namespace string, watch predicates.WatchFilter) {
	t.Helper()
	config, err := server.Start()
	if err != nil {
		t.Fatal(err)
	}
	mgr, err := ctrl.NewManager(config, ctrl.Options{
		Scheme: server.Client(t).Scheme(), Metrics: metricsserver.Options{BindAddress: "0"},
		Cache:      cache.Options{DefaultNamespaces: map[string]cache.Config{namespace: {}}},
		Controller: ctrlconfig.Controller{SkipNameValidation: new(true)},
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := (&Reconciler{Client: mgr.GetClient()}).Register(mgr, watch, controller.Options{}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("the manager ended with: %v", err)
		}
	})
}

// TestPolicyThatIsHandedOver labels policies for this manager and for another one.
func TestPolicyThatIsHandedOver(t *testing.T) {
	t.Parallel()
	g := gomega.NewWithT(t)
	g.SetDefaultEventuallyTimeout(eventTimeout)
	api, namespace := server.Client(t), server.Namespace(t)
	own := map[string]string{clusterv1.WatchLabel: "own"}
	md := &clusterv1.MachineDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "md", Labels: own}}
	md.Spec.ClusterName = "c"
	md.Spec.Selector.MatchLabels, md.Spec.Template.Labels = map[string]string{"pool": "a"}, map[string]string{"pool": "a"}
	md.Spec.Template.Spec = testenv.TemplateSpec()
	policy := func(name string, labels map[string]string) *droverpolicyv1.MachinePolicy {
		p := &droverpolicyv1.MachinePolicy{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: labels}}
		p.Spec.Selector = &droverpolicyv1.Selector{}
		return p
	}
	older, younger := policy("a-older", nil), policy("b-younger", own)
	for _, object := range []client.Object{md, older, younger} {
		g.Expect(api.Create(t.Context(), object)).To(gomega.Succeed())
	}
	label := func(p *droverpolicyv1.MachinePolicy, manager string) {
		t.Helper()
		patch := []byte(`{"metadata":{"labels":{"` + clusterv1.WatchLabel + `":"` + manager + `"}}}`)
		g.Expect(api.Patch(t.Context(), p, client.RawPatch(types.MergePatchType, patch))).To(gomega.Succeed())
	}
	expect := func(p *droverpolicyv1.MachinePolicy, reason string) {
		t.Helper()
		g.Eventually(func() (string, error) {
			err := api.Get(t.Context(), client.ObjectKeyFromObject(p), p)
			return conditions.GetReason(p, droverpolicyv1.ReadyCondition), err
		}).Should(gomega.Equal(reason), p.Name)
	}
	startManager(t, namespace, "own")
	expect(younger, droverpolicyv1.InForceReason)
	label(older, "own")
	expect(older, droverpolicyv1.InForceReason)
	expect(younger, droverpolicyv1.OverriddenReason)
	label(older, "other")
	expect(younger, droverpolicyv1.InForceReason)
}
