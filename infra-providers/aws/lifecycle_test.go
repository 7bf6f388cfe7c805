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

// TestConcurrentLifecycles creates and deletes many machines at once while a third of all calls fails, answers are lost
// and the provider restarts at random. At the end nothing is leaked and nothing was created twice.
func TestConcurrentLifecycles(t *testing.T) {
	t.Parallel()
	const machines = 150
	random, mu := rand.New(rand.NewPCG(1, 2)), sync.Mutex{}
	draw := func(n int) int {
		mu.Lock()
		defer mu.Unlock()
		return random.IntN(n)
	}
	faults := []awsfake.Fault{
		{Lost: true}, {Lost: true},
		{Status: 503, Code: "RequestLimitExceeded", Message: "Request limit exceeded."},
		{Status: 500, Code: "InternalError", Message: "An internal error has occurred"},
	}
	ec2 := newEnv(t, awsfake.Options{ListDelay: 2, PendingReads: 1, StoppingReads: 1, TerminatedReads: 4, Faults: func(string) awsfake.Fault {
		if n := draw(3 * len(faults)); n < len(faults) {
			return faults[n]
		}
		return awsfake.Fault{}
	}})
	var machinesDone sync.WaitGroup
	for n := range machines {
		id := identity
		id.UID, id.Name = types.UID(fmt.Sprintf("uid-%d", n)), fmt.Sprintf("worker-%d", n)
		machinesDone.Go(func() { runLifecycle(t, ec2, id, draw) })
	}
	machinesDone.Wait()
	if left := ec2.cloud.Leftovers(); len(left) > 0 {
		t.Errorf("%d resources are left: %q", len(left), left)
	}
	created := map[string]bool{}
	for _, request := range ec2.cloud.Requests() {
		created[request["ClientToken"]] = true
	}
	if len(created) != machines {
		t.Errorf("%d tokens were used for %d machines", len(created), machines)
	}
}

// runLifecycle creates, reads and deletes one instance, with as many attempts as it takes.
func runLifecycle(t *testing.T, ec2 env, id driver.Identity, draw func(int) int) {
	d := ec2.connect(t)
	attempt := func(call func() bool) {
		for range 500 {
			if call() {
				return
			}
			if draw(4) == 0 {
				d = ec2.connect(t)
			}
		}
		t.Errorf("%s did not finish", id.Name)
	}
	config := newConfig(t, unchanged)
	attempt(func() bool {
		created, err := d.Create(t.Context(), driver.CreateRequest[aws.InstanceConfig]{Identity: id, Config: config, UserData: []byte("#cloud-config\n")})
		if err == nil {
			id.ProviderID = created.ProviderID
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
