// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package bootstrapconfig

import (
	"context"
	"runtime"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	bootstrapv1 "drover.io/api/bootstrap/v1alpha1"
)

// TestPatchesOfALargeSpecTakeLittleMemory: a BootstrapConfig is patched also where its spec is refused for its size. The test
// is not parallel because it counts what the process allocates.
func TestPatchesOfALargeSpecTakeLittleMemory(t *testing.T) {
	const most = 4 << 20
	config := &bootstrapv1.BootstrapConfig{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "m", ResourceVersion: "7", Finalizers: []string{"example.com/other"}}}
	config.Spec.Kubelet.Configuration = &kruntime.RawExtension{Raw: []byte(`{"x":[` + strings.Repeat("{},", 450_000) + `{}]}`)}
	config.Status.DataSecretName = "m"
	var sent []string
	record := func(object client.Object, patch client.Patch) error {
		data, err := patch.Data(object)
		sent = append(sent, string(data))
		return err
	}
	r := &Reconciler{Clock: clock.RealClock{}, Client: interceptor.NewClient(nil, interceptor.Funcs{
		Patch: func(_ context.Context, _ client.WithWatch, object client.Object, patch client.Patch, _ ...client.PatchOption) error {
			return record(object, patch)
		},
		SubResourcePatch: func(_ context.Context, _ client.Client, _ string, object client.Object, patch client.Patch, _ ...client.SubResourcePatchOption) error {
			return record(object, patch)
		},
	})}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	if err := r.writeStatus(t.Context(), config, &bootstrapv1.BootstrapConfigStatus{}); err != nil {
		t.Fatal(err)
	}
	if err := r.setFinalizer(t.Context(), config, true); err != nil {
		t.Fatal(err)
	}
	runtime.ReadMemStats(&after)
	if took := after.TotalAlloc - before.TotalAlloc; took > most {
		t.Errorf("%d KiB were allocated", took>>10)
	}
	want := []string{
		`{"status":{"dataSecretName":"m"}}`,
		`{"metadata":{"finalizers":["example.com/other","bootstrap.drover.io/token"],"resourceVersion":"7"}}`,
	}
	if strings.Join(sent, "\n") != strings.Join(want, "\n") {
		t.Errorf("patches are %q, want %q", sent, want)
	}
}
