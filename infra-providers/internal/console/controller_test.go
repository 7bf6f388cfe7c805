// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package console_test

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	infrav1 "drover.io/api/infrastructure/v1alpha1"
	droverpolicyv1 "drover.io/api/policy/v1alpha1"
	"drover.io/infra-providers/driver"
	"drover.io/infra-providers/driver/fake"
	"drover.io/infra-providers/internal/account"
	"drover.io/infra-providers/internal/console"
	"drover.io/infra-providers/internal/machinestatus"
	"drover.io/infra-providers/internal/testenv"
)

var cluster *testenv.Cluster

func TestMain(m *testing.M) {
	os.Exit(testenv.Main(m, func(started *testenv.Cluster) error {
		cluster = started
		return nil
	}))
}

const (
	uid   = "worker-uid"
	after = 5 * time.Minute
)

// fixture is a Machine whose instance runs and that has no Node, and a reconciler that is called by hand.
type fixture struct {
	t        *testing.T
	home     *clusterv1.Cluster
	owner    *clusterv1.Machine
	infra    *infrav1.SimMachine
	cloud    *fake.Cloud
	faults   func(fake.Call) fake.Fault
	reads    int
	writes   int
	recorder *events.FakeRecorder
	now      time.Time
	*console.Reconciler[*infrav1.SimMachine, fake.Config]
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	f := &fixture{t: t, recorder: events.NewFakeRecorder(100)}
	f.cloud = fake.New(fake.Options{Faults: func(call fake.Call) fake.Fault {
		if call.Operation == "console" {
			f.reads++
			if f.faults != nil {
				return f.faults(call)
			}
		}
		return fake.Fault{}
	}})
	namespace, err := cluster.Namespace(t.Context(), "late")
	f.must(err)
	f.home, err = cluster.Cluster(t.Context(), namespace, "home")
	f.must(err)
	f.infra = &infrav1.SimMachine{ObjectMeta: metav1.ObjectMeta{Name: "worker", Annotations: map[string]string{infrav1.IdentityAnnotation: uid}}}
	id := driver.Identity{UID: uid, Name: "worker", Owner: driver.Owner{UID: f.home.UID, Namespace: namespace, Name: "home"}}
	created, err := f.cloud.Create(t.Context(), driver.CreateRequest[fake.Config]{Identity: id, Config: fake.Config{InstanceType: "small", Zone: "a"}})
	f.must(err)
	f.infra.Spec.ProviderID = created.ProviderID
	f.owner, err = cluster.Machine(t.Context(), f.home, f.infra, nil)
	f.must(err)
	f.ready(metav1.ConditionTrue)
	f.now = time.Now().Add(time.Minute)
	f.connect()
	return f
}

func (f *fixture) connect() {
	described := driver.Cloud[*infrav1.SimMachine, fake.Config]{
		Name:       "fake",
		NewMachine: func() *infrav1.SimMachine { return &infrav1.SimMachine{} },
		Account:    func(*infrav1.SimMachine) driver.Account { return driver.Account{} },
		Connect: func(context.Context, driver.Account, driver.Credentials) (driver.Driver[fake.Config], error) {
			return f.cloud, nil
		},
	}
	direct, err := client.NewWithWatch(cluster.Config, client.Options{Scheme: cluster.Client.Scheme()})
	f.must(err)
	clock := func() time.Time { return f.now }
	f.Reconciler = &console.Reconciler[*infrav1.SimMachine, fake.Config]{
		Cloud: described,
		Client: interceptor.NewClient(direct, interceptor.Funcs{
			SubResourcePatch: func(ctx context.Context, c client.Client, sub string, object client.Object, patch client.Patch, options ...client.SubResourcePatchOption) error {
				f.writes++
				return c.SubResource(sub).Patch(ctx, object, patch, options...)
			},
		}),
		Live:     cluster.Client,
		Accounts: account.NewCache(described, account.Options{Secrets: cluster.Client, OwnCredentials: []string{account.EveryNamespace}, Now: clock, Changed: func(driver.Identity) {}}),
		Events:   f.recorder,
		Now:      clock,
		After:    after,
	}
}

func (f *fixture) must(err error) {
	f.t.Helper()
	if err != nil {
		f.t.Fatal(err)
	}
}

func (f *fixture) refresh() {
	f.t.Helper()
	f.must(cluster.Client.Get(f.t.Context(), client.ObjectKeyFromObject(f.infra), f.infra))
}

// ready writes whether the instance runs.
func (f *fixture) ready(status metav1.ConditionStatus) {
	f.t.Helper()
	f.refresh()
	meta.SetStatusCondition(&f.infra.Status.Conditions, metav1.Condition{Type: clusterv1.ReadyCondition, Status: status, Reason: "InstanceRunning"})
	f.must(cluster.Client.Status().Update(f.t.Context(), f.infra))
}

// data creates the Secret with the bootstrap data, and what it says is secret.
func (f *fixture) data(redact string) {
	f.t.Helper()
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: f.owner.Namespace, Name: "data"}, StringData: map[string]string{"value": "x", "redact": redact}}
	f.must(cluster.Client.Create(f.t.Context(), secret))
	f.must(cluster.Client.Get(f.t.Context(), client.ObjectKeyFromObject(f.owner), f.owner))
	name := "data"
	f.owner.Spec.Bootstrap.DataSecretName = &name
	f.must(cluster.Client.Update(f.t.Context(), f.owner))
}

// join gives the Machine its Node.
func (f *fixture) join() {
	f.t.Helper()
	f.must(cluster.Client.Get(f.t.Context(), client.ObjectKeyFromObject(f.owner), f.owner))
	f.owner.Status.NodeRef.Name = "worker"
	f.must(cluster.Client.Status().Update(f.t.Context(), f.owner))
}

// reconcile runs one reconcile, and returns HostJoined and when the next one is due.
func (f *fixture) reconcile() (*metav1.Condition, time.Duration) {
	f.t.Helper()
	f.refresh()
	result, err := f.Reconcile(f.t.Context(), f.infra.DeepCopy())
	f.must(err)
	f.refresh()
	return meta.FindStatusCondition(f.infra.Status.Conditions, infrav1.HostJoinedCondition), result.RequeueAfter
}

func (f *fixture) events() []string {
	var all []string
	for {
		select {
		case e := <-f.recorder.Events:
			all = append(all, e)
		default:
			return all
		}
	}
}

const failed = "bootstrap: kubelet does not have the checksum, said hunter2\ndrover-bootstrap: state=Failed step=Downloads\n"

func TestLateMachineIsExplained(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.data("hunter2")
	f.cloud.Write(uid, failed)
	if condition, next := f.reconcile(); condition != nil || f.reads > 0 || next <= 0 || next > after {
		t.Fatalf("before it is late: %v, %d reads, again after %s", condition, f.reads, next)
	}
	f.now = f.now.Add(after)
	condition, next := f.reconcile()
	if condition == nil || condition.Status != metav1.ConditionFalse || condition.Reason != infrav1.BootstrapFailedReason ||
		!strings.Contains(condition.Message, "kubelet does not have the checksum, said [removed]") {
		t.Fatalf("HostJoined is %v", condition)
	}
	if next < time.Minute || next > 15*time.Minute {
		t.Errorf("the next read is after %s", next)
	}
	if got := f.events(); len(got) != 1 || !strings.Contains(got[0], "Warning BootstrapFailed the bootstrap failed in the step Downloads") {
		t.Errorf("events: %q", got)
	}
	writes := f.writes
	f.now = f.now.Add(next)
	f.reconcile()
	if f.writes != writes || len(f.events()) > 0 {
		t.Error("the same console causes another write or event")
	}
	f.join()
	if condition, next := f.reconcile(); condition.Status != metav1.ConditionTrue || condition.Reason != infrav1.JoinedReason || next != 0 {
		t.Errorf("with a Node HostJoined is %v, again after %s", condition, next)
	}
}

func TestMachineThatJoinsInTimeCostsNothing(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.join()
	f.now = f.now.Add(after)
	if condition, next := f.reconcile(); condition != nil || next != 0 || f.reads != 0 || f.writes != 0 {
		t.Errorf("%v, again after %s, %d reads, %d writes", condition, next, f.reads, f.writes)
	}
}

func TestWordsOfAHostAreHiddenWithoutTheListOfSecrets(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	gone := "gone"
	f.owner.Spec.Bootstrap.DataSecretName = &gone
	f.must(cluster.Client.Update(t.Context(), f.owner))
	f.cloud.Write(uid, failed)
	f.now = f.now.Add(after)
	condition, _ := f.reconcile()
	if condition == nil || condition.Reason != infrav1.BootstrapFailedReason || strings.Contains(condition.Message, "checksum") {
		t.Errorf("HostJoined is %v", condition)
	}
}

func TestConsoleThatCannotBeReadIsReported(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.data("")
	f.faults = func(fake.Call) fake.Fault {
		return fake.Fault{Err: &driver.UnauthorizedError{Err: os.ErrPermission}}
	}
	f.now = f.now.Add(after)
	condition, _ := f.reconcile()
	if condition == nil || condition.Status != metav1.ConditionUnknown || condition.Reason != infrav1.ConsoleUnavailableReason {
		t.Errorf("HostJoined is %v", condition)
	}
}

// TestFailureThatPassesHidesNoReason: many machines may be late at the same time, and share the rate and the workers of their
// account.
func TestFailureThatPassesHidesNoReason(t *testing.T) {
	t.Parallel()
	for name, failure := range map[string]error{
		"no worker is free":    &driver.BusyError{},
		"the rate is used up":  &driver.RateLimitedError{Err: errors.New("the account's rate of calls is used up")},
		"the cloud has failed": errors.New("503"),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			f.data("")
			f.cloud.Write(uid, failed)
			f.now = f.now.Add(after)
			before, _ := f.reconcile()
			f.events()
			f.faults = func(fake.Call) fake.Fault { return fake.Fault{Err: failure} }
			f.now = f.now.Add(time.Hour)
			if condition, next := f.reconcile(); *condition != *before || next == 0 || len(f.events()) > 0 {
				t.Errorf("HostJoined is %v, again after %s", condition, next)
			}
		})
	}
}

// TestEventOfLongLinesIsStored: the API server refuses an event whose note is too long.
func TestEventOfLongLinesIsStored(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.data("")
	f.cloud.Write(uid, strings.Repeat(strings.Repeat("\"x", 400)+"\n", 3)+failed)
	f.now = f.now.Add(after)
	f.reconcile()
	all := f.events()
	if len(all) != 1 {
		t.Fatalf("events: %q", all)
	}
	note := strings.TrimPrefix(all[0], "Warning BootstrapFailed ")
	event := &eventsv1.Event{
		ObjectMeta: metav1.ObjectMeta{Namespace: f.owner.Namespace, Name: "late"}, EventTime: metav1.NowMicro(), Type: corev1.EventTypeWarning,
		Reason: infrav1.BootstrapFailedReason, Action: "ReadConsole", Note: note, ReportingController: "drover.io/test", ReportingInstance: "test",
		Regarding: corev1.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: f.owner.Namespace, Name: "late"},
	}
	direct, err := client.New(cluster.Config, client.Options{})
	f.must(err)
	if err := direct.Create(t.Context(), event); err != nil || !strings.HasSuffix(note, "…") {
		t.Errorf("an event with %d bytes: %v", len(note), err)
	}
}

// TestConsoleIsNotRead: a read shows what is another's, or is of no use.
func TestConsoleIsNotRead(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*fixture){
		"of an instance that does not run": func(f *fixture) { f.ready(metav1.ConditionFalse) },
		"of a paused machine": func(f *fixture) {
			f.refresh()
			f.infra.Annotations[clusterv1.PausedAnnotation] = ""
			f.must(cluster.Client.Update(f.t.Context(), f.infra))
		},
		"where another management cluster acts": func(f *fixture) {
			meta.SetStatusCondition(&f.home.Status.Conditions, metav1.Condition{Type: droverpolicyv1.ManagementClaimedCondition, Status: metav1.ConditionFalse, Reason: "ClaimedElsewhere"})
			f.must(cluster.Client.Status().Update(f.t.Context(), f.home))
		},
		"where the cloud reports it": func(f *fixture) {
			f.refresh()
			machinestatus.SetHostJoined(f.infra, metav1.ConditionFalse, infrav1.HostFailedReason, "as the cloud says")
			f.must(cluster.Client.Status().Update(f.t.Context(), f.infra))
		},
		"of another manager": func(f *fixture) { f.WatchFilter = "blue" },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			f.cloud.Write(uid, failed)
			f.now = f.now.Add(after)
			change(f)
			f.reconcile()
			if f.reads != 0 || f.writes != 0 {
				t.Errorf("%d reads, %d writes", f.reads, f.writes)
			}
		})
	}
}

// TestConsoleOfAnotherMachineIsNotShown: a providerID may name any instance.
func TestConsoleOfAnotherMachineIsNotShown(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.data("")
	other, err := f.cloud.Create(t.Context(), driver.CreateRequest[fake.Config]{
		Identity: driver.Identity{UID: "other", Name: "other", Owner: driver.Owner{UID: "u", Namespace: "another", Name: "home"}},
		Config:   fake.Config{InstanceType: "small", Zone: "a"},
	})
	f.must(err)
	f.cloud.Write("other", failed)
	f.now = f.now.Add(after)
	f.refresh()
	copied := f.infra.DeepCopy()
	copied.Spec.ProviderID = other.ProviderID
	_, err = f.Reconcile(t.Context(), copied)
	f.must(err)
	f.refresh()
	if condition := meta.FindStatusCondition(f.infra.Status.Conditions, infrav1.HostJoinedCondition); condition != nil {
		t.Errorf("HostJoined is %v", condition)
	}
}
