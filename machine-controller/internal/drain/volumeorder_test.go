// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package drain

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"drover.io/machine-controller/internal/volume"
)

func TestDetachingVolumesAreUsedByNoPod(t *testing.T) {
	t.Parallel()
	attached := func(claim string, change ...func(*volume.Volume)) volume.Volume {
		v := volume.Volume{Claim: key(claim), PersistentVolume: "pv-" + claim, Attachment: "csi-" + claim}
		for _, c := range change {
			c(&v)
		}
		return v
	}
	requested := func(ago time.Duration) func(*volume.Volume) {
		return func(v *volume.Volume) { v.DetachRequested = noon.Add(-ago) }
	}
	tests := map[string]struct {
		attached []volume.Volume
		onNode   []*corev1.Pod
		want     []string
	}{
		"waits for the volume of a Pod that is gone": {
			attached: []volume.Volume{attached("data")}, want: []string{"PersistentVolumeClaim app/data"},
		},
		"does not wait for the volume of a Pod on the Node": {
			attached: []volume.Volume{attached("data")}, onNode: []*corev1.Pod{aPod("p", withClaim("data"))},
		},
		"waits for the volume of a finished Pod": {
			attached: []volume.Volume{attached("data")},
			onNode:   []*corev1.Pod{aPod("p", withClaim("data"), phase(corev1.PodSucceeded))},
			want:     []string{"PersistentVolumeClaim app/data"},
		},
		"waits two minutes after the detachment was requested": {
			attached: []volume.Volume{attached("b", requested(2*time.Minute)), attached("a", requested(time.Second))},
			want:     []string{"PersistentVolumeClaim app/a", "PersistentVolumeClaim app/b"},
		},
		"waits no longer": {attached: []volume.Volume{attached("a", requested(121*time.Second))}},
		"does not wait for a volume that cannot be detached": {
			attached: []volume.Volume{attached("a", func(v *volume.Volume) { v.Lost = true })},
		},
		"does not wait for a volume of unknown owner": {attached: []volume.Volume{{Attachment: "csi-1"}}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(test.want, detaching(test.attached, test.onNode, noon)); diff != "" {
				t.Errorf("detaching (-want +got):\n%s", diff)
			}
		})
	}
}
