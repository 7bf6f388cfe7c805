// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package inframachine_test

import (
	"context"
	"errors"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	infrav1 "drover.io/api/infrastructure/v1alpha1"
	"drover.io/infra-providers/driver"
	"drover.io/infra-providers/driver/fake"
	"drover.io/infra-providers/internal/account"
	"drover.io/infra-providers/internal/inframachine"
	"drover.io/infra-providers/internal/testenv"
	"drover.io/runtime/predicates"
	"drover.io/runtime/tracing"
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

// fixture is a namespace with a Cluster, a fake cloud, and a reconciler that is called by hand.
type fixture struct {
	t        *testing.T
	home     *clusterv1.Cluster
	cloud    *fake.Cloud
	faults   func(fake.Call) fake.Fault
	recorder *events.FakeRecorder
	// writes counts the writes of the reconciler; the one with number dieAt fails, as if it died there.
	writes, dieAt atomic.Int32
	watchFilter   predicates.WatchFilter
	// alternatives are what every machine may have instead; nil for a cloud without a choice.
	alternatives []fake.Config
	// secret names the Secret with the credentials, which the cloud takes while their token is this one.
	secret, token string
	// elsewhere is the account that the Secret leads to unless its token is home; nil where there is one account.
	elsewhere *fake.Cloud
	// interval is the time between two lists; zero reads each instance by itself.
	interval time.Duration
	// later moves the clock of the accounts, which stands still where lists count.
	later time.Duration
	// behind is what the cache shows instead of any machine; nil while it is not behind.
	behind *infrav1.SimMachine
	// refusal is the answer to every write of a providerID; nil where they are taken.
	refusal error
	// invalid is why no configuration can be made of a spec; nil where one can.
	invalid error
	// ownCredentials are the namespaces that may use the provider's own credentials.
	ownCredentials []string
	// jitter is the share of their spread by which retries are later.
	jitter float64
	// tracer emits the spans of the next reconciler; nil is off.
	tracer *tracing.Tracer

	reconciler reconcile.Reconciler
	// log is the logger of the reconciles.
	log logr.Logger
}

func newFixture(t *testing.T, options fake.Options) *fixture {
	t.Helper()
	namespace, err := cluster.Namespace(t.Context(), "rig")
	if err != nil {
		t.Fatal(err)
	}
	home, err := cluster.Cluster(t.Context(), namespace, "home")
	if err != nil {
		t.Fatal(err)
	}
	r := &fixture{t: t, home: home, log: logr.Discard(), ownCredentials: []string{account.EveryNamespace}}
	r.dieAt.Store(-1)
	options.Faults = func(call fake.Call) fake.Fault {
		if r.faults == nil {
			return fake.Fault{}
		}
		return r.faults(call)
	}
	r.cloud = fake.New(options)
	r.restart()
	return r
}

// described is the fake cloud as a provider's cloud.
func (r *fixture) described() driver.Cloud[*infrav1.SimMachine, fake.Config] {
	described := driver.Cloud[*infrav1.SimMachine, fake.Config]{
		Name:           "fake",
		NewMachine:     func() *infrav1.SimMachine { return &infrav1.SimMachine{} },
		NewMachineList: func() driver.MachineList { return &infrav1.SimMachineList{} },
		Config: func(machine *infrav1.SimMachine, zone string) (fake.Config, error) {
			return fake.Config{InstanceType: machine.Spec.InstanceType, Zone: zone}, r.invalid
		},
		Account: func(*infrav1.SimMachine) driver.Account { return driver.Account{SecretName: r.secret} },
		Connect: func(_ context.Context, _ driver.Account, credentials driver.Credentials) (driver.Driver[fake.Config], error) {
			if r.elsewhere != nil {
				return map[bool]*fake.Cloud{true: r.cloud, false: r.elsewhere}[string(credentials["token"]) == "home"], nil
			}
			return &locked{Cloud: r.cloud, opens: func() bool { return r.token == string(credentials["token"]) }}, nil
		},
	}
	if r.alternatives != nil {
		described.Alternatives = func(fake.Config) []fake.Config { return r.alternatives }
		described.Offering = func(c fake.Config) (string, string) { return c.InstanceType, c.Zone }
	}
	return described
}

// restart makes a new reconciler with empty memory, as another process has.
func (r *fixture) restart() {
	described := r.described()
	direct, err := client.NewWithWatch(cluster.Config, client.Options{Scheme: cluster.Client.Scheme()})
	if err != nil {
		r.t.Fatal(err)
	}
	counting := interceptor.NewClient(direct, interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
			if machine, ok := object.(*infrav1.SimMachine); ok && r.behind != nil {
				r.behind.DeepCopyInto(machine)
				return nil
			}
			return c.Get(ctx, key, object, options...)
		},
		Patch: func(ctx context.Context, c client.WithWatch, object client.Object, patch client.Patch, options ...client.PatchOption) error {
			if r.failsAt() {
				return errKilled
			}
			if content, err := patch.Data(object); err == nil && r.refusal != nil && strings.Contains(string(content), "providerID") {
				return r.refusal
			}
			return c.Patch(ctx, object, patch, options...)
		},
		SubResourcePatch: func(ctx context.Context, c client.Client, sub string, object client.Object, patch client.Patch, options ...client.SubResourcePatchOption) error {
			if r.failsAt() {
				return errKilled
			}
			return c.SubResource(sub).Patch(ctx, object, patch, options...)
		},
	})
	r.recorder = events.NewFakeRecorder(1000)
	r.reconciler = reconcile.AsReconciler(client.Client(counting), &inframachine.Reconciler[*infrav1.SimMachine, fake.Config]{
		Cloud:    described,
		Client:   counting,
		Live:     cluster.Client,
		Accounts: account.NewCache(described, account.Options{Secrets: cluster.Client, Namespaces: cluster.Client, OwnCredentials: r.ownCredentials, Now: r.now, Changed: func(driver.Identity) {}, Interval: r.interval}),
		Events:   r.recorder,
		Changes:  &inframachine.Changes{},
		Resync:   time.Minute,
		Jitter:   func() float64 { return r.jitter },
		Tracer:   r.tracer,

		WatchFilter: r.watchFilter,
	})
}

// now is the clock of the accounts.
func (r *fixture) now() time.Time {
	if r.interval > 0 {
		return time.Unix(1_000_000, 0).Add(r.later)
	}
	return time.Now().Add(r.later)
}

func (r *fixture) failsAt() bool { return r.writes.Add(1)-1 == r.dieAt.Load() }

// machine creates a Machine and what it owns.
func (r *fixture) machine(name string, change ...func(*infrav1.SimMachine)) (*infrav1.SimMachine, *clusterv1.Machine) {
	r.t.Helper()
	infra := &infrav1.SimMachine{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: infrav1.SimMachineSpec{InstanceType: "small"}}
	for _, f := range change {
		f(infra)
	}
	owner, err := cluster.Machine(r.t.Context(), r.home, infra, []byte("#cloud-config\n"))
	if err != nil {
		r.t.Fatal(err)
	}
	return infra, owner
}

// reconcile runs one reconcile and reads the machine again.
func (r *fixture) reconcile(machine *infrav1.SimMachine) (ctrl.Result, error) {
	r.t.Helper()
	result, err := r.reconciler.Reconcile(ctrl.LoggerInto(r.t.Context(), r.log), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(machine)})
	if getErr := cluster.Client.Get(r.t.Context(), client.ObjectKeyFromObject(machine), machine); client.IgnoreNotFound(getErr) != nil {
		r.t.Fatal(getErr)
	} else if getErr != nil {
		machine.ResourceVersion = ""
	}
	return result, err
}

// settle reconciles until nothing is left to do at once.
func (r *fixture) settle(machine *infrav1.SimMachine) {
	r.t.Helper()
	for range 50 {
		before := machine.ResourceVersion
		_, err := r.reconcile(machine)
		if err == nil && (before == machine.ResourceVersion && machine.ResourceVersion != "" || machine.ResourceVersion == "") {
			return
		}
	}
	r.t.Fatalf("machine does not settle: %+v", machine.Status)
}

func (r *fixture) update(object client.Object, change func()) {
	r.t.Helper()
	change()
	if err := cluster.Client.Update(r.t.Context(), object); err != nil {
		r.t.Fatal(err)
	}
}

func (r *fixture) delete(objects ...client.Object) {
	r.t.Helper()
	for _, object := range objects {
		if err := cluster.Client.Delete(r.t.Context(), object); err != nil {
			r.t.Fatal(err)
		}
	}
}

func (r *fixture) wantInCloud(instances int) {
	r.t.Helper()
	snapshot := r.cloud.Snapshot()
	if len(snapshot.Instances) != instances || len(snapshot.Disks) != instances || len(snapshot.Duplicates) > 0 {
		r.t.Errorf("the cloud has %d instances, %d disks and doubles %q, want %d of each and none", len(snapshot.Instances), len(snapshot.Disks), snapshot.Duplicates, instances)
	}
}

func (r *fixture) wantReason(machine *infrav1.SimMachine, kind, want string) {
	r.t.Helper()
	condition := meta.FindStatusCondition(machine.Status.Conditions, kind)
	if condition == nil || condition.Reason != want {
		r.t.Errorf("condition %s is %+v, want reason %s", kind, condition, want)
	}
}

func (r *fixture) wantGone(machine *infrav1.SimMachine) {
	r.t.Helper()
	if machine.ResourceVersion != "" {
		r.t.Errorf("the machine still exists with finalizers %q and conditions %+v", machine.Finalizers, machine.Status.Conditions)
	}
}

func keyOf(object client.Object) client.ObjectKey { return client.ObjectKeyFromObject(object) }

// events returns the events since the last call.
func (r *fixture) events() []string {
	var all []string
	for {
		select {
		case e := <-r.recorder.Events:
			all = append(all, e)
		default:
			return all
		}
	}
}
