// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package vsphere_test

import (
	"context"
	"encoding/pem"
	"net/http"
	"net/http/httptrace"
	"slices"
	"sync"
	"testing"
	"time"

	infrav1 "drover.io/api/infrastructure/v1alpha1"
	"drover.io/infra-providers/driver"
	"drover.io/infra-providers/vsphere"
	"drover.io/infra-providers/vsphere/vcenter"
)

// TestOneSessionPerAccount: vCenter has few sessions to give.
func TestOneSessionPerAccount(t *testing.T) {
	t.Parallel()
	w := newEnv(t)
	var workers sync.WaitGroup
	for range 20 {
		workers.Go(func() {
			if _, err := w.connect().Get(t.Context(), identity("1")); !driver.IsNotFound(err) {
				t.Errorf("got %v", err)
			}
		})
	}
	workers.Wait()
	if got := w.wire.count("Login"); got != 1 {
		t.Errorf("%d logins, want 1", got)
	}
	if got := len(w.sessions()); got != 1 {
		t.Errorf("%d sessions, want 1", got)
	}
	if err := w.pool.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
	if got := len(w.sessions()); got != 0 {
		t.Errorf("%d sessions are left after the end", got)
	}
}

// TestConnectionIsReused: a new one for each call would cost a TLS handshake each time.
func TestConnectionIsReused(t *testing.T) {
	t.Parallel()
	w := newEnv(t)
	d := w.connect()
	made, err := d.Create(t.Context(), req(w, identity("1")))
	if err != nil {
		t.Fatal(err)
	}
	var calls, opened int
	traced := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{GotConn: func(info httptrace.GotConnInfo) {
		if calls++; !info.Reused {
			opened++
		}
	}})
	for range 5 {
		if _, err := d.Get(traced, made.Identity); err != nil {
			t.Fatal(err)
		}
	}
	if calls < 5 || opened > 1 {
		t.Errorf("%d calls opened %d connections, want at most 1", calls, opened)
	}
}

// TestEndedSessionIsRenewed: by the first call that fails for it, once for all.
func TestEndedSessionIsRenewed(t *testing.T) {
	t.Parallel()
	w := newEnv(t)
	d := w.connect()
	for n := range 3 {
		if _, err := d.Create(t.Context(), req(w, identity(string(rune('1'+n))))); err != nil {
			t.Fatal(err)
		}
		w.endSessions()
		var workers sync.WaitGroup
		for range 10 {
			workers.Go(func() {
				if _, err := d.Get(t.Context(), identity("9")); !driver.IsNotFound(err) {
					t.Errorf("got %v", err)
				}
			})
		}
		workers.Wait()
		if got := w.wire.count("Login"); got != n+2 {
			t.Errorf("%d logins after %d sessions ended, want %d", got, n+1, n+2)
		}
	}
}

func TestFirstCallLogsIn(t *testing.T) {
	t.Parallel()
	w := newEnv(t)
	authority := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: w.server.Certificate().Raw})
	for name, test := range map[string]struct {
		change func(*vcenter.Account)
		is     func(error) bool
	}{
		"takes a thumbprint":             {func(*vcenter.Account) {}, driver.IsNotFound},
		"takes a certificate":            {func(a *vcenter.Account) { a.Thumbprint, a.CA = "", string(authority) }, driver.IsNotFound},
		"takes anything if told so":      {func(a *vcenter.Account) { a.Thumbprint, a.Insecure = "", true }, driver.IsNotFound},
		"refuses an unknown certificate": {func(a *vcenter.Account) { a.Thumbprint = "" }, driver.IsUnauthorized},
		"refuses another thumbprint":     {func(a *vcenter.Account) { a.Thumbprint = "00:11:22:33:44:55:66:77:88:99:AA:BB:CC:DD:EE:FF:00:11:22:33" }, failed},
		"refuses a wrong password":       {func(a *vcenter.Account) { a.Password = "wrong" }, driver.IsUnauthorized},
		"refuses a wrong datacenter":     {func(a *vcenter.Account) { a.Datacenter = "nope" }, driver.IsInvalidConfiguration},
		"refuses a broken authority":     {func(a *vcenter.Account) { a.CA = "nonsense" }, failed},
		"fails without a listener":       {func(a *vcenter.Account) { a.Server = "127.0.0.1:1" }, failed},
		"takes the named datacenter":     {func(a *vcenter.Account) { a.Datacenter = "DC0" }, driver.IsNotFound},
		"refuses nonsense for server":    {func(a *vcenter.Account) { a.Server = "http://" }, failed},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			account := w.account()
			test.change(&account)
			d := vsphere.New(w.pool.Open(account), vsphere.Options{PageSize: 7, Now: now})
			_, err := d.Get(t.Context(), identity("1"))
			for _, failure := range d.List(t.Context(), driver.Owner{}) {
				err = failure
			}
			if account.Datacenter != "nope" && err == nil {
				_, err = d.Get(t.Context(), identity("1"))
			}
			if !test.is(err) {
				t.Errorf("got %v", err)
			}
		})
	}
}

// failed is any failure that is not taken for the absence of a machine.
func failed(err error) bool { return err != nil && !driver.IsNotFound(err) }

// attachTag is the call of the REST API that attaches a tag.
const attachTag = "POST /rest/com/vmware/cis/tagging/tag-association"

// TestLifecycleWithEndedSessions: whatever is the next call, be it of the SOAP or of the REST API, it may be the
// one that finds its session gone.
func TestLifecycleWithEndedSessions(t *testing.T) {
	t.Parallel()
	w := newEnv(t)
	w.tag("cost", "green")
	d, id := w.connect(), identity("1")
	request := req(w, id, func(spec *infrav1.VSphereMachineSpec) {
		spec.Tags, spec.AntiAffinityGroup = []string{"cost/green"}, "web"
	})
	if _, err := d.Create(t.Context(), request); err != nil {
		t.Fatal(err)
	}
	until(t, "running machine", func() bool {
		w.endSessions()
		w.wire.clear()
		w.wire.add(&rule{methods: []string{attachTag}, answer: &answer{status: http.StatusUnauthorized}})
		found, err := d.Provision(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		return found.State == driver.Running
	})
	w.wire.clear()
	if got := w.wire.count("POST /rest/com/vmware/cis/session"); got != 2 {
		t.Errorf("%d logins to the REST API, want one and one more", got)
	}
	if got := w.tagged(w.machine("worker-1").Self); !slices.Equal(got, []string{"green"}) {
		t.Errorf("tags %q", got)
	}
	until(t, "end", func() bool {
		w.endSessions()
		if err := d.Delete(t.Context(), id); err != nil {
			t.Fatal(err)
		}
		_, err := d.Get(t.Context(), id)
		return driver.IsNotFound(err)
	})
	if got := w.wire.count("CloneVM_Task"); got != 1 {
		t.Errorf("%d clones for one machine", got)
	}
	if left := w.leftovers(); len(left) > 0 {
		t.Errorf("the cloud still has %q", left)
	}
	if got := len(w.sessions()); got > 1 {
		t.Errorf("%d sessions, want 1", got)
	}
}

// TestRefusedPasswordIsSeldomTried: directories lock an account after some logins that failed, and then every other program
// that uses it cannot log in either.
func TestRefusedPasswordIsSeldomTried(t *testing.T) {
	t.Parallel()
	w := newEnv(t)
	w.pool.Now = w.now
	w.stopClock()
	d := w.connect()
	if _, err := d.Get(t.Context(), identity("1")); !driver.IsNotFound(err) {
		t.Fatal(err)
	}
	w.endSessions()
	w.wire.reset()
	w.wire.add(&rule{methods: []string{"Login"}, answer: fault("InvalidLogin"), forever: true})
	elsewhere := w.account()
	elsewhere.Datacenter = "DC0"
	tryAll := func() {
		t.Helper()
		for _, d := range []*vsphere.Driver{d, vsphere.New(w.pool.Open(elsewhere), vsphere.Options{PageSize: 7, Now: w.now})} {
			for range 10 {
				if _, err := d.Get(t.Context(), identity("1")); !driver.IsUnauthorized(err) {
					t.Fatalf("got %v, want an UnauthorizedError", err)
				}
			}
		}
	}
	for range 30 {
		tryAll()
		w.ahead.Add(int64(time.Minute))
	}
	if got := w.wire.count("Login"); got < 5 || got > 8 {
		t.Errorf("%d logins in half an hour", got)
	}

	other := w.account()
	other.Password = "another"
	logins := w.wire.count("Login")
	if _, err := vsphere.New(w.pool.Open(other), vsphere.Options{Now: w.now}).Get(t.Context(), identity("1")); !driver.IsUnauthorized(err) || w.wire.count("Login") != logins+1 {
		t.Errorf("another password was not tried at once: %v", err)
	}
	w.wire.clear()
	w.ahead.Add(int64(5 * time.Minute))
	if _, err := d.Get(t.Context(), identity("1")); !driver.IsNotFound(err) {
		t.Errorf("after the password was put right: %v", err)
	}
}

// TestRESTAPIRefusesTheCredentials: it has a login of its own.
func TestRESTAPIRefusesTheCredentials(t *testing.T) {
	t.Parallel()
	w := newEnv(t)
	w.wire.add(&rule{methods: []string{"POST /rest/com/vmware/cis/session"}, answer: &answer{status: http.StatusUnauthorized}})
	_, err := w.connect().Create(t.Context(), req(w, identity("1"), func(spec *infrav1.VSphereMachineSpec) { spec.Tags = []string{"cost/green"} }))
	if !driver.IsUnauthorized(err) {
		t.Errorf("got %v, want an UnauthorizedError", err)
	}
}

// endSessions ends those of the driver.
func (w *env) endSessions() {
	w.t.Helper()
	for _, session := range w.sessions() {
		if err := w.admin.SessionManager.TerminateSession(w.t.Context(), []string{session.Key}); err != nil {
			w.t.Fatal(err)
		}
	}
}

// TestEveryCallHasADeadline, whatever the caller's is: a vCenter that accepts connections and never answers must not
// hold a worker for ever. That no call lacks one is checked at the end of each test with an env; this one makes every
// kind of call.
func TestEveryCallHasADeadline(t *testing.T) {
	t.Parallel()
	w := newEnv(t)
	w.tag("cost", "green")
	d, id := w.connect(), identity("1")
	request := req(w, id, func(spec *infrav1.VSphereMachineSpec) {
		spec.Tags, spec.AntiAffinityGroup, spec.StoragePolicy, spec.Datastore = []string{"cost/green"}, "web", "vSAN Default Storage Policy", "LocalDS_0"
	})
	if _, err := d.Create(t.Context(), request); err != nil {
		t.Fatal(err)
	}
	await(t, d, id, driver.Running)
	for _, err := range d.List(t.Context(), driver.Owner{}) {
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := d.Delete(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	await(t, d, id, driver.Terminated)
	for _, call := range []string{"Login", "CloneVM_Task", "PbmQueryProfile", "POST /rest/com/vmware/cis/session", "DestroyView"} {
		if w.wire.count(call) == 0 {
			t.Errorf("there was no call %s", call)
		}
	}
}

// TestNamesAreLookedUpOnceForAScaleUp: the machines of one template name the same things.
func TestNamesAreLookedUpOnceForAScaleUp(t *testing.T) {
	t.Parallel()
	w := newEnv(t)
	d := w.connect()
	var calls []int
	for _, n := range []string{"1", "2", "3"} {
		w.wire.reset()
		if _, err := d.Create(t.Context(), req(w, identity(n))); err != nil {
			t.Fatal(err)
		}
		calls = append(calls, w.wire.total())
	}
	if calls[1]+5 > calls[0] || calls[2] > calls[1] {
		t.Errorf("the creations made %d calls", calls)
	}
}
