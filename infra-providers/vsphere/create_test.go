// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package vsphere_test

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"math/rand"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/vmware/govmomi/object"
	"github.com/vmware/govmomi/vapi/rest"
	"github.com/vmware/govmomi/vapi/tags"
	"github.com/vmware/govmomi/vim25/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "drover.io/api/infrastructure/v1alpha1"
	"drover.io/infra-providers/driver"
	"drover.io/infra-providers/vsphere"
)

// TestCreate requests everything at once and reads it back from vcsim.
func TestCreate(t *testing.T) {
	t.Parallel()
	w := newEnv(t)
	folders, err := w.finder.DefaultFolder(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := folders.CreateFolder(t.Context(), "workers"); err != nil {
		t.Fatal(err)
	}
	pool, err := w.finder.ResourcePool(t.Context(), "DC0_C0/Resources")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := pool.Create(t.Context(), "batch", types.DefaultResourceConfigSpec()); err != nil {
		t.Fatal(err)
	}
	field, err := object.NewCustomFieldsManager(w.admin.Client).Add(t.Context(), "team", "VirtualMachine", nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	w.tag("cost", "green")
	d, id := w.connect(), identity("1")
	request := req(w, id, func(spec *infrav1.VSphereMachineSpec) {
		spec.Folder, spec.ResourcePool, spec.Datastore = "workers", "batch", "LocalDS_0"
		spec.CPUs, spec.CoresPerSocket, spec.MemoryMiB = 4, 2, 2048
		spec.DiskGiB = 20
		spec.Disks = []infrav1.VSphereDisk{{SizeGiB: 5}, {SizeGiB: 7, Provisioning: infrav1.VSphereThick}}
		spec.HardwareVersion = 20
		spec.Networks = []infrav1.VSphereNetwork{
			{Name: "DC0_DVPG0", Addresses: []string{"192.0.2.5/24", "2001:db8::5/64"}, Gateway4: "192.0.2.1", Gateway6: "2001:db8::1", Nameservers: []string{"192.0.2.53"}, MTU: 9000},
			{Name: "VM Network", MACAddress: "00:50:56:00:00:07"},
		}
		spec.Tags = []string{"cost/green"}
		spec.CustomAttributes = map[string]infrav1.VSphereValue{"team": "blue"}
		spec.ExtraConfig = map[string]infrav1.VSphereValue{"tools.guest.desktop.autolock": "TRUE"}
	})
	if _, err := d.Create(t.Context(), request); err != nil {
		t.Fatal(err)
	}
	running := await(t, d, id, driver.Running)
	if running.ProviderID != "vsphere://"+string(id.UID) {
		t.Errorf("provider ID %q", running.ProviderID)
	}
	machine := w.machine("worker-1")
	type shape struct {
		BIOS, Instance, Version, Autolock, DiskUUIDs, Attribute string
		CPUs, Cores                                             int32
		Memory                                                  int32
		Disks                                                   []int64
		Folder, Pool, Datastore                                 string
		Plan                                                    string
	}
	got := shape{
		BIOS: machine.Config.Uuid, Instance: machine.Config.InstanceUuid, Version: machine.Config.Version,
		Autolock: option(machine, "tools.guest.desktop.autolock"), DiskUUIDs: option(machine, "disk.enableUUID"),
		CPUs: machine.Config.Hardware.NumCPU, Cores: *machine.Config.Hardware.NumCoresPerSocket, Memory: machine.Config.Hardware.MemoryMB,
		Folder: w.name(*machine.Parent), Pool: w.name(*machine.ResourcePool), Datastore: w.name(machine.Datastore[0]),
		Plan: option(machine, "drover.plan"),
	}
	for _, value := range machine.CustomValue {
		if text := value.(*types.CustomFieldStringValue); text.Key == field.Key {
			got.Attribute = text.Value
		}
	}
	for _, disk := range object.VirtualDeviceList(machine.Config.Hardware.Device).SelectByType((*types.VirtualDisk)(nil)) {
		got.Disks = append(got.Disks, disk.(*types.VirtualDisk).CapacityInBytes>>30)
	}
	slices.Sort(got.Disks)
	want := shape{
		BIOS: string(id.UID), Instance: string(id.UID), Version: "vmx-20", Autolock: "TRUE", DiskUUIDs: "TRUE", Attribute: "blue",
		CPUs: 4, Cores: 2, Memory: 2048, Disks: []int64{5, 7, 20}, Folder: "workers", Pool: "batch", Datastore: "LocalDS_0",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("virtual machine (-want +got):\n%s", diff)
	}
	if got := w.tagged(machine.Self); !slices.Equal(got, []string{"green"}) {
		t.Errorf("tags %q", got)
	}
	if got := unpack(t, option(machine, "guestinfo.userdata")); got != "#cloud-config\n" {
		t.Errorf("user data %q", got)
	}
	cards := object.VirtualDeviceList(machine.Config.Hardware.Device).SelectByType((*types.VirtualEthernetCard)(nil))
	if len(cards) != 2 {
		t.Fatalf("%d network cards, want 2", len(cards))
	}
	first := cards[0].(types.BaseVirtualEthernetCard).GetVirtualEthernetCard().MacAddress
	wantMetadata := map[string]any{
		"instance-id": string(id.UID), "local-hostname": "worker-1", "hostname": "worker-1", "provider_id": running.ProviderID,
		"network": map[string]any{"version": 2.0, "ethernets": map[string]any{
			"nic0": map[string]any{
				"match": map[string]any{"macaddress": first}, "dhcp4": false, "dhcp6": false, "mtu": 9000.0,
				"addresses":   []any{"192.0.2.5/24", "2001:db8::5/64"},
				"routes":      []any{map[string]any{"to": "0.0.0.0/0", "via": "192.0.2.1"}, map[string]any{"to": "::/0", "via": "2001:db8::1"}},
				"nameservers": map[string]any{"addresses": []any{"192.0.2.53"}},
			},
			"nic1": map[string]any{"match": map[string]any{"macaddress": "00:50:56:00:00:07"}, "dhcp4": true, "dhcp6": false},
		}},
	}
	var metadata map[string]any
	if err := json.Unmarshal([]byte(unpack(t, option(machine, "guestinfo.metadata"))), &metadata); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(wantMetadata, metadata); diff != "" {
		t.Errorf("metadata (-want +got):\n%s", diff)
	}
}

func TestCreateWithStorageDRS(t *testing.T) {
	t.Parallel()
	w := newEnv(t)
	datastore, err := w.finder.Datastore(t.Context(), "LocalDS_0")
	if err != nil {
		t.Fatal(err)
	}
	pod, err := w.finder.DatastoreCluster(t.Context(), "DC0_POD0")
	if err != nil {
		t.Fatal(err)
	}
	w.do(pod.MoveInto(t.Context(), []types.ManagedObjectReference{datastore.Reference()}))
	d, id := w.connect(), identity("1")
	if _, err := d.Create(t.Context(), req(w, id, func(spec *infrav1.VSphereMachineSpec) { spec.DatastoreCluster = "DC0_POD0" })); err != nil {
		t.Fatal(err)
	}
	await(t, d, id, driver.Running)
	if got := w.wire.count("RecommendDatastores"); got != 1 {
		t.Errorf("Storage DRS was asked %d times, want once", got)
	}
	if got := w.name(w.machine("worker-1").Datastore[0]); got != "LocalDS_0" {
		t.Errorf("the disks are on %q", got)
	}
}

func TestCreateWithIgnition(t *testing.T) {
	t.Parallel()
	w := newEnv(t)
	d, id := w.connect(), identity("1")
	request := req(w, id)
	request.Format, request.UserData = "ignition", []byte(`{"ignition":{"version":"3.4.0"}}`)
	if _, err := d.Create(t.Context(), request); err != nil {
		t.Fatal(err)
	}
	await(t, d, id, driver.Running)
	machine := w.machine("worker-1")
	if got := unpack(t, option(machine, "guestinfo.ignition.config.data")); got != string(request.UserData) {
		t.Errorf("Ignition configuration %q", got)
	}
	if got := option(machine, "guestinfo.ignition.config.data.encoding"); got != "gzip+base64" {
		t.Errorf("encoding %q", got)
	}
	if got := option(machine, "guestinfo.userdata") + option(machine, "guestinfo.metadata"); got != "" {
		t.Errorf("cloud-init is told %q", got)
	}
}

// TestCreateValidatesBeforeTheClone: an invalid request is refused before a clone is requested.
func TestCreateValidatesBeforeTheClone(t *testing.T) {
	t.Parallel()
	noise := make([]byte, 1<<20)
	_, _ = rand.New(rand.NewSource(1)).Read(noise)
	for name, test := range map[string]struct {
		change func(*driverRequest)
		field  string
	}{
		"user data over the limit": {func(r *driverRequest) { r.UserData = noise }, "bootstrap data"},
		"static addresses with Ignition": {func(r *driverRequest) {
			r.Format = "ignition"
			r.Config.Shape.Networks = []infrav1.VSphereNetwork{{Name: "VM Network", Addresses: []string{"192.0.2.5/24"}}}
		}, "spec.networks[0].addresses"},
		"a disk that would shrink": {func(r *driverRequest) { r.Config.Shape.DiskGiB = 1 }, "spec.diskGiB"},
		"too many disks":           {func(r *driverRequest) { r.Config.Shape.Disks = make([]infrav1.VSphereDisk, 20) }, "spec.disks[14]"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newEnv(t)
			request := req(w, identity("1"))
			test.change(&request)
			_, err := w.connect().Create(t.Context(), request)
			wantField(t, err, test.field)
			if got := w.wire.count("CloneVM_Task"); got != 0 {
				t.Errorf("%d clones were asked for", got)
			}
		})
	}
}

// TestReportedAddresses: IPv4 and IPv6 addresses of all cards count, bridges in the guest do not.
func TestReportedAddresses(t *testing.T) {
	t.Parallel()
	w := newEnv(t)
	d, id := w.connect(), identity("1")
	if _, err := d.Create(t.Context(), req(w, id, func(spec *infrav1.VSphereMachineSpec) {
		spec.Networks = []infrav1.VSphereNetwork{{Name: "DC0_DVPG0"}, {Name: "VM Network"}}
	})); err != nil {
		t.Fatal(err)
	}
	await(t, d, id, driver.Running)
	w.report("worker-1", "worker-1.example.com", [][]string{{"192.0.2.5", "2001:db8::5", "fe80::1"}, {"198.51.100.5"}}, "172.17.0.1")
	found, err := d.Get(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	want := []clusterv1.MachineAddress{
		{Type: clusterv1.MachineInternalIP, Address: "192.0.2.5"}, {Type: clusterv1.MachineExternalIP, Address: "192.0.2.5"},
		{Type: clusterv1.MachineInternalIP, Address: "2001:db8::5"}, {Type: clusterv1.MachineExternalIP, Address: "2001:db8::5"},
		{Type: clusterv1.MachineInternalIP, Address: "198.51.100.5"},
		{Type: clusterv1.MachineHostName, Address: "worker-1.example.com"},
	}
	if diff := cmp.Diff(want, found.Reported); diff != "" {
		t.Errorf("addresses (-want +got):\n%s", diff)
	}
	if found.PollAfter != 0 {
		t.Errorf("it is to be looked at again after %s", found.PollAfter)
	}
}

// TestCopyIsNotOurs: whoever clones a worker by hand copies its record too.
func TestCopyIsNotOurs(t *testing.T) {
	t.Parallel()
	w := newEnv(t)
	d, id := w.connect(), identity("1")
	if _, err := d.Create(t.Context(), req(w, id)); err != nil {
		t.Fatal(err)
	}
	await(t, d, id, driver.Running)
	machine := w.machine("worker-1")
	folder := object.NewFolder(w.admin.Client, *machine.Parent)
	w.do(w.find("worker-1").Clone(t.Context(), folder, "copy", types.VirtualMachineCloneSpec{
		Location: types.VirtualMachineRelocateSpec{Pool: machine.ResourcePool},
		Config:   &types.VirtualMachineConfigSpec{ExtraConfig: machine.Config.ExtraConfig},
	}))
	if got := len(w.ours()); got != 2 {
		t.Fatalf("%d virtual machines have a record, want 2, so this proves nothing", got)
	}
	var listed []string
	for found, err := range d.List(t.Context(), driver.Owner{}) {
		if err != nil {
			t.Fatal(err)
		}
		listed = append(listed, found.ProviderID)
	}
	if want := []string{"vsphere://" + string(id.UID)}; !slices.Equal(listed, want) {
		t.Errorf("listed %q, want %q", listed, want)
	}
}

type driverRequest = driver.CreateRequest[vsphere.InstanceConfig]

func wantField(t *testing.T, err error, field string) {
	t.Helper()
	if !driver.IsInvalidConfiguration(err) || !strings.HasPrefix(err.Error(), field+":") {
		t.Errorf("got %v, want an InvalidConfigurationError about %s", err, field)
	}
}

func unpack(t *testing.T, value string) string {
	t.Helper()
	compressed, err := base64.StdEncoding.DecodeString(value)
	if err != nil {
		t.Fatal(err)
	}
	reader, err := gzip.NewReader(bytes.NewReader(compressed))
	if err != nil {
		t.Fatal(err)
	}
	plain, err := io.ReadAll(reader)
	if err != nil {
		t.Fatal(err)
	}
	return string(plain)
}

// name is the name of anything in the inventory.
func (w *env) name(ref types.ManagedObjectReference) string {
	w.t.Helper()
	name, err := object.NewCommon(w.admin.Client, ref).ObjectName(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	return name
}

func (w *env) rest() *rest.Client {
	w.t.Helper()
	client := rest.NewClient(w.admin.Client)
	if err := client.Login(w.t.Context(), w.server.URL.User); err != nil {
		w.t.Fatal(err)
	}
	return client
}

func (w *env) tag(category, name string) {
	w.t.Helper()
	manager := tags.NewManager(w.rest())
	id, err := manager.CreateCategory(w.t.Context(), &tags.Category{Name: category, Cardinality: "MULTIPLE"})
	if err != nil {
		w.t.Fatal(err)
	}
	if _, err := manager.CreateTag(w.t.Context(), &tags.Tag{Name: name, CategoryID: id}); err != nil {
		w.t.Fatal(err)
	}
}

func (w *env) tagged(ref types.ManagedObjectReference) (names []string) {
	w.t.Helper()
	attached, err := tags.NewManager(w.rest()).GetAttachedTags(w.t.Context(), ref)
	if err != nil {
		w.t.Fatal(err)
	}
	for _, tag := range attached {
		names = append(names, tag.Name)
	}
	return names
}

// report is what VMware Tools would report to vCenter.
func (w *env) report(name, host string, cards [][]string, bridge string) {
	w.t.Helper()
	known := w.machine(name)
	var net []types.GuestNicInfo
	for i, addresses := range cards {
		net = append(net, types.GuestNicInfo{Network: fmt.Sprint(i), DeviceConfigId: int32(4000 + i), IpAddress: addresses})
	}
	if bridge != "" {
		net = append(net, types.GuestNicInfo{Network: "docker0", DeviceConfigId: -1, IpAddress: []string{bridge}})
	}
	w.model.Map().Update(w.model.Service.Context, w.model.Map().Get(known.Self), []types.PropertyChange{
		{Name: "guest.net", Val: net}, {Name: "guest.hostName", Val: host},
	})
}

// TestMachineAsTemplateIsRefused: the disks of a machine hold its keys, and a template is named by whoever writes a spec.
func TestMachineAsTemplateIsRefused(t *testing.T) {
	t.Parallel()
	w := newEnv(t)
	d := w.connect()
	other := identity("1")
	if _, err := d.Create(t.Context(), req(w, other)); err != nil {
		t.Fatal(err)
	}
	await(t, d, other, driver.Running)
	request := req(w, identity("2"), func(spec *infrav1.VSphereMachineSpec) { spec.Template = other.Name })
	if _, err := d.Create(t.Context(), request); !driver.IsInvalidConfiguration(err) {
		t.Errorf("cloning a machine: got %v, want an InvalidConfigurationError", err)
	}
	if _, err := d.FindImage(t.Context(), request.Config); !driver.IsInvalidConfiguration(err) {
		t.Errorf("looking for the template: got %v, want an InvalidConfigurationError", err)
	}
	// A copy of a machine, as one makes a template of one, is no machine.
	made, err := w.finder.DefaultFolder(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	w.do(w.find(other.Name).Clone(t.Context(), made, "golden", types.VirtualMachineCloneSpec{Template: true}))
	request = req(w, identity("3"), func(spec *infrav1.VSphereMachineSpec) { spec.Template = "golden" })
	if _, err := d.Create(t.Context(), request); err != nil {
		t.Errorf("cloning a template that was a machine: %v", err)
	}
}
