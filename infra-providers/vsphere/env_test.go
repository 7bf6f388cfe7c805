// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package vsphere_test

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/vmware/govmomi"
	"github.com/vmware/govmomi/find"
	"github.com/vmware/govmomi/object"
	_ "github.com/vmware/govmomi/pbm/simulator"
	"github.com/vmware/govmomi/property"
	"github.com/vmware/govmomi/simulator"
	_ "github.com/vmware/govmomi/vapi/simulator"
	"github.com/vmware/govmomi/view"
	"github.com/vmware/govmomi/vim25/mo"
	"github.com/vmware/govmomi/vim25/soap"
	"github.com/vmware/govmomi/vim25/types"

	kubetypes "k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	infrav1 "drover.io/api/infrastructure/v1alpha1"
	"drover.io/infra-providers/driver"
	"drover.io/infra-providers/vsphere"
	"drover.io/infra-providers/vsphere/vcenter"
)

// template is what vcsim's model calls its first virtual machine in a cluster.
const template = "DC0_C0_RP0_VM0"

// env is a vCenter that govmomi simulates, the wire to it, and a client of its own to look behind the
// driver's back.
type env struct {
	t      *testing.T
	model  *simulator.Model
	wire   *wire
	pool   *vcenter.Pool
	server *simulator.Server
	admin  *govmomi.Client
	finder *find.Finder
	// ahead is how far the driver's clock is ahead, in nanoseconds, and stopped where it stands, if it does.
	ahead   atomic.Int64
	stopped atomic.Pointer[time.Time]
}

func newEnv(t *testing.T) *env {
	t.Helper()
	model := simulator.VPX()
	model.Autostart = false
	model.Pod = 1
	model.Cluster = 2
	if err := model.Create(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(model.Remove)
	model.Service.TLS = new(tls.Config)
	model.Service.RegisterEndpoints = true
	model.Service.Listen = &url.URL{User: url.UserPassword("drover", "secret")}
	server := model.Service.NewServer()
	t.Cleanup(server.Close)
	w := &env{t: t, model: model, server: server, wire: &wire{model: model}}
	w.pool = w.newPool()
	var err error
	if w.admin, err = govmomi.NewClient(t.Context(), server.URL, true); err != nil {
		t.Fatal(err)
	}
	w.finder = find.NewFinder(w.admin.Client)
	datacenter, err := w.finder.DefaultDatacenter(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	w.finder.SetDatacenter(datacenter)
	return w
}

// account trusts vcsim's certificate by its thumbprint.
func (w *env) account() vcenter.Account {
	return vcenter.Account{
		OfSecret:   true,
		Server:     w.server.URL.Host,
		Username:   "drover",
		Password:   "secret",
		Thumbprint: soap.ThumbprintSHA1(w.server.Certificate()),
	}
}

// connect returns a driver without state in memory, with small pages.
func (w *env) connect() *vsphere.Driver { return w.connectTo(w.pool) }

func (w *env) connectTo(pool *vcenter.Pool) *vsphere.Driver {
	return vsphere.New(pool.Open(w.account()), vsphere.Options{PageSize: 7, Now: w.now})
}

func (w *env) now() time.Time {
	now := w.stopped.Load()
	if now == nil {
		now = ptr.To(time.Now())
	}
	return now.Add(time.Duration(w.ahead.Load()))
}

// stopClock stops the clock but for what is added to ahead: a pause does not end because the host is busy.
func (w *env) stopClock() { w.stopped.Store(ptr.To(time.Now())) }

// restart connects as another process would, with a session of its own.
func (w *env) restart() *vsphere.Driver {
	w.pool = w.newPool()
	return w.connect()
}

func (w *env) newPool() *vcenter.Pool {
	pool := &vcenter.Pool{Transport: w.wire.wrap}
	w.t.Cleanup(func() {
		w.wire.clear()
		if err := pool.Close(context.Background()); err != nil {
			w.t.Errorf("logging out: %v", err)
		}
		if len(w.wire.endless) > 0 {
			w.t.Errorf("calls without a deadline: %q", w.wire.endless)
		}
	})
	return pool
}

// config is a configuration that vcsim takes, with changes.
func (w *env) config(zone string, changes ...func(*infrav1.VSphereMachineSpec)) vsphere.InstanceConfig {
	w.t.Helper()
	machine := &infrav1.VSphereMachine{Spec: infrav1.VSphereMachineSpec{
		Template:         template,
		CPUs:             2,
		MemoryMiB:        1024,
		VSpherePlacement: infrav1.VSpherePlacement{ComputeCluster: "DC0_C0"},
	}}
	for _, change := range changes {
		change(&machine.Spec)
	}
	config, err := vsphere.NewInstanceConfig(machine, zone)
	if err != nil {
		w.t.Fatal(err)
	}
	return config
}

// ours are all virtual machines with our record, read behind the driver's back.
func (w *env) ours() []mo.VirtualMachine {
	w.t.Helper()
	ctx := context.Background()
	all, err := view.NewManager(w.admin.Client).CreateContainerView(ctx, w.admin.ServiceContent.RootFolder, []string{"VirtualMachine"}, true)
	if err != nil {
		w.t.Fatal(err)
	}
	var machines []mo.VirtualMachine
	if err := all.Retrieve(ctx, []string{"VirtualMachine"}, nil, &machines); err != nil {
		w.t.Fatal(err)
	}
	return slices.DeleteFunc(machines, func(machine mo.VirtualMachine) bool {
		return option(machine, vcenter.RecordKey) == ""
	})
}

// attach attaches a disk that somebody else made to the machine of an instance, as a storage driver does.
func (w *env) attach(made driver.Instance) func() bool {
	w.t.Helper()
	ctx := context.Background()
	datastore, err := w.finder.DefaultDatastore(ctx)
	if err != nil {
		w.t.Fatal(err)
	}
	datacenter, err := w.finder.DefaultDatacenter(ctx)
	if err != nil {
		w.t.Fatal(err)
	}
	if err := object.NewFileManager(w.admin.Client).MakeDirectory(ctx, datastore.Path("kubevols"), datacenter, true); err != nil {
		w.t.Fatal(err)
	}
	path, disks := datastore.Path("kubevols/pvc-1.vmdk"), object.NewVirtualDiskManager(w.admin.Client)
	w.do(disks.CreateVirtualDisk(ctx, path, datacenter, &types.FileBackedVirtualDiskSpec{
		VirtualDiskSpec: types.VirtualDiskSpec{
			DiskType: string(types.VirtualDiskTypeThin), AdapterType: string(types.VirtualDiskAdapterTypeLsiLogic),
		},
		CapacityKb: 1024,
	}))
	machine := w.find(made.Identity.Name)
	devices, err := machine.Device(ctx)
	if err != nil {
		w.t.Fatal(err)
	}
	controller, err := devices.FindDiskController("")
	if err != nil {
		w.t.Fatal(err)
	}
	if err := machine.AddDevice(ctx, devices.CreateDisk(controller, datastore.Reference(), path)); err != nil {
		w.t.Fatal(err)
	}
	return func() bool {
		_, err := datastore.Stat(ctx, "kubevols/pvc-1.vmdk")
		return err == nil
	}
}

// machine is the only virtual machine with a name.
func (w *env) machine(name string) mo.VirtualMachine {
	w.t.Helper()
	for _, machine := range w.ours() {
		if machine.Name == name {
			return machine
		}
	}
	w.t.Fatalf("there is no virtual machine %q", name)
	return mo.VirtualMachine{}
}

// leftovers names virtual machines, rules and group members that are ours.
func (w *env) leftovers() (left []string) {
	w.t.Helper()
	for _, machine := range w.ours() {
		left = append(left, "virtual machine "+machine.Name)
	}
	for _, name := range []string{"DC0_C0", "DC0_C1"} {
		config := w.cluster(name)
		for _, rule := range config.Rule {
			left = append(left, "rule "+rule.GetClusterRuleInfo().Name)
		}
		for _, group := range config.Group {
			if members, ok := group.(*types.ClusterVmGroup); ok && len(members.Vm) > 0 {
				left = append(left, "members of group "+members.Name)
			}
		}
	}
	return left
}

func (w *env) cluster(name string) *types.ClusterConfigInfoEx {
	w.t.Helper()
	cluster, err := w.finder.ClusterComputeResource(context.Background(), name)
	if err != nil {
		w.t.Fatal(err)
	}
	config, err := cluster.Configuration(context.Background())
	if err != nil {
		w.t.Fatal(err)
	}
	return config
}

// do waits for a task that the test started itself.
func (w *env) do(task *object.Task, err error) {
	w.t.Helper()
	if err == nil {
		err = task.Wait(w.t.Context())
	}
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w *env) find(name string) *object.VirtualMachine {
	w.t.Helper()
	found, err := w.finder.VirtualMachine(w.t.Context(), name)
	if err != nil {
		w.t.Fatal(err)
	}
	return found
}

// sessions are those of the driver.
func (w *env) sessions() []types.UserSession {
	w.t.Helper()
	var manager mo.SessionManager
	if err := property.DefaultCollector(w.admin.Client).RetrieveOne(w.t.Context(), *w.admin.ServiceContent.SessionManager, []string{"sessionList"}, &manager); err != nil {
		w.t.Fatal(err)
	}
	own, err := w.admin.SessionManager.UserSession(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	return slices.DeleteFunc(manager.SessionList, func(session types.UserSession) bool { return session.Key == own.Key })
}

func option(machine mo.VirtualMachine, key string) string {
	if machine.Config == nil {
		return ""
	}
	for _, one := range machine.Config.ExtraConfig {
		if one.GetOptionValue().Key == key {
			value, _ := one.GetOptionValue().Value.(string)
			return value
		}
	}
	return ""
}

func identity(n string) driver.Identity {
	return driver.Identity{
		UID:   "0a0b0c0d-0000-4000-8000-00000000000" + kubetypes.UID(n),
		Name:  "worker-" + n,
		Owner: driver.Owner{UID: "0a0b0c0d-0000-4000-9000-000000000000", Namespace: "team", Name: "home"},
	}
}

// waitTimeout bounds every wait: how quick a simulated vCenter is depends on what else the host does.
const waitTimeout = 4 * time.Minute

// until repeats a function until it reports success.
func until(t *testing.T, what string, done func() bool) {
	t.Helper()
	for deadline := time.Now().Add(waitTimeout); !done(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("after %s: no %s", waitTimeout, what)
		}
	}
}

// proceed takes the step that is due of an instance, as the generic reconciler does.
func proceed(t *testing.T, with *vsphere.Driver, id driver.Identity, found driver.Instance) {
	t.Helper()
	var err error
	switch {
	case !found.StepDue:
	case found.State == driver.Stopping:
		err = with.Delete(t.Context(), id)
	default:
		_, err = with.Provision(t.Context(), id)
	}
	if err != nil {
		t.Fatalf("taking the next step of %s: %v", id.Name, err)
	}
}

// await reads the instance, and takes the steps that are due, until it is as wanted.
func await(t *testing.T, from *vsphere.Driver, id driver.Identity, want driver.State) (found driver.Instance) {
	t.Helper()
	until(t, fmt.Sprintf("%s %s", want, id.Name), func() bool {
		var err error
		found, err = from.Get(t.Context(), id)
		if driver.IsNotFound(err) && want == driver.Terminated {
			return true
		}
		if err != nil {
			t.Fatalf("reading %s: %v", id.Name, err)
		}
		proceed(t, from, id, found)
		return found.State == want && (want != driver.Running || found.PollAfter == 0 || len(found.Reported) == 0 && found.PollAfter > 10e9)
	})
	return found
}

// req requests a machine.
func req(w *env, id driver.Identity, changes ...func(*infrav1.VSphereMachineSpec)) driver.CreateRequest[vsphere.InstanceConfig] {
	return driver.CreateRequest[vsphere.InstanceConfig]{Identity: id, Config: w.config("", changes...), UserData: []byte("#cloud-config\n"), Format: "cloud-config"}
}

// untag takes tags out of the record of a virtual machine, as somebody who tidies up would, and returns a function that
// reports whether it still runs and then removes it.
func (w *env) untag(made driver.Instance, keys ...string) func() bool {
	w.t.Helper()
	known := w.machine(made.Identity.Name)
	var record map[string]any
	if err := json.Unmarshal([]byte(option(known, vcenter.RecordKey)), &record); err != nil {
		w.t.Fatal(err)
	}
	for _, key := range keys {
		delete(record["tags"].(map[string]any), key)
	}
	text, err := json.Marshal(record)
	if err != nil {
		w.t.Fatal(err)
	}
	machine := object.NewVirtualMachine(w.admin.Client, known.Self)
	w.do(machine.Reconfigure(w.t.Context(), types.VirtualMachineConfigSpec{
		ExtraConfig: []types.BaseOptionValue{&types.OptionValue{Key: vcenter.RecordKey, Value: string(text)}},
	}))
	return func() bool {
		state, err := machine.PowerState(w.t.Context())
		if err != nil {
			return false
		}
		if state == types.VirtualMachinePowerStatePoweredOn {
			w.do(machine.PowerOff(w.t.Context()))
		}
		w.do(machine.Destroy(w.t.Context()))
		return state == types.VirtualMachinePowerStatePoweredOn
	}
}
