// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package csrapproval

import (
	"context"
	"slices"
	"sync"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	apiwatch "k8s.io/apimachinery/pkg/watch"
	certificatesv1client "k8s.io/client-go/kubernetes/typed/certificates/v1"
	"k8s.io/client-go/tools/cache"

	"drover.io/bootstrap/internal/csrapproval/policy"
	"drover.io/runtime/fairshare"
)

const (
	// maxRequestBytes is how many bytes a request may have. That of a kubelet has some 2,000.
	maxRequestBytes = 8 << 10
	// maxParts is how many groups, usages, annotations and the like a request may have: each is longer in memory than it
	// was in the answer. That of a kubelet has some ten.
	maxParts = 64
	// pageSize is how many requests are listed at once.
	pageSize = 40
	// listTimeout is how long a list may take.
	listTimeout = 5 * time.Minute
	// maxPages is how many pages of a list are read.
	maxPages = 2_500
	// maxPerRequester is how many open requests of one requester are kept, the newest. A kubelet whose request is
	// refused makes another every few minutes.
	maxPerRequester = 20
	// maxPerCluster is how many open requests of one workload cluster are kept.
	maxPerCluster = 2_000
	// maxRequests is how many open requests are kept of all workload clusters. Namespaces share them.
	maxRequests = 8_000
	// maxListed is how many open requests unfinished lists hold of all workload clusters. Namespaces share them.
	maxListed = 4_000
)

// openRequests are the requests of kubelets of one workload cluster that are neither approved nor denied. Nothing else
// that its API server sends is kept, so it cannot fill the memory of the manager. It is the store of a Reflector.
type openRequests struct {
	// namespace holds seats of the requests of all workload clusters.
	namespace string
	seats     *fairshare.Seats[string]
	// opened is called with the name of every request that is to be decided on.
	opened func(name string)
	// relist is called when there may be capacity for requests that were not kept.
	relist func()
	// full is called when there is no capacity for a request, once until there is capacity again. It must not block.
	full func()
	// late is called with the name of a request that its kubelet has given up when it is first seen. It must not block.
	late func(name string)

	mu     sync.Mutex
	byName map[string]*certificatesv1.CertificateSigningRequest
	// byRequester are the names by the requester, from the oldest on.
	byRequester map[string][]string
	missed      bool
}

func newOpenRequests(namespace string, seats *fairshare.Seats[string]) *openRequests {
	return &openRequests{
		namespace: namespace, seats: seats, opened: func(string) {}, relist: func() {}, full: func() {}, late: func(string) {},
		byName: map[string]*certificatesv1.CertificateSigningRequest{}, byRequester: map[string][]string{},
	}
}

// isOpen reports whether a request is one of a kubelet that waits for it, and is neither approved nor denied.
func isOpen(csr *certificatesv1.CertificateSigningRequest) bool {
	return isUndecided(csr) && !isAbandoned(csr, time.Now())
}

func isUndecided(csr *certificatesv1.CertificateSigningRequest) bool {
	return len(csr.Status.Conditions) == 0 && len(csr.Name) <= maxNameLength && csr.Size() <= maxRequestBytes && parts(csr) <= maxParts && policy.NodeOf(csr) != ""
}

// parts returns how many texts a request has in lists and maps.
func parts(csr *certificatesv1.CertificateSigningRequest) int {
	n := len(csr.Labels) + len(csr.Annotations) + len(csr.OwnerReferences) + len(csr.Finalizers)
	n += len(csr.Spec.Groups) + len(csr.Spec.Usages) + len(csr.Spec.Extra)
	for _, values := range csr.Spec.Extra {
		n += len(values)
	}
	return n
}

// names returns those of all requests.
func (r *openRequests) names() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := make([]string, 0, len(r.byName))
	for name := range r.byName {
		all = append(all, name)
	}
	return all
}

// get returns the request of a name; nil if there is none that is open.
func (r *openRequests) get(name string) *certificatesv1.CertificateSigningRequest {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.byName[name]
}

// Add keeps a request that is open.
func (r *openRequests) Add(o any) error { return r.Update(o) }

// Update keeps a request that is open, and drops one that is not any more. One that is kept already with the same content
// is not decided on again for a change of something else, which an API server may send without end.
func (r *openRequests) Update(o any) error {
	csr, ok := o.(*certificatesv1.CertificateSigningRequest)
	if !ok {
		return nil
	}
	before := r.get(csr.Name)
	if r.put(csr) && (before == nil || before.UID != csr.UID || !equality.Semantic.DeepEqual(before.Spec, csr.Spec)) {
		r.opened(csr.Name)
	}
	return nil
}

// Delete drops a request.
func (r *openRequests) Delete(o any) error {
	if csr, ok := o.(*certificatesv1.CertificateSigningRequest); ok {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.drop(csr.Name)
	}
	return nil
}

// Replace keeps what is open of a list.
func (r *openRequests) Replace(items []any, _ string) error {
	r.clear()
	for _, o := range items {
		_ = r.Update(o)
	}
	return nil
}

// Resync queues every request again, and lists again where a request was not kept for which there may be capacity by now.
// The Reflector calls it periodically.
func (r *openRequests) Resync() error {
	r.reopen()
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.missed && len(r.byName) <= maxPerCluster/2 {
		r.missed = false
		r.relist()
	}
	return nil
}

// reopen queues every request again, and drops those that their kubelets have given up.
func (r *openRequests) reopen() {
	r.dropAbandoned()
	for _, name := range r.names() {
		r.opened(name)
	}
}

func (r *openRequests) dropAbandoned() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for name, csr := range r.byName {
		if isAbandoned(csr, time.Now()) {
			r.drop(name)
		}
	}
}

// incomplete notes that there are open requests which are not kept.
func (r *openRequests) incomplete() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.missed = true
}

// put keeps a request if it is open and there is capacity for it.
func (r *openRequests) put(csr *certificatesv1.CertificateSigningRequest) (kept bool) {
	csr.ManagedFields = nil
	open := isOpen(csr)
	r.mu.Lock()
	defer r.mu.Unlock()
	known := r.byName[csr.Name] != nil
	if r.drop(csr.Name); !open {
		if !known && isUndecided(csr) {
			r.late(csr.Name)
		}
		return false
	}
	if others := r.byRequester[csr.Spec.Username]; len(others) >= maxPerRequester {
		r.drop(others[0])
	}
	if len(r.byName) >= maxPerCluster || !r.seats.Acquire(r.namespace) {
		if !r.missed {
			r.full()
		}
		r.missed = true
		return false
	}
	r.byName[csr.Name] = csr
	r.byRequester[csr.Spec.Username] = append(r.byRequester[csr.Spec.Username], csr.Name)
	return true
}

// drop drops a request. The caller holds the lock.
func (r *openRequests) drop(name string) {
	known := r.byName[name]
	if known == nil {
		return
	}
	delete(r.byName, name)
	r.seats.Release(r.namespace)
	user, left := known.Spec.Username, []string(nil)
	for _, other := range r.byRequester[user] {
		if other != name {
			left = append(left, other)
		}
	}
	if r.byRequester[user] = left; len(left) == 0 {
		delete(r.byRequester, user)
	}
}

// clear drops all requests.
func (r *openRequests) clear() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for name := range r.byName {
		r.drop(name)
	}
}

// setRelistFunc sets what is called when there may be capacity for requests that were not kept.
func (r *openRequests) setRelistFunc(relist func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.relist = relist
}

// listerWatcher lists requests in pages, of which only what is open is held, and watches them.
type listerWatcher struct {
	cache.ListWatch
	certificates certificatesv1client.CertificatesV1Interface
	// failed is called with every error, incomplete when a list has open requests that are not in the answer.
	failed     func(error)
	incomplete func()
	// namespace holds seats while a list is not finished.
	namespace string
	seats     *fairshare.Seats[string]
	timeout   time.Duration
}

func newListerWatcher(certificates certificatesv1client.CertificatesV1Interface, failed func(error), incomplete func()) *listerWatcher {
	s := &listerWatcher{certificates: certificates, failed: failed, incomplete: incomplete, seats: fairshare.New[string](0), timeout: listTimeout}
	s.ListWithContextFunc = func(ctx context.Context, _ metav1.ListOptions) (runtime.Object, error) {
		list, err := s.list(ctx)
		return list, s.noted(err)
	}
	s.WatchFuncWithContext = func(ctx context.Context, o metav1.ListOptions) (apiwatch.Interface, error) {
		stream, err := certificates.CertificateSigningRequests().Watch(ctx, o)
		return stream, s.noted(err)
	}
	return s
}

// IsWatchListSemanticsUnSupported has the requests listed in pages: a list that is streamed ends with the first part
// where it is longer than an answer may be.
func (*listerWatcher) IsWatchListSemanticsUnSupported() bool { return true }

func (s *listerWatcher) noted(err error) error {
	if err != nil {
		s.failed(err)
	}
	return err
}

// list reads all pages. Of each requester it returns the newest requests, and of each and of all no more than are kept,
// the oldest first.
func (s *listerWatcher) list(ctx context.Context) (*certificatesv1.CertificateSigningRequestList, error) {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	open := newest{of: map[string][]int{}, seat: func() bool { return s.seats.Acquire(s.namespace) }}
	defer func() {
		for range open.requests {
			s.seats.Release(s.namespace)
		}
	}()
	next := ""
	var last metav1.ListMeta
	for range maxPages {
		page, err := s.page(ctx, next)
		if err != nil {
			return nil, err
		}
		for i := range page.Items {
			if page.Items[i].ManagedFields = nil; isOpen(&page.Items[i]) {
				open.add(page.Items[i])
			}
		}
		last = page.ListMeta
		if next = page.Continue; next == "" {
			break
		}
	}
	if open.missed || next != "" {
		s.incomplete()
	}
	last.Continue, last.RemainingItemCount = "", nil
	slices.SortStableFunc(open.requests, byAge)
	return &certificatesv1.CertificateSigningRequestList{ListMeta: last, Items: open.requests}, nil
}

func byAge(a, b certificatesv1.CertificateSigningRequest) int {
	return a.CreationTimestamp.Compare(b.CreationTimestamp.Time)
}

// newest collects the newest requests of each requester.
type newest struct {
	requests []certificatesv1.CertificateSigningRequest
	// of are the indexes of the requests of each requester.
	of map[string][]int
	// seat takes a seat for a request, and reports whether there was one.
	seat func() bool
	// missed is true if there was no capacity for a requester's request.
	missed bool
}

func (n *newest) add(csr certificatesv1.CertificateSigningRequest) {
	requester := csr.Spec.Username
	mine := n.of[requester]
	switch {
	case len(mine) >= maxPerRequester:
		oldest := slices.MinFunc(mine, func(a, b int) int { return byAge(n.requests[a], n.requests[b]) })
		if byAge(n.requests[oldest], csr) < 0 {
			n.requests[oldest] = csr
		}
	case len(n.requests) >= maxPerCluster, !n.seat():
		n.missed = true
	default:
		n.of[requester] = append(mine, len(n.requests))
		n.requests = append(n.requests, csr)
	}
}
