// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package kubevirt_test

import (
	"net/http"
	"strconv"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "drover.io/api/infrastructure/v1alpha1"
	"drover.io/infra-providers/driver"
	"drover.io/infra-providers/internal/faulttest"
	"drover.io/infra-providers/kubevirt"
)

// TestFaultInjection creates and deletes machines, every other with DataVolumes, while every request to the API server of the
// infrastructure cluster may fail, lose its answer or be throttled.
func TestFaultInjection(t *testing.T) {
	t.Parallel()
	faulttest.Run(t, shared.Cluster(t), func(t *testing.T, random *faulttest.Rand) faulttest.Environment[*infrav1.KubeVirtMachine, kubevirt.InstanceConfig] {
		e := newEnv(t)
		hooks := conformanceEnv(e, fullSpec())
		options := e.options()
		options.Transport = func(http.RoundTripper) http.RoundTripper {
			return &faulttest.FaultyTransport{
				Rand: random, Next: &faulty{wire: e.wire, next: e.server}, Refuse: refuse,
				Changes: func(r *http.Request) bool {
					return r.Method != http.MethodGet && !strings.HasSuffix(r.URL.Path, "reviews")
				},
			}
		}
		cloud := kubevirt.Cloud(options)
		cloud.Account = func(*infrav1.KubeVirtMachine) driver.Account { return driver.Account{Region: e.namespace} }
		made := 0
		return faulttest.Environment[*infrav1.KubeVirtMachine, kubevirt.InstanceConfig]{
			Cloud: cloud,
			Machine: func() *infrav1.KubeVirtMachine {
				spec := minimalSpec()
				if made++; made%2 == 0 {
					spec = fullSpec()
				}
				return &infrav1.KubeVirtMachine{Spec: spec}
			},
			Hooks: hooks,
		}
	})
}

func refuse(kind faulttest.Fault) (status int, body string) {
	status, reason := http.StatusInternalServerError, metav1.StatusReasonInternalError
	if kind == faulttest.Throttled {
		status, reason = http.StatusTooManyRequests, metav1.StatusReasonTooManyRequests
	}
	return status, `{"kind":"Status","apiVersion":"v1","status":"Failure","message":"refused","reason":"` + string(reason) + `","code":` + strconv.Itoa(status) + `}`
}
