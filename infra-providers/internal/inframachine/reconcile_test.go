// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package inframachine_test

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "drover.io/api/infrastructure/v1alpha1"
	"drover.io/infra-providers/driver"
	"drover.io/infra-providers/driver/fake"
	"drover.io/infra-providers/internal/testenv"
)

func TestCreatesOneInstance(t *testing.T) {
	t.Parallel()
	r := newFixture(t, fake.Options{BootReads: 1})
	machine, owner := r.machine("worker")
	r.update(owner, func() { owner.Spec.FailureDomain = "zone-q" })

	if _, err := r.reconcile(machine); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{infrav1.MachineFinalizer}, machine.Finalizers); diff != "" {
		t.Errorf("finalizers after the first reconcile (-want +got):\n%s", diff)
	}
	r.wantInCloud(0) // nothing is created before the finalizer is stored
	if _, err := r.reconcile(machine); err != nil {
		t.Fatal(err)
	}
	r.wantInCloud(1)
	r.wantReason(machine, clusterv1.ReadyCondition, infrav1.InstancePendingReason)
	if ptr.Deref(machine.Status.Initialization.Provisioned, false) {
		t.Error("provisioned while the instance is pending")
	}

	r.settle(machine)
	want := infrav1.MachineStatus{
		Initialization: infrav1.MachineInitialization{Provisioned: ptr.To(true)},
		Addresses:      []clusterv1.MachineAddress{{Type: clusterv1.MachineInternalIP, Address: "10.0.0.2"}},
		// The cloud gave it, so a certificate may name it.
		CloudAddresses: []string{"10.0.0.2"},
		FailureDomain:  "zone-q",
		InstanceState:  "Running",
		Account:        machine.Annotations[infrav1.AccountAnnotation],
		Conditions:     machine.Status.Conditions,
	}
	if diff := cmp.Diff(want, machine.Status); diff != "" {
		t.Errorf("status (-want +got):\n%s", diff)
	}
	if id, err := r.cloud.AccountID(t.Context()); err != nil || machine.Status.Account != id {
		t.Errorf("the account is %q and %v, want %q", id, err, machine.Status.Account)
	}
	if want := "fake:///zone-q/i-000001"; machine.Spec.ProviderID != want {
		t.Errorf("providerID is %q, want %q", machine.Spec.ProviderID, want)
	}
	id := r.cloud.Snapshot().Instances[machine.UID]
	if diff := cmp.Diff(driver.Owner{UID: r.home.UID, Namespace: r.home.Namespace, Name: "home"}, id.Owner); diff != "" {
		t.Errorf("tags (-want +got):\n%s", diff)
	}
	if got := string(r.cloud.UserData(machine.UID)); got != "#cloud-config\n" {
		t.Errorf("user data is %q", got)
	}
	wantEvents := []string{
		`Normal InstanceCreated created instance "fake:///zone-q/i-000001"`,
		"Normal InstanceRunning instance runs",
	}
	if diff := cmp.Diff(wantEvents, r.events()); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
}

// TestUnfinishedCreationIsNoFailure has a volume that is still being created.
func TestUnfinishedCreationIsNoFailure(t *testing.T) {
	t.Parallel()
	r := newFixture(t, fake.Options{})
	r.faults = func(call fake.Call) fake.Fault {
		if call.Operation != "create" {
			return fake.Fault{}
		}
		return fake.Fault{Err: &driver.UnfinishedError{Err: errors.New("the volume is being made")}}
	}
	r.restart()
	machine, _ := r.machine("worker")
	if _, err := r.reconcile(machine); err != nil {
		t.Fatal(err)
	}
	if result, err := r.reconcile(machine); err != nil || result.RequeueAfter != 5*time.Second {
		t.Errorf("got %+v and %v, want another try in 5 seconds", result, err)
	}
	r.wantReason(machine, clusterv1.ReadyCondition, infrav1.InstancePendingReason)
	if got := r.events(); len(got) > 0 {
		t.Errorf("events %q", got)
	}
	r.faults = nil
	r.restart()
	r.settle(machine)
	r.wantInCloud(1)
}

func TestWritesNothingWhenNothingChanged(t *testing.T) {
	t.Parallel()
	r := newFixture(t, fake.Options{})
	machine, _ := r.machine("worker")
	r.settle(machine)
	writes, version := r.writes.Load(), machine.ResourceVersion
	for range 3 {
		result, err := r.reconcile(machine)
		if err != nil || result.RequeueAfter != time.Minute {
			t.Fatalf("got %+v and %v, want another look after a minute", result, err)
		}
	}
	if r.writes.Load() != writes || machine.ResourceVersion != version {
		t.Errorf("%d writes while nothing changed", r.writes.Load()-writes)
	}
}

func TestWritesPerMachine(t *testing.T) {
	t.Parallel()
	r := newFixture(t, fake.Options{})
	machine, _ := r.machine("worker")
	r.settle(machine)
	// The claim and its status, the providerID and its status.
	if got := r.writes.Load(); got > 4 {
		t.Errorf("%d writes from birth to running, want at most 4", got)
	}
}

func TestWaits(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		given func(*fixture, *infrav1.SimMachine, *clusterv1.Machine)
		want  string
	}{
		"for a Machine to own it": {
			func(r *fixture, infra *infrav1.SimMachine, _ *clusterv1.Machine) {
				r.update(infra, func() { infra.OwnerReferences = nil })
			}, infrav1.WaitingForMachineReason},
		"for the Cluster to exist": {
			func(r *fixture, _ *infrav1.SimMachine, _ *clusterv1.Machine) { r.delete(r.home) },
			infrav1.WaitingForClusterReason},
		"for the Cluster's infrastructure": {
			func(r *fixture, _ *infrav1.SimMachine, _ *clusterv1.Machine) {
				r.home.Status.Initialization.InfrastructureProvisioned = ptr.To(false)
				if err := cluster.Client.Status().Update(r.t.Context(), r.home); err != nil {
					r.t.Fatal(err)
				}
			}, infrav1.WaitingForClusterReason},
		"for bootstrap data that does not exist": {
			func(r *fixture, _ *infrav1.SimMachine, owner *clusterv1.Machine) {
				r.update(owner, func() { owner.Spec.Bootstrap.DataSecretName = ptr.To("nowhere") })
			}, infrav1.BootstrapDataInvalidReason},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newFixture(t, fake.Options{})
			machine, owner := r.machine("worker")
			test.given(r, machine, owner)
			r.settle(machine)
			r.wantReason(machine, clusterv1.ReadyCondition, test.want)
			calls := r.cloud.Snapshot().Calls
			delete(calls, "account") // which costs one call for all machines of an account
			if len(calls) > 0 {
				t.Errorf("the cloud was asked: %v", calls)
			}
		})
	}
}

func TestBootstrapDataThatCannotBeUsedIsNamed(t *testing.T) {
	t.Parallel()
	r := newFixture(t, fake.Options{})
	machine, owner := r.machine("worker")
	r.update(owner, func() { owner.Spec.Bootstrap.DataSecretName = ptr.To("own-data") })
	r.settle(machine)
	r.wantMessage(machine, `the Secret "own-data" of spec.bootstrap.dataSecretName`, "does not exist: create it")
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "own-data", Namespace: machine.Namespace}, StringData: map[string]string{"userData": "x"}}
	if err := cluster.Client.Create(t.Context(), secret); err != nil {
		t.Fatal(err)
	}
	r.settle(machine)
	r.wantMessage(machine, `the Secret "own-data" of spec.bootstrap.dataSecretName`, "has no user data in data.value")
}

func TestPauses(t *testing.T) {
	t.Parallel()
	for name, pause := range map[string]func(*fixture, *infrav1.SimMachine){
		"with the Cluster": func(r *fixture, _ *infrav1.SimMachine) {
			r.update(r.home, func() { r.home.Spec.Paused = ptr.To(true) })
		},
		"by its annotation": func(r *fixture, machine *infrav1.SimMachine) {
			r.update(machine, func() { machine.Annotations = map[string]string{clusterv1.PausedAnnotation: ""} })
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newFixture(t, fake.Options{})
			machine, _ := r.machine("worker")
			pause(r, machine)
			r.settle(machine)
			r.wantReason(machine, clusterv1.PausedCondition, clusterv1.PausedReason)
			r.wantInCloud(0)
			if len(machine.Finalizers) > 0 {
				t.Errorf("a paused machine got finalizers %q", machine.Finalizers)
			}
		})
	}
}

func TestIgnoresMachinesOutsideTheWatchFilter(t *testing.T) {
	t.Parallel()
	r := newFixture(t, fake.Options{})
	r.watchFilter = "mine"
	r.restart()
	foreign, _ := r.machine("theirs")
	mine, _ := r.machine("mine")
	r.update(mine, func() { mine.Labels[clusterv1.WatchLabel] = "mine" })
	r.settle(foreign)
	r.settle(mine)
	if len(foreign.Finalizers) > 0 || len(foreign.Status.Conditions) > 0 {
		t.Errorf("a machine of another provider was touched: %+v", foreign)
	}
	r.wantInCloud(1)
}

// TestContinuesAfterAnyFailedWrite kills the reconciler at its first, second, … write, both while the machine
// comes and while it goes, with and without losing the cloud's answers too.
func TestContinuesAfterAnyFailedWrite(t *testing.T) {
	t.Parallel()
	for death := range int32(6) {
		for _, lost := range []bool{false, true} {
			t.Run(fmt.Sprintf("write %d, answers lost %t", death, lost), func(t *testing.T) {
				t.Parallel()
				r := newFixture(t, fake.Options{BootReads: 1, DeleteReads: 1})
				answers := map[string]bool{}
				r.faults = func(call fake.Call) fake.Fault {
					if !lost || answers[call.Operation] || call.Operation == "get" {
						return fake.Fault{}
					}
					answers[call.Operation] = true
					return fake.Fault{Err: fake.ErrLost, Lost: true}
				}
				machine, _ := r.machine("worker")
				r.dieAt.Store(death)
				r.settle(machine)
				r.restart()
				r.wantInCloud(1)
				r.delete(machine)
				r.writes.Store(0)
				r.settle(machine)
				r.wantGone(machine)
				r.wantInCloud(0)
			})
		}
	}
}

func TestAdoptsByProviderIDAfterAMove(t *testing.T) {
	t.Parallel()
	for name, keepsAnnotations := range map[string]bool{"with its annotations": true, "without its annotations": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newFixture(t, fake.Options{})
			machine, owner := r.machine("worker")
			r.settle(machine)
			moved := r.move(machine, owner, keepsAnnotations)
			r.settle(moved)
			r.wantInCloud(1)
			r.wantReason(moved, clusterv1.ReadyCondition, infrav1.InstanceRunningReason)
			if !ptr.Deref(moved.Status.Initialization.Provisioned, false) {
				t.Error("not provisioned after the move")
			}
			if got := moved.Annotations[infrav1.IdentityAnnotation]; got != string(machine.UID) {
				t.Errorf("the identity is %q, want %q, which its instance has", got, machine.UID)
			}
			r.delete(moved)
			r.settle(moved)
			r.wantGone(moved)
			r.wantInCloud(0)
		})
	}
}

// TestRetagsAfterAMoveOfTheCluster gives the Cluster another UID, as a move does, and expects the tags to follow,
// at the cost of one call.
func TestRetagsAfterAMoveOfTheCluster(t *testing.T) {
	t.Parallel()
	r := newFixture(t, fake.Options{})
	machine, owner := r.machine("worker")
	r.settle(machine)
	before := r.home.UID
	r.delete(r.home)
	var err error
	if r.home, err = cluster.Cluster(t.Context(), r.home.Namespace, "home"); err != nil {
		t.Fatal(err)
	}
	moved := r.move(machine, owner, true)
	r.faults = func(call fake.Call) fake.Fault {
		if call.Operation == "tag" {
			return fake.Fault{Err: errors.New("not permitted")}
		}
		return fake.Fault{}
	}
	for range 3 {
		_, err = r.reconcile(moved)
	}
	if err == nil {
		t.Error("the refusal was swallowed")
	}
	r.wantReason(moved, clusterv1.ReadyCondition, infrav1.InstanceRunningReason) // it runs all the same
	r.faults = nil
	calls := r.cloud.Snapshot().Calls["tag"]
	r.settle(moved)
	r.settle(moved)
	snapshot := r.cloud.Snapshot()
	if got := snapshot.Instances[machine.UID].Owner.UID; got != r.home.UID || got == before {
		t.Errorf("the instance is tagged for the Cluster %q, want %q", got, r.home.UID)
	}
	if got := snapshot.Disks[machine.UID].Owner.UID; got != r.home.UID {
		t.Errorf("the disk is tagged for the Cluster %q, want %q", got, r.home.UID)
	}
	if got := snapshot.Calls["tag"] - calls; got != 1 {
		t.Errorf("%d calls to tag, want 1", got)
	}
}

// move removes the objects without deleting the instance and creates them again, as clusterctl does.
func (r *fixture) move(machine *infrav1.SimMachine, owner *clusterv1.Machine, keepsAnnotations bool) *infrav1.SimMachine {
	r.t.Helper()
	r.update(machine, func() { machine.Finalizers = nil })
	secret := testenv.BootstrapSecret(owner)
	r.delete(machine, owner, secret)
	moved, _ := r.machine(machine.Name, func(m *infrav1.SimMachine) {
		m.Spec.ProviderID = machine.Spec.ProviderID
		if keepsAnnotations {
			m.Annotations = machine.Annotations
		}
	})
	return moved
}

func TestInstanceDeletedByOthers(t *testing.T) {
	t.Parallel()
	r := newFixture(t, fake.Options{})
	machine, _ := r.machine("worker")
	r.settle(machine)
	r.cloud.Destroy(machine.UID)
	r.settle(machine)
	r.wantReason(machine, clusterv1.ReadyCondition, infrav1.InstanceMissingReason)
	r.wantInCloud(0)
	if !ptr.Deref(machine.Status.Initialization.Provisioned, false) {
		t.Error("provisioned went back to false")
	}
	r.delete(machine)
	r.settle(machine)
	r.wantGone(machine)
}

func TestReasonsOfFailures(t *testing.T) {
	t.Parallel()
	cause := errors.New("refused by the cloud")
	for name, test := range map[string]struct {
		err    error
		reason string
		retry  time.Duration
		fails  bool
	}{
		"quota":       {&driver.QuotaExceededError{Err: cause}, infrav1.QuotaExceededReason, 3 * time.Minute, false},
		"capacity":    {&driver.InsufficientCapacityError{InstanceType: "small", Zone: "z", Err: cause}, infrav1.InsufficientCapacityReason, 2 * time.Minute, false},
		"credentials": {&driver.UnauthorizedError{Err: cause}, infrav1.UnauthorizedReason, time.Minute, false},
		"rate limit":  {&driver.RateLimitedError{RetryAfter: 17 * time.Second, Err: cause}, infrav1.RateLimitedReason, 17 * time.Second, false},
		"rate limit of a maintenance page": {
			&driver.RateLimitedError{RetryAfter: 24 * time.Hour, Err: cause}, infrav1.RateLimitedReason, 10 * time.Minute, false},
		"configuration": {&driver.InvalidConfigurationError{Field: "spec.image", Err: cause}, infrav1.InvalidConfigurationReason, 10 * time.Minute, false},
		"anything else": {cause, infrav1.CloudErrorReason, 0, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newFixture(t, fake.Options{})
			r.faults = func(call fake.Call) fake.Fault {
				if call.Operation == "create" {
					return fake.Fault{Err: test.err}
				}
				return fake.Fault{}
			}
			machine, _ := r.machine("worker")
			if _, err := r.reconcile(machine); err != nil {
				t.Fatal(err)
			}
			result, err := r.reconcile(machine)
			if result.RequeueAfter != test.retry || (err != nil) != test.fails {
				t.Errorf("got %+v and %v, want a retry after %s and failure %t", result, err, test.retry, test.fails)
			}
			r.wantReason(machine, clusterv1.ReadyCondition, test.reason)
			r.events()
			_, _ = r.reconcile(machine)
			if again := r.events(); len(again) > 0 {
				t.Errorf("the same failure has another event: %q", again)
			}
			r.later = time.Hour // a rate limit counts for the whole account, deletions included
			r.delete(machine)
			r.settle(machine)
			r.wantGone(machine)
			r.wantInCloud(0)
		})
	}
}

func TestTransientFailureKeepsReady(t *testing.T) {
	t.Parallel()
	r := newFixture(t, fake.Options{})
	machine, _ := r.machine("worker")
	r.settle(machine)
	r.faults = func(fake.Call) fake.Fault { return fake.Fault{Err: errors.New("gateway timeout")} }
	if _, err := r.reconcile(machine); err == nil {
		t.Error("the failure was swallowed")
	}
	r.wantReason(machine, clusterv1.ReadyCondition, infrav1.InstanceRunningReason)
}

// TestInvalidConfigurationIsTriedAgainBeforeTheFirstInstance: a cloud may lack for some minutes what was made in it a moment ago. An
// instance that has run is not created again for it.
func TestInvalidConfigurationIsTriedAgainBeforeTheFirstInstance(t *testing.T) {
	t.Parallel()
	r := newFixture(t, fake.Options{})
	creations := 0
	r.faults = func(call fake.Call) fake.Fault {
		if call.Operation != "create" {
			return fake.Fault{}
		}
		if creations++; creations > 1 {
			return fake.Fault{}
		}
		return fake.Fault{Err: &driver.InvalidConfigurationError{Field: "spec.image", Err: errors.New("the image is being saved")}}
	}
	machine, _ := r.machine("worker")
	if _, err := r.reconcile(machine); err != nil {
		t.Fatal(err)
	}
	result, err := r.reconcile(machine)
	if err != nil || result.RequeueAfter != 10*time.Minute {
		t.Errorf("got %+v and %v, want another try after 10 minutes", result, err)
	}
	r.wantReason(machine, clusterv1.ReadyCondition, infrav1.InvalidConfigurationReason)
	ready := meta.FindStatusCondition(machine.Status.Conditions, clusterv1.ReadyCondition)
	if !strings.Contains(ready.Message, "tried again every "+strconv.Itoa(int(result.RequeueAfter.Minutes()))+" minutes") {
		t.Errorf("got the message %q", ready.Message)
	}
	r.settle(machine)
	r.wantReason(machine, clusterv1.ReadyCondition, infrav1.InstanceRunningReason)
	r.cloud.DestroyInstance(machine.GetProviderID())
	r.settle(machine)
	r.wantReason(machine, clusterv1.ReadyCondition, infrav1.InstanceMissingReason)
	if creations != 2 {
		t.Errorf("%d creations were requested, want 2", creations)
	}
}

// TestRefusalAfterTheAnswerToACreationIsTriedAgain: a cloud may accept a creation and refuse it later, as vCenter does by the task of a
// clone.
func TestRefusalAfterTheAnswerToACreationIsTriedAgain(t *testing.T) {
	t.Parallel()
	for _, operation := range []string{"get", "provision"} {
		t.Run("by "+operation, func(t *testing.T) {
			t.Parallel()
			r := newFixture(t, inSteps)
			machine, _ := r.machine("worker")
			r.created(machine)
			r.faults = func(call fake.Call) fake.Fault {
				if call.Operation != operation {
					return fake.Fault{}
				}
				return fake.Fault{Err: &driver.InvalidConfigurationError{Field: "spec.template", Err: errors.New("the template is being replaced")}}
			}
			for range 2 {
				result, err := r.reconcile(machine)
				if err != nil || result.RequeueAfter != 10*time.Minute {
					t.Errorf("got %+v and %v, want another try after 10 minutes", result, err)
				}
				r.wantReason(machine, clusterv1.ReadyCondition, infrav1.InvalidConfigurationReason)
			}
			r.faults = nil
			r.ready(machine)
			r.wantReason(machine, clusterv1.ReadyCondition, infrav1.InstanceRunningReason)
			r.wantInCloud(1)
		})
	}
}

// TestRefusedCreationsAreSpread: the machines of one wrong template are not created at once.
func TestRefusedCreationsAreSpread(t *testing.T) {
	t.Parallel()
	r := newFixture(t, fake.Options{})
	r.jitter = 0.5
	r.faults = func(call fake.Call) fake.Fault {
		if call.Operation != "create" {
			return fake.Fault{}
		}
		return fake.Fault{Err: &driver.InvalidConfigurationError{Field: "spec.image", Err: errors.New("there is none")}}
	}
	machine, _ := r.machine("worker")
	if _, err := r.reconcile(machine); err != nil {
		t.Fatal(err)
	}
	if result, err := r.reconcile(machine); err != nil || result.RequeueAfter != 11*time.Minute {
		t.Errorf("got %+v and %v, want half of a spread of 2 minutes after 10", result, err)
	}
}

// TestConfigurationThatNoCloudWasAskedForIsFinal: only another spec helps.
func TestConfigurationThatNoCloudWasAskedForIsFinal(t *testing.T) {
	t.Parallel()
	for name, refuse := range map[string]func(*fixture){
		"before the creation": func(r *fixture) {
			r.invalid = &driver.InvalidConfigurationError{Field: "spec.zone", Err: errors.New("no subnet is in the zone")}
		},
		"in the driver": func(r *fixture) {
			r.faults = func(call fake.Call) fake.Fault {
				if call.Operation != "create" {
					return fake.Fault{}
				}
				return fake.Fault{Err: driver.NeverValid("bootstrap data", "it is too long")}
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newFixture(t, fake.Options{})
			refuse(r)
			machine, _ := r.machine("worker")
			if _, err := r.reconcile(machine); err != nil {
				t.Fatal(err)
			}
			if result, err := r.reconcile(machine); err != nil || result.RequeueAfter != 0 {
				t.Errorf("got %+v and %v, want no other try", result, err)
			}
			r.wantReason(machine, clusterv1.ReadyCondition, infrav1.InvalidConfigurationReason)
			ready := meta.FindStatusCondition(machine.Status.Conditions, clusterv1.ReadyCondition)
			if strings.Contains(ready.Message, "tried again") {
				t.Errorf("got the message %q", ready.Message)
			}
		})
	}
}

// TestConfigurationThatWasValidIsTriedAgain: the instance of a machine ran, so what its credentials lead to has changed, such
// as a datacenter that their user does not see any more. Nothing of the machine changes when that is corrected.
func TestConfigurationThatWasValidIsTriedAgain(t *testing.T) {
	t.Parallel()
	r := newFixture(t, fake.Options{})
	machine, _ := r.machine("worker")
	r.settle(machine)
	r.faults = func(fake.Call) fake.Fault {
		return fake.Fault{Err: &driver.InvalidConfigurationError{Field: "spec.region", Err: errors.New("the cloud has several")}}
	}
	result, err := r.reconcile(machine)
	if err != nil || result.RequeueAfter != time.Minute {
		t.Errorf("got %+v and %v, want another try after a minute", result, err)
	}
	r.wantReason(machine, clusterv1.ReadyCondition, infrav1.InvalidConfigurationReason)
	r.faults = nil
	r.settle(machine)
	r.wantReason(machine, clusterv1.ReadyCondition, infrav1.InstanceRunningReason)
}

func TestDeletes(t *testing.T) {
	t.Parallel()
	for name, given := range map[string]func(*fixture, *infrav1.SimMachine, *clusterv1.Machine){
		"a machine that runs": func(*fixture, *infrav1.SimMachine, *clusterv1.Machine) {},
		"a machine whose Cluster and Machine are gone": func(r *fixture, _ *infrav1.SimMachine, owner *clusterv1.Machine) {
			r.delete(r.home, owner)
		},
		"a machine that lost its label": func(r *fixture, machine *infrav1.SimMachine, _ *clusterv1.Machine) {
			r.update(machine, func() { machine.Labels = nil })
		},
		"a machine that lost its status": func(r *fixture, machine *infrav1.SimMachine, _ *clusterv1.Machine) {
			machine.Status = infrav1.MachineStatus{InstanceState: "Lost"}
			if err := cluster.Client.Status().Update(r.t.Context(), machine); err != nil {
				r.t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newFixture(t, fake.Options{DeleteReads: 2})
			machine, owner := r.machine("worker")
			r.settle(machine)
			given(r, machine, owner)
			r.delete(machine)
			if _, err := r.reconcile(machine); err != nil {
				t.Fatal(err)
			}
			r.wantReason(machine, clusterv1.ReadyCondition, infrav1.DeletingReason)
			r.wantInCloud(1) // the finalizer stays while a read still finds the instance
			for range 3 {
				if _, err := r.reconcile(machine); err != nil {
					t.Fatal(err)
				}
			}
			r.wantGone(machine)
			r.wantInCloud(0)
			if got := r.cloud.Snapshot().Calls["delete"]; got != 2 {
				t.Errorf("%d deletions were asked for, want one of the instance and one of what outlives it", got)
			}
		})
	}
}

// TestDeletionWithoutACluster: without the name of its Cluster no instance can be proven to be the machine's.
func TestDeletionWithoutACluster(t *testing.T) {
	t.Parallel()
	r := newFixture(t, fake.Options{})
	machine, owner := r.machine("worker")
	r.settle(machine)
	r.update(machine, func() { machine.Labels = nil })
	r.delete(owner, machine)
	r.settle(machine)
	r.wantReason(machine, clusterv1.ReadyCondition, infrav1.ClusterUnknownReason)
	r.wantInCloud(1)
	r.update(machine, func() { machine.Labels = map[string]string{clusterv1.ClusterNameLabel: "home"} })
	r.settle(machine)
	r.wantGone(machine)
	r.wantInCloud(0)
}

// TestPendingDeletionHasTheMessageOfTheCloud in its Ready condition.
func TestPendingDeletionHasTheMessageOfTheCloud(t *testing.T) {
	t.Parallel()
	r := newFixture(t, fake.Options{DeleteReads: 5})
	machine, _ := r.machine("worker")
	r.settle(machine)
	r.cloud.Set(machine.UID, func(i *driver.Instance) { i.Message = "the disk is locked" })
	r.delete(machine)
	for range 2 {
		if _, err := r.reconcile(machine); err != nil {
			t.Fatal(err)
		}
		r.wantReason(machine, clusterv1.ReadyCondition, infrav1.DeletingReason)
		ready := meta.FindStatusCondition(machine.Status.Conditions, clusterv1.ReadyCondition)
		if ready == nil || !strings.Contains(ready.Message, "the disk is locked") {
			t.Errorf("Ready is %+v", ready)
		}
	}
}

// TestForgedMachineTouchesNoForeignInstance has the sequence of a tenant with the name and the providerID of another
// one's machine: an object with the finalizer and without any label, owner or annotation, or with forged ones.
func TestForgedMachineTouchesNoForeignInstance(t *testing.T) {
	t.Parallel()
	r := newFixture(t, fake.Options{})
	owner, _ := r.machine("worker")
	r.settle(owner)
	evil, err := cluster.Namespace(t.Context(), "evil")
	if err != nil {
		t.Fatal(err)
	}
	inCluster := map[string]string{clusterv1.ClusterNameLabel: "home"}
	for name, forge := range map[string]func(*infrav1.SimMachine){
		"without anything":      func(*infrav1.SimMachine) {},
		"with the cluster's":    func(m *infrav1.SimMachine) { m.Labels = inCluster },
		"with the identity too": func(m *infrav1.SimMachine) { m.Labels, m.Annotations = inCluster, owner.Annotations },
		"with the identity only": func(m *infrav1.SimMachine) {
			m.Labels, m.Annotations, m.Spec.ProviderID = inCluster, owner.Annotations, ""
		},
	} {
		t.Run(name, func(t *testing.T) { // one after the other, all have the victim's name
			forged := &infrav1.SimMachine{ObjectMeta: metav1.ObjectMeta{Namespace: evil, Name: "worker", Finalizers: []string{infrav1.MachineFinalizer}}, Spec: owner.Spec}
			forge(forged)
			if err := cluster.Client.Create(t.Context(), forged); err != nil {
				t.Fatal(err)
			}
			r.delete(forged)
			calls := r.spent(func() { r.settle(forged) })
			r.wantGone(forged)
			r.wantInCloud(1)
			if len(calls) > 0 && forged.Annotations == nil {
				t.Errorf("the cloud was asked %v", calls)
			}
		})
	}
	r.settle(owner)
	r.wantReason(owner, clusterv1.ReadyCondition, infrav1.InstanceRunningReason)
}

func TestForeignInstanceIsNotTouched(t *testing.T) {
	t.Parallel()
	r := newFixture(t, fake.Options{})
	owner, _ := r.machine("victim")
	r.settle(owner)
	thief, _ := r.machine("thief", func(m *infrav1.SimMachine) { m.Spec.ProviderID = owner.Spec.ProviderID })
	r.settle(thief)
	r.wantReason(thief, clusterv1.ReadyCondition, infrav1.InstanceNotOwnedReason)
	copied, _ := r.machine("copied", func(m *infrav1.SimMachine) { m.Annotations = owner.Annotations })
	r.settle(copied)
	r.wantReason(copied, clusterv1.ReadyCondition, infrav1.InstanceNotOwnedReason)

	r.delete(thief, copied)
	r.settle(thief)
	r.settle(copied)
	r.wantGone(thief)
	r.wantGone(copied)
	r.wantInCloud(1)
	if _, ok := r.cloud.Snapshot().Instances[owner.UID]; !ok {
		t.Error("the victim lost its instance")
	}
}
