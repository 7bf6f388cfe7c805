// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

func TestTimesThatCannotBeDecodedAreReplaced(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ in, want string }{
		"a negative year":        {`{"a":"-0001-12-31T01:00:00Z","b":1}`, `{"a":"0001-01-01T00:00:00Z" ,"b":1}`},
		"a year of five digits":  {`["10000-01-01T22:59:59Z"]`, `["0001-01-01T00:00:00Z" ]`},
		"two":                    {`["-0001-12-31T01:00:00Z","10000-01-01T22:59:59Z"]`, `["0001-01-01T00:00:00Z" ,"0001-01-01T00:00:00Z" ]`},
		"a time":                 {`["2026-11-24T21:30:00Z"]`, ``},
		"another string":         {`["-0001-12-31","-","10000","-0001-12-31T01:00:00Zone", "x\"-0001", ""]`, ``},
		"a string that ends not": {`["-0001-12-31T0`, ``},
		"an end in a quote":      {`{"a":1,"`, ``},
	} {
		want := test.want
		if want == "" {
			want = test.in
		}
		for kind, reader := range map[string]io.Reader{
			"at once": strings.NewReader(test.in), "byte by byte": iotest.OneByteReader(strings.NewReader(test.in)),
			"with the end": iotest.DataErrReader(strings.NewReader(test.in)),
		} {
			got, err := io.ReadAll(&timesBody{ReadCloser: io.NopCloser(reader)})
			if err != nil || string(got) != want {
				t.Errorf("%s, %s: got %s and %v, want %s", name, kind, got, err, want)
			}
		}
	}
}

// TestEventsAreNotHeld: the reader of a watch gets an event as soon as it is complete.
func TestEventsAreNotHeld(t *testing.T) {
	t.Parallel()
	events, server := io.Pipe()
	body := &timesBody{ReadCloser: events}
	const event = `{"type":"MODIFIED","object":{"kind":"Node","apiVersion":"v1","status":{"conditions":[{"lastTransitionTime":"-0001-12-31T01:00:00Z"}]}}}` + "\n"
	go func() { _, _ = server.Write([]byte(event)) }()
	got := make([]byte, len(event))
	if _, err := io.ReadFull(body, got); err != nil {
		t.Fatal(err)
	}
	decoded := struct{ Object corev1.Node }{}
	if err := json.Unmarshal(got, &decoded); err != nil || len(decoded.Object.Status.Conditions) != 1 {
		t.Errorf("got %s: %v", got, err)
	}
}

// TestNestedNodeHidesNoOthers: a kubelet can write the record of who manages the fields of its Node.
func TestNestedNodeHidesNoOthers(t *testing.T) {
	t.Parallel()
	const levels = 12_000
	fields := strings.Repeat(`{"f:a":`, levels) + "{}" + strings.Repeat("}", levels)
	_, config := serve(t, answerJSON(fmt.Sprintf(`{"kind":"NodeList","apiVersion":"v1","items":[
		{"metadata":{"name":"a","managedFields":[{"manager":"x","fieldsV1":%s}]}},{"metadata":{"name":"b"}}]}`, fields)))
	transport := open(t, Options{}, config)
	clients, err := kubernetes.NewForConfigAndClient(transport.Config(), HTTPClient(transport, 0))
	if err != nil {
		t.Fatal(err)
	}
	nodes, err := clients.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
	if err != nil || len(nodes.Items) != 2 || nodes.Items[1].Name != "b" {
		t.Errorf("got %d Nodes, %v", len(nodes.Items), err)
	}
}
