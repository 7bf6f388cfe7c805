// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package account_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "drover.io/api/infrastructure/v1alpha1"
	"drover.io/infra-providers/driver"
	"drover.io/infra-providers/driver/fake"
	"drover.io/infra-providers/internal/account"
	"drover.io/runtime/logtest"
)

// TestProvisionAndInventory: the answer of Provision replaces the entry of the inventory, and after a failure the next Get
// is a direct read.
func TestProvisionAndInventory(t *testing.T) {
	t.Parallel()
	var fault fake.Fault
	cloud := fake.New(fake.Options{Steps: 2, Faults: func(call fake.Call) fake.Fault {
		if call.Operation == "provision" {
			return fault
		}
		return fake.Fault{}
	}})
	cache := account.NewCache(driver.Cloud[*infrav1.SimMachine, fake.Config]{
		Account: func(*infrav1.SimMachine) driver.Account { return driver.Account{} },
		Connect: func(context.Context, driver.Account, driver.Credentials) (driver.Driver[fake.Config], error) {
			return cloud, nil
		},
	}, account.Options{
		OwnCredentials: []string{account.EveryNamespace}, Interval: time.Minute, Changed: func(driver.Identity) {},
		Now: func() time.Time { return time.Unix(1_000_000, 0) },
	})
	connected, err := cache.Driver(t.Context(), machine("a", ""))
	if err != nil {
		t.Fatal(err)
	}
	id := driver.Identity{UID: "u", Name: "m", Owner: home}
	if _, err := cloud.Create(t.Context(), driver.CreateRequest[fake.Config]{Identity: id, Config: fake.Config{InstanceType: "small", Zone: "z"}}); err != nil {
		t.Fatal(err)
	}
	want := func(stepDue bool, reads int) {
		t.Helper()
		found, err := connected.Get(t.Context(), id)
		if err != nil || found.State != driver.Pending || found.StepDue != stepDue {
			t.Errorf("got %+v and %v, want it to be Pending with StepDue %t", found, err, stepDue)
		}
		if got := cloud.Snapshot().Calls["get"]; got != reads {
			t.Errorf("%d direct reads, want %d", got, reads)
		}
	}
	want(true, 0)
	if _, err := connected.Provision(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	want(false, 0)
	fault = fake.Fault{Err: errors.New("connection reset by peer")}
	if _, err := connected.Provision(t.Context(), id); err == nil {
		t.Fatal("the step did not fail")
	}
	want(true, 1)
}

// TestLogOfAnAccount has one line for each change, and none for a repeated refusal.
func TestLogOfAnAccount(t *testing.T) {
	t.Parallel()
	d := newEnv(time.Minute)
	key := client.ObjectKey{Namespace: "a", Name: "cloud"}
	d.secrets[key] = "first"
	recorder := &logtest.Recorder{}
	ctx := recorder.Context(t.Context())
	refused := &driver.UnauthorizedError{Err: errors.New("token refused")}
	use := func() {
		t.Helper()
		if _, err := d.Driver(ctx, machine("a", "cloud")); err != nil && !driver.IsUnauthorized(err) {
			t.Fatal(err)
		}
	}
	for range 3 {
		use()
		d.Refused(ctx, machine("a", "cloud"), refused)
	}
	d.Refused(ctx, machine("a", "cloud"), errors.New("internal error"))
	d.secrets[key] = "second"
	use()
	d.Refused(ctx, machine("a", "cloud"), refused)
	delete(d.secrets, key)
	use()
	const secret = ` "Secret"={"name"="cloud" "namespace"="a"}`
	want := []string{
		`"level"=0 "msg"="added account"` + secret,
		`"level"=0 "msg"="account refused"` + secret + ` "message"="token refused"`,
		`"level"=0 "msg"="replaced credentials of account"` + secret,
		`"level"=0 "msg"="account refused"` + secret + ` "message"="token refused"`,
		`"level"=0 "msg"="removed account"` + secret + ` "message"="reading credentials: secrets \"cloud\" not found"`,
	}
	if diff := cmp.Diff(want, recorder.Lines("")); diff != "" {
		t.Errorf("log (-want +got):\n%s", diff)
	}
}
