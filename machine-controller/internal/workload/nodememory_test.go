// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"net/http"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// TestNodesOfATenantAreBounded connects to clusters of one namespace that have larger Nodes than the memory limit allows, which a
// list, a streamed list, and an event show.
func TestNodesOfATenantAreBounded(t *testing.T) {
	t.Parallel()
	a := apiServer(t, "a")
	live := liveClient(t, a)
	large := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "large", Annotations: map[string]string{"x": strings.Repeat("x", 190<<10)}}}
	w := newEnvironment(t, func(o *Options) { o.NodeMemory = 150 << 10 })
	config := kubeconfigOf(t, a)
	w.cluster("grows", config)
	w.connected("grows")
	if err := live.Create(t.Context(), large); err != nil {
		t.Fatal(err)
	}
	w.refused("grows", ReasonNodesTooLarge)
	w.cluster("streams", config)
	w.refused("streams", ReasonNodesTooLarge)
	w.cluster("lists", kubeconfigOf(t, before(t, a, func(response http.ResponseWriter, request *http.Request) bool {
		streams := request.URL.Query().Has("sendInitialEvents")
		if streams {
			http.Error(response, "no streams", http.StatusBadRequest)
		}
		return streams
	})))
	w.refused("lists", ReasonNodesTooLarge)
	if err := live.Delete(t.Context(), large); client.IgnoreNotFound(err) != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"grows", "streams", "lists"} {
		w.connected(name)
	}
}
