// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package digitalocean_test

import (
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	infrav1 "drover.io/api/infrastructure/v1alpha1"
	"drover.io/infra-providers/digitalocean"
	"drover.io/infra-providers/digitalocean/claim"
	"drover.io/infra-providers/digitalocean/digitaloceanfake"
	"drover.io/infra-providers/driver"
	"drover.io/infra-providers/driver/drivertest"
)

// attempts bounds the retries of a call.
const attempts = 100

func identity(name string) driver.Identity {
	return driver.Identity{UID: types.UID("00000000-0000-4000-8000-" + name), Name: name, Owner: driver.Owner{UID: "c", Namespace: "team", Name: "home"}}
}

func newRequest(t *testing.T, name string, spec infrav1.DigitalOceanMachineSpec) driver.CreateRequest[digitalocean.InstanceConfig] {
	t.Helper()
	return driver.CreateRequest[digitalocean.InstanceConfig]{Identity: identity(name), Config: newConfig(t, spec), UserData: []byte("#cloud-config\n"), Format: "cloud-config"}
}

// mustCreate creates an instance by one process.
func mustCreate(t *testing.T, by *digitalocean.Driver, req driver.CreateRequest[digitalocean.InstanceConfig]) driver.Instance {
	t.Helper()
	var err error
	for range attempts {
		var created driver.Instance
		if created, err = by.Create(t.Context(), req); err == nil {
			return created
		}
	}
	t.Fatalf("creating %s: %v", req.Identity.Name, err)
	return driver.Instance{}
}

// mustDelete deletes an instance and waits until it is not found, as the reconciler does.
func mustDelete(t *testing.T, by *digitalocean.Driver, id driver.Identity) {
	t.Helper()
	var err error
	for range attempts {
		if err = by.Delete(t.Context(), id); err != nil {
			continue
		}
		if _, err = by.Get(t.Context(), id); driver.IsNotFound(err) {
			if err = by.Delete(t.Context(), id); err == nil {
				return
			}
		}
	}
	t.Fatalf("deleting %s: %v", id.Name, err)
}

func wantNoLeftovers(t *testing.T, cloud *digitaloceanfake.Cloud) {
	t.Helper()
	if left := cloud.Leftovers(); len(left) > 0 {
		t.Errorf("the cloud still has %q", left)
	}
}

func wantDroplets(t *testing.T, cloud *digitaloceanfake.Cloud, want int) {
	t.Helper()
	if found := cloud.Droplets(); len(found) != want {
		t.Fatalf("the cloud has %d Droplets, want %d: %+v", len(found), want, found)
	}
}

// after returns the driver of another process, whose clock is ahead.
func after(t *testing.T, cloud *digitaloceanfake.Cloud, passed time.Duration) *digitalocean.Driver {
	t.Helper()
	return connectAt(t, cloud, drivertest.ClockFunc(func() time.Time { return time.Now().Add(passed) }), http.DefaultTransport)
}

// TestLostAnswers loses the answer to each request that changes something, and continues by the same process at once, and
// by another one after the claim has expired.
func TestLostAnswers(t *testing.T) {
	t.Parallel()
	for operation, spec := range map[string]infrav1.DigitalOceanMachineSpec{
		"POST /v2/account/keys":        fullSpec(),
		"POST /v2/volumes":             fullSpec(),
		"POST /v2/droplets":            fullSpec(),
		"PUT /v2/account/keys/{id}":    fullSpec(),
		"POST /v2/reserved_ips":        fullSpec(),
		"DELETE /v2/account/keys/{id}": minimalSpec(),
	} {
		t.Run(operation+" by the same process", func(t *testing.T) {
			t.Parallel()
			cloud := newEnv(t, digitaloceanfake.Options{ActionDelay: 2, TagDelay: 1, ListDelay: 4})
			d := connect(t, cloud)
			cloud.LoseOperation(operation)
			created := mustCreate(t, d, newRequest(t, "m", spec))
			wantDroplets(t, cloud, 1)
			mustDelete(t, d, created.Identity)
			wantNoLeftovers(t, cloud)
		})
		t.Run(operation+" by another process", func(t *testing.T) {
			t.Parallel()
			cloud := newEnv(t, digitaloceanfake.Options{ActionDelay: 2, TagDelay: 1, ListDelay: 4})
			cloud.LoseOperation(operation)
			_, _ = connect(t, cloud).Create(t.Context(), newRequest(t, "m", spec))
			d := after(t, cloud, claim.Window)
			created := mustCreate(t, d, newRequest(t, "m", spec))
			wantDroplets(t, cloud, 1)
			mustDelete(t, d, created.Identity)
			wantNoLeftovers(t, cloud)
		})
	}
}

// TestRacingCallersRequestOneDroplet has eight processes, and tags and lists that are late.
func TestRacingCallersRequestOneDroplet(t *testing.T) {
	t.Parallel()
	for name, spec := range map[string]infrav1.DigitalOceanMachineSpec{"minimal spec": minimalSpec(), "full spec": fullSpec()} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cloud := newEnv(t, digitaloceanfake.Options{ActionDelay: 3, TagDelay: 30, ListDelay: 60})
			req := newRequest(t, "m", spec)
			var callers sync.WaitGroup
			for range 8 {
				d := connect(t, cloud)
				callers.Go(func() {
					for range 10 {
						_, _ = d.Create(t.Context(), req)
					}
				})
			}
			callers.Wait()
			wantDroplets(t, cloud, 1)
			created := mustCreate(t, connect(t, cloud), req)
			wantDroplets(t, cloud, 1)
			if requests := count(cloud, "POST /v2/droplets"); requests != 1 {
				t.Errorf("a Droplet was requested %d times", requests)
			}
			mustDelete(t, connect(t, cloud), created.Identity)
			wantNoLeftovers(t, cloud)
		})
	}
}

func count(cloud *digitaloceanfake.Cloud, operation string) (n int) {
	for _, call := range cloud.Calls() {
		if call == operation {
			n++
		}
	}
	return n
}

// TestRequestAfterItsClaimExpiredIsRefused carries a request out after another process has taken over: it names a key that
// does not exist any more.
func TestRequestAfterItsClaimExpiredIsRefused(t *testing.T) {
	t.Parallel()
	cloud := newEnv(t, digitaloceanfake.Options{})
	req := newRequest(t, "m", minimalSpec())
	stop, release := cloud.Hold("POST /v2/droplets")
	if _, err := connect(t, cloud).Create(t.Context(), req); err == nil || driver.IsInvalidConfiguration(err) {
		t.Fatalf("got %v, want a transient error", err)
	}
	stop()
	for name, d := range map[string]*digitalocean.Driver{"at once": connect(t, cloud), "four minutes later": after(t, cloud, 4*time.Minute)} {
		if _, err := d.Create(t.Context(), req); err == nil || driver.IsInvalidConfiguration(err) {
			t.Errorf("creating %s: got %v, want a transient error", name, err)
		}
		if _, err := d.Get(t.Context(), req.Identity); err == nil || driver.IsNotFound(err) {
			t.Errorf("reading %s: got %v, want a transient error", name, err)
		}
		if err := d.Delete(t.Context(), req.Identity); err == nil || driver.IsInvalidConfiguration(err) {
			t.Errorf("deleting %s: got %v, want a transient error", name, err)
		}
	}
	created := mustCreate(t, after(t, cloud, claim.Window+time.Second), req)
	if err := release(); err == nil || !strings.Contains(err.Error(), "invalid key identifiers") {
		t.Errorf("the late request got %v, want a refusal of its key", err)
	}
	wantDroplets(t, cloud, 1)
	mustDelete(t, connect(t, cloud), created.Identity)
	wantNoLeftovers(t, cloud)
}

// TestLateRequestIsFoundWithinTheWindow carries a request out before another process takes over.
func TestLateRequestIsFoundWithinTheWindow(t *testing.T) {
	t.Parallel()
	cloud := newEnv(t, digitaloceanfake.Options{})
	req := newRequest(t, "m", minimalSpec())
	_, release := cloud.Hold("POST /v2/droplets")
	if _, err := connect(t, cloud).Create(t.Context(), req); err == nil {
		t.Fatal("no request was held")
	}
	if err := release(); err != nil {
		t.Fatal(err)
	}
	created := mustCreate(t, after(t, cloud, 24*time.Hour), req)
	wantDroplets(t, cloud, 1)
	mustDelete(t, connect(t, cloud), created.Identity)
	wantNoLeftovers(t, cloud)
}

// TestRetryAfterADay repeats creations after 24 hours: of a request that never arrived, and of one whose answer was lost.
func TestRetryAfterADay(t *testing.T) {
	t.Parallel()
	for name, fail := range map[string]func(*digitaloceanfake.Cloud){
		"a request that never arrived": func(c *digitaloceanfake.Cloud) {
			c.RefuseOperation("POST /v2/droplets", http.StatusInternalServerError, "server_error")
		},
		"a request whose answer was lost":  func(c *digitaloceanfake.Cloud) { c.LoseOperation("POST /v2/droplets") },
		"a claim whose answer was lost":    func(c *digitaloceanfake.Cloud) { c.LoseOperation("POST /v2/account/keys") },
		"a request that lists do not show": func(c *digitaloceanfake.Cloud) { c.Hide() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cloud := newEnv(t, digitaloceanfake.Options{})
			req := newRequest(t, "m", minimalSpec())
			fail(cloud)
			_, _ = connect(t, cloud).Create(t.Context(), req)
			created := mustCreate(t, after(t, cloud, 24*time.Hour), req)
			for range 3 {
				if again := mustCreate(t, after(t, cloud, 48*time.Hour), req); again.ID != created.ID {
					t.Errorf("got Droplet %s, want %s", again.ID, created.ID)
				}
			}
			wantDroplets(t, cloud, 1)
			mustDelete(t, connect(t, cloud), created.Identity)
			wantNoLeftovers(t, cloud)
		})
	}
}

// TestUnlistedDropletIsFoundByItsClaim: the list by tags does not show it, and its claim has its ID.
func TestUnlistedDropletIsFoundByItsClaim(t *testing.T) {
	t.Parallel()
	cloud := newEnv(t, digitaloceanfake.Options{})
	cloud.Hide()
	created := mustCreate(t, connect(t, cloud), newRequest(t, "m", minimalSpec()))
	for range 2 {
		if again, err := connect(t, cloud).Create(t.Context(), newRequest(t, "m", minimalSpec())); err != nil || again.ID != created.ID {
			t.Errorf("got Droplet %q and %v, want %q", again.ID, err, created.ID)
		}
	}
	if found, err := connect(t, cloud).Get(t.Context(), identity("m")); err != nil || found.ID != created.ID {
		t.Errorf("reading: got %q and %v, want %q", found.ID, err, created.ID)
	}
	mustDelete(t, connect(t, cloud), identity("m"))
	wantNoLeftovers(t, cloud)
}

// TestDropletWithoutTagsStopsATakeover: the cloud sets tags after the creation, and may have failed to.
func TestDropletWithoutTagsStopsATakeover(t *testing.T) {
	t.Parallel()
	cloud := newEnv(t, digitaloceanfake.Options{TagDelay: 1000, ListDelay: 1000})
	req := newRequest(t, "m", minimalSpec())
	cloud.LoseOperation("POST /v2/droplets")
	_, _ = connect(t, cloud).Create(t.Context(), req)
	d := after(t, cloud, claim.Window)
	for range 3 {
		if _, err := d.Create(t.Context(), req); err == nil || driver.IsInvalidConfiguration(err) || !strings.Contains(err.Error(), "no tags") {
			t.Errorf("got %v, want a transient error about the Droplet without tags", err)
		}
	}
	// Another process waits for it, too.
	_, err := after(t, cloud, 2*claim.Window).Create(t.Context(), req)
	if err == nil || !strings.Contains(err.Error(), "no tags") {
		t.Errorf("got %v from another process, want an error about the Droplet without tags", err)
	}
	wantDroplets(t, cloud, 1)
}

// TestClaimIsDeletedWithTheCreation: a listed Droplet needs none, so that no keys of machines are among those of the team.
func TestClaimIsDeletedWithTheCreation(t *testing.T) {
	t.Parallel()
	cloud := newEnv(t, digitaloceanfake.Options{})
	mustCreate(t, connect(t, cloud), newRequest(t, "m", minimalSpec()))
	if left := cloud.Leftovers(); slices.ContainsFunc(left, func(thing string) bool { return strings.HasPrefix(thing, "SSH key") }) {
		t.Errorf("the claim is left: %q", left)
	}
}

// TestRefusalReleasesTheClaim: the next attempt, by any process, need not wait.
func TestRefusalReleasesTheClaim(t *testing.T) {
	t.Parallel()
	for name, refuse := range map[string]func(*digitaloceanfake.Cloud){
		"capacity": (*digitaloceanfake.Cloud).SellOut,
		"quota":    (*digitaloceanfake.Cloud).Fill,
		"throttle": func(c *digitaloceanfake.Cloud) {
			c.RefuseOperation("POST /v2/droplets", http.StatusTooManyRequests, "too_many_requests")
		},
		"volumes": func(c *digitaloceanfake.Cloud) {
			c.RefuseOperation("POST /v2/volumes", http.StatusInternalServerError, "server_error")
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cloud := newEnv(t, digitaloceanfake.Options{})
			refuse(cloud)
			if _, err := connect(t, cloud).Create(t.Context(), newRequest(t, "m", fullSpec())); err == nil {
				t.Fatal("the creation was not refused")
			}
			if _, err := connect(t, cloud).Create(t.Context(), newRequest(t, "m", fullSpec())); err != nil {
				t.Error(err)
			}
		})
	}
}

// before runs a function once, before the first request of an operation is sent.
type before struct {
	method, path string
	do           func()
	once         sync.Once
}

// RoundTrip implements http.RoundTripper.
func (b *before) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method == b.method && r.URL.Path == b.path {
		b.once.Do(b.do)
	}
	return http.DefaultTransport.RoundTrip(r)
}

// TestCallerThatListedTooEarly: between its list and its claim, and between its claim and its request, another caller creates
// the Droplet.
func TestCallerThatListedTooEarly(t *testing.T) {
	t.Parallel()
	for _, path := range []string{"/v2/account/keys", "/v2/droplets"} {
		t.Run(path, func(t *testing.T) {
			t.Parallel()
			cloud := newEnv(t, digitaloceanfake.Options{})
			req := newRequest(t, "m", minimalSpec())
			other := func() { _, _ = after(t, cloud, claim.Window).Create(t.Context(), req) }
			slow := connectAt(t, cloud, drivertest.ClockFunc(time.Now), &before{method: http.MethodPost, path: path, do: other})
			_, _ = slow.Create(t.Context(), req)
			wantDroplets(t, cloud, 1)
			created := mustCreate(t, slow, req)
			wantDroplets(t, cloud, 1)
			mustDelete(t, connect(t, cloud), created.Identity)
			wantNoLeftovers(t, cloud)
		})
	}
}

// TestDeletionWaitsForLateRequests carries out requests for a volume and a reserved IP only after the machine was deleted.
func TestDeletionWaitsForLateRequests(t *testing.T) {
	t.Parallel()
	for _, operation := range []string{"POST /v2/volumes", "POST /v2/reserved_ips"} {
		t.Run(operation, func(t *testing.T) {
			t.Parallel()
			cloud := newEnv(t, digitaloceanfake.Options{})
			d := connect(t, cloud)
			req := newRequest(t, "m", fullSpec())
			_, release := cloud.Hold(operation)
			if _, err := d.Create(t.Context(), req); err == nil {
				t.Fatal("no request was held")
			}
			for range 3 {
				if err := d.Delete(t.Context(), req.Identity); err == nil || driver.IsInvalidConfiguration(err) {
					t.Fatalf("got %v, want a transient error", err)
				}
			}
			if err := release(); err != nil {
				t.Fatal(err)
			}
			by := after(t, cloud, claim.Window) // of another process, or of this one after the time
			mustDelete(t, by, req.Identity)
			wantNoLeftovers(t, cloud)
		})
	}
}
