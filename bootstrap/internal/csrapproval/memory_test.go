// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package csrapproval

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	certificatesv1client "k8s.io/client-go/kubernetes/typed/certificates/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"drover.io/bootstrap/internal/workload"
	"drover.io/runtime/envtest"
	"drover.io/runtime/fairshare"
)

// TestUnfinishedListsTakeSeats: API servers of three Clusters return open requests in the first pages and then hang.
func TestUnfinishedListsTakeSeats(t *testing.T) {
	t.Parallel()
	const seats, clusters = 100, 3
	var hanging sync.WaitGroup
	hanging.Add(clusters)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		page := 0
		_, _ = fmt.Sscan(r.URL.Query().Get("continue"), &page)
		if page == 5 {
			hanging.Done()
			<-r.Context().Done()
			return
		}
		list := certificatesv1.CertificateSigningRequestList{}
		list.ResourceVersion, list.Continue = "7", fmt.Sprint(page+1)
		for n := range pageSize {
			list.Items = append(list.Items, *from(fmt.Sprint("n", page, "-", n), fmt.Sprint("csr-", page, "-", n)))
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(list)
	}))
	t.Cleanup(server.Close)
	shared := fairshare.New[string](seats)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var all sync.WaitGroup
	for range clusters {
		s := newListerWatcher(certificatesv1client.NewForConfigOrDie(&rest.Config{Host: server.URL, QPS: -1}), func(error) {}, func() {})
		s.namespace, s.seats = "team", shared
		all.Go(func() { _, _ = s.list(ctx) })
	}
	hanging.Wait()
	if shared.Acquire("team") {
		t.Error("lists of a namespace hold less than half of the seats, so this proves nothing")
	}
	for range seats / 4 {
		if !shared.Acquire("other") {
			t.Fatal("lists of one namespace leave no seats to another")
		}
	}
	cancel()
	all.Wait()
	if !shared.Acquire("team") {
		t.Error("the seats of lists that ended are not given back")
	}
}

// TestListThatHangsEnds also where each of its pages comes in time.
func TestListThatHangsEnds(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		time.Sleep(20 * time.Millisecond)
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"kind":"CertificateSigningRequestList","apiVersion":"certificates.k8s.io/v1","metadata":{"continue":"x"}}`))
	}))
	t.Cleanup(server.Close)
	s := newListerWatcher(certificatesv1client.NewForConfigOrDie(&rest.Config{Host: server.URL, QPS: -1}), func(error) {}, func() {})
	s.timeout = 200 * time.Millisecond
	if _, err := s.list(t.Context()); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("err = %v", err)
	}
}

// TestControlPlaneOfAClusterIsBoundedInMemory: its API server returns Nodes, endpoints and a Service of the control plane
// with addresses of any number and length, which are kept as long as the Cluster exists.
func TestControlPlaneOfAClusterIsBoundedInMemory(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 1<<20)
	const node = `{"metadata":{"name":%q},"status":{"addresses":[%s]}}`
	address := func(value string) string { return fmt.Sprintf(`{"type":"InternalIP","address":%q}`, value) }
	answers := map[string]string{
		"nodes":          `{"kind":"NodeList","apiVersion":"v1","metadata":{},"items":[%s]}`,
		"services":       `{"kind":"Service","apiVersion":"v1","metadata":{"name":"kubernetes"},"spec":{"clusterIPs":[%s]}}`,
		"endpointslices": `{"kind":"EndpointSlice","apiVersion":"discovery.k8s.io/v1","metadata":{"name":"kubernetes"},"addressType":"IPv4","endpoints":[{"addresses":[%s]}]}`,
	}
	for name, test := range map[string]struct {
		content map[string]string
		refused bool
	}{
		"three nodes":                  {map[string]string{"nodes": strings.Repeat(fmt.Sprintf(node, "cp", address("10.0.0.1"))+",", 2) + fmt.Sprintf(node, "cp", address("10.0.0.1"))}, false},
		"a long name of a Node":        {map[string]string{"nodes": fmt.Sprintf(node, long, address("10.0.0.1"))}, true},
		"a long address of a Node":     {map[string]string{"nodes": fmt.Sprintf(node, "cp", address(long))}, true},
		"many addresses of a Node":     {map[string]string{"nodes": fmt.Sprintf(node, "cp", strings.Repeat(address("10.0.0.1")+",", 10_000)+address("10.0.0.1"))}, true},
		"a long address of an API":     {map[string]string{"endpointslices": fmt.Sprintf("%q", long)}, true},
		"many addresses of an API":     {map[string]string{"endpointslices": strings.Repeat(`"10.0.0.1",`, 40_000) + `"10.0.0.1"`}, true},
		"a long address of a Service":  {map[string]string{"services": fmt.Sprintf("%q", long)}, true},
		"many addresses of a Service":  {map[string]string{"services": strings.Repeat(`"10.0.0.1",`, 40_000) + `"10.0.0.1"`}, true},
		"an API server without a word": {nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := approverOf(t, func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Type", "application/json")
				for resource, format := range answers {
					if strings.Contains(r.URL.Path, "/"+resource) {
						_, _ = fmt.Fprintf(w, format, test.content[resource])
					}
				}
			})
			taken, err := a.reservedForControlPlane(t.Context())
			if refused := err != nil; refused != test.refused {
				t.Errorf("err = %v", err)
			}
			size := 0
			for _, text := range slices.Concat(taken.Names, taken.Addresses, a.control.Names, a.control.Addresses) {
				size += len(text) + 16
			}
			if size > 1<<20 {
				t.Errorf("%d KiB are kept", size>>10)
			}
		})
	}
}

// approverOf is that of a Cluster whose workload cluster has an API server of this kind.
func approverOf(t *testing.T, handler http.HandlerFunc) *approver {
	t.Helper()
	server := httptest.NewTLSServer(handler)
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
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "c-kubeconfig", UID: "u"}, Data: map[string][]byte{"value": content}}
	c := fake.NewClientBuilder().WithScheme(s).WithObjects(cluster, secret).Build()
	connection, err := workload.NewConnections(c, clock.RealClock{}).Get(t.Context(), client.ObjectKeyFromObject(cluster))
	if err != nil {
		t.Fatal(err)
	}
	return &approver{client: c, cluster: cluster, connection: connection, log: logr.Discard()}
}

// TestKeptRequestsAreBoundedInMemory: the largest that one namespace may keep, as they come in JSON.
func TestKeptRequestsAreBoundedInMemory(t *testing.T) {
	heap := func() int {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int(m.HeapAlloc)
	}
	for name, fat := range map[string]string{
		"groups": fmt.Sprintf(`"groups":[%s""]`, strings.Repeat(`"",`, 3900)),
		"a few groups and a large request": fmt.Sprintf(`"groups":[%s""],"request":%q`, strings.Repeat(`"g",`, maxParts-1),
			base64.StdEncoding.EncodeToString(make([]byte, maxRequestBytes*3/4))),
	} {
		content := fmt.Sprintf(`{"metadata":{"name":"c"},"spec":{"signerName":"kubernetes.io/kubelet-serving","username":"system:node:n",%s}}`, fat)
		const many = 500
		before, kept := heap(), make([]*certificatesv1.CertificateSigningRequest, 0, many)
		for range many {
			csr := &certificatesv1.CertificateSigningRequest{}
			if err := json.Unmarshal([]byte(content), csr); err != nil {
				t.Fatal(err)
			}
			if isOpen(csr) {
				kept = append(kept, csr)
			}
		}
		if each := (heap() - before) / many; each > 2*maxRequestBytes {
			t.Errorf("%s: a request that is kept takes %d bytes", name, each)
		}
		runtime.KeepAlive(kept)
	}
}
