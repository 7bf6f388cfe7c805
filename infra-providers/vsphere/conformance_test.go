// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package vsphere_test

import (
	"net/http"
	"testing"

	"github.com/vmware/govmomi/object"

	infrav1 "drover.io/api/infrastructure/v1alpha1"
	"drover.io/infra-providers/driver"
	"drover.io/infra-providers/driver/drivertest"
	"drover.io/infra-providers/vsphere"
)

func TestConformance(t *testing.T) {
	t.Parallel()
	drivertest.Run(t, func(t *testing.T) drivertest.Environment[vsphere.InstanceConfig] { return newEnv(t).conformance() })
}

func (w *env) conformance() drivertest.Environment[vsphere.InstanceConfig] {
	w.t.Helper()
	invalid := func(change func(*infrav1.VSphereMachineSpec)) vsphere.InstanceConfig { return w.config("", change) }
	other := w.config("DC0_C1", func(spec *infrav1.VSphereMachineSpec) { spec.CPUs, spec.AntiAffinityGroup = 4, "web" })
	return drivertest.Environment[vsphere.InstanceConfig]{
		Driver:              w.connect(),
		NormalizeProviderID: vsphere.Cloud(w.pool).NormalizeProviderID,
		Config:              w.config("DC0_C0", func(spec *infrav1.VSphereMachineSpec) { spec.AntiAffinityGroup = "web" }),
		Other:               &other,
		Invalid: map[string]vsphere.InstanceConfig{
			"an unknown folder":            invalid(func(spec *infrav1.VSphereMachineSpec) { spec.Folder = "nope" }),
			"an unknown cluster":           invalid(func(spec *infrav1.VSphereMachineSpec) { spec.ComputeCluster = "nope" }),
			"an unknown resource pool":     invalid(func(spec *infrav1.VSphereMachineSpec) { spec.ResourcePool = "nope" }),
			"no cluster among several":     invalid(func(spec *infrav1.VSphereMachineSpec) { spec.ComputeCluster = "" }),
			"an unknown host":              invalid(func(spec *infrav1.VSphereMachineSpec) { spec.Host = "nope" }),
			"an unknown datastore":         invalid(func(spec *infrav1.VSphereMachineSpec) { spec.Datastore = "nope" }),
			"an unknown datastore cluster": invalid(func(spec *infrav1.VSphereMachineSpec) { spec.DatastoreCluster = "nope" }),
			"an unknown storage policy":    invalid(func(spec *infrav1.VSphereMachineSpec) { spec.StoragePolicy = "nope" }),
			"an unknown network":           invalid(func(spec *infrav1.VSphereMachineSpec) { spec.Networks = []infrav1.VSphereNetwork{{Name: "nope"}} }),
			"an unknown tag":               invalid(func(spec *infrav1.VSphereMachineSpec) { spec.Tags = []string{"no/pe"} }),
			"an unknown attribute": invalid(func(spec *infrav1.VSphereMachineSpec) {
				spec.CustomAttributes = map[string]infrav1.VSphereValue{"no": "pe"}
			}),
			"an unknown VM group": invalid(func(spec *infrav1.VSphereMachineSpec) { spec.VMGroup = "nope" }),
		},
		NoImage: map[string]vsphere.InstanceConfig{
			"an unknown template":           invalid(func(spec *infrav1.VSphereMachineSpec) { spec.Template = "nope" }),
			"an ambiguous template":         invalid(func(spec *infrav1.VSphereMachineSpec) { spec.Template = "*" }),
			"an unknown snapshot":           invalid(func(spec *infrav1.VSphereMachineSpec) { spec.Snapshot = "nope" }),
			"a linked clone of no snapshot": invalid(func(spec *infrav1.VSphereMachineSpec) { spec.CloneMode = infrav1.VSphereLinkedClone }),
		},
		Reconnect: func() driver.Driver[vsphere.InstanceConfig] { return w.connect() },
		Lose:      func() { w.wire.add(&rule{methods: changing, lost: true}) },
		Refuse: map[drivertest.Refusal]func(){
			drivertest.Unauthorized:         func() { w.wire.add(&rule{answer: fault("NoPermission")}) },
			drivertest.RateLimited:          func() { w.wire.add(&rule{answer: &answer{status: http.StatusTooManyRequests}}) },
			drivertest.ServerError:          func() { w.wire.add(&rule{answer: &answer{status: http.StatusServiceUnavailable}}) },
			drivertest.QuotaExceeded:        func() { w.wire.add(&rule{methods: changing, answer: fault("NotEnoughLicenses")}) },
			drivertest.InsufficientCapacity: func() { w.wire.add(&rule{methods: changing, answer: fault("InsufficientMemoryResourcesFault")}) },
		},
		// The clone exists, powered off and without its rule, and its creation was not answered.
		Interrupt:   func() { w.wire.add(&rule{methods: []string{"CloneVM_Task"}, lost: true}) },
		Attach:      w.attach,
		Untag:       w.untag,
		Leftovers:   w.leftovers,
		UniqueNames: true,
		Stop: func() {
			for _, machine := range w.ours() {
				w.do(object.NewVirtualMachine(w.admin.Client, machine.Self).PowerOff(w.t.Context()))
			}
		},
		Restarts: func() int { return w.wire.count("ResetVM_Task") },
		Changes:  w.wire.changes,
	}
}
