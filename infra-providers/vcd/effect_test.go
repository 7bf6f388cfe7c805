// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package vcd_test

import (
	"strings"
	"testing"

	infrav1 "drover.io/api/infrastructure/v1alpha1"
	"drover.io/infra-providers/driver"
	"drover.io/infra-providers/vcd"
	"drover.io/infra-providers/vcd/vcdfake"
)

// attempt creates a machine until it exists, or something else is reported than that it is not finished.
func attempt(t *testing.T, d driver.Driver[vcd.InstanceConfig], req driver.CreateRequest[vcd.InstanceConfig]) error {
	t.Helper()
	var err error
	for range 50 {
		if _, err = d.Create(t.Context(), req); !driver.IsUnfinished(err) {
			break
		}
	}
	return err
}

// TestWhatIsIgnored is reported with the field, and requested again by each attempt, as what ignored it may have changed. It is
// reported until it was applied: requests that are accepted are no progress, and one that is refused is repeated.
func TestWhatIsIgnored(t *testing.T) {
	t.Parallel()
	hardware, data := "reconfigure", "setProductSections"
	for name, test := range map[string]struct {
		options   vcdfake.Options
		operation string
		requests  int
		field     string
	}{
		"a limit that the storage profile does not have": {vcdfake.Options{IgnoreIOPS: true}, hardware, 2, "spec.diskIOPS"},
		"cores that the sizing policy determines":        {vcdfake.Options{IgnoreCores: true}, hardware, 2, "spec.coresPerSocket"},
		"all hardware":   {vcdfake.Options{Ineffective: func(operation string) bool { return operation == "vappUpdateVm" }}, hardware, 1, "spec.cpus"},
		"bootstrap data": {vcdfake.Options{IgnoreProperties: true}, data, 1, "spec.template"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newEnv(t, test.options)
			d := w.connect(t)
			req := newRequest(identity, newConfig(t, func(s *infrav1.VCDMachineSpec) { s.CoresPerSocket, s.DiskSizeGB, s.DiskIOPS = 2, 50, 1000 }))
			isIgnored := func(err error) bool {
				return driver.IsInvalidConfiguration(err) && strings.Contains(err.Error(), test.field+":")
			}
			if err := attempt(t, d, req); !isIgnored(err) {
				t.Fatalf("got %v, want an InvalidConfigurationError of %s", err, test.field)
			}
			for n := range 3 {
				if got, want := w.cloud.Counts()[test.operation], test.requests+n+1; got != want {
					t.Errorf("%d requests after %d attempts, want %d", got, n+1, want)
				}
				w.cloud.Advance()
				if _, err := d.Create(t.Context(), req); !isIgnored(err) {
					t.Fatalf("the next attempt: got %v, want an InvalidConfigurationError of %s", err, test.field)
				}
			}
			w.cloud.Advance()
			w.cloud.FailNext(vcdfake.Fault{Status: 400, Code: "BUSY_ENTITY", Operation: test.operation})
			if _, err := d.Create(t.Context(), req); !driver.IsUnfinished(err) {
				t.Errorf("while it is busy: got %v, want an UnfinishedError", err)
			}
			if _, err := d.Create(t.Context(), req); !isIgnored(err) {
				t.Errorf("after it was busy: got %v, want an InvalidConfigurationError of %s", err, test.field)
			}
			w.cloud.ApplyAll()
			w.cloud.Advance()
			if err := attempt(t, d, req); err != nil {
				t.Errorf("once it is applied: %v", err)
			}
			remove(t, d, identity)
		})
	}
}

// TestLostAnswerIsAwaited: what was ignored may be applied by a request whose answer is lost, and the next read may be behind.
func TestLostAnswerIsAwaited(t *testing.T) {
	t.Parallel()
	w := newEnv(t, vcdfake.Options{IgnoreCores: true, LateHardware: 1})
	d := w.connect(t)
	req := newRequest(identity, newConfig(t, func(s *infrav1.VCDMachineSpec) { s.CoresPerSocket = 2 }))
	if err := attempt(t, d, req); !driver.IsInvalidConfiguration(err) {
		t.Fatalf("got %v, want an InvalidConfigurationError", err)
	}
	w.cloud.Advance()
	w.cloud.ApplyAll()
	w.cloud.FailNext(vcdfake.Fault{Lost: true, Operation: "reconfigure"})
	if _, err := d.Create(t.Context(), req); err == nil || driver.IsUnfinished(err) {
		t.Fatalf("got %v, want the lost answer", err)
	}
	before := w.cloud.Counts()["reconfigure"]
	w.cloud.Advance()
	if err := attempt(t, d, req); err != nil {
		t.Errorf("once it is applied: %v", err)
	}
	if got := w.cloud.Counts()["reconfigure"]; got != before {
		t.Errorf("requested %d times more", got-before)
	}
	remove(t, d, identity)
}

// TestAnotherVirtualMachineIsNotJudgedByTheFirst that others deleted, although nothing is known of the request that replaced it.
func TestAnotherVirtualMachineIsNotJudgedByTheFirst(t *testing.T) {
	t.Parallel()
	w := newEnv(t, vcdfake.Options{Ineffective: func(operation string) bool { return operation == "vappUpdateVm" }})
	d := w.connect(t)
	req := newRequest(identity, newConfig(t, func(s *infrav1.VCDMachineSpec) { s.CoresPerSocket = 2 }))
	if err := attempt(t, d, req); !driver.IsInvalidConfiguration(err) {
		t.Fatalf("got %v, want an InvalidConfigurationError", err)
	}
	w.cloud.Advance()
	if _, err := d.Create(t.Context(), req); !driver.IsInvalidConfiguration(err) {
		t.Fatalf("got %v, want an InvalidConfigurationError", err)
	}
	remove(t, w.connect(t), identity)
	before := w.cloud.Counts()["reconfigure"]
	w.cloud.FailNext(vcdfake.Fault{Lost: true, Operation: "recompose"})
	for range 50 {
		if _, err := d.Create(t.Context(), req); driver.IsInvalidConfiguration(err) {
			break
		}
	}
	if got := w.cloud.Counts()["reconfigure"] - before; got != 2 {
		t.Errorf("its hardware was requested %d times before it was reported as ignored, want 2", got)
	}
	remove(t, d, identity)
}

// TestHardwareIsReadAgain: one read may be behind.
func TestHardwareIsReadAgain(t *testing.T) {
	t.Parallel()
	w := newEnv(t, vcdfake.Options{LateHardware: 1})
	d := w.connect(t)
	req := newRequest(identity, newConfig(t, func(s *infrav1.VCDMachineSpec) { s.DiskSizeGB = 50 }))
	for range 50 {
		if _, err := d.Create(t.Context(), req); err == nil {
			remove(t, d, identity)
			return
		} else if !driver.IsUnfinished(err) {
			t.Fatal(err)
		}
	}
	t.Error("it is never created")
}

// TestFailedChangeOfTheHardwareIsRepeated: it was reported by its task.
func TestFailedChangeOfTheHardwareIsRepeated(t *testing.T) {
	t.Parallel()
	failures := 3
	w := newEnv(t, vcdfake.Options{FailTasks: func(operation string) bool {
		fails := operation == "vappUpdateVm" && failures > 0
		if fails {
			failures--
		}
		return fails
	}})
	d, seen := w.connect(t), 0
	for range 50 {
		_, err := d.Create(t.Context(), newRequest(identity, newConfig(t, unchanged)))
		if err == nil {
			break
		}
		if driver.IsInvalidConfiguration(err) {
			t.Fatal(err)
		}
		if !driver.IsUnfinished(err) {
			seen++
		}
	}
	if seen != 3 {
		t.Errorf("%d failures were reported, want 3", seen)
	}
}

// TestOtherBootstrapDataIsSet at once, although the first was ignored.
func TestOtherBootstrapDataIsSet(t *testing.T) {
	t.Parallel()
	w := newEnv(t, vcdfake.Options{IgnoreProperties: true})
	d, req := w.connect(t), newRequest(identity, newConfig(t, unchanged))
	if err := attempt(t, d, req); !driver.IsInvalidConfiguration(err) {
		t.Fatalf("got %v, want an InvalidConfigurationError", err)
	}
	w.cloud.ApplyAll()
	req.UserData = []byte("#cloud-config\n# renewed\n")
	w.cloud.Advance()
	before := w.cloud.Counts()["setProductSections"]
	if err := attempt(t, d, req); err != nil {
		t.Error(err)
	}
	if got := w.cloud.Counts()["setProductSections"] - before; got != 1 {
		t.Errorf("set %d times, want once", got)
	}
	remove(t, d, identity)
}

// TestStepWithoutEffectIsReported before it is taken again.
func TestStepWithoutEffectIsReported(t *testing.T) {
	t.Parallel()
	for _, operation := range []string{"metadataUpdate", "vappDeploy"} {
		ignored := 2
		w := newEnv(t, vcdfake.Options{Ineffective: func(of string) bool {
			ignores := of == operation && ignored > 0
			if ignores {
				ignored--
			}
			return ignores
		}})
		d, seen, done := w.connect(t), 0, false
		for range 50 {
			_, err := d.Create(t.Context(), newRequest(identity, newConfig(t, unchanged)))
			if done = err == nil; done {
				break
			}
			if !driver.IsUnfinished(err) {
				seen++
			}
		}
		if seen != 2 || !done {
			t.Errorf("%s: %d reports, want 2; done: %t", operation, seen, done)
		}
	}
}

// TestDeletionWithoutEffectIsReported: a task of a deletion that ends and changes nothing is not started again without a word.
func TestDeletionWithoutEffectIsReported(t *testing.T) {
	t.Parallel()
	for _, operation := range []string{"vappUndeployPowerOff", "vappDetachDisk", "vappDeleteVm"} {
		ignored := 2
		w := newEnv(t, vcdfake.Options{Ineffective: func(of string) bool {
			ignores := of == operation && ignored > 0
			if ignores {
				ignored--
			}
			return ignores
		}})
		d, id, seen := w.connect(t), identity, 0
		made := create(t, d, newRequest(id, newConfig(t, unchanged)))
		id.ProviderID = made.ProviderID
		w.cloud.Attach(made.ID)
		w.cloud.Attach(made.ID)
		for range 50 {
			if err := d.Delete(t.Context(), id); err != nil && !driver.IsUnfinished(err) {
				seen++
			}
			if driver.IsNotFound(get(t, d, id)) {
				break
			}
		}
		if left := w.cloud.Leftovers(); len(left) > 0 || seen != 2 {
			t.Errorf("%s: %d reports, want 2; %q is left", operation, seen, left)
		}
	}
}
