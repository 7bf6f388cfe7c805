// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package patch

import (
	"encoding/json"
	"math/rand/v2"
	"reflect"
	"testing"

	jsonpatch "github.com/evanphx/json-patch/v5"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/randfill"
)

// TestADifferenceLeadsThere: whatever differs between two machines, the patch makes the second of the first.
func TestADifferenceLeadsThere(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // the same machines in every run
	filler := randfill.NewWithSeed(1).NilChance(0.4).NumElements(0, 2).MaxDepth(8).Funcs(
		func(when *metav1.Time, c randfill.Continue) { *when = metav1.Unix(c.Int63n(1e9), 0) },
		func(fields *metav1.FieldsV1, _ randfill.Continue) { fields.SetRawBytes([]byte("{}")) },
	)
	for range 500 {
		before, after, other := &clusterv1.Machine{}, &clusterv1.Machine{}, &clusterv1.Machine{}
		filler.Fill(before)
		before.TypeMeta = metav1.TypeMeta{}
		filler.Fill(other)
		before.DeepCopyInto(after)
		for _, part := range []string{"ObjectMeta", "Spec", "Status"} {
			to, from := reflect.ValueOf(after).Elem().FieldByName(part), reflect.ValueOf(other).Elem().FieldByName(part)
			for i := range to.NumField() {
				switch random.IntN(4) {
				case 0:
					to.Field(i).Set(from.Field(i))
				case 1:
					to.Field(i).SetZero()
				}
			}
		}
		fields, err := difference(before, after)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(after, patched(t, before, fields), cmpopts.EquateEmpty()); diff != "" {
			t.Fatalf("patched with %s: %s", fields, diff)
		}
	}
}

func patched(t *testing.T, before *clusterv1.Machine, fields map[string]json.RawMessage) *clusterv1.Machine {
	t.Helper()
	object, err := json.Marshal(before)
	if err != nil {
		t.Fatal(err)
	}
	patch, err := json.Marshal(fields)
	if err != nil {
		t.Fatal(err)
	}
	if object, err = jsonpatch.MergePatch(object, patch); err != nil {
		t.Fatal(err)
	}
	after := &clusterv1.Machine{}
	if err := json.Unmarshal(object, after); err != nil {
		t.Fatal(err)
	}
	return after
}

// BenchmarkDifference: most passes change nothing, and the rest a field or two.
func BenchmarkDifference(b *testing.B) {
	before := &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "m", Labels: map[string]string{"l": "1"}, Finalizers: []string{"f"}}}
	for _, kind := range []string{"Ready", "Available", "UpToDate", "NodeReady", "NodeHealthy", "InfrastructureReady", "BootstrapConfigReady", "Deleting", "Updating", "Paused"} {
		before.Status.Conditions = append(before.Status.Conditions, metav1.Condition{Type: kind, Status: "True", Reason: "Because", Message: "of this"})
	}
	after := before.DeepCopy()
	for name, change := range map[string]func(){"nothing": func() {}, "phase": func() { after.Status.Phase = "Running" }} {
		change()
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := statusDifference(before, after); err != nil {
					b.Fatal(err)
				}
				if _, err := difference(before, after, "Status"); err != nil {
					b.Fatal(err)
				}
			}
		})
		after = before.DeepCopy()
	}
}
