// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package machine

import (
	"strings"
	"testing"

	"github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/tools/events"
	testingclock "k8s.io/utils/clock/testing"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"drover.io/machine-controller/internal/contract"
	"drover.io/machine-controller/internal/machine/deletion"
	"drover.io/machine-controller/internal/ownership"
	"drover.io/machine-controller/internal/testenv"
)

// duplicate creates another Machine of the same Cluster, and waits until its infrastructure is reported for that reason.
func (l *testMachine) duplicate(reason string, change func(*clusterv1.Machine)) *testMachine {
	l.Helper()
	other := *l
	other.machine = testenv.Machine(l.machine.Namespace, "copy")
	change(other.machine)
	status := other.machine.DeepCopy().Status
	l.must(shared.client.Create(l.Context(), other.machine))
	if status.NodeRef.IsDefined() {
		before := other.machine.DeepCopy()
		other.machine.Status = status
		l.must(shared.client.Status().Patch(l.Context(), other.machine, client.MergeFrom(before)))
	}
	other.until(func(g gomega.Gomega, m *clusterv1.Machine) {
		g.Expect(conditions.GetReason(m, clusterv1.MachineInfrastructureReadyCondition)).To(gomega.Equal(reason))
	})
	return &other
}

// deleteAndWait deletes the Machine and waits until it is gone.
func (l *testMachine) deleteAndWait() {
	l.Helper()
	l.must(shared.client.Delete(l.Context(), l.machine))
	l.Eventually(func() bool {
		return apierrors.IsNotFound(shared.client.Get(l.Context(), client.ObjectKeyFromObject(l.machine), l.machine))
	}).Should(gomega.BeTrue())
}

// expectUnchanged checks that the Machine, its objects and its Node are as they were.
func (l *testMachine) expectUnchanged() {
	l.Helper()
	for _, o := range []*unstructured.Unstructured{l.infra, l.config} {
		l.must(shared.client.Get(l.Context(), client.ObjectKeyFromObject(o), o))
		if o.GetDeletionTimestamp() != nil || !metav1.IsControlledBy(o, l.machine) {
			l.Errorf("%s is deleted at %v and owned by %v", o.GetKind(), o.GetDeletionTimestamp(), o.GetOwnerReferences())
		}
	}
	l.must(shared.nodes.Get(l.Context(), client.ObjectKeyFromObject(l.node), l.node))
	if l.node.Spec.Unschedulable || l.node.Annotations[clusterv1.MachineAnnotation] != l.machine.Name {
		l.Errorf("the Node is cordoned %t, with annotations %v", l.node.Spec.Unschedulable, l.node.Annotations)
	}
}

func TestAnotherMachinesObjectsAreLeftAlone(t *testing.T) {
	t.Parallel()
	l := newTestMachine(t, "m")
	l.provision()
	duplicate := l.duplicate(ownership.ForeignObjectReason, func(m *clusterv1.Machine) {
		m.Spec.InfrastructureRef = l.machine.Spec.InfrastructureRef
		m.Spec.Bootstrap = clusterv1.Bootstrap{ConfigRef: l.machine.Spec.Bootstrap.ConfigRef}
	})
	if reason := conditions.GetReason(duplicate.machine, clusterv1.MachineBootstrapConfigReadyCondition); reason != ownership.ForeignObjectReason {
		t.Errorf("the bootstrap object is reported for reason %s", reason)
	}
	if message := conditions.GetMessage(duplicate.machine, clusterv1.MachineInfrastructureReadyCondition); !strings.Contains(message, "spec.infrastructureRef") || !strings.Contains(message, `Machine "m"`) {
		t.Errorf("the message is %q", message)
	}
	if m := duplicate.machine; m.Spec.ProviderID != "" || m.Spec.Bootstrap.DataSecretName != nil || m.Status.NodeRef.IsDefined() || len(m.Status.Addresses) > 0 {
		t.Errorf("spec is %+v, status %+v", m.Spec, m.Status)
	}
	l.Eventually(func(g gomega.Gomega) {
		list := &eventsv1.EventList{}
		g.Expect(shared.client.List(t.Context(), list, client.InNamespace(l.machine.Namespace))).To(gomega.Succeed())
		refusals := 0
		for _, event := range list.Items {
			if event.Reason == "ReferenceRefused" && event.Regarding.Name == "copy" {
				refusals++
			}
		}
		g.Expect(refusals).To(gomega.Equal(2), "one of each reference")
	}).Should(gomega.Succeed())
	duplicate.deleteAndWait()
	l.expectUnchanged()
}

func TestAnotherMachinesNodeIsLeftAlone(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		reason string
		change func(*clusterv1.Machine, *testMachine)
	}{
		"that only a user has named": {clusterv1.ObjectDoesNotExistReason, func(*clusterv1.Machine, *testMachine) {}},
		"that an older manager followed": {clusterv1.ObjectDeletedReason, func(m *clusterv1.Machine, l *testMachine) {
			m.Status.Initialization.InfrastructureProvisioned = new(true)
			m.Status.NodeRef.Name = l.node.Name
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newTestMachine(t, "m")
			l.provision()
			duplicate := l.duplicate(test.reason, func(m *clusterv1.Machine) {
				m.Spec.ProviderID = l.machine.Spec.ProviderID
				m.Spec.InfrastructureRef.APIGroup, m.Spec.InfrastructureRef.Kind = "infrastructure.test.io", "ThingMachine"
				test.change(m, l)
			})
			duplicate.deleteAndWait()
			l.expectUnchanged()
		})
	}
}

// An API server with older CRDs may hold such a Machine.
func TestAReferenceOfTheWrongKindIsNotFollowed(t *testing.T) {
	t.Parallel()
	for name, ref := range map[string]clusterv1.ContractVersionedObjectReference{
		"a template":                     {APIGroup: "infrastructure.test.io", Kind: "ThingMachineTemplate", Name: "t"},
		"a kind of Cluster API's own":    {APIGroup: clusterv1.GroupVersion.Group, Kind: "Cluster", Name: "c"},
		"another Machine of the Cluster": {APIGroup: clusterv1.GroupVersion.Group, Kind: "Machine", Name: "m"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := deletingState(func(s *state) {
				s.machine.Spec.InfrastructureRef, s.machine.Spec.Bootstrap.ConfigRef = ref, ref
				s.infra = observed[contract.InfraMachine]{}
			})
			recorded := events.NewFakeRecorder(10)
			for _, each := range []phase{bootstrap{contract: &contract.Reader{}, events: &recorder{recorded}}, infrastructure{contract: &contract.Reader{}, events: &recorder{recorded}}} {
				if result, err := each.run(t.Context(), s); err != nil || result.RequeueAfter != ownership.RetryPeriod {
					t.Errorf("result %v, error %v", result, err)
				}
			}
			setBootstrapConfigReady(s)
			setInfrastructureReady(s)
			for _, kind := range []string{clusterv1.MachineBootstrapConfigReadyCondition, clusterv1.MachineInfrastructureReadyCondition} {
				if got := conditions.Get(s.machine, kind); got.Reason != ownership.InvalidReferenceReason || !strings.Contains(got.Message, ref.Kind) {
					t.Errorf("%s is %+v", kind, got)
				}
			}
			if emitted := len(recorded.Events); emitted != 2 {
				t.Errorf("%d events", emitted)
			}
			deleter := deletion.New(deletion.Options{Clock: testingclock.NewFakePassiveClock(epoch)})
			s.node, s.machine.Status.NodeRef = observed[corev1.Node]{err: notFound}, clusterv1.MachineNodeReference{}
			if progress, err := deleter.Run(t.Context(), s.forDeletion(false)); !progress.Done || err != nil {
				t.Errorf("deletion is %+v, error %v", progress, err)
			}
		})
	}
}
