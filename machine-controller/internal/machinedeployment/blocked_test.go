// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package machinedeployment

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"drover.io/machine-controller/internal/contract"
	"drover.io/machine-controller/internal/expectation"
	"drover.io/machine-controller/internal/safety"
	"drover.io/machine-controller/internal/safety/policy"
	"drover.io/machine-controller/internal/testenv"
	"drover.io/machine-controller/internal/workload"
	"drover.io/runtime/expiring"
)

// definition is a template named "t" of a provider that is installed.
func definition(group, kind string) *unstructured.Unstructured {
	o := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"template": map[string]any{"spec": map[string]any{}}}}}
	o.SetAPIVersion(group + "/v1")
	o.SetKind(kind)
	o.SetName("t")
	return o
}

// TestMissingTemplateBlocksTheRollout changes a deployment to templates that do not exist yet: no MachineSet
// is created and none removes a Machine until both of them do, and the condition has the missing one.
func TestMissingTemplateBlocksTheRollout(t *testing.T) {
	t.Parallel()
	md := selecting()
	md.Spec.Template.Spec.InfrastructureRef = clusterv1.ContractVersionedObjectReference{APIGroup: "infrastructure.test.io", Kind: "ThingMachineTemplate", Name: "t"}
	md.Spec.Template.Spec.Bootstrap = clusterv1.Bootstrap{ConfigRef: clusterv1.ContractVersionedObjectReference{APIGroup: "bootstrap.test.io", Kind: "ThingConfigTemplate", Name: "t"}}
	md.Annotations[clusterv1.RevisionAnnotation] = "6"
	old := setOf(md, "old", "v1.36.1")
	old.Spec.Replicas = new(int32(3))
	r := reconcilerWith(t, interceptor.Funcs{}, testenv.Cluster(""), md, old)
	r.setUp()
	old.Status.Replicas = new(int32(3))
	if err := r.Client.Status().Update(t.Context(), old); err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct {
		create  *unstructured.Unstructured
		missing string
	}{
		{nil, `ThingMachineTemplate "t" does not exist`},
		{definition("infrastructure.test.io", "ThingMachineTemplate"), `ThingConfigTemplate "t" does not exist`},
		{definition("bootstrap.test.io", "ThingConfigTemplate"), ""},
	} {
		if step.create != nil {
			step.create.SetNamespace(md.Namespace)
			if err := r.Client.Create(t.Context(), step.create); err != nil {
				t.Fatal(err)
			}
		}
		r.get(t, md)
		result, err := r.Reconcile(t.Context(), md)
		if err != nil || (step.missing != "" && result.RequeueAfter == 0) {
			t.Fatal(result, err)
		}
		sets := r.resourceVersions(t, md.Namespace)
		message := conditions.GetMessage(md, clusterv1.MachineDeploymentRollingOutCondition)
		if (len(sets) == 1) != (step.missing != "") || !strings.Contains(message, step.missing) {
			t.Errorf("MachineSets %v, RollingOut is %q, want %q", sets, message, step.missing)
		}
		scaling := conditions.GetMessage(md, clusterv1.MachineDeploymentScalingUpCondition)
		if strings.Contains(scaling, "would be blocked") != (step.missing != "") || !strings.Contains(scaling, step.missing) {
			t.Errorf("ScalingUp is %q, want %q", scaling, step.missing)
		}
		want := stringMap{"revision": "6", "replicas": "3"}
		if step.missing == "" {
			want["revision"] = "7"
		}
		r.get(t, old)
		got := stringMap{"revision": md.Annotations[clusterv1.RevisionAnnotation], "replicas": string('0' + *old.Spec.Replicas)}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
	}
}

// setUp gives the reconciler everything that a Register would, with a workload cluster that answers.
func (r *Reconciler) setUp() {
	reach := safety.Reachability{Since: epoch.Add(-time.Hour)}
	r.Guard = &safety.Guard{
		Reader: r.Client, Default: policy.Default(), Period: time.Hour, Clock: r.Clock,
		Workload: func(client.ObjectKey) workload.State {
			return workload.State{Connected: true, Claim: workload.Claim{Status: workload.ClaimHeld}}
		},
		Management: func() safety.Reachability { return reach },
	}
	r.Templates = &contract.Templates{Resolver: &contract.Resolver{Reader: r.Client}, Live: r.Live}
	r.Events = events.NewFakeRecorder(100)
	r.tracker, r.writes = &expectation.Tracker{Clock: r.Clock}, &expectation.Writes{Clock: r.Clock}
	r.looks.Clock, r.steps = r.Clock, &expiring.Limiter[types.UID]{Clock: r.Clock, Period: 0}
	r.refused.Clock, r.refused.TTL = r.Clock, safety.RetryPeriod
}
