// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package orphan

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	infrav1 "drover.io/api/infrastructure/v1alpha1"
	policyv1 "drover.io/api/policy/v1alpha1"
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

// attic is a fake cloud with one Cluster and one machine that owns an instance, and whatever a test leaves.
type attic struct {
	*testing.T
	*Collector[*infrav1.SimMachine, fake.Config]
	home     *clusterv1.Cluster
	cloud    *fake.Cloud
	recorder *events.FakeRecorder
	fault    func(fake.Call) fake.Fault
	// elsewhere is the cloud of another account.
	elsewhere *fake.Cloud
	// hidden makes the cache not know any machine, blind makes live lists fail.
	hidden, blind bool
	now           time.Time
}

func newAttic(t *testing.T, options Options) *attic {
	t.Helper()
	namespace, err := cluster.Namespace(t.Context(), "attic")
	if err != nil {
		t.Fatal(err)
	}
	home, err := cluster.Cluster(t.Context(), namespace, "home")
	if err != nil {
		t.Fatal(err)
	}
	a := &attic{T: t, home: home, recorder: events.NewFakeRecorder(100), now: time.Unix(1_000_000, 0)}
	a.cloud = fake.New(fake.Options{
		Now: func() time.Time { return a.now },
		Faults: func(call fake.Call) fake.Fault {
			if a.fault == nil {
				return fake.Fault{}
			}
			return a.fault(call)
		},
	})
	described := driver.Cloud[*infrav1.SimMachine, fake.Config]{
		Name:           "fake",
		NewMachine:     func() *infrav1.SimMachine { return &infrav1.SimMachine{} },
		NewMachineList: func() driver.MachineList { return &infrav1.SimMachineList{} },
		Account:        func(m *infrav1.SimMachine) driver.Account { return driver.Account{Region: m.Spec.Zone} },
		Connect: func(_ context.Context, at driver.Account, _ driver.Credentials) (driver.Driver[fake.Config], error) {
			if at.Region == "elsewhere" {
				return a.elsewhere, nil
			}
			return a.cloud, nil
		},
	}
	accounts := account.NewBook(described, account.Options{Secrets: cluster.Client, Now: time.Now, Changed: func(driver.Identity) {}})
	if _, err := accounts.Driver(t.Context(), &infrav1.SimMachine{}); err != nil {
		t.Fatal(err)
	}
	direct, err := client.NewWithWatch(cluster.Config, client.Options{Scheme: cluster.Client.Scheme()})
	if err != nil {
		t.Fatal(err)
	}
	cached := interceptor.NewClient(direct, interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
			if _, machines := list.(*infrav1.SimMachineList); machines && a.hidden {
				return nil
			}
			return c.List(ctx, list, options...)
		},
	})
	live := interceptor.NewClient(direct, interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
			if a.blind {
				return errors.New("the API server is gone")
			}
			return c.List(ctx, list, options...)
		},
	})
	a.Collector = &Collector[*infrav1.SimMachine, fake.Config]{
		Cloud: described, Accounts: accounts, Client: cached, Live: live,
		Events: a.recorder, Now: func() time.Time { return a.now }, Options: options,
	}
	return a
}

var usual = Options{Period: time.Hour, Grace: 20 * time.Minute, Cap: 5}

// lost is the UID of a machine that nobody knows; the other tests share the API server.
func (a *attic) lost(name string) types.UID { return types.UID(a.home.Namespace + "-" + name) }

// leave makes an instance that no machine owns.
func (a *attic) leave(name string) types.UID {
	a.Helper()
	id := driver.Identity{UID: a.lost(name), Name: name, Owner: driver.Owner{UID: a.home.UID, Namespace: a.home.Namespace, Name: "home"}}
	if _, err := a.cloud.Create(a.Context(), driver.Request[fake.Config]{Identity: id, Config: fake.Config{InstanceType: "small", Zone: "z"}}); err != nil {
		a.Fatal(err)
	}
	return id.UID
}

// own makes a machine with an instance.
func (a *attic) own(name string) types.UID {
	a.Helper()
	machine := &infrav1.SimMachine{ObjectMeta: metav1.ObjectMeta{Namespace: a.home.Namespace, Name: name}}
	if err := cluster.Client.Create(a.Context(), machine); err != nil {
		a.Fatal(err)
	}
	id := driver.Identity{UID: machine.UID, Name: name, Owner: driver.Owner{UID: a.home.UID, Namespace: a.home.Namespace, Name: "home"}}
	if _, err := a.cloud.Create(a.Context(), driver.Request[fake.Config]{Identity: id, Config: fake.Config{InstanceType: "small", Zone: "z"}}); err != nil {
		a.Fatal(err)
	}
	return machine.UID
}

// sweep looks n times, a grace period apart.
func (a *attic) sweep(n int) {
	a.Helper()
	for range n {
		a.now = a.now.Add(21 * time.Minute)
		if err := a.Sweep(a.Context()); err != nil {
			a.Fatal(err)
		}
	}
}

func (a *attic) wantCensus(instances, disks int) {
	a.Helper()
	census := a.cloud.Census()
	if len(census.Instances) != instances || len(census.Disks) != disks {
		a.Errorf("the cloud has %d instances and %d disks, want %d and %d", len(census.Instances), len(census.Disks), instances, disks)
	}
}

func TestCollectsWhatNobodyOwnsAtSecondSight(t *testing.T) {
	t.Parallel()
	a := newAttic(t, usual)
	a.leave("lost")
	kept := a.own("kept")
	a.sweep(1)
	a.wantCensus(2, 2)
	if told := <-a.recorder.Events; !strings.Contains(told, "OrphanFound") || !strings.Contains(told, `machine "lost" has no owner`) {
		t.Errorf("told %q", told)
	}
	a.sweep(1)
	a.wantCensus(1, 1)
	if _, ok := a.cloud.Census().Instances[kept]; !ok {
		t.Error("the machine lost its instance")
	}
	a.sweep(3)
	a.wantCensus(1, 1)
}

func TestCollectsADiskWithoutAnInstance(t *testing.T) {
	t.Parallel()
	a := newAttic(t, usual)
	a.fault = func(call fake.Call) fake.Fault {
		if call.Operation == "create" {
			return fake.Fault{Err: errors.New("internal error")}
		}
		return fake.Fault{}
	}
	id := driver.Identity{UID: "lost", Name: "lost", Owner: driver.Owner{UID: a.home.UID, Namespace: a.home.Namespace, Name: "home"}}
	if _, err := a.cloud.Create(t.Context(), driver.Request[fake.Config]{Identity: id, Config: fake.Config{InstanceType: "small"}}); err == nil {
		t.Fatal("the creation succeeded")
	}
	a.wantCensus(0, 1)
	a.sweep(2)
	a.wantCensus(0, 0)
}

// TestCollectsNothing breaks each precondition in turn.
func TestCollectsNothing(t *testing.T) {
	t.Parallel()
	dry := usual
	dry.DryRun = true
	for name, test := range map[string]struct {
		options Options
		given   func(*attic)
		fails   bool
	}{
		"in dry-run mode": {dry, func(*attic) {}, false},
		"while the Cluster is paused": {usual, func(a *attic) {
			a.home.Spec.Paused = ptr.To(true)
			if err := cluster.Client.Update(a.Context(), a.home); err != nil {
				a.Fatal(err)
			}
		}, false},
		"while a MachineDeployment of the Cluster is frozen for an overshoot": {usual, func(a *attic) {
			a.fleet(&clusterv1.MachineDeployment{}, policyv1.FrozenLabel, "")
		}, false},
		"while a MachineSet of the Cluster is frozen by hand": {usual, func(a *attic) {
			a.fleet(&clusterv1.MachineSet{}, "", "true")
		}, false},
		"while the workload cluster does not answer": {usual, func(a *attic) {
			a.home.Status.Initialization.ControlPlaneInitialized = ptr.To(true)
			a.home.Status.Conditions = []metav1.Condition{{
				Type: clusterv1.ClusterRemoteConnectionProbeCondition, Status: metav1.ConditionFalse,
				Reason: clusterv1.ClusterRemoteConnectionProbeFailedReason, LastTransitionTime: metav1.Now(),
			}}
			if err := cluster.Client.Status().Update(a.Context(), a.home); err != nil {
				a.Fatal(err)
			}
		}, false},
		"while the Cluster is paused by its annotation": {usual, func(a *attic) {
			a.home.Annotations = map[string]string{clusterv1.PausedAnnotation: ""}
			if err := cluster.Client.Update(a.Context(), a.home); err != nil {
				a.Fatal(err)
			}
		}, false},
		"while the fleets cannot be read": {usual, func(a *attic) { a.blind = true }, true},
		"when the Cluster was replaced by one of the same name": {usual, func(a *attic) {
			if err := cluster.Client.Delete(a.Context(), a.home); err != nil {
				a.Fatal(err)
			}
			if _, err := cluster.Cluster(a.Context(), a.home.Namespace, "home"); err != nil {
				a.Fatal(err)
			}
		}, false},
		"when a list breaks off": {usual, func(a *attic) {
			pages := 0
			a.fault = func(call fake.Call) fake.Fault {
				if call.Operation == "list" {
					if pages++; pages%2 == 0 {
						return fake.Fault{Err: errors.New("gateway timeout")}
					}
				}
				return fake.Fault{}
			}
		}, true},
		"when the cache misses a machine that the API server has": {usual, func(a *attic) {
			a.hidden = true
			machine := &infrav1.SimMachine{ObjectMeta: metav1.ObjectMeta{
				Namespace: a.home.Namespace, Name: "lost", Annotations: map[string]string{infrav1.IdentityAnnotation: string(a.lost("lost"))}}}
			if err := cluster.Client.Create(a.Context(), machine); err != nil {
				a.Fatal(err)
			}
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := newAttic(t, test.options)
			a.leave("lost")
			test.given(a)
			for range 3 {
				a.now = a.now.Add(21 * time.Minute)
				if err := a.Sweep(t.Context()); (err != nil) != test.fails {
					t.Errorf("got %v, want failure %t", err, test.fails)
				}
			}
			a.wantCensus(1, 1)
			for len(a.recorder.Events) > 0 {
				if told := <-a.recorder.Events; strings.Contains(told, "OrphanDeleted") {
					t.Errorf("told %q", told)
				}
			}
		})
	}
}

// fleet creates a MachineDeployment or MachineSet of the Cluster with a label and the operator's word on
// freezing.
func (a *attic) fleet(object client.Object, label, word string) {
	a.Helper()
	template := clusterv1.MachineTemplateSpec{
		ObjectMeta: clusterv1.ObjectMeta{Labels: map[string]string{"fleet": "a"}},
		Spec: clusterv1.MachineSpec{
			ClusterName:       "home",
			Bootstrap:         clusterv1.Bootstrap{DataSecretName: ptr.To("data")},
			InfrastructureRef: clusterv1.ContractVersionedObjectReference{APIGroup: infrav1.GroupVersion.Group, Kind: "SimMachineTemplate", Name: "t"},
		},
	}
	selector := metav1.LabelSelector{MatchLabels: map[string]string{"fleet": "a"}}
	switch fleet := object.(type) {
	case *clusterv1.MachineDeployment:
		fleet.Spec = clusterv1.MachineDeploymentSpec{ClusterName: "home", Selector: selector, Template: template}
	case *clusterv1.MachineSet:
		fleet.Spec = clusterv1.MachineSetSpec{ClusterName: "home", Selector: selector, Template: template}
	}
	object.SetNamespace(a.home.Namespace)
	object.SetGenerateName("fleet-")
	object.SetLabels(map[string]string{clusterv1.ClusterNameLabel: "home"})
	if label != "" {
		object.GetLabels()[label] = "true"
	}
	if word != "" {
		object.SetAnnotations(map[string]string{policyv1.FreezeAnnotation: word})
	}
	if err := cluster.Client.Create(a.Context(), object); err != nil {
		a.Fatal(err)
	}
}

// TestAFleetThatThawedIsNoHindrance has fleets that are not frozen, one of them by the operator's word.
func TestAFleetThatThawedIsNoHindrance(t *testing.T) {
	t.Parallel()
	a := newAttic(t, usual)
	a.leave("lost")
	a.fleet(&clusterv1.MachineDeployment{}, "", "")
	a.fleet(&clusterv1.MachineDeployment{}, policyv1.FrozenLabel, "false")
	a.sweep(2)
	a.wantCensus(0, 0)
}

// TestReadsNoFleetsWhileAllIsWell counts the live lists of a sweep that finds no orphan.
func TestReadsNoFleetsWhileAllIsWell(t *testing.T) {
	t.Parallel()
	a := newAttic(t, usual)
	a.own("kept")
	a.blind = true // a live list would fail
	a.sweep(3)
	a.wantCensus(1, 1)
}

// TestOneOrphanThatStaysHoldsUpNoOther has the cloud refuse to delete the oldest orphan.
func TestOneOrphanThatStaysHoldsUpNoOther(t *testing.T) {
	t.Parallel()
	a := newAttic(t, usual)
	stays := a.leave("stays")
	a.now = a.now.Add(time.Minute)
	a.leave("goes")
	a.fault = func(call fake.Call) fake.Fault {
		if call.Operation == "delete" && call.Identity.UID == stays {
			return fake.Fault{Err: errors.New("internal error")}
		}
		return fake.Fault{}
	}
	a.sweep(1)
	a.now = a.now.Add(21 * time.Minute)
	if err := a.Sweep(t.Context()); err == nil {
		t.Error("the failure was swallowed")
	}
	a.wantCensus(1, 1)
	if _, left := a.cloud.Census().Instances[stays]; !left {
		t.Error("the wrong one is gone")
	}
}

// TestOneAccountThatFailsHoldsUpNoOther has a second account whose list never completes.
func TestOneAccountThatFailsHoldsUpNoOther(t *testing.T) {
	t.Parallel()
	a := newAttic(t, usual)
	a.elsewhere = fake.New(fake.Options{Faults: func(fake.Call) fake.Fault { return fake.Fault{Err: errors.New("gateway timeout")} }})
	if _, err := a.Accounts.Driver(t.Context(), &infrav1.SimMachine{Spec: infrav1.SimMachineSpec{Zone: "elsewhere"}}); err != nil {
		t.Fatal(err)
	}
	a.leave("lost")
	for range 2 {
		a.now = a.now.Add(21 * time.Minute)
		if err := a.Sweep(t.Context()); err == nil {
			t.Error("the failure was swallowed")
		}
	}
	a.wantCensus(0, 0)
}

func TestCollectsNoMoreThanTheCap(t *testing.T) {
	t.Parallel()
	options := usual
	options.Cap = 2
	a := newAttic(t, options)
	for n := range 3 {
		a.leave(fmt.Sprint("lost-", n))
	}
	a.sweep(2)
	// An instance takes its disk with it, and both were counted, so one instance is all that fits.
	if left := len(a.cloud.Census().Instances); left < 1 {
		t.Errorf("%d instances are left, want at least 1", left)
	}
	a.sweep(5)
	a.wantCensus(0, 0)
}
