// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package nodematch

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

// fakeNodes are the names of Nodes by providerID.
type fakeNodes map[string][]string

func (f fakeNodes) NodesByProviderID(id string) []*corev1.Node {
	var found []*corev1.Node
	for _, name := range f[id] {
		found = append(found, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.NodeSpec{ProviderID: id}})
	}
	return found
}

func TestByProviderID(t *testing.T) {
	t.Parallel()
	machine := func(name, cluster, id string) *clusterv1.Machine {
		m := &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name}}
		m.Spec.ClusterName, m.Spec.ProviderID = cluster, id
		return m
	}
	for name, test := range map[string]struct {
		nodes   fakeNodes
		nodeRef string
		others  []*clusterv1.Machine
		own     []string
		foreign string
	}{
		"finds the Node with its name":                        {nodes: fakeNodes{"sim://m": {"m"}}, own: []string{"m"}},
		"finds one with a name that no Machine has":           {nodes: fakeNodes{"sim://m": {"ip-10-0-0-1"}}, own: []string{"ip-10-0-0-1"}},
		"finds all of several":                                {nodes: fakeNodes{"sim://m": {"x", "y"}}, own: []string{"x", "y"}},
		"leaves out that of a Machine without a providerID":   {nodes: fakeNodes{"sim://m": {"b"}}, others: []*clusterv1.Machine{machine("b", "c", "")}, foreign: "b"},
		"leaves out that of a Machine without another Node":   {nodes: fakeNodes{"sim://m": {"b"}}, others: []*clusterv1.Machine{machine("b", "c", "sim://b")}, foreign: "b"},
		"leaves it out beside its own":                        {nodes: fakeNodes{"sim://m": {"b", "m"}}, others: []*clusterv1.Machine{machine("b", "c", "sim://b")}, own: []string{"m"}, foreign: "b"},
		"finds one whose namesake has a Node of another name": {nodes: fakeNodes{"sim://m": {"b"}, "sim://b": {"m"}}, others: []*clusterv1.Machine{machine("b", "c", "sim://b")}, own: []string{"b"}},
		"leaves out that of a Machine whose providerID only the host of a third one reports": {
			nodes:  fakeNodes{"sim://m": {"b"}, "sim://b": {"d"}},
			others: []*clusterv1.Machine{machine("b", "c", "sim://b"), machine("d", "c", "sim://d")}, foreign: "b",
		},
		"finds one whose namesake has a Node with a name that no Machine has": {
			nodes: fakeNodes{"sim://m": {"b"}, "sim://b": {"ip-10-0-0-1"}}, others: []*clusterv1.Machine{machine("b", "c", "sim://b")}, own: []string{"b"},
		},
		"finds one whose namesake is of another Cluster": {nodes: fakeNodes{"sim://m": {"b"}}, others: []*clusterv1.Machine{machine("b", "d", "")}, own: []string{"b"}},
		"keeps the one that it refers to already":        {nodes: fakeNodes{"sim://m": {"b"}}, nodeRef: "b", others: []*clusterv1.Machine{machine("b", "c", "")}, own: []string{"b"}},
		"finds nothing where there is nothing":           {},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := machine("m", "c", "sim://m")
			m.Status.NodeRef.Name = test.nodeRef
			own, foreign, err := ByProviderID(test.nodes, m, func(name string) (*clusterv1.Machine, error) {
				for _, other := range test.others {
					if other.Name == name {
						return other, nil
					}
				}
				return nil, nil //nolint:nilnil // no Machine has the name
			})
			if err != nil {
				t.Fatal(err)
			}
			var names []string
			for _, node := range own {
				names = append(names, node.Name)
			}
			if diff := cmp.Diff(test.own, names, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("own (-want +got):\n%s", diff)
			}
			if got := nameOf(foreign); got != test.foreign {
				t.Errorf("foreign is %q, want %q", got, test.foreign)
			}
		})
	}
}

func nameOf(node *corev1.Node) string {
	if node == nil {
		return ""
	}
	return node.Name
}

func TestUnknownNamesakeIsAnError(t *testing.T) {
	t.Parallel()
	boom := errors.New("boom")
	m := &clusterv1.Machine{}
	m.Spec.ProviderID = "sim://m"
	own, _, err := ByProviderID(fakeNodes{"sim://m": {"b"}}, m, func(string) (*clusterv1.Machine, error) { return nil, boom })
	if !errors.Is(err, boom) || len(own) > 0 {
		t.Errorf("own %v, error %v", own, err)
	}
}
