// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package driver_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"drover.io/infra-providers/driver"
)

func TestErrorKinds(t *testing.T) {
	t.Parallel()
	cause := errors.New("cause")
	kinds := map[string]func(error) bool{
		"not found":             driver.IsNotFound,
		"not owned":             driver.IsNotOwned,
		"not running":           driver.IsNotRunning,
		"invalid configuration": driver.IsInvalidConfiguration,
		"unauthorized":          driver.IsUnauthorized,
		"account mismatch":      driver.IsAccountMismatch,
		"quota exceeded":        driver.IsQuotaExceeded,
		"insufficient capacity": driver.IsInsufficientCapacity,
		"rate limited":          driver.IsRateLimited,
	}
	for want, err := range map[string]error{
		"not found":             &driver.NotFoundError{What: "instance"},
		"not owned":             &driver.NotOwnedError{},
		"not running":           &driver.NotRunningError{State: driver.Stopped},
		"invalid configuration": &driver.InvalidConfigurationError{Field: "spec.x", Err: cause},
		"unauthorized":          &driver.UnauthorizedError{Err: cause},
		"account mismatch":      &driver.AccountMismatchError{Pinned: "a", Connected: "b", Source: "Secret"},
		"quota exceeded":        &driver.QuotaExceededError{Err: cause},
		"insufficient capacity": &driver.InsufficientCapacityError{Err: cause},
		"rate limited":          &driver.RateLimitedError{RetryAfter: time.Second, Err: cause},
		"":                      cause,
	} {
		wrapped := fmt.Errorf("creating instance: %w", err)
		for kind, is := range kinds {
			if is(wrapped) != (kind == want) {
				t.Errorf("%q is taken for %s: %t", want, kind, is(wrapped))
			}
		}
	}
	if got := driver.RetryAfter(fmt.Errorf("listing: %w", &driver.RateLimitedError{RetryAfter: time.Second, Err: cause})); got != time.Second {
		t.Errorf("retry after %s, want 1s", got)
	}
}

func TestIdentityCheck(t *testing.T) {
	t.Parallel()
	found := driver.Identity{UID: "u", Name: "m", Owner: driver.Owner{UID: "c", Namespace: "n", Name: "home"}, ProviderID: "p"}
	for name, test := range map[string]struct {
		change func(*driver.Identity)
		ok     bool
	}{
		"takes its own": {func(*driver.Identity) {}, true},
		"takes its own without knowing the provider ID":         {func(id *driver.Identity) { id.ProviderID = "" }, true},
		"takes its own in a Cluster that moved":                 {func(id *driver.Identity) { id.Owner.UID = "other" }, true},
		"takes its own when the Cluster is gone":                {func(id *driver.Identity) { id.Owner.UID = "" }, true},
		"takes its own when the UID was lost":                   {func(id *driver.Identity) { id.UID = "" }, true},
		"refuses a lost UID in a Cluster that moved":            {func(id *driver.Identity) { id.UID, id.Owner.UID = "", "other" }, false},
		"refuses a lost UID when the Cluster is gone":           {func(id *driver.Identity) { id.UID, id.Owner.UID = "", "" }, false},
		"refuses another UID":                                   {func(id *driver.Identity) { id.UID = "other" }, false},
		"refuses another name":                                  {func(id *driver.Identity) { id.Name = "other" }, false},
		"refuses another cluster":                               {func(id *driver.Identity) { id.Owner.Name = "other" }, false},
		"refuses another namespace":                             {func(id *driver.Identity) { id.Owner.Namespace = "other" }, false},
		"refuses a machine without a name":                      {func(id *driver.Identity) { id.Name = "" }, false},
		"refuses a machine without a cluster":                   {func(id *driver.Identity) { id.Owner.Name = "" }, false},
		"refuses a machine without a namespace":                 {func(id *driver.Identity) { id.Owner.Namespace = "" }, false},
		"refuses a name and a provider ID and nothing else":     {func(id *driver.Identity) { *id = driver.Identity{Name: "m", ProviderID: "p"} }, false},
		"refuses the name and namespace of another cluster":     {func(id *driver.Identity) { id.UID, id.Owner = "", driver.Owner{Namespace: "n"} }, false},
		"refuses what names nothing":                            {func(id *driver.Identity) { *id = driver.Identity{} }, false},
		"refuses the UID alone, which a tenant may have learnt": {func(id *driver.Identity) { *id = driver.Identity{UID: "u"} }, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			id := found
			test.change(&id)
			err := id.Check(found)
			if (err == nil) != test.ok || err != nil && !driver.IsNotOwned(err) || driver.IsUntagged(err) {
				t.Errorf("got %v, want ok %t", err, test.ok)
			}
		})
	}
}

// TestEmptyFieldsMatchNothing: fields that are empty on both sides prove nothing.
func TestEmptyFieldsMatchNothing(t *testing.T) {
	t.Parallel()
	full := driver.Identity{UID: "u", Name: "m", Owner: driver.Owner{UID: "c", Namespace: "n", Name: "home"}, ProviderID: "p"}
	for name, test := range map[string]struct {
		requested, found func(*driver.Identity)
	}{
		"a lost UID and tags without one": {func(id *driver.Identity) { id.UID = "" }, func(id *driver.Identity) { id.UID = "" }},
		"a lost UID and no UID of the Cluster on either side": {
			func(id *driver.Identity) { id.UID, id.Owner.UID = "", "" }, func(id *driver.Identity) { id.Owner.UID = "" },
		},
		"no name on either side":      {func(id *driver.Identity) { id.Name = "" }, func(id *driver.Identity) { id.Name = "" }},
		"no namespace on either side": {func(id *driver.Identity) { id.Owner.Namespace = "" }, func(id *driver.Identity) { id.Owner.Namespace = "" }},
		"no Cluster on either side":   {func(id *driver.Identity) { id.Owner.Name = "" }, func(id *driver.Identity) { id.Owner.Name = "" }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			requested, found := full, full
			test.requested(&requested)
			test.found(&found)
			if err := requested.Check(found); !driver.IsNotOwned(err) {
				t.Errorf("got %v, want a NotOwnedError", err)
			}
		})
	}
}

func TestChecked(t *testing.T) {
	t.Parallel()
	id := driver.Identity{UID: "u", Name: "m", Owner: driver.Owner{UID: "c", Namespace: "n", Name: "home"}, ProviderID: "p"}
	other := id
	other.Name = "other"
	own := driver.Instance{ID: "i", Identity: id}
	if got, err := id.Checked(own); err != nil || got.ID != "i" {
		t.Errorf("its own: got %+v and %v", got, err)
	}
	if got, err := id.Checked(driver.Instance{ID: "i", Identity: other}); !driver.IsNotOwned(err) || got.ID != "" {
		t.Errorf("another's: got %+v and %v, want nothing and a NotOwnedError", got, err)
	}
}

// TestUntaggedInstance is not owned and untagged; one with other tags is not untagged.
func TestUntaggedInstance(t *testing.T) {
	t.Parallel()
	id := driver.Identity{UID: "u", Name: "m", Owner: driver.Owner{UID: "c", Namespace: "n", Name: "home"}, ProviderID: "p"}
	for name, strip := range map[string]func(*driver.Identity){
		"all of them":           func(id *driver.Identity) { *id = driver.Identity{ProviderID: "p"} },
		"the UID":               func(id *driver.Identity) { id.UID = "" },
		"the name":              func(id *driver.Identity) { id.Name = "" },
		"the cluster":           func(id *driver.Identity) { id.Owner.Name = "" },
		"the cluster namespace": func(id *driver.Identity) { id.Owner.Namespace = "" },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			found := id
			strip(&found)
			if err := fmt.Errorf("reading: %w", id.Check(found)); !driver.IsNotOwned(err) || !driver.IsUntagged(err) {
				t.Errorf("got %v, want it not owned and untagged", err)
			}
			if err := found.Check(found); !driver.IsNotOwned(err) && name != "the UID" {
				t.Errorf("it matches itself: got %v", err)
			}
		})
	}
}

func TestTags(t *testing.T) {
	t.Parallel()
	want := driver.Identity{UID: "u", Name: "m", Owner: driver.Owner{UID: "c", Namespace: "n", Name: "home"}}
	got, ok := driver.FromTags(want.Tags())
	if diff := cmp.Diff(want, got); diff != "" || !ok {
		t.Errorf("identity (-want +got):\n%s", diff)
	}
	if _, ok := driver.FromTags(map[string]string{"Name": "m"}); ok {
		t.Error("foreign tags were taken for ours")
	}
}

func TestRestartable(t *testing.T) {
	t.Parallel()
	for state, is := range map[driver.State]func(error) bool{
		driver.Pending:    driver.IsNotRunning,
		driver.Running:    func(err error) bool { return err == nil },
		driver.Stopping:   driver.IsNotRunning,
		driver.Stopped:    driver.IsNotRunning,
		driver.Terminated: driver.IsNotFound,
	} {
		if _, err := driver.RequireRunning(driver.Instance{ID: "i", State: state}, nil); !is(err) {
			t.Errorf("an instance that is %s: got %v", state, err)
		}
	}
}

// TestOwn has instances of other machines with the same UID, which a user who creates a machine may choose.
func TestOwn(t *testing.T) {
	t.Parallel()
	id := driver.Identity{UID: "u", Name: "m", Owner: driver.Owner{UID: "c", Namespace: "team", Name: "home"}}
	forged := id
	forged.Owner.Namespace = "evil"
	own, other := driver.Instance{ID: "own", Identity: id}, driver.Instance{ID: "other", Identity: forged}
	for name, test := range map[string]struct{ found, want []driver.Instance }{
		"nothing":               {nil, nil},
		"its own":               {[]driver.Instance{own}, []driver.Instance{own}},
		"its own after another": {[]driver.Instance{other, own}, []driver.Instance{own}},
		"another's alone":       {[]driver.Instance{other}, []driver.Instance{other}},
	} {
		if diff := cmp.Diff(test.want, id.Own(test.found)); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

func TestSelectsOfAList(t *testing.T) {
	t.Parallel()
	home := driver.Owner{UID: "u", Namespace: "team", Name: "home"}
	for name, test := range map[string]struct {
		owner, found driver.Owner
		want         bool
	}{
		"everything by the empty owner": {driver.Owner{}, home, true},
		"its own":                       {home, home, true},
		"a name without a UID":          {driver.Owner{Namespace: "team", Name: "home"}, home, true},
		"a UID that it had before":      {home, driver.Owner{UID: "other", Namespace: "team", Name: "home"}, false},
		"a UID without its name":        {driver.Owner{UID: "u"}, home, false},
		"another namespace":             {home, driver.Owner{UID: "u", Namespace: "elsewhere", Name: "home"}, false},
		"what lost its tags":            {home, driver.Owner{}, false},
	} {
		if got := test.owner.Selects(test.found); got != test.want {
			t.Errorf("%s: got %v", name, got)
		}
	}
}
