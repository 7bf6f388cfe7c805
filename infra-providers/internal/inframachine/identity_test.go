// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package inframachine_test

import (
	"errors"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "drover.io/api/infrastructure/v1alpha1"
	"drover.io/infra-providers/driver/fake"
)

// setAnotherIdentity writes an identity into a machine as a core controller does that copies the annotations of a
// MachineDeployment's template.
func (r *fixture) setAnotherIdentity(m *infrav1.SimMachine) {
	r.t.Helper()
	patch := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"annotations":{"`+infrav1.IdentityAnnotation+`":"x"}}}`))
	if err := cluster.Client.Patch(r.t.Context(), m, patch); err != nil {
		r.t.Fatal(err)
	}
}

func TestAnotherIdentityDoesNotDisownTheInstance(t *testing.T) {
	t.Parallel()
	r := newFixture(t, fake.Options{})
	m, _ := r.machine("worker")
	r.settle(m)
	r.setAnotherIdentity(m)
	r.settle(m)
	if got := m.Annotations[infrav1.IdentityAnnotation]; got != string(m.UID) {
		t.Errorf("the identity is %q, not corrected to %q: %+v", got, m.UID, m.Status.Conditions)
	}
	r.setAnotherIdentity(m)
	r.delete(m)
	r.settle(m)
	r.wantGone(m)
	r.wantInCloud(0)
}

// TestAnotherIdentityAfterALostAnswer has an instance whose providerID no object has.
func TestAnotherIdentityAfterALostAnswer(t *testing.T) {
	t.Parallel()
	for name, deleted := range map[string]bool{"is created once": false, "is deleted": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newFixture(t, fake.Options{})
			m, _ := r.machine("worker")
			r.faults = func(call fake.Call) fake.Fault {
				if call.Operation == "create" {
					return fake.Fault{Err: errors.New("lost"), Lost: true}
				}
				return fake.Fault{}
			}
			for range 10 {
				if _, _ = r.reconcile(m); len(r.cloud.Snapshot().Instances) > 0 {
					break
				}
			}
			r.faults = nil
			r.setAnotherIdentity(m)
			r.restart()
			if deleted {
				r.delete(m)
			}
			r.settle(m)
			if deleted {
				r.wantGone(m)
				r.wantInCloud(0)
				return
			}
			r.wantInCloud(1)
		})
	}
}

// TestAFailureToCorrectTheIdentityIsInACondition: the cloud refuses the read under the UID of the object.
func TestAFailureToCorrectTheIdentityIsInACondition(t *testing.T) {
	t.Parallel()
	r := newFixture(t, fake.Options{})
	m, _ := r.machine("worker")
	r.settle(m)
	r.setAnotherIdentity(m)
	r.delete(m)
	refused := errors.New("the cloud refuses")
	r.faults = func(call fake.Call) fake.Fault {
		if call.Operation == "get" && call.Identity.UID == m.UID {
			return fake.Fault{Err: refused}
		}
		return fake.Fault{}
	}
	for range 5 {
		_, _ = r.reconcile(m)
	}
	ready := meta.FindStatusCondition(m.Status.Conditions, clusterv1.ReadyCondition)
	if ready == nil || !strings.Contains(ready.Message, refused.Error()) || len(m.Finalizers) == 0 {
		t.Errorf("Ready is %+v, finalizers %v", ready, m.Finalizers)
	}
	r.faults = nil
	r.settle(m)
	r.wantGone(m)
	r.wantInCloud(0)
}
