// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package autoscaler

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/cache"
)

const capacityPrefix = "capacity.cluster-autoscaler.kubernetes.io/"

// Template is the Node that the autoscaler imagines a group without machines would make.
type Template struct {
	Capacity map[corev1.ResourceName]string
	Labels   map[string]string
	Taints   []corev1.Taint
}

// enough reports whether a group can be scaled up from nothing.
func (t Template) enough() bool {
	return t.Capacity[corev1.ResourceCPU] != "" && t.Capacity[corev1.ResourceMemory] != ""
}

// Template reads the group and the template of its infrastructure.
func (g *Group) Template(ctx context.Context) (Template, error) {
	infra, err := g.infrastructure(ctx)
	if err != nil {
		return Template{}, err
	}
	t := Template{Capacity: map[corev1.ResourceName]string{corev1.ResourcePods: "110"}, Labels: map[string]string{
		corev1.LabelArchStable: "amd64", corev1.LabelOSStable: "linux",
	}}
	// A map with anything but text in it is dropped as a whole.
	read, _, _ := unstructured.NestedStringMap(infra.Object, "status", "capacity")
	published := g.annotated("cpu", "memory", "maxPods")
	for name, quantity := range read {
		if _, over := published[name]; !over {
			published[name] = quantity
		}
	}
	for name, quantity := range published {
		if _, err := resource.ParseQuantity(quantity); err != nil {
			return Template{}, fmt.Errorf("capacity %s: %w", name, err)
		}
		t.Capacity[corev1.ResourceName(strings.Replace(name, "maxPods", "pods", 1))] = quantity
	}
	// An architecture that is not published replaces the default, too.
	t.Labels[corev1.LabelArchStable], _, _ = unstructured.NestedString(infra.Object, "status", "nodeInfo", "architecture")
	t.Labels[corev1.LabelOSStable], _, _ = unstructured.NestedString(infra.Object, "status", "nodeInfo", "operatingSystem")
	for each := range strings.SplitSeq(g.object.GetAnnotations()[capacityPrefix+"labels"], ",") {
		if key, value, ok := strings.Cut(each, "="); ok {
			t.Labels[key] = value
		}
	}
	taints, _, err := unstructured.NestedSlice(g.object.Object, "spec", "template", "spec", "taints")
	for _, each := range taints {
		taint, _ := each.(map[string]any)
		key, _ := taint["key"].(string)
		value, _ := taint["value"].(string)
		effect, _ := taint["effect"].(string)
		t.Taints = append(t.Taints, corev1.Taint{Key: key, Value: value, Effect: corev1.TaintEffect(effect)})
	}
	return t, err
}

func (g *Group) annotated(names ...string) map[string]string {
	found := map[string]string{}
	for _, name := range names {
		if value, ok := g.object.GetAnnotations()[capacityPrefix+name]; ok {
			found[name] = value
		}
	}
	return found
}

// infrastructure finds the template's object by the rules of names: the version is any that
// serves the kind, the resource the kind in lower case with an s. The informer on it is
// started now and must sync.
func (g *Group) infrastructure(ctx context.Context) (*unstructured.Unstructured, error) {
	reference, _, err := unstructured.NestedStringMap(g.object.Object, "spec", "template", "spec", "infrastructureRef")
	if err != nil {
		return nil, err
	}
	version, err := g.p.versionOf(reference["apiGroup"], reference["kind"])
	if err != nil {
		return nil, err
	}
	plural := schema.GroupVersionResource{Group: reference["apiGroup"], Version: version, Resource: strings.ToLower(reference["kind"]) + "s"}
	watched := g.p.watched.ForResource(plural).Informer()
	g.p.watched.Start(g.p.stop)
	if !cache.WaitForCacheSync(ctx.Done(), watched.HasSynced) {
		return nil, fmt.Errorf("the informer on %s did not sync", plural.Resource)
	}
	found, exists, err := watched.GetStore().GetByKey(g.object.GetNamespace() + "/" + reference["name"])
	if err != nil || !exists {
		return nil, fmt.Errorf("%s %q does not exist: %w", reference["kind"], reference["name"], err)
	}
	object, _ := found.(*unstructured.Unstructured)
	return object, nil
}

func (p *Provider) versionOf(group, kind string) (string, error) {
	groups, err := p.discovery.ServerGroups()
	if err != nil {
		return "", err
	}
	for _, each := range groups.Groups {
		if each.Name != group {
			continue
		}
		for _, version := range each.Versions {
			served, err := p.discovery.ServerResourcesForGroupVersion(version.GroupVersion)
			if err != nil {
				return "", err
			}
			if slices.ContainsFunc(served.APIResources, func(r metav1.APIResource) bool { return r.Kind == kind }) {
				return version.Version, nil
			}
		}
	}
	return "", errors.New("no version of " + group + " serves " + kind)
}
