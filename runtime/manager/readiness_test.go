// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// lease is held by another replica, and is valid longer than the test runs.
const lease = `{"kind":"Lease","apiVersion":"coordination.k8s.io/v1","metadata":{"name":"drover-test","namespace":"leases"},
"spec":{"holderIdentity":"another","leaseDurationSeconds":3600,"renewTime":"%s"}}`

// startManager starts a manager with one controller of Namespaces. The API server answers their list once it is allowed.
func startManager(t *testing.T, leaderElect bool) (mgr *readyManager, answerList func()) {
	t.Helper()
	allowed := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		switch {
		case r.URL.Path == "/version":
			_, _ = w.Write([]byte(versionAnswer))
		case r.URL.Path == "/api":
			_, _ = w.Write([]byte(`{"kind":"APIVersions","versions":["v1"]}`))
		case r.URL.Path == "/apis":
			_, _ = w.Write([]byte(`{"kind":"APIGroupList","apiVersion":"v1","groups":[]}`))
		case r.URL.Path == "/api/v1":
			_, _ = w.Write([]byte(`{"kind":"APIResourceList","groupVersion":"v1","resources":[{"name":"namespaces","kind":"Namespace","verbs":["list","watch"]}]}`))
		case strings.HasSuffix(r.URL.Path, "/leases/drover-test"), strings.HasSuffix(r.URL.Path, "/leases") && r.Method == http.MethodPost:
			_, _ = fmt.Fprintf(w, lease, time.Now().UTC().Format("2006-01-02T15:04:05.000000Z"))
		case r.URL.Path == "/api/v1/namespaces" && r.URL.Query().Get("sendInitialEvents") == "true":
			w.WriteHeader(http.StatusUnprocessableEntity) // lists are not streamed
			_, _ = w.Write([]byte(`{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Invalid","code":422}`))
		case r.URL.Path == "/api/v1/namespaces" && r.URL.Query().Get("watch") == "":
			select {
			case <-allowed:
				_, _ = w.Write([]byte(`{"kind":"NamespaceList","apiVersion":"v1","metadata":{"resourceVersion":"1"},"items":[]}`))
			case <-r.Context().Done():
			}
		default: // watches
			<-r.Context().Done()
		}
	}))
	useKubeconfig(t, server.URL)
	o, err := Parse("program", []string{
		"--metrics-bind-address=0", "--health-probe-bind-address=0", fmt.Sprintf("--leader-elect=%t", leaderElect), "--leader-election-namespace=leases",
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	made, err := New(t.Context(), "drover-test", o, ctrl.Options{Scheme: scheme.Scheme, Controller: config.Controller{SkipNameValidation: new(true)}})
	if err != nil {
		t.Fatal(err)
	}
	nothing := reconcile.Func(func(context.Context, reconcile.Request) (reconcile.Result, error) { return reconcile.Result{}, nil })
	if err := ctrl.NewControllerManagedBy(made).For(&corev1.Namespace{}).Complete(nothing); err != nil {
		t.Fatal(err)
	}
	if _, err := made.GetCache().GetInformer(t.Context(), &corev1.Namespace{}, cache.BlockUntilSynced(false)); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- made.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		server.CloseClientConnections()
		server.Close()
	})
	return made.(*readyManager), func() { close(allowed) }
}

func (m *readyManager) now(t *testing.T) error {
	t.Helper()
	return m.check(httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/readyz", nil))
}

// awaitReady returns once the manager is ready.
func awaitReady(t *testing.T, mgr *readyManager) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		err := mgr.now(t)
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
}

func TestALeaderIsReadyOnceItsControllersHaveStarted(t *testing.T) {
	mgr, answerList := startManager(t, false)
	if err := mgr.now(t); err == nil {
		t.Error("it is ready before its caches are in sync")
	}
	answerList()
	awaitReady(t, mgr)
	if pending := mgr.pending.Load(); pending != 0 {
		t.Errorf("it is ready while %d controllers have not started", pending)
	}
}

func TestAReplicaThatWaitsIsReadyOnceItsCachesAreInSync(t *testing.T) {
	mgr, answerList := startManager(t, true)
	if err := mgr.now(t); err == nil {
		t.Error("it is ready before its caches are in sync")
	}
	answerList()
	awaitReady(t, mgr)
	select {
	case <-mgr.Elected():
		t.Error("it leads")
	default:
	}
	if pending := mgr.pending.Load(); pending != 1 {
		t.Errorf("%d controllers wait for the Lease, want 1", pending)
	}
}

func TestAManagerEndsWhileItsCachesAreNotInSync(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		mgr := &readyManager{Manager: endlessManager{}}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		begun := time.Now()
		if err := mgr.Start(ctx); err == nil || !strings.Contains(err.Error(), "caches") {
			t.Error("it ends without the reason, although it was never ready")
		}
		if took := time.Since(begun); took < shutdownTimeout || took >= 10*time.Second {
			t.Errorf("it ends after %s, want more than %s and less than the 10s that Deployments grant", took, shutdownTimeout)
		}
		time.Sleep(time.Hour) // the goroutine ends with the test
	})
}

// endlessManager does not end with its context for an hour, and its caches are never in sync.
type endlessManager struct{ ctrl.Manager }

func (endlessManager) GetCache() cache.Cache { return unsyncedCache{} }

type unsyncedCache struct{ cache.Cache }

func (unsyncedCache) WaitForCacheSync(ctx context.Context) bool {
	<-ctx.Done()
	return false
}

func (endlessManager) Start(context.Context) error {
	time.Sleep(time.Hour)
	return nil
}

func TestALeaderWhoseControllersHaveNotStartedIsNotReady(t *testing.T) {
	t.Parallel()
	elected := make(chan struct{})
	close(elected)
	mgr := &readyManager{Manager: electedManager{elected: elected}}
	mgr.pending.Store(2)
	if err := mgr.now(t); err == nil || !strings.Contains(err.Error(), "2 controllers have not started") {
		t.Errorf("got %v", err)
	}
}

// electedManager has nothing but the result of an election.
type electedManager struct {
	ctrl.Manager
	elected chan struct{}
}

func (m electedManager) Elected() <-chan struct{} { return m.elected }
