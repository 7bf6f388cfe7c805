// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
)

// newScheme has the API groups that controllers use in workload clusters.
func newScheme() *runtime.Scheme {
	scheme := runtime.NewScheme()
	utilruntime.Must(corev1.AddToScheme(scheme))
	utilruntime.Must(appsv1.AddToScheme(scheme))
	utilruntime.Must(batchv1.AddToScheme(scheme))
	utilruntime.Must(policyv1.AddToScheme(scheme))
	utilruntime.Must(storagev1.AddToScheme(scheme))
	utilruntime.Must(coordinationv1.AddToScheme(scheme))
	return scheme
}

// newMapper maps the kinds that controllers use in workload clusters. They are
// all part of Kubernetes and the same everywhere, so no connection has to
// discover them or hold its own copy. A kind that is missing here is a "no match"
// error of the Client; add it.
func newMapper() meta.RESTMapper {
	mapper := meta.NewDefaultRESTMapper(nil)
	add := func(gv schema.GroupVersion, kind string, scope meta.RESTScope) {
		mapper.Add(gv.WithKind(kind), scope)
	}
	add(corev1.SchemeGroupVersion, "Namespace", meta.RESTScopeRoot)
	add(corev1.SchemeGroupVersion, "Node", meta.RESTScopeRoot)
	add(corev1.SchemeGroupVersion, "PersistentVolume", meta.RESTScopeRoot)
	add(corev1.SchemeGroupVersion, "PersistentVolumeClaim", meta.RESTScopeNamespace)
	add(corev1.SchemeGroupVersion, "Pod", meta.RESTScopeNamespace)
	add(corev1.SchemeGroupVersion, "ReplicationController", meta.RESTScopeNamespace)
	add(appsv1.SchemeGroupVersion, "DaemonSet", meta.RESTScopeNamespace)
	add(appsv1.SchemeGroupVersion, "Deployment", meta.RESTScopeNamespace)
	add(appsv1.SchemeGroupVersion, "ReplicaSet", meta.RESTScopeNamespace)
	add(appsv1.SchemeGroupVersion, "StatefulSet", meta.RESTScopeNamespace)
	add(batchv1.SchemeGroupVersion, "Job", meta.RESTScopeNamespace)
	add(coordinationv1.SchemeGroupVersion, "Lease", meta.RESTScopeNamespace)
	add(policyv1.SchemeGroupVersion, "PodDisruptionBudget", meta.RESTScopeNamespace)
	add(storagev1.SchemeGroupVersion, "CSINode", meta.RESTScopeRoot)
	add(storagev1.SchemeGroupVersion, "StorageClass", meta.RESTScopeRoot)
	add(storagev1.SchemeGroupVersion, "VolumeAttachment", meta.RESTScopeRoot)
	return mapper
}
