// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package account_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"

	"drover.io/infra-providers/driver"
	"drover.io/infra-providers/driver/fake"
)

var home = driver.Owner{UID: "c", Namespace: "a", Name: "home"}

// TestCallsOfAThousandMachines counts the calls of a cloud with pages of a hundred, while each of a
// thousand machines is looked at in every interval.
func TestCallsOfAThousandMachines(t *testing.T) {
	t.Parallel()
	const many = 1000
	d := newEnv(time.Minute)
	d.cloud = fake.New(fake.Options{Page: 100})
	connected, err := d.Driver(t.Context(), machine("a", ""))
	if err != nil {
		t.Fatal(err)
	}
	id := func(n int) driver.Identity {
		return driver.Identity{UID: types.UID(fmt.Sprint(n)), Name: fmt.Sprint("m", n), Owner: home}
	}
	create := func(n int) {
		req := driver.CreateRequest[fake.Config]{Identity: id(n), Config: fake.Config{InstanceType: "small", Zone: "z"}}
		if _, err := connected.Create(t.Context(), req); err != nil {
			t.Fatal(err)
		}
	}
	for n := range many {
		create(n)
	}
	before := d.cloud.Snapshot().Calls
	const intervals = 5
	for range intervals {
		d.now = d.now.Add(time.Minute)
		for range 3 {
			for n := range many {
				if got, err := connected.Get(t.Context(), id(n)); err != nil || got.State != driver.Running {
					t.Fatalf("machine %d: got %s and %v", n, got.State, err)
				}
			}
		}
	}
	want := map[string]int{"create": many, "disk": many, "list": before["list"] + intervals*many/100}
	if diff := cmp.Diff(want, d.cloud.Snapshot().Calls); diff != "" {
		t.Errorf("calls after %d intervals (-want +got):\n%s", intervals, diff)
	}

	create(many)
	if err := connected.Delete(t.Context(), id(many)); err != nil {
		t.Fatal(err)
	}
	if _, err := connected.Get(t.Context(), id(many)); !driver.IsNotFound(err) {
		t.Errorf("got %v, want a NotFoundError", err)
	}
	want["create"]++
	want["disk"]++
	want["delete"]++
	want["get"]++
	if diff := cmp.Diff(want, d.cloud.Snapshot().Calls); diff != "" {
		t.Errorf("calls after one more life (-want +got):\n%s", diff)
	}
}
