// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// Selector selects objects by their labels. An object must match all of it; an empty one selects every object
// of the namespace.
type Selector struct {
	// matchLabels are labels that the object must have.
	// +optional
	// +kubebuilder:validation:MaxProperties=16
	// +kubebuilder:validation:XValidation:rule="self.all(k, !format.qualifiedName().validate(k).hasValue())",message="every key must be a label key such as example.com/pool"
	// +kubebuilder:validation:XValidation:rule="self.all(k, !format.labelValue().validate(self[k]).hasValue())",message="every value must be a label value: at most 63 letters, digits, '-', '_' and '.'"
	MatchLabels map[string]LabelText `json:"matchLabels,omitempty"`

	// matchExpressions are conditions that the object's labels must meet.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	MatchExpressions []SelectorRequirement `json:"matchExpressions,omitempty"`
}

// LabelText is a label value, or part of a selector that is compared with one.
// +kubebuilder:validation:MaxLength=63
type LabelText string

// SelectorRequirement is a condition that labels must meet.
// +kubebuilder:validation:XValidation:rule="self.operator in ['In', 'NotIn'] ? has(self.values) && size(self.values) > 0 : !has(self.values) || size(self.values) == 0",message="values must be given for In and NotIn, and must not be given for Exists and DoesNotExist"
type SelectorRequirement struct {
	// key is the label key.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=317
	// +kubebuilder:validation:XValidation:rule="!format.qualifiedName().validate(self).hasValue()",message="key must be a label key such as example.com/pool"
	Key string `json:"key,omitempty"`

	// operator is In, NotIn, Exists or DoesNotExist.
	// +required
	// +kubebuilder:validation:Enum=In;NotIn;Exists;DoesNotExist
	Operator metav1.LabelSelectorOperator `json:"operator,omitempty"`

	// values are compared with the label's value, for In and NotIn.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:XValidation:rule="self.all(v, !format.labelValue().validate(v).hasValue())",message="every value must be a label value: at most 63 letters, digits, '-', '_' and '.'"
	Values []LabelText `json:"values,omitempty"`
}

// AsSelector returns the selector as a labels.Selector.
func (s Selector) AsSelector() (labels.Selector, error) {
	full := &metav1.LabelSelector{MatchLabels: make(map[string]string, len(s.MatchLabels))}
	for key, value := range s.MatchLabels {
		full.MatchLabels[key] = string(value)
	}
	for _, each := range s.MatchExpressions {
		requirement := metav1.LabelSelectorRequirement{Key: each.Key, Operator: each.Operator}
		for _, value := range each.Values {
			requirement.Values = append(requirement.Values, string(value))
		}
		full.MatchExpressions = append(full.MatchExpressions, requirement)
	}
	return metav1.LabelSelectorAsSelector(full)
}
