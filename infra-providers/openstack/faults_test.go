// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package openstack_test

import (
	"net/http"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "drover.io/api/infrastructure/v1alpha1"
	"drover.io/infra-providers/driver/drivertest"
	"drover.io/infra-providers/internal/faulttest"
	"drover.io/infra-providers/openstack"
	"drover.io/infra-providers/openstack/openstackfake"
)

// TestFaultInjection creates and deletes machines with ports, volumes, floating IPs and a server group, while every request
// may fail. At times their zone has no capacity; another has.
func TestFaultInjection(t *testing.T) {
	t.Parallel()
	faulttest.Run(t, shared.Cluster(t), func(t *testing.T, random *faulttest.Rand) faulttest.Environment[*infrav1.OpenStackMachine, openstack.InstanceConfig] {
		spec := fullSpec()
		spec.CredentialsSecretName = "cloud"
		spec.RootVolume = infrav1.OpenStackVolume{SizeGiB: 20}
		spec.AvailabilityZone = "nova"
		spec.Fallbacks = []infrav1.OpenStackFallback{{AvailabilityZone: "zone-b"}}
		r := newEnv(t)
		now := time.Now()
		transport := &faulttest.FaultyTransport{Rand: random, Next: r.faults, Changes: openstackfake.Changes, Refuse: refuse}
		return faulttest.Environment[*infrav1.OpenStackMachine, openstack.InstanceConfig]{
			Cloud:   openstack.Cloud(openstack.Options{Transport: transport, Clock: drivertest.ClockFunc(func() time.Time { return now })}),
			Secret:  &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "cloud"}, Data: r.secret},
			Machine: func() *infrav1.OpenStackMachine { return &infrav1.OpenStackMachine{Spec: spec} },
			Hooks:   conformanceEnv(t, r, spec),
			Pass:    func(passed time.Duration) { now = now.Add(passed) },
		}
	})
}

func refuse(fault faulttest.Fault) (status int, body string) {
	if fault == faulttest.Throttled {
		return http.StatusTooManyRequests, `{"overLimit": {"code": 429, "message": "This request was rate-limited."}}`
	}
	return http.StatusInternalServerError, `{"computeFault": {"code": 500, "message": "The server has either erred or is incapable of performing the requested operation."}}`
}
