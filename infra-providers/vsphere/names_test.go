// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package vsphere_test

import (
	"path"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/vmware/govmomi/object"
	"github.com/vmware/govmomi/vim25/types"

	infrav1 "drover.io/api/infrastructure/v1alpha1"
	"drover.io/infra-providers/driver"
)

// TestUnknownNamesInTheSpec: by its field, before anything is made, and the machine can go.
func TestUnknownNamesInTheSpec(t *testing.T) {
	t.Parallel()
	w := newEnv(t)
	d, id := w.connect(), identity("1")
	for field, change := range map[string]func(*infrav1.VSphereMachineSpec){
		"spec.template":         func(s *infrav1.VSphereMachineSpec) { s.Template = "nope" },
		"spec.snapshot":         func(s *infrav1.VSphereMachineSpec) { s.Snapshot = "nope" },
		"spec.cloneMode":        func(s *infrav1.VSphereMachineSpec) { s.CloneMode = infrav1.VSphereLinkedClone },
		"spec.folder":           func(s *infrav1.VSphereMachineSpec) { s.Folder = "nope" },
		"spec.computeCluster":   func(s *infrav1.VSphereMachineSpec) { s.ComputeCluster = "nope" },
		"spec.resourcePool":     func(s *infrav1.VSphereMachineSpec) { s.ResourcePool = "nope" },
		"spec.host":             func(s *infrav1.VSphereMachineSpec) { s.Host = "nope" },
		"spec.datastore":        func(s *infrav1.VSphereMachineSpec) { s.Datastore = "nope" },
		"spec.datastoreCluster": func(s *infrav1.VSphereMachineSpec) { s.DatastoreCluster = "nope" },
		"spec.storagePolicy":    func(s *infrav1.VSphereMachineSpec) { s.StoragePolicy = "nope" },
		"spec.networks[1].name": func(s *infrav1.VSphereMachineSpec) {
			s.Networks = []infrav1.VSphereNetwork{{Name: "VM Network"}, {Name: "nope"}}
		},
		"spec.networks[0].adapter": func(s *infrav1.VSphereMachineSpec) {
			s.Networks = []infrav1.VSphereNetwork{{Name: "VM Network", Adapter: "nope"}}
		},
		"spec.tags[0]": func(s *infrav1.VSphereMachineSpec) { s.Tags = []string{"no/pe"} },
		"spec.customAttributes": func(s *infrav1.VSphereMachineSpec) {
			s.CustomAttributes = map[string]infrav1.VSphereValue{"no": "pe"}
		},
		"spec.vmGroup": func(s *infrav1.VSphereMachineSpec) { s.VMGroup = "nope" },
	} {
		_, err := d.Create(t.Context(), req(w, id, change))
		wantField(t, err, field)
		if err := d.Delete(t.Context(), id); err != nil {
			t.Errorf("deleting after %s: %v", field, err)
		}
	}
	if got := w.wire.count("CloneVM_Task"); got != 0 {
		t.Errorf("%d clones were asked for", got)
	}
}

// TestPlacement reads back from vcsim where a machine is.
func TestPlacement(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		change func(*infrav1.VSphereMachineSpec)
		want   whereabouts
	}{
		"takes the cluster's own pool and the template's datastore": {
			func(*infrav1.VSphereMachineSpec) {},
			whereabouts{Folder: "DC0/vm", Pool: "DC0_C0/Resources", Datastore: "LocalDS_0"},
		},
		"takes another cluster": {
			func(s *infrav1.VSphereMachineSpec) { s.ComputeCluster = "DC0_C1" },
			whereabouts{Folder: "DC0/vm", Pool: "DC0_C1/Resources", Datastore: "LocalDS_0"},
		},
		"takes a folder in a folder by its path": {
			func(s *infrav1.VSphereMachineSpec) { s.Folder = "/DC0/vm/teams/blue" },
			whereabouts{Folder: "teams/blue", Pool: "DC0_C0/Resources", Datastore: "LocalDS_0"},
		},
		"takes a pool in a pool by its path, whatever the cluster": {
			func(s *infrav1.VSphereMachineSpec) {
				s.ComputeCluster, s.ResourcePool = "", "/DC0/host/DC0_C1/Resources/batch/night"
			},
			whereabouts{Folder: "DC0/vm", Pool: "batch/night", Datastore: "LocalDS_0"},
		},
		"takes a pool of the cluster by its name": {
			func(s *infrav1.VSphereMachineSpec) { s.ComputeCluster, s.ResourcePool = "DC0_C1", "batch" },
			whereabouts{Folder: "DC0/vm", Pool: "Resources/batch", Datastore: "LocalDS_0"},
		},
		"takes a host outside of all clusters, with the host's pool": {
			func(s *infrav1.VSphereMachineSpec) { s.ComputeCluster, s.Host = "", "DC0_H0" },
			whereabouts{Folder: "DC0/vm", Pool: "DC0_H0/Resources", Host: "DC0_H0", Datastore: "LocalDS_0"},
		},
		"takes another datastore": {
			func(s *infrav1.VSphereMachineSpec) { s.Datastore = "second" },
			whereabouts{Folder: "DC0/vm", Pool: "DC0_C0/Resources", Datastore: "second"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newEnv(t)
			w.furnish()
			d, id := w.connect(), identity("1")
			if _, err := d.Create(t.Context(), req(w, id, test.change)); err != nil {
				t.Fatal(err)
			}
			await(t, d, id, driver.Running)
			got := w.whereabouts("worker-1")
			if test.want.Host == "" {
				got.Host = "" // vSphere's choice
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("whereabouts (-want +got):\n%s", diff)
			}
		})
	}
}

// whereabouts are where a machine is, folder and pool with what they are in.
type whereabouts struct{ Folder, Pool, Host, Datastore string }

func (w *env) whereabouts(name string) whereabouts {
	w.t.Helper()
	machine := w.machine(name)
	return whereabouts{
		Folder: w.nested(*machine.Parent), Pool: w.nested(*machine.ResourcePool),
		Host: w.name(*machine.Runtime.Host), Datastore: w.name(machine.Datastore[0]),
	}
}

// nested is the name of something after the name of what it is in.
func (w *env) nested(ref types.ManagedObjectReference) string {
	w.t.Helper()
	element, err := w.finder.Element(w.t.Context(), ref)
	if err != nil {
		w.t.Fatal(err)
	}
	return path.Join(path.Base(path.Dir(element.Path)), path.Base(element.Path))
}

// furnish makes folders, pools and a datastore beside those of vcsim's model.
func (w *env) furnish() {
	w.t.Helper()
	ctx := w.t.Context()
	folder, err := w.finder.DefaultFolder(ctx)
	for _, name := range []string{"teams", "blue"} {
		if err == nil {
			folder, err = folder.CreateFolder(ctx, name)
		}
	}
	if err != nil {
		w.t.Fatal(err)
	}
	pool, err := w.finder.ResourcePool(ctx, "DC0_C1/Resources")
	for _, name := range []string{"batch", "night"} {
		if err == nil {
			pool, err = pool.Create(ctx, name, types.DefaultResourceConfigSpec())
		}
	}
	if err != nil {
		w.t.Fatal(err)
	}
	hosts, err := w.finder.HostSystemList(ctx, "*")
	if err != nil {
		w.t.Fatal(err)
	}
	at := w.t.TempDir()
	for _, host := range hosts {
		if err := makeDatastore(w, host, at); err != nil {
			w.t.Fatal(err)
		}
	}
}

func makeDatastore(w *env, host *object.HostSystem, at string) error {
	system, err := host.ConfigManager().DatastoreSystem(w.t.Context())
	if err != nil {
		return err
	}
	_, err = system.CreateLocalDatastore(w.t.Context(), "second", at)
	return err
}
