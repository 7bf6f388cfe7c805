// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Package ownership decides which objects belong together by their owner references, for the controllers of Machines and
// Clusters, MachineSets and MachineDeployments. It adopts provider objects, and refuses those of another owner. It checks
// with the API server whether an object from a cache may become an owner: that may have been deleted, or replaced by
// another of its name, and an object that refers to its UID is then garbage collected. Which owners are foreign is the
// rule of each controller.
package ownership

import (
	"context"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// CanAdopt reports whether the object exists under its UID and is not being deleted. Controllers of Kubernetes check
// the same before they adopt objects that an orphaning deletion may have released.
func CanAdopt(ctx context.Context, live client.Reader, object client.Object) (bool, error) {
	found, err := read(ctx, live, object)
	return found != nil && found.GetDeletionTimestamp() == nil, err
}

// Exists reports whether the object exists under its UID.
func Exists(ctx context.Context, live client.Reader, object client.Object) (bool, error) {
	found, err := read(ctx, live, object)
	return found != nil, err
}

// Gone reports whether an object that is not among the references yet does not exist under its UID. Nothing is read
// where it is among them.
func Gone(ctx context.Context, live client.Reader, references []metav1.OwnerReference, object client.Object) (bool, error) {
	for _, reference := range references {
		if reference.UID == object.GetUID() {
			return false, nil
		}
	}
	exists, err := Exists(ctx, live, object)
	return !exists, err
}

// Controlled returns the references of an object with its new controller in place of a Cluster, which owns what stands alone.
func Controlled(references []metav1.OwnerReference, controller metav1.OwnerReference) []metav1.OwnerReference {
	kept := slices.DeleteFunc(slices.Clone(references), func(reference metav1.OwnerReference) bool {
		return IsKind(reference, "Cluster") || reference.UID == controller.UID
	})
	return append(kept, controller)
}

// read returns the object as it is now; nil if it does not exist.
func read(ctx context.Context, live client.Reader, object client.Object) (client.Object, error) {
	found, _ := object.DeepCopyObject().(client.Object)
	err := live.Get(ctx, client.ObjectKeyFromObject(object), found)
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil //nolint:nilnil // not existing is a result
	case err != nil:
		return nil, fmt.Errorf("reading the owner %q: %w", object.GetName(), err)
	case found.GetUID() != object.GetUID():
		return nil, nil //nolint:nilnil // it is another one of the same name
	}
	return found, nil
}
