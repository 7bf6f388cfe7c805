// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package claim

import (
	"errors"
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlfake "sigs.k8s.io/controller-runtime/pkg/client/fake"
)

// TestElsewhere: machine-controller's package claim has the test that it writes what is read here.
func TestElsewhere(t *testing.T) {
	t.Parallel()
	cluster := client.ObjectKey{Namespace: "team", Name: "c"}
	forbidden := apierrors.NewForbidden(schema.GroupResource{Resource: "leases"}, "x", errors.New("no"))
	notServed := apierrors.NewInternalError(errors.New("no APIResourceList defined for map[group:coordination.k8s.io]"))
	const history = `[{"holder":"a","sequence":3},{"holder":"b","sequence":4}]`
	for name, test := range map[string]struct {
		holder, sequence string
		history          *string
		readErr          error
		want, failed     bool
	}{
		"its own":                          {"b", "4", ptr.To(history), nil, false, false},
		"that of a process before":         {"a", "2", ptr.To(history), nil, false, false},
		"one of the original":              {"b", "5", ptr.To(history), nil, true, false},
		"one of another":                   {"c", "1", ptr.To(history), nil, true, false},
		"one edited by hand":               {"b", "x", ptr.To(history), nil, true, false},
		"one without a holder":             {"", "1", ptr.To(history), nil, true, false},
		"one where nothing is recorded":    {"b", "4", ptr.To(""), nil, true, false},
		"a record that is not readable":    {"b", "4", ptr.To("{"), nil, false, true},
		"no machine-controller":            {"b", "4", nil, nil, false, false},
		"one that may not be read":         {"c", "1", ptr.To(history), forbidden, false, false},
		"an API server without Leases":     {"c", "1", ptr.To(history), notServed, false, false},
		"an API server that fails":         {"c", "1", ptr.To(history), apierrors.NewInternalError(errors.New("boom")), false, true},
		"a workload cluster without reply": {"c", "1", ptr.To(history), errors.New("boom"), false, true},
	} {
		remote := fake.NewClientset(&coordinationv1.Lease{
			ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: LeaseKey(cluster).Name, Annotations: map[string]string{SequenceAnnotation: test.sequence}},
			Spec:       coordinationv1.LeaseSpec{HolderIdentity: ptr.To(test.holder)},
		})
		if test.readErr != nil {
			remote.PrependReactor("get", "leases", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, test.readErr })
		}
		management := ctrlfake.NewClientBuilder()
		if test.history != nil {
			record := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "drover-system", Name: HistoryLeaseName}}
			if *test.history != "" {
				record.Annotations = map[string]string{HistoryAnnotation: *test.history}
			}
			management.WithObjects(record)
		}
		reader := &Reader{Management: management.Build(), Namespace: "drover-system"}
		holder, elsewhere, err := reader.Elsewhere(t.Context(), remote.CoordinationV1(), cluster)
		if elsewhere != test.want || (err != nil) != test.failed || elsewhere && holder != test.holder {
			t.Errorf("%s: got %q, %t, %v", name, holder, elsewhere, err)
		}
	}
	none := &Reader{Management: ctrlfake.NewClientBuilder().Build(), Namespace: "drover-system"}
	if _, elsewhere, err := none.Elsewhere(t.Context(), fake.NewClientset().CoordinationV1(), cluster); elsewhere || err != nil {
		t.Errorf("without a claim: got %t, %v", elsewhere, err)
	}
}

func TestMarkOf(t *testing.T) {
	t.Parallel()
	lease := func(holder, sequence string) *coordinationv1.Lease {
		l := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{SequenceAnnotation: sequence}}}
		if holder != "" {
			l.Spec.HolderIdentity = &holder
		}
		return l
	}
	for name, test := range map[string]struct {
		lease    *coordinationv1.Lease
		want     Mark
		readable bool
	}{
		"reads holder and sequence":     {lease("a", "5"), Mark{"a", 5}, true},
		"needs a sequence":              {lease("a", ""), Mark{"a", 0}, false},
		"needs a number":                {lease("a", "five"), Mark{"a", 0}, false},
		"needs a holder":                {lease("", "5"), Mark{"", 5}, false},
		"reads nothing of an empty one": {&coordinationv1.Lease{}, Mark{}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if mark, readable := MarkOf(test.lease); mark != test.want || readable != test.readable {
				t.Errorf("mark %+v, readable %t", mark, readable)
			}
		})
	}
}
