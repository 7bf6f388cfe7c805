// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package drain

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

func selectingNamespaces() []clusterv1.MachineDrainRule {
	return []clusterv1.MachineDrainRule{drainRule("r", clusterv1.MachineDrainRuleDrainBehaviorSkip,
		forPods(clusterv1.MachineDrainRulePodSelector{NamespaceSelector: with("team", "z")}))}
}

// attach makes a PersistentVolume for the claim and reports it attached to the Node of the stage.
func (s *testNode) attach(claim string) *storagev1.VolumeAttachment {
	s.Helper()
	pv := &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: s.namespace + "-" + claim},
		Spec: corev1.PersistentVolumeSpec{
			Capacity:    corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")},
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			ClaimRef:    &corev1.ObjectReference{Kind: "PersistentVolumeClaim", Namespace: s.namespace, Name: claim},
			PersistentVolumeSource: corev1.PersistentVolumeSource{
				CSI: &corev1.CSIPersistentVolumeSource{Driver: "csi.test", VolumeHandle: s.namespace + claim},
			},
		},
	}
	s.create(pv)
	va := &storagev1.VolumeAttachment{
		ObjectMeta: metav1.ObjectMeta{Name: "va-" + pv.Name},
		Spec: storagev1.VolumeAttachmentSpec{
			Attacher: "csi.test", NodeName: s.node.Name,
			Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: &pv.Name},
		},
	}
	s.create(va)
	va.Status.Attached = true
	if err := s.Status().Update(s.Context(), va); err != nil {
		s.Fatal(err)
	}
	return va
}

func (s *testNode) detach(va *storagev1.VolumeAttachment) {
	s.Helper()
	if err := s.Delete(s.Context(), va); err != nil {
		s.Fatal(err)
	}
}

func TestDrainNodeEvictsPodsWithVolumesOneAfterAnother(t *testing.T) {
	t.Parallel()
	s := newTestNode(t)
	s.pod("db-0", withClaim("data-0"))
	s.pod("db-1", withClaim("data-1"))
	s.pod("web")
	s.pod("logs", withClaim("logs"), labelled(clusterv1.PodDrainLabel, "skip"))
	first, second := s.attach("data-0"), s.attach("data-1")
	s.attach("logs")
	d, req := &Drainer{}, s.request()
	req.SerialVolumes = true

	result := s.pass(d, req)
	s.wantPods("db-0! db-1 logs web!")
	s.wantMessage(result.Progress,
		"* Pods app/db-0, app/web: being deleted, waiting for the kubelet to end them",
		"* Pod app/db-1: next when the volumes of the Pod before are detached",
	)
	s.kubelet()

	result = s.pass(d, req)
	s.wantPods("db-1 logs")
	s.wantMessage(result.Progress,
		"* Pod app/db-1: next when the volumes of the Pod before are detached, still attached: PersistentVolumeClaim app/data-0")
	s.detach(first)

	s.pass(d, req)
	s.wantPods("db-1! logs")
	s.kubelet()
	s.detach(second)
	if result := s.pass(d, req); !result.Done {
		t.Errorf("not done, though only a skipped Pod is left: %+v", result)
	}
}

func TestDrainNodeEvictsPodsWithVolumesTogetherByDefault(t *testing.T) {
	t.Parallel()
	s := newTestNode(t)
	s.pod("db-0", withClaim("data-0"))
	s.pod("db-1", withClaim("data-1"))
	counted := counting(s)
	req := s.request()
	req.Client = counted
	s.pass(&Drainer{}, req)
	s.wantPods("db-0! db-1!")
	if n := counted.counts()["list VolumeAttachment"]; n > 0 {
		t.Errorf("listed VolumeAttachments %d times for nothing", n)
	}
}

func TestDrainNodeEvictsAnotherPodWithVolumesWhenTheFirstIsBlocked(t *testing.T) {
	t.Parallel()
	s := newTestNode(t)
	s.budget("web", "web", 0)
	s.pod("a", withClaim("a"))
	s.pod("b", withClaim("b"), labelled("app", "db"))
	req := s.request()
	req.SerialVolumes = true
	result := s.pass(&Drainer{}, req)
	s.wantPods("a b!")
	s.wantMessage(result.Progress,
		"* Pod app/a: PodDisruptionBudget app/web allows no disruption now",
		"* Pod app/b: being deleted, waiting for the kubelet to end them",
	)
}
