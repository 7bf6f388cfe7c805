// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package kubevirt

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"drover.io/infra-providers/driver"
	"drover.io/infra-providers/driver/drivertest"
)

var vmResource = schema.GroupResource{Group: "kubevirt.io", Resource: "virtualmachines"}

func TestErrorKinds(t *testing.T) {
	t.Parallel()
	terminating := apierrors.NewForbidden(vmResource, "vm", errors.New("namespace is being terminated"))
	terminating.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause}}
	for name, test := range map[string]struct {
		err error
		is  func(error) bool
	}{
		"credentials are refused":                {apierrors.NewUnauthorized("x"), driver.IsUnauthorized},
		"a permission is missing":                {apierrors.NewForbidden(vmResource, "vm", errors.New("no")), driver.IsUnauthorized},
		"a webhook refuses with a bare code":     {&apierrors.StatusError{ErrStatus: metav1.Status{Code: http.StatusForbidden}}, driver.IsUnauthorized},
		"too many requests":                      {&url.Error{Op: "Get", URL: "https://x", Err: &driver.RateLimitedError{Err: errLimited}}, driver.IsRateLimited},
		"the namespace is being deleted":         {terminating, drivertest.HasNoKind},
		"a conflict":                             {apierrors.NewConflict(vmResource, "vm", errors.New("x")), drivertest.HasNoKind},
		"the API server fails":                   {apierrors.NewInternalError(errors.New("x")), drivertest.HasNoKind},
		"no answer":                              {&url.Error{Op: "Get", URL: "https://x", Err: errors.New("refused")}, drivertest.HasNoKind},
		"the end of the context":                 {context.DeadlineExceeded, drivertest.HasNoKind},
		"an object that does not exist":          {apierrors.NewNotFound(vmResource, "vm"), drivertest.HasNoKind},
		"a kind that is not served":              {unknownPath(), drivertest.HasNoKind},
		"a kind that is not served, in an error": {fmt.Errorf("x: %w", unknownPath()), drivertest.HasNoKind},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if err := toError(test.err); !test.is(err) {
				t.Errorf("got %T %v", err, err)
			}
		})
	}
}

// TestNotFound: only what an API server answers about the object itself proves that it does not exist.
func TestNotFound(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		err  error
		want bool
	}{
		"the object":                    {apierrors.NewNotFound(vmResource, "vm"), true},
		"another object":                {apierrors.NewNotFound(vmResource, "other"), false},
		"the namespace":                 {apierrors.NewNotFound(schema.GroupResource{Resource: "namespaces"}, "vm"), false},
		"the path":                      {unknownPath(), false},
		"a page of a proxy":             {&apierrors.StatusError{ErrStatus: metav1.Status{Code: http.StatusNotFound, Reason: metav1.StatusReasonNotFound}}, false},
		"no answer":                     {errors.New("virtualmachines vm not found"), false},
		"a refusal with the same words": {apierrors.NewForbidden(vmResource, "vm", errors.New("not found")), false},
	} {
		if got := isNotFound(test.err, "virtualmachines", "vm"); got != test.want {
			t.Errorf("%s: got %t, want %t", name, got, test.want)
		}
	}
}

// unknownPath is the answer of an API server that does not serve the kind, as client-go reads it.
func unknownPath() error {
	return apierrors.NewGenericServerResponse(http.StatusNotFound, "get", vmResource, "vm", "404 page not found", 0, true)
}
