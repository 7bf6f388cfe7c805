// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package vcd_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	infrav1 "drover.io/api/infrastructure/v1alpha1"
	"drover.io/infra-providers/driver"
	"drover.io/infra-providers/vcd/vcdfake"
)

// TestServerOfASecretCannotFillTheMemory has answers of a server that a tenant runs: a list without end, and long texts in what is
// cached.
func TestServerOfASecretCannotFillTheMemory(t *testing.T) {
	t.Parallel()
	const uuid = "0a1b2c3d-0000-4000-8000-00000000000f"
	long := "https://vcd.example.com/" + strings.Repeat("a", 4096) + "-" + uuid
	for name, test := range map[string]struct {
		path, contentType, answer string
		change                    func(*infrav1.VCDMachineSpec)
	}{
		"policies without end": {"/computePolicies", "application/json", `{"resultTotal":1073741824,"values":[{"name":"a"},{"name":"b"}]}`, func(s *infrav1.VCDMachineSpec) { s.SizingPolicy = vcdfake.SizingPolicy }},
		"a long ID of a policy": {
			"/computePolicies", "application/json", `{"resultTotal":1,"values":[{"name":"small","isSizingOnly":true,"cpuCount":2,"memory":4096,"id":"` + long + `"}]}`,
			func(s *infrav1.VCDMachineSpec) { s.SizingPolicy = vcdfake.SizingPolicy },
		},
		"a long token": {"/token", "application/json", `{"access_token":"` + long + strings.Repeat("a", 16<<10) + `","expires_in":3600}`, unchanged},
		"a long URL of a template": {
			"/vAppTemplate/", "application/vnd.vmware.vcloud.vAppTemplate+xml",
			`<VAppTemplate xmlns="http://www.vmware.com/vcloud/v1.5" name="t"><Children><Vm name="v" href="` + long + `"/></Children></VAppTemplate>`, unchanged,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newEnv(t, vcdfake.Options{})
			var answers atomic.Int32
			server := httptest.NewServer(http.HandlerFunc(func(out http.ResponseWriter, in *http.Request) {
				switch {
				case !strings.Contains(in.URL.Path, test.path):
					w.cloud.ServeHTTP(out, in)
				case answers.Add(1) > 5:
					http.Error(out, "the list was read on", http.StatusInternalServerError)
				default:
					out.Header().Set("Content-Type", test.contentType)
					fmt.Fprint(out, test.answer)
				}
			}))
			defer server.Close()
			w.url = server.URL
			_, err := w.connect(t).Create(t.Context(), newRequest(identity, newConfig(t, test.change)))
			if err == nil || !strings.Contains(err.Error(), "too long") || answers.Load() != 1 {
				t.Errorf("got %v after %d answers, want a refusal of the first one", err, answers.Load())
			}
		})
	}
}

// TestShortListFails: what a list misses would count as gone.
func TestShortListFails(t *testing.T) {
	t.Parallel()
	w := newEnv(t, vcdfake.Options{ShortLists: true})
	d := w.connect(t)
	for n := range byte(8) { // one more than a page has
		create(t, d, newRequest(numbered(n), newConfig(t, unchanged)))
	}
	var failed error
	for _, err := range d.List(t.Context(), driver.Owner{}) {
		failed = errors.Join(failed, err)
	}
	if failed == nil {
		t.Error("a list that lacks a page did not fail")
	}
}

// TestListShowsWhatIsBusy: a virtual machine that is being started has not been stopped.
func TestListShowsWhatIsBusy(t *testing.T) {
	t.Parallel()
	w := newEnv(t, vcdfake.Options{TaskRequests: 20})
	d := w.connect(t)
	for w.cloud.Counts()["powerOn"] == 0 {
		if _, err := d.Create(t.Context(), newRequest(identity, newConfig(t, unchanged))); err != nil && !driver.IsUnfinished(err) {
			t.Fatal(err)
		}
	}
	for found, err := range d.List(t.Context(), driver.Owner{}) {
		if err != nil || found.State != driver.Pending {
			t.Errorf("got the state %q and %v, want %q", found.State, err, driver.Pending)
		}
	}
}

// TestFailedDeletionIsReported: a task of a deletion that fails each time is not started again without a word.
func TestFailedDeletionIsReported(t *testing.T) {
	t.Parallel()
	for _, operation := range []string{"vappUndeployPowerOff", "vappDetachDisk", "vappDeleteVm"} {
		failures := 2
		w := newEnv(t, vcdfake.Options{FailTasks: func(of string) bool {
			fails := of == operation && failures > 0
			if fails {
				failures--
			}
			return fails
		}})
		d, seen := w.connect(t), 0
		id := identity
		created := create(t, d, newRequest(id, newConfig(t, unchanged)))
		id.ProviderID = created.ProviderID
		w.cloud.Attach(created.ID)
		for range 50 {
			err := d.Delete(t.Context(), id)
			if err != nil && strings.HasSuffix(err.Error(), "INTERNAL_SERVER_ERROR: The operation "+operation+" failed.") {
				seen++
			} else if err != nil && !driver.IsUnfinished(err) {
				t.Fatal(err)
			}
			if driver.IsNotFound(get(t, d, id)) {
				break
			}
		}
		if seen != 2 {
			t.Errorf("%s: %d failures were reported, want 2", operation, seen)
		}
		if left := w.cloud.Leftovers(); len(left) > 0 {
			t.Errorf("%s: %q is left", operation, left)
		}
	}
}

// TestPropertiesOfTheTemplateMayStay creates a machine in a Director that keeps an OVF property which the driver did not set.
func TestPropertiesOfTheTemplateMayStay(t *testing.T) {
	t.Parallel()
	w := newEnv(t, vcdfake.Options{KeepProperties: true})
	create(t, w.connect(t), newRequest(identity, newConfig(t, unchanged)))
	if got := w.cloud.Counts()["setProductSections"]; got != 1 {
		t.Errorf("the bootstrap data was set %d times, want once", got)
	}
}

// TestRefusalOfALoginIsKeptShort: it is returned for a while, and its text is the server's.
func TestRefusalOfALoginIsKeptShort(t *testing.T) {
	t.Parallel()
	w := newEnv(t, vcdfake.Options{})
	server := httptest.NewServer(http.HandlerFunc(func(out http.ResponseWriter, in *http.Request) {
		if !strings.Contains(in.URL.Path, "/token") {
			w.cloud.ServeHTTP(out, in)
			return
		}
		out.Header().Set("Content-Type", "application/json")
		out.WriteHeader(http.StatusUnauthorized)
		fmt.Fprintf(out, `{"minorErrorCode":"UNAUTHORIZED","message":%q}`, strings.Repeat("x", 1<<20))
	}))
	defer server.Close()
	w.url = server.URL
	d := w.connect(t)
	for range 2 {
		if _, err := d.Get(t.Context(), identity); !driver.IsUnauthorized(err) || len(err.Error()) > 8192 {
			t.Errorf("got %.200v", err)
		}
	}
}
