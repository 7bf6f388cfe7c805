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
	"drover.io/infra-providers/openstack"
	"drover.io/infra-providers/openstack/attachments"
	"drover.io/infra-providers/openstack/openstackfake"
)

var worker = driver.Identity{
	UID: "aaaaaaaa-0000-4000-8000-000000000001", Name: "worker-1",
	Owner: driver.Owner{UID: "cccccccc-0000-4000-8000-000000000001", Namespace: "team", Name: "home"},
}

func asking(t *testing.T, spec infrav1.OpenStackMachineSpec) driver.Request[openstack.Config] {
	t.Helper()
	return driver.Request[openstack.Config]{Identity: worker, Config: configOf(t, spec), UserData: []byte("#cloud-config\n"), Format: "cloud-config"}
}

// insist creates until the cloud is ready, as the reconciler does.
func insist(t *testing.T, driven driver.Driver[openstack.Config], req driver.Request[openstack.Config]) driver.Instance {
	t.Helper()
	for range 10 {
		made, err := driven.Create(t.Context(), req)
		if err == nil {
			return made
		}
		if !errors.Is(err, attachments.ErrBusy) {
			t.Fatal(err)
		}
	}
	t.Fatal("the cloud never becomes ready")
	return driver.Instance{}
}

// TestNovaIsAskedForEverything compares the very request.
func TestNovaIsAskedForEverything(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	spec := rich()
	spec.AvailabilityZone, spec.KeyPair, spec.ConfigDrive = "zone-b", "ops", ptr.To(true)
	spec.Metadata, spec.Tags, spec.SchedulerHints = map[string]string{"team": "a"}, []string{"blue"}, map[string]string{"different_cell": "c"}
	spec.RootVolume = infrav1.OpenStackVolume{SizeGiB: 20, Type: "fast"}
	spec.Volumes = []infrav1.OpenStackDataVolume{{Name: "data", OpenStackVolume: infrav1.OpenStackVolume{SizeGiB: 5, DeleteOnTermination: ptr.To(false)}}}
	made := insist(t, r.connect(t), asking(t, spec))
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
	if diff := cmp.Diff(want, named(r, r.Asked())); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if want := "openstack://RegionOne/" + made.ID; made.ProviderID != want {
		t.Errorf("provider ID %q, want %q", made.ProviderID, want)
	}
	r.settle(t)
	wantLeft(t, r, worker, "volumes drover-"+string(worker.UID)+"-data")
}

// named puts names in place of the IDs that the cloud made up.
func named(r *rig, asked map[string]any) map[string]any {
	server := asked["server"].(map[string]any)
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
	asked["os:scheduler_hints"].(map[string]any)["group"] = "group"
	return asked
}

// settle reads until servers run.
func (r *rig) settle(t *testing.T) {
	t.Helper()
	driven := r.connect(t)
	for range 5 {
		for _, err := range driven.List(t.Context(), driver.Owner{}) {
			if err != nil {
				t.Fatal(err)
			}
		}
	}
}

// wantLeft deletes a machine and looks at what is left.
func wantLeft(t *testing.T, r *rig, id driver.Identity, want ...string) {
	t.Helper()
	driven := r.connect(t)
	for range 5 {
		if err := driven.Delete(t.Context(), id); err != nil && !errors.Is(err, attachments.ErrBusy) {
			t.Fatal(err)
		}
		r.settle(t)
	}
	var got []string
	for _, thing := range r.Things() {
		got = append(got, thing[:len(thing)-len(" 00000000-0000-0000-0000-000000000000")])
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("left (-want +got):\n%s", diff)
	}
}

func TestAFloatingIPIsExternal(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	spec := small()
	spec.FloatingIP = infrav1.OpenStackFloatingIP{Network: "public", Subnet: "public4"}
	driven := r.connect(t)
	insist(t, driven, asking(t, spec))
	r.settle(t)
	got, err := driven.Get(t.Context(), worker)
	if err != nil {
		t.Fatal(err)
	}
	var types []clusterv1.MachineAddressType
	for _, address := range got.Addresses {
		types = append(types, address.Type)
	}
	if diff := cmp.Diff([]clusterv1.MachineAddressType{clusterv1.MachineInternalIP, clusterv1.MachineInternalIP, clusterv1.MachineExternalIP, clusterv1.MachineHostName}, types); diff != "" {
		t.Error(diff)
	}
	if got.State != driver.Running || got.FailureDomain != "nova" {
		t.Errorf("got %+v", got)
	}
	wantLeft(t, r, worker)
}

// TestEveryLostAnswerIsMadeGood loses the answer of each changing call in turn, in another process each
// time, and counts.
func TestEveryLostAnswerIsMadeGood(t *testing.T) {
	t.Parallel()
	spec := rich()
	spec.RootVolume = infrav1.OpenStackVolume{SizeGiB: 20}
	for lost := range 12 {
		t.Run(fmt.Sprintf("call %d", lost), func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			// A claim whose holder died counts until it has aged.
			later := time.Duration(0)
			calls := 0
			r.faults.Lose(func(request *http.Request) bool {
				if !openstackfake.Changes(request) {
					return false
				}
				calls++
				return calls == lost+1
			})
			for range 12 {
				cloud := openstack.Cloud(openstack.Options{Transport: r.faults, Now: func() time.Time { return time.Now().Add(later) }})
				driven, err := cloud.Connect(t.Context(), driver.Account{SecretName: "cloud"}, r.secret)
				if err != nil {
					t.Fatal(err)
				}
				if _, err := driven.Create(t.Context(), asking(t, spec)); driver.IsInvalidConfiguration(err) {
					t.Fatal(err)
				}
				later += 4 * time.Minute
			}
			r.settle(t)
			census := map[string]int{}
			for _, thing := range r.Things() {
				var kind string
				_, _ = fmt.Sscan(thing, &kind)
				census[kind]++
			}
			want := map[string]int{"servers": 1, "ports": 2, "floatingips": 1, "volumes": 1, "os-server-groups": 1}
			if diff := cmp.Diff(want, census); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			wantLeft(t, r, worker)
		})
	}
}

// TestACallUnderWayIsWaitedFor: Nova works on a server for longer than anybody waits, and does not list it.
func TestACallUnderWayIsWaitedFor(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	arrive := r.faults.Hold(openstackfake.Creates("servers"))
	driven := r.connect(t)
	if _, err := driven.Create(t.Context(), asking(t, small())); err == nil {
		t.Fatal("the held call was answered")
	}
	for _, again := range []driver.Driver[openstack.Config]{driven, r.connect(t), driven} {
		if _, err := again.Create(t.Context(), asking(t, small())); !errors.Is(err, attachments.ErrBusy) {
			t.Fatalf("a second server was asked for: %v", err)
		}
	}
	if err := arrive(); err != nil {
		t.Fatal(err)
	}
	made := insist(t, driven, asking(t, small()))
	if r.only(t, "servers")["id"] != made.ID {
		t.Errorf("got %s", made.ID)
	}
}

func TestForbiddenIsAQuotaOnlyWhenALimitIsReached(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		limits string
		is     func(error) bool
	}{
		"takes it for a quota at the limit":    {noRoom, func(err error) bool { return driver.IsQuotaExceeded(err) && !driver.IsUnauthorized(err) }},
		"takes it for a permission below":      {"", driver.IsUnauthorized},
		"takes it for a permission in a doubt": {"nonsense", driver.IsUnauthorized},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			r.faults.Fail(openstackfake.Creates("servers"), http.StatusForbidden, forbidden)
			if test.limits != "" {
				r.faults.Fail(reads("/limits"), http.StatusOK, test.limits)
			}
			if _, err := r.connect(t).Create(t.Context(), asking(t, small())); !test.is(err) {
				t.Errorf("got %v", err)
			}
			wantLeft(t, r, worker)
		})
	}
}

func TestAQuotaOfNeutronIsOne(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.faults.Fail(openstackfake.Creates("ports"), http.StatusConflict, overQuota)
	if _, err := r.connect(t).Create(t.Context(), asking(t, small())); !driver.IsQuotaExceeded(err) {
		t.Errorf("got %v", err)
	}
}

// TestNoHostPutsTheFlavorAside: Nova says that there is no room only after it accepted.
func TestNoHostPutsTheFlavorAside(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	later := time.Duration(0)
	driven, err := openstack.Cloud(openstack.Options{Transport: r.faults, Now: func() time.Time { return time.Now().Add(later) }}).
		Connect(t.Context(), driver.Account{SecretName: "cloud"}, r.secret)
	if err != nil {
		t.Fatal(err)
	}
	spec := small()
	spec.Flavor = "huge"
	insist(t, driven, asking(t, spec))
	for range 3 {
		for _, err := range driven.List(t.Context(), driver.Owner{}) {
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	failed, err := driven.Get(t.Context(), worker)
	if err != nil || failed.State != driver.Stopped || failed.Guest == nil || !failed.Guest.Failed {
		t.Errorf("the failed server is %+v, %v", failed, err)
	}
	next := asking(t, spec)
	next.Identity.UID, next.Identity.Name = "aaaaaaaa-0000-4000-8000-000000000002", "worker-2"
	if _, err := driven.Create(t.Context(), next); !driver.IsInsufficientCapacity(err) {
		t.Errorf("got %v", err)
	}
	next.Config = configOf(t, small())
	insist(t, driven, next)
	later = 10 * time.Minute
	third := asking(t, spec)
	third.Identity.UID, third.Identity.Name = "aaaaaaaa-0000-4000-8000-000000000003", "worker-3"
	insist(t, driven, third)
}

func TestAPortOfAnotherServerMakesNoSecond(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	insist(t, r.connect(t), asking(t, small()))
	r.settle(t)
	// Nova loses sight of the server, as it does of those in a cell that is down.
	r.Change("servers", func(server map[string]any) { server["tags"] = []string{} })
	if _, err := r.connect(t).Create(t.Context(), asking(t, small())); !errors.Is(err, attachments.ErrBusy) {
		t.Errorf("got %v", err)
	}
}

func TestAFailedVolumeIsMadeAnew(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	spec := small()
	spec.RootVolume = infrav1.OpenStackVolume{SizeGiB: 20}
	driven := r.connect(t)
	if _, err := driven.Create(t.Context(), asking(t, spec)); !driver.IsUnfinished(err) {
		t.Fatalf("got %v, want an UnfinishedError", err)
	}
	broken := r.only(t, "volumes")["id"]
	r.Change("volumes", func(volume map[string]any) { volume["status"] = "error" })
	insist(t, driven, asking(t, spec))
	if r.only(t, "volumes")["id"] == broken {
		t.Error("the failed volume was used")
	}
	wantLeft(t, r, worker)
}

func TestAMachineWithVolumesOnlyIsCleanedUp(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	spec := small()
	spec.RootVolume = infrav1.OpenStackVolume{SizeGiB: 20}
	if _, err := r.connect(t).Create(t.Context(), asking(t, spec)); !errors.Is(err, attachments.ErrBusy) {
		t.Fatalf("got %v", err)
	}
	if err := r.connect(t).Delete(t.Context(), worker); !driver.IsUnfinished(err) {
		t.Errorf("a volume that is being made cannot be deleted yet: got %v, want an UnfinishedError", err)
	}
	wantLeft(t, r, worker)
}

func TestVolumesInAZoneMove(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	spec := small()
	spec.AvailabilityZone, spec.RootVolume = "nova", infrav1.OpenStackVolume{SizeGiB: 20, InMachineZone: ptr.To(true)}
	driven := r.connect(t)
	for range 3 {
		r.faults.Fail(openstackfake.Creates("servers"), http.StatusForbidden, quotaExceeded)
		_, _ = driven.Create(t.Context(), asking(t, spec))
	}
	spec.AvailabilityZone = "zone-b"
	for range 6 {
		_, _ = driven.Create(t.Context(), asking(t, spec))
	}
	if got := r.only(t, "volumes")["availability_zone"]; got != "zone-b" {
		t.Errorf("the volume is in %v", got)
	}
}

func TestRemainsAreListedUntilTheyGo(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	spec := rich()
	spec.RootVolume = infrav1.OpenStackVolume{SizeGiB: 20}
	driven := r.connect(t)
	insist(t, driven, asking(t, spec))
	for name, owner := range map[string]driver.Owner{"its owner": worker.Owner, "everybody": {}} {
		kinds := map[string]int{}
		for thing, err := range driven.(driver.Remainder).Remains(t.Context(), owner) {
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
	for thing, err := range driven.(driver.Remainder).Remains(t.Context(), driver.Owner{UID: "other"}) {
		t.Errorf("another owner has %+v, %v", thing, err)
	}
}

func TestSizesComeFromTheFlavor(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	spec := small()
	spec.Flavor = "m1.large"
	sizer := r.connect(t).(driver.Sizer[openstack.Config])
	got, err := sizer.Size(t.Context(), configOf(t, spec))
	want := driver.Size{Architecture: "arm64", OperatingSystem: "linux", Capacity: corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("4"), corev1.ResourceMemory: resource.MustParse("8Gi"), corev1.ResourceEphemeralStorage: resource.MustParse("80Gi"),
	}}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	spec.Flavor = "nonsense"
	if _, err := sizer.Size(t.Context(), configOf(t, spec)); !driver.IsInvalidConfiguration(err) {
		t.Errorf("got %v", err)
	}
}

func TestAMachineInNoRegionCanBeDeleted(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	driven := connect(t, r.faults, driver.Account{SecretName: "cloud", Region: "nowhere"}, r.secret)
	if _, err := driven.Create(t.Context(), asking(t, small())); !driver.IsInvalidConfiguration(err) {
		t.Errorf("creating: %v", err)
	}
	if err := driven.Delete(t.Context(), worker); err != nil {
		t.Errorf("deleting: %v", err)
	}
	if _, err := driven.Get(t.Context(), worker); !driver.IsNotFound(err) {
		t.Errorf("reading: %v", err)
	}
	existed := worker
	existed.ProviderID = "openstack:///s"
	if err := driven.Delete(t.Context(), existed); !driver.IsInvalidConfiguration(err) {
		t.Errorf("deleting what existed: %v", err)
	}
}

// TestAnExpiredTokenIsRenewed: the services forget every token.
func TestAnExpiredTokenIsRenewed(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	driven := r.connect(t)
	insist(t, driven, asking(t, small()))
	r.ChangePassword(openstackfake.Password)
	if _, err := driven.Get(t.Context(), worker); err != nil {
		t.Error(err)
	}
	r.ChangePassword("another")
	if _, err := driven.Get(t.Context(), worker); !driver.IsUnauthorized(err) {
		t.Errorf("got %v", err)
	}
}

func TestImagesAreFound(t *testing.T) {
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
			r := newRig(t)
			spec := small()
			spec.Image = test.image
			_, err := r.connect(t).Create(t.Context(), asking(t, spec))
			if (err == nil) != test.found || err != nil && !driver.IsInvalidConfiguration(err) {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestNamesMustBeClear(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	spec := small()
	spec.Ports[0].Network = "twins"
	_, err := r.connect(t).Create(t.Context(), asking(t, spec))
	invalid, ok := errors.AsType[*driver.InvalidConfigurationError](err)
	if !ok || invalid.Field != "spec.ports[0].network" {
		t.Errorf("got %v", err)
	}
}
