// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package aws_test

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"drover.io/infra-providers/aws"
	"drover.io/infra-providers/aws/awsfake"
	"drover.io/infra-providers/driver"
)

// TestStorm takes machines through their lives while a third of all calls goes wrong, answers get lost and
// the provider is started anew again and again. At the end nothing is leaked and nothing was doubled.
func TestStorm(t *testing.T) {
	t.Parallel()
	const machines = 150
	dice, mu := rand.New(rand.NewPCG(1, 2)), sync.Mutex{}
	roll := func(sides int) int {
		mu.Lock()
		defer mu.Unlock()
		return dice.IntN(sides)
	}
	faults := []awsfake.Fault{
		{Lost: true}, {Lost: true},
		{Status: 503, Code: "RequestLimitExceeded", Message: "Request limit exceeded."},
		{Status: 500, Code: "InternalError", Message: "An internal error has occurred"},
	}
	ec2 := open(t, awsfake.Options{Lag: 2, BootReads: 1, StopReads: 1, KeepReads: 4, Faults: func(string) awsfake.Fault {
		if n := roll(3 * len(faults)); n < len(faults) {
			return faults[n]
		}
		return awsfake.Fault{}
	}})
	var lives sync.WaitGroup
	for n := range machines {
		id := identity
		id.UID, id.Name = types.UID(fmt.Sprintf("uid-%d", n)), fmt.Sprintf("worker-%d", n)
		lives.Go(func() { live(t, ec2, id, roll) })
	}
	lives.Wait()
	if left := ec2.cloud.Leftovers(); len(left) > 0 {
		t.Errorf("%d things are left: %q", len(left), left)
	}
	made := map[string]bool{}
	for _, request := range ec2.cloud.Requests() {
		made[request["ClientToken"]] = true
	}
	if len(made) != machines {
		t.Errorf("%d tokens were used for %d machines", len(made), machines)
	}
}

// live creates, reads and deletes one instance, as often as it takes.
func live(t *testing.T, ec2 world, id driver.Identity, roll func(int) int) {
	d := ec2.connect(t)
	attempt := func(call func() bool) {
		for range 500 {
			if call() {
				return
			}
			if roll(4) == 0 {
				d = ec2.connect(t)
			}
		}
		t.Errorf("%s is stuck", id.Name)
	}
	config := config(t, nothing)
	attempt(func() bool {
		made, err := d.Create(t.Context(), driver.Request[aws.Config]{Identity: id, Config: config, UserData: []byte("#cloud-config\n")})
		if err == nil {
			id.ProviderID = made.ProviderID
		}
		return err == nil
	})
	attempt(func() bool { found, err := d.Get(t.Context(), id); return err == nil && found.State == driver.Running })
	attempt(func() bool { return d.Delete(t.Context(), id) == nil })
	attempt(func() bool {
		found, err := d.Get(t.Context(), id)
		return driver.IsNotFound(err) || err == nil && found.State == driver.Terminated
	})
}
