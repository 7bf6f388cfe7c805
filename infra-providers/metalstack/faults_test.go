// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package metalstack_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "drover.io/api/infrastructure/v1alpha1"
	"drover.io/infra-providers/internal/faulttest"
	"drover.io/infra-providers/metalstack"
	"drover.io/infra-providers/metalstack/metalstackfake"
)

// TestFaultInjection creates and deletes machines, in a metal-stack whose every request may fail, that has few machines and wipes
// each before it can be allocated again, so that hardware changes hands all the time. At times there is none of a size.
func TestFaultInjection(t *testing.T) {
	t.Parallel()
	faulttest.Run(t, shared.Cluster(t), func(t *testing.T, random *faulttest.Rand) faulttest.Environment[*infrav1.MetalStackMachine, metalstack.InstanceConfig] {
		w := newEnv(t, metalstackfake.Options{InstallDelay: 4, ReleaseDelay: 6, WipeDelay: 10, Machines: 16})
		transport := &faulttest.FaultyTransport{Rand: random, Next: http.DefaultTransport, Refuse: refuse, Changes: isChange}
		made := 0
		return faulttest.Environment[*infrav1.MetalStackMachine, metalstack.InstanceConfig]{
			Cloud:  w.description(transport),
			Secret: w.credentialsSecret(),
			Machine: func() *infrav1.MetalStackMachine {
				made++
				return &infrav1.MetalStackMachine{Spec: newSpec(func(s *infrav1.MetalStackMachineSpec) {
					if made%2 == 0 {
						allFields(s)
					}
					s.CredentialsSecretName = "metal"
					s.Fallbacks = []infrav1.MetalStackFallback{{Size: metalstackfake.BigSize}, {Partition: metalstackfake.PartitionB}}
				})}
			},
			Hooks: conformanceEnv(t, w, unchanged),
			Pass:  func(passed time.Duration) { w.clock.Advance(passed) },
		}
	})
}

// isChange reports whether a request changes something. Searches have a body and so are no GET.
func isChange(r *http.Request) bool {
	return r.Method != http.MethodGet && !slices.ContainsFunc([]string{"/find", "/capacity"}, func(end string) bool { return strings.HasSuffix(r.URL.Path, end) })
}

func refuse(fault faulttest.Fault) (status int, body string) {
	if fault == faulttest.Throttled {
		return http.StatusTooManyRequests, "<html>429 Too Many Requests</html>"
	}
	return http.StatusServiceUnavailable, "<html>503 Service Temporarily Unavailable</html>"
}

func (w env) credentialsSecret() *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "metal"}, Data: w.secret()}
}
