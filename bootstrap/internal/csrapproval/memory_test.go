// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package csrapproval

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	certificatesv1client "k8s.io/client-go/kubernetes/typed/certificates/v1"
	"k8s.io/client-go/rest"

	"drover.io/runtime/fairshare"
)

// TestUnfinishedListsTakePlaces: API servers of three Clusters return open requests in the first pages and then hang.
func TestUnfinishedListsTakePlaces(t *testing.T) {
	t.Parallel()
	const places, clusters = 100, 3
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
	shared := fairshare.New[string](places)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var all sync.WaitGroup
	for range clusters {
		s := newSource(certificatesv1client.NewForConfigOrDie(&rest.Config{Host: server.URL, QPS: -1}).CertificateSigningRequests(), func(error) {}, func() {})
		s.namespace, s.places = "team", shared
		all.Go(func() { _, _ = s.list(ctx) })
	}
	hanging.Wait()
	if shared.Take("team") {
		t.Error("lists of a namespace hold less than half of the places, so this proves nothing")
	}
	for range places / 4 {
		if !shared.Take("other") {
			t.Fatal("lists of one namespace leave no places to another")
		}
	}
	cancel()
	all.Wait()
	if !shared.Take("team") {
		t.Error("the places of lists that ended are not given back")
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
	s := newSource(certificatesv1client.NewForConfigOrDie(&rest.Config{Host: server.URL, QPS: -1}).CertificateSigningRequests(), func(error) {}, func() {})
	s.timeout = 200 * time.Millisecond
	if _, err := s.list(t.Context()); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("err = %v", err)
	}
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
