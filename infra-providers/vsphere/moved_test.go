// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package vsphere_test

import (
	"crypto/tls"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"sync/atomic"
	"testing"

	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25"
	"github.com/vmware/govmomi/vim25/soap"

	"drover.io/infra-providers/driver"
	"drover.io/infra-providers/vsphere/vcenter"
)

// TestAnotherVCenterOfTheSameNameIsNotUsed: the name that a Secret has leads to another vCenter from now on, which takes the
// same password. The Secret did not change.
func TestAnotherVCenterOfTheSameNameIsNotUsed(t *testing.T) {
	t.Parallel()
	first, second := newEnv(t), newEnv(t)
	second.model.Map().Get(vim25.ServiceInstance).(*simulator.ServiceInstance).Content.About.InstanceUuid = "0000beef-bd88-4ef6-b594-21283e1c677f"
	var leads atomic.Pointer[env]
	leads.Store(first)
	proxy := httptest.NewTLSServer(&httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(&url.URL{Scheme: "https", Host: leads.Load().server.URL.Host})
			r.Out.Host = r.In.Host
		},
		Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}},
	})
	t.Cleanup(proxy.Close)
	at := first.account()
	at.Server, at.Thumbprint = proxy.Listener.Addr().String(), soap.ThumbprintSHA1(proxy.Certificate())
	cache := accountsAt(&vcenter.Pool{}, at)
	machine := machineOf("team")
	cloud, err := cache.Driver(t.Context(), machine)
	if err != nil {
		t.Fatal(err)
	}
	if machine.Status.Account, err = cloud.ID(t.Context()); err != nil {
		t.Fatal(err)
	}
	id := identity("1")
	made, err := cloud.Create(t.Context(), req(first, id))
	if err != nil {
		t.Fatal(err)
	}
	id.ProviderID = made.ProviderID

	leads.Store(second)
	for range 3 {
		// The driver of an earlier moment stays with the vCenter that it was opened with.
		if _, err := cloud.Direct.Get(t.Context(), id); !driver.IsAccountMismatch(err) {
			t.Errorf("reading: got %v", err)
		}
		if err := cloud.Direct.Delete(t.Context(), id); !driver.IsAccountMismatch(err) {
			t.Errorf("deleting: got %v", err)
		}
	}
	if _, err := cache.Driver(t.Context(), machine); !driver.IsAccountMismatch(err) {
		t.Errorf("the machine of the first vCenter: got %v", err)
	}
	unpinned, err := cache.Driver(t.Context(), machineOf("team"))
	if err != nil {
		t.Fatal(err)
	}
	if now, err := unpinned.ID(t.Context()); err != nil || now == machine.Status.Account || now == "" {
		t.Errorf("a machine without an account: got %q and %v", now, err)
	}

	leads.Store(first)
	if _, err := unpinned.Direct.Get(t.Context(), id); !driver.IsAccountMismatch(err) {
		t.Errorf("reading with the connection of the second vCenter: got %v", err)
	}
	cloud, err = cache.Driver(t.Context(), machine)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := cloud.Get(t.Context(), id); err != nil {
		t.Errorf("reading in the first vCenter again: %v", err)
	}
}
