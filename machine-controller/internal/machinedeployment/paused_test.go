// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package machinedeployment

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"drover.io/machine-controller/internal/index/indextest"
	"drover.io/machine-controller/internal/rollout/revision"
	"drover.io/machine-controller/internal/statuswriter"
	"drover.io/machine-controller/internal/testenv"
)

// reconcilerWith has these objects in a namespace of their own, and sends every request through funcs.
func reconcilerWith(t *testing.T, funcs interceptor.Funcs, objects ...client.Object) *Reconciler {
	t.Helper()
	api := indextest.NewClient(t, server.Client(t))
	indextest.Create(t, api, server.Namespace(t), objects...)
	c, clock := interceptor.NewClient(api, funcs), clocktesting.NewFakePassiveClock(epoch)
	return &Reconciler{Client: c, Live: c, Events: events.NewFakeRecorder(9), Clock: clock, statusWriter: statuswriter.New(c, clock)}
}

// selecting is deployment whose selector selects its Machines, as an API server requires it.
func selecting() *clusterv1.MachineDeployment {
	md := deployment()
	md.Spec.Template.Labels["pool"] = "a"
	return md
}

func (r *Reconciler) get(t *testing.T, object client.Object) {
	t.Helper()
	if err := r.Client.Get(t.Context(), client.ObjectKeyFromObject(object), object); err != nil {
		t.Fatal(err)
	}
}

// TestPausedDeploymentWritesDelayedStatus pauses a deployment whose last status was written a
// moment before one of its MachineSets counted one more.
func TestPausedDeploymentWritesDelayedStatus(t *testing.T) {
	t.Parallel()
	md := selecting()
	md.Spec.Replicas, md.Status.ObservedGeneration, md.Status.AvailableReplicas = new(int32(2)), 1, new(int32(1))
	md.Annotations[clusterv1.PausedAnnotation] = ""
	set := setWith("6", 3, 2)
	set.Spec.ClusterName, set.Spec.Selector, set.Spec.Template = "c", md.Spec.Selector, setOfRevision("6", "v1.36.1").Spec.Template
	set.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(md, clusterv1.GroupVersion.WithKind("MachineDeployment"))}
	r := reconcilerWith(t, interceptor.Funcs{}, md, set, testenv.Cluster(""))
	r.statusWriter.Writes.Mark(md.UID)
	md.Spec.Replicas = new(int32(3)) // generation 2
	if err := r.Client.Update(t.Context(), md); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Reconcile(t.Context(), md); err != nil {
		t.Fatal(err)
	}
	r.get(t, md)
	got := []any{conditions.IsTrue(md, clusterv1.PausedCondition), md.Status.ObservedGeneration, *md.Status.Replicas, *md.Status.AvailableReplicas}
	if diff := cmp.Diff([]any{true, int64(1), int32(3), int32(2)}, got); diff != "" {
		t.Errorf("paused, observed generation, replicas, available (-want +got):\n%s", diff)
	}
}

// TestRefusedRollbackIsReported has the API server refuse the template of the revision.
func TestRefusedRollbackIsReported(t *testing.T) {
	t.Parallel()
	gone := apierrors.NewInvalid(clusterv1.GroupVersion.WithKind("MachineDeployment").GroupKind(), "md",
		field.ErrorList{field.Invalid(field.NewPath("spec", "template", "spec", "version"), "v1.36.1", "is too old")})
	type outcome struct {
		Reason, Event, Version string
		Requested              bool
	}
	for name, test := range map[string]struct {
		wanted string
		answer error
		want   outcome
	}{
		"it reports the refusal of the API server":  {"2", gone, outcome{Reason: RollbackRefusedReason, Event: "RollbackFailed", Version: "v1.36.2"}},
		"it reports that there is no such revision": {"5", nil, outcome{Reason: RevisionNotKeptReason, Event: "RollbackFailed", Version: "v1.36.2"}},
		"it has only an event on success":           {"2", nil, outcome{Event: "RolledBack", Version: "v1.36.1"}},
		"it tries again what has had no answer":     {"2", apierrors.NewServerTimeout(clusterv1.GroupVersion.WithResource("x").GroupResource(), "patch", 1), outcome{Version: "v1.36.2", Requested: true}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			md := selecting()
			md.Annotations[revision.RollbackAnnotation] = test.wanted
			r := reconcilerWith(t, interceptor.Funcs{Patch: func(ctx context.Context, c client.WithWatch, o client.Object, patch client.Patch, options ...client.PatchOption) error {
				if data, err := patch.Data(o); err != nil || (test.answer != nil && strings.Contains(string(data), `"spec"`)) {
					return test.answer
				}
				return c.Patch(ctx, o, patch, options...)
			}}, md)
			err := r.rollBack(t.Context(), &state{deployment: md, sets: []*clusterv1.MachineSet{setOfRevision("2", "v1.36.1"), setOfRevision("7", "v1.36.2")}})
			if (err != nil) != test.want.Requested {
				t.Errorf("error %v", err)
			}
			r.get(t, md)
			_, requests := md.Annotations[revision.RollbackAnnotation]
			got := outcome{Reason: conditions.GetReason(md, RolledBackCondition), Version: md.Spec.Template.Spec.Version, Requested: requests}
			select {
			case event := <-r.Events.(*events.FakeRecorder).Events:
				got.Event = strings.Fields(event)[1]
			default:
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("outcome (-want +got):\n%s", diff)
			}
		})
	}
}

func TestRolledBackConditionEndsWithNextSpec(t *testing.T) {
	t.Parallel()
	md := deployment()
	md.Generation = 4
	setNotRolledBack(md, RevisionNotKeptReason, errors.New("no"))
	clearRolledBack(md)
	if !conditions.IsFalse(md, RolledBackCondition) {
		t.Error("it is removed at once")
	}
	md.Generation = 5
	clearRolledBack(md)
	if conditions.Has(md, RolledBackCondition) {
		t.Error("it remains although the spec has changed")
	}
}
