// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"context"
	"encoding/pem"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"drover.io/runtime/httplimit"
	"drover.io/runtime/requesterror"
	"drover.io/runtime/workload"
)

// opened are connections of so many Clusters of one namespace to a server, which nothing was sent on.
func opened(t *testing.T, clusters int, answer http.HandlerFunc) (*dialer, []*Connection) {
	t.Helper()
	server := httptest.NewTLSServer(answer)
	t.Cleanup(server.Close)
	options := Options{Clock: clock.RealClock{}, RequestTimeout: time.Hour, ProbeTimeout: time.Hour}.withDefaults()
	d := newDialer(&options)
	config := &rest.Config{Host: server.URL, TLSClientConfig: rest.TLSClientConfig{
		CAData: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}),
	}}
	var all []*Connection
	for range clusters {
		c, failure := d.open(config, dialRequest{cluster: client.ObjectKey{Namespace: "tenant"}})
		if failure != nil {
			t.Fatal(failure)
		}
		t.Cleanup(c.close)
		all = append(all, c)
	}
	return d, all
}

// TestProbeAnswerIsBounded: every Cluster is probed by itself, whatever their number.
func TestProbeAnswerIsBounded(t *testing.T) {
	t.Parallel()
	for _, status := range []int{http.StatusOK, http.StatusForbidden, http.StatusInternalServerError} {
		d, connections := opened(t, 1, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(status)
			_, _ = w.Write([]byte(`{"major":"` + strings.Repeat("1", probeBytes) + `"}`))
		})
		if failure := d.probe(t.Context(), connections[0]); failure == nil || !strings.Contains(failure.message, "larger than 64 KiB") {
			t.Errorf("status %d: got %v", status, failure)
		}
	}
}

// TestLongAnswersOfATenantAreBounded has as many API servers of one namespace as there are seats, and more, send an
// answer that is long and does not end.
func TestLongAnswersOfATenantAreBounded(t *testing.T) {
	t.Parallel()
	end := make(chan struct{})
	_, connections := opened(t, 2*workload.LongAnswers, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"metadata":{"name":"` + strings.Repeat("1", 2*workload.ShortAnswer)))
		if flusher, ok := w.(http.Flusher); ok {
			flusher.Flush()
		}
		select {
		case <-end:
		case <-r.Context().Done():
		}
		_, _ = w.Write([]byte(`"}}`))
	})
	ended := make(chan error)
	for _, each := range connections {
		go func() {
			ended <- each.Client().Get(t.Context(), client.ObjectKey{Namespace: "kube-system", Name: "claim"}, &coordinationv1.Lease{})
		}()
	}
	for range len(connections) - workload.LongAnswers/2 { // one namespace has half of the seats
		if err := <-ended; !requesterror.IsUnanswered(err) {
			t.Errorf("got %v, want one for which IsUnanswered is true", err)
		}
	}
	close(end)
	for range workload.LongAnswers / 2 {
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
}

// refused is a Claimer that gets no Lease.
type refused struct{}

func (refused) Claim(context.Context, client.Client, client.ObjectKey) (Claim, error) {
	return Claim{}, errors.New("no Leases")
}

func (refused) Release(context.Context, client.Client, client.ObjectKey) error { return nil }

// TestAPIServerWithoutLeasesNeedsNoClaim, and one that has them, or does not report it, does.
func TestAPIServerWithoutLeasesNeedsNoClaim(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		groups string
		held   bool
	}{
		"one without":            {`{"groups":[{"name":"rbac.authorization.k8s.io","versions":[{"groupVersion":"rbac.authorization.k8s.io/v1","version":"v1"}]}]}`, true},
		"one with them":          {`{"groups":[{"name":"coordination.k8s.io","versions":[{"groupVersion":"coordination.k8s.io/v1","version":"v1"}]}]}`, false},
		"one without a report":   {"", false},
		"one that has no groups": {`{"groups":[]}`, false},
	} {
		d, connections := opened(t, 1, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			switch {
			case r.URL.Path == "/api":
				w.WriteHeader(http.StatusNotFound)
				return
			case test.groups == "":
				w.WriteHeader(http.StatusInternalServerError)
				return
			}
			_, _ = w.Write([]byte(`{"kind":"APIGroupList","apiVersion":"v1",` + test.groups[1:]))
		})
		d.options.Claimer = refused{}
		claim := d.claim(t.Context(), client.ObjectKey{Namespace: "tenant", Name: "c"}, connections[0])
		if held := claim != nil && claim.Status == ClaimHeld && claim.Message != ""; held != test.held {
			t.Errorf("%s: the claim is %+v, want held %t", name, claim, test.held)
		}
	}
}

// TestAnswersOfEmptyObjectsAreNotDecoded: each object that is written in three bytes is a thousand in memory.
func TestAnswersOfEmptyObjectsAreNotDecoded(t *testing.T) {
	t.Parallel()
	empty := strings.Repeat("{},", maxElements/2) + "{}"
	pages := 0
	_, connections := opened(t, 1, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		switch {
		case strings.HasSuffix(r.URL.Path, "/pods"):
			w.Header().Set("Content-Type", "application/vnd.kubernetes.protobuf")
			_, _ = w.Write([]byte("k8s\x00"))
		case r.URL.Query().Has("watch"):
			_, _ = w.Write([]byte(`{"type":"ADDED","object":{"kind":"Node","apiVersion":"v1","metadata":{"name":"n"},"status":{"conditions":[` + empty + `]}}}`))
		case r.URL.Query().Has("limit"):
			pages++
			_, _ = w.Write([]byte(`{"kind":"NodeList","apiVersion":"v1","items":[` + empty + `]}`))
		}
	})
	c := connections[0]
	many, kind := (*httplimit.TooManyElementsError)(nil), (*httplimit.ContentTypeError)(nil)
	if _, err := c.watch.list(t.Context(), metav1.ListOptions{ResourceVersion: "0"}); !errors.As(err, &many) || pages < 2 {
		t.Errorf("a list ended with %v after %d pages, want a TooManyElementsError after smaller ones", err, pages)
	}
	if err := c.Client().List(t.Context(), &corev1.NodeList{}, client.Limit(10)); !errors.As(err, &many) {
		t.Errorf("a list of the client ended with %v, want a TooManyElementsError", err)
	}
	if err := c.Client().List(t.Context(), &corev1.PodList{}); !errors.As(err, &kind) {
		t.Errorf("protobuf ended with %v, want a ContentTypeError", err)
	}
	stream, err := c.watch.watch(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for event := range stream.ResultChan() {
		if event.Type == "ADDED" {
			t.Error("an event with as many conditions was decoded")
		}
	}
}
