// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
)

// Object is a provider's object together with the contract it is to be read by.
// It must be treated as read-only: it may come from a cache shared by all controllers.
type Object struct {
	*unstructured.Unstructured
	Contract Version
}

// HasOwner reports whether an object has an owner reference with the UID, as controller or not.
func HasOwner(object metav1.Object, uid types.UID) bool {
	return slices.ContainsFunc(object.GetOwnerReferences(), func(owner metav1.OwnerReference) bool { return owner.UID == uid })
}

// Ready returns the Ready condition the provider reports, or nil when it reports none.
// The contract allows a provider to omit reason, message and time, so only type and status are certain.
func (o *Object) Ready() *metav1.Condition { return o.condition("Ready") }

func (o *Object) condition(kind string) *metav1.Condition {
	// Providers on their way to the newer contract keep its conditions beside the older ones.
	conditions, found, _ := unstructured.NestedSlice(o.Unstructured.Object, "status", "v1beta2", "conditions")
	if !found {
		conditions, _, _ = unstructured.NestedSlice(o.Unstructured.Object, "status", "conditions")
	}
	for _, each := range conditions {
		fields, ok := each.(map[string]any)
		if !ok || text(fields, "type") != kind {
			continue
		}
		condition := &metav1.Condition{
			Type:    kind,
			Status:  metav1.ConditionStatus(text(fields, "status")),
			Reason:  text(fields, "reason"),
			Message: text(fields, "message"),
		}
		if at, err := time.Parse(time.RFC3339, text(fields, "lastTransitionTime")); err == nil {
			condition.LastTransitionTime = metav1.NewTime(at)
		}
		return condition
	}
	return nil
}

// flag reads a boolean that each contract version keeps at its own path.
func (o *Object) flag(v1beta2, v1beta1 []string) bool {
	path := v1beta2
	if o.Contract == V1Beta1 {
		path = v1beta1
	}
	value, _, _ := unstructured.NestedBool(o.Unstructured.Object, path...)
	return value
}

// text reads a string of the object, empty when absent.
func (o *Object) text(path ...string) string {
	value, _, _ := unstructured.NestedString(o.Unstructured.Object, path...)
	return value
}

func text(fields map[string]any, key string) string {
	value, _ := fields[key].(string)
	return value
}
