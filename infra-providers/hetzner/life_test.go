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

// attempts bound how often a caller comes back.
const attempts = 100

func identity(name string) driver.Identity {
	return driver.Identity{UID: types.UID("00000000-0000-4000-8000-" + name), Name: name, Owner: driver.Owner{UID: "c", Namespace: "team", Name: "home"}}
}

func request(t *testing.T, name string, spec infrav1.HetznerMachineSpec) driver.Request[hetzner.Config] {
	t.Helper()
	return driver.Request[hetzner.Config]{Identity: identity(name), Config: config(t, spec), UserData: []byte("#cloud-config\n"), Format: "cloud-config"}
}

// create asks until it succeeds, each time as a process that has just started.
func create(t *testing.T, cloud *hetznerfake.Cloud, req driver.Request[hetzner.Config]) driver.Instance {
	t.Helper()
	var err error
	for range attempts {
		var made driver.Instance
		if made, err = connect(cloud).Create(t.Context(), req); err == nil {
			return made
		}
	}
	t.Fatalf("creating %s: %v", req.Identity.Name, err)
	return driver.Instance{}
}

// remove asks until the server is gone, as the reconciler does.
func remove(t *testing.T, cloud *hetznerfake.Cloud, id driver.Identity) {
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

func TestAServerIsOrderedAsTheSpecSays(t *testing.T) {
	t.Parallel()
	cloud := start(t, hetznerfake.Options{})
	spec := everything()
	spec.PlacementGroup, spec.PublicIPv4 = "spread-2", infrav1.HetznerPublicIP{PrimaryIP: "static-1"}
	made := create(t, cloud, request(t, "m", spec))
	got := cloud.Orders()[0]
	labels := identity("m").Tags()
	labels["team"] = "web"
	for what, test := range map[string][2]any{
		"name":            {"m", got.Server.Name},
		"provider ID":     {fmt.Sprintf("hcloud://%d", got.Server.ID), made.ProviderID},
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

func TestImagesFitTheArchitecture(t *testing.T) {
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
			cloud := start(t, hetznerfake.Options{})
			spec := everything()
			test.change(&spec)
			create(t, cloud, request(t, "m", spec))
			if got := cloud.Orders()[0].Server.Image.ID; got != test.want {
				t.Errorf("got image %d, want %d", got, test.want)
			}
		})
	}
}

// TestASlowServerIsFinished orders what only a server that exists can have, where every action takes its
// time and each call is made by another process.
func TestASlowServerIsFinished(t *testing.T) {
	t.Parallel()
	cloud := start(t, hetznerfake.Options{Slow: 3})
	spec := everything()
	spec.Backups = ptr.To(true)
	spec.PublicIPv4, spec.PublicIPv6 = infrav1.HetznerPublicIP{Enabled: ptr.To(false)}, infrav1.HetznerPublicIP{Enabled: ptr.To(false)}
	spec.Networks = []infrav1.HetznerNetwork{
		{Name: "private", Subnet: "10.0.1.0/24", AliasIPs: []string{"10.0.1.200"}}, {Name: "storage", IP: "10.9.0.77"},
	}
	made := create(t, cloud, request(t, "m", spec))
	orders := cloud.Orders()
	if len(orders) != 1 {
		t.Fatalf("the cloud has %d servers", len(orders))
	}
	got := orders[0].Server
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
	joined := lastCall(cloud, "POST /servers/{id}/actions/attach_to_network")
	if on := lastCall(cloud, "POST /servers/{id}/actions/poweron"); on < joined {
		t.Error("the server was started before it was in its networks")
	}
	remove(t, cloud, made.Identity)
	wantNothing(t, cloud)
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

func wantNothing(t *testing.T, cloud *hetznerfake.Cloud) {
	t.Helper()
	if left := cloud.Leftovers(); len(left) > 0 {
		t.Errorf("the cloud still has %q", left)
	}
}

// TestTheServerGoesLast: nobody would come back for a volume whose server is gone.
func TestTheServerGoesLast(t *testing.T) {
	t.Parallel()
	cloud := start(t, hetznerfake.Options{Slow: 4})
	id := create(t, cloud, request(t, "m", everything())).Identity
	for range attempts {
		// Refusals pass: the cloud is still busy.
		_ = connect(cloud).Delete(t.Context(), id)
		if left := cloud.Leftovers(); !slices.Contains(left, "server m") && len(left) > 0 {
			t.Fatalf("the server went before %q", left)
		}
	}
	wantNothing(t, cloud)
}

func TestAServerDeletedBySomebodyElseIsMissed(t *testing.T) {
	t.Parallel()
	cloud := start(t, hetznerfake.Options{})
	id := create(t, cloud, request(t, "m", everything())).Identity
	cloud.Remove("m")
	if _, err := connect(cloud).Get(t.Context(), id); !driver.IsNotFound(err) {
		t.Errorf("got %v, want a NotFoundError", err)
	}
	if err := connect(cloud).Delete(t.Context(), id); err != nil {
		t.Error(err)
	}
	wantNothing(t, cloud)
}

func TestVolumesWithoutAServerAreFound(t *testing.T) {
	t.Parallel()
	cloud := start(t, hetznerfake.Options{})
	cloud.RefuseServer(http.StatusInternalServerError, "server_error", "")
	if _, err := connect(cloud).Create(t.Context(), request(t, "m", everything())); err == nil {
		t.Fatal("the creation succeeded")
	}
	var kinds []string
	var remains []driver.Remain
	for remain, err := range connect(cloud).Remains(t.Context(), driver.Owner{}) {
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
	wantNothing(t, cloud)
}

// TestAVolumeThatListsDoNotShowIsFoundByItsName: a list may be older than a volume that another call made.
func TestAVolumeThatListsDoNotShowIsFoundByItsName(t *testing.T) {
	t.Parallel()
	cloud := start(t, hetznerfake.Options{})
	cloud.RefuseServer(http.StatusInternalServerError, "server_error", "")
	if _, err := connect(cloud).Create(t.Context(), request(t, "m", everything())); err == nil {
		t.Fatal("the creation succeeded")
	}
	cloud.HideVolumes()
	if _, err := connect(cloud).Create(t.Context(), request(t, "m", everything())); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"20 xfs fsn1 web", "10 - fsn1 web"}, volumes(cloud.Volumes())); diff != "" {
		t.Errorf("volumes (-want +got):\n%s", diff)
	}
}

// TestWhoseVolumesAre asks for the removal of what a server left that is gone, with more or less knowledge.
func TestWhoseVolumesAre(t *testing.T) {
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
			cloud := start(t, hetznerfake.Options{})
			id := create(t, cloud, request(t, "m", everything())).Identity
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

func TestAFallbackTakesItsVolumesAlong(t *testing.T) {
	t.Parallel()
	cloud := start(t, hetznerfake.Options{})
	cloud.RefuseServer(http.StatusPreconditionFailed, "resource_unavailable", "")
	if _, err := connect(cloud).Create(t.Context(), request(t, "m", everything())); !driver.IsInsufficientCapacity(err) {
		t.Fatalf("got %v, want an InsufficientCapacityError", err)
	}
	spec := everything()
	spec.Location = "nbg1"
	create(t, cloud, request(t, "m", spec))
	if diff := cmp.Diff([]string{"20 xfs nbg1 web", "10 - nbg1 web"}, volumes(cloud.Volumes())); diff != "" {
		t.Errorf("volumes (-want +got):\n%s", diff)
	}
}

// TestANameThatIsTakenWaits: the stranger's server is not touched, and the machine goes on once it is gone.
func TestANameThatIsTakenWaits(t *testing.T) {
	t.Parallel()
	cloud := start(t, hetznerfake.Options{})
	stranger := request(t, "m", everything())
	stranger.Identity.UID = "00000000-0000-4000-8000-stranger"
	create(t, cloud, stranger)
	before := cloud.Orders()[0]
	_, err := connect(cloud).Create(t.Context(), request(t, "m", everything()))
	if err == nil || driver.IsInvalidConfiguration(err) || driver.IsNotOwned(err) || !strings.Contains(err.Error(), "another server with the name") {
		t.Fatalf("got %v, want an error that passes and tells of the name", err)
	}
	if err := connect(cloud).Delete(t.Context(), identity("m")); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(before, cloud.Orders()[0]); diff != "" {
		t.Errorf("the stranger's server was touched (-before +after):\n%s", diff)
	}
	cloud.Remove("m")
	create(t, cloud, request(t, "m", everything()))
}

func TestPlacementGroupsFillEvenly(t *testing.T) {
	t.Parallel()
	cloud := start(t, hetznerfake.Options{})
	spec := everything()
	spec.PlacementGroupSelector, spec.Volumes = "pool=workers", nil
	groups := map[string]int{}
	for n := range 20 {
		create(t, cloud, request(t, fmt.Sprintf("m-%d", n), spec))
		groups[cloud.Orders()[n].Server.PlacementGroup.Name]++
	}
	if diff := cmp.Diff(map[string]int{"spread-1": 10, "spread-2": 10}, groups); diff != "" {
		t.Errorf("servers per group (-want +got):\n%s", diff)
	}
	_, err := connect(cloud).Create(t.Context(), request(t, "one-too-many", spec))
	if err == nil || driver.IsInvalidConfiguration(err) {
		t.Errorf("got %v, want an error that passes", err)
	}
	remove(t, cloud, identity("m-0"))
	create(t, cloud, request(t, "one-too-many", spec))
}

func TestPrimaryIPsAreTakenAndGivenBack(t *testing.T) {
	t.Parallel()
	cloud := start(t, hetznerfake.Options{})
	spec := everything()
	spec.PublicIPv4 = infrav1.HetznerPublicIP{PrimaryIPSelector: "pool=edge"}
	var got []int64
	for n := range 2 {
		create(t, cloud, request(t, fmt.Sprintf("m-%d", n), spec))
		got = append(got, cloud.Orders()[n].Server.PublicNet.IPv4.ID)
	}
	if diff := cmp.Diff([]int64{hetznerfake.PrimaryIPOne, hetznerfake.PrimaryIPTwo}, got); diff != "" {
		t.Errorf("Primary IPs (-want +got):\n%s", diff)
	}
	if _, err := connect(cloud).Create(t.Context(), request(t, "m-2", spec)); err == nil || driver.IsInvalidConfiguration(err) {
		t.Errorf("got %v, want an error that passes", err)
	}
	remove(t, cloud, identity("m-0"))
	create(t, cloud, request(t, "m-2", spec))
}

// TestDeletingIsNeverInvalid: a machine must not be stuck with an error that nobody retries.
func TestDeletingIsNeverInvalid(t *testing.T) {
	t.Parallel()
	cloud := start(t, hetznerfake.Options{})
	id := create(t, cloud, request(t, "m", everything())).Identity
	cloud.Refuse(http.StatusUnprocessableEntity, "invalid_input")
	if err := connect(cloud).Delete(t.Context(), id); err == nil || driver.IsInvalidConfiguration(err) {
		t.Errorf("got %v, want an error that passes", err)
	}
	cloud.Change("m", func(s *schema.Server) { s.Protection.Delete = true })
	if err := connect(cloud).Delete(t.Context(), id); err == nil || driver.IsInvalidConfiguration(err) {
		t.Errorf("got %v for a protected server, want an error that passes", err)
	}
	if len(cloud.Orders()) != 1 {
		t.Error("the protected server is gone")
	}
}

func TestErrorsReadTheSameEachTime(t *testing.T) {
	t.Parallel()
	cloud := start(t, hetznerfake.Options{})
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

func TestTheBudgetOfAnHourIsNotWaitedFor(t *testing.T) {
	t.Parallel()
	cloud := start(t, hetznerfake.Options{})
	cloud.Refuse(http.StatusTooManyRequests, "rate_limit_exceeded")
	_, err := connect(cloud).Get(t.Context(), identity("m"))
	if got := driver.RetryAfter(err); got <= 0 || got > time.Minute {
		t.Errorf("retry after %s (%v), want the part of the hour that brings some requests back", got, err)
	}
}

func TestSize(t *testing.T) {
	t.Parallel()
	cloud := start(t, hetznerfake.Options{})
	spec := everything()
	spec.ServerType = "cax21"
	got, err := connect(cloud).Size(t.Context(), config(t, spec))
	if err != nil {
		t.Fatal(err)
	}
	if got.Capacity.Cpu().String() != "4" || got.Capacity.Memory().String() != "8Gi" || got.Capacity.StorageEphemeral().String() != "80Gi" || got.Architecture != "arm64" || got.OperatingSystem != "linux" {
		t.Errorf("got %+v", got)
	}
	spec.ServerType = "huge"
	if _, err := connect(cloud).Size(t.Context(), config(t, spec)); !driver.IsInvalidConfiguration(err) {
		t.Errorf("got %v, want an InvalidConfigurationError", err)
	}
}

// TestALifeCostsFewRequests counts what a plain machine costs a project that has 3600 requests an hour.
func TestALifeCostsFewRequests(t *testing.T) {
	t.Parallel()
	cloud := start(t, hetznerfake.Options{})
	plain := infrav1.HetznerMachineSpec{ServerType: "cx33", Location: "fsn1", Image: "ubuntu-24.04"}
	one := connect(cloud)
	for _, name := range []string{"first", "second"} {
		made, err := one.Create(t.Context(), request(t, name, plain))
		if err != nil {
			t.Fatal(err)
		}
		if err := one.Delete(t.Context(), made.Identity); err != nil {
			t.Fatal(err)
		}
		if _, err := one.Get(t.Context(), made.Identity); !driver.IsNotFound(err) {
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

// TestNothingIsLeakedOrDoubledWhateverFails takes machines through their lives while answers get lost, lists
// lag, requests are refused and throttled at random, actions are slow and every call is made by another
// process.
func TestNothingIsLeakedOrDoubledWhateverFails(t *testing.T) {
	t.Parallel()
	for seed := range uint64(4) {
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			t.Parallel()
			random := rand.New(rand.NewPCG(seed, 0))
			cloud := start(t, hetznerfake.Options{Slow: random.IntN(4)})
			trouble := func() {
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
				live(t, cloud, request(t, fmt.Sprintf("m-%d-%d", seed, n), variant(random)), trouble)
			}
			wantNothing(t, cloud)
			if orders := countCalls(cloud, "POST /servers"); orders < 25 {
				t.Errorf("%d orders for 25 machines prove nothing", orders)
			}
		})
	}
}

// variant is a spec that needs more or fewer calls.
func variant(random *rand.Rand) infrav1.HetznerMachineSpec {
	spec := everything()
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

// live makes a machine and removes it, sometimes half-way.
func live(t *testing.T, cloud *hetznerfake.Cloud, req driver.Request[hetzner.Config], trouble func()) {
	t.Helper()
	id, made := req.Identity, false
	for range attempts {
		trouble()
		instance, err := connect(cloud).Create(t.Context(), req)
		if servers := len(cloud.Orders()); servers > 1 {
			t.Fatalf("%s has %d servers", id.Name, servers)
		}
		if driver.IsInvalidConfiguration(err) || driver.IsNotOwned(err) || driver.IsNotFound(err) {
			t.Fatalf("creating %s: trouble was taken for %v", id.Name, err)
		}
		if made = err == nil; made {
			id.ProviderID = instance.ProviderID
			break
		}
	}
	if !made {
		t.Fatalf("%s was never made", id.Name)
	}
	for range attempts {
		trouble()
		if err := connect(cloud).Delete(t.Context(), id); err != nil {
			continue
		}
		if _, err := connect(cloud).Get(t.Context(), id); driver.IsNotFound(err) {
			return
		}
	}
	t.Fatalf("%s was never removed", id.Name)
}

func countCalls(cloud *hetznerfake.Cloud, name string) (count int) {
	for _, call := range cloud.Calls() {
		if call == name {
			count++
		}
	}
	return count
}
