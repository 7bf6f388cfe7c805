// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package volume

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

func claim(name string) types.NamespacedName {
	return types.NamespacedName{Namespace: "app", Name: name}
}

func podWith(name string, volumes ...corev1.Volume) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "app", Name: name},
		Spec:       corev1.PodSpec{Volumes: volumes},
	}
}

func claimed(name string) corev1.Volume {
	return corev1.Volume{Name: "v-" + name, VolumeSource: corev1.VolumeSource{
		PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: name},
	}}
}

func ephemeral(name string) corev1.Volume {
	return corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{}}}
}

func finished(pod *corev1.Pod) *corev1.Pod {
	pod.Status.Phase = corev1.PodSucceeded
	return pod
}

func deleting(pod *corev1.Pod) *corev1.Pod {
	pod.DeletionTimestamp = &metav1.Time{}
	return pod
}

func TestAwait(t *testing.T) {
	t.Parallel()
	data := Volume{Claim: claim("data"), PersistentVolume: "pv-1"}
	logs := Volume{Claim: claim("agent-logs"), PersistentVolume: "pv-2"}
	lost := Volume{PersistentVolume: "pv-3", Lost: true}
	inline := Volume{Attachment: "csi-4"}
	tests := map[string]struct {
		attached []Volume
		staying  []*corev1.Pod
		others   []*corev1.Pod
		want     Result
	}{
		"waits for what is attached, sorted": {
			attached: []Volume{inline, data, logs},
			want:     Result{RequeueAfter: requeueAfter, Awaited: []Volume{logs, data, inline}},
		},
		"does not wait for the claim of a Pod that stays": {
			attached: []Volume{data, logs}, staying: []*corev1.Pod{podWith("db", claimed("data"))},
			want: Result{RequeueAfter: requeueAfter, Awaited: []Volume{logs}},
		},
		"does not wait for the ephemeral volume of a Pod that stays": {
			attached: []Volume{logs}, staying: []*corev1.Pod{podWith("agent", ephemeral("logs"))}, want: Result{Done: true},
		},
		"does not wait for a lost volume, and reports it": {
			attached: []Volume{lost}, want: Result{Done: true, Lost: []Volume{lost}},
		},
		"names the Pods that use what it waits for, sorted, and none that has finished or uses nothing of it": {
			attached: []Volume{data, logs}, staying: []*corev1.Pod{podWith("skipped", claimed("data"))},
			others: []*corev1.Pod{podWith("other", claimed("data")), deleting(podWith("reader", claimed("agent-logs"))), podWith("agent", ephemeral("logs")), finished(podWith("job", claimed("agent-logs"))), deleting(finished(podWith("ended", claimed("agent-logs"))))},
			want: Result{RequeueAfter: requeueAfter, Awaited: []Volume{logs}, Users: []User{
				{claim("agent"), claim("agent-logs"), false}, {claim("reader"), claim("agent-logs"), true},
			}},
		},
		"waits for a volume without a claim whatever stays": {
			attached: []Volume{inline}, staying: []*corev1.Pod{podWith("db", claimed("data"))},
			want: Result{RequeueAfter: requeueAfter, Awaited: []Volume{inline}},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(test.want, await(test.attached, Pods{test.staying, test.others})); diff != "" {
				t.Errorf("result (-want +got):\n%s", diff)
			}
		})
	}
}

func TestMessage(t *testing.T) {
	t.Parallel()
	const intro = "Waiting for the attach-detach controller and the CSI driver to detach volumes from the Node: "
	volumes := func(names ...string) []Volume {
		var all []Volume
		for _, n := range names {
			all = append(all, Volume{PersistentVolume: n, DetachRequested: time.Unix(1, 0)})
		}
		return all
	}
	tests := map[string]struct {
		result Result
		want   string
	}{
		"is empty when done": {result: Result{Done: true}},
		"names each kind of volume by the name that its owner gave it": {
			result: Result{Awaited: []Volume{
				{Claim: claim("data"), PersistentVolume: "pv-1", Attachment: "csi-1"}, {PersistentVolume: "pv-2"},
				{Attachment: "csi-3"}, {Reported: "kubernetes.io/csi/d^4"},
			}},
			want: intro + "PersistentVolumeClaim app/data, PersistentVolume pv-2, VolumeAttachment csi-3, volume kubernetes.io/csi/d^4",
		},
		"names at most five": {
			result: Result{Awaited: volumes("a", "b", "c", "d", "e", "f", "g")},
			want: intro + "PersistentVolume a, PersistentVolume b, PersistentVolume c, PersistentVolume d, " +
				"PersistentVolume e and 2 more",
		},
		"names the Pods that keep volumes attached": {
			result: Result{Awaited: volumes("a", "b"), Users: []User{{claim("db-0"), claim("data-0"), false}, {claim("db-1"), claim("data-1"), false}}},
			want: "Waiting for Pods that were not evicted and still use volumes on the Node: " +
				"app/db-0 (PersistentVolumeClaim data-0), app/db-1 (PersistentVolumeClaim data-1)",
		},
		"names the Pods that are being deleted as such": {
			result: Result{Awaited: volumes("a"), Users: []User{{claim("db-0"), claim("data-0"), true}}},
			want: "Waiting for the kubelet to end Pods that are being deleted and still use volumes on the Node: " +
				"app/db-0 (PersistentVolumeClaim data-0)",
		},
		"names the Pods that need an operator first": {
			result: Result{Awaited: volumes("a", "b"), Users: []User{{claim("db-0"), claim("data-0"), true}, {claim("db-1"), claim("data-1"), false}}},
			want: "Waiting for Pods that were not evicted and still use volumes on the Node: app/db-1 (PersistentVolumeClaim data-1), " +
				"and for the kubelet to end Pods that are being deleted and still use volumes on the Node: app/db-0 (PersistentVolumeClaim data-0)",
		},
		"names a claim once": {
			result: Result{Awaited: volumes("a", "a")}, want: intro + "PersistentVolume a",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(test.want, test.result.Message()); diff != "" {
				t.Errorf("message (-want +got):\n%s", diff)
			}
		})
	}
}

func TestAttachmentNameIsTheOneThatKubernetesGives(t *testing.T) {
	t.Parallel()
	tests := map[string]struct{ reported, want string }{
		"hashes handle, driver and Node, as sha256sum does": {
			reported: "kubernetes.io/csi/csi.hetzner.cloud^4711",
			want:     "csi-a89fb5bd8f7c71db81a521687ceb16f14aeab208d39c56c29296a30ca1601268",
		},
		"has no name for other volumes": {reported: "kubernetes.io/fc/1"},
		"has no name without a handle":  {reported: "kubernetes.io/csi/driver"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := attachmentName(test.reported, "node-1"); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}
