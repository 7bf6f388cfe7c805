// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"drover.io/runtime/envtest"
)

// TestServersLeaveNothingInMetrics: the author of a kubeconfig changes its server again and again. client-go counts requests
// by host, and what it has counted stays for ever.
func TestServersLeaveNothingInMetrics(t *testing.T) {
	t.Parallel()
	server, _ := serve(t, answerJSON(`{}`))
	const changes, length = 10, 60
	for i := range changes {
		host := fmt.Sprintf("https://h%d.%s.invalid:6443", i, strings.Repeat("a", length))
		content, err := envtest.Kubeconfig(&rest.Config{Host: host, BearerToken: "t", TLSClientConfig: rest.TLSClientConfig{CAData: certificate(server)}})
		if err != nil {
			t.Fatal(err)
		}
		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "c-kubeconfig", UID: types.UID(fmt.Sprint(i))}, Data: map[string][]byte{"value": content}}
		connections := NewConnections(fake.NewClientBuilder().WithObjects(secret).Build(), clock.RealClock{})
		c, err := connections.Get(t.Context(), cluster)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = c.Core.Nodes().Get(t.Context(), "n", metav1.GetOptions{})
		connections.Remove(cluster)
	}
	families, err := metrics.Registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	series, bytes, counted := 0, 0, false
	for _, family := range families {
		for _, m := range family.Metric {
			for _, label := range m.Label {
				counted = counted || label.GetValue() == "workload-cluster"
				if strings.Contains(label.GetValue(), ".invalid") {
					series++
					bytes += len(label.GetValue())
				}
			}
		}
	}
	if !counted {
		t.Error("requests to workload clusters are not counted")
	}
	if series > 0 {
		t.Errorf("%d changes of one Secret left %d series with labels of %d bytes in the manager's metrics, for ever", changes, series, bytes)
	}
}
