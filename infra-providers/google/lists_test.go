// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package google_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	infrav1 "drover.io/api/infrastructure/v1alpha1"
	"drover.io/infra-providers/driver"
	"drover.io/infra-providers/driver/drivertest"
	"drover.io/infra-providers/google/googlefake"
)

// TestListsHaveNoUserData: with the metadata of each instance, which have half a MiB, a page of 500 would be longer than an
// answer may be, and the account could not be listed.
func TestListsHaveNoUserData(t *testing.T) {
	t.Parallel()
	gce := newEnv(t, googlefake.Options{})
	longest := atomic.Int64{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		recorded := httptest.NewRecorder()
		gce.cloud.ServeHTTP(recorded, r)
		if strings.HasSuffix(r.URL.Path, "/aggregated/instances") {
			longest.Store(max(longest.Load(), int64(recorded.Body.Len())))
		}
		w.WriteHeader(recorded.Code)
		_, _ = w.Write(recorded.Body.Bytes())
	}))
	t.Cleanup(server.Close)
	through := gce
	through.url = server.URL
	d := through.connect(t)
	req := newRequest(identity, newConfig(t, unchanged))
	req.UserData = []byte("#cloud-config\n# " + strings.Repeat("x", 200<<10))
	created, err := drivertest.Create(t, d, req)
	if err != nil {
		t.Fatal(err)
	}
	for listed, err := range d.List(t.Context(), identity.Owner) {
		if err != nil || listed.ProviderID != created.ProviderID || listed.State != driver.Running {
			t.Errorf("got %+v and %v, want the instance", listed, err)
		}
	}
	if got := longest.Load(); got == 0 || got > 16<<10 {
		t.Errorf("a list with one instance has %d bytes", got)
	}
}

// TestZoneThatCannotBeListedStopsNoOther: machines that were never requested there are created and deleted.
func TestZoneThatCannotBeListedStopsNoOther(t *testing.T) {
	t.Parallel()
	gce := newEnv(t, googlefake.Options{})
	d := gce.connect(t)
	gce.cloud.Disconnect(googlefake.ZoneB)
	fallsBack := newRequest(identity, newConfig(t, func(s *infrav1.GoogleMachineSpec) {
		s.Fallbacks = []infrav1.GoogleFallback{{Zone: googlefake.ZoneB}}
	}))
	if created, err := drivertest.Create(t, d, fallsBack); err == nil {
		t.Errorf("got %+v, although it may exist in the other zone", created)
	}
	created, err := drivertest.Create(t, d, newRequest(identity, newConfig(t, unchanged)))
	if err != nil {
		t.Fatal(err)
	}
	id := identity
	id.ProviderID = created.ProviderID
	for range 3 {
		err = d.Delete(t.Context(), id)
		_, _ = d.Get(t.Context(), id)
	}
	if left := gce.cloud.Leftovers(); len(left) > 0 {
		t.Errorf("%q is left", left)
	}
	if err == nil {
		t.Error("the deletion is complete, although disks may exist in the other zone")
	}
	gce.cloud.Disconnect("")
	if err := d.Delete(t.Context(), id); err != nil {
		t.Error(err)
	}
}
