// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"testing"

	"github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// TestAKubeletDoesNotDisconnectItsCluster: a kubelet reports a time in the status of its Node that the API server accepts, and
// whose year is negative in UTC.
func TestAKubeletDoesNotDisconnectItsCluster(t *testing.T) {
	t.Parallel()
	a := apiServer(t, "a")
	w := newEnvironment(t, func(*Options) {})
	live := liveClient(t, a)
	node := createNode(t, live, "with-a-bad-time", "sim://with-a-bad-time")
	patch := client.RawPatch(types.StrategicMergePatchType, []byte(
		`{"status":{"conditions":[{"type":"Ready","status":"True","reason":"x","message":"x","lastTransitionTime":"0000-01-01T00:00:00+23:00"}]}}`))
	if err := live.Status().Patch(t.Context(), node, patch); err != nil {
		t.Fatal(err)
	}
	w.cluster("a", kubeconfigOf(t, a))
	connection := w.connected("a")
	createNode(t, live, "joined-later", "sim://joined-later")
	w.Eventually(func() int { return len(connection.NodesByProviderID("sim://joined-later")) }).Should(gomega.Equal(1))
	found := connection.NodesByProviderID("sim://with-a-bad-time")
	if len(found) != 1 || len(found[0].Status.Conditions) != 1 || found[0].Status.Conditions[0].Type != corev1.NodeReady {
		t.Errorf("the Node of that kubelet: %v", found)
	}
}
