// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package restart_test

import (
	"context"
	"testing"
	"time"

	"github.com/onsi/gomega"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	infrav1 "drover.io/api/infrastructure/v1alpha1"
)

// TestContinuesAfterAPauseOfTheInfrastructure: nothing else changes when the annotation is removed.
func TestContinuesAfterAPauseOfTheInfrastructure(t *testing.T) {
	t.Parallel()
	r := newFixture(t, 1)
	r.update(r.infra, func() { r.infra.Annotations[clusterv1.PausedAnnotation] = "" })
	r.serve()
	r.eventually("the remediation is paused", func() bool {
		return condition(r.remediation, clusterv1.PausedCondition).Reason == clusterv1.PausedReason
	})
	r.update(r.infra, func() { delete(r.infra.Annotations, clusterv1.PausedAnnotation) })
	r.eventually("the instance is restarted", func() bool { return r.remediation.Status.Phase == infrav1.RestartRemediationWaiting })
	r.wantRestarts(1)
}

// TestHandsBackWhenTheInfrastructureIsGone: the infrastructure machine was deleted by itself.
func TestHandsBackWhenTheInfrastructureIsGone(t *testing.T) {
	t.Parallel()
	r := newFixture(t, 1)
	r.serve()
	r.eventually("the instance is restarted", func() bool { return r.remediation.Status.Phase == infrav1.RestartRemediationWaiting })
	r.must(cluster.Client.Delete(t.Context(), r.infra))
	r.eventually("the Machine is handed back", func() bool { return r.remediation.Status.Phase == infrav1.RestartRemediationHandedBack })
	r.wantOwner(true)
}

// serve runs the reconciler in a manager until the test ends.
func (r *fixture) serve() {
	r.t.Helper()
	mgr, err := ctrl.NewManager(cluster.Config, ctrl.Options{
		Scheme:     cluster.Client.Scheme(),
		Cache:      cache.Options{DefaultNamespaces: map[string]cache.Config{r.owner.Namespace: {}}},
		Metrics:    metricsserver.Options{BindAddress: "0"},
		Controller: config.Controller{SkipNameValidation: ptr.To(true)},
	})
	r.must(err)
	r.must(r.Register(mgr))
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- mgr.Start(ctx) }()
	r.t.Cleanup(func() {
		cancel()
		r.must(<-done)
	})
}

// eventually waits until the remediation and the Machine as they are stored are as expected.
func (r *fixture) eventually(what string, reached func() bool) {
	r.t.Helper()
	gomega.NewWithT(r.t).Eventually(func() bool {
		r.must(cluster.Client.Get(r.t.Context(), client.ObjectKeyFromObject(r.remediation), r.remediation))
		r.refresh()
		return reached()
	}).WithTimeout(2*time.Minute).Should(gomega.BeTrue(), what)
}
