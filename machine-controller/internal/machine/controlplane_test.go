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

func TestPlaneGoes(t *testing.T) {
	t.Parallel()
	l := newLife(t, "m")
	goes := l.thing("bootstrap.test.io/v1", "ThingConfig", metav1.ObjectMeta{Namespace: l.machine.Namespace, Name: "goes"})
	l.must(shared.client.Delete(t.Context(), goes))
	// Any kind that keeps the contract will do for a control plane.
	plane := func(kind, name string) func(*state) {
		return func(s *state) {
			s.cluster.Spec.ControlPlaneRef = clusterv1.ContractVersionedObjectReference{APIGroup: "bootstrap.test.io", Kind: kind, Name: name}
		}
	}
	dead := func(s *state) { s.connection = workload.State{Reason: workload.ReasonUnreachable} }
	alive := func(s *state) { s.connection = workload.State{Connected: true} }
	unknown := func(s *state) { s.connection = workload.State{Reason: workload.ReasonConnecting} }
	clusterGoes := func(s *state) { s.cluster.DeletionTimestamp = new(metav1.NewTime(epoch)) }
	for name, test := range map[string]struct {
		given []func(*state)
		want  bool
	}{
		"goes with the Cluster that it belongs to":             {[]func(*state){plane("ThingConfig", "m"), clusterGoes}, true},
		"stays without its Cluster when it is somebody else's": {[]func(*state){clusterGoes, dead}, false},
		"stays while nobody deletes it, answering or not":      {[]func(*state){plane("ThingConfig", "m"), dead}, false},
		"goes when it is deleted alone":                        {[]func(*state){plane("ThingConfig", "goes"), alive}, true},
		"is gone when nobody answers in its place":             {[]func(*state){plane("ThingConfig", "gone"), dead}, true},
		"is not gone while somebody answers":                   {[]func(*state){plane("ThingConfig", "gone"), alive}, false},
		"is not gone before anybody was asked":                 {[]func(*state){plane("ThingConfig", "gone"), unknown}, false},
		"is not gone when it cannot be read":                   {[]func(*state){plane("Unheard", "m"), dead}, false},
	} {
		t.Run(name, func(t *testing.T) {
			s := leaving(test.given...)
			s.machine.Namespace = l.machine.Namespace
			l.Eventually(func() (bool, error) { // the cache may be behind
				return shared.reconciler.planeGoes(t.Context(), s)
			}).Should(gomega.Equal(test.want))
		})
	}
}
