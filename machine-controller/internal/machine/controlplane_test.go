// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package machine

import (
	"testing"

	"github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"drover.io/machine-controller/internal/workload"
)

func TestControlPlaneDeleting(t *testing.T) {
	t.Parallel()
	l := newTestMachine(t, "m")
	owner := func(uid types.UID) []metav1.OwnerReference {
		return []metav1.OwnerReference{{APIVersion: clusterv1.GroupVersion.String(), Kind: "Cluster", Name: "c", UID: uid}}
	}
	for name, uid := range map[string]types.UID{"deleted": "c", "deleted-of-another": "d"} {
		object := l.providerObject("bootstrap.test.io/v1", "ThingConfig", metav1.ObjectMeta{Namespace: l.machine.Namespace, Name: name, OwnerReferences: owner(uid)})
		l.must(shared.client.Delete(t.Context(), object))
	}
	// Any kind that keeps the contract will do for a control plane.
	plane := func(kind, name string) func(*state) {
		return func(s *state) {
			s.cluster.Spec.ControlPlaneRef = clusterv1.ContractVersionedObjectReference{APIGroup: "bootstrap.test.io", Kind: kind, Name: name}
		}
	}
	disconnected := func(s *state) { s.connection = workload.State{Reason: workload.ReasonUnreachable} }
	connected := func(s *state) { s.connection = workload.State{Connected: true} }
	because := func(reason workload.Reason) func(*state) {
		return func(s *state) { s.connection = workload.State{Reason: reason} }
	}
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
		"is not deleted with the control plane of another Cluster":      {[]func(*state){plane("ThingConfig", "deleted-of-another"), connected}, false},
		"is deleted when it does not exist and no API server answers":   {[]func(*state){plane("ThingConfig", "absent"), disconnected}, true},
		"is not deleted while an API server answers":                    {[]func(*state){plane("ThingConfig", "absent"), connected}, false},
		"is not deleted before the first attempt to connect has ended":  {[]func(*state){plane("ThingConfig", "absent"), connecting}, false},
		"is deleted when it does not exist and its kubeconfig neither":  {[]func(*state){plane("ThingConfig", "absent"), because(workload.ReasonKubeconfigMissing)}, true},
		"is not deleted while an API server refuses the credentials":    {[]func(*state){plane("ThingConfig", "absent"), because(workload.ReasonUnauthorized)}, false},
		"is not deleted while an API server refuses to list Nodes":      {[]func(*state){plane("ThingConfig", "absent"), because(workload.ReasonForbidden)}, false},
		"is not deleted while its Nodes are too large":                  {[]func(*state){plane("ThingConfig", "absent"), because(workload.ReasonNodesTooLarge)}, false},
		"is not deleted when a watch of Nodes has just ended":           {[]func(*state){plane("ThingConfig", "absent"), because("")}, false},
		"is not deleted when it cannot be read":                         {[]func(*state){plane("Unheard", "m"), disconnected}, false},
	} {
		t.Run(name, func(t *testing.T) {
			s := deletingState(append(test.given, func(s *state) { s.cluster.UID = "c" })...)
			s.machine.Namespace = l.machine.Namespace
			l.Eventually(func() (bool, error) { // the cache may be behind
				return shared.reconciler.controlPlaneDeleting(t.Context(), s)
			}).Should(gomega.Equal(test.want))
		})
	}
}
