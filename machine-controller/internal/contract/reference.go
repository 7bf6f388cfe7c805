// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"errors"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	// templateSuffix ends the kind of every template; what is before it is the kind made from it.
	templateSuffix = "Template"
	// remediationSuffix ends the kind of every request to a controller that remediates Machines.
	remediationSuffix = "Remediation"
	// coreProvider is the value of the provider label on the CRDs of Cluster API itself.
	coreProvider = "cluster-api"
)

// InvalidReferenceError means that a reference names a kind that is not allowed in its place.
type InvalidReferenceError struct {
	GroupKind schema.GroupKind
	// Want is what is allowed.
	Want string
}

// Error names the kind and what to name instead.
func (e *InvalidReferenceError) Error() string {
	return fmt.Sprintf("%s cannot be referenced here: name %s", e.GroupKind, e.Want)
}

// IsInvalidReference reports whether err is, or wraps, an [InvalidReferenceError]: nothing
// behind the reference was, or will be, touched.
func IsInvalidReference(err error) bool {
	var invalid *InvalidReferenceError
	return errors.As(err, &invalid)
}

// CheckInstance refuses a reference that cannot name a provider's object: kinds of Cluster API
// itself, which keep the contract's label too, and templates.
func CheckInstance(gk schema.GroupKind) error {
	if gk.Group == clusterv1.GroupVersion.Group {
		return &InvalidReferenceError{gk, "an object of a provider"}
	}
	if kind, isTemplate := strings.CutSuffix(gk.Kind, templateSuffix); isTemplate {
		return &InvalidReferenceError{gk, "the object itself, of a kind such as " + kind + ", and not a template"}
	}
	return nil
}

// CheckTemplate refuses a reference that cannot name a provider's template.
func CheckTemplate(gk schema.GroupKind) error {
	if gk.Group == clusterv1.GroupVersion.Group {
		return &InvalidReferenceError{gk, "a template of a provider"}
	}
	if kind, isTemplate := strings.CutSuffix(gk.Kind, templateSuffix); !isTemplate || kind == "" {
		return &InvalidReferenceError{gk, "a template, whose kind ends in " + templateSuffix}
	}
	return nil
}

// CheckRemediationTemplate refuses a reference that cannot name the template of remediation
// requests: from any other template an object that costs money could be made, or one that
// is a Machine's be taken for a request.
func CheckRemediationTemplate(gk schema.GroupKind) error {
	suffix := remediationSuffix + templateSuffix
	if !strings.Contains(gk.Group, ".") || gk.Group == clusterv1.GroupVersion.Group || !strings.HasSuffix(gk.Kind, suffix) || gk.Kind == suffix {
		return &InvalidReferenceError{gk, "a template of remediation requests, whose kind ends in " + suffix}
	}
	return nil
}

// CheckScope refuses an object that belongs to no namespace: others share it, and a reference leads into its own
// namespace only. A client drops the namespace from the key of such a kind.
func CheckScope(gk schema.GroupKind, object client.Object) error {
	if object.GetNamespace() == "" {
		return &InvalidReferenceError{gk, "an object of this namespace, and not one of the whole cluster"}
	}
	return nil
}
