// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package machinepolicy

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/cluster-api/util/conditions"

	droverpolicyv1 "drover.io/api/policy/v1alpha1"
	"drover.io/machine-controller/internal/safety/policy"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// selecting makes a policy of that age, in hours, that selects a pool; "" is all.
func selecting(name, pool string, age int) droverpolicyv1.MachinePolicy {
	p := droverpolicyv1.MachinePolicy{ObjectMeta: metav1.ObjectMeta{
		Name: name, Generation: 3, CreationTimestamp: metav1.NewTime(noon.Add(-time.Duration(age) * time.Hour)),
	}}
	p.Spec.Selector = &droverpolicyv1.Selector{}
	if pool != "" {
		p.Spec.Selector.MatchLabels = map[string]droverpolicyv1.LabelText{"pool": droverpolicyv1.LabelText(pool)}
	}
	return p
}

func TestStatus(t *testing.T) {
	t.Parallel()
	cpu := owner{"MachineDeployment cpu", map[string]string{"pool": "cpu"}}
	gpu := owner{"MachineSet gpu", map[string]string{"pool": "gpu"}}
	broken := selecting("mine", "", 0)
	broken.Spec.Replacement.MaxPerCluster = new(intstr.FromString("many"))
	type status struct {
		Selected        int32
		Ready, Conflict string
		Messages        []string
	}
	tests := map[string]struct {
		mine   droverpolicyv1.MachinePolicy
		others []droverpolicyv1.MachinePolicy
		want   status
	}{
		"is in force": {mine: selecting("mine", "", 0), want: status{2, "True InForce", "False NoConflict", nil}},
		"selects nothing": {mine: selecting("mine", "arm", 0), want: status{0, "True NothingSelected", "False NoConflict", []string{
			"spec.selector selects no MachineDeployment, and no stand-alone MachineSet"}}},
		"gives way to an older one": {mine: selecting("mine", "", 1), others: []droverpolicyv1.MachinePolicy{selecting("old", "gpu", 2)}, want: status{
			2, "False Overridden", "True SelectedTwice", []string{
				"An older policy is in force for MachineSet gpu (old): narrow the selector of one of them",
				"Some objects are selected by this policy and by old; the oldest policy is in force for each"}}},
		"precedes a newer one": {mine: selecting("mine", "", 2), others: []droverpolicyv1.MachinePolicy{selecting("newer", "gpu", 1)}, want: status{
			2, "True InForce", "True SelectedTwice", []string{"Some objects are selected by this policy and by newer; the oldest policy is in force for each"}}},
		"has no conflict with one for others": {mine: selecting("mine", "cpu", 0), others: []droverpolicyv1.MachinePolicy{selecting("old", "gpu", 2)}, want: status{
			1, "True InForce", "False NoConflict", nil}},
		"cannot be read": {mine: broken, want: status{2, "False Invalid", "False NoConflict", []string{
			`MachinePolicy "mine", spec.replacement.maxPerCluster: "many" is neither a number nor a percentage such as "10%"`}}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			setStatus(&test.mine, (&policy.Selectors{}).Candidates(append(test.others, test.mine)), []owner{cpu, gpu})
			got := status{Selected: *test.mine.Status.Selected}
			for kind, to := range map[string]*string{droverpolicyv1.ReadyCondition: &got.Ready, droverpolicyv1.ConflictCondition: &got.Conflict} {
				condition := conditions.Get(&test.mine, kind)
				*to = string(condition.Status) + " " + condition.Reason
			}
			for _, kind := range []string{droverpolicyv1.ReadyCondition, droverpolicyv1.ConflictCondition} {
				if message := conditions.GetMessage(&test.mine, kind); message != "" {
					got.Messages = append(got.Messages, message)
				}
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("status (-want +got):\n%s", diff)
			}
			if test.mine.Status.ObservedGeneration != 3 {
				t.Errorf("observed generation is %d", test.mine.Status.ObservedGeneration)
			}
		})
	}
}
