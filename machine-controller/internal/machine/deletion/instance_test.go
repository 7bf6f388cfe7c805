// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package deletion

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	testingclock "k8s.io/utils/clock/testing"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"drover.io/machine-controller/internal/contract"
)

func TestObjectDeleter(t *testing.T) {
	t.Parallel()
	m := deleting().Machine
	there := func(changes ...func(*unstructured.Unstructured)) Object {
		return Object{Unstructured: object(m, changes...)}
	}
	controlledBy := func(uid types.UID) func(*unstructured.Unstructured) {
		return func(o *unstructured.Unstructured) {
			o.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: clusterv1.GroupVersion.String(), Kind: "Machine", Name: "other", UID: uid, Controller: new(true)}})
		}
	}
	forbidden := apierrors.NewForbidden(corev1.Resource("things"), "x", errors.New("protected"))
	conflict := apierrors.NewConflict(corev1.Resource("things"), "x", errors.New("another UID"))
	for name, test := range map[string]struct {
		object  Object
		answer  error
		done    bool
		after   time.Duration
		deletes int
		fails   bool
		message string
	}{
		"is done when the object does not exist":          {object: Object{Err: notFound}, done: true},
		"waits when it is unknown whether it exists":      {object: Object{Err: errors.New("boom")}, after: objectRetry},
		"waits for an object that is being deleted":       {object: there(func(o *unstructured.Unstructured) { o.SetDeletionTimestamp(new(metav1.NewTime(epoch))) }), after: objectRetry},
		"deletes an object that exists":                   {object: there(), deletes: 1},
		"tries again when the object has just gone":       {object: there(), answer: notFound, deletes: 1, after: time.Second},
		"tries again when the object has changed":         {object: there(), answer: conflict, deletes: 1, after: time.Second},
		"leaves an object that belongs to something else": {object: Object{Err: errors.New("refused"), Foreign: true}, done: true},
		"waits until the Machine controls the object":     {object: there(func(o *unstructured.Unstructured) { o.SetOwnerReferences(nil) }), after: time.Second},
		"waits where another Machine is the controller":   {object: there(controlledBy("other-uid")), after: time.Second},
		"reports a deletion that was refused":             {object: there(), answer: errors.New("refused"), deletes: 1, fails: true},
		"reports in the condition a deletion that no attempt changes": {
			object: there(), answer: forbidden, deletes: 1, fails: true, message: `m, which the API server refuses: things "x" is forbidden: protected`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			deletes := 0
			c := interceptor.NewClient(nil, interceptor.Funcs{
				Delete: func(_ context.Context, _ client.WithWatch, _ client.Object, options ...client.DeleteOption) error {
					deletes++
					all := (&client.DeleteOptions{}).ApplyOptions(options)
					if all.Preconditions == nil || *all.Preconditions.UID != "x-uid" || *all.Preconditions.ResourceVersion != "7" {
						t.Error("the deletion has no preconditions on UID and resource version")
					}
					return test.answer
				},
			})
			requested := NewRequested(testingclock.NewFakePassiveClock(epoch))
			progress, err := objectDeleter{c, requested}.run(t.Context(), m, test.object, Progress{Reason: "r", Message: "m"})
			if o := test.object.Unstructured; o != nil {
				requested.Apply(o)
				if accepted := test.deletes > 0 && test.answer == nil; accepted && o.GetDeletionTimestamp() == nil {
					t.Error("an accepted deletion is not applied while the cache does not show it")
				}
			}
			if progress.Done != test.done || progress.RequeueAfter != test.after || deletes != test.deletes || (err != nil) != test.fails {
				t.Errorf("progress %+v, %d deletions, error %v", progress, deletes, err)
			}
			if !progress.Done && (progress.Reason != "r" || progress.Message != cmp.Or(test.message, "m")) {
				t.Errorf("the condition gets reason %q and message %q", progress.Reason, progress.Message)
			}
		})
	}
}

func TestWaitingFor(t *testing.T) {
	t.Parallel()
	ref := clusterv1.ContractVersionedObjectReference{APIGroup: "g", Kind: "Thing", Name: "t"}
	const plain = `Waiting for Thing "t" to be deleted`
	missing := &contract.MissingLabelError{CRDName: "things.g"}
	for name, test := range map[string]struct {
		err  error
		want string
	}{
		"waits for an object that exists":      {nil, plain},
		"leaves out transient errors":          {errors.New("boom"), plain},
		"names what needs a correction":        {missing, plain + ", which cannot be read: " + missing.Error()},
		"names it also where it was wrapped":   {fmt.Errorf("reading: %w", missing), plain + ", which cannot be read: reading: " + missing.Error()},
		"leaves out that the object is absent": {notFound, plain},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := waitingFor(ref, test.err); got != test.want {
				t.Errorf("message is %q, want %q", got, test.want)
			}
		})
	}
}
