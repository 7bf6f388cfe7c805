// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Package contract reads and writes the objects of infrastructure, bootstrap and control
// plane providers by the Cluster API contract their CRD is labelled with, on unstructured
// objects: it imports no Go types of providers. It owns where a field of the contract is in each
// contract version, which API version of a kind to use, and the watches on
// provider kinds that appear while the manager runs. It decides nothing about Machines;
// the machine, machineset and cluster controllers call it.
package contract

import (
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"drover.io/runtime/predicates"
)

// Version is a version of the Cluster API contract that a provider's CRD can be labelled with.
type Version string

// The contract versions understood here, newest last.
const (
	V1Beta1 Version = "v1beta1"
	V1Beta2 Version = "v1beta2"
)

// label is the key of the CRD label that lists the API versions keeping contract v.
func (v Version) label() string { return "cluster.x-k8s.io/" + string(v) }

// MissingCRDError means that no CRD serves a referenced kind, or none that this manager may see.
type MissingCRDError struct {
	GroupKind schema.GroupKind
	CRDName   string
}

// Error names the CRD to install.
func (e *MissingCRDError) Error() string {
	return fmt.Sprintf("no CustomResourceDefinition %q for kind %s: install the provider that serves it or correct the reference", e.CRDName, e.GroupKind)
}

// MissingLabelError means that a CRD carries no label of a contract version understood here.
type MissingLabelError struct {
	CRDName string
}

// Error names the CRD and the label it lacks.
func (e *MissingLabelError) Error() string {
	return fmt.Sprintf("CustomResourceDefinition %q has no label %s=<version>: the contract version is unknown", e.CRDName, V1Beta2.label())
}

// ForbiddenError means that this manager's ServiceAccount may not read a provider kind.
type ForbiddenError struct {
	GroupKind schema.GroupKind
	Err       error
}

// Error names the way to grant the permission.
func (e *ForbiddenError) Error() string {
	return fmt.Sprintf("not allowed to read kind %s: give the provider a ClusterRole labelled cluster.x-k8s.io/aggregate-to-manager=true (%v)", e.GroupKind, e.Err)
}

// Unwrap returns the API server's own refusal.
func (e *ForbiddenError) Unwrap() error { return e.Err }

// TemplateMissingError means that a template does not exist. The API server's own NotFound is in it.
type TemplateMissingError struct {
	Kind string
	Key  client.ObjectKey
	Err  error
}

// Error has what helps.
func (e *TemplateMissingError) Error() string {
	return fmt.Sprintf("%s %q does not exist in namespace %q: create it, or name another in spec.template", e.Kind, e.Key.Name, e.Key.Namespace)
}

// Unwrap returns the API server's own answer.
func (e *TemplateMissingError) Unwrap() error { return e.Err }

// MaxElements is how many objects, arrays and values an object may have that is read as a whole from the API server.
const MaxElements = 20_000

// TooLargeError means that an object has more than [MaxElements]: to read it would take memory that all namespaces share.
type TooLargeError struct {
	GroupKind schema.GroupKind
	Name      string
}

// Error names the object and the limit.
func (e *TooLargeError) Error() string {
	return fmt.Sprintf("%s %q has more than %d elements: make it smaller", e.GroupKind.Kind, e.Name, MaxElements)
}

// IsMisconfigured reports whether err needs a person to install, label, permit or correct
// something before the referenced object can be read; retrying alone will not help.
func IsMisconfigured(err error) bool {
	var (
		crd       *MissingCRDError
		label     *MissingLabelError
		forbidden *ForbiddenError
		large     *TooLargeError
		foreign   *predicates.ForeignError
	)
	return errors.As(err, &foreign) || errors.As(err, &large) || errors.As(err, &crd) || errors.As(err, &label) || errors.As(err, &forbidden) || IsInvalidReference(err)
}
