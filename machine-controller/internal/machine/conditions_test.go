// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package machine

import (
	"errors"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"

	droverpolicyv1 "drover.io/api/policy/v1alpha1"
	"drover.io/machine-controller/internal/contract"
	"drover.io/machine-controller/internal/machine/deletion"
	"drover.io/machine-controller/internal/rollout/revision"
	"drover.io/runtime/requesterror"
)

var epoch = time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)

// reporting is a provider's object whose Ready condition has the given fields; none reports nothing.
func reporting(kind string, ready map[string]any) contract.Object {
	o := &unstructured.Unstructured{Object: map[string]any{"kind": kind}}
	if ready != nil {
		ready["type"] = "Ready"
		o.Object["status"] = map[string]any{"conditions": []any{map[string]any{"type": "Other", "status": "False"}, ready}}
	}
	return contract.Object{Unstructured: o, Contract: contract.V1Beta2}
}

type condition struct {
	Status          metav1.ConditionStatus
	Reason, Message string
}

func conditionOf(m *clusterv1.Machine, kind string) condition {
	c := conditions.Get(m, kind)
	if c == nil {
		return condition{}
	}
	return condition{c.Status, c.Reason, c.Message}
}

func TestProviderConditions(t *testing.T) {
	t.Parallel()
	boom := errors.New("boom")
	for name, test := range map[string]struct {
		ready          map[string]any
		absent         error
		done, deleting bool
		bootstrap      condition
		infra          condition
	}{
		"mirrors a good condition": {
			ready:     map[string]any{"status": "True", "reason": "AllGood", "message": "m"},
			bootstrap: condition{"True", "AllGood", "m"}, infra: condition{"True", "AllGood", "m"},
		},
		"mirrors a bad condition": {
			ready:     map[string]any{"status": "False", "reason": "QuotaExceeded", "message": "quota is used up"},
			bootstrap: condition{"False", "QuotaExceeded", "quota is used up"}, infra: condition{"False", "QuotaExceeded", "quota is used up"},
		},
		"shortens a long message": {
			ready:     map[string]any{"status": "False", "reason": "R", "message": strings.Repeat("x", 40_000)},
			bootstrap: condition{"False", "R", strings.Repeat("x", 512) + "…"}, infra: condition{"False", "R", strings.Repeat("x", 512) + "…"},
		},
		"mirrors an unknown condition": {
			ready:     map[string]any{"status": "Unknown", "reason": "CloudSilent"},
			bootstrap: condition{"Unknown", "CloudSilent", ""}, infra: condition{"Unknown", "CloudSilent", ""},
		},
		"finds a reason where the provider gives none": {
			ready:     map[string]any{"status": "False"},
			bootstrap: condition{"False", clusterv1.NotReadyReason, ""}, infra: condition{"False", clusterv1.NotReadyReason, ""},
		},
		"reports a status that does not exist": {
			ready:     map[string]any{"status": "Maybe"},
			bootstrap: condition{"Unknown", clusterv1.InvalidConditionReportedReason, `B reports the condition Ready with status "Maybe"`},
			infra:     condition{"Unknown", clusterv1.InvalidConditionReportedReason, `I reports the condition Ready with status "Maybe"`},
		},
		"reports what is awaited when the provider reports nothing": {
			bootstrap: condition{"False", clusterv1.NotReadyReason, "B status.initialization.dataSecretCreated is false"},
			infra:     condition{"False", clusterv1.NotReadyReason, "I status.initialization.provisioned is false"},
		},
		"is ready when the provider is done and reports nothing": {
			done:      true,
			bootstrap: condition{"True", clusterv1.ReadyReason, ""}, infra: condition{"True", clusterv1.ReadyReason, ""},
		},
		"reports that an object does not exist": {
			absent:    notFound,
			bootstrap: condition{"False", clusterv1.ObjectDoesNotExistReason, `B "b" does not exist`},
			infra:     condition{"False", clusterv1.ObjectDoesNotExistReason, `I "i" does not exist`},
		},
		"reports that infrastructure was deleted": {
			absent: notFound, done: true,
			bootstrap: condition{"False", clusterv1.ObjectDoesNotExistReason, `B "b" does not exist`},
			infra:     condition{"False", clusterv1.ObjectDeletedReason, `I "i" has been deleted`},
		},
		"reports that both were deleted with the machine": {
			absent: notFound, done: true, deleting: true,
			bootstrap: condition{"False", clusterv1.ObjectDeletedReason, `B "b" has been deleted`},
			infra:     condition{"False", clusterv1.ObjectDeletedReason, `I "i" has been deleted`},
		},
		"does not guess when reading failed": {
			absent: boom, done: true,
			bootstrap: condition{"Unknown", clusterv1.InternalErrorReason, "boom"}, infra: condition{"Unknown", clusterv1.InternalErrorReason, "boom"},
		},
		"names the CRD that is missing": {
			absent:    &contract.MissingLabelError{CRDName: "crd"},
			bootstrap: condition{"Unknown", clusterv1.InternalErrorReason, (&contract.MissingLabelError{CRDName: "crd"}).Error()},
			infra:     condition{"Unknown", clusterv1.InternalErrorReason, (&contract.MissingLabelError{CRDName: "crd"}).Error()},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := &clusterv1.Machine{}
			m.Spec.Bootstrap.ConfigRef = clusterv1.ContractVersionedObjectReference{APIGroup: "g", Kind: "B", Name: "b"}
			m.Spec.InfrastructureRef = clusterv1.ContractVersionedObjectReference{APIGroup: "g", Kind: "I", Name: "i"}
			if test.done {
				m.Status.Initialization.BootstrapDataSecretCreated = new(true)
				m.Status.Initialization.InfrastructureProvisioned = new(true)
			}
			if test.deleting {
				m.DeletionTimestamp = new(metav1.NewTime(epoch))
			}
			s := &state{machine: m}
			s.bootstrap.err, s.infra.err = test.absent, test.absent
			if test.absent == nil {
				s.bootstrap.object = &contract.BootstrapConfig{Object: reporting("B", test.ready)}
				s.infra.object = &contract.InfraMachine{Object: reporting("I", test.ready)}
			}
			setBootstrapConfigReady(s)
			setInfrastructureReady(s)
			if diff := cmp.Diff(test.bootstrap, conditionOf(m, clusterv1.MachineBootstrapConfigReadyCondition)); diff != "" {
				t.Errorf("bootstrap: %s", diff)
			}
			if diff := cmp.Diff(test.infra, conditionOf(m, clusterv1.MachineInfrastructureReadyCondition)); diff != "" {
				t.Errorf("infrastructure: %s", diff)
			}
		})
	}
}

func TestBootstrapDataOfTheUserIsReady(t *testing.T) {
	t.Parallel()
	m := &clusterv1.Machine{}
	setBootstrapConfigReady(&state{machine: m})
	want := condition{"True", clusterv1.MachineBootstrapDataSecretProvidedReason, ""}
	if diff := cmp.Diff(want, conditionOf(m, clusterv1.MachineBootstrapConfigReadyCondition)); diff != "" {
		t.Error(diff)
	}
}

// ready is a machine that has been ready since then.
func ready(since time.Time, status metav1.ConditionStatus) *clusterv1.Machine {
	m := &clusterv1.Machine{}
	m.Status.Conditions = []metav1.Condition{{Type: clusterv1.MachineReadyCondition, Status: status, Reason: "r", LastTransitionTime: metav1.NewTime(since)}}
	return m
}

func TestAvailable(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		status metav1.ConditionStatus
		since  time.Duration
		least  *int32
		want   condition
		after  time.Duration
	}{
		"is at once without minReadySeconds":  {"True", 0, nil, condition{"True", clusterv1.MachineAvailableReason, ""}, 0},
		"is at once with minReadySeconds 0":   {"True", 0, new(int32(0)), condition{"True", clusterv1.MachineAvailableReason, ""}, 0},
		"waits for the rest of the time":      {"True", 4 * time.Second, new(int32(10)), condition{"False", clusterv1.MachineWaitingForMinReadySecondsReason, ""}, 6 * time.Second},
		"is when the time is over":            {"True", 10 * time.Second, new(int32(10)), condition{"True", clusterv1.MachineAvailableReason, ""}, 0},
		"is not while the machine is unready": {"False", time.Hour, new(int32(10)), condition{"False", clusterv1.MachineNotReadyReason, ""}, 0},
		"is not while readiness is unknown":   {"Unknown", time.Hour, nil, condition{"False", clusterv1.MachineNotReadyReason, ""}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := ready(epoch.Add(-test.since), test.status)
			m.Spec.MinReadySeconds = test.least
			result := setAvailable(m, epoch)
			if diff := cmp.Diff(test.want, conditionOf(m, clusterv1.MachineAvailableCondition)); diff != "" {
				t.Error(diff)
			}
			if result.RequeueAfter != test.after {
				t.Errorf("looks again after %s, want %s", result.RequeueAfter, test.after)
			}
		})
	}
}

// healthy has every condition that readiness is made of.
func healthy() *clusterv1.Machine {
	m := &clusterv1.Machine{}
	for kind, status := range map[string]metav1.ConditionStatus{
		clusterv1.MachineDeletingCondition: "False", clusterv1.MachineUpdatingCondition: "False", clusterv1.MachineBootstrapConfigReadyCondition: "True",
		clusterv1.MachineInfrastructureReadyCondition: "True", clusterv1.MachineNodeHealthyCondition: "True",
	} {
		conditions.Set(m, metav1.Condition{Type: kind, Status: status, Reason: "r"})
	}
	return m
}

func TestReady(t *testing.T) {
	t.Parallel()
	set := func(kind string, status metav1.ConditionStatus, reason string) func(*clusterv1.Machine) {
		return func(m *clusterv1.Machine) {
			conditions.Set(m, metav1.Condition{Type: kind, Status: status, Reason: reason, Message: "because"})
		}
	}
	for name, test := range map[string]struct {
		changes []func(*clusterv1.Machine)
		status  metav1.ConditionStatus
		reason  string
	}{
		"is when all parts are": {nil, "True", clusterv1.MachineReadyReason},
		"is not without a healthy Node": {
			[]func(*clusterv1.Machine){set(clusterv1.MachineNodeHealthyCondition, "False", "x")}, "False", clusterv1.MachineNotReadyReason,
		},
		"is unknown when a part is": {
			[]func(*clusterv1.Machine){set(clusterv1.MachineNodeHealthyCondition, "Unknown", "x")}, "Unknown", clusterv1.MachineReadyUnknownReason,
		},
		"is not when a health check fails": {
			[]func(*clusterv1.Machine){set(clusterv1.MachineHealthCheckSucceededCondition, "False", "x")}, "False", clusterv1.MachineNotReadyReason,
		},
		"waits for a readiness gate that is not reported": {
			[]func(*clusterv1.Machine){func(m *clusterv1.Machine) {
				m.Spec.ReadinessGates = []clusterv1.MachineReadinessGate{{ConditionType: "Gate"}}
			}}, "Unknown", clusterv1.MachineReadyUnknownReason,
		},
		"passes an open readiness gate": {
			[]func(*clusterv1.Machine){func(m *clusterv1.Machine) {
				m.Spec.ReadinessGates = []clusterv1.MachineReadinessGate{{ConditionType: "Gate"}}
			}, set("Gate", "True", "open")}, "True", clusterv1.MachineReadyReason,
		},
		"passes a negative gate that is false": {
			[]func(*clusterv1.Machine){func(m *clusterv1.Machine) {
				m.Spec.ReadinessGates = []clusterv1.MachineReadinessGate{{ConditionType: "Gate", Polarity: clusterv1.NegativePolarityCondition}}
			}, set("Gate", "False", "open")}, "True", clusterv1.MachineReadyReason,
		},
		"is stopped by a negative gate that is true": {
			[]func(*clusterv1.Machine){func(m *clusterv1.Machine) {
				m.Spec.ReadinessGates = []clusterv1.MachineReadinessGate{{ConditionType: "Gate", Polarity: clusterv1.NegativePolarityCondition}}
			}, set("Gate", "True", "closed")}, "False", clusterv1.MachineNotReadyReason,
		},
		"is not while no pod can be scheduled to its Node": {
			[]func(*clusterv1.Machine){set(droverpolicyv1.NodeSyncedCondition, "False", droverpolicyv1.NodeInitializationRefusedReason)}, "False", clusterv1.MachineNotReadyReason,
		},
		"is when the Node has outdated labels": {
			[]func(*clusterv1.Machine){set(droverpolicyv1.NodeSyncedCondition, "False", droverpolicyv1.NodeSyncRefusedReason)}, "True", clusterv1.MachineReadyReason,
		},
		"is not while deleting": {
			[]func(*clusterv1.Machine){func(m *clusterv1.Machine) { m.DeletionTimestamp = new(metav1.NewTime(epoch)) },
				set(clusterv1.MachineDeletingCondition, "True", clusterv1.MachineDeletingDrainingNodeReason)}, "False", clusterv1.MachineNotReadyReason,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := healthy()
			for _, change := range test.changes {
				change(m)
			}
			setReady(m, epoch)
			if got := conditionOf(m, clusterv1.MachineReadyCondition); got.Status != test.status || got.Reason != test.reason {
				t.Errorf("got %+v", got)
			}
		})
	}
}

// TestNodeSynced has what the workload cluster answers to the labels, annotations and taints of a Node.
func TestNodeSynced(t *testing.T) {
	t.Parallel()
	nodes := schema.GroupResource{Resource: "nodes"}
	refused := apierrors.NewForbidden(nodes, "n", errors.New("no"))
	before := metav1.Condition{Type: droverpolicyv1.NodeSyncedCondition, Status: metav1.ConditionFalse, Reason: droverpolicyv1.NodeSyncRefusedReason, Message: "before"}
	for name, test := range map[string]struct {
		taint           *corev1.Taint
		err             error
		reason, message string
	}{
		"accepts them":                        {nil, nil, "", ""},
		"refuses them":                        {nil, refused, droverpolicyv1.NodeSyncRefusedReason, refused.Error()},
		"refuses the first":                   {&clusterv1.NodeUninitializedTaint, refused, droverpolicyv1.NodeInitializationRefusedReason, refused.Error()},
		"refuses them at a Node with a taint": {&corev1.Taint{Key: "x", Effect: corev1.TaintEffectNoSchedule}, refused, droverpolicyv1.NodeSyncRefusedReason, refused.Error()},
		"has a newer Node":                    {nil, apierrors.NewConflict(nodes, "n", errors.New("old")), before.Reason, before.Message},
		"does not answer":                     {nil, &url.Error{Op: "Patch", URL: "https://a", Err: errors.New("EOF")}, before.Reason, before.Message},
		"has a newer Node than the first":     {&clusterv1.NodeUninitializedTaint, apierrors.NewConflict(nodes, "n", errors.New("old")), before.Reason, before.Message},
		"cannot answer now":                   {nil, apierrors.NewTooManyRequests("later", 1), before.Reason, before.Message},
		"cannot answer the first now":         {&clusterv1.NodeUninitializedTaint, apierrors.NewTooManyRequests("later", 1), droverpolicyv1.NodeInitializationRefusedReason, "later"},
		"does not answer the first":           {&clusterv1.NodeUninitializedTaint, &url.Error{Op: "Patch", URL: "https://a", Err: errors.New("EOF")}, droverpolicyv1.NodeInitializationRefusedReason, "EOF"},
		"has a webhook that fails": {&clusterv1.NodeUninitializedTaint, apierrors.NewInternalError(errors.New(`failed calling webhook "a"`)),
			droverpolicyv1.NodeInitializationRefusedReason, `Internal error occurred: failed calling webhook "a"`},
		"refuses them with a text without end": {nil, apierrors.NewBadRequest(strings.Repeat("x", 40_000)), droverpolicyv1.NodeSyncRefusedReason, strings.Repeat("x", requesterror.MaxMessage) + "…"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m, n := &clusterv1.Machine{}, &corev1.Node{}
			conditions.Set(m, before)
			if test.taint != nil {
				n.Spec.Taints = []corev1.Taint{*test.taint}
			}
			setNodeSynced(m, n, test.err)
			if got := conditions.Get(m, droverpolicyv1.NodeSyncedCondition); test.reason == "" && got != nil || test.reason != "" && (got == nil || got.Reason != test.reason || got.Message != test.message) {
				t.Errorf("got %+v", got)
			}
		})
	}
}

// TestNodeSyncedIsStable has a webhook that is called from another port each time.
func TestNodeSyncedIsStable(t *testing.T) {
	t.Parallel()
	m, n := &clusterv1.Machine{}, &corev1.Node{Spec: corev1.NodeSpec{Taints: []corev1.Taint{clusterv1.NodeUninitializedTaint}}}
	for _, each := range []struct{ text, want string }{
		{"read tcp 10.0.0.1:40001->10.0.0.2:443: reset", "read tcp 10.0.0.1:40001->10.0.0.2:443: reset"},
		{"read tcp 10.0.0.1:40002->10.0.0.2:443: reset", "read tcp 10.0.0.1:40001->10.0.0.2:443: reset"},
		{"no endpoints", "no endpoints"},
	} {
		setNodeSynced(m, n, apierrors.NewInternalError(errors.New(each.text)))
		if got := conditions.GetMessage(m, droverpolicyv1.NodeSyncedCondition); got != "Internal error occurred: "+each.want {
			t.Errorf("got %q, want %q", got, each.want)
		}
	}
	n.Spec.Taints = nil // another client has removed it
	setNodeSynced(m, n, apierrors.NewInternalError(errors.New("no endpoints")))
	if conditions.Has(m, droverpolicyv1.NodeSyncedCondition) {
		t.Error("the condition is that of a taint that is not there")
	}
}

// TestNoNodeRefusesAnything removes the condition with the Node.
func TestNoNodeRefusesAnything(t *testing.T) {
	t.Parallel()
	m := &clusterv1.Machine{}
	conditions.Set(m, metav1.Condition{Type: droverpolicyv1.NodeSyncedCondition, Status: metav1.ConditionFalse, Reason: droverpolicyv1.NodeSyncRefusedReason})
	(&Reconciler{}).setNodeConditions(&state{machine: m, cluster: &clusterv1.Cluster{}, node: observed[corev1.Node]{err: notFound}}, epoch)
	if conditions.Has(m, droverpolicyv1.NodeSyncedCondition) {
		t.Error("the condition is still there")
	}
}

func TestReadySummarizesADeletion(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		age  time.Duration
		want string
	}{
		"at first":     {time.Minute, "* Deleting: Machine deletion in progress, stage: DrainingNode"},
		"after longer": {16 * time.Minute, "* Deleting: Machine deletion in progress for more than 15m, stage: DrainingNode"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := healthy()
			m.DeletionTimestamp = new(metav1.NewTime(epoch.Add(-test.age)))
			s := &state{machine: m, deletion: deletion.Progress{Reason: clusterv1.MachineDeletingDrainingNodeReason, Message: "pod-1 is in the way"}}
			setDeleting(s)
			setInfrastructureReady(&state{machine: m, infra: observed[contract.InfraMachine]{err: notFound}}) // unremarkable now
			setReady(m, epoch)
			if got := conditionOf(m, clusterv1.MachineDeletingCondition); got.Message != "pod-1 is in the way" {
				t.Errorf("the message of Deleting is %q", got.Message)
			}
			got := conditionOf(m, clusterv1.MachineReadyCondition)
			if !strings.HasPrefix(got.Message, test.want) || strings.Contains(got.Message, "pod-1") || got.Status != "False" {
				t.Errorf("Ready is %+v", got)
			}
		})
	}
}

func TestUpToDate(t *testing.T) {
	t.Parallel()
	template := func(version string) clusterv1.MachineTemplateSpec {
		return clusterv1.MachineTemplateSpec{Spec: clusterv1.MachineSpec{Version: version}}
	}
	born := metav1.NewTime(epoch.Add(-time.Hour))
	for name, test := range map[string]struct {
		version string
		after   time.Time
		want    condition
	}{
		"is with the template of the MachineDeployment": {"v1.2.3", time.Time{}, condition{"True", clusterv1.MachineUpToDateReason, ""}},
		"is not with another, and reports what differs": {"v1.2.2", time.Time{}, condition{"False", clusterv1.MachineNotUpToDateReason, `* spec.version is "v1.2.2", want "v1.2.3"`}},
		"is not when a forced rollout has begun":        {"v1.2.3", epoch, condition{"False", clusterv1.MachineNotUpToDateReason, "* MachineDeployment spec.rollout.after has passed"}},
		"is while a forced rollout has not begun":       {"v1.2.3", epoch.Add(time.Second), condition{"True", clusterv1.MachineUpToDateReason, ""}},
		"is when created after the forced rollout":      {"v1.2.3", epoch.Add(-2 * time.Hour), condition{"True", clusterv1.MachineUpToDateReason, ""}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := &state{machine: &clusterv1.Machine{}, set: &clusterv1.MachineSet{}, deployment: &clusterv1.MachineDeployment{}}
			s.set.CreationTimestamp, s.set.Spec.Template = born, template(test.version)
			s.deployment.Spec.Template = template("v1.2.3")
			if !test.after.IsZero() {
				s.deployment.Spec.Rollout.After = metav1.NewTime(test.after)
			}
			setUpToDate(s, epoch)
			if diff := cmp.Diff(test.want, conditionOf(s.machine, clusterv1.MachineUpToDateCondition)); diff != "" {
				t.Error(diff)
			}
		})
	}
	// The clock that stamps creations is an hour behind: the set's name was made for the rollout.
	behind := &state{machine: &clusterv1.Machine{}, set: &clusterv1.MachineSet{}, deployment: &clusterv1.MachineDeployment{}}
	behind.deployment.Spec.Rollout.After = metav1.NewTime(epoch)
	behind.set.CreationTimestamp = born
	behind.set.Labels = map[string]string{clusterv1.MachineDeploymentUniqueLabel: revision.NewMachineSetName(behind.deployment, epoch, 1).Hash}
	setUpToDate(behind, epoch)
	if diff := cmp.Diff(condition{"True", clusterv1.MachineUpToDateReason, ""}, conditionOf(behind.machine, clusterv1.MachineUpToDateCondition)); diff != "" {
		t.Errorf("a set created for the rollout: %s", diff)
	}
	alone := &state{machine: &clusterv1.Machine{}}
	setUpToDate(alone, epoch)
	if diff := cmp.Diff([]metav1.Condition(nil), alone.machine.Status.Conditions, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("a stand-alone machine: %s", diff)
	}
}
