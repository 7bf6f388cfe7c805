// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package deletion

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"drover.io/runtime/drainplan"
)

// State is what a reconcile has observed about a Machine that is being deleted. Steps change nothing in it but the
// status of the Machine.
type State struct {
	Machine *clusterv1.Machine
	Cluster *clusterv1.Cluster
	// MachineSet and Deployment own the Machine; nil for one without them.
	MachineSet *clusterv1.MachineSet
	Deployment *clusterv1.MachineDeployment

	Infrastructure, Bootstrap Object

	// Node is the Machine's Node, or nil with the reason in NodeErr.
	Node    *corev1.Node
	NodeErr error
	// ProviderIDConflict means that the providerID is that of another Machine, whose Node must not be touched.
	ProviderIDConflict bool
	// ControlPlaneDeleting means that all Nodes are deleted together with their control plane.
	ControlPlaneDeleting bool
	// Connecting means that it is not known yet whether the Machine has a Node.
	Connecting bool
	// Disconnected is why there is no connection to the workload cluster, where there is none.
	Disconnected string
}

// Object is a provider's object that the Machine refers to, or why it could not be read.
type Object struct {
	*unstructured.Unstructured
	// Err is NotFound when the object does not exist; other errors leave that unknown.
	Err error
	// Foreign means that the object belongs to something other than the Machine and must not be deleted.
	Foreign bool
}

// Deleting reports whether the object is deleted or being deleted.
func (o Object) Deleting() bool {
	return apierrors.IsNotFound(o.Err) || (o.Unstructured != nil && o.GetDeletionTimestamp() != nil)
}

// owner is the MachineDeployment or MachineSet whose MachinePolicy applies; nil for a Machine without one.
func (s *State) owner() client.Object {
	switch {
	case s.Deployment != nil:
		return s.Deployment
	case s.MachineSet != nil:
		return s.MachineSet
	}
	return nil
}

// field names a field of spec.deletion of the Machine where it has an effect.
func (s *State) field(name string) string {
	owners := drainplan.Owners{Cluster: s.Cluster, MachineDeployment: s.Deployment, MachineSet: s.MachineSet}
	return owners.DeletionField(s.Machine, name)
}

func (s *State) clusterKey() client.ObjectKey {
	return client.ObjectKey{Namespace: s.Machine.Namespace, Name: s.Machine.Spec.ClusterName}
}

// needsDrain reports whether there is a Node to drain. There is none when the Cluster or its control plane is
// deleted as a whole, when no Node exists, when it may be another Machine's, or when the instance is being deleted
// already: its Pods are lost then in any case.
func (s *State) needsDrain() bool {
	if !s.Cluster.DeletionTimestamp.IsZero() || s.ControlPlaneDeleting || s.Infrastructure.Deleting() || s.ProviderIDConflict {
		return false
	}
	return s.Node != nil || s.Connecting || (s.Machine.Status.NodeRef.IsDefined() && !apierrors.IsNotFound(s.NodeErr))
}

// preTerminateStarted reports whether drain and volume detachment are over: Pods that are scheduled to the Node
// while the pre-terminate hooks are awaited are the responsibility of the hooks.
func preTerminateStarted(m *clusterv1.Machine) bool {
	return m.Status.Deletion != nil && !m.Status.Deletion.WaitForPreTerminateHookStartTime.IsZero()
}

// wasAt reports whether the last written status of the Machine was at that stage of its deletion.
func wasAt(m *clusterv1.Machine, reason string) bool {
	return conditions.GetReason(m, clusterv1.MachineDeletingCondition) == reason
}

func deletionStatus(m *clusterv1.Machine) *clusterv1.MachineDeletionStatus {
	if m.Status.Deletion == nil {
		m.Status.Deletion = &clusterv1.MachineDeletionStatus{}
	}
	return m.Status.Deletion
}

// setStartTime records when a stage began, once.
func setStartTime(started *metav1.Time, now time.Time) {
	if started.IsZero() {
		*started = metav1.NewTime(now)
	}
}

// timedOut reports whether a stage has used up its timeout. No timeout, or zero, is forever.
func timedOut(started metav1.Time, seconds *int32, now time.Time) bool {
	if seconds == nil || *seconds == 0 || started.IsZero() {
		return false
	}
	return now.Sub(started.Time) >= time.Duration(*seconds)*time.Second
}

// untilTimeout is how long a timeout still runs, at least a second; zero where there is none.
func untilTimeout(started metav1.Time, seconds *int32, now time.Time) time.Duration {
	if seconds == nil || *seconds == 0 {
		return 0
	}
	return max(time.Second, started.Add(time.Duration(*seconds)*time.Second).Sub(now))
}

// earliest is the shorter of two delays, where zero is none.
func earliest(a, b time.Duration) time.Duration {
	if a == 0 || b == 0 {
		return max(a, b)
	}
	return min(a, b)
}
