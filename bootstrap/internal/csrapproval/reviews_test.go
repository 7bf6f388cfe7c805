// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package csrapproval

import (
	"context"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"drover.io/bootstrap/internal/workload"
	"drover.io/runtime/envtest"
	"drover.io/runtime/fairshare"
)

// countingReader is the API server of the management cluster: it has the infrastructure object of the Machine.
type countingReader struct {
	client.Reader
	machine *clusterv1.Machine
	gets    atomic.Int64
}

func (c *countingReader) Get(_ context.Context, _ client.ObjectKey, into client.Object, _ ...client.GetOption) error {
	c.gets.Add(1)
	infra := into.(*unstructured.Unstructured)
	infra.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: clusterv1.GroupVersion.String(), Kind: "Machine", Name: c.machine.Name, UID: c.machine.UID, Controller: ptr.To(true)}})
	return unstructured.SetNestedStringSlice(infra.Object, []string{"10.9.0.1"}, "status", "cloudAddresses")
}

// TestReviewsOfAClusterAreBounded: the API server of one Cluster sends open requests again and again, by its watch. Each
// review is a list of the cache and a live read of the management cluster.
func TestReviewsOfAClusterAreBounded(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		uid   string // the UID of a request in the watch, by the number of the event
		reads int64
	}{
		"the same ones":           {"u", maxPerRequester},
		"others of the same name": {"u-%d", reviewBurst + 2*seconds*reviewsPerSecond},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			reads := reviews(t, test.uid)
			if reads == 0 || reads > test.reads {
				t.Errorf("%d live reads of the management cluster in %d s, want %d at most", reads, seconds, test.reads)
			}
		})
	}
}

// seconds is how long reviews are counted.
const seconds = 2

// reviews returns how many requests of a watch without end are reviewed.
func reviews(t *testing.T, uid string) int64 {
	t.Helper()
	answer := func(w http.ResponseWriter, content string) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(content))
	}
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Query().Get("watch") != "":
			w.Header().Set("Content-Type", "application/json")
			for n := int64(8); r.Context().Err() == nil; n++ {
				_, err := fmt.Fprintf(w, `{"type":"MODIFIED","object":{"kind":"CertificateSigningRequest","apiVersion":"certificates.k8s.io/v1","metadata":{"name":"csr-%d","uid":%q,"resourceVersion":"%d"},"spec":{"signerName":"kubernetes.io/kubelet-serving","username":"system:node:m1"}}}`+"\n", n%20, strings.ReplaceAll(uid, "%d", fmt.Sprint(n)), n)
				if err != nil {
					return
				}
			}
		case strings.Contains(r.URL.Path, "certificatesigningrequests"):
			answer(w, `{"kind":"CertificateSigningRequestList","apiVersion":"certificates.k8s.io/v1","metadata":{"resourceVersion":"7"},"items":[]}`)
		case strings.HasSuffix(r.URL.Path, "/nodes"):
			answer(w, `{"kind":"NodeList","apiVersion":"v1","metadata":{},"items":[]}`)
		case strings.Contains(r.URL.Path, "/services/"):
			answer(w, `{"kind":"Service","apiVersion":"v1","metadata":{"name":"kubernetes"}}`)
		default:
			answer(w, `{"kind":"EndpointSlice","apiVersion":"discovery.k8s.io/v1","metadata":{"name":"kubernetes"},"addressType":"IPv4","endpoints":[]}`)
		}
	}))
	t.Cleanup(server.Close)
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	content, err := envtest.Kubeconfig(&rest.Config{Host: server.URL, BearerToken: "t", TLSClientConfig: rest.TLSClientConfig{CAData: ca}})
	if err != nil {
		t.Fatal(err)
	}
	s, err := envtest.Scheme()
	if err != nil {
		t.Fatal(err)
	}
	cluster := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "c"}}
	machine := &clusterv1.Machine{
		ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "m1", UID: "m", Labels: map[string]string{clusterv1.ClusterNameLabel: "c"}},
		Spec:       clusterv1.MachineSpec{ClusterName: "c", InfrastructureRef: clusterv1.ContractVersionedObjectReference{APIGroup: "infrastructure.drover.io", Kind: "SimMachine", Name: "m1"}},
		Status:     clusterv1.MachineStatus{NodeRef: clusterv1.MachineNodeReference{Name: "m1"}},
	}
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "c-kubeconfig", UID: "u"}, Data: map[string][]byte{"value": content}}
	c := fake.NewClientBuilder().WithScheme(s).WithObjects(cluster, machine, secret).Build()
	connection, err := workload.NewConnections(c, clock.RealClock{}).Get(t.Context(), client.ObjectKeyFromObject(cluster))
	if err != nil {
		t.Fatal(err)
	}
	live := &countingReader{machine: machine}
	w := startWatch(&approver{
		client: c, events: newRecorder(events.NewFakeRecorder(1000)), cluster: cluster, connection: connection, log: logr.Discard(), live: live,
	}, fairshare.New[string](maxRequests), fairshare.New[string](maxListed), newPace())
	time.Sleep(seconds * time.Second)
	w.stop()
	return live.gets.Load()
}
