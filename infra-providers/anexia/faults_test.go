// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package anexia_test

import (
	"context"
	"net/http"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "drover.io/api/infrastructure/v1alpha1"
	"drover.io/infra-providers/anexia"
	"drover.io/infra-providers/anexia/anexiafake"
	"drover.io/infra-providers/driver"
	"drover.io/infra-providers/internal/faulttest"
)

// TestFaultInjection creates and deletes machines in an Engine whose tasks take time, whose lists and reads are behind and whose
// every request may fail, as may every write of the journal.
func TestFaultInjection(t *testing.T) {
	t.Parallel()
	faulttest.Run(t, shared.Cluster(t), func(t *testing.T, random *faulttest.Rand) faulttest.Environment[*infrav1.AnexiaMachine, anexia.InstanceConfig] {
		w := newEnv(t, anexiafake.Options{TaskReads: 8, ListDelay: 6, InfoDelay: 3, PageSize: 5, Faults: func(changes bool) (anexiafake.Fault, bool) {
			fault, ok := faults[random.Fault(changes)]
			return fault, ok
		}})
		described := w.description()
		connect := described.Connect
		described.Connect = func(ctx context.Context, account driver.Account, credentials driver.Credentials) (driver.Driver[anexia.InstanceConfig], error) {
			connected, err := connect(ctx, account, credentials)
			if err == nil {
				connected.(driver.Journaled).UseJournal(w.journal) // for the machines of others, which have no object; the reconciler sets its own
			}
			return connected, err
		}
		return faulttest.Environment[*infrav1.AnexiaMachine, anexia.InstanceConfig]{
			Cloud:  described,
			Secret: credentialsSecret(),
			Machine: func() *infrav1.AnexiaMachine {
				return &infrav1.AnexiaMachine{Spec: newSpec(func(s *infrav1.AnexiaMachineSpec) {
					allFields(s)
					s.CredentialsSecretName = "anexia"
				})}
			},
			Hooks: conformanceEnv(t, w, allFields),
			Pass: func(passed time.Duration) {
				w.clock.Advance(passed)
				w.cloud.Pass()
			},
		}
	})
}

var faults = map[faulttest.Fault]anexiafake.Fault{
	faulttest.Lost:      {},
	faulttest.Broken:    {Status: http.StatusServiceUnavailable, Foreign: true},
	faulttest.Throttled: {Status: http.StatusTooManyRequests},
}

func credentialsSecret() *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "anexia"}, Data: secret()}
}
