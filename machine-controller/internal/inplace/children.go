// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package inplace

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"drover.io/machine-controller/internal/contract"
)

// updateChildren writes the template's labels and annotations into the Machine's BootstrapConfig and InfraMachine, if the
// Machine controls them. The keys to remove are listed on the Machine alone, so it is written last.
func (u *Updater) updateChildren(ctx context.Context, set *clusterv1.MachineSet, m *clusterv1.Machine) error {
	template := &set.Spec.Template
	labels := metadataPatch(m.Annotations[labelsFromTemplate], template.Labels)
	delete(labels, clusterv1.ClusterNameLabel) // the object is found by it, and its Cluster never changes
	delete(labels, clusterv1.WatchLabel)       // the Machine's own; the machine controller keeps it on the object
	data, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"labels": labels, "annotations": annotationsPatch(m.Annotations[annotationsFromTemplate], template.Annotations),
	}})
	if err != nil {
		return fmt.Errorf("encoding patch: %w", err)
	}
	for _, ref := range []clusterv1.ContractVersionedObjectReference{m.Spec.Bootstrap.ConfigRef, m.Spec.InfrastructureRef} {
		if !ref.IsDefined() {
			continue
		}
		gvk, _, err := u.Resolver.Resolve(ctx, ref.GroupKind())
		if err != nil {
			return err
		}
		object := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: m.Namespace, Name: ref.Name}}
		object.SetGroupVersionKind(gvk)
		if err := u.Live.Get(ctx, client.ObjectKeyFromObject(object), object); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("reading %s %q: %w", ref.Kind, ref.Name, err)
		}
		if !metav1.IsControlledBy(object, m) || u.Watch.Foreign(object) {
			continue
		}
		if err := u.Client.Patch(ctx, object, client.RawPatch(types.MergePatchType, data)); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("updating %s %q: %w", ref.Kind, ref.Name, err)
		}
	}
	return nil
}

// metadataUpToDate reports whether the Machine, and with it its children, has the labels and annotations of the template.
// What every Machine has of its own takes precedence over the template: labels are those of MachineLabels.
func metadataUpToDate(m *clusterv1.Machine, set *clusterv1.MachineSet, labels map[string]string) bool {
	template := &set.Spec.Template
	for key := range template.Labels {
		if have, ok := m.Labels[key]; !ok || have != labels[key] {
			return false
		}
	}
	for key, value := range template.Annotations {
		if have, ok := m.Annotations[key]; (!ok || have != value) && key != labelsFromTemplate && key != annotationsFromTemplate {
			return false
		}
	}
	return m.Annotations[labelsFromTemplate] == keyList(template.Labels) &&
		m.Annotations[annotationsFromTemplate] == keyList(template.Annotations)
}

// annotationsPatch is metadataPatch without what the provider of the object records there.
func annotationsPatch(before string, wanted map[string]string) map[string]any {
	patch := metadataPatch(before, wanted)
	maps.DeleteFunc(patch, func(key string, _ any) bool { return contract.IsReservedAnnotation(key) })
	return patch
}

// metadataPatch sets the wanted keys and removes those that were managed before and are no longer wanted.
func metadataPatch(before string, wanted map[string]string) map[string]any {
	patch := map[string]any{}
	for key := range strings.SplitSeq(before, ",") {
		if key != "" {
			patch[key] = nil
		}
	}
	for key, value := range wanted {
		patch[key] = value
	}
	return patch
}
