// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package openstack_test

import (
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "drover.io/api/infrastructure/v1alpha1"
	"drover.io/infra-providers/driver"
	"drover.io/infra-providers/driver/drivertest"
	"drover.io/infra-providers/openstack"
	"drover.io/infra-providers/openstack/attachments"
	"drover.io/infra-providers/openstack/openstackfake"
)

var worker = driver.Identity{
	UID: "aaaaaaaa-0000-4000-8000-000000000001", Name: "worker-1",
	Owner: driver.Owner{UID: "cccccccc-0000-4000-8000-000000000001", Namespace: "team", Name: "home"},
}

func newRequest(t *testing.T, spec infrav1.OpenStackMachineSpec) driver.CreateRequest[openstack.InstanceConfig] {
	t.Helper()
	return driver.CreateRequest[openstack.InstanceConfig]{Identity: worker, Config: newConfig(t, spec), UserData: []byte("#cloud-config\n"), Format: "cloud-config"}
}

// mustCreate creates an instance and retries while attachments are not ready, as the reconciler does.
func mustCreate(t *testing.T, d driver.Driver[openstack.InstanceConfig], req driver.CreateRequest[openstack.InstanceConfig]) driver.Instance {
	t.Helper()
	for range 10 {
		created, err := d.Create(t.Context(), req)
		if err == nil {
			return created
		}
		if !errors.Is(err, attachments.ErrBusy) {
			t.Fatal(err)
		}
	}
	t.Fatal("the attachments did not become ready")
	return driver.Instance{}
}

// TestServerRequest compares the whole request.
func TestServerRequest(t *testing.T) {
	t.Parallel()
	r := newEnv(t)
	spec := fullSpec()
	spec.AvailabilityZone, spec.KeyPair, spec.ConfigDrive = "zone-b", "ops", ptr.To(true)
	spec.Metadata, spec.Tags, spec.SchedulerHints = map[string]string{"team": "a"}, []string{"blue"}, map[string]string{"different_cell": "c"}
	spec.RootVolume = infrav1.OpenStackVolume{SizeGiB: 20, Type: "fast"}
	spec.Volumes = []infrav1.OpenStackDataVolume{{Name: "data", OpenStackVolume: infrav1.OpenStackVolume{SizeGiB: 5, DeleteOnTermination: ptr.To(false)}}}
	created := mustCreate(t, r.connect(t), newRequest(t, spec))
	want := map[string]any{
		"os:scheduler_hints": map[string]any{"group": "group", "different_cell": "c"},
		"server": map[string]any{
			"name": "worker-1", "flavorRef": "1", "imageRef": "", "availability_zone": "zone-b", "key_name": "ops", "config_drive": true,
			"user_data": base64.StdEncoding.EncodeToString([]byte("#cloud-config\n")),
			"tags":      []any{"drover", "drover-" + string(worker.UID), "blue"},
			"networks":  []any{map[string]any{"port": "port 0"}, map[string]any{"port": "port 1"}},
			"block_device_mapping_v2": []any{
				map[string]any{"source_type": "volume", "destination_type": "volume", "uuid": "root", "boot_index": 0.0, "delete_on_termination": true},
				map[string]any{"source_type": "volume", "destination_type": "volume", "uuid": "data", "boot_index": -1.0, "delete_on_termination": false},
			},
			"metadata": map[string]any{
				"team": "a", "drover.io:machine-uid": string(worker.UID), "drover.io:machine": "worker-1", "drover.io:cluster": "home",
				"drover.io:cluster-uid": string(worker.Owner.UID), "drover.io:cluster-namespace": "team",
				"drover.io:flavor": "m1.small with different_cell", "drover.io:zone": "zone-b", "drover.io:region": "RegionOne",
				"drover.io:server-group": string(worker.Owner.UID),
			},
		},
	}
	if diff := cmp.Diff(want, named(r, r.ServerRequest())); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if want := "openstack://RegionOne/" + created.ID; created.ProviderID != want {
		t.Errorf("provider ID %q, want %q", created.ProviderID, want)
	}
	r.awaitStates(t)
	wantLeftovers(t, r, worker, "volumes drover-"+string(worker.UID)+"-data")
}

// named replaces the IDs in a request by names.
func named(r *env, requested map[string]any) map[string]any {
	server := requested["server"].(map[string]any)
	names := map[any]string{}
	for _, kind := range []string{"ports", "volumes"} {
		r.Change(kind, func(thing map[string]any) { names[thing["id"]] = thing["name"].(string) })
	}
	prefix := len("drover-") + len(worker.UID) + 1
	for _, network := range server["networks"].([]any) {
		port := network.(map[string]any)
		port["port"] = "port " + names[port["port"]][prefix:]
	}
	for _, device := range server["block_device_mapping_v2"].([]any) {
		disk := device.(map[string]any)
		disk["uuid"] = names[disk["uuid"]][prefix:]
	}
	requested["os:scheduler_hints"].(map[string]any)["group"] = "group"
	return requested
}

// awaitStates reads servers until they are running or deleted.
func (r *env) awaitStates(t *testing.T) {
	t.Helper()
	d := r.connect(t)
	for range 5 {
		for _, err := range d.List(t.Context(), driver.Owner{}) {
			if err != nil {
				t.Fatal(err)
			}
		}
	}
}

// wantLeftovers deletes an instance and compares what is left.
func wantLeftovers(t *testing.T, r *env, id driver.Identity, want ...string) {
	t.Helper()
	d := r.connect(t)
	for range 5 {
		if err := d.Delete(t.Context(), id); err != nil && !errors.Is(err, attachments.ErrBusy) {
			t.Fatal(err)
		}
		r.awaitStates(t)
	}
	var got []string
	for _, thing := range r.Leftovers() {
		got = append(got, thing[:len(thing)-len(" 00000000-0000-0000-0000-000000000000")])
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("left (-want +got):\n%s", diff)
	}
}

func TestFloatingIPIsAnExternalAddress(t *testing.T) {
	t.Parallel()
	r := newEnv(t)
	spec := minimalSpec()
	spec.FloatingIP = infrav1.OpenStackFloatingIP{Network: "public", Subnet: "public4"}
	d := r.connect(t)
	mustCreate(t, d, newRequest(t, spec))
	r.awaitStates(t)
	got, err := d.Get(t.Context(), worker)
	if err != nil {
		t.Fatal(err)
	}
	var types []clusterv1.MachineAddressType
	for _, address := range got.Addresses {
		types = append(types, address.Type)
	}
	if diff := cmp.Diff([]clusterv1.MachineAddressType{clusterv1.MachineInternalIP, clusterv1.MachineInternalIP, clusterv1.MachineExternalIP, clusterv1.MachineHostName, clusterv1.MachineInternalDNS}, types); diff != "" {
		t.Error(diff)
	}
	if got.State != driver.Running || got.FailureDomain != "nova" {
		t.Errorf("got %+v", got)
	}
	wantLeftovers(t, r, worker)
}

// TestCreateAfterLostAnswers loses the answer of each changing call in turn, retries in other processes, and counts the
// resources.
func TestCreateAfterLostAnswers(t *testing.T) {
	t.Parallel()
	spec := fullSpec()
	spec.RootVolume = infrav1.OpenStackVolume{SizeGiB: 20}
	for lost := range 12 {
		t.Run(fmt.Sprintf("call %d", lost), func(t *testing.T) {
			t.Parallel()
			r := newEnv(t)
			// A claim is valid until it expires.
			offset := time.Duration(0)
			calls := 0
			r.faults.Lose(func(request *http.Request) bool {
				if !openstackfake.Changes(request) {
					return false
				}
				calls++
				return calls == lost+1
			})
			for range 12 {
				cloud := openstack.Cloud(openstack.Options{Transport: r.faults, Clock: drivertest.ClockFunc(func() time.Time { return time.Now().Add(offset) })})
				d, err := cloud.Connect(t.Context(), driver.Account{SecretName: "cloud"}, r.secret)
				if err != nil {
					t.Fatal(err)
				}
				if _, err := d.Create(t.Context(), newRequest(t, spec)); driver.IsInvalidConfiguration(err) {
					t.Fatal(err)
				}
				offset += 4 * time.Minute
			}
			r.awaitStates(t)
			counts := map[string]int{}
			for _, thing := range r.Leftovers() {
				var kind string
				_, _ = fmt.Sscan(thing, &kind)
				counts[kind]++
			}
			want := map[string]int{"servers": 1, "ports": 2, "floatingips": 1, "volumes": 1, "os-server-groups": 1}
			if diff := cmp.Diff(want, counts); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			wantLeftovers(t, r, worker)
		})
	}
}

// TestUnansweredCreationIsNotRepeated: the request for the server is still being carried out, and Nova does not list the
// server.
func TestUnansweredCreationIsNotRepeated(t *testing.T) {
	t.Parallel()
	r := newEnv(t)
	release := r.faults.Hold(openstackfake.Creates("servers"))
	d := r.connect(t)
	if _, err := d.Create(t.Context(), newRequest(t, minimalSpec())); err == nil {
		t.Fatal("the held call was answered")
	}
	for _, again := range []driver.Driver[openstack.InstanceConfig]{d, r.connect(t), d} {
		if _, err := again.Create(t.Context(), newRequest(t, minimalSpec())); !errors.Is(err, attachments.ErrBusy) {
			t.Fatalf("a second server was requested: %v", err)
		}
	}
	if err := release(); err != nil {
		t.Fatal(err)
	}
	created := mustCreate(t, d, newRequest(t, minimalSpec()))
	if r.only(t, "servers")["id"] != created.ID {
		t.Errorf("got %s", created.ID)
	}
}

func TestForbiddenIsQuotaAtALimit(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		limits string
		is     func(error) bool
	}{
		"is QuotaExceeded at the limit":           {noCapacity, func(err error) bool { return driver.IsQuotaExceeded(err) && !driver.IsUnauthorized(err) }},
		"is Unauthorized below the limit":         {"", driver.IsUnauthorized},
		"is Unauthorized without readable limits": {"nonsense", driver.IsUnauthorized},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newEnv(t)
			r.faults.Fail(openstackfake.Creates("servers"), http.StatusForbidden, forbidden)
			if test.limits != "" {
				r.faults.Fail(reads("/limits"), http.StatusOK, test.limits)
			}
			if _, err := r.connect(t).Create(t.Context(), newRequest(t, minimalSpec())); !test.is(err) {
				t.Errorf("got %v", err)
			}
			wantLeftovers(t, r, worker)
		})
	}
}

func TestNeutronQuota(t *testing.T) {
	t.Parallel()
	r := newEnv(t)
	r.faults.Fail(openstackfake.Creates("ports"), http.StatusConflict, overQuota)
	if _, err := r.connect(t).Create(t.Context(), newRequest(t, minimalSpec())); !driver.IsQuotaExceeded(err) {
		t.Errorf("got %v", err)
	}
}

// TestNoHostIsInsufficientCapacityForTheNextMachine: Nova reports a lack of capacity only after it accepted a server.
func TestNoHostIsInsufficientCapacityForTheNextMachine(t *testing.T) {
	t.Parallel()
	r := newEnv(t)
	offset := time.Duration(0)
	d, err := openstack.Cloud(openstack.Options{Transport: r.faults, Clock: drivertest.ClockFunc(func() time.Time { return time.Now().Add(offset) })}).
		Connect(t.Context(), driver.Account{SecretName: "cloud"}, r.secret)
	if err != nil {
		t.Fatal(err)
	}
	spec := minimalSpec()
	spec.Flavor = "huge"
	mustCreate(t, d, newRequest(t, spec))
	for range 3 {
		for _, err := range d.List(t.Context(), driver.Owner{}) {
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	failed, err := d.Get(t.Context(), worker)
	if err != nil || failed.State != driver.Stopped || failed.Guest == nil || !failed.Guest.Failed {
		t.Errorf("the failed server is %+v, %v", failed, err)
	}
	next := newRequest(t, spec)
	next.Identity.UID, next.Identity.Name = "aaaaaaaa-0000-4000-8000-000000000002", "worker-2"
	if _, err := d.Create(t.Context(), next); !driver.IsInsufficientCapacity(err) {
		t.Errorf("got %v", err)
	}
	next.Config = newConfig(t, minimalSpec())
	mustCreate(t, d, next)
	offset = 10 * time.Minute
	third := newRequest(t, spec)
	third.Identity.UID, third.Identity.Name = "aaaaaaaa-0000-4000-8000-000000000003", "worker-3"
	mustCreate(t, d, third)
}

func TestPortOfAnUnlistedServerPreventsASecond(t *testing.T) {
	t.Parallel()
	r := newEnv(t)
	mustCreate(t, r.connect(t), newRequest(t, minimalSpec()))
	r.awaitStates(t)
	// Nova does not list the server, as while its cell is down.
	r.Change("servers", func(server map[string]any) { server["tags"] = []string{} })
	if _, err := r.connect(t).Create(t.Context(), newRequest(t, minimalSpec())); !errors.Is(err, attachments.ErrBusy) {
		t.Errorf("got %v", err)
	}
}

func TestFailedVolumeIsReplaced(t *testing.T) {
	t.Parallel()
	r := newEnv(t)
	spec := minimalSpec()
	spec.RootVolume = infrav1.OpenStackVolume{SizeGiB: 20}
	d := r.connect(t)
	if _, err := d.Create(t.Context(), newRequest(t, spec)); !driver.IsUnfinished(err) {
		t.Fatalf("got %v, want an UnfinishedError", err)
	}
	broken := r.only(t, "volumes")["id"]
	r.Change("volumes", func(volume map[string]any) { volume["status"] = "error" })
	mustCreate(t, d, newRequest(t, spec))
	if r.only(t, "volumes")["id"] == broken {
		t.Error("the failed volume was used")
	}
	wantLeftovers(t, r, worker)
}

func TestDeleteWithVolumesOnly(t *testing.T) {
	t.Parallel()
	r := newEnv(t)
	spec := minimalSpec()
	spec.RootVolume = infrav1.OpenStackVolume{SizeGiB: 20}
	if _, err := r.connect(t).Create(t.Context(), newRequest(t, spec)); !errors.Is(err, attachments.ErrBusy) {
		t.Fatalf("got %v", err)
	}
	if err := r.connect(t).Delete(t.Context(), worker); !driver.IsUnfinished(err) {
		t.Errorf("deleting a volume that is being created: got %v, want an UnfinishedError", err)
	}
	wantLeftovers(t, r, worker)
}

func TestVolumeIsReplacedInAnotherZone(t *testing.T) {
	t.Parallel()
	r := newEnv(t)
	spec := minimalSpec()
	spec.AvailabilityZone, spec.RootVolume = "nova", infrav1.OpenStackVolume{SizeGiB: 20, InMachineZone: ptr.To(true)}
	d := r.connect(t)
	for range 3 {
		r.faults.Fail(openstackfake.Creates("servers"), http.StatusForbidden, quotaExceeded)
		_, _ = d.Create(t.Context(), newRequest(t, spec))
	}
	spec.AvailabilityZone = "zone-b"
	for range 6 {
		_, _ = d.Create(t.Context(), newRequest(t, spec))
	}
	if got := r.only(t, "volumes")["availability_zone"]; got != "zone-b" {
		t.Errorf("the volume is in %v", got)
	}
}

func TestAttachedObjects(t *testing.T) {
	t.Parallel()
	r := newEnv(t)
	spec := fullSpec()
	spec.RootVolume = infrav1.OpenStackVolume{SizeGiB: 20}
	d := r.connect(t)
	mustCreate(t, d, newRequest(t, spec))
	for name, owner := range map[string]driver.Owner{"its owner": worker.Owner, "all owners": {}} {
		kinds := map[string]int{}
		for thing, err := range d.(driver.AttachedObjectLister).AttachedObjects(t.Context(), owner) {
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(worker, thing.Identity); diff != "" || thing.Created.IsZero() {
				t.Errorf("%+v: %s", thing, diff)
			}
			kinds[thing.Kind]++
		}
		if diff := cmp.Diff(map[string]int{"port": 2, "floating IP": 1, "volume": 1}, kinds); diff != "" {
			t.Errorf("for %s:\n%s", name, diff)
		}
	}
	for thing, err := range d.(driver.AttachedObjectLister).AttachedObjects(t.Context(), driver.Owner{UID: "other"}) {
		t.Errorf("another owner has %+v, %v", thing, err)
	}
}

func TestInstanceCapacity(t *testing.T) {
	t.Parallel()
	r := newEnv(t)
	spec := minimalSpec()
	spec.Flavor = "m1.large"
	sizer := r.connect(t).(driver.CapacityProvider[openstack.InstanceConfig])
	got, err := sizer.Capacity(t.Context(), newConfig(t, spec))
	want := driver.Capacity{Architecture: "arm64", OperatingSystem: "linux", Capacity: corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("4"), corev1.ResourceMemory: resource.MustParse("8Gi"), corev1.ResourceEphemeralStorage: resource.MustParse("80Gi"),
	}}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	spec.Flavor = "nonsense"
	if _, err := sizer.Capacity(t.Context(), newConfig(t, spec)); !driver.IsInvalidConfiguration(err) {
		t.Errorf("got %v", err)
	}
}

func TestMachineInAnUnknownRegionCanBeDeleted(t *testing.T) {
	t.Parallel()
	r := newEnv(t)
	d := connect(t, r.faults, driver.Account{SecretName: "cloud", Region: "none"}, r.secret)
	if _, err := d.Create(t.Context(), newRequest(t, minimalSpec())); !driver.IsInvalidConfiguration(err) {
		t.Errorf("creating: %v", err)
	}
	if err := d.Delete(t.Context(), worker); err != nil {
		t.Errorf("deleting: %v", err)
	}
	if _, err := d.Get(t.Context(), worker); !driver.IsNotFound(err) {
		t.Errorf("reading: %v", err)
	}
	existed := worker
	existed.ProviderID = "openstack:///s"
	if err := d.Delete(t.Context(), existed); !driver.IsInvalidConfiguration(err) {
		t.Errorf("deleting what existed: %v", err)
	}
}

// TestExpiredTokenIsRenewed: the services reject every earlier token.
func TestExpiredTokenIsRenewed(t *testing.T) {
	t.Parallel()
	r := newEnv(t)
	d := r.connect(t)
	mustCreate(t, d, newRequest(t, minimalSpec()))
	r.ChangePassword(openstackfake.Password)
	if _, err := d.Get(t.Context(), worker); err != nil {
		t.Error(err)
	}
	r.ChangePassword("another")
	if _, err := d.Get(t.Context(), worker); !driver.IsUnauthorized(err) {
		t.Errorf("got %v", err)
	}
}

func TestFindImage(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		image infrav1.OpenStackImage
		found bool
	}{
		"by name":                  {infrav1.OpenStackImage{Name: "ubuntu"}, true},
		"by tag and property":      {infrav1.OpenStackImage{Tags: []string{"node"}, Properties: map[string]string{"os_version": "2024"}}, true},
		"not with another tag":     {infrav1.OpenStackImage{Name: "ubuntu", Tags: []string{"gpu"}}, false},
		"not with other a version": {infrav1.OpenStackImage{Name: "ubuntu", Properties: map[string]string{"os_version": "2020"}}, false},
		"not before it is active":  {infrav1.OpenStackImage{Name: "queued"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newEnv(t)
			spec := minimalSpec()
			spec.Image = test.image
			_, err := r.connect(t).Create(t.Context(), newRequest(t, spec))
			if (err == nil) != test.found || err != nil && !driver.IsInvalidConfiguration(err) {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestAmbiguousNameIsInvalid(t *testing.T) {
	t.Parallel()
	r := newEnv(t)
	spec := minimalSpec()
	spec.Ports[0].Network = "duplicate"
	_, err := r.connect(t).Create(t.Context(), newRequest(t, spec))
	invalid, ok := errors.AsType[*driver.InvalidConfigurationError](err)
	if !ok || invalid.Field != "spec.ports[0].network" {
		t.Errorf("got %v", err)
	}
}
