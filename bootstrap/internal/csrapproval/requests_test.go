// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package csrapproval

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	certificatesv1client "k8s.io/client-go/kubernetes/typed/certificates/v1"
	"k8s.io/client-go/rest"

	"drover.io/runtime/fairshare"
)

// from is an open request of the kubelet of a Node.
func from(node, name string) *certificatesv1.CertificateSigningRequest {
	csr := open(name)
	csr.Spec.Username = "system:node:" + node
	return csr
}

// TestOnlyOpenRequestsOfKubeletsAreKept: everything else that an API server sends would only cost memory.
func TestOnlyOpenRequestsOfKubeletsAreKept(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		change func(*certificatesv1.CertificateSigningRequest)
		kept   bool
	}{
		"a kubelet's": {func(*certificatesv1.CertificateSigningRequest) {}, true},
		"a decided one": {func(csr *certificatesv1.CertificateSigningRequest) {
			csr.Status.Conditions = []certificatesv1.CertificateSigningRequestCondition{{Type: certificatesv1.CertificateDenied, Status: corev1.ConditionTrue}}
		}, false},
		"one of another signer": {func(csr *certificatesv1.CertificateSigningRequest) { csr.Spec.SignerName = "example.org/x" }, false},
		"one of a user":         {func(csr *certificatesv1.CertificateSigningRequest) { csr.Spec.Username = "jane" }, false},
		"a large one":           {func(csr *certificatesv1.CertificateSigningRequest) { csr.Spec.Request = make([]byte, maxRequestBytes) }, false},
		"one with a large annotation": {func(csr *certificatesv1.CertificateSigningRequest) {
			csr.Annotations = map[string]string{"a": string(make([]byte, maxRequestBytes))}
		}, false},
		"one with a long name": {func(csr *certificatesv1.CertificateSigningRequest) { csr.Name = strings.Repeat("x", 254) }, false},
		"one of many groups":   {func(csr *certificatesv1.CertificateSigningRequest) { csr.Spec.Groups = make([]string, maxParts+1) }, false},
		"one of many values": {func(csr *certificatesv1.CertificateSigningRequest) {
			csr.Spec.Extra = map[string]certificatesv1.ExtraValue{"k": make([]string, maxParts)}
		}, false},
	} {
		opened := 0
		requests := newOpenRequests("team", fairshare.New[string](1))
		requests.opened = func(string) { opened++ }
		csr := from("n", "csr")
		test.change(csr)
		_ = requests.Add(csr)
		if kept := requests.get(csr.Name) != nil; kept != test.kept || (opened == 1) != test.kept {
			t.Errorf("%s: kept %t, decided on %d times", name, kept, opened)
		}
		if test.kept || csr.Name != "csr" {
			continue
		}
		_ = requests.Add(from("n", "csr")) // the requests that were open are removed as well
		_ = requests.Update(csr)
		if len(requests.names()) > 0 || len(requests.byRequester) > 0 {
			t.Errorf("%s: %v are kept of %v", name, requests.names(), requests.byRequester)
		}
		if !requests.seats.Acquire("another") {
			t.Errorf("%s: its seat was not given back", name)
		}
	}
}

// TestRequestsThatAreGivenUpAreNotKept: they are open for a day, and hosts have made others. The first is reported where it was
// old when it came, because the clocks may differ.
func TestRequestsThatAreGivenUpAreNotKept(t *testing.T) {
	t.Parallel()
	old := metav1.NewTime(time.Now().Add(-requestLifetime))
	first := func(name string) *certificatesv1.CertificateSigningRequest {
		csr := firstRequest(t, "m1")
		csr.Name, csr.CreationTimestamp = name, metav1.Now()
		return csr
	}
	var late []string
	requests := newOpenRequests("team", fairshare.New[string](0))
	requests.late = func(name string) { late = append(late, name) }
	aged := first("aged")
	for _, each := range []*certificatesv1.CertificateSigningRequest{aged, first("late"), first("kept key"), from("n", "serving")} {
		if each != aged {
			each.CreationTimestamp = old
		}
		if each.Name == "kept key" {
			each.GenerateName = ""
		}
		_ = requests.Add(each)
	}
	aged.CreationTimestamp = old
	requests.reopen()
	_ = requests.Update(aged)
	kept := requests.names()
	if slices.Sort(kept); !slices.Equal(kept, []string{"kept key", "serving"}) {
		t.Errorf("kept %q", kept)
	}
	if !slices.Equal(late, []string{"late", "aged"}) {
		t.Errorf("reported %q", late)
	}
}

// TestRequestsOfOneRequesterAreBounded: of its requests the newest are kept.
func TestRequestsOfOneRequesterAreBounded(t *testing.T) {
	t.Parallel()
	requests := newOpenRequests("team", fairshare.New[string](0))
	for n := range 3 * maxPerRequester {
		_ = requests.Add(from("noisy", fmt.Sprintf("csr-%03d", n)))
	}
	_ = requests.Add(from("modest", "csr-modest"))
	kept := requests.names()
	slices.Sort(kept)
	if len(kept) != maxPerRequester+1 || kept[0] != fmt.Sprintf("csr-%03d", 2*maxPerRequester) || requests.get("csr-modest") == nil {
		t.Errorf("%d are kept, from %q on", len(kept), kept[0])
	}
}

// TestRequestsOfAClusterAreBounded, and those of all Clusters of a namespace. What was not kept is listed again as soon
// as there is capacity.
func TestRequestsOfAClusterAreBounded(t *testing.T) {
	t.Parallel()
	seats := fairshare.New[string](maxPerCluster)
	listed, crowded := 0, 0
	one, two, other := newOpenRequests("team", seats), newOpenRequests("team", seats), newOpenRequests("other", seats)
	two.relist, one.full = func() { listed++ }, func() { crowded++ }
	for n := range maxPerCluster {
		_ = one.Add(from(fmt.Sprint("n", n), fmt.Sprint("csr-", n)))
	}
	if kept := len(one.names()); kept != maxPerCluster/2 || crowded != 1 {
		t.Errorf("%d are kept, want half of all; reported %d times, want once", kept, crowded)
	}
	_ = two.Add(from("n", "two"))
	_ = other.Add(from("n", "other"))
	if len(two.names()) != 0 || len(other.names()) != 1 {
		t.Errorf("%d and %d are kept, want none and one", len(two.names()), len(other.names()))
	}
	one.clear()
	_ = two.Resync()
	_ = two.Add(from("n", "two"))
	_ = two.Resync()
	if listed != 1 || len(two.names()) != 1 {
		t.Errorf("listed %d times, %d are kept, want once and one", listed, len(two.names()))
	}
	alone := newOpenRequests("team", fairshare.New[string](0))
	for n := range 2 * maxPerCluster {
		_ = alone.Add(from(fmt.Sprint("n", n), fmt.Sprint("csr-", n)))
	}
	if kept := len(alone.names()); kept != maxPerCluster {
		t.Errorf("%d are kept, want %d", kept, maxPerCluster)
	}
}

// TestListIsReadInPages from an API server that heeds no limit, and has no end.
func TestListIsReadInPages(t *testing.T) {
	t.Parallel()
	pages := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		pages++
		query := r.URL.Query()
		if want := fmt.Sprint(pageSize); query.Get("limit") != want || query.Get("resourceVersion") != "" {
			t.Errorf("the query is %v, want limit %s and no resourceVersion", query, want)
		}
		page := certificatesv1.CertificateSigningRequestList{ListMeta: metav1.ListMeta{ResourceVersion: "7", Continue: fmt.Sprint(pages)}}
		for n := range pageSize {
			csr := from(fmt.Sprint("n", pages, "-", n), fmt.Sprint("csr-", pages, "-", n))
			if n%2 == 0 {
				csr.Spec.SignerName = "example.org/x"
			}
			page.Items = append(page.Items, *csr)
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(page)
	}))
	t.Cleanup(server.Close)
	certificates := certificatesv1client.NewForConfigOrDie(&rest.Config{Host: server.URL, QPS: -1})
	missed := 0
	list, err := newListerWatcher(certificates, func(error) {}, func() { missed++ }).list(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if pages != maxPages || len(list.Items) != maxPerCluster || missed != 1 || list.Continue != "" || list.ResourceVersion != "7" {
		t.Errorf("%d pages and %d requests were read, %d times some were missed, then %q at %q", pages, len(list.Items), missed, list.Continue, list.ResourceVersion)
	}
}

// TestRequestsOfOneRequesterInAListAreBounded: its requests come first, and are more than are kept of all. Its newest are listed.
func TestRequestsOfOneRequesterInAListAreBounded(t *testing.T) {
	t.Parallel()
	page := certificatesv1.CertificateSigningRequestList{ListMeta: metav1.ListMeta{ResourceVersion: "7"}}
	for n := range maxPerCluster + 1 {
		csr := from("noisy", fmt.Sprint("a-", n))
		csr.CreationTimestamp = metav1.Unix(int64(1000+n), 0)
		page.Items = append(page.Items, *csr)
	}
	page.Items = append(page.Items, *from("modest", "z"))
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(page)
	}))
	t.Cleanup(server.Close)
	certificates := certificatesv1client.NewForConfigOrDie(&rest.Config{Host: server.URL, QPS: -1})
	missed := 0
	list, err := newListerWatcher(certificates, func(error) {}, func() { missed++ }).list(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	got := len(list.Items)
	if got != maxPerRequester+1 || list.Items[got-1].Name != "z" || missed != 0 {
		t.Errorf("%d are listed, the last is %q, %d times some were missed", got, list.Items[got-1].Name, missed)
	}
	if first, want := list.Items[0].Name, fmt.Sprint("a-", maxPerCluster+1-maxPerRequester); first != want {
		t.Errorf("the first is %q, want %q", first, want)
	}
}
