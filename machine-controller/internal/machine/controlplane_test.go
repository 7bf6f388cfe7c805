// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package machine

import (
	"testing"

	"github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"drover.io/machine-controller/internal/workload"
)

func TestControlPlaneDeleting(t *testing.T) {
	t.Parallel()
	l := newTestMachine(t, "m")
	deleted := l.providerObject("bootstrap.test.io/v1", "ThingConfig", metav1.ObjectMeta{Namespace: l.machine.Namespace, Name: "deleted"})
	l.must(shared.client.Delete(t.Context(), deleted))
	// Any kind that keeps the contract will do for a control plane.
	plane := func(kind, name string) func(*state) {
		return func(s *state) {
			s.cluster.Spec.ControlPlaneRef = clusterv1.ContractVersionedObjectReference{APIGroup: "bootstrap.test.io", Kind: kind, Name: name}
		}
	}
	disconnected := func(s *state) { s.connection = workload.State{Reason: workload.ReasonUnreachable} }
	connected := func(s *state) { s.connection = workload.State{Connected: true} }
	connecting := func(s *state) { s.connection = workload.State{Reason: workload.ReasonConnecting} }
	clusterDeleted := func(s *state) { s.cluster.DeletionTimestamp = new(metav1.NewTime(epoch)) }
	for name, test := range map[string]struct {
		given []func(*state)
		want  bool
	}{
		"is deleted with its Cluster":                                   {[]func(*state){plane("ThingConfig", "m"), clusterDeleted}, true},
		"is not deleted with the Cluster when it is externally managed": {[]func(*state){clusterDeleted, disconnected}, false},
		"is not deleted for not answering":                              {[]func(*state){plane("ThingConfig", "m"), disconnected}, false},
		"is deleted alone":                                              {[]func(*state){plane("ThingConfig", "deleted"), connected}, true},
		"is deleted when it does not exist and no API server answers":   {[]func(*state){plane("ThingConfig", "absent"), disconnected}, true},
		"is not deleted while an API server answers":                    {[]func(*state){plane("ThingConfig", "absent"), connected}, false},
		"is not deleted before the first attempt to connect has ended":  {[]func(*state){plane("ThingConfig", "absent"), connecting}, false},
		"is not deleted when it cannot be read":                         {[]func(*state){plane("Unheard", "m"), disconnected}, false},
	} {
		t.Run(name, func(t *testing.T) {
			s := deletingState(test.given...)
			s.machine.Namespace = l.machine.Namespace
			l.Eventually(func() (bool, error) { // the cache may be behind
				return shared.reconciler.controlPlaneDeleting(t.Context(), s)
			}).Should(gomega.Equal(test.want))
		})
	}
}
