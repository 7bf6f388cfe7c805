// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package metalstack_test

import (
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	infrav1 "drover.io/api/infrastructure/v1alpha1"
	"drover.io/infra-providers/driver"
	"drover.io/infra-providers/driver/drivertest"
	"drover.io/infra-providers/metalstack/metalstackfake"
)

func answer(status int, body string, header map[string]string) roundTrip {
	return func(r *http.Request) (*http.Response, error) {
		answered := &http.Response{StatusCode: status, Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader(body)), Request: r}
		for key, value := range header {
			answered.Header.Set(key, value)
		}
		return answered, nil
	}
}

// TestErrorsOfAnyCall has the kinds by status, and a text that is the same at each call.
func TestErrorsOfAnyCall(t *testing.T) {
	t.Parallel()
	w := newEnv(t, metalstackfake.Options{})
	id := identity
	id.ProviderID = "metal://" + metalstackfake.PartitionA + "/00000000-0000-4000-8000-110000000001"
	for name, test := range map[string]struct {
		transport roundTrip
		is        func(error) bool
		text      string
	}{
		"no token":   {answer(401, `{"statuscode": 401, "message": "no auth"}`, nil), driver.IsUnauthorized, "the metal-api: 401 Unauthorized: no auth"},
		"no member":  {answer(403, `{"statuscode": 403, "message": "you are not member"}`, nil), driver.IsUnauthorized, "the metal-api: 403 Forbidden: you are not member"},
		"a proxy":    {answer(403, `<html>`, nil), driver.IsUnauthorized, "the metal-api: 403 Forbidden"},
		"no machine": {noMachine, driver.IsNotFound, `allocation of machine "worker-1" does not exist`},
		"a proxy without the path": {answer(404, `404 page not found`, nil), drivertest.HasNoKind,
			`reading machine "00000000-0000-4000-8000-110000000001": the metal-api: 404 Not Found`},
		"another 404":   {answer(404, `{"statuscode": 200, "message": "x"}`, nil), drivertest.HasNoKind, ""},
		"too many":      {answer(429, `slow down`, map[string]string{"Retry-After": "7"}), driver.IsRateLimited, "the metal-api: 429 Too Many Requests"},
		"a broken one":  {answer(500, `{"statuscode": 500, "message": "Internal of 5e000000-0000-4000-8000-000000000001"}`, nil), drivertest.HasNoKind, `reading machine "00000000-0000-4000-8000-110000000001": the metal-api: 500 Internal Server Error: Internal of …`},
		"a redirection": {answer(302, ``, map[string]string{"Location": "http://192.0.2.1/"}), drivertest.HasNoKind, ""},
		"no JSON":       {answer(200, `<html>`, nil), drivertest.HasNoKind, ""},
		"no server": {func(*http.Request) (*http.Response, error) {
			return nil, &net.OpError{Op: "dial", Net: "tcp", Addr: &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 41234}, Err: errors.New("connection refused")}
		}, drivertest.HasNoKind, "calling the metal-api: dial: connection refused"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := w.connectThrough(t, test.transport).Get(t.Context(), id)
			if !test.is(err) {
				t.Fatalf("got %v", err)
			}
			if test.text != "" && err.Error() != test.text {
				t.Errorf("got the text %q, want %q", err, test.text)
			}
			if driver.IsRateLimited(err) && driver.RetryAfter(err) != 7*time.Second {
				t.Errorf("retry after %s", driver.RetryAfter(err))
			}
		})
	}
}

// noMachine is an API without machines.
func noMachine(r *http.Request) (*http.Response, error) {
	if strings.HasSuffix(r.URL.Path, "/find") {
		return answer(200, `[]`, nil)(r)
	}
	if strings.HasSuffix(r.URL.Path, "/project/"+metalstackfake.Project) {
		return answer(200, `{"name": "workers", "meta": {"id": "`+metalstackfake.Project+`"}}`, nil)(r)
	}
	return answer(404, `{"statuscode": 404, "message": "NotFound no machine"}`, nil)(r)
}

// TestMachineWhoseSizeWasDeleted is read with "not found", as the API permits to delete a size that machines have. It is not gone.
func TestMachineWhoseSizeWasDeleted(t *testing.T) {
	t.Parallel()
	w := newEnv(t, metalstackfake.Options{})
	d := w.connect(t)
	id := identity
	id.ProviderID = mustCreate(t, d, id).ProviderID
	w.clock.Advance(window)
	refuse := func() {
		for range 3 {
			w.cloud.RefuseOperation("findMachine", 404, "error finding size c1-xlarge-x86: NotFound no size")
		}
	}
	refuse()
	if _, err := d.Get(t.Context(), id); err != nil {
		t.Errorf("reading: %v", err)
	}
	refuse()
	wantDeleted(t, w, d, id)
}

// TestAddressOfAHiddenMachineIsKept: somebody replaces the tags of a machine, which hides it. Its address goes with it, and not to
// the next machine.
func TestAddressOfAHiddenMachineIsKept(t *testing.T) {
	t.Parallel()
	w := newEnv(t, metalstackfake.Options{})
	d := w.connect(t)
	id := identity
	created := mustCreate(t, d, id)
	id.ProviderID = created.ProviderID
	w.cloud.Retag(created.ID, "mine")
	w.clock.Advance(window)
	if _, err := d.Create(t.Context(), newRequest(t, identity)); err == nil || !strings.Contains(err.Error(), "have the tags restored") {
		t.Errorf("creating another: %v", err)
	}
	before := w.cloud.Changes()
	_ = d.Delete(t.Context(), id) // whatever it answers
	if got := w.cloud.Changes(); got != before {
		t.Errorf("%d changes were made", got-before)
	}
	for _, err := range d.AttachedObjects(t.Context(), identity.Owner) {
		t.Errorf("its address is reported as left, error %v", err)
	}
}

// TestRefusals has the field of each refusal of an allocation, and what the project or the partition lacks.
func TestRefusals(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		change func(*infrav1.MetalStackMachineSpec)
		before func(*metalstackfake.Cloud)
		is     func(error) bool
		text   string
	}{
		"size":  {func(s *infrav1.MetalStackMachineSpec) { s.Size = "huge" }, nil, driver.IsInvalidConfiguration, `spec.size: there is no size "huge"`},
		"image": {func(s *infrav1.MetalStackMachineSpec) { s.Image = "plan9-4.0" }, nil, driver.IsInvalidConfiguration, `spec.image: there is no image "plan9-4.0"`},
		"a database that fails": {unchanged, func(c *metalstackfake.Cloud) {
			c.RefuseOperation("findLatestImage", 422, "cannot list image from database")
		}, drivertest.HasNoKind, "reading the image: the metal-api: 422"},
		"partition": {func(s *infrav1.MetalStackMachineSpec) {
			s.Partition, s.PrivateNetworks[0].Partition = "gone", "gone"
		}, nil, driver.IsInvalidConfiguration, `spec.privateNetworks: the network`},
		"network":         {func(s *infrav1.MetalStackMachineSpec) { s.PrivateNetworks[0].NetworkID = "gone" }, nil, driver.IsInvalidConfiguration, `spec.privateNetworks: there is no network "gone"`},
		"public network":  {func(s *infrav1.MetalStackMachineSpec) { s.PrivateNetworks[0].NetworkID = metalstackfake.Internet }, nil, driver.IsInvalidConfiguration, `spec.privateNetworks: the network "internet" is in the partition`},
		"further network": {func(s *infrav1.MetalStackMachineSpec) { s.Networks = []infrav1.MetalStackNetwork{{NetworkID: "gone"}} }, nil, driver.IsInvalidConfiguration, `spec.networks[0].networkID`},
		"second private network": {func(s *infrav1.MetalStackMachineSpec) {
			s.Networks = []infrav1.MetalStackNetwork{{NetworkID: metalstackfake.Internet}, {NetworkID: metalstackfake.DualNetwork}}
		}, nil, driver.IsInvalidConfiguration, `spec.networks[1].networkID: the network "` + metalstackfake.DualNetwork + `" is a private one, and a machine has only one`},
		"shared private network": {func(s *infrav1.MetalStackMachineSpec) {
			s.Networks = []infrav1.MetalStackNetwork{{NetworkID: metalstackfake.SharedNetwork}}
		}, nil, driver.IsInvalidConfiguration, `spec.networks[0].networkID: the network "` + metalstackfake.SharedNetwork + `" is a private one, and a machine has only one`},
		"super network": {func(s *infrav1.MetalStackMachineSpec) {
			s.Networks = []infrav1.MetalStackNetwork{{NetworkID: metalstackfake.SuperNetwork}}
		}, nil, driver.IsInvalidConfiguration, `spec.networks[0].networkID: the network "super-a" is a super network`},
		"layout":  {func(s *infrav1.MetalStackMachineSpec) { s.FilesystemLayout = "gone" }, nil, driver.IsInvalidConfiguration, `spec.filesystemLayout`},
		"address": {func(s *infrav1.MetalStackMachineSpec) { s.IPs = []string{"203.0.113.77"} }, nil, driver.IsInvalidConfiguration, `spec.ips[0]: the address 203.0.113.77 is not allocated`},
		"address of no network": {func(s *infrav1.MetalStackMachineSpec) { s.IPs = []string{metalstackfake.StaticIP} }, nil, driver.IsInvalidConfiguration,
			`spec.ips[0]: the address 203.0.113.129 is in none of the networks`},
		"no machine of the size": {func(s *infrav1.MetalStackMachineSpec) { s.Size = metalstackfake.NoMachines }, nil, driver.IsInsufficientCapacity, `no capacity for "g1-medium-x86" in "fra-equ01": the metal-api: 422`},
		"no free machine":        {unchanged, (*metalstackfake.Cloud).SellOut, driver.IsInsufficientCapacity, `no capacity for "c1-xlarge-x86"`},
		"no quota":               {unchanged, (*metalstackfake.Cloud).Fill, driver.IsQuotaExceeded, `the project's quota of 1 machines is used up: the metal-api: 422`},
		"nothing that can be read": {unchanged, func(c *metalstackfake.Cloud) {
			c.RefuseOperation("allocateMachine", 422, "too many parallel machine allocations taking place, try again later")
		}, drivertest.HasNoKind, "allocating a machine: the metal-api: 422 Unprocessable Entity: too many parallel machine allocations taking place, try again later"},
		"an answer of a proxy": {unchanged, func(c *metalstackfake.Cloud) { c.RefuseOperation("allocateMachine", 502, "bad gateway") }, drivertest.HasNoKind, "allocating a machine: the metal-api: 502"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newEnv(t, metalstackfake.Options{})
			d := w.connect(t)
			if test.before != nil {
				test.before(w.cloud)
			}
			req := newRequest(t, identity)
			req.Config = newConfig(t, test.change)
			_, err := d.Create(t.Context(), req)
			if !test.is(err) || !strings.HasPrefix(err.Error(), test.text) {
				t.Errorf("got %v, want %q", err, test.text)
			}
			if name != "an answer of a proxy" {
				wantDeleted(t, w, d, identity)
			}
		})
	}
}

// TestIgnitionIsRefused before anything is called.
func TestIgnitionIsRefused(t *testing.T) {
	t.Parallel()
	w := newEnv(t, metalstackfake.Options{})
	req := newRequest(t, identity)
	req.Format = "ignition"
	if _, err := w.connect(t).Create(t.Context(), req); !driver.IsInvalidConfiguration(err) || len(w.cloud.Calls()) > 0 {
		t.Errorf("got %v after %q", err, w.cloud.Calls())
	}
}

// TestTagNeedsAnAdministrator, and nothing else does.
func TestTagNeedsAnAdministrator(t *testing.T) {
	t.Parallel()
	w := newEnv(t, metalstackfake.Options{})
	secret := w.secret()
	secret["METAL_API_HMAC"], secret["METAL_API_HMAC_AUTH_TYPE"] = []byte(metalstackfake.EditHMAC), nil
	connected, err := w.description(nil).Connect(t.Context(), driver.Account{SecretName: "metal", Region: metalstackfake.Project}, secret)
	if err != nil {
		t.Fatal(err)
	}
	created, err := connected.Create(t.Context(), newRequest(t, identity))
	if err != nil {
		t.Fatal(err)
	}
	moved := identity
	moved.Owner.UID, moved.ProviderID = "moved", created.ProviderID
	if err := connected.(driver.Tagger).Tag(t.Context(), moved); !driver.IsUnauthorized(err) {
		t.Errorf("tagging as an editor: %v", err)
	}
	if err := connected.(driver.Restarter).Restart(t.Context(), moved); err != nil {
		t.Errorf("restarting as an editor: %v", err)
	}
	if err := connected.Delete(t.Context(), moved); err != nil {
		t.Errorf("deleting as an editor: %v", err)
	}
}
