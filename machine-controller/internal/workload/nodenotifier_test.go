// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestNodeNotifierMergesChanges(t *testing.T) {
	t.Parallel()
	node := func(name, id, version string) *corev1.Node {
		return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, ResourceVersion: version}, Spec: corev1.NodeSpec{ProviderID: id}}
	}
	synctest.Test(t, func(t *testing.T) {
		var got []string
		n := newNodeNotifier(notifyPeriod, func(node *corev1.Node) { got = append(got, node.Name+node.Spec.ProviderID+node.ResourceVersion) })
		want := func(when string, want ...string) {
			t.Helper()
			synctest.Wait()
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", when, diff)
			}
			got = nil
		}
		n.changed(node("a", "", "1"))
		n.changed(node("b", "", "1"))
		want("the first change of each Node, at once", "a1", "b1")
		n.changed(node("a", "", "2"))
		n.changed(node("a", "", "3"))
		n.changed(node("a", "x", "4"))
		want("a Node whose providerID has changed, at once", "ax4")
		time.Sleep(notifyPeriod)
		want("the newest, at the end of the period", "a3")
		n.changed(node("a", "", "5"))
		n.changed(node("b", "", "2"))
		want("one that was passed on a moment ago waits", "b2")
		time.Sleep(notifyPeriod)
		want("and is passed on", "a5")
		time.Sleep(2 * notifyPeriod)
		want("nothing without a change")
		if len(n.recent) != 0 {
			t.Errorf("%d Nodes are kept", len(n.recent))
		}
	})
}
