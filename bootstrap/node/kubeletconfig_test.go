// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"errors"
	"runtime"
	"strings"
	"testing"

	kruntime "k8s.io/apimachinery/pkg/runtime"

	bootstrapv1 "drover.io/api/bootstrap/v1alpha1"
)

// TestLargeKubeletConfigurationIsRefusedInLittleMemory: the API server accepts any object there, up to the size of a whole
// BootstrapConfig. It is not parallel because it counts what the process allocates.
func TestLargeKubeletConfigurationIsRefusedInLittleMemory(t *testing.T) {
	const most = 16 << 20
	for name, element := range map[string]string{"objects": "{}", "arrays": "[]", "numbers": "0"} {
		for _, method := range []bootstrapv1.JoinMethod{bootstrapv1.JoinKubeletTLSBootstrap, bootstrapv1.JoinKubeadm} {
			in := minimal(bootstrapv1.Ubuntu)
			in.Spec.Join.Method = method
			raw := `{"x":[` + strings.Repeat(element+",", 1_400_000/(len(element)+1)) + element + `]}`
			in.Spec.Kubelet.Configuration = &kruntime.RawExtension{Raw: []byte(raw)}
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			_, err := Describe(in)
			runtime.ReadMemStats(&after)
			if invalid, is := errors.AsType[*InvalidError](err); !is || invalid.Field != "spec.kubelet.configuration" {
				t.Errorf("%s, %s: got %v, want a refusal of the field", name, method, err)
			}
			if took := after.TotalAlloc - before.TotalAlloc; took > most {
				t.Errorf("%s, %s: %d KiB were allocated", name, method, took>>10)
			}
		}
	}
}
