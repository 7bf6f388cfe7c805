// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package hetzner_test

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/hetznercloud/hcloud-go/v2/hcloud/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	infrav1 "drover.io/api/infrastructure/v1alpha1"
	"drover.io/infra-providers/driver"
	"drover.io/infra-providers/hetzner"
	"drover.io/infra-providers/hetzner/hetznerfake"
)

// attempts bounds the retries of a call.
const attempts = 100

func identity(name string) driver.Identity {
	return driver.Identity{UID: types.UID("00000000-0000-4000-8000-" + name), Name: name, Owner: driver.Owner{UID: "c", Namespace: "team", Name: "home"}}
}

func newRequest(t *testing.T, name string, spec infrav1.HetznerMachineSpec) driver.CreateRequest[hetzner.InstanceConfig] {
	t.Helper()
	return driver.CreateRequest[hetzner.InstanceConfig]{Identity: identity(name), Config: newConfig(t, spec), UserData: []byte("#cloud-config\n"), Format: "cloud-config"}
}

// mustCreate creates an instance, each attempt by another process.
func mustCreate(t *testing.T, cloud *hetznerfake.Cloud, req driver.CreateRequest[hetzner.InstanceConfig]) driver.Instance {
	t.Helper()
	var err error
	for range attempts {
		var created driver.Instance
		if created, err = connect(cloud).Create(t.Context(), req); err == nil {
			return created
		}
	}
	t.Fatalf("creating %s: %v", req.Identity.Name, err)
	return driver.Instance{}
}

// mustDelete deletes an instance and waits until it is not found, as the reconciler does.
func mustDelete(t *testing.T, cloud *hetznerfake.Cloud, id driver.Identity) {
	t.Helper()
	var err error
	for range attempts {
		if err = connect(cloud).Delete(t.Context(), id); err != nil {
			continue
		}
		if _, err = connect(cloud).Get(t.Context(), id); driver.IsNotFound(err) {
			return
		}
	}
	t.Fatalf("deleting %s: %v", id.Name, err)
}

func TestCreateServerParameters(t *testing.T) {
	t.Parallel()
	cloud := newEnv(t, hetznerfake.Options{})
	spec := newSpec()
	spec.PlacementGroup, spec.PublicIPv4 = "spread-2", infrav1.HetznerPublicIP{PrimaryIP: "static-1"}
	created := mustCreate(t, cloud, newRequest(t, "m", spec))
	got := cloud.CreatedServers()[0]
	labels := identity("m").Tags()
	labels["team"] = "web"
	for what, test := range map[string][2]any{
		"name":            {"m", got.Server.Name},
		"provider ID":     {fmt.Sprintf("hcloud://%d", got.Server.ID), created.ProviderID},
		"labels":          {labels, got.Server.Labels},
		"server type":     {"cx33", got.Server.ServerType.Name},
		"location":        {"fsn1", got.Server.Location.Name},
		"image":           {int64(hetznerfake.ImageX86), got.Server.Image.ID},
		"placement group": {int64(hetznerfake.PlacementGroupTwo), got.Server.PlacementGroup.ID},
		"status":          {"running", got.Server.Status},
		"SSH keys":        {[]int64{hetznerfake.SSHKeyAlice}, got.SSHKeys},
		"firewalls":       {[]int64{hetznerfake.FirewallWorkers}, got.Firewalls},
		"user data":       {"#cloud-config\n", got.UserData},
		"public IPv4":     {int64(hetznerfake.PrimaryIPOne), got.Server.PublicNet.IPv4.ID},
		"has IPv6":        {true, got.Server.PublicNet.IPv6.IP != ""},
		"networks":        {[]int64{hetznerfake.NetworkPrivate, hetznerfake.NetworkStorage}, networks(got.Server)},
		"volumes":         {[]string{"20 xfs fsn1 web", "10 - fsn1 web"}, volumes(got.Volumes)},
	} {
		if diff := cmp.Diff(test[0], test[1]); diff != "" {
			t.Errorf("%s (-want +got):\n%s", what, diff)
		}
	}
}

func networks(server schema.Server) (ids []int64) {
	for _, net := range server.PrivateNet {
		ids = append(ids, net.Network)
	}
	return ids
}

func volumes(all []schema.Volume) (lines []string) {
	for _, v := range all {
		lines = append(lines, fmt.Sprintf("%d %s %s %s", v.Size, ptr.Deref(v.Format, "-"), v.Location.Name, v.Labels["team"]))
	}
	return lines
}

func TestImageMatchesTheArchitecture(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		change func(*infrav1.HetznerMachineSpec)
		want   int64
	}{
		"takes the image of a name for x86": {func(*infrav1.HetznerMachineSpec) {}, hetznerfake.ImageX86},
		"takes the image of a name for Arm": {func(s *infrav1.HetznerMachineSpec) { s.ServerType = "cax21" }, hetznerfake.ImageARM},
		"takes an image by its ID":          {func(s *infrav1.HetznerMachineSpec) { s.Image = "103" }, hetznerfake.SnapshotOld},
		"takes the newest of a selector":    {func(s *infrav1.HetznerMachineSpec) { s.Image, s.ImageSelector = "", "os in (node)" }, hetznerfake.SnapshotNew},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cloud := newEnv(t, hetznerfake.Options{})
			spec := newSpec()
			test.change(&spec)
			mustCreate(t, cloud, newRequest(t, "m", spec))
			if got := cloud.CreatedServers()[0].Server.Image.ID; got != test.want {
				t.Errorf("got image %d, want %d", got, test.want)
			}
		})
	}
}

// TestServerIsCompletedOverSeveralCalls needs what the API accepts only for an existing server, with slow actions and each
// call by another process.
func TestServerIsCompletedOverSeveralCalls(t *testing.T) {
	t.Parallel()
	cloud := newEnv(t, hetznerfake.Options{ActionDelay: 3})
	spec := newSpec()
	spec.Backups = ptr.To(true)
	spec.PublicIPv4, spec.PublicIPv6 = infrav1.HetznerPublicIP{Enabled: ptr.To(false)}, infrav1.HetznerPublicIP{Enabled: ptr.To(false)}
	spec.Networks = []infrav1.HetznerNetwork{
		{Name: "private", Subnet: "10.0.1.0/24", AliasIPs: []string{"10.0.1.200"}}, {Name: "storage", IP: "10.9.0.77"},
	}
	created := mustCreate(t, cloud, newRequest(t, "m", spec))
	servers := cloud.CreatedServers()
	if len(servers) != 1 {
		t.Fatalf("the cloud has %d servers", len(servers))
	}
	got := servers[0].Server
	want := []schema.ServerPrivateNet{
		{Network: hetznerfake.NetworkPrivate, IP: "10.0.1.2", AliasIPs: []string{"10.0.1.200"}},
		{Network: hetznerfake.NetworkStorage, IP: "10.9.0.77", AliasIPs: []string{}},
	}
	if diff := cmp.Diff(want, got.PrivateNet); diff != "" {
		t.Errorf("networks (-want +got):\n%s", diff)
	}
	if got.BackupWindow == nil || got.PublicNet.IPv4.IP != "" || got.PublicNet.IPv6.IP != "" {
		t.Errorf("backups %v, public addresses %q %q", got.BackupWindow, got.PublicNet.IPv4.IP, got.PublicNet.IPv6.IP)
	}
	if got.Status != "starting" && got.Status != "running" {
		t.Errorf("the server is %s", got.Status)
	}
	attached := lastCall(cloud, "POST /servers/{id}/actions/attach_to_network")
	if on := lastCall(cloud, "POST /servers/{id}/actions/poweron"); on < attached {
		t.Error("the server was started before it was attached to its networks")
	}
	mustDelete(t, cloud, created.Identity)
	wantNoLeftovers(t, cloud)
}

func lastCall(cloud *hetznerfake.Cloud, name string) int {
	last := -1
	for i, call := range cloud.Calls() {
		if call == name {
			last = i
		}
	}
	return last
}

func wantNoLeftovers(t *testing.T, cloud *hetznerfake.Cloud) {
	t.Helper()
	if left := cloud.Leftovers(); len(left) > 0 {
		t.Errorf("the cloud still has %q", left)
	}
}

// TestServerIsDeletedAfterItsVolumes: no later call would delete a volume without a server.
func TestServerIsDeletedAfterItsVolumes(t *testing.T) {
	t.Parallel()
	cloud := newEnv(t, hetznerfake.Options{ActionDelay: 4})
	id := mustCreate(t, cloud, newRequest(t, "m", newSpec())).Identity
	for range attempts {
		// Errors are transient: resources are locked.
		_ = connect(cloud).Delete(t.Context(), id)
		if left := cloud.Leftovers(); !slices.Contains(left, "server m") && len(left) > 0 {
			t.Fatalf("the server was deleted before %q", left)
		}
	}
	wantNoLeftovers(t, cloud)
}

func TestServerDeletedByAnotherClientIsNotFound(t *testing.T) {
	t.Parallel()
	cloud := newEnv(t, hetznerfake.Options{})
	id := mustCreate(t, cloud, newRequest(t, "m", newSpec())).Identity
	cloud.Remove("m")
	if _, err := connect(cloud).Get(t.Context(), id); !driver.IsNotFound(err) {
		t.Errorf("got %v, want a NotFoundError", err)
	}
	if err := connect(cloud).Delete(t.Context(), id); err != nil {
		t.Error(err)
	}
	wantNoLeftovers(t, cloud)
}

func TestAttachedObjectsHaveVolumesWithoutAServer(t *testing.T) {
	t.Parallel()
	cloud := newEnv(t, hetznerfake.Options{})
	cloud.RefuseServer(http.StatusInternalServerError, "server_error", "")
	if _, err := connect(cloud).Create(t.Context(), newRequest(t, "m", newSpec())); err == nil {
		t.Fatal("the creation succeeded")
	}
	var kinds []string
	var remains []driver.AttachedObject
	for remain, err := range connect(cloud).AttachedObjects(t.Context(), driver.Owner{}) {
		if err != nil {
			t.Fatal(err)
		}
		kinds, remains = append(kinds, remain.Kind), append(remains, remain)
	}
	if diff := cmp.Diff([]string{"volume", "volume"}, kinds); diff != "" {
		t.Fatalf("remains (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(identity("m"), remains[0].Identity); diff != "" {
		t.Errorf("identity (-want +got):\n%s", diff)
	}
	if err := connect(cloud).Delete(t.Context(), remains[0].Identity); err != nil {
		t.Fatal(err)
	}
	wantNoLeftovers(t, cloud)
}

// TestUnlistedVolumeIsFoundByName: a list may be older than a volume that another call created.
func TestUnlistedVolumeIsFoundByName(t *testing.T) {
	t.Parallel()
	cloud := newEnv(t, hetznerfake.Options{})
	cloud.RefuseServer(http.StatusInternalServerError, "server_error", "")
	if _, err := connect(cloud).Create(t.Context(), newRequest(t, "m", newSpec())); err == nil {
		t.Fatal("the creation succeeded")
	}
	cloud.HideVolumes()
	if _, err := connect(cloud).Create(t.Context(), newRequest(t, "m", newSpec())); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"20 xfs fsn1 web", "10 - fsn1 web"}, volumes(cloud.Volumes())); diff != "" {
		t.Errorf("volumes (-want +got):\n%s", diff)
	}
}

// TestDeleteSelectsVolumesByIdentity deletes the volumes of a deleted server, with parts of its identity.
func TestDeleteSelectsVolumesByIdentity(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		change func(*driver.Identity)
		left   int
	}{
		"removes those of a UID":                        {func(*driver.Identity) {}, 0},
		"removes those of a name in a Cluster":          {func(id *driver.Identity) { id.UID = "" }, 0},
		"leaves those of a name in another Cluster":     {func(id *driver.Identity) { id.UID, id.Owner.Name = "", "away" }, 2},
		"leaves those of a name without UID or Cluster": {func(id *driver.Identity) { id.UID, id.Owner = "", driver.Owner{Namespace: "team"} }, 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cloud := newEnv(t, hetznerfake.Options{})
			id := mustCreate(t, cloud, newRequest(t, "m", newSpec())).Identity
			cloud.Remove("m")
			test.change(&id)
			if err := connect(cloud).Delete(t.Context(), id); err != nil {
				t.Fatal(err)
			}
			if left := cloud.Leftovers(); len(left) != test.left {
				t.Errorf("the cloud has %q, want %d", left, test.left)
			}
		})
	}
}

func TestFallbackRecreatesItsVolumes(t *testing.T) {
	t.Parallel()
	cloud := newEnv(t, hetznerfake.Options{})
	cloud.RefuseServer(http.StatusPreconditionFailed, "resource_unavailable", "")
	if _, err := connect(cloud).Create(t.Context(), newRequest(t, "m", newSpec())); !driver.IsInsufficientCapacity(err) {
		t.Fatalf("got %v, want an InsufficientCapacityError", err)
	}
	spec := newSpec()
	spec.Location = "nbg1"
	mustCreate(t, cloud, newRequest(t, "m", spec))
	if diff := cmp.Diff([]string{"20 xfs nbg1 web", "10 - nbg1 web"}, volumes(cloud.Volumes())); diff != "" {
		t.Errorf("volumes (-want +got):\n%s", diff)
	}
}

// TestNameInUseIsTransient: the other machine's server is not changed, and the creation succeeds once it is deleted.
func TestNameInUseIsTransient(t *testing.T) {
	t.Parallel()
	cloud := newEnv(t, hetznerfake.Options{})
	other := newRequest(t, "m", newSpec())
	other.Identity.UID = "00000000-0000-4000-8000-other"
	mustCreate(t, cloud, other)
	before := cloud.CreatedServers()[0]
	_, err := connect(cloud).Create(t.Context(), newRequest(t, "m", newSpec()))
	if err == nil || driver.IsInvalidConfiguration(err) || driver.IsNotOwned(err) || !strings.Contains(err.Error(), "another server with the name") {
		t.Fatalf("got %v, want a transient error with the name", err)
	}
	if err := connect(cloud).Delete(t.Context(), identity("m")); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(before, cloud.CreatedServers()[0]); diff != "" {
		t.Errorf("the other machine's server was changed (-before +after):\n%s", diff)
	}
	cloud.Remove("m")
	mustCreate(t, cloud, newRequest(t, "m", newSpec()))
}

func TestPlacementGroupWithTheFewestServers(t *testing.T) {
	t.Parallel()
	cloud := newEnv(t, hetznerfake.Options{})
	spec := newSpec()
	spec.PlacementGroupSelector, spec.Volumes = "pool=workers", nil
	groups := map[string]int{}
	for n := range 20 {
		mustCreate(t, cloud, newRequest(t, fmt.Sprintf("m-%d", n), spec))
		groups[cloud.CreatedServers()[n].Server.PlacementGroup.Name]++
	}
	if diff := cmp.Diff(map[string]int{"spread-1": 10, "spread-2": 10}, groups); diff != "" {
		t.Errorf("servers per group (-want +got):\n%s", diff)
	}
	_, err := connect(cloud).Create(t.Context(), newRequest(t, "m-20", spec))
	if err == nil || driver.IsInvalidConfiguration(err) {
		t.Errorf("got %v, want a transient error", err)
	}
	mustDelete(t, cloud, identity("m-0"))
	mustCreate(t, cloud, newRequest(t, "m-20", spec))
}

func TestPrimaryIPsAreAssignedAndReleased(t *testing.T) {
	t.Parallel()
	cloud := newEnv(t, hetznerfake.Options{})
	spec := newSpec()
	spec.PublicIPv4 = infrav1.HetznerPublicIP{PrimaryIPSelector: "pool=edge"}
	var got []int64
	for n := range 2 {
		mustCreate(t, cloud, newRequest(t, fmt.Sprintf("m-%d", n), spec))
		got = append(got, cloud.CreatedServers()[n].Server.PublicNet.IPv4.ID)
	}
	if diff := cmp.Diff([]int64{hetznerfake.PrimaryIPOne, hetznerfake.PrimaryIPTwo}, got); diff != "" {
		t.Errorf("Primary IPs (-want +got):\n%s", diff)
	}
	if _, err := connect(cloud).Create(t.Context(), newRequest(t, "m-2", spec)); err == nil || driver.IsInvalidConfiguration(err) {
		t.Errorf("got %v, want a transient error", err)
	}
	mustDelete(t, cloud, identity("m-0"))
	mustCreate(t, cloud, newRequest(t, "m-2", spec))
}

// TestDeleteErrorsAreTransient: an invalid configuration is not retried and would block the deletion.
func TestDeleteErrorsAreTransient(t *testing.T) {
	t.Parallel()
	cloud := newEnv(t, hetznerfake.Options{})
	id := mustCreate(t, cloud, newRequest(t, "m", newSpec())).Identity
	cloud.Refuse(http.StatusUnprocessableEntity, "invalid_input")
	if err := connect(cloud).Delete(t.Context(), id); err == nil || driver.IsInvalidConfiguration(err) {
		t.Errorf("got %v, want a transient error", err)
	}
	cloud.Change("m", func(s *schema.Server) { s.Protection.Delete = true })
	if err := connect(cloud).Delete(t.Context(), id); err == nil || driver.IsInvalidConfiguration(err) {
		t.Errorf("got %v for a protected server, want a transient error", err)
	}
	if len(cloud.CreatedServers()) != 1 {
		t.Error("the protected server was deleted")
	}
}

func TestErrorMessagesAreStable(t *testing.T) {
	t.Parallel()
	cloud := newEnv(t, hetznerfake.Options{})
	var texts []string
	for range 2 {
		cloud.Refuse(http.StatusServiceUnavailable, "service_error")
		_, err := connect(cloud).Get(t.Context(), identity("m"))
		texts = append(texts, err.Error())
	}
	cloud.Close()
	for range 2 {
		_, err := connect(cloud).Get(t.Context(), identity("m"))
		texts = append(texts, err.Error())
	}
	if texts[0] != texts[1] || texts[2] != texts[3] {
		t.Errorf("texts differ: %q", texts)
	}
}

func TestRetryAfterIsBounded(t *testing.T) {
	t.Parallel()
	cloud := newEnv(t, hetznerfake.Options{})
	cloud.Refuse(http.StatusTooManyRequests, "rate_limit_exceeded")
	_, err := connect(cloud).Get(t.Context(), identity("m"))
	if got := driver.RetryAfter(err); got <= 0 || got > time.Minute {
		t.Errorf("retry after %s (%v), want at most a minute", got, err)
	}
}

func TestInstanceCapacity(t *testing.T) {
	t.Parallel()
	cloud := newEnv(t, hetznerfake.Options{})
	spec := newSpec()
	spec.ServerType = "cax21"
	got, err := connect(cloud).Capacity(t.Context(), newConfig(t, spec))
	if err != nil {
		t.Fatal(err)
	}
	if got.Capacity.Cpu().String() != "4" || got.Capacity.Memory().String() != "8Gi" || got.Capacity.StorageEphemeral().String() != "80Gi" || got.Architecture != "arm64" || got.OperatingSystem != "linux" {
		t.Errorf("got %+v", got)
	}
	spec.ServerType = "huge"
	if _, err := connect(cloud).Capacity(t.Context(), newConfig(t, spec)); !driver.IsInvalidConfiguration(err) {
		t.Errorf("got %v, want an InvalidConfigurationError", err)
	}
}

// TestRequestsPerMachine counts the requests of a simple machine in a project with 3600 requests an hour.
func TestRequestsPerMachine(t *testing.T) {
	t.Parallel()
	cloud := newEnv(t, hetznerfake.Options{})
	plain := infrav1.HetznerMachineSpec{ServerType: "cx33", Location: "fsn1", Image: "ubuntu-24.04"}
	one := connect(cloud)
	for _, name := range []string{"first", "second"} {
		created, err := one.Create(t.Context(), newRequest(t, name, plain))
		if err != nil {
			t.Fatal(err)
		}
		if err := one.Delete(t.Context(), created.Identity); err != nil {
			t.Fatal(err)
		}
		if _, err := one.Get(t.Context(), created.Identity); !driver.IsNotFound(err) {
			t.Fatalf("got %v", err)
		}
	}
	want := []string{
		"GET /servers", "GET /server_types", "GET /images", "POST /servers",
		"GET /servers/{id}", "GET /volumes", "DELETE /servers/{id}", "GET /servers/{id}",
		"GET /servers", "GET /images", "POST /servers",
		"GET /servers/{id}", "GET /volumes", "DELETE /servers/{id}", "GET /servers/{id}",
	}
	if diff := cmp.Diff(want, cloud.Calls()); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
}

// TestLifecyclesWithFaults creates and deletes machines while answers are lost, lists are stale, requests are refused and
// throttled at random, actions are slow and every call is made by another process.
func TestLifecyclesWithFaults(t *testing.T) {
	t.Parallel()
	for seed := range uint64(4) {
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			t.Parallel()
			random := rand.New(rand.NewPCG(seed, 0))
			cloud := newEnv(t, hetznerfake.Options{ActionDelay: random.IntN(4)})
			injectFault := func() {
				switch random.IntN(10) {
				case 0, 1:
					cloud.Lose()
				case 2:
					cloud.Hide()
				case 3:
					cloud.RefuseServer(http.StatusInternalServerError, "server_error", "")
				case 4:
					cloud.RefuseNext(1+random.IntN(3), http.StatusTooManyRequests, "rate_limit_exceeded")
				case 5:
					cloud.Refuse(http.StatusConflict, "conflict")
				}
			}
			for n := range 25 {
				runLifecycle(t, cloud, newRequest(t, fmt.Sprintf("m-%d-%d", seed, n), randomSpec(random)), injectFault)
			}
			wantNoLeftovers(t, cloud)
			if creations := countCalls(cloud, "POST /servers"); creations < 25 {
				t.Errorf("%d creations for 25 machines", creations)
			}
		})
	}
}

// randomSpec returns a spec that needs more or fewer calls.
func randomSpec(random *rand.Rand) infrav1.HetznerMachineSpec {
	spec := newSpec()
	if random.IntN(2) == 0 {
		spec.Backups = ptr.To(true)
	}
	if random.IntN(2) == 0 {
		spec.Networks = []infrav1.HetznerNetwork{{Name: "private", Subnet: "10.0.1.0/24"}}
	}
	if random.IntN(3) == 0 {
		spec.Volumes = nil
	}
	return spec
}

// runLifecycle creates and deletes an instance.
func runLifecycle(t *testing.T, cloud *hetznerfake.Cloud, req driver.CreateRequest[hetzner.InstanceConfig], injectFault func()) {
	t.Helper()
	id, created := req.Identity, false
	for range attempts {
		injectFault()
		instance, err := connect(cloud).Create(t.Context(), req)
		if servers := len(cloud.CreatedServers()); servers > 1 {
			t.Fatalf("%s has %d servers", id.Name, servers)
		}
		if driver.IsInvalidConfiguration(err) || driver.IsNotOwned(err) || driver.IsNotFound(err) {
			t.Fatalf("creating %s: a fault became %v", id.Name, err)
		}
		if created = err == nil; created {
			id.ProviderID = instance.ProviderID
			break
		}
	}
	if !created {
		t.Fatalf("%s was not created", id.Name)
	}
	for range attempts {
		injectFault()
		if err := connect(cloud).Delete(t.Context(), id); err != nil {
			continue
		}
		if _, err := connect(cloud).Get(t.Context(), id); driver.IsNotFound(err) {
			return
		}
	}
	t.Fatalf("%s was not deleted", id.Name)
}

func countCalls(cloud *hetznerfake.Cloud, name string) (count int) {
	for _, call := range cloud.Calls() {
		if call == name {
			count++
		}
	}
	return count
}
