// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package digitalocean_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	infrav1 "drover.io/api/infrastructure/v1alpha1"
	"drover.io/infra-providers/digitalocean/digitaloceanfake"
	"drover.io/infra-providers/driver"
)

// machineTags are the tags of identity("m").
var machineTags = []string{
	"drover", "drover-machine-uid:00000000-0000-4000-8000-m", "drover-machine:m:00000000-0000-4000-8000-m",
	"drover-cluster-uid:c", "drover-cluster-namespace:team", "drover-cluster:home",
}

func TestCreateDropletParameters(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		spec infrav1.DigitalOceanMachineSpec
		want map[string]any
	}{
		"the least": {minimalSpec(), map[string]any{
			"name": "m", "region": "nyc3", "size": "s-2vcpu-4gb", "image": "ubuntu-24-04-x64", "user_data": "#cloud-config\n",
			"backups": false, "ipv6": false, "monitoring": false, "private_networking": false, "tags": toAny(machineTags),
		}},
		"everything": {fullSpec(), map[string]any{
			"name": "m", "region": "nyc3", "size": "s-2vcpu-4gb", "image": float64(digitaloceanfake.SnapshotNew), "user_data": "#cloud-config\n",
			"backups": true, "ipv6": true, "monitoring": true, "private_networking": false, "with_droplet_agent": false,
			"vpc_uuid":      digitaloceanfake.VPCHome,
			"backup_policy": map[string]any{"plan": "weekly", "weekday": "SUN", "hour": 4.0},
			"tags":          toAny(slices.Concat(machineTags, []string{"Team:Web", "drover-reserved-ip", "drover-volumes"})),
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cloud := newEnv(t, digitaloceanfake.Options{})
			mustCreate(t, connect(t, cloud), newRequest(t, "m", test.spec))
			got := cloud.Droplets()[0].Request
			keys, _ := got["ssh_keys"].([]any)
			if len(keys) != 1+len(test.spec.SSHKeys) || len(keys) > 1 && keys[1] != float64(digitaloceanfake.KeyAlice) {
				t.Errorf("SSH keys %v, want that of the claim and those of the spec", keys)
			}
			delete(got, "ssh_keys")
			if disks, _ := got["volumes"].([]any); len(disks) != len(test.spec.Volumes) {
				t.Errorf("volumes %v, want %d", disks, len(test.spec.Volumes))
			}
			delete(got, "volumes")
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("request (-want +got):\n%s", diff)
			}
		})
	}
}

func toAny(all []string) (out []any) {
	for _, one := range all {
		out = append(out, one)
	}
	return out
}

// TestReservedIPFollowsTheStart: a Droplet gets its reserved IP only once it is active and has no other action in progress.
func TestReservedIPFollowsTheStart(t *testing.T) {
	t.Parallel()
	cloud := newEnv(t, digitaloceanfake.Options{ActionDelay: 12})
	unfinished := 0
	var created driver.Instance
	for range attempts {
		made, err := connect(t, cloud).Create(t.Context(), newRequest(t, "m", fullSpec()))
		if err == nil {
			created = made
			break
		}
		if driver.IsUnfinished(err) {
			unfinished++
		}
		if driver.IsInvalidConfiguration(err) || driver.IsQuotaExceeded(err) || driver.IsInsufficientCapacity(err) {
			t.Fatal(err)
		}
	}
	if unfinished == 0 {
		t.Error("no call waited for the start, so this proves nothing")
	}
	wantDroplets(t, cloud, 1)
	if got := cloud.Droplets()[0]; len(got.ReservedIPs) != 1 || len(got.Volumes) != 2 {
		t.Errorf("the Droplet has reserved IPs %q and volumes %q", got.ReservedIPs, got.Volumes)
	}
	mustDelete(t, connect(t, cloud), created.Identity)
	wantNoLeftovers(t, cloud)
}

// TestDropletDeletedByAnotherClient: everything beside it is still found.
func TestDropletDeletedByAnotherClient(t *testing.T) {
	t.Parallel()
	cloud := newEnv(t, digitaloceanfake.Options{})
	id := mustCreate(t, connect(t, cloud), newRequest(t, "m", fullSpec())).Identity
	cloud.Remove("m")
	if left := cloud.Leftovers(); len(left) != 4 {
		t.Fatalf("left are %q, want two volumes, the reserved IP and its record", left)
	}
	var kinds []string
	for attached, err := range connect(t, cloud).AttachedObjects(t.Context(), id.Owner) {
		if err != nil {
			t.Fatal(err)
		}
		want := identity("m")
		if diff := cmp.Diff(want, attached.Identity); diff != "" {
			t.Errorf("identity of %s (-want +got):\n%s", attached.Kind, diff)
		}
		kinds = append(kinds, attached.Kind)
	}
	if diff := cmp.Diff([]string{"volume", "volume", "SSH key and reserved IP"}, kinds); diff != "" {
		t.Errorf("attached objects (-want +got):\n%s", diff)
	}
	if _, err := connect(t, cloud).Get(t.Context(), id); !driver.IsNotFound(err) {
		t.Errorf("got %v, want a NotFoundError", err)
	}
	if err := connect(t, cloud).Delete(t.Context(), id); err != nil {
		t.Error(err)
	}
	wantNoLeftovers(t, cloud)
}

// TestReservedIPOfAnotherDropletStays: an operator may have assigned it elsewhere.
func TestReservedIPOfAnotherDropletStays(t *testing.T) {
	t.Parallel()
	cloud := newEnv(t, digitaloceanfake.Options{})
	spec := fullSpec()
	spec.Volumes = nil
	id := mustCreate(t, connect(t, cloud), newRequest(t, "m", spec)).Identity
	cloud.Remove("m")
	cloud.AddDroplet("other")
	address := cloud.AssignReservedIP("other")
	if err := connect(t, cloud).Delete(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	if left := cloud.Leftovers(); !slices.Contains(left, "reserved IP "+address) {
		t.Errorf("reserved IP %s of another Droplet was deleted", address)
	}
}

// TestReservedIPOfAnOperatorStays: one that was assigned instead of the machine's own, which is deleted.
func TestReservedIPOfAnOperatorStays(t *testing.T) {
	t.Parallel()
	cloud := newEnv(t, digitaloceanfake.Options{})
	spec := fullSpec()
	spec.Volumes = nil
	created := mustCreate(t, connect(t, cloud), newRequest(t, "m", spec))
	cloud.SwapReservedIP(number(t, created.ID), "192.0.2.7")
	mustDelete(t, connect(t, cloud), created.Identity)
	if diff := cmp.Diff([]string{"reserved IP 192.0.2.7"}, cloud.Leftovers()); diff != "" {
		t.Errorf("left (-want +got):\n%s", diff)
	}
}

// TestReservedIPOfAnOperatorStaysWhenADeletionIsRepeated: by then the claim with the record of the machine's own is deleted.
func TestReservedIPOfAnOperatorStaysWhenADeletionIsRepeated(t *testing.T) {
	t.Parallel()
	for name, options := range map[string]digitaloceanfake.Options{"the Droplet's deletion fails": {}, "the Droplet's deletion takes time": {ActionDelay: 20}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cloud := newEnv(t, options)
			spec := fullSpec()
			spec.Volumes = nil
			created := mustCreate(t, connect(t, cloud), newRequest(t, "m", spec))
			cloud.SwapReservedIP(number(t, created.ID), "192.0.2.7")
			if options.ActionDelay == 0 {
				cloud.RefuseOperation("DELETE /v2/droplets/{id}", http.StatusInternalServerError, "server_error")
			}
			_ = connect(t, cloud).Delete(t.Context(), created.Identity)
			mustDelete(t, connect(t, cloud), created.Identity)
			if diff := cmp.Diff([]string{"reserved IP 192.0.2.7"}, cloud.Leftovers()); diff != "" {
				t.Errorf("left (-want +got):\n%s", diff)
			}
		})
	}
}

// TestReservedIPThatWasAssignedBeforeTheMachinesOwnStays: where the team has no room for another address, an operator may
// assign one that exists.
func TestReservedIPThatWasAssignedBeforeTheMachinesOwnStays(t *testing.T) {
	t.Parallel()
	cloud := newEnv(t, digitaloceanfake.Options{})
	spec := fullSpec()
	spec.Volumes = nil
	req := newRequest(t, "m", spec)
	cloud.RefuseOperation("POST /v2/reserved_ips", http.StatusUnprocessableEntity, "unprocessable_entity")
	if _, err := connect(t, cloud).Create(t.Context(), req); err == nil {
		t.Fatal("the address was not refused")
	}
	cloud.SwapReservedIP(cloud.Droplets()[0].ID, "192.0.2.7")
	_, err := connect(t, cloud).Create(t.Context(), req)
	if err == nil || driver.IsInvalidConfiguration(err) || !strings.Contains(err.Error(), "192.0.2.7") {
		t.Errorf("got %v, want a transient error about the address", err)
	}
	mustDelete(t, connect(t, cloud), req.Identity)
	if diff := cmp.Diff([]string{"reserved IP 192.0.2.7"}, cloud.Leftovers()); diff != "" {
		t.Errorf("left (-want +got):\n%s", diff)
	}
}

// TestReservedIPWithoutAnAnswerIsTheMachinesOwn: it is deleted with the machine.
func TestReservedIPWithoutAnAnswerIsTheMachinesOwn(t *testing.T) {
	t.Parallel()
	cloud := newEnv(t, digitaloceanfake.Options{})
	req := newRequest(t, "m", fullSpec())
	cloud.LoseOperation("POST /v2/reserved_ips")
	_, _ = connect(t, cloud).Create(t.Context(), req)
	mustDelete(t, connect(t, cloud), req.Identity)
	wantNoLeftovers(t, cloud)
}

// TestDropletIsDeletedLast: no later call would delete a volume or an address without it.
func TestDropletIsDeletedLast(t *testing.T) {
	t.Parallel()
	for name, active := range map[string]bool{"a Droplet that is active": true, "a Droplet that starts": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cloud := newEnv(t, digitaloceanfake.Options{ActionDelay: 4})
			req := newRequest(t, "m", fullSpec())
			if active {
				mustCreate(t, connect(t, cloud), req)
			} else {
				_, _ = connect(t, cloud).Create(t.Context(), req)
			}
			for range attempts {
				// Errors are transient: the Droplet is locked during each action.
				_ = connect(t, cloud).Delete(t.Context(), req.Identity)
				left := cloud.Leftovers()
				if there := slices.ContainsFunc(left, func(thing string) bool { return strings.HasPrefix(thing, "Droplet") }); !there && len(left) > 0 {
					t.Fatalf("the Droplet was deleted before %q", left)
				}
			}
			wantNoLeftovers(t, cloud)
		})
	}
}

// TestTagsOfAMachineAreDeleted with its Droplet, and those of the Cluster stay.
func TestTagsOfAMachineAreDeleted(t *testing.T) {
	t.Parallel()
	cloud := newEnv(t, digitaloceanfake.Options{ActionDelay: 3})
	d := connect(t, cloud)
	mustDelete(t, d, mustCreate(t, d, newRequest(t, "m", minimalSpec())).Identity)
	want := []string{"drover", "drover-cluster-namespace:team", "drover-cluster-uid:c", "drover-cluster:home"}
	if diff := cmp.Diff(want, cloud.Tags()); diff != "" {
		t.Errorf("tags (-want +got):\n%s", diff)
	}
}

// TestTagOfTwoMachinesStays: the author of a machine may choose its UID, and deleting a tag removes it from everything.
func TestTagOfTwoMachinesStays(t *testing.T) {
	t.Parallel()
	cloud := newEnv(t, digitaloceanfake.Options{})
	d := connect(t, cloud)
	mine := newRequest(t, "m", minimalSpec())
	id := mustCreate(t, d, mine).Identity
	mustDelete(t, d, id)
	other := mine
	other.Identity.Owner = driver.Owner{UID: "o", Namespace: "elsewhere", Name: "home"}
	created := mustCreate(t, connect(t, cloud), other)
	if err := d.Delete(t.Context(), mine.Identity); !driver.IsNotOwned(err) {
		t.Errorf("got %v, want a NotOwnedError", err)
	}
	if found, err := connect(t, cloud).Get(t.Context(), created.Identity); err != nil || found.ID != created.ID {
		t.Errorf("the other's Droplet: %v", err)
	}
}

// TestDeletionIsShownUntilTheDropletIsGone: the cloud has no status for it.
func TestDeletionIsShownUntilTheDropletIsGone(t *testing.T) {
	t.Parallel()
	cloud := newEnv(t, digitaloceanfake.Options{ActionDelay: 10})
	d := connect(t, cloud)
	id := mustCreate(t, d, newRequest(t, "m", minimalSpec())).Identity
	if err := d.Delete(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	if found, err := d.Get(t.Context(), id); err != nil || found.State != driver.Stopping {
		t.Errorf("the Droplet is %q and %v, want it to be %s", found.State, err, driver.Stopping)
	}
	later := after(t, cloud, time.Hour)
	if found, err := later.Get(t.Context(), id); err != nil || found.State == driver.Stopping {
		t.Errorf("another process shows %q and %v, so the deletion is repeated", found.State, err)
	}
}

// TestVolumesFollowTheRegion: those of a region without capacity are replaced.
func TestVolumesFollowTheRegion(t *testing.T) {
	t.Parallel()
	cloud := newEnv(t, digitaloceanfake.Options{})
	spec := fullSpec()
	spec.VPCUUID, spec.Fallbacks = "", []infrav1.DigitalOceanFallback{{Region: "fra1"}}
	req := newRequest(t, "m", spec)
	cloud.SellOut()
	if _, err := connect(t, cloud).Create(t.Context(), req); !driver.IsInsufficientCapacity(err) {
		t.Fatalf("got %v, want an InsufficientCapacityError", err)
	}
	spec.Region = "fra1"
	created := mustCreate(t, connect(t, cloud), newRequest(t, "m", spec))
	if got := cloud.Droplets()[0]; len(got.Volumes) != 2 || len(cloud.Leftovers()) != 5 {
		t.Errorf("the Droplet has volumes %q, the cloud %q", got.Volumes, cloud.Leftovers())
	}
	mustDelete(t, connect(t, cloud), created.Identity)
	wantNoLeftovers(t, cloud)
}

// TestRequestsOfALife has the requests of a machine without volumes and reserved IP, in their order.
func TestRequestsOfALife(t *testing.T) {
	t.Parallel()
	cloud := newEnv(t, digitaloceanfake.Options{ActionDelay: 2})
	d := connect(t, cloud)
	id := mustCreate(t, d, newRequest(t, "m", minimalSpec())).Identity
	mustDelete(t, d, id)
	want := []string{
		"GET /v2/droplets", "GET /v2/account/keys/{id}", // there is no Droplet, and no claim of another caller
		"POST /v2/account/keys", "GET /v2/droplets", "POST /v2/droplets", // claimed, still none, requested
		"GET /v2/droplets", "DELETE /v2/account/keys/{id}", // listed, released
		"GET /v2/droplets/{id}", "GET /v2/droplets", "DELETE /v2/account/keys/{id}", "DELETE /v2/droplets/{id}", "GET /v2/droplets/{id}", // deleted
		"GET /v2/droplets/{id}",                                                  // gone
		"GET /v2/droplets/{id}", "GET /v2/droplets", "GET /v2/account/keys/{id}", // nothing else is left
		"GET /v2/tags/{id}", "DELETE /v2/tags/{id}", "DELETE /v2/tags/{id}",
	}
	if diff := cmp.Diff(want, cloud.Calls()); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
}

// TestMovedClusterKeepsTheReservedIP: the record of the address has the new UID of the Cluster, too.
func TestMovedClusterKeepsTheReservedIP(t *testing.T) {
	t.Parallel()
	cloud := newEnv(t, digitaloceanfake.Options{})
	id := mustCreate(t, connect(t, cloud), newRequest(t, "m", fullSpec())).Identity
	id.Owner.UID = "moved"
	if err := connect(t, cloud).Tag(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	kinds := map[string]int{}
	for attached, err := range connect(t, cloud).AttachedObjects(t.Context(), id.Owner) {
		if err != nil {
			t.Fatal(err)
		}
		kinds[attached.Kind]++
	}
	if diff := cmp.Diff(map[string]int{"volume": 2, "SSH key and reserved IP": 1, "reserved IP": 1}, kinds); diff != "" {
		t.Errorf("attached objects of the new Cluster (-want +got):\n%s", diff)
	}
	mustDelete(t, connect(t, cloud), id)
	wantNoLeftovers(t, cloud)
}

// TestUnexplainedRefusalIsTransient: what explained it may have passed.
func TestUnexplainedRefusalIsTransient(t *testing.T) {
	t.Parallel()
	cloud := newEnv(t, digitaloceanfake.Options{})
	cloud.RefuseOperation("POST /v2/droplets", http.StatusUnprocessableEntity, "unprocessable_entity")
	_, err := connect(t, cloud).Create(t.Context(), newRequest(t, "m", minimalSpec()))
	if err == nil || driver.IsInvalidConfiguration(err) || driver.IsInsufficientCapacity(err) || driver.IsQuotaExceeded(err) {
		t.Fatalf("got %v, want a transient error", err)
	}
	if want := "creating the Droplet: POST /v2/droplets: 422 injected error"; err.Error() != want {
		t.Errorf("got %q, want %q", err, want)
	}
	mustCreate(t, connect(t, cloud), newRequest(t, "m", minimalSpec()))
}

// TestThrottledCallHasTheCloudsHint: the limit of a minute has one of its own, that of an hour ends with its oldest request.
func TestThrottledCallHasTheCloudsHint(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		each time.Duration
		want time.Duration
	}{
		"the limit of a minute": {0, 20 * time.Second},
		"the limit of an hour":  {690 * time.Millisecond, time.Hour - 5000*690*time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			clock := &clockOfRun{now: time.Unix(1_800_000_000, 0)}
			cloud := newEnv(t, digitaloceanfake.Options{Limited: true, Now: clock.Now})
			d := connectAt(t, cloud, clock, http.DefaultTransport)
			id := identity("m")
			id.ProviderID = "digitalocean://1"
			for n := range 5001 {
				_, err := d.Get(t.Context(), id)
				if driver.IsNotFound(err) {
					clock.pass(test.each)
					continue
				}
				if got := driver.RetryAfter(err); got != test.want {
					t.Errorf("after %d requests: got a delay of %s and %v, want %s", n, got, err, test.want)
				}
				return
			}
			t.Error("the cloud did not throttle")
		})
	}
}

// TestQuotaOfVolumes is a limit of the account, too.
func TestQuotaOfVolumes(t *testing.T) {
	t.Parallel()
	cloud := newEnv(t, digitaloceanfake.Options{})
	cloud.SetLimits(10, 1)
	if _, err := connect(t, cloud).Create(t.Context(), newRequest(t, "m", fullSpec())); !driver.IsQuotaExceeded(err) {
		t.Errorf("got %v, want a QuotaExceededError", err)
	}
	mustDelete(t, connect(t, cloud), identity("m"))
	wantNoLeftovers(t, cloud)
}

// TestRefusalsNameTheField has what the state of the account explains.
func TestRefusalsNameTheField(t *testing.T) {
	t.Parallel()
	type spec = infrav1.DigitalOceanMachineSpec
	for field, change := range map[string]func(*spec){
		"spec.size": func(s *spec) { s.Size = "huge" },
		"spec.region": func(s *spec) {
			s.Region, s.VPCUUID, s.Volumes, s.ImageName, s.Image = "xyz1", "", nil, "", "ubuntu-24-04-x64"
		},
		"spec.image":      func(s *spec) { s.Image, s.ImageName = "none", "" },
		"spec.imageName":  func(s *spec) { s.ImageName = "none" },
		"spec.sshKeys[1]": func(s *spec) { s.SSHKeys = append(s.SSHKeys, "77") },
		"spec.vpcUUID":    func(s *spec) { s.VPCUUID = digitaloceanfake.VPCFar },
		"spec.size ":      func(s *spec) { s.ImageName = "large" },
		"spec.backups": func(s *spec) {
			s.Region, s.VPCUUID, s.IPv6, s.Volumes, s.ImageName, s.Image = "nyc2", "", nil, nil, "", "ubuntu-24-04-x64"
		},
		"spec.volumes": func(s *spec) {
			s.Region, s.VPCUUID, s.IPv6, s.Backups, s.ImageName, s.Image = "nyc2", "", nil, nil, "", "ubuntu-24-04-x64"
		},
	} {
		t.Run(field, func(t *testing.T) {
			t.Parallel()
			cloud := newEnv(t, digitaloceanfake.Options{})
			changed := fullSpec()
			changed.BackupPolicy = infrav1.DigitalOceanBackupPolicy{}
			change(&changed)
			_, err := connect(t, cloud).Create(t.Context(), newRequest(t, "m", changed))
			if !driver.IsInvalidConfiguration(err) || !strings.HasPrefix(fmt.Sprint(err), strings.TrimSpace(field)+":") {
				t.Errorf("got %v, want an InvalidConfigurationError of %s", err, field)
			}
			mustDelete(t, connect(t, cloud), identity("m"))
			wantNoLeftovers(t, cloud)
		})
	}
}

// TestReservedIPOfADropletThatIsGoneIsNotForgotten: its Droplet was destroyed before the machine's provider ID was stored, and
// the machine gets another one.
func TestReservedIPOfADropletThatIsGoneIsNotForgotten(t *testing.T) {
	t.Parallel()
	cloud := newEnv(t, digitaloceanfake.Options{})
	spec := fullSpec()
	spec.Volumes = nil
	req := newRequest(t, "m", spec)
	mustCreate(t, connect(t, cloud), req)
	cloud.Remove("m")
	created := mustCreate(t, after(t, cloud, time.Hour), req)
	mustDelete(t, after(t, cloud, time.Hour), created.Identity)
	wantNoLeftovers(t, cloud)
}
