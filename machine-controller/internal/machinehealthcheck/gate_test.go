// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package machinehealthcheck

import (
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	droverpolicyv1 "drover.io/api/policy/v1alpha1"
	"drover.io/machine-controller/internal/health"
	"drover.io/machine-controller/internal/index/indextest"
	"drover.io/machine-controller/internal/safety"
	"drover.io/machine-controller/internal/safety/policy"
	"drover.io/machine-controller/internal/testenv"
	"drover.io/machine-controller/internal/workload"
)

// TestExternalRemediationPassesTheGate hands two Machines over to a controller outside: one of a
// MachineSet of ten, and one that something else controls.
func TestExternalRemediationPassesTheGate(t *testing.T) {
	t.Parallel()
	connected := workload.State{Connected: true, Claim: workload.Claim{Status: workload.ClaimHeld}}
	for name, test := range map[string]struct {
		freeze string
		state  workload.State
		change func(s *state)
		want   []string
	}{
		"it admits both":          {state: connected, want: []string{"m-0", "other"}},
		"it holds what is frozen": {freeze: "true", state: connected, want: []string{"other"}},
		"it holds everything while the cluster does not answer": {},
		"it holds everything after one probe without an answer": {state: workload.State{Connected: true, Claim: workload.Claim{Status: workload.ClaimHeld}, ConsecutiveFailures: 1}},
		"it keeps what is handed over": {freeze: "true", change: func(s *state) {
			for _, m := range s.targets {
				setWaitingForExternal(m)
			}
		}, want: []string{"m-0", "other"}},
		"it does not check what the owner replaces": {freeze: "true", change: func(s *state) {
			s.check.Spec.Remediation.TemplateRef = clusterv1.MachineHealthCheckRemediationTemplateReference{}
		}, want: []string{"m-0", "other"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			api, namespace := indextest.NewClient(t, management.Client(t)), management.Namespace(t)
			set := &clusterv1.MachineSet{ObjectMeta: metav1.ObjectMeta{Name: "set"}}
			if test.freeze != "" {
				set.Annotations = map[string]string{droverpolicyv1.FreezeAnnotation: test.freeze}
			}
			set.Spec.ClusterName, set.Spec.Replicas, set.Spec.Template.Spec = "c", new(int32(10)), testenv.TemplateSpec()
			indextest.Create(t, api, namespace, set)
			s := &state{check: newCheck(namespace, "check"), cluster: &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "c"}}}
			s.check.Spec.Remediation.TemplateRef = clusterv1.MachineHealthCheckRemediationTemplateReference{APIVersion: "mend.test/v1", Kind: "MendRemediationTemplate", Name: "reboot"}
			s.cluster.Status.Initialization.ControlPlaneInitialized = new(true)
			s.sets = map[types.UID]*clusterv1.MachineSet{set.UID: set}
			var objects []client.Object
			s.decision = health.Decision{Remediate: map[string]bool{"m-0": true, "other": true}, Held: map[string]health.WaitReason{}}
			for _, name := range []string{"m-0", "m-1", "m-2", "m-3", "m-4", "m-5", "m-6", "m-7", "m-8", "m-9", "other"} {
				m := testenv.Machine(namespace, name)
				m.Status.NodeRef.Name = name
				if name != "other" {
					m.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(set, clusterv1.GroupVersion.WithKind("MachineSet"))}
				}
				if s.decision.Remediate[name] {
					conditions.Set(m, metav1.Condition{Type: clusterv1.MachineHealthCheckSucceededCondition, Status: metav1.ConditionFalse, Reason: "x"})
					s.targets = append(s.targets, m)
				}
				objects = append(objects, m)
			}
			if test.change != nil {
				test.change(s)
			}
			indextest.Create(t, api, namespace, objects...)
			result, err := (admission{newGuard(api, test.state)}).run(t.Context(), s)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, slices.Sorted(maps.Keys(s.decision.Remediate))); diff != "" {
				t.Errorf("handed over (-want +got):\n%s", diff)
			}
			if held := len(s.decision.Held); held+len(test.want) != 2 || (held > 0) != (result.RequeueAfter > 0) {
				t.Errorf("held are %v, to be looked at after %s", s.decision.Held, result.RequeueAfter)
			}
		})
	}
}

func newGuard(reader client.Reader, state workload.State) *safety.Guard {
	now := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	return &safety.Guard{
		Reader: reader, Workload: func(client.ObjectKey) workload.State { return state },
		Management: func() safety.Reachability { return safety.Reachability{Since: now} },
		Default:    policy.Default(), Clock: clocktesting.NewFakePassiveClock(now),
	}
}
