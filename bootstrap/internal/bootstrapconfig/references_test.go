// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package bootstrapconfig

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	bootstrapv1 "drover.io/api/bootstrap/v1alpha1"
	"drover.io/bootstrap/internal/render"
)

// TestReferencedSecretsAreReadOnce, and no more of them than may be in the data.
func TestReferencedSecretsAreReadOnce(t *testing.T) {
	t.Parallel()
	config := &bootstrapv1.BootstrapConfig{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "c"}}
	builder := fake.NewClientBuilder()
	for i := range 8 {
		name := fmt.Sprint("s", i)
		builder.WithObjects(&corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: name},
			Data:       map[string][]byte{"large": make([]byte, render.MaxContent/4), "small": []byte(name)},
		})
		for _, key := range []string{"small", "large", "large"} {
			config.Spec.Files = append(config.Spec.Files, bootstrapv1.File{ContentFrom: bootstrapv1.SecretKeyReference{Name: name, Key: key}})
		}
	}
	reads := 0
	live := builder.WithInterceptorFuncs(interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, into client.Object, options ...client.GetOption) error {
			reads++
			return c.Get(ctx, key, into, options...)
		},
	}).Build()
	d := &data{reconciler: &Reconciler{Live: live}}
	_, err := d.references(t.Context(), &state{config: config, spec: &config.Spec})
	if unmet, is := errors.AsType[*waiting](err); !is || !unmet.wrong || !strings.Contains(unmet.message, "spec.files[10].contentFrom") {
		t.Errorf("err = %v", err)
	}
	if reads != 4 {
		t.Errorf("%d Secrets were read", reads)
	}
	reads, config.Spec.Files = 0, config.Spec.Files[:3]
	values, err := d.references(t.Context(), &state{config: config, spec: &config.Spec})
	if err != nil || len(values) != 2 || string(values[config.Spec.Files[0].ContentFrom]) != "s0" {
		t.Errorf("got %d values, %v", len(values), err)
	}
	if reads != 1 {
		t.Errorf("one Secret was read %d times", reads)
	}
}
