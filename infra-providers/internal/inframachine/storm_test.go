// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package inframachine_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	infrav1 "drover.io/api/infrastructure/v1alpha1"
	"drover.io/infra-providers/driver"
	"drover.io/infra-providers/driver/fake"
	"drover.io/infra-providers/internal/account"
	"drover.io/infra-providers/internal/inframachine"
)

// The fault rig takes many machines through their lives while everything fails at random: the cloud
// refuses calls, loses answers, throttles and lags; writes to the API server die; reads are behind, as a
// cache is; the reconciler is killed and starts anew. At the end nothing may be leaked, doubled or stuck.
//
// The run is a function of its seed. DROVER_SOAK_LIFECYCLES and DROVER_SOAK_SEED make it longer or another.
func TestFaultRig(t *testing.T) {
	t.Parallel()
	lives, seed := number(t, "DROVER_SOAK_LIFECYCLES", 60), number(t, "DROVER_SOAK_SEED", 1)
	t.Logf("%d lifecycles with seed %d", lives, seed)
	s := newStorm(t, uint64(seed))
	begun := 0
	for begun < lives || len(s.alive) > 0 {
		for begun < lives && len(s.alive) < 12 {
			s.begin(begun)
			begun++
		}
		s.step()
	}
	s.calm = true
	census := s.cloud.Census()
	if len(census.Instances)+len(census.Disks) > 0 {
		t.Errorf("leaked %d instances and %d disks", len(census.Instances), len(census.Disks))
	}
	t.Logf("%d reconciles, %d killed; calls of the cloud: %v", s.steps, s.kills, census.Calls)
}

// patience is how many steps one machine may take before it counts as stuck.
const patience = 400

// storm is a rig whose every part fails by the throw of one seeded die.
type storm struct {
	*rig
	die   *rand.Rand
	now   time.Time
	calm  bool
	steps int
	kills int
	alive []*life
	// cache holds what the reconciler's cache shows: never newer than the API server, never going back.
	cache map[client.ObjectKey]*infrav1.SimMachine
}

// life is one machine on its way.
type life struct {
	machine *infrav1.SimMachine
	// dies is the step at which it is deleted.
	dies, steps int
	deleted     bool
}

func newStorm(t *testing.T, seed uint64) *storm {
	t.Helper()
	s := &storm{die: rand.New(rand.NewPCG(seed, seed)), now: time.Unix(1_000_000, 0), cache: map[client.ObjectKey]*infrav1.SimMachine{}}
	s.rig = newRig(t, fake.Options{BootReads: 2, DeleteReads: 2, ListLag: 2, Now: func() time.Time { return s.now }})
	s.faults = s.fault
	s.alternatives = []fake.Config{{InstanceType: "large"}, {InstanceType: "small", Zone: "b"}, {InstanceType: "large", Zone: "b"}}
	s.restart()
	return s
}

func (s *storm) happens(percent int) bool { return !s.calm && s.die.IntN(100) < percent }

// fault fails calls of the cloud.
func (s *storm) fault(call fake.Call) fake.Fault {
	switch {
	case s.happens(6):
		return fake.Fault{Err: fake.ErrLost, Lost: true}
	case s.happens(6):
		return fake.Fault{Err: errors.New("internal error")}
	case s.happens(1):
		return fake.Fault{Err: &driver.RateLimitedError{RetryAfter: time.Duration(s.die.IntN(20)) * time.Second, Err: errors.New("slow down")}}
	case call.Operation == "create" && s.happens(25):
		return fake.Fault{Err: &driver.InsufficientCapacityError{InstanceType: call.Config.InstanceType, Zone: call.Config.Zone, Err: errors.New("full")}}
	case call.Operation == "create" && s.happens(5):
		return fake.Fault{Err: &driver.QuotaExceededError{Err: errors.New("quota")}}
	default:
		return fake.Fault{}
	}
}

// restart kills the reconciler: accounts, inventories and caches are gone.
func (s *storm) restart() {
	clear(s.cache)
	described := s.described()
	direct, err := client.NewWithWatch(cluster.Config, client.Options{Scheme: cluster.Client.Scheme()})
	if err != nil {
		s.t.Fatal(err)
	}
	dies := func() error {
		if s.happens(8) {
			return errKilled
		}
		return nil
	}
	shaky := interceptor.NewClient(direct, interceptor.Funcs{
		Get: s.read,
		Patch: func(ctx context.Context, c client.WithWatch, object client.Object, patch client.Patch, options ...client.PatchOption) error {
			// A write dies before it arrived or after, when only its answer is lost.
			if err := dies(); err != nil {
				return err
			}
			return errors.Join(c.Patch(ctx, object, patch, options...), dies())
		},
		SubResourcePatch: func(ctx context.Context, c client.Client, sub string, object client.Object, patch client.Patch, options ...client.SubResourcePatchOption) error {
			if err := dies(); err != nil {
				return err
			}
			return errors.Join(c.SubResource(sub).Patch(ctx, object, patch, options...), dies())
		},
	})
	clock := func() time.Time { return s.now }
	s.reconciler = reconcile.AsReconciler(client.Client(shaky), &inframachine.Reconciler[*infrav1.SimMachine, fake.Config]{
		Cloud:    described,
		Client:   shaky,
		Live:     cluster.Client,
		Accounts: account.NewBook(described, account.Options{Secrets: cluster.Client, Now: clock, Changed: func(driver.Identity) {}, Interval: time.Minute}),
		Events:   &events.FakeRecorder{},
		Changes:  &inframachine.Changes{},
		Resync:   time.Minute,
	})
}

// read is a cache that is sometimes behind.
func (s *storm) read(ctx context.Context, c client.WithWatch, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
	machine, ok := object.(*infrav1.SimMachine)
	if !ok {
		return c.Get(ctx, key, object, options...)
	}
	if known := s.cache[key]; known != nil && s.happens(20) {
		known.DeepCopyInto(machine)
		return nil
	}
	err := c.Get(ctx, key, machine, options...)
	if err != nil {
		delete(s.cache, key)
		return err
	}
	s.cache[key] = machine.DeepCopy()
	return nil
}

func (s *storm) begin(n int) {
	machine, _ := s.machine(fmt.Sprint("m", n))
	s.alive = append(s.alive, &life{machine: machine, dies: s.die.IntN(40)})
}

// step lets some time pass and reconciles one machine.
func (s *storm) step() {
	s.t.Helper()
	s.steps++
	s.now = s.now.Add(time.Duration(1+s.die.IntN(15)) * time.Second)
	if s.happens(3) {
		s.kills++
		s.restart()
	}
	at := s.die.IntN(len(s.alive))
	one := s.alive[at]
	one.steps++
	if one.steps >= one.dies && !one.deleted {
		one.deleted = true
		s.delete(one.machine)
	}
	if one.steps > patience {
		s.t.Fatalf("machine %q is stuck: %+v", one.machine.Name, one.machine.Status)
	}
	key := client.ObjectKeyFromObject(one.machine)
	// What fails is tried again at some later step, as a queue would.
	_, _ = s.reconciler.Reconcile(s.t.Context(), ctrl.Request{NamespacedName: key})
	err := cluster.Client.Get(s.t.Context(), key, one.machine)
	switch {
	case apierrors.IsNotFound(err):
		s.alive = append(s.alive[:at], s.alive[at+1:]...)
		if _, left := s.cloud.Census().Instances[one.machine.UID]; left {
			s.t.Fatalf("machine %q is gone and its instance is not", one.machine.Name)
		}
	case err != nil:
		s.t.Fatal(err)
	default:
		s.check(one)
	}
}

// check is what must hold at every moment.
func (s *storm) check(one *life) {
	s.t.Helper()
	census := s.cloud.Census()
	if len(census.Doubled) > 0 {
		s.t.Fatalf("machines with two instances: %q", census.Doubled)
	}
	found, exists := census.Instances[one.machine.UID]
	if exists && one.machine.Spec.ProviderID != "" && found.ProviderID != one.machine.Spec.ProviderID {
		s.t.Fatalf("machine %q has providerID %q and its instance %q", one.machine.Name, one.machine.Spec.ProviderID, found.ProviderID)
	}
	if exists && len(one.machine.Finalizers) == 0 {
		s.t.Fatalf("machine %q has an instance and no finalizer", one.machine.Name)
	}
	if !one.deleted && ptr.Deref(one.machine.Status.Initialization.Provisioned, false) && !exists {
		s.t.Fatalf("machine %q is provisioned and has no instance", one.machine.Name)
	}
}

func number(t *testing.T, name string, usual int) int {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return usual
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatalf("%s=%q is not a number", name, text)
	}
	return n
}
