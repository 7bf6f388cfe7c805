// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package openstack_test

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/blockstorage/v3/volumes"
	"github.com/gophercloud/gophercloud/v2/openstack/blockstorage/v3/volumetypes"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/volumeattach"
	"github.com/onsi/gomega"
	"k8s.io/utils/ptr"

	infrav1 "drover.io/api/infrastructure/v1alpha1"
	"drover.io/infra-providers/driver"
	"drover.io/infra-providers/openstack"
	"drover.io/infra-providers/openstack/attachments"
	"drover.io/infra-providers/openstack/openstackfake"
)

// withVolumes skips a test unless the project has a Cinder.
func withVolumes(t *testing.T) project {
	t.Helper()
	real(t)
	p := inProject(t)
	if p.Volume == nil {
		t.Skip("the cloud has no Cinder")
	}
	return p
}

// volumeSpec boots from a volume and has another one that is deleted with the machine.
func volumeSpec() infrav1.OpenStackMachineSpec {
	spec := realSpec()
	spec.RootVolume = infrav1.OpenStackVolume{SizeGiB: 2}
	spec.Volumes = []infrav1.OpenStackDataVolume{{Name: "data", OpenStackVolume: infrav1.OpenStackVolume{SizeGiB: 1}}}
	return spec
}

// volumes are those whose name has a part, such as a UID.
func (p project) volumes(part string) []volumes.Volume {
	p.t.Helper()
	all := every(p, volumes.List(p.Volume, nil), volumes.ExtractVolumes)
	return slices.DeleteFunc(all, func(volume volumes.Volume) bool { return !strings.Contains(volume.Name, part) })
}

// attach attaches an empty volume to a server, as a CSI driver does. What it returns reports whether the volume is
// still there once the server is gone, and removes it.
func (p project) attach(created driver.Instance) func() bool {
	p.t.Helper()
	ctx := context.Background()
	name := "pvc-" + string(unique())
	volume := must[*volumes.Volume](p.t)(volumes.Create(ctx, p.Volume, volumes.CreateOpts{Name: name, Size: 1}, nil).Extract())
	is := func(wanted string) {
		p.t.Helper()
		gomega.NewWithT(p.t).Eventually(func() (string, error) {
			seen, err := volumes.Get(ctx, p.Volume, volume.ID).Extract()
			if gophercloud.ResponseCodeIs(err, http.StatusNotFound) {
				return wanted, nil // there is nothing to wait for any more
			}
			return seen.Status, err
		}, realTimeout, time.Second).Should(gomega.Equal(wanted))
	}
	is("available")
	must[*volumeattach.VolumeAttachment](p.t)(volumeattach.Create(ctx, p.Compute, created.ID, volumeattach.CreateOpts{VolumeID: volume.ID}).Extract())
	is("in-use")
	return func() bool {
		is("available")
		err := volumes.Delete(ctx, p.Volume, volume.ID, nil).ExtractErr()
		if err != nil && !gophercloud.ResponseCodeIs(err, http.StatusNotFound) {
			p.t.Error(err)
		}
		return err == nil
	}
}

// TestRealVolumes boots from a volume, with one volume that is deleted with the machine and one that is kept.
func TestRealVolumes(t *testing.T) {
	p := withVolumes(t)
	d := connect(t, nil, driver.Account{}, nil)
	spec := volumeSpec()
	spec.Volumes = append(spec.Volumes, infrav1.OpenStackDataVolume{Name: "kept", OpenStackVolume: infrav1.OpenStackVolume{SizeGiB: 1, DeleteOnTermination: ptr.To(false)}})
	types := every(p, volumetypes.List(p.Volume, nil), volumetypes.ExtractVolumeTypes)
	spec.Volumes[0].Type = types[0].Name
	var uid string
	// It runs after the deletion of the machine.
	t.Cleanup(func() {
		left := p.volumes(uid)
		if len(left) != 1 || !strings.HasSuffix(left[0].Name, "-kept") {
			t.Errorf("left: %v, want the volume to keep and no other", left)
		} else if err := volumes.Delete(context.Background(), p.Volume, left[0].ID, nil).ExtractErr(); err != nil {
			t.Errorf("the volume to keep is %s: %v", left[0].Status, err)
		}
	})
	req := newRealRequest(t, d, spec)
	uid = string(req.Identity.UID)
	created := mustReachState(t, d, req)
	if created.State != driver.Running {
		t.Fatalf("got %+v", created)
	}

	type disk struct {
		Size        int
		Bootable    string
		Goes, Owned bool
		Status      string
	}
	var server struct {
		Attached []struct {
			ID   string
			Goes bool `json:"delete_on_termination"`
		} `json:"os-extended-volumes:volumes_attached"`
	}
	if err := servers.Get(t.Context(), p.Compute, created.ID).ExtractInto(&server); err != nil {
		t.Fatal(err)
	}
	goes := map[string]bool{}
	for _, attached := range server.Attached {
		goes[attached.ID] = attached.Goes
	}
	got := map[string]disk{}
	for _, volume := range p.volumes(uid) {
		name := strings.TrimPrefix(volume.Name, "drover-"+uid+"-")
		id, owned := attachments.Identity(volume.Metadata)
		ends, attached := goes[volume.ID]
		if !attached {
			t.Errorf("volume %s is not attached", name)
		}
		if name == "data" && volume.VolumeType != types[0].Name {
			t.Errorf("the volume is of type %q, want %q of %d types", volume.VolumeType, types[0].Name, len(types))
		}
		got[name] = disk{Size: volume.Size, Bootable: volume.Bootable, Goes: ends, Owned: owned && id.UID == req.Identity.UID, Status: volume.Status}
	}
	want := map[string]disk{
		"root": {2, "true", true, true, "in-use"},
		"data": {1, "false", true, true, "in-use"},
		"kept": {1, "false", false, true, "in-use"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("volumes (-want +got):\n%s", diff)
	}
	if image := p.server(created.ID).Image; len(image) > 0 {
		t.Errorf("the server boots from image %v, not from its volume", image)
	}
	if diff := cmp.Diff(map[string]int{"port": 1, "volume": 2}, remaining(t, d, req.Identity)); diff != "" {
		t.Errorf("what is to go with the machine (-want +got):\n%s", diff)
	}
}

// remaining counts the attachments of a machine that the driver lists, by kind.
func remaining(t *testing.T, d driver.Driver[openstack.InstanceConfig], id driver.Identity) map[string]int {
	t.Helper()
	kinds := map[string]int{}
	for thing, err := range d.(driver.AttachedObjectLister).AttachedObjects(t.Context(), id.Owner) {
		if err != nil {
			t.Fatal(err)
		}
		if thing.Identity.UID == id.UID {
			kinds[thing.Kind]++
		}
	}
	return kinds
}

// TestRealVolumesWithoutAServer ends a creation where all volumes are there and the server is not.
func TestRealVolumesWithoutAServer(t *testing.T) {
	withVolumes(t)
	faults := &openstackfake.Faults{}
	d := connect(t, faults, driver.Account{}, nil)
	req := newRealRequest(t, d, volumeSpec())
	requested := false
	faults.Fail(func(request *http.Request) bool {
		fits := openstackfake.Creates("servers")(request)
		requested = requested || fits
		return fits
	}, http.StatusInternalServerError, "")
	gomega.NewWithT(t).Eventually(func() bool {
		if _, err := d.Create(t.Context(), req); driver.IsInvalidConfiguration(err) {
			t.Fatal(err)
		}
		return requested
	}, realTimeout, time.Second).Should(gomega.BeTrue())
	if diff := cmp.Diff(map[string]int{"port": 1, "volume": 2}, remaining(t, d, req.Identity)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestRealVolumesAreCreatedOnce has several concurrent callers for one machine.
func TestRealVolumesAreCreatedOnce(t *testing.T) {
	p := withVolumes(t)
	req := newRealRequest(t, connect(t, nil, driver.Account{}, nil), volumeSpec())
	const callers = 4
	ends := make(chan error, callers)
	for range callers {
		d := connect(t, nil, driver.Account{}, nil)
		go func() {
			for late := time.Now().Add(realTimeout); ; {
				_, err := d.Create(t.Context(), req)
				if err == nil || driver.IsInvalidConfiguration(err) || time.Now().After(late) {
					ends <- err
					return
				}
			}
		}()
	}
	for range callers {
		if err := <-ends; err != nil {
			t.Error(err)
		}
	}
	uid := string(req.Identity.UID)
	got := map[string]int{"servers": len(p.servers(uid)), "volumes": len(p.volumes(uid))}
	if diff := cmp.Diff(map[string]int{"servers": 1, "volumes": 2}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestRealInvalidVolumes requests volumes that Cinder refuses.
func TestRealInvalidVolumes(t *testing.T) {
	withVolumes(t)
	for what, test := range map[string]struct {
		change func(*infrav1.OpenStackVolume)
		is     func(error) bool
	}{
		"unknown type": {func(v *infrav1.OpenStackVolume) { v.Type = "nonsense" }, driver.IsInvalidConfiguration},
		"unknown zone": {func(v *infrav1.OpenStackVolume) { v.AvailabilityZone = "nonsense" }, driver.IsInvalidConfiguration},
		"no quota":     {func(v *infrav1.OpenStackVolume) { v.SizeGiB = 16000 }, driver.IsQuotaExceeded},
	} {
		t.Run(what, func(t *testing.T) {
			d := connect(t, nil, driver.Account{}, nil)
			spec := volumeSpec()
			test.change(&spec.Volumes[0].OpenStackVolume)
			req := newRealRequest(t, d, spec)
			var refusal error
			gomega.NewWithT(t).Eventually(func() bool {
				_, refusal = d.Create(t.Context(), req)
				return refusal != nil && !errors.Is(refusal, attachments.ErrBusy)
			}, realTimeout, time.Second).Should(gomega.BeTrue())
			if !test.is(refusal) {
				t.Errorf("got %v", refusal)
			}
			t.Log(refusal)
		})
	}
}
