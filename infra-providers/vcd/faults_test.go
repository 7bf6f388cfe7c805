// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package vcd_test

import (
	"net/http"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "drover.io/api/infrastructure/v1alpha1"
	"drover.io/infra-providers/internal/faulttest"
	"drover.io/infra-providers/vcd"
	"drover.io/infra-providers/vcd/vcdfake"
)

// TestFaultInjection creates and deletes machines in a Cloud Director whose every request and task may fail, and whose vApp is busy
// with one of them at a time.
func TestFaultInjection(t *testing.T) {
	t.Parallel()
	faulttest.Run(t, shared.Cluster(t), func(t *testing.T, random *faulttest.Rand) faulttest.Environment[*infrav1.VCDMachine, vcd.InstanceConfig] {
		w := newEnv(t, vcdfake.Options{
			TaskRequests: 5, LateChildren: true, KeepFailed: true,
			Faults:    func(change bool) vcdfake.Fault { return faults[random.Fault(change)] },
			FailTasks: func(string) bool { return random.Fault(true) == faulttest.Broken },
		})
		return faulttest.Environment[*infrav1.VCDMachine, vcd.InstanceConfig]{
			Cloud:  w.description(),
			Secret: w.credentialsSecret(),
			Machine: func() *infrav1.VCDMachine {
				return &infrav1.VCDMachine{Spec: newSpec(func(s *infrav1.VCDMachineSpec) { s.CredentialsSecretName = "vcd" })}
			},
			Hooks: conformanceEnv(t, w),
			Pass: func(passed time.Duration) {
				w.clock.Advance(passed)
				w.cloud.Advance()
			},
		}
	})
}

func (w env) credentialsSecret() *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "vcd"}, Data: w.secret()}
}

var faults = map[faulttest.Fault]vcdfake.Fault{
	faulttest.Lost:      {Lost: true},
	faulttest.Broken:    {Status: http.StatusServiceUnavailable, Code: "INTERNAL_SERVER_ERROR", Message: "The cell is starting."},
	faulttest.Throttled: throttled,
}
