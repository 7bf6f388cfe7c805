// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package machinehealthcheck

import (
	"fmt"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"drover.io/machine-controller/internal/testenv"
)

// TestCostOfATargetIsThatOfOne evaluates the Machines of one MachineDeployment, as many as it may have: the places of their
// budget are counted once. It takes some 100 ms; counted for each Machine, they take minutes.
func TestCostOfATargetIsThatOfOne(t *testing.T) {
	t.Parallel()
	s := &state{
		check: &clusterv1.MachineHealthCheck{}, cluster: testenv.Cluster("ns"), groups: map[string]*group{"MachineDeployment md": {limit: 1}}, groupOf: map[types.UID]string{},
	}
	for i := range 10_000 {
		m := testenv.Machine("ns", fmt.Sprint("m", i))
		m.UID = types.UID(m.Name)
		s.targets, s.groupOf[m.UID] = append(s.targets, m), "MachineDeployment md"
	}
	s.groups["MachineDeployment md"].machines = s.targets
	began := time.Now()
	if _, err := (evaluation{clocktesting.NewFakePassiveClock(began)}).run(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("it took %s", took)
	}
}
