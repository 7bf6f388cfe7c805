// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"math"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

// ControlPlane is the object a control plane provider turns into API servers.
type ControlPlane struct{ Object }

// Initialized reports whether the API server has come up for the first time.
func (c *ControlPlane) Initialized() bool {
	return c.flag([]string{"status", "initialization", "controlPlaneInitialized"}, []string{"status", "initialized"})
}

// Endpoint is where the API server answers; zero when the provider does not supply it.
func (c *ControlPlane) Endpoint() clusterv1.APIEndpoint { return endpoint(&c.Object) }

// AvailableCondition is the provider's condition Available as the Cluster reports it, without a type. By both contract versions
// a provider that reports none is available once it is initialized, and the field that reports that is named before.
func (c *ControlPlane) AvailableCondition(initialized bool) metav1.Condition {
	field := "status.initialization.controlPlaneInitialized"
	if c.Contract == V1Beta1 {
		field = "status.initialized"
	}
	return c.mirror(mirroredCondition{
		kind: clusterv1.AvailableCondition,
		yes:  clusterv1.AvailableReason, no: clusterv1.NotAvailableReason, unknown: clusterv1.AvailableUnknownReason,
	}, initialized, field)
}

// Reported returns status and message of a condition that the contract leaves to the provider, as RollingOut; nil without one.
// The status is True, False or Unknown.
func (c *ControlPlane) Reported(kind string) *metav1.Condition {
	if c.condition(kind) == nil {
		return nil
	}
	condition := c.mirror(mirroredCondition{kind: kind}, false, "")
	return &condition
}

// Replicas are the counters of Machines and their versions as the provider reports them. A counter that it does not report is
// nil: the contract does not require that a control plane has replicas. Versions are not sorted.
func (c *ControlPlane) Replicas() clusterv1.ClusterControlPlaneStatus {
	replicas := clusterv1.ClusterControlPlaneStatus{
		DesiredReplicas:   c.number("spec", "replicas"),
		Replicas:          c.number("status", "replicas"),
		ReadyReplicas:     c.number("status", "readyReplicas"),
		AvailableReplicas: c.number("status", "availableReplicas"),
		UpToDateReplicas:  c.number("status", "upToDateReplicas"),
		Versions:          c.versions(),
	}
	if c.Contract == V1Beta1 {
		replicas.UpToDateReplicas, replicas.AvailableReplicas = c.number("status", "updatedReplicas"), nil
		if unavailable := c.number("status", "unavailableReplicas"); unavailable != nil && replicas.DesiredReplicas != nil {
			replicas.AvailableReplicas = new(max(*replicas.DesiredReplicas-*unavailable, 0))
		}
	}
	return replicas
}

// versions leaves out what the status of a Cluster cannot have.
func (c *ControlPlane) versions() []clusterv1.StatusVersion {
	var versions []clusterv1.StatusVersion
	list, _, _ := unstructured.NestedSlice(c.Unstructured.Object, "status", "versions")
	for _, each := range list {
		fields, ok := each.(map[string]any)
		if !ok || text(fields, "version") == "" {
			continue
		}
		version := clusterv1.StatusVersion{Version: text(fields, "version")}
		if replicas, ok := fields["replicas"].(int64); ok && replicas > 0 && replicas <= math.MaxInt32 {
			version.Replicas = int32(replicas)
		}
		versions = append(versions, version)
	}
	return versions
}

// number reads a count; nil when there is none that a Cluster can have.
func (o *Object) number(path ...string) *int32 {
	value, found, err := unstructured.NestedInt64(o.Unstructured.Object, path...)
	if err != nil || !found || value < 0 || value > math.MaxInt32 {
		return nil
	}
	return new(int32(value))
}
