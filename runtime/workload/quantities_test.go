// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"encoding/json"
	"io"
	"regexp"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
)

// waitTimeout bounds waiting; no test measures time by it.
const waitTimeout = 2 * time.Minute

// longNumber is a number that takes long to decode.
var longNumber = regexp.MustCompile(`[0-9]{1000}[0-9]{100}|[0-9.][eE][-+]?[0-9]{4}`)

// TestQuantitiesTakeLittleTime has an API server answer with quantities that take minutes and gigabytes to decode.
func TestQuantitiesTakeLittleTime(t *testing.T) {
	t.Parallel()
	const ofNode = `{"kind":"Node","apiVersion":"v1","metadata":{"name":"a"},"status":{"capacity":{"cpu":`
	const ofPod = `{"kind":"Pod","apiVersion":"v1","metadata":{"name":"a"},"spec":{"overhead":{"cpu":`
	const ofContainer = `{"kind":"Pod","apiVersion":"v1","metadata":{"name":"a"},"spec":{"containers":[{"resources":{`
	const ofVolume = `{"kind":"Pod","apiVersion":"v1","metadata":{"name":"a"},"spec":{"volumes":[{"emptyDir":{`
	for name, test := range map[string]struct {
		content string
		decoded bool
	}{
		"the capacity of a Node with a negative exponent":       {ofNode + `"1e-99999999"}}}`, true},
		"that with an exponent which overflows":                 {ofNode + `"1e4194967295"}}}`, true},
		"that with many digits and an exponent":                 {ofNode + `"1000000000000000000000e99999999"}}}`, true},
		"that with very many digits":                            {ofNode + `"` + strings.Repeat("9", 8<<20) + `"}}}`, true},
		"that with very many digits after the point":            {ofNode + `"0.` + strings.Repeat("9", 8<<20) + `"}}}`, true},
		"that as a number":                                      {ofNode + `1e-99999999}}}`, true},
		"that with a name that is written with an escape":       {strings.Replace(ofNode, "capa", `c\u0061pa`, 1) + `"1e-99999999"}}}`, false},
		"what a Pod needs":                                      {ofPod + `"1E-99999999"}}}`, false},
		"what a Pod needs, after a space":                       {ofPod + `" +1.e-99999999"}}}`, false},
		"what a Pod needs, with very many digits":               {ofPod + `"` + strings.Repeat("9", 8<<20) + `"}}}`, false},
		"what a Pod needs, with usual quantities":               {ofPod + `"1.5e3","memory":"12345678901234567890Ki"}}}`, true},
		"what a Pod needs, in an answer to a request for Nodes": {ofPod + `1e-99999999}}}`, false},
		"the limit of a container that an API server accepts":   {ofContainer + `"limits":{"cpu":"1e3000"},"requests":{"cpu":"1m"}}}]}}`, true},
		"the request of a container with a negative exponent":   {ofContainer + `"requests":{"cpu":"1e-99999999"}}}]}}`, true},
		"what a kubelet allocated to a container":               {`{"kind":"Pod","apiVersion":"v1","status":{"containerStatuses":[{"allocatedResources":{"cpu":"1e-99999999"}}]}}`, true},
		"what devices a kubelet allocated to a Pod":             {`{"kind":"Pod","apiVersion":"v1","status":{"nodeAllocatableResourceClaimStatuses":[{"resourceClaimName":"a","resources":{"cpu":"1e-99999999"}}]}}`, true},
		"the size of a volume that an API server accepts":       {ofVolume + `"medium":"Memory","sizeLimit":"1e3000"}}]}}`, true},
		"the size of a volume with a negative exponent":         {ofVolume + `"sizeLimit":"1e-99999999"}}]}}`, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, config := serve(t, answerJSON(test.content))
			transport := open(t, Options{}, config)
			with := transport.Config()
			with.APIPath, with.GroupVersion, with.NegotiatedSerializer = "/api", &corev1.SchemeGroupVersion, scheme.Codecs.WithoutConversion()
			client, err := rest.RESTClientForConfigAndClient(with, HTTPClient(transport, 0))
			if err != nil {
				t.Fatal(err)
			}
			reduced, err := io.ReadAll(&quantitiesBody{ReadCloser: io.NopCloser(strings.NewReader(test.content))})
			if err != nil {
				t.Fatal(err)
			}
			if left := longNumber.Find(reduced); left != nil {
				t.Errorf("%.40s is left to be decoded", left)
			}
			ended := make(chan error, 1)
			go func() { _, err := client.Get().Resource("nodes").Name("a").Do(t.Context()).Get(); ended <- err }()
			select {
			case err := <-ended:
				if (err == nil) != test.decoded {
					t.Errorf("got %v, want it decoded: %t", err, test.decoded)
				}
			case <-time.After(waitTimeout):
				t.Error("it is still being decoded")
			}
		})
	}
}

func TestStringsAreTheSameWhateverDigitsTheyHave(t *testing.T) {
	t.Parallel()
	for _, content := range []string{
		`{"a":"12e345678","b":"node-1e-123456","c":12345.678,"d":1.5e-10,"e":"1E+1234"}`,
		`["` + strings.Repeat("1", 3000) + `","1e12345e67890","…1e12345…"]`,
		`["-\u003e12345678","\u1e12345678","\\u1e12345678","\\","1e1\"1e12345\"","\n1e12345"]`,
		`{"metadata":{"labels":{"commit":"1234e567"},"annotations":{"a":"{\"capacity\":{\"cpu\":\"1e12345\"}}"}}}`,
		`{"status":{"allocatable":{"cpu":"3920m","memory":"1e9"}},"metadata":{"name":"1e12345"}}`,
		`{"emptyDir":{"sizeLimit":"1e9"},"limits":{"cpu":"1"},"name":"1e12345","allocatedResourcesStatus":{"a":"1e12345"},"requests":"1e12345"}`,
	} {
		var want any
		if err := json.Unmarshal([]byte(content), &want); err != nil {
			t.Fatal(err)
		}
		for kind, reader := range map[string]io.Reader{
			"at once": strings.NewReader(content), "byte by byte": iotest.OneByteReader(strings.NewReader(content)),
			"with the end": iotest.DataErrReader(strings.NewReader(content)),
		} {
			read, err := io.ReadAll(&quantitiesBody{ReadCloser: io.NopCloser(reader)})
			if err != nil {
				t.Fatalf("%s: %v", kind, err)
			}
			var got any
			if err := json.Unmarshal(read, &got); err != nil {
				t.Errorf("%s: %.200s: %v", kind, read, err)
			} else if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s: %.500s", kind, diff)
			}
		}
	}
}
