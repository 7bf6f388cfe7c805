// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"k8s.io/client-go/rest"
)

// TestLongHeadersAreRefused: the headers of an answer take some ten times as much memory as they have bytes, as long as the
// answer is read, and a watch may be read for ever.
func TestLongHeadersAreRefused(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		http2   bool
		headers int
		refused bool
	}{
		"usual ones":                  {false, 100, false},
		"too many":                    {false, 20_000, true},
		"usual ones of HTTP/2":        {true, 100, false},
		"too many in those of HTTP/2": {true, 20_000, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
				for n := range test.headers {
					w.Header()[fmt.Sprintf("X%d", n)] = []string{"x"}
				}
				answerJSON("{}")(w, request)
			}))
			server.EnableHTTP2 = test.http2
			server.StartTLS()
			t.Cleanup(server.Close)
			transport := open(t, Options{}, &rest.Config{Host: server.URL, TLSClientConfig: rest.TLSClientConfig{
				CAData: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}),
			}})
			_, err := get(t, HTTPClient(transport, 0), server.URL)
			if refused := err != nil; refused != test.refused {
				t.Errorf("%d headers: %v", test.headers, err)
			}
		})
	}
}
