// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package inframachine_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "drover.io/api/infrastructure/v1alpha1"
	"drover.io/infra-providers/driver"
	"drover.io/infra-providers/driver/fake"
)

// strip removes the ownership tags from an instance, as another client of the cloud would.
func (r *fixture) strip(machine *infrav1.SimMachine) {
	r.cloud.Set(machine.UID, func(i *driver.Instance) { i.Identity = driver.Identity{ProviderID: i.ProviderID} })
}

// wantMessage fails unless the message of Ready has all parts.
func (r *fixture) wantMessage(machine *infrav1.SimMachine, parts ...string) {
	r.t.Helper()
	ready := meta.FindStatusCondition(machine.Status.Conditions, clusterv1.ReadyCondition)
	for _, part := range parts {
		if ready == nil || !strings.Contains(ready.Message, part) {
			r.t.Errorf("Ready is %+v, which lacks %q", ready, part)
		}
	}
}

// wantEvent fails unless exactly one event has the reason, and none has one of the others.
func (r *fixture) wantEvent(reason string, not ...string) {
	r.t.Helper()
	count, all := 0, r.events()
	for _, e := range all {
		if strings.Contains(e, " "+reason+" ") {
			count++
		}
		for _, wrong := range not {
			if strings.Contains(e, " "+wrong+" ") {
				r.t.Errorf("event %q", e)
			}
		}
	}
	if count != 1 {
		r.t.Errorf("%s has %d events among %q, want one", reason, count, all)
	}
}

// TestDeletionOfAnUntaggedInstance: it may be the machine's own and cost money, so the finalizer stays.
func TestDeletionOfAnUntaggedInstance(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		out    func(*fixture, *infrav1.SimMachine, driver.Identity)
		reason string
		left   int
	}{
		"until its tags are back": {func(r *fixture, m *infrav1.SimMachine, was driver.Identity) {
			r.cloud.RestoreTags(m.Spec.ProviderID, was)
		}, "InstanceDeleted", 0},
		"until it is deleted in the cloud": {func(r *fixture, m *infrav1.SimMachine, was driver.Identity) {
			r.cloud.RestoreTags(m.Spec.ProviderID, was)
			r.cloud.Destroy(was.UID)
		}, "InstanceDeleted", 0},
		"until it is released": {func(r *fixture, m *infrav1.SimMachine, _ driver.Identity) {
			r.update(m, func() { m.Annotations[infrav1.ReleaseAnnotation] = m.Spec.ProviderID })
		}, "InstanceReleased", 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newFixture(t, fake.Options{})
			machine, _ := r.machine("worker")
			r.settle(machine)
			was := r.cloud.Snapshot().Instances[machine.UID]
			r.strip(machine)
			r.delete(machine)
			r.settle(machine)
			r.events()
			for range 2 {
				if result, err := r.reconcile(machine); err != nil || result.RequeueAfter == 0 {
					t.Fatalf("got %+v and %v, want another look later", result, err)
				}
				r.wantReason(machine, clusterv1.ReadyCondition, infrav1.InstanceTagsMissingReason)
				r.wantMessage(machine, machine.Spec.ProviderID, "last known state is Running", "put back its tags", string(machine.UID), infrav1.ReleaseAnnotation)
			}
			r.update(machine, func() { machine.Annotations[infrav1.ReleaseAnnotation] = "another" })
			if _, _ = r.reconcile(machine); machine.ResourceVersion == "" {
				t.Fatal("released by the name of another instance")
			}
			test.out(r, machine, was)
			r.settle(machine)
			r.wantGone(machine)
			if got := len(r.cloud.Snapshot().Instances); got != test.left {
				t.Errorf("the cloud has %d instances, want %d", got, test.left)
			}
			wrong := map[string]string{"InstanceDeleted": "InstanceReleased", "InstanceReleased": "InstanceDeleted"}
			r.wantEvent(test.reason, wrong[test.reason])
		})
	}
}

// TestUntaggedInstanceOfARunningMachine is reported until its tags are restored.
func TestUntaggedInstanceOfARunningMachine(t *testing.T) {
	t.Parallel()
	r := newFixture(t, fake.Options{})
	machine, _ := r.machine("worker")
	r.settle(machine)
	was := r.cloud.Snapshot().Instances[machine.UID]
	r.strip(machine)
	r.settle(machine)
	r.wantReason(machine, clusterv1.ReadyCondition, infrav1.InstanceTagsMissingReason)
	r.wantMessage(machine, machine.Spec.ProviderID, "put back its tags")
	r.cloud.RestoreTags(machine.Spec.ProviderID, was)
	r.settle(machine)
	r.wantReason(machine, clusterv1.ReadyCondition, infrav1.InstanceRunningReason)
	r.wantInCloud(1)
}

// TestForeignInstanceIsNotReportedAsDeleted: the recorded providerID names an instance of another owner, and the
// machine has one of its own or none.
func TestForeignInstanceIsNotReportedAsDeleted(t *testing.T) {
	t.Parallel()
	for name, own := range map[string]bool{"beside its own": true, "without its own": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newFixture(t, fake.Options{})
			owner, _ := r.machine("victim")
			r.settle(owner)
			machine, _ := r.machine("worker")
			r.settle(machine)
			r.wantInCloud(2)
			if !own {
				r.cloud.Destroy(machine.UID)
			}
			wrong := &infrav1.SimMachine{ObjectMeta: metav1.ObjectMeta{
				Namespace: machine.Namespace, Name: machine.Name, Labels: machine.Labels, Annotations: machine.Annotations, Finalizers: machine.Finalizers,
			}, Spec: infrav1.SimMachineSpec{InstanceType: "small", ProviderID: owner.Spec.ProviderID}}
			r.update(machine, func() { machine.Finalizers = nil })
			r.delete(machine)
			if err := cluster.Client.Create(t.Context(), wrong); err != nil {
				t.Fatal(err)
			}
			r.events()
			r.delete(wrong)
			r.settle(wrong)
			r.wantGone(wrong)
			r.wantInCloud(1)
			if _, ok := r.cloud.Snapshot().Instances[owner.UID]; !ok {
				t.Error("the victim lost its instance")
			}
			r.wantEvent(infrav1.InstanceNotOwnedReason, "InstanceDeleted")
		})
	}
}

// TestForeignInstanceAndAnUntaggedOne: the recorded providerID names an instance of another owner, and the one with the
// machine's UID lacks tags, as only the second Delete or only the read after it reports.
func TestForeignInstanceAndAnUntaggedOne(t *testing.T) {
	t.Parallel()
	for _, operation := range []string{"delete", "get"} {
		t.Run(operation, func(t *testing.T) {
			t.Parallel()
			r := newFixture(t, fake.Options{})
			machine, _ := r.machine("worker")
			r.settle(machine)
			other := driver.Identity{UID: "other", Name: "other", Owner: driver.Owner{UID: "c", Namespace: "n", Name: "c"}}
			r.faults = func(call fake.Call) fake.Fault {
				switch byProviderID := call.Identity.ProviderID != ""; {
				case call.Operation == "delete" && byProviderID:
					return fake.Fault{Err: &driver.NotOwnedError{ProviderID: call.Identity.ProviderID, Found: other, Requested: call.Identity}}
				case call.Operation == operation && !byProviderID:
					return fake.Fault{Err: &driver.NotOwnedError{ProviderID: "fake:///z/own", Requested: call.Identity}}
				case call.Operation == "get" && !byProviderID:
					return fake.Fault{Err: &driver.NotFoundError{What: "instance"}}
				case call.Operation == "delete":
					return fake.Fault{Err: &driver.NotOwnedError{ProviderID: "fake:///z/own", Found: other, Requested: call.Identity}}
				}
				return fake.Fault{}
			}
			r.delete(machine)
			r.settle(machine)
			if len(machine.Finalizers) == 0 {
				t.Fatal("the finalizer was removed while an instance may be the machine's own")
			}
			r.wantReason(machine, clusterv1.ReadyCondition, infrav1.InstanceTagsMissingReason)
		})
	}
}

// TestUntaggedInstanceWithoutAProviderID: only Delete reports that the instance with the machine's UID lacks tags, and a
// read a moment later finds nothing.
func TestUntaggedInstanceWithoutAProviderID(t *testing.T) {
	t.Parallel()
	r := newFixture(t, fake.Options{})
	machine, _ := r.machine("worker")
	if _, err := r.reconcile(machine); err != nil {
		t.Fatal(err)
	}
	r.faults = func(call fake.Call) fake.Fault {
		switch call.Operation {
		case "delete":
			return fake.Fault{Err: &driver.NotOwnedError{ProviderID: "fake:///z/own", Requested: call.Identity}}
		case "get":
			return fake.Fault{Err: &driver.NotFoundError{What: "instance"}}
		}
		return fake.Fault{}
	}
	r.delete(machine)
	r.settle(machine)
	if len(machine.Finalizers) == 0 {
		t.Fatal("the finalizer was removed while an instance may be the machine's own")
	}
	r.wantReason(machine, clusterv1.ReadyCondition, infrav1.InstanceTagsMissingReason)
}

// TestDeletionWithoutAnIdentity: the answer to the creation was stored nowhere, and the annotation with the
// identity was removed.
func TestDeletionWithoutAnIdentity(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		out  string
		left int
	}{
		"until its annotation is back": {infrav1.IdentityAnnotation, 0},
		"until it is released":         {infrav1.ReleaseAnnotation, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newFixture(t, fake.Options{})
			machine, _ := r.machine("worker")
			for range 6 {
				r.refusal = errKilled
				_, _ = r.reconcile(machine)
			}
			r.wantInCloud(1)
			r.refusal = nil
			r.update(machine, func() { delete(machine.Annotations, infrav1.IdentityAnnotation) })
			r.restart()
			r.delete(machine)
			r.settle(machine)
			r.wantReason(machine, clusterv1.ReadyCondition, infrav1.IdentityUnknownReason)
			r.wantMessage(machine, infrav1.IdentityAnnotation, driver.TagMachineUID, string(machine.UID), infrav1.ReleaseAnnotation)
			r.wantInCloud(1)
			r.update(machine, func() { metav1.SetMetaDataAnnotation(&machine.ObjectMeta, test.out, string(machine.UID)) })
			r.settle(machine)
			r.wantGone(machine)
			r.wantInCloud(test.left)
		})
	}
}

// TestReleaseWhileTheCloudFails: that a cloud is unreachable for good is the user's decision.
func TestReleaseWhileTheCloudFails(t *testing.T) {
	t.Parallel()
	r := newFixture(t, fake.Options{})
	machine, _ := r.machine("worker")
	r.settle(machine)
	r.faults = func(fake.Call) fake.Fault { return fake.Fault{Err: errors.New("no such host")} }
	r.delete(machine)
	if _, err := r.reconcile(machine); err == nil {
		t.Fatal("the failure was swallowed")
	}
	r.wantReason(machine, clusterv1.ReadyCondition, infrav1.CloudErrorReason)
	r.wantMessage(machine, "no such host", "if the cloud never answers again", infrav1.ReleaseAnnotation+"="+machine.Spec.ProviderID)
	r.update(machine, func() { machine.Annotations[infrav1.ReleaseAnnotation] = machine.Spec.ProviderID })
	r.settle(machine)
	r.wantGone(machine)
	r.wantEvent("InstanceReleased", "InstanceDeleted")
}

// TestNoReleaseWhileTheCallIsPostponed: the annotation does not count for an error with a time to retry after.
func TestNoReleaseWhileTheCallIsPostponed(t *testing.T) {
	t.Parallel()
	for name, postponed := range map[string]error{
		"by a rate limit":            &driver.RateLimitedError{RetryAfter: time.Nanosecond, Err: errors.New("slow down")},
		"because no worker was free": &driver.BusyError{},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newFixture(t, fake.Options{})
			machine, _ := r.machine("worker")
			r.settle(machine)
			r.update(machine, func() { machine.Annotations[infrav1.ReleaseAnnotation] = machine.Spec.ProviderID })
			r.faults = func(call fake.Call) fake.Fault {
				if call.Operation == "delete" {
					return fake.Fault{Err: postponed}
				}
				return fake.Fault{}
			}
			r.delete(machine)
			for range 3 {
				if _, err := r.reconcile(machine); err != nil {
					t.Fatal(err)
				}
			}
			if len(machine.Finalizers) == 0 {
				t.Fatal("the finalizer was removed and the instance kept")
			}
			r.faults, r.later = nil, time.Hour
			r.settle(machine)
			r.wantGone(machine)
			r.wantInCloud(0)
		})
	}
}

// TestDeletesWhatIsLeftBesideTheInstance: a volume that the cloud fails to delete with its server.
func TestDeletesWhatIsLeftBesideTheInstance(t *testing.T) {
	t.Parallel()
	r := newFixture(t, fake.Options{DeleteReads: 2, RetainDisks: true})
	machine, _ := r.machine("worker")
	r.settle(machine)
	r.delete(machine)
	for range 5 {
		if _, err := r.reconcile(machine); err != nil {
			t.Fatal(err)
		}
	}
	r.wantGone(machine)
	r.wantInCloud(0)
	if left := r.cloud.Snapshot().Disks; len(left) > 0 {
		t.Errorf("left are the disks %v", left)
	}
}
