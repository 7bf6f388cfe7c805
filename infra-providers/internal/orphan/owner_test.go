// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package orphan

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	goruntime "runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "drover.io/api/infrastructure/v1alpha1"
	"drover.io/infra-providers/driver"
	"drover.io/infra-providers/driver/fake"
	"drover.io/runtime/logtest"
)

func (f *fixture) create(object client.Object) {
	f.Helper()
	if err := cluster.Client.Create(f.Context(), object); err != nil {
		f.Fatal(err)
	}
}

// elect makes the Lease of machine-controller, which was renewed a while after now, or before.
func (f *fixture) elect(after time.Duration) {
	f.create(&coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: f.Core.Namespace, Name: f.Core.Name},
		Spec:       coordinationv1.LeaseSpec{RenewTime: ptr.To(metav1.NewMicroTime(f.now.Add(after)))},
	})
}

// refer makes a Machine of a Cluster that refers to the instance of a lost machine.
func (f *fixture) refer(name, cluster string) {
	f.referTo(f.cloud.Snapshot().Instances[f.lost(name)].ProviderID, name, cluster)
}

// referTo makes a Machine of a Cluster that has a provider ID.
func (f *fixture) referTo(providerID, name, cluster string) {
	f.create(&clusterv1.Machine{
		ObjectMeta: metav1.ObjectMeta{Namespace: f.home.Namespace, Name: name + "-of-" + cluster},
		Spec: clusterv1.MachineSpec{
			ClusterName: cluster, ProviderID: providerID,
			Bootstrap:         clusterv1.Bootstrap{DataSecretName: ptr.To("data")},
			InfrastructureRef: clusterv1.ContractVersionedObjectReference{APIGroup: infrav1.GroupVersion.Group, Kind: "SimMachine", Name: name},
		},
	})
}

// TestSweepsTheAccountsOfMachinesAndTemplates has accounts that were not used since the start.
func TestSweepsTheAccountsOfMachinesAndTemplates(t *testing.T) {
	t.Parallel()
	for name, naming := range map[string]func(f *fixture) client.Object{
		"a machine": func(f *fixture) client.Object {
			return &infrav1.SimMachine{Spec: infrav1.SimMachineSpec{Zone: f.elsewhereZone()}}
		},
		"a template": func(f *fixture) client.Object {
			template := &infrav1.SimMachineTemplate{}
			template.Spec.Template.Spec.Zone = f.elsewhereZone()
			return template
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t, usual)
			f.elsewhere = fake.New(fake.Options{Now: func() time.Time { return f.now }})
			object := naming(f)
			object.SetNamespace(f.home.Namespace)
			object.SetName("names-it")
			f.create(object)
			id := driver.Identity{UID: f.lost("lost"), Name: "lost", Owner: f.owner()}
			if _, err := f.elsewhere.Create(t.Context(), driver.CreateRequest[fake.Config]{Identity: id, Config: fake.Config{InstanceType: "small"}}); err != nil {
				t.Fatal(err)
			}
			f.sweep(2)
			if left := f.elsewhere.Snapshot().Instances; len(left) > 0 {
				t.Errorf("the other account has %v", left)
			}
		})
	}
}

// TestFirstSweep after the start, and not after a whole period.
func TestFirstSweep(t *testing.T) {
	t.Parallel()
	f := newFixture(t, usual)
	f.createOrphan("lost")
	f.now = f.now.Add(24 * time.Hour)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- f.Start(ctx) }()
	for !f.timers.HasWaiters() {
		goruntime.Gosched()
	}
	f.timers.Step(firstSweep)
	if event := f.awaitEvent(); !strings.Contains(event, "OrphanFound") {
		t.Errorf("told %q", event)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	f.wantInCloud(1, 1)
}

// TestFirstSweepOnlyReports whatever the age of what it finds.
func TestFirstSweepOnlyReports(t *testing.T) {
	t.Parallel()
	f := newFixture(t, Options{Period: time.Hour, Grace: time.Second, Cap: 5})
	f.createOrphan("lost")
	f.now = f.now.Add(24 * time.Hour)
	if err := f.Sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	f.wantInCloud(1, 1)
	if event := f.nextEvent(); !strings.Contains(event, "OrphanFound") {
		t.Errorf("told %q", event)
	}
}

// TestClaimOfAnotherObject: what somebody writes into an object of another namespace, or under another name, or
// of another Cluster, does not make an orphan wanted.
func TestClaimOfAnotherObject(t *testing.T) {
	t.Parallel()
	f := newFixture(t, usual)
	uid := f.createOrphan("lost")
	forged := func(namespace, name string) *infrav1.SimMachine {
		machine := &infrav1.SimMachine{ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: name, Annotations: map[string]string{infrav1.IdentityAnnotation: string(uid)},
		}}
		machine.Spec.ProviderID = f.cloud.Snapshot().Instances[uid].ProviderID
		return machine
	}
	other, err := cluster.Namespace(t.Context(), "evil")
	if err != nil {
		t.Fatal(err)
	}
	f.create(forged(other, "lost"))
	f.create(forged(f.home.Namespace, "not-lost"))
	f.refer("lost", "away")
	f.sweep(2)
	f.wantInCloud(0, 0)
}

// TestReportsADuplicateInstance of a machine, and deletes neither.
func TestReportsADuplicateInstance(t *testing.T) {
	t.Parallel()
	f := newFixture(t, usual)
	uid := f.createOwned("kept")
	kept := f.cloud.Snapshot().Instances[uid].ProviderID
	f.adopt("kept", kept)
	duplicate := f.cloud.Copy(kept)
	f.sweep(4)
	for _, id := range []string{kept, duplicate} {
		if _, err := f.cloud.Get(t.Context(), driver.Identity{UID: uid, Name: "kept", ProviderID: id, Owner: f.owner()}); err != nil {
			t.Errorf("instance %q: %v", id, err)
		}
	}
	if event := f.nextEvent(); !strings.Contains(event, "DuplicateInstance") || !strings.Contains(event, duplicate) {
		t.Errorf("told %q", event)
	}
	if len(f.recorder.Events) > 0 {
		t.Errorf("told again: %q", f.nextEvent())
	}
}

// TestDuplicateHasAGracePeriod: what was reported as a duplicate, for however long, is reported again before it is deleted as an
// orphan.
func TestDuplicateHasAGracePeriod(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		// forced is true where the machine was removed by force, and its Machine was not.
		forced bool
		// end makes the copy an orphan, for one sweep at least.
		end func(f *fixture, kept driver.Identity)
		// orphans are how many instances are reported then.
		orphans int
	}{
		"its machine is gone":    {end: func(f *fixture, _ driver.Identity) { f.remove(&infrav1.SimMachine{}, "kept") }, orphans: 2},
		"its Machine is gone":    {forced: true, end: func(f *fixture, _ driver.Identity) { f.remove(&clusterv1.Machine{}, "kept-of-home") }, orphans: 2},
		"a list omits its other": {forced: true, end: func(f *fixture, kept driver.Identity) { f.omitted = kept.ProviderID }, orphans: 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t, usual)
			kept := f.createNamed(test.forced, test.forced)
			f.cloud.Copy(kept.ProviderID)
			f.sweep(3)
			if event := f.nextEvent(); !strings.Contains(event, "DuplicateInstance") || f.nextEvent() != "" {
				t.Fatalf("got event %q", event)
			}
			test.end(f, kept)
			f.sweep(1)
			found := 0
			for event := f.nextEvent(); event != ""; event = f.nextEvent() {
				if strings.Contains(event, "OrphanFound instance") {
					found++
				} else if !strings.Contains(event, "OrphanFound disk") {
					t.Errorf("got event %q", event)
				}
			}
			if found != test.orphans {
				t.Errorf("%d instances were reported as orphans, want %d", found, test.orphans)
			}
			f.now = f.now.Add(usual.Grace - 22*time.Minute) // one minute less than a grace period from now on
			f.sweep(1)
			if _, err := f.cloud.Get(t.Context(), kept); err != nil {
				t.Errorf("the first instance: %v", err)
			}
			if left := f.nextEvent(); left != "" {
				t.Errorf("within the grace period: got event %q", left)
			}
		})
	}
}

// TestEachOrphanHasAnEvent, though the recorder writes equal events as one.
func TestEachOrphanHasAnEvent(t *testing.T) {
	t.Parallel()
	f := newFixture(t, usual)
	clients, err := kubernetes.NewForConfig(cluster.Config)
	if err != nil {
		t.Fatal(err)
	}
	broadcaster := events.NewBroadcaster(&events.EventSinkImpl{Interface: clients.EventsV1()})
	defer broadcaster.Shutdown()
	if err := broadcaster.StartRecordingToSinkWithContext(t.Context()); err != nil {
		t.Fatal(err)
	}
	f.Events = broadcaster.NewRecorder(cluster.Client.Scheme(), "orphan-test")
	want := map[string]bool{}
	for _, name := range []string{"lost-1", "lost-2"} {
		uid := f.createOrphan(name)
		want[fmt.Sprintf("instance %q", f.cloud.Snapshot().Instances[uid].ProviderID)] = true
		want[fmt.Sprintf("disk %q", uid)] = true
	}
	f.sweep(1)
	for deadline := time.Now().Add(time.Minute); len(want) > 0; time.Sleep(10 * time.Millisecond) {
		list, err := clients.EventsV1().Events(f.home.Namespace).List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for _, event := range list.Items {
			resource, _, _ := strings.Cut(event.Note, " of machine ")
			delete(want, resource)
		}
		if time.Now().After(deadline) {
			t.Fatalf("no event has %v", slices.Collect(maps.Keys(want)))
		}
	}
}

// TestManyOrphansHaveFewEvents in each sweep, and others have theirs.
func TestManyOrphansHaveFewEvents(t *testing.T) {
	t.Parallel()
	f := newFixture(t, usual)
	recorder := &relatedRecorder{}
	f.Events = recorder
	for sweep, wantDeleted := range []int{0, usual.Cap} {
		for n := range maxEvents {
			f.createOrphan(fmt.Sprintf("lost-%d-%d", sweep, n))
		}
		*recorder = relatedRecorder{all: map[string]int{}, own: map[string]int{}}
		f.sweep(1)
		if all := 2 * maxEvents; recorder.own[orphanFound] != maxEvents || recorder.all[orphanFound] != all {
			t.Errorf("got %d events, %d of them of their own, want %d and %d", recorder.all[orphanFound], recorder.own[orphanFound], all, maxEvents)
		}
		if recorder.own["OrphanDeleted"] != wantDeleted {
			t.Errorf("%d deletions have an event of their own, want %d", recorder.own["OrphanDeleted"], wantDeleted)
		}
	}
	another := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{UID: "another"}}
	if f.related(another, Resource{Kind: instance, ID: "i"}, orphanFound) == nil {
		t.Error("another Cluster has no event")
	}
}

// relatedRecorder counts the events of each reason, and those with a related object.
type relatedRecorder struct{ all, own map[string]int }

func (r *relatedRecorder) Eventf(_, related runtime.Object, _, reason, _, _ string, _ ...any) {
	r.all[reason]++
	if related != nil {
		r.own[reason]++
	}
}

func (f *fixture) remove(object client.Object, name string) {
	f.Helper()
	object.SetNamespace(f.home.Namespace)
	object.SetName(name)
	if err := cluster.Client.Delete(f.Context(), object); err != nil {
		f.Fatal(err)
	}
}

// adopt makes a machine name an instance.
func (f *fixture) adopt(name, providerID string) {
	f.Helper()
	machine := &infrav1.SimMachine{}
	if err := cluster.Client.Get(f.Context(), client.ObjectKey{Namespace: f.home.Namespace, Name: name}, machine); err != nil {
		f.Fatal(err)
	}
	machine.Spec.ProviderID = providerID
	if err := cluster.Client.Update(f.Context(), machine); err != nil {
		f.Fatal(err)
	}
}

// TestProviderIDsHaveOtherForms: an instance that its machine, or its Machine, names in another form than the cloud is no duplicate
// and no orphan, and what else has its name still is.
func TestProviderIDsHaveOtherForms(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		// earlier is true where the tags have the UID of an earlier machine of the name.
		earlier bool
		// forced is true where the machine was removed by force, and its Machine was not.
		forced bool
		// late is true where the cache is behind, so that only a live read shows what names the instance.
		late bool
		// other creates another instance of the name, and returns its provider ID; nil for none.
		other func(f *fixture, kept string) string
		// want is the reason of the event, which is of the other instance if there is one; empty for no event.
		want string
	}{
		"the machine's":                     {},
		"an earlier machine's":              {earlier: true},
		"an earlier machine's, found late":  {earlier: true, late: true, want: "OrphanFound"},
		"a Machine's":                       {earlier: true, forced: true},
		"a Machine's, found late":           {earlier: true, forced: true, late: true, want: "OrphanFound"},
		"the machine's, beside a second":    {other: func(f *fixture, kept string) string { return f.cloud.Copy(kept) }, want: "DuplicateInstance"},
		"the machine's, beside an earlier":  {other: createEarlier, want: "OrphanFound"},
		"an earlier's, beside another like": {earlier: true, other: createEarlier, want: "OrphanFound"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t, usual)
			kept := f.createNamed(test.earlier, test.forced)
			id := ""
			if test.other != nil {
				id = test.other(f, kept.ProviderID)
			}
			f.hidden = test.late
			f.sweep(4)
			if _, err := f.cloud.Get(t.Context(), kept); err != nil {
				t.Errorf("its instance: %v", err)
			}
			events := ""
			for event := f.nextEvent(); event != ""; event = f.nextEvent() {
				events += event + "\n"
			}
			ofKept := strings.Contains(events, fmt.Sprintf("instance %q", kept.ProviderID))
			if !strings.Contains(events, test.want) || !strings.Contains(events, id) || ofKept != test.late || test.want == "" && events != "" {
				t.Errorf("got events %q, want %q of %q", events, test.want, id)
			}
		})
	}
}

// createNamed creates an instance that a machine of its name, or only a Machine, names in another form than the cloud.
func (f *fixture) createNamed(earlier, forced bool) driver.Identity {
	f.Helper()
	create := f.createOwned
	if earlier {
		create = f.createOrphan
	}
	kept := driver.Identity{UID: create("kept"), Name: "kept", Owner: f.owner()}
	kept.ProviderID = f.cloud.Snapshot().Instances[kept.UID].ProviderID
	if forced {
		f.referTo(otherForm+kept.ProviderID, "kept", "home")
		return kept
	}
	if earlier {
		f.create(&infrav1.SimMachine{ObjectMeta: metav1.ObjectMeta{Namespace: f.home.Namespace, Name: "kept"}})
	}
	f.adopt("kept", otherForm+kept.ProviderID)
	return kept
}

// createEarlier creates what an earlier machine of the name left.
func createEarlier(f *fixture, _ string) string {
	f.Helper()
	uid := f.createLeft("kept", "earlier")
	return f.cloud.Snapshot().Instances[uid].ProviderID
}

func (f *fixture) owner() driver.Owner {
	return driver.Owner{UID: f.home.UID, Namespace: f.home.Namespace, Name: "home"}
}

// TestDeletesOnlyWhileMachineControllerRuns and the workload cluster is known to answer.
func TestDeletesOnlyWhileMachineControllerRuns(t *testing.T) {
	t.Parallel()
	f := newFixture(t, usual)
	f.createOrphan("lost")
	f.home.Status.Initialization.ControlPlaneInitialized = ptr.To(true)
	f.home.Status.Conditions = []metav1.Condition{{
		Type: clusterv1.ClusterRemoteConnectionProbeCondition, Status: metav1.ConditionTrue,
		Reason: clusterv1.ClusterRemoteConnectionProbeSucceededReason, LastTransitionTime: metav1.Now(),
	}}
	if err := cluster.Client.Status().Update(t.Context(), f.home); err != nil {
		t.Fatal(err)
	}
	f.elect(42 * time.Minute)
	f.sweep(2)
	f.wantInCloud(0, 0)
}

// TestInstanceThatAMachineOwnedIsOurs however long ago it was created: the memory of creations has an end.
func TestInstanceThatAMachineOwnedIsOurs(t *testing.T) {
	t.Parallel()
	f := newFixture(t, usual)
	uid := f.createOwned("lost")
	f.others[uid] = true
	f.sweep(1)
	f.fault = failing("list", errors.New("gateway timeout"))
	if err := f.Sweep(t.Context()); err == nil {
		t.Error("the failure was swallowed")
	}
	f.fault = nil
	machine := &infrav1.SimMachine{ObjectMeta: metav1.ObjectMeta{Namespace: f.home.Namespace, Name: "lost"}}
	if err := cluster.Client.Delete(t.Context(), machine); err != nil {
		t.Fatal(err)
	}
	f.sweep(2)
	f.wantInCloud(0, 0)
}

// TestNoEventForAClusterOfAnotherProvider because that provider reports it.
func TestNoEventForAClusterOfAnotherProvider(t *testing.T) {
	t.Parallel()
	f := newFixture(t, usual)
	f.WatchFilter = "ours"
	f.createOrphan("lost")
	f.others[f.createOrphan("theirs")] = true
	f.sweep(2)
	if len(f.recorder.Events) > 0 {
		t.Errorf("told %q", f.nextEvent())
	}
	clusterStates, err := f.clusterStates(t.Context(), Input{}, map[driver.Owner]*clusterv1.Cluster{f.owner(): f.home})
	if err != nil || !clusterStates[f.owner()].Foreign {
		t.Errorf("got %+v and %v, want a foreign Cluster", clusterStates, err)
	}
}

// TestMissingClusterIsReportedOnce with all that is found of it.
func TestMissingClusterIsReportedOnce(t *testing.T) {
	t.Parallel()
	f := newFixture(t, usual)
	f.createOrphan("lost")
	if err := cluster.Client.Delete(t.Context(), f.home); err != nil {
		t.Fatal(err)
	}
	recorder := &logtest.Recorder{}
	ctx := recorder.Context(t.Context())
	for range 3 {
		f.now = f.now.Add(21 * time.Minute)
		if err := f.Sweep(ctx); err != nil {
			t.Fatal(err)
		}
	}
	f.wantInCloud(1, 1)
	lines := recorder.Lines("found instances of a Cluster") // other tests share the API server, and have accounts of their own
	if len(lines) != 1 || !strings.Contains(lines[0], string(f.home.UID)) || !strings.Contains(lines[0], "instance/fake:///z/") {
		t.Errorf("logged %q, want one line with the Cluster and what was found", lines)
	}
}

// TestCopiesOfAMissingClusterAreReported by their names, apart from what was created for its machines: they may be the data of others.
func TestCopiesOfAMissingClusterAreReported(t *testing.T) {
	t.Parallel()
	f := newFixture(t, usual)
	gone := driver.Identity{UID: "u", Name: "lost", Owner: driver.Owner{UID: "gone-uid", Namespace: f.home.Namespace, Name: "gone"}}
	server := &tenantServer{Driver: fake.New(fake.Options{}), list: func(context.Context) iter.Seq2[driver.Instance, error] {
		return func(func(driver.Instance, error) bool) {}
	}}
	f.connectServer(f.home.Namespace, secretPrefix+f.home.Namespace, struct {
		driver.Driver[fake.Config]
		attachedObjects
	}{server, attachedObjects{
		{Kind: "volume", ID: "restored", Identity: gone, Created: time.Unix(1, 0), Copy: true},
		{Kind: "volume", ID: "own", Identity: gone, Created: time.Unix(1, 0)},
	}})
	recorder := &logtest.Recorder{}
	for range 3 {
		f.now = f.now.Add(21 * time.Minute)
		if err := f.Sweep(recorder.Context(t.Context())); err != nil {
			t.Fatal(err)
		}
	}
	lines := slices.DeleteFunc(recorder.Lines("found instances of a Cluster"), func(line string) bool { return !strings.Contains(line, "gone-uid") })
	if len(lines) != 1 || !strings.Contains(lines[0], `"resources"=["volume/own"]`) || !strings.Contains(lines[0], `"copies"=["volume/restored"]`) {
		t.Errorf("logged %q, want one line with the copy apart", lines)
	}
	if len(server.deleted) > 0 {
		t.Errorf("%q were deleted", server.deleted)
	}
}

// TestManyInstancesOfAMissingClusterAreALineOfTheLog: the server that a Secret names chooses how many there are, and how long
// their IDs are.
func TestManyInstancesOfAMissingClusterAreALineOfTheLog(t *testing.T) {
	t.Parallel()
	owner := driver.Identity{Owner: driver.Owner{UID: "gone", Namespace: "team", Name: "edge"}}
	found := []Classified{{Class: ClassClusterMissing, Resource: Resource{Kind: "volume", ID: "first", Identity: owner}}}
	for range 10_000 {
		found = append(found, Classified{Class: ClassClusterMissing, Resource: Resource{Kind: "volume", ID: strings.Repeat("x", 1000), Identity: owner}})
	}
	recorder := &logtest.Recorder{}
	(&Collector[*infrav1.SimMachine, fake.Config]{}).reportMissing(recorder.Context(t.Context()), found, nil)
	lines := recorder.Lines("found instances of a Cluster")
	if len(lines) != 1 || len(lines[0]) > 48<<10 || !strings.Contains(lines[0], "volume/first") || !strings.Contains(lines[0], `"count"=10001`) {
		t.Errorf("logged %d lines of %d bytes, want one short line with the number of all", len(lines), len(strings.Join(lines, "")))
	}
}

// TestMissingClustersAreBounded: the server that a Secret names chooses how many Clusters it has instances of, and their names.
func TestMissingClustersAreBounded(t *testing.T) {
	t.Parallel()
	of := func(name string) Classified {
		owner := driver.Owner{UID: "gone", Namespace: "team", Name: name}
		return Classified{Class: ClassClusterMissing, Resource: Resource{Kind: "volume", ID: "first", Identity: driver.Identity{Owner: owner}}}
	}
	found := []Classified{of(strings.Repeat("x", 1000))}
	for i := range 2 * maxOwners {
		found = append(found, of(strconv.Itoa(i)))
	}
	recorder, collector := &logtest.Recorder{}, &Collector[*infrav1.SimMachine, fake.Config]{}
	collector.reportMissing(recorder.Context(t.Context()), found, nil)
	if lines := recorder.Lines("found instances of a Cluster"); len(lines) != maxOwners || len(collector.missing) != maxOwners {
		t.Errorf("logged %d lines and remembers %d Clusters, want %d", len(lines), len(collector.missing), maxOwners)
	}
}
