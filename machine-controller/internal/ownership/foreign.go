// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package ownership

import (
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"drover.io/machine-controller/internal/contract"
)

// ForeignError means that a provider's object belongs to something other than the Machine or Cluster that refers to it.
// Nothing of such an object is read into the Machine or Cluster, and it is not deleted.
type ForeignError struct {
	// Kind and Name are those of the object, Owner describes what it belongs to.
	Kind, Name, Owner string
	// Referrer is the kind of the object that refers to it, Field the place of the reference.
	Referrer, Field string
}

// Error names the object, its owner and the possible corrections.
func (e *ForeignError) Error() string {
	return fmt.Sprintf("%s: %s %q belongs to %s: reference an object that no other owner uses, or delete this %s, which leaves %s %q as it is",
		e.Field, e.Kind, e.Name, e.Owner, e.Referrer, e.Kind, e.Name)
}

// foreignError is the error for an object that the owner of the kind and name prevents from being adopted.
func (a Adoption) foreignError(object *unstructured.Unstructured) error {
	return &ForeignError{
		Kind: object.GetKind(), Name: object.GetName(), Owner: fmt.Sprintf("%s %q", a.Foreign.Kind, a.Foreign.Name), Referrer: a.Kind, Field: a.Field,
	}
}

// IsRefused reports whether a Machine or Cluster must not use or delete the object that it refers to.
func IsRefused(err error) bool {
	var foreign *ForeignError
	return errors.As(err, &foreign) || contract.IsInvalidReference(err)
}
