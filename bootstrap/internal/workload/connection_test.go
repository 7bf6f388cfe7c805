// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"

	"drover.io/runtime/workload"
)

// TestAnswersOfEmptyObjectsAreNotDecoded: each object that is written in three bytes is some hundreds in memory.
func TestAnswersOfEmptyObjectsAreNotDecoded(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ kind, answer, want string }{
		"a list of nothing": {"application/json", `{"kind":"NodeList","apiVersion":"v1","items":[` + strings.Repeat("{},", maxElements/2) + `{}]}`, "more than 50000 elements"},
		"another format":    {"application/vnd.kubernetes.protobuf", "k8s\x00", `with "application/vnd.kubernetes.protobuf" instead of JSON`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", test.kind)
				_, _ = w.Write([]byte(test.answer))
			}))
			t.Cleanup(server.Close)
			c, err := NewConnections(nil, clock.RealClock{}).connect(&rest.Config{Host: server.URL, TLSClientConfig: rest.TLSClientConfig{CAData: certificate(server)}}, types.NamespacedName{Namespace: "team", Name: "c"})
			if err != nil {
				t.Fatal(err)
			}
			_, err = c.Core.Nodes().List(t.Context(), metav1.ListOptions{})
			if failure := c.Classify(err); failure.Kind != workload.Unavailable || !strings.Contains(failure.Message, test.want) {
				t.Errorf("got %v, explained as %+v", err, failure)
			}
		})
	}
}
