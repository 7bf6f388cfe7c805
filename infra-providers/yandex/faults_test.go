// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package yandex_test

import (
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	infrav1 "drover.io/api/infrastructure/v1alpha1"
	"drover.io/infra-providers/internal/faulttest"
	"drover.io/infra-providers/yandex"
	"drover.io/infra-providers/yandex/yandexfake"
)

// TestFaultInjection creates and deletes machines in a Yandex Cloud that lists late and whose every request may fail. At times
// its zone has no capacity; the other zone has.
func TestFaultInjection(t *testing.T) {
	t.Parallel()
	faulttest.Run(t, shared.Cluster(t), func(t *testing.T, random *faulttest.Rand) faulttest.Environment[*infrav1.YandexMachine, yandex.InstanceConfig] {
		w := newEnv(t, yandexfake.Options{OperationReads: 1, DeletingReads: 2, ListDelay: 1, Faults: func(method string) yandexfake.Fault {
			if method == "IamToken/Create" {
				return yandexfake.Fault{}
			}
			return faults[random.Fault(yandexfake.IsChange(method))]
		}})
		return faulttest.Environment[*infrav1.YandexMachine, yandex.InstanceConfig]{
			Cloud:   w.description(),
			Secret:  w.credentialsSecret(),
			Machine: func() *infrav1.YandexMachine { return &infrav1.YandexMachine{Spec: newSpec(withFallbacks)} },
			Hooks:   conformanceEnv(t, w),
			Pass: func(passed time.Duration) {
				w.clock.Advance(passed)
				w.cloud.Advance()
			},
		}
	})
}

func withFallbacks(s *infrav1.YandexMachineSpec) {
	withDisk(s)
	s.CredentialsSecretName = "yandex"
	s.Fallbacks = []infrav1.YandexFallback{{PlatformID: "standard-v2"}, {Zone: yandexfake.ZoneB}}
}

var faults = map[faulttest.Fault]yandexfake.Fault{
	faulttest.Lost:      {Lost: true},
	faulttest.Broken:    {Code: codes.Unavailable, Message: "no healthy upstream"},
	faulttest.Throttled: {Code: codes.ResourceExhausted, Message: "The limit of requests is exceeded", Details: []proto.Message{quotaFailure("compute.requests.rate")}},
}
