// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package why

import (
	"strings"
	"testing"
	"time"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	infrav1 "drover.io/api/infrastructure/v1alpha1"
	droverpolicyv1 "drover.io/api/policy/v1alpha1"
	"drover.io/api/reason"
	"drover.io/kubectl-drover/internal/object"
	"drover.io/kubectl-drover/internal/object/objecttest"
)

// TestOverdueScaleUpKeepsTheAdvice of its Machine, as before it was overdue: nothing is there to roll back to.
func TestOverdueScaleUpKeepsTheAdvice(t *testing.T) {
	t.Parallel()
	const describe = "kubectl drover describe machinedeployment/md --namespace n"
	booting := failingIn("md", "a", infrav1.InstancePendingReason)
	booting.Status.Conditions[0].LastTransitionTime = ago(11 * time.Minute)
	for name, test := range map[string]struct {
		machine *clusterv1.Machine
		actor   reason.Actor
		help    string
		command string
	}{
		"of one without quota":          {failingIn("md", "a", infrav1.QuotaExceededReason), reason.CloudOwner, "raise the quota, or scale down", describe},
		"of one whose instance is gone": {failingIn("md", "a", infrav1.InstanceMissingReason), reason.Operator, "delete the Machine", "kubectl delete machine.cluster.x-k8s.io a --namespace n"},
		"of a Node without providerID":  {ofDeployment(joining()), reason.Operator, "install the cloud controller manager", "kubectl annotate cluster.cluster.x-k8s.io c --namespace n drover.io/assign-provider-ids=true"},
		"but not where Drover goes on":  {booting, reason.Operator, "see what is awaited, and correct it", describe},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			md := deployment(is(droverpolicyv1.ProgressingCondition, "False", droverpolicyv1.ProgressDeadlineExceededReason, "No progress for 10m"),
				is(clusterv1.MachineDeploymentRollingOutCondition, "False", clusterv1.MachineDeploymentNotRollingOutReason, ""))
			f := finder(t, objecttest.Reader(t, interceptor.Funcs{}, nodeNamed("m", "")), md, test.machine, host(infrav1.KubeletNotJoinedReason), cluster())
			for kind, name := range map[*object.Kind]string{&object.MachineDeployment: "md", &object.Cluster: "c"} {
				answer, err := f.Answer(t.Context(), *kind, key(name))
				found := answer.Finding
				if err != nil || found == nil || found.Condition.Type != droverpolicyv1.ProgressingCondition || found.Actor != test.actor ||
					!strings.HasPrefix(found.Help, test.help) || found.Command != test.command {
					t.Errorf("%s: got %+v, error %v", kind.Kind, found, err)
				}
			}
		})
	}
}

// TestUndoOfADeletionBesideAHost is not offered: it ends neither.
func TestUndoOfADeletionBesideAHost(t *testing.T) {
	t.Parallel()
	md := deployment(is(droverpolicyv1.ProgressingCondition, "False", droverpolicyv1.ProgressDeadlineExceededReason, ""),
		is(clusterv1.MachineDeploymentRollingOutCondition, "True", clusterv1.MachineDeploymentRollingOutReason, ""))
	booting := failingIn("md", "b", infrav1.InstancePendingReason)
	booting.Status.Conditions[0].LastTransitionTime = ago(11 * time.Minute)
	ends := deletedIn("md", "a", clusterv1.MachineDeletingWaitingForInfrastructureDeletionReason, "")
	answer, err := finder(t, nil, md, ends, booting, cluster()).Answer(t.Context(), object.MachineDeployment, key("md"))
	if err != nil || answer.Finding == nil || answer.Finding.Command != "kubectl drover describe machinedeployment/md --namespace n" {
		t.Errorf("got %+v, error %v", answer.Finding, err)
	}
}
