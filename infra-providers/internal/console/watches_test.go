// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package console

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "drover.io/api/infrastructure/v1alpha1"
	"drover.io/infra-providers/internal/machinestatus"
)

// TestJoinedThatIsOverwrittenIsWrittenAgain: the reconciler of the machine writes all conditions, those of a stale cache too,
// and once the Machine has its Node no other event follows.
func TestJoinedThatIsOverwrittenIsWrittenAgain(t *testing.T) {
	t.Parallel()
	late, joined := &infrav1.SimMachine{}, &infrav1.SimMachine{}
	machinestatus.SetHostJoined(late, metav1.ConditionFalse, infrav1.BootstrapRunningReason, "")
	machinestatus.SetHostJoined(joined, metav1.ConditionTrue, infrav1.JoinedReason, "")
	if inputsOf(joined) == inputsOf(late) {
		t.Error("the change from true to false causes no reconcile")
	}
	if inputsOf(&infrav1.SimMachine{}) != inputsOf(late) {
		t.Error("an explanation causes a reconcile, and another read of the console")
	}
}
