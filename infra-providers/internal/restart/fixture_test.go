// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package restart_test

import (
	"context"
	"errors"
	"os"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	infrav1 "drover.io/api/infrastructure/v1alpha1"
	"drover.io/infra-providers/driver"
	"drover.io/infra-providers/driver/fake"
	"drover.io/infra-providers/internal/account"
	"drover.io/infra-providers/internal/restart"
	"drover.io/infra-providers/internal/testenv"
)

var cluster *testenv.Cluster

func TestMain(m *testing.M) {
	os.Exit(testenv.Main(m, func(started *testenv.Cluster) error {
		cluster = started
		return nil
	}))
}

// errKilled is the result of a write before which the process was killed.
var errKilled = errors.New("killed")

// minute is the time that a restart has in these tests.
const minute = time.Minute

// unreachable hides every ability of a driver.
type unreachable struct{ driver.Driver[fake.Config] }

// fixture is an unhealthy Machine with an instance in a fake cloud and a remediation, and a reconciler with a clock of
// its own that is called by hand.
type fixture struct {
	t           *testing.T
	home        *clusterv1.Cluster
	owner       *clusterv1.Machine
	infra       *infrav1.SimMachine
	remediation *infrav1.RestartRemediation
	cloud       *fake.Cloud
	faults      func(fake.Call) fake.Fault
	recorder    *events.FakeRecorder
	now         time.Time
	// writes counts the writes of the reconciler; the one with number dieAt fails, as if it died there.
	writes, dieAt int
	// unable hides that the cloud can restart.
	unable bool
	*restart.Reconciler[*infrav1.SimMachine, fake.Config]
}

func newFixture(t *testing.T, retryLimit int32) *fixture {
	t.Helper()
	r := &fixture{t: t, dieAt: -1, now: time.Now().Truncate(time.Second), recorder: events.NewFakeRecorder(100)}
	r.cloud = fake.New(fake.Options{Faults: func(call fake.Call) fake.Fault {
		if r.faults == nil {
			return fake.Fault{}
		}
		return r.faults(call)
	}})
	namespace, err := cluster.Namespace(t.Context(), "rig")
	r.must(err)
	r.home, err = cluster.Cluster(t.Context(), namespace, "home")
	r.must(err)
	r.infra = &infrav1.SimMachine{ObjectMeta: metav1.ObjectMeta{Name: "worker", Annotations: map[string]string{infrav1.IdentityAnnotation: "worker-uid"}}}
	id := driver.Identity{UID: "worker-uid", Name: "worker", Owner: driver.Owner{UID: r.home.UID, Namespace: namespace, Name: "home"}}
	made, err := r.cloud.Create(t.Context(), driver.CreateRequest[fake.Config]{Identity: id, Config: fake.Config{InstanceType: "small", Zone: "a"}})
	r.must(err)
	r.infra.Spec.ProviderID = made.ProviderID
	r.owner, err = cluster.Machine(t.Context(), r.home, r.infra, nil)
	r.must(err)
	r.setHealth(metav1.ConditionFalse)
	r.request(retryLimit)
	r.restart()
	return r
}

// request creates the remediation as a MachineHealthCheck would.
func (r *fixture) request(retryLimit int32) {
	r.t.Helper()
	r.remediation = &infrav1.RestartRemediation{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: r.owner.Namespace, Name: r.owner.Name, Labels: r.owner.Labels,
			OwnerReferences: []metav1.OwnerReference{{APIVersion: clusterv1.GroupVersion.String(), Kind: "Machine", Name: r.owner.Name, UID: r.owner.UID}},
		},
		Spec: infrav1.RestartRemediationSpec{RetryLimit: &retryLimit, TimeoutSeconds: ptr.To[int32](60)},
	}
	r.must(cluster.Client.Create(r.t.Context(), r.remediation))
}

// restart makes a new reconciler without state in memory.
func (r *fixture) restart() {
	described := driver.Cloud[*infrav1.SimMachine, fake.Config]{
		Name:       "fake",
		NewMachine: func() *infrav1.SimMachine { return &infrav1.SimMachine{} },
		Account:    func(*infrav1.SimMachine) driver.Account { return driver.Account{} },
		Connect: func(context.Context, driver.Account, driver.Credentials) (driver.Driver[fake.Config], error) {
			if r.unable {
				return unreachable{r.cloud}, nil
			}
			return r.cloud, nil
		},
	}
	direct, err := client.NewWithWatch(cluster.Config, client.Options{Scheme: cluster.Client.Scheme()})
	r.must(err)
	counting := interceptor.NewClient(direct, interceptor.Funcs{
		SubResourcePatch: func(ctx context.Context, c client.Client, sub string, object client.Object, patch client.Patch, options ...client.SubResourcePatchOption) error {
			if r.writes++; r.writes-1 == r.dieAt {
				return errKilled
			}
			return c.SubResource(sub).Patch(ctx, object, patch, options...)
		},
	})
	clock := func() time.Time { return r.now }
	r.Reconciler = &restart.Reconciler[*infrav1.SimMachine, fake.Config]{
		Cloud:    described,
		Client:   counting,
		Live:     cluster.Client,
		Accounts: account.NewCache(described, account.Options{Secrets: cluster.Client, OwnCredentials: []string{account.EveryNamespace}, Now: clock, Changed: func(driver.Identity) {}}),
		Events:   r.recorder,
		Now:      clock,
	}
}

// setHealth writes the condition of a MachineHealthCheck.
func (r *fixture) setHealth(healthy metav1.ConditionStatus) {
	r.t.Helper()
	r.refresh()
	meta.SetStatusCondition(&r.owner.Status.Conditions, metav1.Condition{Type: clusterv1.MachineHealthCheckSucceededCondition, Status: healthy, Reason: "Judged"})
	r.must(cluster.Client.Status().Update(r.t.Context(), r.owner))
}

// connection writes the condition of the core about the connection to the workload cluster.
func (r *fixture) connection(status metav1.ConditionStatus) {
	r.t.Helper()
	r.must(cluster.Client.Get(r.t.Context(), client.ObjectKeyFromObject(r.home), r.home))
	r.home.Status.Initialization.ControlPlaneInitialized = ptr.To(true)
	meta.SetStatusCondition(&r.home.Status.Conditions, metav1.Condition{
		Type: clusterv1.ClusterRemoteConnectionProbeCondition, Status: status, Reason: "Probed", LastTransitionTime: metav1.NewTime(r.now),
	})
	r.must(cluster.Client.Status().Update(r.t.Context(), r.home))
}

func (r *fixture) refresh() {
	r.t.Helper()
	r.must(cluster.Client.Get(r.t.Context(), client.ObjectKeyFromObject(r.owner), r.owner))
}

func (r *fixture) must(err error) {
	r.t.Helper()
	if err != nil {
		r.t.Fatal(err)
	}
}

// reconcile runs one reconcile and reads what it may have written.
func (r *fixture) reconcile() (ctrl.Result, error) {
	r.t.Helper()
	result, err := r.Reconcile(r.t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(r.remediation)})
	r.must(client.IgnoreNotFound(cluster.Client.Get(r.t.Context(), client.ObjectKeyFromObject(r.remediation), r.remediation)))
	r.must(client.IgnoreNotFound(cluster.Client.Get(r.t.Context(), client.ObjectKeyFromObject(r.owner), r.owner)))
	return result, err
}

// step runs one reconcile, which must not fail and must come back after a time; zero for never.
func (r *fixture) step(requeueAfter time.Duration) {
	r.t.Helper()
	result, err := r.reconcile()
	r.must(err)
	if result.RequeueAfter != requeueAfter {
		r.t.Errorf("comes back after %s, want %s", result.RequeueAfter, requeueAfter)
	}
}

func (r *fixture) update(object client.Object, change func()) {
	r.t.Helper()
	r.must(cluster.Client.Get(r.t.Context(), client.ObjectKeyFromObject(object), object))
	change()
	r.must(cluster.Client.Update(r.t.Context(), object))
}

func (r *fixture) wantRestarts(want int) {
	r.t.Helper()
	if got := r.cloud.Snapshot().Restarts["worker-uid"]; got != want {
		r.t.Errorf("the instance was restarted %d times, want %d", got, want)
	}
}

// want compares where the remediation stands.
func (r *fixture) want(phase infrav1.RestartRemediationPhase, attempts int32, reason string) {
	r.t.Helper()
	status := r.remediation.Status
	progressing := meta.FindStatusCondition(status.Conditions, infrav1.ProgressingCondition)
	if progressing == nil || status.Phase != phase || ptr.Deref(status.Attempts, 0) != attempts || progressing.Reason != reason {
		r.t.Errorf("status is %+v, want phase %q, %d attempts and reason %s", status, phase, attempts, reason)
	}
}

// wantOwner checks whether the owner is to replace the Machine.
func (r *fixture) wantOwner(requested bool) {
	r.t.Helper()
	given := meta.FindStatusCondition(r.owner.Status.Conditions, clusterv1.MachineOwnerRemediatedCondition)
	if (given != nil) != requested {
		r.t.Errorf("condition OwnerRemediated is %+v, want it to be there: %t", given, requested)
	}
	if given != nil && (given.Status != metav1.ConditionFalse || given.Reason != clusterv1.MachineOwnerRemediatedWaitingForRemediationReason) {
		r.t.Errorf("condition OwnerRemediated is %+v", given)
	}
}

// recorded drains the events.
func (r *fixture) events() (all []string) {
	for {
		select {
		case e := <-r.recorder.Events:
			all = append(all, e)
		default:
			return all
		}
	}
}

func keyOf(object client.Object) client.ObjectKey { return client.ObjectKeyFromObject(object) }

// condition returns a condition of a remediation or a Machine; empty when there is none.
func condition(object client.Object, kind string) metav1.Condition {
	var all []metav1.Condition
	switch object := object.(type) {
	case *infrav1.RestartRemediation:
		all = object.Status.Conditions
	case *clusterv1.Machine:
		all = object.Status.Conditions
	}
	return ptr.Deref(meta.FindStatusCondition(all, kind), metav1.Condition{})
}

// meanwhile calls a function once, right after the first read.
type meanwhile struct {
	client.Reader
	then func()
}

func (m *meanwhile) Get(ctx context.Context, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
	err := m.Reader.Get(ctx, key, object, options...)
	if then := m.then; then != nil {
		m.then = nil
		then()
	}
	return err
}
