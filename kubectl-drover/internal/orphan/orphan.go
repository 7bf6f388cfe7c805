// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Package orphan finds what no Machine owns: objects of providers in the management cluster, and what the collectors of the
// providers have reported about instances in the clouds, which only they can see.
package orphan

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"drover.io/api/crds"
	droverpolicyv1 "drover.io/api/policy/v1alpha1"
	"drover.io/kubectl-drover/internal/object"
)

// grace is how old an object must be to count: one that was just created may be adopted yet.
const grace = 20 * time.Minute

// Object is an object of a provider without a Machine.
type Object struct {
	Kind      string      `json:"kind"`
	Namespace string      `json:"namespace"`
	Name      string      `json:"name"`
	Created   metav1.Time `json:"created"`
	// Why says which owner is missing.
	Why string `json:"why"`
	// Kept is why it must not be deleted now; empty if it may be.
	Kept string `json:"kept,omitempty"`

	gvk schema.GroupVersionKind
	uid types.UID
	rv  string
}

// Report is what a collector has reported about an instance or attached object in a cloud.
type Report struct {
	Namespace string      `json:"namespace"`
	Cluster   string      `json:"cluster"`
	Reason    string      `json:"reason"`
	Message   string      `json:"message"`
	Last      metav1.Time `json:"last"`
}

// Finder finds orphans.
type Finder struct {
	*object.Reader
	Now time.Time
}

// Objects returns the objects of providers that no Machine owns or refers to, sorted.
func (f *Finder) Objects(ctx context.Context, namespace string) ([]Object, error) {
	kinds, err := f.kinds()
	if err != nil {
		return nil, err
	}
	clusters, err := f.clusters(ctx, namespace)
	if err != nil {
		return nil, err
	}
	machines := owners{uids: map[types.UID]bool{}, names: map[string]bool{}}
	err = f.Machines(ctx, namespace, "", func(page []clusterv1.Machine) error {
		for i := range page {
			machines.add(&page[i])
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	found := []Object{}
	for _, kind := range kinds {
		of, err := f.ofKind(ctx, kind, namespace, machines, clusters)
		if err != nil {
			return nil, err
		}
		found = append(found, of...)
	}
	slices.SortFunc(found, func(a, b Object) int {
		return strings.Compare(a.Namespace+a.Kind+a.Name, b.Namespace+b.Kind+b.Name)
	})
	return found, nil
}

// Confirm returns those of the objects that are still orphans, after a time in which a Machine may have come to refer to them.
func (f *Finder) Confirm(ctx context.Context, namespace string, objects []Object) ([]Object, error) {
	now, err := f.Objects(ctx, namespace)
	if err != nil {
		return nil, err
	}
	still := map[types.UID]bool{}
	for _, o := range now {
		still[o.uid] = o.Kept == ""
	}
	return slices.DeleteFunc(objects, func(o Object) bool { return !still[o.uid] }), nil
}

// kinds are the BootstrapConfig and the machines of the clouds that the API server serves.
func (f *Finder) kinds() ([]object.Kind, error) {
	definitions, err := crds.Definitions()
	if err != nil {
		return nil, err
	}
	var kinds []object.Kind
	for _, d := range definitions {
		infra := d.Spec.Group == "infrastructure.drover.io" && strings.HasSuffix(d.Spec.Names.Kind, "Machine")
		if !infra && d.Spec.Names.Kind != "BootstrapConfig" {
			continue
		}
		gvk := schema.GroupVersionKind{Group: d.Spec.Group, Version: d.Spec.Versions[0].Name, Kind: d.Spec.Names.Kind}
		if _, err := f.Mapper.RESTMapping(gvk.GroupKind(), gvk.Version); meta.IsNoMatchError(err) {
			continue
		} else if err != nil {
			return nil, err
		}
		kinds = append(kinds, object.Kind{GroupVersionKind: gvk, Resource: d.Spec.Names.Plural})
	}
	return kinds, nil
}

func (f *Finder) ofKind(ctx context.Context, kind object.Kind, namespace string, machines owners, clusters held) ([]Object, error) {
	var found []Object
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
	err := object.Each(ctx, f.Reader, kind, list, func(page *metav1.PartialObjectMetadataList) error {
		for i := range page.Items {
			o := &page.Items[i]
			why := machines.missing(o)
			if why == "" || f.Now.Sub(o.CreationTimestamp.Time) < grace {
				continue
			}
			found = append(found, Object{
				Kind: kind.Kind, Namespace: o.Namespace, Name: o.Name, Created: o.CreationTimestamp, Why: why, Kept: clusters.kept(o),
				gvk: kind.GroupVersionKind, uid: o.UID, rv: o.ResourceVersion,
			})
		}
		return nil
	}, client.InNamespace(namespace))
	return found, err
}

// owners are the Machines that exist.
type owners struct {
	uids map[types.UID]bool
	// names are those of Machines, and those of the objects that they refer to, which they may adopt yet.
	names map[string]bool
}

func (m owners) add(machine *clusterv1.Machine) {
	m.uids[machine.UID] = true
	for _, name := range []string{machine.Name, machine.Spec.InfrastructureRef.Name, machine.Spec.Bootstrap.ConfigRef.Name} {
		m.names[machine.Namespace+"/"+name] = true
	}
}

// missing is why an object is an orphan; empty if it is none. One that something else controls is not ours to judge, and after a
// restore the Machine of an object has another UID.
func (m owners) missing(o *metav1.PartialObjectMetadata) string {
	owner := metav1.GetControllerOfNoCopy(o)
	switch {
	case m.names[o.Namespace+"/"+o.Name], slices.ContainsFunc(o.OwnerReferences, m.has(o.Namespace)):
		return ""
	case owner == nil:
		return "no Machine owns it or refers to it"
	case !object.Machine.Owns(owner): // other projects have kinds of that name
		return ""
	}
	return "its Machine " + owner.Name + " does not exist"
}

// has reports of an owner in a namespace whether it is a Machine that exists.
func (m owners) has(namespace string) func(metav1.OwnerReference) bool {
	return func(owner metav1.OwnerReference) bool {
		return object.Machine.Owns(&owner) && (m.uids[owner.UID] || m.names[namespace+"/"+owner.Name])
	}
}

// held has why nothing may be deleted for a Cluster, by namespace and name. In a management cluster that was restored or copied,
// an object without a Machine may be that of an instance which the other management cluster uses. A backup has no status, so a
// Cluster without the condition counts as one that is not claimed.
type held map[string]string

func (f *Finder) clusters(ctx context.Context, namespace string) (held, error) {
	found := held{}
	err := object.Each(ctx, f.Reader, object.Cluster, &clusterv1.ClusterList{}, func(page *clusterv1.ClusterList) error {
		for i := range page.Items {
			c := &page.Items[i]
			claim := meta.FindStatusCondition(c.Status.Conditions, droverpolicyv1.ManagementClaimedCondition)
			switch {
			case ptr.Deref(c.Spec.Paused, false):
				found[c.Namespace+"/"+c.Name] = "its Cluster " + c.Name + " is paused"
			case claim == nil || claim.Status != metav1.ConditionTrue:
				found[c.Namespace+"/"+c.Name] = "this management cluster does not have the claim on its Cluster " + c.Name
			}
		}
		return nil
	}, client.InNamespace(namespace))
	return found, err
}

// kept is why an object must not be deleted; empty if it may be.
func (h held) kept(o *metav1.PartialObjectMetadata) string {
	_, paused := o.Annotations[clusterv1.PausedAnnotation]
	switch {
	case !o.DeletionTimestamp.IsZero():
		return "it is being deleted already"
	case paused:
		return "it is paused"
	}
	return h[o.Namespace+"/"+o.Labels[clusterv1.ClusterNameLabel]]
}

// Delete deletes an orphan, unless it has changed since it was found, or is Kept.
func (f *Finder) Delete(ctx context.Context, o Object) error {
	if o.Kept != "" {
		return fmt.Errorf("it must not be deleted: %s", o.Kept)
	}
	target := &metav1.PartialObjectMetadata{}
	target.SetGroupVersionKind(o.gvk)
	target.Namespace, target.Name = o.Namespace, o.Name
	err := f.Client.Delete(ctx, target, client.Preconditions{UID: &o.uid, ResourceVersion: &o.rv})
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// reported are the reasons of the events of a collector.
var reported = []string{"OrphanFound", "OrphanDeleted", "OrphanOfAnotherManagementCluster", "DuplicateInstance"}

// Reports returns what the collectors of the providers have reported, the newest last. Events are kept for an hour usually.
func (f *Finder) Reports(ctx context.Context, namespace string) ([]Report, error) {
	found := []Report{}
	kind := object.Kind{GroupVersionKind: corev1.SchemeGroupVersion.WithKind("Event"), Resource: "events"}
	err := object.Each(ctx, f.Reader, kind, &corev1.EventList{}, func(page *corev1.EventList) error {
		for i := range page.Items {
			e := &page.Items[i]
			if e.InvolvedObject.Kind != object.Cluster.Kind || !slices.Contains(reported, e.Reason) {
				continue
			}
			last := e.LastTimestamp
			if last.IsZero() {
				last = metav1.NewTime(e.EventTime.Time)
			}
			found = append(found, Report{e.InvolvedObject.Namespace, e.InvolvedObject.Name, e.Reason, e.Message, last})
		}
		return nil
	}, client.InNamespace(namespace))
	slices.SortStableFunc(found, func(a, b Report) int { return a.Last.Compare(b.Last.Time) })
	return found, err
}
