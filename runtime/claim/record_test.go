// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package claim

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlfake "sigs.k8s.io/controller-runtime/pkg/client/fake"
)

// TestEachClusterHasALeaseOfItsOwn has names that would be one text if they were joined without a separator. The name of a Lease
// is stored in workload clusters, so it must stay what it is.
func TestEachClusterHasALeaseOfItsOwn(t *testing.T) {
	t.Parallel()
	if got := LeaseKey(client.ObjectKey{Namespace: "team", Name: "c"}); got.String() != "kube-system/drover-e5ae85e356df04c6" {
		t.Errorf("the Lease is %s", got)
	}
	seen := map[string]client.ObjectKey{}
	for _, cluster := range []client.ObjectKey{
		{Namespace: "a", Name: "b-c"}, {Namespace: "a-b", Name: "c"}, {Namespace: "ab", Name: "c"}, {Namespace: "a", Name: "bc"}, {Namespace: "c", Name: "a-b"},
		{Namespace: strings.Repeat("n", 63), Name: strings.Repeat("c", 253)}, {Namespace: strings.Repeat("n", 63), Name: strings.Repeat("c", 252)},
	} {
		key := LeaseKey(cluster)
		if other, twice := seen[key.Name]; twice || len(validation.IsDNS1123Subdomain(key.Name)) > 0 || key != LeaseKey(cluster) {
			t.Errorf("%s has the Lease %s, and so has %s", cluster, key, other)
		}
		seen[key.Name] = cluster
	}
}

// TestHistoryIsWhatWasWritten reads marks as machine-controller writes them, and names what is not readable.
func TestHistoryIsWhatWasWritten(t *testing.T) {
	t.Parallel()
	history := []Mark{{"a_1", 1}, {"b_2", 1 << 40}}
	encoded, err := json.Marshal(history)
	if err != nil {
		t.Fatal(err)
	}
	lease := func(text string) *coordinationv1.Lease {
		return &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: HistoryLeaseName, Annotations: map[string]string{HistoryAnnotation: text}}}
	}
	got, err := HistoryOf(lease(string(encoded)))
	if diff := cmp.Diff(history, got); diff != "" || err != nil {
		t.Errorf("error %v, history (-want +got):\n%s", err, diff)
	}
	for _, text := range []string{"", "{", `{"holder":"a"}`, `[{"holder":1}]`, `[{"sequence":"1"}]`, `[{"sequence":99999999999999999999}]`} {
		got, err := HistoryOf(lease(text))
		if err == nil || got != nil || !strings.Contains(err.Error(), HistoryLeaseName) || !strings.Contains(err.Error(), HistoryAnnotation) {
			t.Errorf("%q: got %v, error %v", text, got, err)
		}
	}
	for mark, want := range map[Mark]bool{{"a_1", 0}: true, {"a_1", 1}: true, {"a_1", 2}: false, {"b_2", 1 << 40}: true, {"b_2", 1<<40 + 1}: false, {"c", 0}: false, {}: false} {
		if Contains(history, mark) != want {
			t.Errorf("%+v is in the history: %t", mark, !want)
		}
	}
}

// TestClaimIsReadBeforeItsRecord, because a mark is recorded before it is used: the other way round, a mark of this management
// cluster that is set in between would be taken for another's.
func TestClaimIsReadBeforeItsRecord(t *testing.T) {
	t.Parallel()
	cluster := client.ObjectKey{Namespace: "team", Name: "c"}
	management := ctrlfake.NewClientBuilder().Build()
	remote := fake.NewClientset()
	remote.PrependReactor("get", "leases", func(clienttesting.Action) (bool, runtime.Object, error) {
		// The record is written by the time at which the claim is read, and not before.
		record := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "drover-system", Name: HistoryLeaseName, Annotations: map[string]string{HistoryAnnotation: `[{"holder":"new","sequence":7}]`}}}
		if err := management.Create(t.Context(), record); err != nil {
			return true, nil, err
		}
		claim := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{SequenceAnnotation: "7"}}}
		claim.Spec.HolderIdentity = new("new")
		return true, claim, nil
	})
	holder, elsewhere, err := (&Reader{Management: management, Namespace: "drover-system"}).Elsewhere(t.Context(), remote.CoordinationV1(), cluster)
	if err != nil || elsewhere || holder != "new" {
		t.Errorf("got %q, %t, %v", holder, elsewhere, err)
	}
}
