// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package orphan

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	infrav1 "drover.io/api/infrastructure/v1alpha1"
	droverpolicyv1 "drover.io/api/policy/v1alpha1"
	"drover.io/infra-providers/driver"
	"drover.io/infra-providers/driver/fake"
	"drover.io/infra-providers/internal/account"
	"drover.io/infra-providers/internal/testenv"
)

var cluster *testenv.Cluster

func TestMain(m *testing.M) {
	os.Exit(testenv.Main(m, func(started *testenv.Cluster) error {
		cluster = started
		return nil
	}))
}

// fixture is a fake cloud with one Cluster, and what a test creates in it.
type fixture struct {
	*testing.T
	*Collector[*infrav1.SimMachine, fake.Config]
	home     *clusterv1.Cluster
	cloud    *fake.Cloud
	recorder *events.FakeRecorder
	fault    func(fake.Call) fake.Fault
	// elsewhere is the cloud of another account.
	elsewhere *fake.Cloud
	// named are the clouds that Secrets lead to, by the Secret's name.
	named map[string]driver.Driver[fake.Config]
	// hidden makes the cache have no machines, liveFails makes live lists fail.
	hidden, liveFails bool
	now               time.Time
	// liveCluster changes what a live read of a Cluster returns; nil for no change.
	liveCluster func(*clusterv1.Cluster)
	// others are what another management cluster has created.
	others map[types.UID]bool
	// omitted is the provider ID of the instance that lists leave out.
	omitted string
	// heartbeatUnknown is true while the heartbeat was not read.
	heartbeatUnknown bool
	// timers is the clock of timers, which runs by itself only when a test steps it.
	timers *clocktesting.FakeClock
}

// fixtureClock is the clock of a fixture.
type fixtureClock struct {
	clock.Clock
	fixture *fixture
}

func (c fixtureClock) Now() time.Time { return c.fixture.now }

func newFixture(t *testing.T, options Options) *fixture {
	t.Helper()
	return newFixtureOf(t, options, fake.Options{})
}

// newFixtureOf has a cloud with other settings.
func newFixtureOf(t *testing.T, options Options, of fake.Options) *fixture {
	t.Helper()
	namespace, err := cluster.Namespace(t.Context(), "orphan")
	if err != nil {
		t.Fatal(err)
	}
	home, err := cluster.Cluster(t.Context(), namespace, "home")
	if err != nil {
		t.Fatal(err)
	}
	f := &fixture{T: t, home: home, recorder: events.NewFakeRecorder(100), now: time.Unix(1_000_000, 0), timers: clocktesting.NewFakeClock(time.Unix(1_000_000, 0)), others: map[types.UID]bool{}}
	of.Now = func() time.Time { return f.now }
	of.Faults = func(call fake.Call) fake.Fault {
		if f.fault == nil {
			return fake.Fault{}
		}
		return f.fault(call)
	}
	f.cloud = fake.New(of)
	described := driver.Cloud[*infrav1.SimMachine, fake.Config]{
		Name:           "fake",
		RemovesInSteps: of.Steps > 0,
		NewMachine:     func() *infrav1.SimMachine { return &infrav1.SimMachine{} },
		NewMachineList: func() driver.MachineList { return &infrav1.SimMachineList{} },
		NewTemplate:    func() driver.Template[*infrav1.SimMachine] { return &infrav1.SimMachineTemplate{} },
		NormalizeProviderID: func(id string) string {
			return "normal:" + strings.TrimPrefix(id, otherForm)
		},
		Account: func(m *infrav1.SimMachine) driver.Account {
			if strings.HasPrefix(m.Spec.InstanceType, secretPrefix) {
				return driver.Account{SecretName: m.Spec.InstanceType}
			}
			return driver.Account{Region: m.Spec.Zone}
		},
		Connect: func(_ context.Context, at driver.Account, _ driver.Credentials) (driver.Driver[fake.Config], error) {
			if named := f.named[at.SecretName]; named != nil {
				return named, nil
			}
			switch at.Region {
			case "":
				return withoutProvisioner{omitting{f.cloud, f}, f.cloud}, nil
			case f.elsewhereZone():
				return f.elsewhere, nil
			default: // another test's: they share the API server
				return fake.New(fake.Options{}), nil
			}
		},
	}
	accounts := account.NewCache(described, account.Options{Secrets: cluster.Client, OwnCredentials: []string{account.EveryNamespace}, Now: time.Now, Changed: func(driver.Identity) {}})
	if _, err := accounts.Driver(t.Context(), &infrav1.SimMachine{}); err != nil {
		t.Fatal(err)
	}
	direct, err := client.NewWithWatch(cluster.Config, client.Options{Scheme: cluster.Client.Scheme()})
	if err != nil {
		t.Fatal(err)
	}
	cached := interceptor.NewClient(direct, interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
			switch list.(type) {
			case *infrav1.SimMachineList, *clusterv1.MachineList:
				if f.hidden {
					return nil
				}
			}
			return c.List(ctx, list, options...)
		},
	})
	live := interceptor.NewClient(direct, interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
			err := c.Get(ctx, key, object, options...)
			if live, ok := object.(*clusterv1.Cluster); ok && f.liveCluster != nil {
				f.liveCluster(live)
			}
			return err
		},
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
			if f.liveFails {
				return errors.New("the API server is gone")
			}
			return c.List(ctx, list, options...)
		},
	})
	f.Collector = &Collector[*infrav1.SimMachine, fake.Config]{
		Cloud: described, Accounts: accounts, Client: cached, Live: live,
		Events: f.recorder, Clock: fixtureClock{f.timers, f}, Options: options,
		Memory: creations{f}, Core: client.ObjectKey{Namespace: namespace, Name: "core"},
	}
	return f
}

// withoutProvisioner is a cloud that creates an instance in one go, however many steps its removal takes.
type withoutProvisioner struct {
	driver.Driver[fake.Config]
	driver.AttachedObjectLister
}

// omitting is a cloud whose lists leave out an instance.
type omitting struct {
	driver.Driver[fake.Config]
	*fixture
}

func (o omitting) List(ctx context.Context, owner driver.Owner) iter.Seq2[driver.Instance, error] {
	return func(yield func(driver.Instance, error) bool) {
		for listed, err := range o.Driver.List(ctx, owner) {
			if (err != nil || listed.ProviderID != o.omitted) && !yield(listed, err) {
				return
			}
		}
	}
}

// otherForm begins a form of a provider ID that the cloud accepts and never returns.
const otherForm = "other-form:"

// secretPrefix begins the names of the Secrets that machines name in place of an instance type.
const secretPrefix = "secret-"

// creations are all instances but those that others have created.
type creations struct{ *fixture }

func (r creations) Known() bool { return !r.heartbeatUnknown }

func (r creations) Ours(uid types.UID, _ time.Time) bool { return !r.others[uid] }

// elsewhereZone is what machines of the other account name.
func (f *fixture) elsewhereZone() string { return f.home.Namespace + "-elsewhere" }

var usual = Options{Period: time.Hour, Grace: 20 * time.Minute, Cap: 5}

// lost is the UID of a machine that does not exist; the other tests share the API server.
func (f *fixture) lost(name string) types.UID { return types.UID(f.home.Namespace + "-" + name) }

// createOrphan creates an instance that no machine owns.
func (f *fixture) createOrphan(name string) types.UID {
	f.Helper()
	return f.createLeft(name, f.lost(name))
}

// createLeft creates an instance of a machine that was removed.
func (f *fixture) createLeft(name string, uid types.UID) types.UID {
	f.Helper()
	id := driver.Identity{UID: uid, Name: name, Owner: f.owner()}
	if _, err := f.cloud.Create(f.Context(), driver.CreateRequest[fake.Config]{Identity: id, Config: fake.Config{InstanceType: "small", Zone: "z"}}); err != nil {
		f.Fatal(err)
	}
	return id.UID
}

// createOwned creates a machine with an instance.
func (f *fixture) createOwned(name string) types.UID {
	f.Helper()
	machine := &infrav1.SimMachine{ObjectMeta: metav1.ObjectMeta{Namespace: f.home.Namespace, Name: name}}
	if err := cluster.Client.Create(f.Context(), machine); err != nil {
		f.Fatal(err)
	}
	id := driver.Identity{UID: machine.UID, Name: name, Owner: driver.Owner{UID: f.home.UID, Namespace: f.home.Namespace, Name: "home"}}
	if _, err := f.cloud.Create(f.Context(), driver.CreateRequest[fake.Config]{Identity: id, Config: fake.Config{InstanceType: "small", Zone: "z"}}); err != nil {
		f.Fatal(err)
	}
	return machine.UID
}

// claim sets the condition that states which management cluster acts on the workload cluster.
func (f *fixture) claim(status metav1.ConditionStatus, reason string) {
	f.Helper()
	f.home.Status.Conditions = []metav1.Condition{{
		Type: droverpolicyv1.ManagementClaimedCondition, Status: status, Reason: reason, LastTransitionTime: metav1.Now(),
	}}
	if err := cluster.Client.Status().Update(f.Context(), f.home); err != nil {
		f.Fatal(err)
	}
}

// sweep looks n times, a grace period apart.
func (f *fixture) sweep(n int) {
	f.Helper()
	for range n {
		f.now = f.now.Add(21 * time.Minute)
		if err := f.Sweep(f.Context()); err != nil {
			f.Fatal(err)
		}
	}
}

// nextEvent returns the next event, or "" when there is none.
func (f *fixture) nextEvent() string {
	select {
	case event := <-f.recorder.Events:
		return event
	default:
		return ""
	}
}

// awaitEvent waits for the next event, of a sweep that the test did not call.
func (f *fixture) awaitEvent() string {
	f.Helper()
	select {
	case event := <-f.recorder.Events:
		return event
	case <-time.After(time.Minute):
		f.Fatal("no event within a minute")
		return ""
	}
}

func (f *fixture) wantInCloud(instances, disks int) {
	f.Helper()
	snapshot := f.cloud.Snapshot()
	if len(snapshot.Instances) != instances || len(snapshot.Disks) != disks {
		f.Errorf("the cloud has %d instances and %d disks, want %d and %d", len(snapshot.Instances), len(snapshot.Disks), instances, disks)
	}
}

func TestDeletesAnOrphanInTheSecondSweep(t *testing.T) {
	t.Parallel()
	f := newFixture(t, usual)
	f.createOrphan("lost")
	kept := f.createOwned("kept")
	f.sweep(1)
	f.wantInCloud(2, 2)
	if event := f.nextEvent(); !strings.Contains(event, "OrphanFound") || !strings.Contains(event, `machine "lost" has no owner`) {
		t.Errorf("told %q", event)
	}
	f.sweep(1)
	f.wantInCloud(1, 1)
	if _, ok := f.cloud.Snapshot().Instances[kept]; !ok {
		t.Error("the machine lost its instance")
	}
	f.sweep(3)
	f.wantInCloud(1, 1)
}

// TestCollectsInSteps has a cloud where a removal takes several calls of Delete.
func TestCollectsInSteps(t *testing.T) {
	t.Parallel()
	f := newFixtureOf(t, usual, fake.Options{Steps: 3, DeleteReads: 1})
	f.createOrphan("lost")
	f.sweep(1)
	f.wantInCloud(1, 1)
	ticking, stop := context.WithCancel(t.Context())
	defer stop()
	go func() {
		for ; ticking.Err() == nil; time.Sleep(time.Millisecond) {
			if f.timers.HasWaiters() {
				f.timers.Step(time.Second)
			}
		}
	}()
	f.sweep(1)
	f.wantInCloud(0, 0)
	if got := f.cloud.Snapshot().Calls["delete"]; got < 3 {
		t.Errorf("Delete was called %d times, want once for each of 3 steps", got)
	}
	deleted := map[string]int{}
	for event := f.nextEvent(); event != ""; event = f.nextEvent() {
		for _, kind := range []string{"instance", "disk"} {
			if strings.Contains(event, "OrphanDeleted deleted "+kind) {
				deleted[kind]++
			}
		}
	}
	if want := map[string]int{"instance": 1, "disk": 1}; !maps.Equal(deleted, want) {
		t.Errorf("told of the deletions %v, want %v", deleted, want)
	}
}

// failing has each call of an operation fail.
func failing(operation string, err error) func(fake.Call) fake.Fault {
	return func(call fake.Call) fake.Fault {
		if call.Operation == operation {
			return fake.Fault{Err: err}
		}
		return fake.Fault{}
	}
}

// TestFinishesARemovalInTheNextSweep: a step that fails ends the work on an orphan for this sweep only.
func TestFinishesARemovalInTheNextSweep(t *testing.T) {
	t.Parallel()
	f := newFixtureOf(t, usual, fake.Options{Steps: 2})
	f.createOrphan("lost")
	f.sweep(1)
	f.fault = failing("get", errors.New("internal error"))
	f.now = f.now.Add(21 * time.Minute)
	if err := f.Sweep(t.Context()); err == nil {
		t.Error("the failure of a step was not returned")
	}
	f.wantInCloud(1, 1)
	f.fault = nil
	f.sweep(2)
	f.wantInCloud(0, 0)
}

// TestRemovalOfAnUnfinishedInstance: until what a creation left is gone, a cloud may have no instance to show.
func TestRemovalOfAnUnfinishedInstance(t *testing.T) {
	t.Parallel()
	f := newFixtureOf(t, usual, fake.Options{Steps: 2})
	f.createOrphan("lost")
	f.sweep(1)
	f.fault = failing("get", &driver.UnfinishedError{Err: errors.New("the creation has failed")})
	f.now = f.now.Add(21 * time.Minute)
	if err := f.Sweep(t.Context()); err != nil {
		t.Errorf("the removal counts as failed: %v", err)
	}
}

func TestDeletesADiskWithoutAnInstance(t *testing.T) {
	t.Parallel()
	f := newFixture(t, usual)
	f.fault = failing("create", errors.New("internal error"))
	id := driver.Identity{UID: "lost", Name: "lost", Owner: driver.Owner{UID: f.home.UID, Namespace: f.home.Namespace, Name: "home"}}
	if _, err := f.cloud.Create(t.Context(), driver.CreateRequest[fake.Config]{Identity: id, Config: fake.Config{InstanceType: "small"}}); err == nil {
		t.Fatal("the creation succeeded")
	}
	f.wantInCloud(0, 1)
	f.sweep(2)
	f.wantInCloud(0, 0)
}

// TestForeignInstanceProtectsTheCluster leaves an orphan of ours beside what another management cluster made.
func TestForeignInstanceProtectsTheCluster(t *testing.T) {
	t.Parallel()
	f := newFixture(t, usual)
	f.createOrphan("lost")
	f.others[f.createOrphan("theirs")] = true
	f.sweep(3)
	f.wantInCloud(2, 2)
	for range 2 { // the instance and its disk
		if event := f.nextEvent(); !strings.Contains(event, "OrphanOfAnotherManagementCluster") || !strings.Contains(event, `machine "theirs"`) {
			t.Errorf("told %q", event)
		}
	}
	if len(f.recorder.Events) > 0 {
		t.Errorf("told again: %q", f.nextEvent())
	}
}

// TestClusterIsConfirmedByALiveRead: the cache is behind, and shows neither that the Cluster was replaced nor that nothing
// of it may be deleted.
func TestClusterIsConfirmedByALiveRead(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*clusterv1.Cluster){
		"replaced by another of the same name": func(c *clusterv1.Cluster) { c.UID = "another" },
		"paused":                               func(c *clusterv1.Cluster) { c.Spec.Paused = ptr.To(true) },
		"labelled for another provider":        func(c *clusterv1.Cluster) { c.Labels = map[string]string{clusterv1.WatchLabel: "other"} },
		"claimed by another management cluster": func(c *clusterv1.Cluster) {
			c.Status.Conditions = []metav1.Condition{{Type: droverpolicyv1.ManagementClaimedCondition, Status: metav1.ConditionFalse}}
		},
		"not reachable": func(c *clusterv1.Cluster) { c.Status.Initialization.ControlPlaneInitialized = ptr.To(true) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t, usual)
			f.WatchFilter = "ours"
			f.home.Labels = map[string]string{clusterv1.WatchLabel: "ours"}
			if err := cluster.Client.Update(t.Context(), f.home); err != nil {
				t.Fatal(err)
			}
			f.createOrphan("lost")
			f.liveCluster = change
			f.sweep(3)
			f.wantInCloud(1, 1)
			f.liveCluster = nil
			f.sweep(1)
			f.wantInCloud(0, 0)
		})
	}
}

// TestListsWhatIsHalfRemoved: the next sweep takes the steps of a removal that are left, and no step of one that the cloud
// carries out.
func TestListsWhatIsHalfRemoved(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		cloud fake.Options
		want  []string
	}{
		"with a step due":    {fake.Options{Steps: 3}, []string{"disk", "instance"}},
		"without a step due": {fake.Options{DeleteReads: 5}, []string{"disk"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixtureOf(t, usual, test.cloud)
			connected, err := f.Accounts.Driver(t.Context(), &infrav1.SimMachine{})
			if err != nil {
				t.Fatal(err)
			}
			f.createOrphan("lost")
			for _, id := range f.cloud.Snapshot().Instances {
				if err := f.cloud.Delete(t.Context(), id); err != nil {
					t.Fatal(err)
				}
			}
			found, _, err := f.everything(t.Context(), connected, 10)
			if err != nil {
				t.Fatal(err)
			}
			var kinds []string
			for _, thing := range found {
				kinds = append(kinds, thing.Kind)
			}
			slices.Sort(kinds)
			if !slices.Equal(kinds, test.want) {
				t.Errorf("found %q, want %q", kinds, test.want)
			}
		})
	}
}

// TestDeletesNothing breaks each precondition in turn.
func TestDeletesNothing(t *testing.T) {
	t.Parallel()
	dry := usual
	dry.DryRun = true
	for name, test := range map[string]struct {
		options Options
		given   func(*fixture)
		fails   bool
	}{
		"in dry-run mode": {dry, func(*fixture) {}, false},
		"while the Cluster is paused": {usual, func(f *fixture) {
			f.home.Spec.Paused = ptr.To(true)
			if err := cluster.Client.Update(f.Context(), f.home); err != nil {
				f.Fatal(err)
			}
		}, false},
		"while a MachineDeployment of the Cluster is frozen for an overshoot": {usual, func(f *fixture) {
			f.createOwner(&clusterv1.MachineDeployment{}, droverpolicyv1.FrozenLabel, "")
		}, false},
		"while a MachineSet of the Cluster is frozen by hand": {usual, func(f *fixture) {
			f.createOwner(&clusterv1.MachineSet{}, "", "true")
		}, false},
		"while an order to freeze a MachineDeployment is not understood": {usual, func(f *fixture) {
			f.createOwner(&clusterv1.MachineDeployment{}, "", "True")
		}, false},
		"while the workload cluster does not answer": {usual, func(f *fixture) {
			f.home.Status.Initialization.ControlPlaneInitialized = ptr.To(true)
			f.home.Status.Conditions = []metav1.Condition{{
				Type: clusterv1.ClusterRemoteConnectionProbeCondition, Status: metav1.ConditionFalse,
				Reason: clusterv1.ClusterRemoteConnectionProbeFailedReason, LastTransitionTime: metav1.Now(),
			}}
			if err := cluster.Client.Status().Update(f.Context(), f.home); err != nil {
				f.Fatal(err)
			}
		}, false},
		"while it is not known whether the workload cluster answers": {usual, func(f *fixture) {
			f.home.Status.Initialization.ControlPlaneInitialized = ptr.To(true)
			if err := cluster.Client.Status().Update(f.Context(), f.home); err != nil {
				f.Fatal(err)
			}
		}, false},
		"while machine-controller does not run, so that its conditions are old": {usual, func(f *fixture) { f.elect(-time.Hour) }, false},
		"while a Machine refers to the instance":                                {usual, func(f *fixture) { f.refer("lost", "home") }, false},
		"when the cache misses a Machine that refers to the instance": {usual, func(f *fixture) {
			f.hidden = true
			f.refer("lost", "home")
		}, false},
		"while the heartbeat was not read": {usual, func(f *fixture) { f.heartbeatUnknown = true }, true},
		"when the tags lack something": {usual, func(f *fixture) {
			f.cloud.Untag(f.cloud.Snapshot().Instances[f.lost("lost")].ProviderID, driver.TagCluster)
		}, false},
		"when the Cluster is gone": {usual, func(f *fixture) {
			if err := cluster.Client.Delete(f.Context(), f.home); err != nil {
				f.Fatal(err)
			}
		}, false},
		"while another management cluster acts on the workload cluster": {usual, func(f *fixture) {
			f.claim(metav1.ConditionFalse, droverpolicyv1.ClaimedElsewhereReason)
		}, false},
		"while the workload cluster has not been claimed yet": {usual, func(f *fixture) {
			f.claim(metav1.ConditionUnknown, droverpolicyv1.NotClaimedYetReason)
		}, false},
		"when it was created while no provider of ours was running": {usual, func(f *fixture) {
			f.others[f.lost("lost")] = true
		}, false},
		"while the Cluster is paused by its annotation": {usual, func(f *fixture) {
			f.home.Annotations = map[string]string{clusterv1.PausedAnnotation: ""}
			if err := cluster.Client.Update(f.Context(), f.home); err != nil {
				f.Fatal(err)
			}
		}, false},
		"when the Cluster is labelled for another provider": {usual, func(f *fixture) {
			f.WatchFilter = "ours"
			f.home.Labels = map[string]string{clusterv1.WatchLabel: "theirs"}
			if err := cluster.Client.Update(f.Context(), f.home); err != nil {
				f.Fatal(err)
			}
		}, false},
		"when the Cluster is labelled for no provider": {usual, func(f *fixture) { f.WatchFilter = "ours" }, false},
		"while the fleets cannot be read":              {usual, func(f *fixture) { f.liveFails = true }, true},
		"when the Cluster was replaced by one of the same name": {usual, func(f *fixture) {
			if err := cluster.Client.Delete(f.Context(), f.home); err != nil {
				f.Fatal(err)
			}
			if _, err := cluster.Cluster(f.Context(), f.home.Namespace, "home"); err != nil {
				f.Fatal(err)
			}
		}, false},
		"when a list breaks off": {usual, func(f *fixture) {
			pages := 0
			f.fault = func(call fake.Call) fake.Fault {
				if call.Operation == "list" {
					if pages++; pages%2 == 0 {
						return fake.Fault{Err: errors.New("gateway timeout")}
					}
				}
				return fake.Fault{}
			}
		}, true},
		"when the cache misses a machine that the API server has": {usual, func(f *fixture) {
			f.hidden = true
			machine := &infrav1.SimMachine{ObjectMeta: metav1.ObjectMeta{
				Namespace: f.home.Namespace, Name: "lost", Annotations: map[string]string{infrav1.IdentityAnnotation: string(f.lost("lost"))}}}
			if err := cluster.Client.Create(f.Context(), machine); err != nil {
				f.Fatal(err)
			}
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t, test.options)
			f.createOrphan("lost")
			test.given(f)
			for range 3 {
				f.now = f.now.Add(21 * time.Minute)
				if err := f.Sweep(t.Context()); (err != nil) != test.fails {
					t.Errorf("got %v, want failure %t", err, test.fails)
				}
			}
			f.wantInCloud(1, 1)
			for len(f.recorder.Events) > 0 {
				if event := f.nextEvent(); strings.Contains(event, "OrphanDeleted") {
					t.Errorf("told %q", event)
				}
			}
		})
	}
}

// createOwner creates a MachineDeployment or MachineSet of the Cluster with a label and the operator's word on
// freezing.
func (f *fixture) createOwner(object client.Object, label, word string) {
	f.Helper()
	template := clusterv1.MachineTemplateSpec{
		ObjectMeta: clusterv1.ObjectMeta{Labels: map[string]string{"pool": "a"}},
		Spec: clusterv1.MachineSpec{
			ClusterName:       "home",
			Bootstrap:         clusterv1.Bootstrap{DataSecretName: ptr.To("data")},
			InfrastructureRef: clusterv1.ContractVersionedObjectReference{APIGroup: infrav1.GroupVersion.Group, Kind: "SimMachineTemplate", Name: "t"},
		},
	}
	selector := metav1.LabelSelector{MatchLabels: map[string]string{"pool": "a"}}
	switch owner := object.(type) {
	case *clusterv1.MachineDeployment:
		owner.Spec = clusterv1.MachineDeploymentSpec{ClusterName: "home", Selector: selector, Template: template}
	case *clusterv1.MachineSet:
		owner.Spec = clusterv1.MachineSetSpec{ClusterName: "home", Selector: selector, Template: template}
	}
	object.SetNamespace(f.home.Namespace)
	object.SetGenerateName("owner-")
	object.SetLabels(map[string]string{clusterv1.ClusterNameLabel: "home"})
	if label != "" {
		object.GetLabels()[label] = "true"
	}
	if word != "" {
		object.SetAnnotations(map[string]string{droverpolicyv1.FreezeAnnotation: word})
	}
	if err := cluster.Client.Create(f.Context(), object); err != nil {
		f.Fatal(err)
	}
}

// TestDeletesOrphanOfUnfrozenOwner has owners that are not frozen, one of them by the annotation.
func TestDeletesOrphanOfUnfrozenOwner(t *testing.T) {
	t.Parallel()
	f := newFixture(t, usual)
	f.createOrphan("lost")
	f.createOwner(&clusterv1.MachineDeployment{}, "", "")
	f.createOwner(&clusterv1.MachineDeployment{}, droverpolicyv1.FrozenLabel, "false")
	f.sweep(2)
	f.wantInCloud(0, 0)
}

// TestReadsNoOwnersWithoutAnOrphan counts the live lists of a sweep that finds no orphan.
func TestReadsNoOwnersWithoutAnOrphan(t *testing.T) {
	t.Parallel()
	f := newFixture(t, usual)
	f.createOwned("kept")
	f.liveFails = true // a live list would fail
	f.sweep(3)
	f.wantInCloud(1, 1)
}

// TestOrphanThatCannotBeDeletedDelaysNoOther has the cloud refuse to delete the oldest orphan.
func TestOrphanThatCannotBeDeletedDelaysNoOther(t *testing.T) {
	t.Parallel()
	f := newFixture(t, usual)
	stays := f.createOrphan("stays")
	f.now = f.now.Add(time.Minute)
	f.createOrphan("goes")
	f.fault = func(call fake.Call) fake.Fault {
		if call.Operation == "delete" && call.Identity.UID == stays {
			return fake.Fault{Err: errors.New("internal error")}
		}
		return fake.Fault{}
	}
	f.sweep(1)
	f.now = f.now.Add(21 * time.Minute)
	if err := f.Sweep(t.Context()); err == nil {
		t.Error("the failure was swallowed")
	}
	f.wantInCloud(1, 1)
	if _, left := f.cloud.Snapshot().Instances[stays]; !left {
		t.Error("the wrong one is gone")
	}
}

// TestFailuresAreInOneLine: the log has an error with line breaks in several lines, of which grep finds the first one only.
func TestFailuresAreInOneLine(t *testing.T) {
	t.Parallel()
	f := newFixture(t, usual)
	for _, name := range []string{"first", "second"} {
		f.createOrphan(name)
	}
	f.sweep(1)
	f.fault = func(call fake.Call) fake.Fault {
		if call.Operation == "delete" {
			return fake.Fault{Err: fmt.Errorf("%s is protected", call.Identity.Name)}
		}
		return fake.Fault{}
	}
	f.now = f.now.Add(21 * time.Minute)
	err := f.Sweep(t.Context())
	if err == nil {
		t.Fatal("the failures were swallowed")
	}
	for _, name := range []string{"first", "second"} {
		if text := err.Error(); !strings.Contains(text, name+" is protected") || strings.Contains(text, "\n") {
			t.Errorf("the failure of %s is not in the one line of %q", name, text)
		}
	}
}

// TestAccountThatFailsDelaysNoOther has a second account whose list never completes.
func TestAccountThatFailsDelaysNoOther(t *testing.T) {
	t.Parallel()
	f := newFixture(t, usual)
	f.elsewhere = fake.New(fake.Options{Faults: func(fake.Call) fake.Fault { return fake.Fault{Err: errors.New("gateway timeout")} }})
	if _, err := f.Accounts.Driver(t.Context(), &infrav1.SimMachine{Spec: infrav1.SimMachineSpec{Zone: f.elsewhereZone()}}); err != nil {
		t.Fatal(err)
	}
	f.createOrphan("lost")
	for range 2 {
		f.now = f.now.Add(21 * time.Minute)
		if err := f.Sweep(t.Context()); err == nil {
			t.Error("the failure was swallowed")
		}
	}
	f.wantInCloud(0, 0)
}

func TestDeletesUpToTheCap(t *testing.T) {
	t.Parallel()
	options := usual
	options.Cap = 2
	f := newFixture(t, options)
	for n := range 3 {
		f.createOrphan(fmt.Sprint("lost-", n))
	}
	f.sweep(2)
	// An instance takes its disk with it, and both were counted, so one instance is all that fits.
	if left := len(f.cloud.Snapshot().Instances); left < 1 {
		t.Errorf("%d instances are left, want at least 1", left)
	}
	f.sweep(5)
	f.wantInCloud(0, 0)
}
