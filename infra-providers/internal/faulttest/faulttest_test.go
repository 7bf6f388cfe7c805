// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package faulttest

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"os"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	infrav1 "drover.io/api/infrastructure/v1alpha1"
	"drover.io/infra-providers/driver"
	"drover.io/infra-providers/driver/fake"
	"drover.io/infra-providers/internal/testenv"
)

var cluster *testenv.Cluster

func TestMain(m *testing.M) {
	os.Exit(testenv.Main(m, func(started *testenv.Cluster) error {
		cluster = started
		return nil
	}))
}

// TestFinds runs the rig over drivers that break the contract, each in one way.
func TestFinds(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		driver func(c *fake.Cloud, interrupt func()) driver.Driver[fake.Config]
		// want are the ways in which it may show first: UIDs, and with them the order of lists, differ between runs.
		want []error
	}{
		"nothing in a driver that keeps the contract":     {func(c *fake.Cloud, _ func()) driver.Driver[fake.Config] { return c }, nil},
		"an instance for each time that it was asked for": {func(c *fake.Cloud, _ func()) driver.Driver[fake.Config] { return &createsTwice{Cloud: c} }, []error{errDoubled}},
		"a deletion that is reported too early": {func(c *fake.Cloud, _ func()) driver.Driver[fake.Config] {
			return &reportsDeletedEarly{c, map[types.UID]bool{}}
		}, []error{errLeaked}},
		"a disk that stays":                                            {func(c *fake.Cloud, interrupt func()) driver.Driver[fake.Config] { return &leavesDisk{c, interrupt} }, []error{errLeaked}},
		"a failure that is taken for absence":                          {func(c *fake.Cloud, _ func()) driver.Driver[fake.Config] { return &reportsErrorAsNotFound{Cloud: c} }, []error{errGivenUp, errDoubled}},
		"an instance that never gets deleted":                          {func(c *fake.Cloud, _ func()) driver.Driver[fake.Config] { return &neverDeletes{c} }, []error{errStuck}},
		"a look-up by name alone":                                      {func(c *fake.Cloud, _ func()) driver.Driver[fake.Config] { return &deletesByName{c} }, []error{errTouched}},
		"a check that compares no more than names":                     {func(c *fake.Cloud, _ func()) driver.Driver[fake.Config] { return &trustsNames{c} }, []error{errTouched}},
		"tags that are put on what another owner has":                  {func(c *fake.Cloud, _ func()) driver.Driver[fake.Config] { return &adoptsForeign{c} }, []error{errTouched}},
		"a refusal for lack of room though the instance was made":      {func(c *fake.Cloud, _ func()) driver.Driver[fake.Config] { return &refusesAfterCreating{Cloud: c} }, []error{errDoubled}},
		"nothing where one that was never started is replaced":         {replacing(driver.Stopped, true, true), nil},
		"nothing where one that is being deleted is replaced":          {replacing(driver.Stopping, true, true), nil},
		"a second one beside one that was never started":               {replacing(driver.Stopped, false, true), []error{errDoubled}},
		"one that is replaced in a cloud that does not report doubles": {replacing(driver.Stopped, true, false), []error{errDoubled}},
		"one that starts and is replaced":                              {replacing(driver.Pending, true, true), []error{errDoubled}},
		"one that ran and is replaced":                                 {replacing(driver.Running, true, true), []error{errDoubled}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			hooks := fake.Environment(fake.Options{BootReads: 1, DeleteReads: 1})
			broken := test.driver(hooks.Driver.(*fake.Cloud), hooks.Interrupt)
			replaced, is := broken.(*replaces)
			rand := newRand(1)
			s, err := newRun(t.Context(), cluster, rand, Environment[*infrav1.SimMachine, fake.Config]{
				Cloud: driver.Cloud[*infrav1.SimMachine, fake.Config]{
					Name:       "fake",
					NewMachine: func() *infrav1.SimMachine { return &infrav1.SimMachine{} },
					Config: func(*infrav1.SimMachine, string) (fake.Config, error) {
						return fake.Config{InstanceType: "small", Zone: "a"}, nil
					},
					Alternatives: func(fake.Config) []fake.Config { return []fake.Config{{InstanceType: "large", Zone: "b"}} },
					Offering:     func(c fake.Config) (string, string) { return c.InstanceType, c.Zone },
					Account:      func(*infrav1.SimMachine) driver.Account { return driver.Account{} },
					Connect: func(context.Context, driver.Account, driver.Credentials) (driver.Driver[fake.Config], error) {
						return broken, nil
					},
				},
				Machine:        func() *infrav1.SimMachine { return &infrav1.SimMachine{} },
				Hooks:          hooks,
				ReportsDoubles: is && replaced.reported,
			})
			if err != nil {
				t.Fatal(err)
			}
			s.maxReconciles = 100
			if err = s.run(t.Context(), func(begun int) bool { return begun < 40 }); err == nil {
				err = s.checkRemaining(t.Context())
			}
			found := func(want error) bool { return errors.Is(err, want) }
			if len(test.want) == 0 && err != nil || len(test.want) > 0 && !slices.ContainsFunc(test.want, found) {
				t.Errorf("got %v, want any of %v", err, test.want)
			}
		})
	}
}

// createsTwice creates each request in another zone, so that a repeated one creates another instance.
type createsTwice struct {
	*fake.Cloud
	requests int
}

func (d *createsTwice) Create(ctx context.Context, req driver.CreateRequest[fake.Config]) (driver.Instance, error) {
	d.requests++
	req.Config.Zone = fmt.Sprint("zone-", d.requests)
	return d.Cloud.Create(ctx, req)
}

// reportsDeletedEarly reports an instance as terminated once its deletion was requested, and never deletes it.
type reportsDeletedEarly struct {
	*fake.Cloud
	requests map[types.UID]bool
}

func (d *reportsDeletedEarly) Delete(_ context.Context, id driver.Identity) error {
	d.requests[id.UID] = true
	return nil
}

func (d *reportsDeletedEarly) Get(ctx context.Context, id driver.Identity) (driver.Instance, error) {
	if d.requests[id.UID] {
		return driver.Instance{State: driver.Terminated}, nil
	}
	return d.Cloud.Get(ctx, id)
}

// leavesDisk leaves a disk behind when an instance does not exist any more.
type leavesDisk struct {
	*fake.Cloud
	interrupt func()
}

func (d *leavesDisk) Get(ctx context.Context, id driver.Identity) (driver.Instance, error) {
	found, err := d.Cloud.Get(ctx, id)
	if id.ProviderID != "" && driver.IsNotFound(err) {
		d.interrupt()
		_, _ = d.Cloud.Create(ctx, driver.CreateRequest[fake.Config]{Identity: id, Config: fake.Config{InstanceType: "small", Zone: "a"}})
	}
	return found, err
}

// reportsErrorAsNotFound returns NotFoundError for every fifth read, as if it had failed.
type reportsErrorAsNotFound struct {
	*fake.Cloud
	read int
}

func (d *reportsErrorAsNotFound) Get(ctx context.Context, id driver.Identity) (driver.Instance, error) {
	if d.read++; d.read%5 == 0 {
		return driver.Instance{}, &driver.NotFoundError{What: "instance"}
	}
	return d.Cloud.Get(ctx, id)
}

// neverDeletes accepts deletions and does nothing.
type neverDeletes struct{ *fake.Cloud }

func (d *neverDeletes) Delete(context.Context, driver.Identity) error { return nil }

// refusesAfterCreating creates an instance and returns InsufficientCapacityError.
type refusesAfterCreating struct {
	*fake.Cloud
	requests int
}

func (d *refusesAfterCreating) Create(ctx context.Context, req driver.CreateRequest[fake.Config]) (driver.Instance, error) {
	made, err := d.Cloud.Create(ctx, req)
	if d.requests++; d.requests%4 == 0 && err == nil {
		return driver.Instance{}, &driver.InsufficientCapacityError{InstanceType: "small", Zone: "a", Err: errors.New("full")}
	}
	return made, err
}

// replaces lists the first instance of each machine in a state, and then creates another one.
type replaces struct {
	*fake.Cloud
	state driver.State
	// deletes is true if it deletes the first before, and reported if the cloud would report the second otherwise.
	deletes, reported bool
	// listed is whether the first instance of a machine was listed.
	listed map[types.UID]bool
}

func replacing(state driver.State, deletes, reported bool) func(*fake.Cloud, func()) driver.Driver[fake.Config] {
	return func(c *fake.Cloud, _ func()) driver.Driver[fake.Config] {
		return &replaces{c, state, deletes, reported, map[types.UID]bool{}}
	}
}

func (d *replaces) Create(ctx context.Context, req driver.CreateRequest[fake.Config]) (driver.Instance, error) {
	uid, first := req.Identity.UID, req
	if strings.HasPrefix(string(uid), "0f") { // of another tenant, before the first fault
		return d.Cloud.Create(ctx, req)
	}
	first.Config.Zone = "first"
	listed, known := d.listed[uid]
	if !known {
		if _, err := d.Cloud.Create(ctx, first); err != nil {
			return driver.Instance{}, err
		}
		d.listed[uid] = false
	}
	if !listed {
		return driver.Instance{}, &driver.UnfinishedError{Err: errors.New("not started yet")}
	}
	id := req.Identity
	id.ProviderID = ""
	switch found, err := d.Cloud.Get(ctx, id); {
	case err != nil && !driver.IsNotFound(err):
		return driver.Instance{}, err
	case err == nil && d.deletes && found.FailureDomain == "first":
		d.DestroyInstance(found.ProviderID)
	}
	return d.Cloud.Create(ctx, req)
}

func (d *replaces) List(ctx context.Context, owner driver.Owner) iter.Seq2[driver.Instance, error] {
	return func(yield func(driver.Instance, error) bool) {
		for found, err := range d.Cloud.List(ctx, owner) {
			if err == nil && found.FailureDomain == "first" {
				d.listed[found.Identity.UID], found.State = true, d.state
			}
			if !yield(found, err) {
				return
			}
		}
	}
}

// deletesByName deletes every instance of the name, whatever its UID.
type deletesByName struct{ *fake.Cloud }

func (d *deletesByName) Delete(ctx context.Context, id driver.Identity) error {
	for _, known := range d.Snapshot().Instances {
		if known.Name == id.Name && known.UID != id.UID {
			_ = d.Cloud.Delete(ctx, known)
		}
	}
	return d.Cloud.Delete(ctx, id)
}

// adoptsForeign changes the tags of another management cluster's instances to its own when it creates one.
type adoptsForeign struct{ *fake.Cloud }

func (d *adoptsForeign) Create(ctx context.Context, req driver.CreateRequest[fake.Config]) (driver.Instance, error) {
	for _, known := range d.Snapshot().Instances {
		if known.Owner.Owns(req.Identity.Owner) && known.Owner.UID != req.Identity.Owner.UID {
			known.Owner.UID = req.Identity.Owner.UID
			_ = d.Tag(ctx, known)
		}
	}
	return d.Cloud.Create(ctx, req)
}

// trustsNames returns the instance of a provider ID whose name matches, whatever its UID.
type trustsNames struct{ *fake.Cloud }

func (d *trustsNames) Get(ctx context.Context, id driver.Identity) (driver.Instance, error) {
	return d.Cloud.Get(ctx, d.named(id))
}

func (d *trustsNames) Delete(ctx context.Context, id driver.Identity) error {
	return d.Cloud.Delete(ctx, d.named(id))
}

func (d *trustsNames) named(id driver.Identity) driver.Identity {
	for _, known := range d.Snapshot().Instances {
		if known.Name == id.Name && known.ProviderID == id.ProviderID {
			return known
		}
	}
	return id
}
