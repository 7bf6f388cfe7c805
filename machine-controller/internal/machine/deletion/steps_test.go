// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package deletion

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"drover.io/api/reason"
	"drover.io/machine-controller/internal/index/indextest"
	"drover.io/machine-controller/internal/testenv"
	"drover.io/machine-controller/internal/workload"
)

func contains(text, part string) bool { return strings.Contains(text, part) }

func setDeletingReason(m *clusterv1.Machine, reason string) {
	if reason != "" {
		conditions.Set(m, metav1.Condition{Type: clusterv1.MachineDeletingCondition, Status: metav1.ConditionTrue, Reason: reason})
	}
}

func TestDrainCordonsAndEvictsUntilNoPodIsLeft(t *testing.T) {
	t.Parallel()
	e := newEnvironment(t)
	pod := e.pod("web", nil)
	key := e.state.Machine.Namespace + "/web"
	progress := e.run(e.drain())
	if progress.Done || progress.Reason != clusterv1.MachineDeletingDrainingNodeReason || !contains(progress.Message, key) || progress.RequeueAfter == 0 {
		t.Errorf("progress %+v", progress)
	}
	if started := e.state.Machine.Status.Deletion.NodeDrainStartTime; !started.Time.Equal(e.clock.Now()) {
		t.Errorf("the drain started at %s", started)
	}
	if err := e.client.Get(t.Context(), client.ObjectKeyFromObject(e.state.Node), e.state.Node); err != nil || !e.state.Node.Spec.Unschedulable {
		t.Errorf("the Node is unschedulable %t, error %v", e.state.Node.Spec.Unschedulable, err)
	}
	if err := e.client.Get(t.Context(), client.ObjectKeyFromObject(pod), pod); err != nil || pod.DeletionTimestamp == nil {
		t.Errorf("the Pod is deleted at %v, error %v", pod.DeletionTimestamp, err)
	}
	e.expectEvent("")
	if err := e.client.Delete(t.Context(), pod, client.GracePeriodSeconds(0)); err != nil {
		t.Fatal(err)
	}
	if progress = e.run(e.drain()); progress != done {
		t.Errorf("progress %+v", progress)
	}
	e.expectEvent("SuccessfulDrainNode")
	want := []string{
		"cordoned Node Node=" + e.state.Node.Name,
		"evicted Pod Node=" + e.state.Node.Name + " Pod=" + key + " warnings=[no controller recreates it]",
		"drained Node Node=" + e.state.Node.Name,
	}
	if diff := cmp.Diff(want, e.log.Lines("")); diff != "" {
		t.Errorf("log (-want +got):\n%s", diff)
	}
}

func TestDrainOfAnEmptyNodeEmitsNoEvent(t *testing.T) {
	t.Parallel()
	e := newEnvironment(t)
	if progress := e.run(e.drain()); progress != done {
		t.Errorf("progress %+v", progress)
	}
	e.expectEvent("")
	if !e.nodeIsCordoned() {
		t.Error("the Node is not cordoned")
	}
}

func (e *environment) nodeIsCordoned() bool {
	e.Helper()
	node := &corev1.Node{}
	if err := e.client.Get(e.Context(), client.ObjectKeyFromObject(e.state.Node), node); err != nil {
		e.Fatal(err)
	}
	return node.Spec.Unschedulable
}

func TestDrainIsSkipped(t *testing.T) {
	t.Parallel()
	e := newEnvironment(t)
	e.pod("web", nil)
	for name, change := range map[string]func(*State){
		"with the annotation":                     func(s *State) { s.Machine.Annotations = map[string]string{clusterv1.ExcludeNodeDrainingAnnotation: ""} },
		"when the Cluster is being deleted":       func(s *State) { s.Cluster.DeletionTimestamp = new(metav1.Now()) },
		"when the control plane is being deleted": func(s *State) { s.ControlPlaneDeleting = true },
		"when the InfraMachine is gone":           func(s *State) { s.Infrastructure = Object{Err: notFound} },
		"when the providerID is not the Machine's alone": func(s *State) {
			s.ProviderIDConflict = true
		},
		"when the pre-terminate hooks are awaited": func(s *State) {
			deletionStatus(s.Machine).WaitForPreTerminateHookStartTime = metav1.Now()
		},
	} {
		s := *e.state
		s.Machine, s.Cluster = e.state.Machine.DeepCopy(), e.state.Cluster.DeepCopy()
		change(&s)
		for _, step := range []step{e.drain(), e.detach()} {
			if _, isDetach := step.(detachStep); isDetach && name == "with the annotation" {
				continue
			}
			if progress, err := step.run(t.Context(), &s); progress != done || err != nil {
				t.Errorf("%s: %T is %+v, error %v", name, step, progress, err)
			}
		}
	}
	if e.nodeIsCordoned() {
		t.Error("the Node is cordoned")
	}
}

func TestDrainGivesUpAfterItsTimeout(t *testing.T) {
	t.Parallel()
	e := newEnvironment(t)
	e.pod("web", nil)
	e.state.Machine.Spec.Deletion.NodeDrainTimeoutSeconds = new(int32(60))
	start := e.clock.Now()
	if progress := e.run(e.drain()); progress.Done || progress.RequeueAfter > time.Minute {
		t.Errorf("progress %+v", progress)
	}
	e.clock.SetTime(start.Add(time.Minute - time.Second))
	if progress := e.run(e.drain()); progress.Done || progress.RequeueAfter != time.Second {
		t.Errorf("a second before the timeout: %+v", progress)
	}
	e.expectEvent("")
	e.clock.SetTime(start.Add(time.Minute))
	if progress := e.run(e.drain()); progress != done {
		t.Errorf("after the timeout: %+v", progress)
	}
	e.expectEvent("DrainTimedOut")
	if lines := e.log.Lines("gave up draining Node"); len(lines) != 1 || !contains(lines[0], "after=1m0s") {
		t.Errorf("log %v", lines)
	}
}

func TestDrainWaitsForAnInvalidRule(t *testing.T) {
	t.Parallel()
	e := newEnvironment(t)
	e.pod("web", nil)
	rule := &clusterv1.MachineDrainRule{ObjectMeta: metav1.ObjectMeta{Namespace: e.state.Machine.Namespace, Name: "r"}}
	rule.Spec.Drain.Behavior = clusterv1.MachineDrainRuleDrainBehaviorDrain
	rule.Spec.Pods = []clusterv1.MachineDrainRulePodSelector{{Selector: &metav1.LabelSelector{
		MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: metav1.LabelSelectorOpExists, Values: []string{"b"}}},
	}}}
	if err := e.client.Create(t.Context(), rule); err != nil {
		t.Fatal(err)
	}
	progress := e.run(e.drain())
	if progress.Done || !contains(progress.Message, `MachineDrainRule "r"`) || progress.RequeueAfter != objectRetry {
		t.Errorf("progress %+v", progress)
	}
	e.expectEvent("")
}

func TestStepsWaitForTheWorkloadCluster(t *testing.T) {
	t.Parallel()
	e := newEnvironment(t)
	disconnected := workload.New(workload.Options{})
	for name, test := range map[string]struct {
		step       func() step
		field      string
		annotation string
	}{
		"drain": {func() step {
			d := e.drain()
			d.workloads = disconnected
			return d
		}, "nodeDrainTimeoutSeconds", clusterv1.ExcludeNodeDrainingAnnotation},
		"detach": {func() step {
			d := e.detach()
			d.workloads = disconnected
			return d
		}, "nodeVolumeDetachTimeoutSeconds", clusterv1.ExcludeWaitForNodeVolumeDetachAnnotation},
	} {
		t.Run(name, func(t *testing.T) {
			progress, err := test.step().run(t.Context(), e.state)
			if err != nil || progress.Done || progress.RequeueAfter != 0 {
				t.Errorf("progress %+v, error %v", progress, err)
			}
			for _, part := range []string{e.state.Disconnected, "set spec.deletion." + test.field + " of the Machine, or the annotation " + test.annotation + " on the Machine"} {
				if !contains(progress.Message, part) {
					t.Errorf("message %q does not contain %q", progress.Message, part)
				}
			}
		})
		t.Run(name+" of an unknown Node", func(t *testing.T) {
			s := *e.state
			s.Node, s.NodeErr = nil, workload.ErrNotConnected
			for _, step := range []step{e.drain(), e.detach()} {
				if progress, err := step.run(t.Context(), &s); err != nil || progress.Done || !contains(progress.Message, "Waiting for the Nodes") {
					t.Errorf("progress %+v, error %v", progress, err)
				}
			}
		})
	}
}

func TestDetachWaitsForVolumes(t *testing.T) {
	t.Parallel()
	e := newEnvironment(t)
	pv, attachment := e.attachVolume("")
	e.state.Machine.Spec.Deletion.NodeVolumeDetachTimeoutSeconds = new(int32(600))
	start := e.clock.Now()
	progress := e.run(e.detach())
	if progress.Done || progress.Reason != clusterv1.MachineDeletingWaitingForVolumeDetachReason || !contains(progress.Message, pv) {
		t.Errorf("progress %+v", progress)
	}
	if got := e.state.Machine.Status.Deletion.WaitForNodeVolumeDetachStartTime; !got.Time.Equal(start) {
		t.Errorf("the wait started at %s, want %s", got, start)
	}
	e.clock.SetTime(start.Add(5 * time.Minute))
	if e.run(e.detach()); !e.state.Machine.Status.Deletion.WaitForNodeVolumeDetachStartTime.Time.Equal(start) {
		t.Error("the start time was reset")
	}
	e.state.Machine.Annotations = map[string]string{clusterv1.ExcludeWaitForNodeVolumeDetachAnnotation: ""}
	if progress, err := e.detach().run(t.Context(), e.state); progress != done || err != nil {
		t.Errorf("with the annotation: %+v, error %v", progress, err)
	}
	e.state.Machine.Annotations = nil
	e.clock.SetTime(start.Add(10 * time.Minute))
	if progress = e.run(e.detach()); progress != done {
		t.Errorf("after the timeout: %+v", progress)
	}
	e.expectEvent("FailedWaitForVolumeDetach")
	setDeletingReason(e.state.Machine, clusterv1.MachineDeletingWaitingForVolumeDetachReason)
	e.clock.SetTime(start.Add(5 * time.Minute))
	if err := e.client.Delete(t.Context(), attachment); err != nil {
		t.Fatal(err)
	}
	if progress = e.run(e.detach()); progress != done {
		t.Errorf("after the detachment: %+v", progress)
	}
	e.expectEvent("NodeVolumesDetached")
	if lines := e.log.Lines("detached volumes from Node"); len(lines) != 1 {
		t.Errorf("log %v", lines)
	}
}

// attachVolume attaches a PersistentVolume to the Node. The claim is its PersistentVolumeClaim; empty for none.
func (e *environment) attachVolume(claim string) (name string, attachment *storagev1.VolumeAttachment) {
	e.Helper()
	namespace := e.state.Machine.Namespace
	name, attachment = "pv-"+namespace, &storagev1.VolumeAttachment{ObjectMeta: metav1.ObjectMeta{Name: "va-" + namespace}}
	attachment.Spec = storagev1.VolumeAttachmentSpec{Attacher: "csi.test", NodeName: e.state.Node.Name, Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: &name}}
	volume := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: name}}
	volume.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
	volume.Spec.Capacity = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
	volume.Spec.CSI = &corev1.CSIPersistentVolumeSource{Driver: "csi.test", VolumeHandle: name}
	if claim != "" {
		volume.Spec.ClaimRef = &corev1.ObjectReference{Kind: "PersistentVolumeClaim", Namespace: namespace, Name: claim}
	}
	e.create(volume)
	e.create(attachment)
	attachment.Status.Attached = true
	if err := e.client.Status().Update(e.Context(), attachment); err != nil {
		e.Fatal(err)
	}
	e.Cleanup(func() { _ = e.client.Delete(context.Background(), volume) })
	return name, attachment
}

// TestDetachAfterADrainThatWasGivenUp has a Pod that was not evicted, and uses a volume.
func TestDetachAfterADrainThatWasGivenUp(t *testing.T) {
	t.Parallel()
	for name, giveUp := range map[string]func(*environment){
		"timeout": func(e *environment) {
			e.state.Machine.Spec.Deletion.NodeDrainTimeoutSeconds = new(int32(60))
			deletionStatus(e.state.Machine).NodeDrainStartTime = metav1.NewTime(e.clock.Now().Add(-time.Hour))
		},
		"exclude-node-draining": func(e *environment) {
			e.state.Machine.Annotations = map[string]string{clusterv1.ExcludeNodeDrainingAnnotation: ""}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newEnvironment(t)
			e.pod("db", func(pod *corev1.Pod) {
				pod.Spec.Volumes = []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{
					PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"},
				}}}
			})
			e.attachVolume("data")
			giveUp(e)
			e.state.MachineSet = &clusterv1.MachineSet{ObjectMeta: metav1.ObjectMeta{Name: "md-1", UID: "md-1"}}
			e.state.Deployment = &clusterv1.MachineDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: e.state.Machine.Namespace, Name: "md"}}
			e.state.Machine.OwnerReferences = []metav1.OwnerReference{
				*metav1.NewControllerRef(e.state.MachineSet, clusterv1.GroupVersion.WithKind("MachineSet")),
			}
			if progress := e.run(e.drain()); progress != done {
				t.Fatalf("the drain: %+v", progress)
			}
			progress := e.run(e.detach())
			if progress.Done || progress.Reason != clusterv1.MachineDeletingWaitingForVolumeDetachReason {
				t.Errorf("progress %+v", progress)
			}
			for _, part := range []string{
				"Pods that were not evicted", e.state.Machine.Namespace + "/db", "PersistentVolumeClaim data",
				". Delete those that were not evicted; to go on without, " + reason.DiskCaution + ", set " +
					"spec.template.spec.deletion.nodeVolumeDetachTimeoutSeconds of MachineDeployment md, or the annotation " +
					clusterv1.ExcludeWaitForNodeVolumeDetachAnnotation + " on the Machine",
			} {
				if !contains(progress.Message, part) {
					t.Errorf("message %q does not contain %q", progress.Message, part)
				}
			}
		})
	}
}

// TestDetachWaitsForPodsThatAreBeingDeleted has a Pod that uses a volume, and ends when its finalizer is removed: another deletion
// changes nothing.
func TestDetachWaitsForPodsThatAreBeingDeleted(t *testing.T) {
	t.Parallel()
	e := newEnvironment(t)
	pod := e.pod("db", func(pod *corev1.Pod) {
		pod.Finalizers = []string{"example.com/kept"}
		pod.Spec.Volumes = []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"},
		}}}
	})
	e.attachVolume("data")
	e.state.Machine.Annotations = map[string]string{clusterv1.ExcludeNodeDrainingAnnotation: ""}
	if err := e.client.Delete(t.Context(), pod, client.GracePeriodSeconds(0)); err != nil {
		t.Fatal(err)
	}
	progress := e.run(e.detach())
	want := "Waiting for the kubelet to end Pods that are being deleted and still use volumes on the Node: " + e.state.Machine.Namespace +
		"/db (PersistentVolumeClaim data). If that lasts, look for their finalizers, and at the kubelet of the Node; to go on without, "
	if progress.Done || !strings.HasPrefix(progress.Message, want) || contains(progress.Message, "Delete") {
		t.Errorf("progress %+v", progress)
	}
}

func (e *environment) nodeStep() *nodeStep {
	return &nodeStep{machines: indextest.NewClient(e.T, e.client), workloads: e.workloads, events: &recorder{e.events}, clock: e.clock}
}

func (e *environment) nodeExists(node *corev1.Node) bool {
	e.Helper()
	err := e.client.Get(e.Context(), client.ObjectKeyFromObject(node), &corev1.Node{})
	if err != nil && !apierrors.IsNotFound(err) {
		e.Fatal(err)
	}
	return err == nil
}

func TestNodeIsDeleted(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		change  func(e *environment)
		deleted bool
	}{
		"that was observed": {func(*environment) {}, true},
		"that the cache does not show any more, by its name": {func(e *environment) { e.state.Node, e.state.NodeErr = nil, notFound }, true},
		"not when it was replaced under its name": {func(e *environment) {
			e.state.Node = e.state.Node.DeepCopy()
			e.state.Node.UID = types.UID("another")
		}, false},
		"not when it has another providerID": {func(e *environment) {
			e.state.Node, e.state.NodeErr = nil, notFound
			e.state.Machine.Spec.ProviderID = "thing://another"
		}, false},
		"not when the control plane is deleted":         {func(e *environment) { e.state.ControlPlaneDeleting = true }, false},
		"not when another Machine has its providerID":   {func(e *environment) { e.state.ProviderIDConflict = true }, false},
		"not when the Machine never had an instance":    {func(e *environment) { e.unobserved(""); e.state.Machine.Spec.ProviderID = "" }, false},
		"not by the Machine's name before provisioning": {func(e *environment) { e.unobserved(e.state.Node.Name) }, false},
		"by the Machine's name when no Node was observed": {func(e *environment) {
			e.unobserved(e.state.Node.Name)
			e.state.Machine.Status.Initialization.InfrastructureProvisioned = new(true)
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newEnvironment(t)
			node := e.state.Node
			test.change(e)
			progress, err := e.nodeStep().run(e.log.Context(t.Context()), e.state)
			if err != nil {
				t.Fatal(err)
			}
			if exists := e.nodeExists(node); exists == test.deleted {
				t.Errorf("the Node exists %t after progress %+v", exists, progress)
			}
			if lines := e.log.Lines("deleted Node Node=" + node.Name); len(lines) != map[bool]int{true: 1}[test.deleted] {
				t.Errorf("log %v", lines)
			}
		})
	}
}

// unobserved makes the Machine one whose Node no reconcile has observed.
func (e *environment) unobserved(name string) {
	e.state.Node, e.state.NodeErr, e.state.Machine.Status.NodeRef = nil, notFound, clusterv1.MachineNodeReference{}
	if name != "" {
		e.state.Machine.Name = name
	}
}

func TestNodeWithoutProviderIDIsDeletedOnlyByReference(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		referenced, shared, deleted bool
	}{
		"when nodeRef names it":                          {referenced: true, deleted: true},
		"not without a nodeRef":                          {},
		"not when it can be that of another Machine too": {referenced: true, shared: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newEnvironment(t)
			node := e.node("")
			e.unobserved(node.Name)
			e.state.Machine.Status.Initialization.InfrastructureProvisioned = new(true)
			if test.referenced {
				e.state.Machine.Status.NodeRef.Name = node.Name
			}
			if test.shared {
				e.create(testenv.Machine(e.state.Machine.Namespace, node.Name))
			}
			if progress := e.run(e.nodeStep()); progress != done {
				t.Errorf("progress %+v", progress)
			}
			if exists := e.nodeExists(node); exists == test.deleted {
				t.Errorf("the Node exists %t", exists)
			}
		})
	}
}

func TestRunStopsAtTheFirstStepThatWaits(t *testing.T) {
	t.Parallel()
	e := newEnvironment(t)
	d := New(Options{
		Client: e.client, Workloads: e.workloads, Drainer: e.drain().drainer, Volumes: e.detach().volumes, Guard: e.drain().guard,
		Events: e.events, Clock: e.clock, Requested: NewRequested(e.clock),
	})
	run := func() Progress {
		t.Helper()
		progress, err := d.Run(e.log.Context(t.Context()), *e.state)
		if err != nil {
			t.Fatal(err)
		}
		return progress
	}
	hook := clusterv1.PreTerminateDeleteHookAnnotationPrefix + "/x"
	e.state.Machine.Annotations = map[string]string{hook: ""}
	if progress := run(); progress.Reason != clusterv1.MachineDeletingWaitingForPreTerminateHookReason {
		t.Errorf("progress %+v", progress)
	}
	e.state.Machine.Annotations = nil
	e.state.Infrastructure = Object{Err: notFound}
	e.state.Machine.Spec.Bootstrap.ConfigRef = clusterv1.ContractVersionedObjectReference{APIGroup: "g", Kind: "Config", Name: "b"}
	e.state.Bootstrap = Object{Unstructured: object(e.state.Machine)}
	e.state.Bootstrap.SetDeletionTimestamp(new(metav1.Now()))
	if progress := run(); progress.Reason != clusterv1.MachineDeletingWaitingForBootstrapDeletionReason || !e.nodeExists(e.state.Node) {
		t.Errorf("progress %+v", progress)
	}
	e.state.Bootstrap = Object{Err: notFound}
	want := Progress{Done: true, Reason: clusterv1.MachineDeletingDeletionCompletedReason}
	if progress := run(); progress != want || e.nodeExists(e.state.Node) {
		t.Errorf("progress %+v", progress)
	}
}
